"""The shard of each instance, by the records of the operator: the statuses of shard groups and NstanceMachines, and the lists of pools.

A server names provider ids, and by them Nodes are drained, paired and deleted. A server is trusted with the instances of its own shard. So
an id that is recorded for another shard is not accepted: the first record wins, and stays as long as its shard lists the id.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

from konverge.objects import Object

__all__ = ["BY_RECORDED_ID", "AdmittedIds", "ShardRecords", "admitted_ids", "bare_id", "recorded_ids", "recorded_shard"]

BY_RECORDED_ID: Final = "recorded-id"


def bare_id(provider_id: str) -> str:
    """Return the id without provider and zone: a server may name either.

    >>> bare_id("aws:///us-west-2a/i-0a"), bare_id("i-0a")
    ('i-0a', 'i-0a')
    """
    return provider_id.rpartition("/")[2]


def recorded_ids(recorded: Object) -> tuple[str, ...]:
    """Return the values of the index BY_RECORDED_ID of shard groups and NstanceMachines: the ids of the status."""
    status = recorded.get("status", default={}) or {}
    listed = (*(status.get("providerIDs") or ()), status.get("providerID") or "")
    return tuple({bare_id(str(provider_id)) for provider_id in listed if provider_id})


def recorded_shard(recorded: Object) -> str:
    """Return the shard of a shard group or an NstanceMachine."""
    return str(recorded.get("status", "shard", default="") or recorded.get("spec", "shard", default="") or "")


@dataclass(frozen=True, slots=True)
class AdmittedIds:
    """The ids of a listing that are taken, and the ids of other shards."""

    ids: tuple[str, ...]
    foreign: tuple[str, ...] = ()


def admitted_ids(listed: Iterable[str], own: Collection[str], others: Collection[str]) -> AdmittedIds:
    """Return which listed ids are taken: `own` were taken before and stay, `others` are the bare ids that other shards have.

    >>> admitted_ids(["i-1", "aws:///z/i-2"], own=[], others=["i-2"])
    AdmittedIds(ids=('i-1',), foreign=('aws:///z/i-2',))
    """
    ids = sorted(set(listed))
    foreign = tuple(listed_id for listed_id in ids if listed_id not in own and bare_id(listed_id) in others)
    return AdmittedIds(tuple(listed_id for listed_id in ids if listed_id not in foreign), foreign)


@dataclass(frozen=True, slots=True)
class ShardRecords:
    """All records at one time."""

    groups: Collection[Object] = field(default=(), repr=False)
    machines: Collection[Object] = field(default=(), repr=False)
    pools: Collection[Object] = field(default=(), repr=False)

    def is_foreign(self, shard: str, provider_id: str) -> bool:
        """Tell whether an id belongs to another shard, or to several.

        A pool's list keeps the id of a drained instance after its shard lists it no more, without the name of the shard.
        """
        wanted = bare_id(provider_id)
        records = (*self.groups, *self.machines)
        exact = {recorded_shard(record) for record in records if wanted in recorded_ids(record)}
        if exact:
            return exact != {shard}
        specs = [pool.get("spec", default={}) or {} for pool in self.pools]
        listing = [spec for spec in specs if wanted in {bare_id(str(id_)) for id_ in spec.get("providerIDList") or ()}]
        return bool(listing) and not any(shard in (spec.get("shards") or ()) for spec in listing)
