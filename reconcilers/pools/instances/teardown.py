"""Which parts of an instance may be deleted. Pure; the order is the order of `NextcloudInstanceReconciler.finalize`.

An assigned instance is deleted only after its Nextcloud released it, or with the label force-delete. Retain keeps everything but the
release. A database is deleted if database.deleteOnCleanup is true, or, if the field is unset, with the namespace that the instance owns: an
explicit false keeps database and namespace. A spare member of a pool has no tenant's data, so Retain does not apply, and its database is
deleted unless deleteOnCleanup is false; otherwise each roll of a pool would leave databases and buckets behind.
"""

from __future__ import annotations

from konverge.crds.pools_v1alpha1 import NextcloudInstance
from konverge.objects import Object
from konverge.reconcilers.pools.words import PoolsAnnotation, PoolsLabel
from konverge.words import Label

__all__ = [
    "controls",
    "deletes_database",
    "is_ours",
    "is_protected",
    "is_released",
    "is_spare",
    "is_younger",
    "keeps_data",
    "owns_namespace",
    "refusal",
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


def is_younger(instance: NextcloudInstance, found: Object) -> bool:
    """Tell whether an object was created after the instance: the API server sets both times, and no writer can change them."""
    began, created = instance.metadata.created, found.metadata.created
    return began is None or created is None or created >= began


def is_ours(instance: NextcloudInstance, found: Object) -> bool:
    """Tell whether an object was created for this very instance: its label names the UID, and it is not older than the instance."""
    return found.metadata.label(Label.OWNER_UID) == instance.uid and is_younger(instance, found)


def controls(instance: NextcloudInstance, found: Object) -> bool:
    """Tell whether an object has the controller reference of the instance."""
    owner = found.metadata.controller
    return owner is not None and owner.uid == instance.uid


def owns_namespace(instance: NextcloudInstance, namespace: Object | None) -> bool:
    """Tell whether a namespace carries the label of the instance."""
    return namespace is not None and namespace.metadata.label(PoolsLabel.INSTANCE) == instance.name


def deletes_database(instance: NextcloudInstance, *, owns_the_namespace: bool) -> bool:
    """Tell whether the managed database is deleted with the instance."""
    database = instance.spec.database
    said = None if database is None else database.delete_on_cleanup
    return owns_the_namespace or is_spare(instance) if said is None else said
