"""A managed PostgreSQL: the CloudNativePG Cluster of an instance, and its status as a condition.

A Cluster is ready if Ready is True, as many members as requested are ready, and its Secret exists. Neither Initialized nor the Secret is
enough: both exist seconds after the create, while no pod runs (docs/reference/cloudnativepg.md). The status has no observedGeneration, so a
change of the spec is not waited for.

Guarantees: pure; every status of every shape has a result. The Cluster has no owner reference: the garbage collector never deletes a
database.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from konverge.clock import from_rfc3339
from konverge.conditions import Condition
from konverge.crds.pools_v1alpha1 import InstanceSettings, NextcloudInstance
from konverge.kinds import Kind, kind
from konverge.objects import Object
from konverge.reconcilers.pools.instances.backups import backup_section, backup_target
from konverge.reconcilers.pools.instances.names import bucket_name, cluster_name
from konverge.reconcilers.pools.instances.words import Cnpg, DatabaseReason
from konverge.runtime import back_reference

__all__ = [
    "CNPG_CLUSTER",
    "MAX_CLUSTER_NAME",
    "DatabaseState",
    "application_secret",
    "cluster_of",
    "cluster_spec",
    "members_of",
    "translate",
]

CNPG_CLUSTER: Final[Kind[Object]] = kind("postgresql.cnpg.io/v1", "Cluster", namespaced=True, plural="clusters")

MAX_CLUSTER_NAME: Final = 50
"""The longest name that CloudNativePG's webhook accepts."""
_STORAGE: Final = "8Gi"
_DATABASE: Final = "nextcloud"


@dataclass(frozen=True, slots=True)
class DatabaseState:
    """Whether the database is ready, with reason and message; `lasting` if it does not heal by itself."""

    ready: bool
    reason: str
    message: str = ""
    lasting: bool = False
    recheck: datetime | None = None
    """When the state changes without an event."""


def application_secret(cluster: str) -> str:
    """Return the name of the Secret that an application uses to connect.

    >>> application_secret("nc-happy-sun-a1b2c3-db")
    'nc-happy-sun-a1b2c3-db-app'
    """
    return f"{cluster}-app"


def cluster_spec(
    *,
    members: int = 1,
    size: int | str | None = None,
    storage_class: str = "",
    backup: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the fields of a Cluster that we set: the webhook fills in many more, and they are not ours.

    >>> cluster_spec(members=3, size="1Gi")["storage"]
    {'size': '1Gi'}
    """
    storage: dict[str, Any] = {"size": str(size or _STORAGE)}
    if storage_class:
        storage["storageClass"] = storage_class
    return {
        "instances": members,
        "storage": storage,
        "bootstrap": {"initdb": {"database": _DATABASE, "owner": _DATABASE}},
        **(backup or {}),
    }


def members_of(spec: InstanceSettings) -> int:
    """Return how many members the Cluster of a spec has."""
    postgres = spec.database.postgres if spec.database else None
    return (postgres.replicas if postgres else None) or 1


def cluster_of(instance: NextcloudInstance) -> Object:
    """Return the Cluster of an instance."""
    postgres = instance.spec.database.postgres if instance.spec.database else None
    storage = postgres.storage if postgres else None
    labels, annotations = back_reference(instance)
    return CNPG_CLUSTER.new(
        cluster_name(instance.name),
        instance.namespace,
        labels=labels,
        annotations=annotations,
        spec=cluster_spec(
            members=members_of(instance.spec),
            size=storage.size if storage else None,
            storage_class=(storage.storage_class if storage else None) or "",
            backup=backup_section(backup_target(instance.spec), bucket_name(instance.name, instance.uid)),
        ),
    )


def translate(
    cluster: Object | None,
    *,
    members: int,
    secret_exists: bool,
    now: datetime,
    deadline: timedelta,
    since: datetime | None = None,
) -> DatabaseState:
    """Return the state of the database from its Cluster; None if it does not exist yet.

    The deadline counts from `since`, when the database was last seen ready, else from the creation of the Cluster.
    """
    if cluster is None:
        return DatabaseState(False, DatabaseReason.PROVISIONING, "the CloudNativePG Cluster is being created")
    name = cluster.name
    if cluster.metadata.deleting:
        return DatabaseState(False, DatabaseReason.DELETING, f"Cluster {name} is being deleted")
    phase = _text(cluster, "phase")
    if phase.startswith(Cnpg.LASTING):
        message = f"Cluster {name}: {phase}{_because(cluster)}: see its events and the log of CloudNativePG"
        return DatabaseState(False, DatabaseReason.FAILED, message, lasting=True)
    ready, running = _condition(cluster), _number(cluster, "readyInstances")
    if ready is not None and ready.is_true and running >= max(1, members):
        return _connectable(name, secret_exists=secret_exists)
    paused = _paused(cluster)
    if paused:
        return DatabaseState(False, DatabaseReason.PAUSED, f"Cluster {name}: {paused}")
    step = f"{phase}{_because(cluster)}" if phase else "no status yet"
    return _waiting(cluster, f"Cluster {name}: {step} ({running} of {members} members are ready)", now, deadline, since)


def _connectable(name: str, *, secret_exists: bool) -> DatabaseState:
    if secret_exists:
        return DatabaseState(True, DatabaseReason.READY)
    return DatabaseState(
        False,
        DatabaseReason.NO_SECRET,
        f"Cluster {name} is ready, and its Secret {application_secret(name)} does not exist",
    )


def _waiting(
    cluster: Object, message: str, now: datetime, deadline: timedelta, last_ready: datetime | None
) -> DatabaseState:
    since = last_ready or _created(cluster)
    if since is None:
        return DatabaseState(False, DatabaseReason.PROVISIONING, message)
    since = min(since, now)  # a moment in the future plus the deadline may be beyond the calendar
    if now - since >= deadline:
        # CloudNativePG reports neither an unbound volume nor a pod that cannot be scheduled.
        hint = "see whether its PersistentVolumeClaims are bound and its pods are scheduled"
        return DatabaseState(False, DatabaseReason.STALLED, f"{message}; {hint}")
    return DatabaseState(False, DatabaseReason.PROVISIONING, message, recheck=since + deadline)


def _paused(cluster: Object) -> str:
    if cluster.metadata.annotation(Cnpg.LOOP) == "disabled":
        return f"the annotation {Cnpg.LOOP}=disabled stops CloudNativePG; remove it"
    if cluster.metadata.annotation(Cnpg.HIBERNATION) == "on":
        return f"it hibernates; remove the annotation {Cnpg.HIBERNATION}"
    return ""


def _condition(cluster: Object) -> Condition | None:
    conditions = cluster.get("status", "conditions")
    for entry in conditions if isinstance(conditions, list) else ():
        if isinstance(entry, dict) and entry.get("type") == Cnpg.READY:
            return Condition.lenient(entry)
    return None


def _text(cluster: Object, field: str) -> str:
    text = cluster.get("status", field)
    return text if isinstance(text, str) else ""


def _number(cluster: Object, field: str) -> int:
    number = cluster.get("status", field)
    return number if isinstance(number, int) and not isinstance(number, bool) else 0


def _because(cluster: Object) -> str:
    reason = _text(cluster, "phaseReason")
    return f" ({reason})" if reason else ""


def _created(cluster: Object) -> datetime | None:
    try:
        return from_rfc3339(cluster.metadata.creation_timestamp or "")
    except ValueError:
        return None
