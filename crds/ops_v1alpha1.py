"""`ops.vworkspace.io/v1alpha1`: Operation, one action on an ApplicationInstance (a backup, a restore, an upgrade, a command); and Cluster,
the registration of this cluster with a control plane.

Guarantees: group, kind, fields, columns and the shape of the status equal the vworkspace operator's, so its objects are accepted.
`spec.cancel`, `spec.timeoutSeconds`, `spec.ttlSecondsAfterFinished` and `status.engineMissingSince` are ours. The API server checks
everything that CEL can express; the message of each rule names the correct form.

The reconciler checks the rest (Accepted=False/ValidationFailed): the parameters, whose schema depends on the engine.

Source: docs/reference/operations.md#api, docs/reference/operations.md#conditions.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from konverge.crds.declaration import Column
from konverge.crds.engine_names import EngineName
from konverge.crds.markers import Cel, Immutable, PreserveUnknown
from konverge.crds.operation_types import OperationType
from konverge.crds.resource import CustomResource, resource
from konverge.crds.status import Status
from konverge.model import Model

__all__ = [
    "CANCEL",
    "GROUP",
    "Approvals",
    "Capabilities",
    "Cluster",
    "ClusterPhase",
    "ClusterSpec",
    "ClusterStatus",
    "CredentialStatus",
    "EngineName",
    "EngineRef",
    "LogsRef",
    "Operation",
    "OperationSpec",
    "OperationStatus",
    "OperationType",
    "Phase",
    "SecretReference",
    "TargetRef",
    "TokenSecretRef",
]

GROUP = "ops.vworkspace.io"
CANCEL = "ops.vworkspace.io/cancel"
"""An annotation: with the value "true" the Operation is cancelled, as by `spec.cancel`."""

Phase = Literal["Pending", "Running", "Succeeded", "Failed", "Cancelled"]

_TIME = Field(json_schema_extra={"format": "date-time"})
Time = Annotated[str, _TIME]
"""A moment, as RFC 3339 writes it."""


class TargetRef(Model):
    """The object that the Operation acts on, in the namespace of the Operation."""

    api_version: Annotated[
        str,
        Field(min_length=1, max_length=253),
        Cel(
            "self == 'apps.vworkspace.io/v1alpha1'",
            "the target is an ApplicationInstance: write apps.vworkspace.io/v1alpha1",
        ),
    ]
    """`apps.vworkspace.io/v1alpha1`."""
    kind: Annotated[
        str,
        Field(min_length=1, max_length=63),
        Cel("self == 'ApplicationInstance'", "the target is an ApplicationInstance: write ApplicationInstance"),
    ]
    """`ApplicationInstance`."""
    name: Annotated[str, Field(min_length=1, max_length=253)]
    """The name of the ApplicationInstance."""


class Approvals(Model):
    """Whether the Operation needs an approval, and the approval."""

    required: bool = False
    """Whether the Operation waits for an approval. The operator's settings name types of Operations that always wait."""
    claim: Annotated[str, Field(max_length=4096)] | None = None
    """The approval: binds cluster, namespace, name and the digest of the spec, and expires. The parameters cannot be changed while
    it is present."""
    approved_by: Annotated[str, Field(max_length=253)] | None = None
    """Who approved, for people to read."""
    approved_at: Time | None = None
    """When it was approved, for people to read."""


class OperationSpec(Model):
    """The action."""

    target_ref: Annotated[TargetRef, Immutable("the target cannot be changed; create another Operation")]
    type: Annotated[OperationType, Immutable("the type cannot be changed; create another Operation")]
    """The action."""
    engine: Annotated[EngineName, Immutable("the engine cannot be changed; create another Operation")]
    """The controller that performs it."""
    parameters: Annotated[dict[str, Any], PreserveUnknown(), Field(default_factory=dict, repr=False)]
    """Parameters of the engine. They cannot be changed once the Operation was started or an approval is present."""
    approvals: Approvals | None = None
    cancel: Annotated[
        bool, Cel("self || !oldSelf", "a cancelled Operation cannot be resumed; create another Operation")
    ] = False
    """Stops the Operation; it stays as Cancelled. Not part of the original's API."""
    timeout_seconds: Annotated[int, Field(ge=1, le=31_536_000)] | None = None
    """How long the Operation may run, from its start on; then its engine is stopped and it is Failed/Timeout. Not part of the
    original's API."""
    ttl_seconds_after_finished: Annotated[int, Field(ge=0, le=315_360_000)] | None = None
    """After this time a finished Operation is deleted. Its backups are not. Not part of the original's API."""


class EngineRef(Model):
    """The object of the engine that performs the Operation."""

    api_version: str
    kind: str
    name: str
    namespace: str | None = None
    uid: str | None = None
    """The UID of that object as soon as it was created: without it the object is about to be created."""
    generation: int | None = None
    """The generation that the engine has to reach, if the Operation edited an existing object."""


class LogsRef(Model):
    """Where the log is: an object, or a URL."""

    kind: str | None = None
    name: str | None = None
    namespace: str | None = None
    url: str | None = None


