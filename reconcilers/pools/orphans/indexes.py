"""Which instances a deleted Nextcloud concerns, and which changes of an instance concern its claim."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from konverge.informers import Change
from konverge.keys import Key
from konverge.objects import Object
from konverge.reconcilers.pools.claims.indexes import BY_CLAIM, by_claim
from konverge.reconcilers.pools.kinds import INSTANCE, NEXTCLOUD

if TYPE_CHECKING:
    from konverge.runtime import Caches

__all__ = ["claim_changed", "instances_of_claim", "is_deleted"]


def instances_of_claim(nextcloud: Object, caches: Caches) -> Iterable[Key]:
    """Map a deleted Nextcloud to its instances; another Nextcloud may have its name now."""
    stored = caches(NEXTCLOUD).metadata(nextcloud.namespace, nextcloud.name)
    if stored is not None and stored.uid == nextcloud.metadata.uid:
        return []
    instances = caches(INSTANCE).metadata_by_index(BY_CLAIM, nextcloud.metadata.uid)
    return [Key("", INSTANCE, instance.namespace, instance.name) for instance in instances]


def claim_changed(change: Change) -> bool:
    """Accept changes of an instance that concern its claim, for the sweeper: no changes of its status."""
    if change.old is None or change.new is None:
        return True
    return by_claim(change.old.decode(INSTANCE)) != by_claim(change.new.decode(INSTANCE))


def is_deleted(change: Change) -> bool:
    """Accept the deletion of an object."""
    return change.new is None
