"""Settings of Operations: every number and switch, with unit, default and reason."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from konverge.crds.engine_names import EngineName
from konverge.crds.operation_types import OperationType
from konverge.reconcilers.shared.durations import Duration

__all__ = ["OperationSettings", "RestorableRight"]

RestorableRight = Literal["roles", "rolebindings", "resourcequotas", "limitranges", "helmreleases", "kustomizations"]
"""A kind that a Restore leaves out unless the settings allow it."""


class OperationSettings(BaseModel):
    """How Operations are checked, ordered and performed.

    >>> OperationSettings.model_validate({"missing_grace": "30s"}).missing_grace.total_seconds()
    30.0
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = True
    """Reconcile Operations."""
    engines: frozenset[EngineName] = frozenset(get_args(EngineName))
    """The engines that Operations may use; rights on the objects of others are not needed."""
    velero_namespace: Annotated[str, Field(min_length=1, max_length=63)] = "velero"
    """The namespace of the Velero server, which watches no other namespace; Backups and Restores are created in it."""
    restorable_rights: frozenset[RestorableRight] = frozenset()
    """Kinds that a Restore of Velero may restore although they grant rights or limit a tenant. Velero acts as an administrator of the
    cluster, so a Restore also restores a RoleBinding that was deleted since the backup, and an earlier quota. HelmReleases and
    Kustomizations without a service account run with the rights of Flux. Empty: no such kind."""
    runner_service_account: Annotated[str, Field(min_length=1, max_length=253)] = "vworkspace-operation-runner"
    """The service account of the pods of commands, in the namespace of the Operation. No Operation can choose another account."""
    job_ttl: Duration = timedelta(days=1)
    """How long a finished Job and its log are kept, unless the Operation's parameters set ttlSecondsAfterFinished."""
    approval_types: frozenset[OperationType] = frozenset({"Restore"})
    """Types of Operations that always need an approval."""
    ready_types: frozenset[OperationType] = frozenset({"Migration"})
    """Types of Operations that wait until their target is Ready."""
    settled_types: frozenset[OperationType] = frozenset({"Restore", "Upgrade"})
    """Types of Operations that wait while their target is in transition, and start once it is Ready or has failed: they repair it."""
    require_capability: bool = True
    """Refuse an Operation whose target does not name the engine in its annotation `ops.vworkspace.io/<verb>`."""
    window_types: frozenset[OperationType] = frozenset({"Restore", "Upgrade", "Migration"})
    """Types of Operations that start only in the maintenance window of their target or namespace, if one is given."""
    namespace_policy: bool = True
    """Read the annotations of an Operation's namespace before it starts: the types that it allows, its maintenance window. Needs the right
    to get namespaces, which the engine velero has anyway; false: only the target's annotations count."""
    missing_grace: Duration = timedelta(seconds=60)
    """How long the object of an engine may be missing before its Operation is Failed/EngineObjectLost."""
    engine_silence: Annotated[Duration, Field(gt=timedelta(0))] = timedelta(minutes=15)
    """How long the controller of Velero, Argo or VolSync may be silent until an Operation reports it, and until an Operation that has to
    stop ends without its controller. Longer than the longest exit handler of a Workflow, which may write nothing."""
    history_limit: Annotated[int, Field(ge=1)] | None = None
    """How many finished Operations of one target are kept; the oldest are deleted, and their backups stay. null: all are kept."""