class OperationStatus(Status):
    """The observed state."""

    phase: Phase | None = None
    reason: str | None = None
    """Why the Operation is in its phase: the reason of the condition Blocked, Running, Succeeded, Failed or Cancelled."""
    started_at: Time | None = None
    """When the Operation was started on the target."""
    finished_at: Time | None = None
    outputs: dict[str, str] = Field(default_factory=dict)
    """Results, for instance `backupName`, `jobName`."""
    logs_ref: LogsRef | None = None
    engine_ref: EngineRef | None = None
    engine_missing_since: Time | None = None
    """Since when the object of the engine has been missing."""


_FROZEN = Cel(
    "(has(self.spec.parameters) == has(oldSelf.spec.parameters) "
    "&& (!has(self.spec.parameters) || self.spec.parameters == oldSelf.spec.parameters)) "
    "|| !((has(oldSelf.status) && has(oldSelf.status.startedAt)) "
    "|| (has(oldSelf.spec.approvals) && has(oldSelf.spec.approvals.claim) && oldSelf.spec.approvals.claim != ''))",
    "the parameters cannot be changed once the Operation was started or approved; create another Operation",
)


@resource(
    f"{GROUP}/v1alpha1",
    short_names=("op",),
    conditions=("Accepted", "Running", "Succeeded", "Failed", "Cancelled", "Blocked"),
    columns=(
        Column("Phase", ".status.phase"),
        Column("Type", ".spec.type"),
        Column("Engine", ".spec.engine"),
        Column("Reason", ".status.reason", priority=1),
    ),
    rules=(_FROZEN,),
    written_by="tenants",
)
class Operation(CustomResource[OperationSpec, OperationStatus]):
    """One action on an ApplicationInstance, which an engine performs."""

    @property
    def finished(self) -> bool:
        """Whether the phase is terminal: nothing leaves it."""
        return self.status.phase in ("Succeeded", "Failed", "Cancelled")

    @property
    def asked_to_cancel(self) -> bool:
        """Whether spec or annotation request to cancel the Operation."""
        return self.spec.cancel or self.annotations.get(CANCEL) == "true"


ClusterPhase = Literal["Pending", "Registering", "Connected", "Disconnected", "Error", "Terminating"]

_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
_KEY = r"^[-._a-zA-Z0-9]+$"
# No user and password (they would be stored in the clear), no query, no fragment.
_ENDPOINT = r"^https?://[^\s/?#@]+(/[^\s?#@]*)?$"

Endpoint = Annotated[str, Field(max_length=2048, pattern=_ENDPOINT)]


class TokenSecretRef(Model):
    """A Secret in the namespace of the operator that holds the registration token."""

    name: Annotated[str, Field(min_length=1, max_length=253, pattern=_NAME)]
    """The name of the Secret."""
    key: Annotated[str, Field(min_length=1, max_length=253, pattern=_KEY)] = "registrationToken"
    """The key whose value is the token."""


class Capabilities(Model):
    """The controllers that the control plane expects in this cluster; ControllersHealthy reports on them."""

    flux: bool = False
    """Flux, for applications."""
    velero: bool = False
    """Velero, for backups."""


@Cel(
    "has(self.controlPlaneEndpoint) || has(self.controlPlaneBaseUrl)",
    "controlPlaneEndpoint: give the URL of the control plane",
)
class ClusterSpec(Model):
    """The control plane, and how to register with it."""

    cluster_id: Annotated[
        str,
        Field(pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"),
        Immutable("the identity of the cluster cannot be changed; delete this Cluster and create another"),
    ]
    """The identity under which the control plane knows this cluster; it becomes a label of everything that is applied."""
    control_plane_endpoint: Endpoint | None = None
    """The URL of the control plane."""
    control_plane_base_url: Endpoint | None = None
    """Deprecated: use controlPlaneEndpoint, which wins."""
    registration_token_secret_ref: TokenSecretRef | None = None
    """The token to register with."""
    registration_token: Annotated[str | None, Field(max_length=8192, repr=False)] = None
    """Deprecated: use registrationTokenSecretRef. The token itself; removed as soon as it was used."""
    capabilities: Capabilities | None = None
    rotate_credentials: bool = False
    """Replace the credential now; removed as soon as that is done."""


class CredentialStatus(Model):
    """Where the credential is, and since when."""

    secret_name: str | None = None
    secret_namespace: str | None = None
    registered_at: Time | None = None
    registration_token_consumed: bool | None = None
    """Whether the present token was used."""


class SecretReference(Model):
    """A Secret."""

    name: str
    namespace: str


class ClusterStatus(Status):
    """The observed state."""

    phase: ClusterPhase | None = None
    last_heartbeat: Time | None = None
    """When the control plane responded last; written once a minute."""
    credential_status: CredentialStatus | None = None
    credentials_secret_ref: SecretReference | None = None
    observed_token: str | None = None
    """The first part of the SHA-256 of the token that registered the cluster; another token registers it again."""


@resource(
    f"{GROUP}/v1alpha1",
    short_names=("cluster",),
    scope="Cluster",
    conditions=("Connected", "Disconnected", "Authenticated", "ControllersHealthy", "BufferOverflow"),
    columns=(Column("Phase", ".status.phase"), Column.condition("Connected")),
    viewable=False,  # registrationToken is a secret
)
class Cluster(CustomResource[ClusterSpec, ClusterStatus]):
    """The registration of this cluster with a control plane, whose jobs an agent fetches and carries out."""

    @property
    def endpoint(self) -> str:
        """The URL of the control plane."""
        return (self.spec.control_plane_endpoint or self.spec.control_plane_base_url or "").rstrip("/")
