"""An Nstance cluster: its authority, and a server for each shard."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from konverge.client.credentials import TlsMaterial
from konverge_testing.nstance.faults import ShardFaults
from konverge_testing.nstance.groups import GroupSpec, GroupStore, Template
from konverge_testing.nstance.instances import Pace
from konverge_testing.nstance.listeners import Listener, MemoryNetwork
from konverge_testing.nstance.pki import NstanceAuthority
from konverge_testing.nstance.registrar import Registrar
from konverge_testing.nstance.services import (
    AnswerCodec,
    Call,
    OperatorService,
    RegistrationService,
    ServiceDeps,
)
from konverge_testing.nstance.shard import ShardState

__all__ = ["NstanceShard", "NstanceWorld", "ShardAddress"]

_OPERATOR_PORT: Final = 8993
_REGISTRATION_PORT: Final = 8992


@dataclass(frozen=True, slots=True)
class ShardAddress:
    """The addresses of a shard, `host:port`."""

    operator: str
    registration: str


class NstanceShard:
    """The server of one shard. `state`, `faults` and `calls` may be read and changed while it is served."""

    def __init__(self, name: str, world: NstanceWorld, random: Random) -> None:
        self.name = name
        self.state = ShardState(random, Pace())
        self.faults = ShardFaults()
        self.calls: list[Call] = []
        self.address = ShardAddress(f"{name}.nstance:{_OPERATOR_PORT}", f"{name}.nstance:{_REGISTRATION_PORT}")
        codec = AnswerCodec()
        deps = ServiceDeps(name, self.state, world.registrar, self.faults, codec, self.calls)
        self._world = world
        self._operator = Listener(
            [OperatorService(deps)], codec, self.faults, world.authority, asks_for_certificate=True
        )
        self._registration = Listener(
            [RegistrationService(deps)], codec, self.faults, world.authority, asks_for_certificate=False
        )
        self._ports = (0, 0)
        world.network.listeners[f"{name}.nstance", _OPERATOR_PORT] = self._operator
        world.network.listeners[f"{name}.nstance", _REGISTRATION_PORT] = self._registration

    @property
    def groups(self) -> GroupStore:
        """The groups of the world's tenant."""
        return self.state.groups(self._world.tenant)

    def called(self, method: str) -> int:
        """Return how often a method was called."""
        return sum(call.method == method for call in self.calls)

    def set_static(self, key: str, spec: GroupSpec | None) -> None:
        """Write a static group of the tenant into the configuration, or remove it with None."""
        self.state.set_static(self._world.tenant, key, spec)

    def reset(self) -> None:
        """Close every connection."""
        self._operator.end_connections()
        self._registration.end_connections()

    def go_away(self) -> None:
        """End the operators' connections with GOAWAY "too many pings"."""
        self._operator.go_away()

    async def listen(self) -> None:
        """Listen on the loopback with TLS 1.3; after `close` on the same ports."""
        identity = self._world.authority.server([f"{self.name}.nstance"])
        operator, registration = self._ports
        self._ports = (
            await self._operator.listen(identity, operator),
            await self._registration.listen(identity, registration),
        )
        self.address = ShardAddress(f"127.0.0.1:{self._ports[0]}", f"127.0.0.1:{self._ports[1]}")

    async def close(self) -> None:
        """Close the ports and connections; groups and instances stay."""
        await self._operator.close()
        await self._registration.close()

    async def restart(self, *, loses_drains: bool = False) -> None:
        """Close and open again; with `loses_drains` no drain continues."""
        listens = self._ports != (0, 0)
        await self.close()
        if loses_drains:
            self.state.fleet.forget_drains()
        if listens:
            await self.listen()


class NstanceWorld:
    """A cluster of Nstance with one tenant, whose first shard leads. Constructing it starts nothing.

    Shards respond on the in-memory `network` at once. `serve` lets them listen on the loopback with TLS.

    >>> world = NstanceWorld(random=Random(1))
    >>> world.add_shard("us-west-2a").address.operator
    'us-west-2a.nstance:8993'
    """

    def __init__(self, *, cluster_id: str = "acme", tenant: str = "blue", random: Random) -> None:
        self.cluster_id = cluster_id
        self.tenant = tenant
        self.authority = NstanceAuthority(cluster_id, random)
        self.registrar = Registrar(self.authority, cluster_id)
        self.network = MemoryNetwork()
        self.shards: dict[str, NstanceShard] = {}
        self._random = random

    def add_shard(self, name: str, templates: Mapping[str, Template] | None = None) -> NstanceShard:
        """Add a shard. By default it has the template "std" with the subnet pool "private"."""
        nstance_shard = self.shards[name] = NstanceShard(name, self, self._random)
        given = {"std": Template("private")} if templates is None else templates
        nstance_shard.groups.templates.update(given)
        nstance_shard.groups.subnet_pools.update(item.subnet_pool for item in given.values() if item.subnet_pool)
        self.registrar.leader = self.registrar.leader or name
        return nstance_shard

    def nonce(self, *, life: timedelta = timedelta(hours=3), **claims: object) -> str:
        """Return a nonce for the operator of the tenant; `claims` replace single claims."""
        message = {"sub": self.cluster_id, "cluster_id": self.cluster_id, "tenant": self.tenant, **claims}
        return self.authority.nonce(message, life)

    def operator_tls(
        self, *, tenant: str = "", role: str = "operator", life: timedelta = timedelta(hours=24)
    ) -> TlsMaterial:
        """Return the TLS material of an operator, as if it had registered."""
        key = self.authority.private_key()
        manifest, _ = self.authority.client(
            key.public_key(), cluster_id=self.cluster_id, tenant=tenant or self.tenant, role=role, life=life
        )
        return TlsMaterial(ca=self.authority.certificate, certificate=manifest, key=private_pem(key))

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[None]:
        """Let all shards listen on the loopback."""
        try:
            for shard in self.shards.values():
                await shard.listen()
            yield
        finally:
            await self.close()

    async def close(self) -> None:
        """Close all shards and stop their timers."""
        for shard in self.shards.values():
            shard.state.fleet.close()
            await shard.close()


def private_pem(key: ed25519.Ed25519PrivateKey) -> bytes:
    """Return a key as PKCS#8, PEM."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
