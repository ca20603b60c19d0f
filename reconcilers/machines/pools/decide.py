"""The sizes of a pool's shard groups, and its status. Pure.

Guarantees: only the MachinePool decides the sizes. A pool is Ready only if each shard has accepted the present settings. While a pool is
invalid, a duplicate, or without MachinePool, its shard groups stay as they are; in particular no shard group is deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from konverge.reconcilers.machines.correlation import pool_provider_ids
from konverge.reconcilers.machines.distribution import distribute
from konverge.reconcilers.machines.shards.addresses import is_identifier
from konverge.reconcilers.machines.words import MachinePoolReason

__all__ = ["ShardSize", "MachinePoolPlan", "SameGroupPool", "SeenPool", "duplicate_of", "plan_pool", "unlisted_ids"]


_NEVER: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ShardSize:
    """A shard group of the pool."""

    shard: str
    size: int = 0
    accepted: bool = False
    """Whether the shard accepted its present generation."""
    problem: str = ""
    replicas: int = 0
    provider_ids: tuple[str, ...] = ()
    is_static: bool = False
    template: str | None = None
    subnets: tuple[str, ...] = ()
    copied: bool = True
    """Whether it has the present settings of the pool, its size aside."""


@dataclass(frozen=True, slots=True)
class SameGroupPool:
    """Another pool of the same group."""

    uid: str
    path: str
    created: datetime | None
    has_groups: bool
    """Whether it has shard groups of the group."""


@dataclass(frozen=True, slots=True)
class SeenPool:
    """A pool as it was observed."""

    group: str
    shards: tuple[str, ...]
    document: Collection[str] | None
    """The shards that the document names; None: it was not read yet."""
    replicas: int | None
    """The replicas of the MachinePool; None without a MachinePool."""
    owner_problem: str = ""
    """The reason why its MachinePool is missing."""
    duplicate_of: str = ""
    members: tuple[ShardSize, ...] = ()
    published: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    """The published ids that stay although no shard lists them now."""


@dataclass(frozen=True, slots=True)
class MachinePoolPlan:
    """The sizes to distribute, and the content of the status."""

    sizes: Mapping[str, int] | None = None
    """The sizes by shard; None: the shard groups stay as they are."""
    ready: bool = False
    reason: str = MachinePoolReason.RECONCILING
    message: str = ""
    provider_ids: tuple[str, ...] = ()
    replicas: int = 0
    is_static: bool = False
    template: str | None = None
    subnets: tuple[str, ...] = field(default=())


def unlisted_ids(published: Iterable[str], members: Iterable[ShardSize]) -> tuple[str, ...]:
    """Return the published ids whose instance no shard lists.

    >>> unlisted_ids(["aws:///z/i-1", "i-2"], [ShardSize("a", provider_ids=("i-1",))])
    ('i-2',)
    """
    listed = {one for member in members for one in member.provider_ids}
    return tuple(one for one in published if not listed & {one, one.rpartition("/")[2]})


def duplicate_of(own: SameGroupPool, others: Iterable[SameGroupPool]) -> str:
    """Return the other pool that owns the group, "" if this pool does: the pool with shard groups, else the oldest.

    A pool that is being deleted owns the group until its deletion ends, since its shard groups delete the group on the servers.
    """
    first = min((own, *others), key=lambda one: (not one.has_groups, one.created or _NEVER, one.uid))
    return "" if first.uid == own.uid else first.path


def plan_pool(seen: SeenPool, nodes_of: Callable[[str], Iterable[str]]) -> MachinePoolPlan:
    """Return the plan; `nodes_of` returns the provider ids of the Nodes that could be an instance's."""
    sizes, reason, message = _sizes(seen)
    instances = [one for member in seen.members for one in member.provider_ids]
    nodes = {node for one in instances for node in nodes_of(one)}
    waiting = _waiting(seen, sizes) if sizes is not None else message
    shown = [member for member in seen.members if sizes is None or member.shard in sizes]
    return MachinePoolPlan(
        sizes=sizes,
        ready=sizes is not None and not waiting,
        reason=MachinePoolReason.RECONCILED if sizes is not None and not waiting else reason,
        message=waiting or f"{sum((sizes or {}).values())} replicas on {len(sizes or {})} shards",
        provider_ids=tuple(
            sorted({*seen.kept, *pool_provider_ids(instances, published=seen.published, node_ids=nodes)})
        ),
        replicas=sum(member.replicas for member in seen.members),
        is_static=any(member.is_static for member in shown),
        template=next((member.template for member in shown if member.template), None),
        subnets=tuple(sorted({one for member in shown for one in member.subnets})),
    )


def _sizes(seen: SeenPool) -> tuple[dict[str, int] | None, str, str]:
    if seen.duplicate_of:
        return (
            None,
            MachinePoolReason.DUPLICATE_GROUP,
            f"pool {seen.duplicate_of} has group {seen.group}: delete one of them",
        )
    if not is_identifier(seen.group):
        message = f"group {seen.group!r} is not an identifier: use at most 32 lower-case letters and digits, with single hyphens inside"
        return None, MachinePoolReason.INVALID, message
    if seen.document is None:
        return None, MachinePoolReason.RECONCILING, "waits for the document of shards"
    unknown = sorted(set(seen.shards) - set(seen.document))
    if unknown:
        return None, MachinePoolReason.INVALID, f"the document of shards does not name {', '.join(unknown)}"
    if seen.replicas is None:
        return None, MachinePoolReason.RECONCILING, seen.owner_problem or "waits for its MachinePool"
    return distribute(seen.replicas, seen.shards), MachinePoolReason.RECONCILING, ""


def _waiting(seen: SeenPool, sizes: Mapping[str, int]) -> str:
    """Return what the pool waits for, "" if nothing."""
    members = {member.shard: member for member in seen.members}
    found = []
    for shard, size in sizes.items():
        member = members.get(shard)
        if member is None or member.size != size:
            found.append(f"{shard}: its shard group is being written")
        elif not member.copied:
            found.append(
                f"{shard}: its shard group has other settings: delete it if that stays, and it is created again"
            )
        elif not member.accepted:
            found.append(f"{shard}: {member.problem or 'the shard has not accepted it yet'}")
    found += [f"{shard}: the shard group is being deleted" for shard in sorted(members.keys() - sizes.keys())]
    return "; ".join(found)
