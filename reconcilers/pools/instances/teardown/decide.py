"""Which parts of an instance are deleted, and what their deletion waits for. Pure; the order of the parts is in `reconciler.py`.

An assigned instance is deleted only after its Nextcloud released it, or with the label force-delete. Retain keeps everything but the
release. A database is deleted if database.deleteOnCleanup is true, or, if the field is unset, with the namespace that the instance owns: an
explicit false keeps database and namespace. A spare member of a pool has no tenant's data, so Retain does not apply, and its database is
deleted unless deleteOnCleanup is false; otherwise each roll of a pool would leave databases and buckets behind.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import timedelta

from konverge.crds.pools_v1alpha1 import DataBackup, NextcloudInstance
from konverge.kinds import Kind
from konverge.objects import Object
from konverge.reconcilers.pools.instances.backups import SCHEDULED_BACKUP
from konverge.reconcilers.pools.instances.file_backups import copy_target
from konverge.reconcilers.pools.instances.ownership import is_ours, is_younger
from konverge.reconcilers.pools.instances.postgres import CNPG_CLUSTER
from konverge.reconcilers.pools.instances.steps import StepState
from konverge.reconcilers.pools.instances.words import TeardownReason
from konverge.reconcilers.pools.kinds import NAMESPACE, SECRET, VOLUME_CLAIM
from konverge.reconcilers.pools.words import PoolsAnnotation, PoolsLabel
from konverge.reconcilers.shared.delays import END_OF_OBJECT
from konverge.runtime import Delete

__all__ = [
    "PartEnd",
    "copies_to_delete",
    "database_end",
    "deletes_database",
    "is_protected",
    "is_released",
    "is_spare",
    "keeps_data",
    "keeps_namespace",
    "namespace_end",
    "owns_namespace",
    "refusal",
    "secrets_end",
    "volumes_end",
    "waiting",
]


def is_released(instance: NextcloudInstance) -> bool:
    """Tell whether the Nextcloud that claimed the instance has released it."""
    claim = instance.spec.claim_ref
    return claim is not None and instance.metadata.annotation(PoolsAnnotation.RELEASED) == claim.uid


def is_protected(instance: NextcloudInstance) -> bool:
    """Tell whether the deletion of the instance has to wait: it is assigned."""
    taken = instance.spec.claim_ref is not None or instance.metadata.label(PoolsLabel.ASSIGNED) == PoolsLabel.TRUE
    forced = instance.metadata.label(PoolsLabel.FORCE_DELETE) == PoolsLabel.TRUE
    return taken and not forced and not is_released(instance)


def refusal(instance: NextcloudInstance) -> str:
    """Return why the deletion of a protected instance waits, and how to end the wait."""
    claim, since = instance.spec.claim_ref, instance.metadata.annotation(PoolsAnnotation.ORPHANED_SINCE)
    force = f"label the instance {PoolsLabel.FORCE_DELETE}={PoolsLabel.TRUE}"
    if claim is None:
        return f"the label {PoolsLabel.ASSIGNED} marks the instance as assigned, and it names no Nextcloud: {force}"
    path = f"{claim.namespace}/{claim.name}"
    if since:
        return f"Nextcloud {path} has been missing since {since}: the deletion goes on after the grace time, or {force}"
    return f"the instance is assigned: delete Nextcloud {path}, or {force}"


def is_spare(instance: NextcloudInstance) -> bool:
    """Tell whether the instance is a member of a pool that was never assigned: any single sign of a claim rules that out."""
    metadata, status = instance.metadata, instance.status
    claimed = (
        instance.spec.claim_ref,
        status.claim_ref,
        status.assigned_at,
        metadata.label(PoolsLabel.CLAIM_UID),
        metadata.annotation(PoolsAnnotation.RELEASED),
    )
    member = bool(metadata.label(PoolsLabel.POOL)) and metadata.label(PoolsLabel.ASSIGNED) == PoolsLabel.FALSE
    return member and not any(claimed)


def keeps_data(instance: NextcloudInstance) -> bool:
    """Tell whether bucket, database, volumes, Secrets and namespace outlive the instance."""
    return instance.spec.reclaim_policy == "Retain" and not is_spare(instance)


def owns_namespace(instance: NextcloudInstance, namespace: Object | None) -> bool:
    """Tell whether a namespace carries the label of the instance."""
    return namespace is not None and namespace.metadata.label(PoolsLabel.INSTANCE) == instance.name


def deletes_database(instance: NextcloudInstance, *, owns_the_namespace: bool) -> bool:
    """Tell whether the managed database is deleted with the instance."""
    database = instance.spec.database
    choice = None if database is None else database.delete_on_cleanup
    return owns_the_namespace or is_spare(instance) if choice is None else choice


# --- the end of each part --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PartEnd:
    """The objects to delete for a part of an instance, and why the deletion of the instance waits for the part, None if it does not."""

    deletes: tuple[Delete, ...] = ()
    waits: StepState | None = None


def waiting(reason: str, message: str, again: timedelta) -> StepState:
    """Return that the deletion waits."""
    return StepState(ready=False, reason=reason, message=message, again=again)


def copies_to_delete(instance: NextcloudInstance) -> DataBackup | None:
    """Return the destination of the copies of the files if the copies are deleted with the instance."""
    target = copy_target(instance.spec)
    return target if target is not None and target.delete_on_cleanup else None


def database_end(instance: NextcloudInstance, cluster: Object, schedule: Object | None, retry: timedelta) -> PartEnd:
    """Delete the ScheduledBackup and then the Cluster of the instance."""
    deletes: list[Delete] = []
    if schedule is not None and is_ours(instance, schedule):
        deletes.append(_delete(SCHEDULED_BACKUP, schedule))
    if not cluster.metadata.deleting:
        deletes.append(_delete(CNPG_CLUSTER, cluster))
    return PartEnd(tuple(deletes), waiting(TeardownReason.DATABASE, f"Cluster {cluster.name} is being deleted", retry))


def secrets_end(instance: NextcloudInstance, secrets: Iterable[Object]) -> PartEnd:
    """Delete the generated Secrets."""
    ours = [secret for secret in secrets if is_ours(instance, secret)]
    return _end_of_all(SECRET, ours, TeardownReason.SECRETS)


def volumes_end(instance: NextcloudInstance, claims: Iterable[Object]) -> PartEnd:
    """Delete the volumes that the chart left behind; the volumes of a database that stays have an owner, and an older volume stays."""
    ours = [claim for claim in claims if not claim.metadata.owner_references and is_younger(instance, claim)]
    return _end_of_all(VOLUME_CLAIM, ours, TeardownReason.VOLUMES)


def keeps_namespace(instance: NextcloudInstance, others: Collection[Object]) -> bool:
    """Tell whether the namespace that the instance owns stays, for another instance or for a database that stays."""
    database = instance.spec.database
    return bool(others) or (database is not None and database.delete_on_cleanup is False)


def namespace_end(namespace: Object) -> PartEnd:
    """Delete the namespace: it waits for the instance, so the instance does not wait for the namespace."""
    return PartEnd(() if namespace.metadata.deleting else (_delete(NAMESPACE, namespace),))


def _end_of_all(kind: Kind[Object], objects: list[Object], reason: str) -> PartEnd:
    """Delete objects; objects with finalizers are waited for."""
    deletes = tuple(_delete(kind, stored) for stored in objects if not stored.metadata.deleting)
    held = [stored.name for stored in objects if stored.metadata.finalizers]
    if not held:
        return PartEnd(deletes)
    message = f"{kind.kind} {', '.join(held)}: being deleted, held by a finalizer"
    return PartEnd(deletes, waiting(reason, message, END_OF_OBJECT))


def _delete(kind: Kind[Object], stored: Object) -> Delete:
    return Delete(kind, stored.name, stored.namespace, uid=stored.metadata.uid)
