"""The index of instances by pool, and which pools a change of an instance or a profile concerns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from konverge.crds.pools_v1alpha1 import NextcloudPool
from konverge.informers import Cached, Change
from konverge.keys import Key
from konverge.kinds import kind_of
from konverge.objects import Object
from konverge.reconcilers.pools.kinds import INSTANCE, POOL
from konverge.reconcilers.pools.members import is_taken
from konverge.reconcilers.pools.words import PoolsAnnotation, PoolsLabel

if TYPE_CHECKING:
    from konverge.runtime import Caches

__all__ = ["BY_POOL", "by_pool", "counts_for_pool", "pool_of", "pools_of_profile"]

BY_POOL: Final = "pool"


def by_pool(instance: Object) -> tuple[str, ...]:
    """Return the values of the index BY_POOL."""
    pool = instance.metadata.label(PoolsLabel.POOL)
    return (pool,) if pool else ()


def pool_of(instance: Object, _: Caches) -> Iterable[Key]:
    """Map an instance to its pool."""
    return [Key("", kind_of(NextcloudPool), "", pool) for pool in by_pool(instance)]


def pools_of_profile(profile: Object, caches: Caches) -> Iterable[Key]:
    """Map a profile to the pools that name it."""
    return [
        Key("", kind_of(NextcloudPool), "", pool.name)
        for pool in caches(POOL).list()
        if pool.get("spec", "profileRef", "name", default="") == profile.name
    ]


def counts_for_pool(change: Change) -> bool:
    """Accept changes of an instance that its pool looks at: most are news of its status."""
    if change.old is None or change.new is None:
        return True
    return _looks(change.old) != _looks(change.new)


def _looks(cached: Cached) -> tuple[Any, ...]:
    instance = cached.decode(INSTANCE)
    metadata = instance.metadata
    return (
        metadata.uid,
        metadata.label(PoolsLabel.POOL),
        metadata.annotation(PoolsAnnotation.PROFILE_DIGEST),
        metadata.annotation(PoolsAnnotation.RELEASED),
        metadata.deleting,
        is_taken(instance),
        instance.get("status", "phase", default=""),
    )
