"""A listener of shards that records its calls, and channels to the double of Nstance in memory."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from grpclib.client import Channel

from konverge.client.credentials import TlsMaterial
from konverge.reconcilers.machines.shards.addresses import Address
from konverge.reconcilers.machines.shards.dialing import Dial
from konverge.reconcilers.machines.shards.document import ShardMap, parse_shard_map
from konverge.reconcilers.machines.shards.failures import ShardFailure
from konverge.reconcilers.machines.shards.messages import DrainEvent, Group, ProviderFailure
from konverge_testing.nstance import NstanceWorld


@dataclass
class Heard:
    """A listener that records its calls, with the time."""

    log: list[tuple[float, str, object]] = field(default_factory=list)
    groups: dict[str, tuple[Group, ...]] = field(default_factory=dict)

    def _keep(self, shard: str, what: object) -> None:
        self.log.append((asyncio.get_running_loop().time(), shard, what))

    def listed(self, shard: str, groups: tuple[Group, ...]) -> None:
        self.groups[shard] = groups
        self._keep(shard, "listed")

    def unreachable(self, shard: str, failure: ShardFailure) -> None:
        self._keep(shard, failure)

    def drain(self, shard: str, event: DrainEvent) -> None:
        self._keep(shard, event)

    def provider_failed(self, shard: str, event: ProviderFailure) -> None:
        self._keep(shard, event)

    def times(self, shard: str, what: object = "listed") -> list[float]:
        return [time for time, where, heard in self.log if where == shard and heard == what]

    def all(self, shard: str, kind: type) -> list[object]:
        return [heard for _, where, heard in self.log if where == shard and isinstance(heard, kind)]


def shard_map(world: NstanceWorld, *names: str) -> ShardMap:
    return parse_shard_map({name: world.shards[name].address.operator for name in names or world.shards})


def dial(world: NstanceWorld, tls: TlsMaterial | None = None) -> Dial:
    material = tls or world.operator_tls()

    def dialed(address: Address) -> Channel:
        return world.network.channel(address.host, address.port, material)

    return dialed
