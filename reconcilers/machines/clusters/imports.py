"""Which groups of the servers become pools: groups without a pool, and only while every shard has listed its groups.

A group that was only seen on some shards would become a pool with too few replicas, and Kubernetes would then scale the other shards down.
So nothing is imported before each shard of the document has listed its groups since this process leads; a shard that is added later pauses
the import. A server never changes an imported pool.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from konverge.reconcilers.machines.shards.addresses import is_identifier
from konverge.reconcilers.machines.shards.messages import Group

__all__ = ["ImportPlan", "ImportedPool", "plan_imports"]


@dataclass(frozen=True, slots=True)
class ImportedPool:
    """A pool that is to be created for a group, and the replicas of its MachinePool."""

    group: str
    shards: tuple[str, ...]
    replicas: int
    template: str = ""
    """Empty for a static group, whose template the server has."""
    instance_type: str = ""
    vars: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """The pools to create, the shards without a listing, and the names that no object can have; each sorted."""

    pools: tuple[ImportedPool, ...] = ()
    missing: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


def plan_imports(
    expected: Collection[str], listed: Mapping[str, Collection[Group]], existing: Collection[str]
) -> ImportPlan:
    """Return the pools to create: `listed` is the last listing of each shard; the groups `existing` have or just had a pool."""
    missing = tuple(sorted(set(expected) - listed.keys()))
    if missing or not expected:
        return ImportPlan(missing=missing)
    groups: dict[str, dict[str, Group]] = {}
    for shard in sorted(expected):
        for group in listed[shard]:
            groups.setdefault(group.key, {})[shard] = group
    new = sorted(groups.keys() - set(existing))
    return ImportPlan(
        pools=tuple(_pool(key, groups[key]) for key in new if is_identifier(key)),
        refused=tuple(key for key in new if not is_identifier(key)),
    )


def _pool(key: str, groups: Mapping[str, Group]) -> ImportedPool:
    """Return the pool of a group. If shards differ in a setting, the first shard by name that has the setting decides."""
    dynamic = not any(group.is_static for group in groups.values())
    return ImportedPool(
        group=key,
        shards=tuple(groups),
        replicas=sum(max(group.size, 0) for group in groups.values()),
        template=next((group.template for group in groups.values() if group.template), "") if dynamic else "",
        instance_type=next((group.instance_type for group in groups.values() if group.instance_type), ""),
        vars=next((dict(group.vars) for group in groups.values() if group.vars), {}),
    )
