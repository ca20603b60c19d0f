"""The indexes of pools, MachinePools and Nodes, and which pools a change concerns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from konverge.crds.machines_v1beta1 import GROUP, NstanceMachinePool
from konverge.informers import Cached, Change
from konverge.keys import Key
from konverge.kinds import kind_of
from konverge.objects import Object
from konverge.reconcilers.machines.kinds import CLUSTER, NODE, POOL
from konverge.reconcilers.machines.words import MachinesAnnotation, MachinesLabel

if TYPE_CHECKING:
    from konverge.runtime import Caches

__all__ = [
    "BY_GROUP",
    "BY_INSTANCE",
    "BY_POOL",
    "by_group",
    "by_node_instance",
    "by_pool",
    "by_pool_instance",
    "new_provider_id",
    "new_provider_id_or_addresses",
    "pause_or_life_changed",
    "pauses",
    "pauses_or_goes",
    "pool_of_machine_pool",
    "pools_of_cluster",
    "pools_of_group",
    "pools_of_node",
    "share_changed",
]

BY_GROUP: Final = "group"
BY_INSTANCE: Final = "instance"
BY_POOL: Final = "pool"


def _instance(provider_id: str) -> str:
    """Return the last part of a provider id, which matches a Node."""
    return provider_id.rpartition("/")[2]


def by_group(pool: Object) -> tuple[str, ...]:
    """Return the values of the index BY_GROUP of pools: a pool of another namespace has no group."""
    group = pool.get("spec", "group", default="")
    return (f"{pool.namespace}/{group}",) if isinstance(group, str) and group else ()


def by_pool_instance(pool: Object) -> tuple[str, ...]:
    """Return the values of the index BY_INSTANCE of pools."""
    listed = pool.get("spec", "providerIDList", default=()) or ()
    return tuple({_instance(str(provider_id)) for provider_id in listed})


def by_node_instance(node: Object) -> tuple[str, ...]:
    """Return the values of the index BY_INSTANCE of Nodes."""
    provider_id = node.get("spec", "providerID", default="")
    return (_instance(provider_id),) if isinstance(provider_id, str) and provider_id else ()


def _pool_name(machine_pool: Object) -> str:
    """Return the pool that a MachinePool refers to."""
    reference = machine_pool.get("spec", "template", "spec", "infrastructureRef", default={}) or {}
    ours = (reference.get("kind"), reference.get("apiGroup")) == ("NstanceMachinePool", GROUP)
    return str(reference.get("name", "")) if ours else ""


def by_pool(machine_pool: Object) -> tuple[str, ...]:
    """Return the values of the index BY_POOL of MachinePools."""
    name = _pool_name(machine_pool)
    return (f"{machine_pool.namespace}/{name}",) if name else ()


def _key(namespace: str, name: str) -> Key:
    return Key("", kind_of(NstanceMachinePool), namespace, name)


def pool_of_machine_pool(machine_pool: Object, _: Caches) -> Iterable[Key]:
    """Map a MachinePool to its pool."""
    name = _pool_name(machine_pool)
    return [_key(machine_pool.namespace, name)] if name else ()


def pools_of_group(pool: Object, caches: Caches) -> Iterable[Key]:
    """Map a pool to the other pools with its group."""
    others = (other for group in by_group(pool) for other in caches(POOL).metadata_by_index(BY_GROUP, group))
    return [_key(other.namespace, other.name) for other in others if other.uid != pool.metadata.uid]


def pools_of_node(node: Object, caches: Caches) -> Iterable[Key]:
    """Map a Node to the pools that list its instance."""
    cache = caches(POOL)
    pools = (pool for instance in by_node_instance(node) for pool in cache.metadata_by_index(BY_INSTANCE, instance))
    return [_key(pool.namespace, pool.name) for pool in pools]


def pools_of_cluster(cluster: Object, caches: Caches) -> Iterable[Key]:
    """Map a Cluster to all pools in its namespace."""
    return caches(POOL).keys(namespace=cluster.namespace)


def new_provider_id(change: Change) -> bool:
    """Accept the Nodes whose provider id is new or removed: most changes of a Node are its heartbeats."""
    return bool(_provider_id(change.old) != _provider_id(change.new))


def new_provider_id_or_addresses(change: Change) -> bool:
    """Accept the Nodes whose provider id or addresses changed: a kubelet may report addresses long after the Node was created."""

    def addresses(cached: Cached | None) -> Any:
        return None if cached is None else cached.decode(NODE).get("status", "addresses", default=None)

    return new_provider_id(change) or addresses(change.old) != addresses(change.new)


def _provider_id(cached: Cached | None) -> Any:
    return None if cached is None else cached.decode(NODE).get("spec", "providerID", default="")


def pauses(change: Change) -> bool:
    """Accept the changes of a Cluster that may pause it."""

    def paused(cached: Cached | None) -> Any:
        return False if cached is None else cached.decode(CLUSTER).get("spec", "paused", default=False)

    return bool(paused(change.old) != paused(change.new))


def pauses_or_goes(change: Change) -> bool:
    """Accept the changes of a Cluster that may pause it, its creation and its deletion."""

    def shown(cached: Cached | None) -> Any:
        return None if cached is None else (cached.uid, cached.metadata.deleting)

    return pauses(change) or shown(change.old) != shown(change.new)


def pause_or_life_changed(change: Change) -> bool:
    """Accept the changes of a pool that matter to other objects: its creation, deletion, pause, group and Cluster."""

    def shown(cached: Cached | None) -> Any:
        if cached is None:
            return None
        metadata = cached.metadata
        return (
            metadata.uid,
            metadata.annotation(MachinesAnnotation.PAUSED, "-"),
            metadata.label(MachinesLabel.CLUSTER),
            by_group(cached.decode(POOL)),
        )

    return bool(shown(change.old) != shown(change.new))


def share_changed(change: Change) -> bool:
    """Accept the changes of a pool that matter to its shard groups: the changes of `pause_or_life_changed`, and of its shards."""

    def shards(cached: Cached | None) -> Any:
        return None if cached is None else cached.decode(POOL).get("spec", "shards", default=None)

    return pause_or_life_changed(change) or shards(change.old) != shards(change.new)
