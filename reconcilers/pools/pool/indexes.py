"""The index of instances by the label of their pool, and which pools a change of another object concerns.

The label only finds instances that may be members; the record in the status of the pool decides.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from konverge.crds.pools_v1alpha1 import NextcloudPool
from konverge.informers import Cached, Change
from konverge.keys import Key
from konverge.kinds import kind_of
from konverge.objects import Object
from konverge.reconcilers.pools.kinds import INSTANCE, NEXTCLOUD, POOL
from konverge.reconcilers.pools.records import HOME, pool_of_member, recorded, served
from konverge.reconcilers.pools.words import PoolsAnnotation, PoolsLabel

if TYPE_CHECKING:
    from konverge.runtime import Caches

__all__ = [
    "BY_POOL",
    "by_pool",
    "changes_service",
    "counts_for_pool",
    "pool_of",
    "pools_of_nextcloud",
    "pools_of_profile",
]

BY_POOL: Final = "pool"


def by_pool(instance: Object) -> tuple[str, ...]:
    """Return the values of the index BY_POOL."""
    pool = instance.metadata.label(PoolsLabel.POOL)
    return (f"{instance.namespace}/{pool}",) if pool else ()


def _key(pool: str) -> Key:
    return Key("", kind_of(NextcloudPool), "", pool)


def pool_of(instance: Object, caches: Caches, *, default_namespace: str) -> Iterable[Key]:
    """Map an instance to the pool that has it in its record, and, in the namespace of its instances, to the pool of its label."""
    pools, name = caches(POOL), instance.metadata.label(PoolsLabel.POOL)
    names = {pool_of_member(instance.metadata, pools)}
    at_home = bool(name and pools.metadata_by_index(HOME, f"{name}/{instance.namespace}"))
    if at_home or (instance.namespace == default_namespace and pools.metadata_by_index(HOME, f"{name}/")):
        names.add(name)
    return [_key(pool) for pool in sorted(names) if pool]


def pools_of_nextcloud(nextcloud: Object, _: Caches) -> Iterable[Key]:
    """Map a Nextcloud to the pool of its instance."""
    pools = {
        str(nextcloud.get("status", *path, default="") or "") for path in (("pool",), ("nominatedInstance", "pool"))
    }
    return [_key(pool) for pool in sorted(pools) if pool]


def changes_service(change: Change) -> bool:
    """Accept changes of a Nextcloud that change the number of served Nextclouds of a pool, or confirm a claim."""
    return _service(change.old) != _service(change.new)


def _service(cached: Cached | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if cached is None:
        return ((), ())
    nextcloud = cached.decode(NEXTCLOUD)
    return served(nextcloud), recorded(nextcloud)


def pools_of_profile(profile: Object, caches: Caches) -> Iterable[Key]:
    """Map a profile to the pools that name it."""
    return [
        _key(pool.name)
        for pool in caches(POOL).list()
        if pool.get("spec", "profileRef", "name", default="") == profile.name
    ]


def counts_for_pool(change: Change) -> bool:
    """Accept changes of an instance that its pool reads: most changes are news of its status."""
    if change.old is None or change.new is None:
        return True
    return _looks(change.old) != _looks(change.new)


def _looks(cached: Cached) -> tuple[Any, ...]:
    instance = cached.decode(INSTANCE)
    metadata = instance.metadata
    own = {name: value for name, value in (metadata.labels or {}).items() if name.startswith(_OWN)}
    notes = {
        name: value
        for name, value in (metadata.annotations or {}).items()
        if name.startswith(_OWN) and name != PoolsAnnotation.RECONCILE
    }
    return (
        metadata.uid,
        own,
        notes,
        metadata.deleting,
        instance.get("spec", "claimRef", "uid", default=""),
        instance.get("status", "phase", default=""),
    )


_OWN: Final = "k8s.bnerd.com/"
