"""The double of Nstance servers on the loopback: TLS 1.3 with Ed25519 certificates on both sides, checked by OpenSSL."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from datetime import timedelta
from random import Random

import pytest
from google.protobuf.empty_pb2 import Empty
from grpclib.client import Channel
from grpclib.exceptions import StreamTerminatedError
from nstance_link import Linked, linked, shards_at

from konverge.client.credentials import TlsMaterial
from konverge.reconcilers.machines.shards.addresses import Address
from konverge.reconcilers.machines.shards.connections import Connections
from konverge.reconcilers.machines.shards.dialing import over_tls
from konverge.reconcilers.machines.shards.document import parse_shard_map
from konverge.reconcilers.machines.shards.failures import FailureKind, ShardFailure
from konverge.reconcilers.machines.shards.messages import DrainEvent, Group, ProviderFailure
from konverge.reconcilers.machines.shards.pace import SessionPace
from konverge.reconcilers.machines.wire.operator_grpc import OperatorServiceStub
from konverge.reconcilers.machines.wire.registration_grpc import RegistrationServiceStub
from konverge.reconcilers.machines.wire.registration_pb2 import RegisterClientRequest
from konverge_testing.nstance import GroupSpec, Network, NstanceWorld
from konverge_testing.nstance.pki import public_pem
from konverge_testing.nstance.world import private_pem


@pytest.fixture
async def world() -> AsyncIterator[NstanceWorld]:
    made = NstanceWorld(random=Random(1))
    made.add_shard("a").groups.static["workers"] = GroupSpec("std", 1)
    async with made.serve():
        yield made


async def channel(address: str, tls: TlsMaterial) -> Channel:
    return (await over_tls(tls))(Address.parse(address))


async def test_a_registered_key_opens_the_service_of_operators(world: NstanceWorld) -> None:
    key, authority = world.authority.private_key(), world.authority.certificate
    address = world.shards["a"].address
    async with await channel(address.registration, TlsMaterial(ca=authority)) as registration:
        request = RegisterClientRequest(registration_nonce_jwt=world.nonce(), public_key_pem=public_pem(key))
        made = await RegistrationServiceStub(registration).RegisterOperator(request)
    tls = TlsMaterial(ca=authority, certificate=made.client_certificate_pem, key=private_pem(key))
    async with await channel(address.operator, tls) as operator:
        assert [one.key for one in (await OperatorServiceStub(operator).ListGroups(Empty())).groups] == ["workers"]
        assert operator._protocol is not None
        connection = operator._protocol.connection._transport.get_extra_info("ssl_object")
        assert connection.version() == "TLSv1.3"


async def test_certificates_that_are_missing_foreign_or_expired_open_nothing(world: NstanceWorld) -> None:
    stranger = NstanceWorld(random=Random(2))
    foreign = stranger.operator_tls()
    wrong = (
        stranger.operator_tls(),
        TlsMaterial(ca=world.authority.certificate),
        TlsMaterial(ca=world.authority.certificate, certificate=foreign.certificate, key=foreign.key),
        world.operator_tls(life=timedelta(seconds=-1)),
    )
    for tls in wrong:
        async with await channel(world.shards["a"].address.operator, tls) as operator:
            # A server sees the client's certificate after the handshake of the client: the refusal ends the call.
            with pytest.raises((ssl.SSLError, StreamTerminatedError, ConnectionError)):
                await OperatorServiceStub(operator).ListGroups(Empty())
    assert world.shards["a"].calls == []


async def test_a_restarted_server_listens_on_its_ports_again(world: NstanceWorld) -> None:
    shard = world.shards["a"]
    async with await channel(shard.address.operator, world.operator_tls()) as operator:
        stub = OperatorServiceStub(operator)
        async with stub.WatchErrors.open() as stream:
            await stream.send_message(Empty(), end=True)
            while not shard.called("WatchErrors"):
                await asyncio.sleep(0.01)
            before = shard.address
            await shard.restart()
            with pytest.raises(StreamTerminatedError):
                await stream.recv_message()
        assert shard.address == before
        await stub.ListGroups(Empty())


async def test_silent_network_swallows_calls_and_handshakes_and_refusing_network_resets_them(
    world: NstanceWorld,
) -> None:
    shard = world.shards["a"]
    async with await channel(shard.address.operator, world.operator_tls()) as standing:
        stub = OperatorServiceStub(standing)
        await stub.ListGroups(Empty())
        shard.faults.network = Network.SILENT
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await stub.ListGroups(Empty())
        assert shard.called("ListGroups") == 1, "the call did not come through"
        async with await channel(shard.address.operator, world.operator_tls()) as second:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5):
                    await second.__connect__()
    shard.faults.network = Network.REFUSED
    async with await channel(shard.address.operator, world.operator_tls()) as refused:
        with pytest.raises(OSError):
            await OperatorServiceStub(refused).ListGroups(Empty())
    shard.faults.network = Network.OPEN
    async with await channel(shard.address.operator, world.operator_tls()) as last:
        await OperatorServiceStub(last).ListGroups(Empty())


class Reached:
    """A listener that records which shards are reachable."""

    def __init__(self) -> None:
        self.now: dict[str, bool] = {}

    def listed(self, shard: str, groups: tuple[Group, ...]) -> None:
        self.now[shard] = True

    def unreachable(self, shard: str, failure: ShardFailure) -> None:
        self.now[shard] = False

    def drain(self, shard: str, event: DrainEvent) -> None: ...

    def provider_failed(self, shard: str, event: ProviderFailure) -> None: ...

    async def until(self, **expected: bool) -> None:
        async with asyncio.timeout(120):
            while self.now != expected:
                await asyncio.sleep(0.01)


async def test_shards_reconnect_over_tls_with_a_renewed_certificate(world: NstanceWorld) -> None:
    first, second = world.shards["a"], world.add_shard("b")
    await second.listen()
    reached = Reached()
    connections = Connections(reached, random=Random(1), pace=SessionPace(first_delay=0.05, longest_delay=0.1))
    shards = parse_shard_map({name: shard.address.operator for name, shard in world.shards.items()})
    connections.use(shards, await over_tls(world.operator_tls()))
    task = asyncio.create_task(connections.run())
    try:
        await reached.until(a=True, b=True)
        await second.close()
        await reached.until(a=True, b=False)
        assert [one.key for one in await connections.client("a").list_groups()] == ["workers"]
        await second.listen()
        await reached.until(a=True, b=True)
        reached.now.clear()
        connections.use(shards, await over_tls(world.operator_tls()))
        await reached.until(a=True, b=True)
        async with asyncio.timeout(120):
            while first.called("WatchGroups") < 2:
                await asyncio.sleep(0.01)
    finally:
        task.cancel()
        await asyncio.wait([task])
    assert first.called("WatchGroups") == 2


# --- another authority -------------------------------------------------------------------------------------------------------------


@pytest.fixture
async def operator(world: NstanceWorld) -> AsyncIterator[Linked]:
    """A link that has enrolled and received reports of two shards."""
    await world.add_shard("b").listen()
    shards = shards_at(
        {name: (shard.address.operator, shard.address.registration) for name, shard in world.shards.items()}
    )
    async with linked(shards, ca=world.authority.certificate, nonce=world.nonce()) as made:
        await watched(made, world, 1)
        yield made


async def watched(operator: Linked, world: NstanceWorld, times: int) -> None:
    """Wait until every shard was connected this many times."""
    await operator.until(lambda: {shard.called("WatchGroups") for shard in world.shards.values()} == {times})


async def restart(world: NstanceWorld) -> None:
    """Let every server restart its sessions, with a certificate of the current authority."""
    for shard in world.shards.values():
        await shard.restart()


async def test_authority_is_replaced_step_by_step_without_an_operator_restart(
    world: NstanceWorld, operator: Linked
) -> None:
    """First the ConfigMap has both authorities, then the servers use the new authority's certificates, then the old authority leaves the
    ConfigMap, and at last nothing accepts it.
    """
    authority = world.authority
    authority.rotate()
    await operator.write_authority(authority.trusted)
    await watched(operator, world, 2)
    await restart(world)
    await watched(operator, world, 3)
    assert world.registrar.issued == 1, "the certificate of the old authority goes on"
    await operator.write_authority(authority.certificate)
    await watched(operator, world, 4)
    assert world.registrar.issued == 2
    authority.forget_older()
    await restart(world)
    await watched(operator, world, 5)
    assert operator.link.problem == ""
    assert [one.key for one in await operator.shard("a").list_groups()] == ["workers"]


async def test_servers_with_a_replaced_authority_are_refused_until_a_new_nonce(
    world: NstanceWorld, operator: Linked
) -> None:
    authority, heard = world.authority, operator.heard
    authority.rotate()
    authority.forget_older()
    await restart(world)

    def refused() -> bool:
        found = [one for one in heard.all("a", ShardFailure) if isinstance(one, ShardFailure)]
        return any(
            one.kind is FailureKind.DENIED and "check the authority in the ConfigMap" in str(one) for one in found
        )

    await operator.until(refused)
    await operator.give_nonce(world.nonce())
    await operator.write_authority(authority.certificate)
    await watched(operator, world, 2)
    assert operator.link.problem == ""
