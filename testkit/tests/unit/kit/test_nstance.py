"""The double of Nstance servers, called over gRPC in memory: groups, instances, drains, streams, certificates and faults."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import DecodeError
from grpclib.client import Channel
from grpclib.const import Status
from grpclib.exceptions import GRPCError, StreamTerminatedError
from grpclib.testing import ChannelFor

from konverge.client.credentials import TlsMaterial
from konverge.clock import wall_clock
from konverge.reconcilers.machines.wire import operator_pb2 as pb
from konverge.reconcilers.machines.wire.operator_grpc import OperatorServiceStub
from konverge.reconcilers.machines.wire.registration_grpc import RegistrationServiceStub
from konverge.reconcilers.machines.wire.registration_pb2 import RegisterClientRequest
from konverge_testing.loop import CLOCK_ERROR
from konverge_testing.nstance import CallFault, GroupSpec, Network, NstanceShard, NstanceWorld, Template
from konverge_testing.nstance.pki import public_pem, role_of
from konverge_testing.nstance.services import OperatorService

STD = pb.GroupConfig(template="std", size=2)


@pytest.fixture
async def world() -> AsyncIterator[NstanceWorld]:
    made = NstanceWorld(random=Random(1))
    made.add_shard("a", {"std": Template("private"), "bare": Template()})
    made.add_shard("b")
    yield made
    await made.close()


@pytest.fixture
def shard(world: NstanceWorld) -> NstanceShard:
    return world.shards["a"]


@asynccontextmanager
async def connected(
    world: NstanceWorld, tls: TlsMaterial | None = None, shard: str = "a"
) -> AsyncIterator[OperatorServiceStub]:
    async with world.network.channel(f"{shard}.nstance", 8993, tls or world.operator_tls()) as channel:
        yield OperatorServiceStub(channel)


@pytest.fixture
async def stub(world: NstanceWorld) -> AsyncIterator[OperatorServiceStub]:
    async with connected(world) as found:
        yield found


async def code_of(call: Coroutine[Any, Any, Any]) -> tuple[Status, str]:
    with pytest.raises(GRPCError) as failed:
        await call
    return failed.value.status, failed.value.message or ""


# --- groups ------------------------------------------------------------------------------------------------------------------


async def test_an_upsert_merges_and_a_removed_key_of_vars_stays(stub: OperatorServiceStub) -> None:
    first = pb.GroupConfig(
        template="std", size=3, instance_type="c7.large", vars={"zone": "a", "disk": "ssd"}, args={"x": "y"}
    )
    made = await stub.UpsertGroup(pb.UpsertGroupRequest(key="workers", config=first))
    assert (made.size, made.subnet_pool, made.is_static, made.tenant) == (3, "private", False, "blue")
    second = pb.GroupConfig(size=0, vars={"zone": "b"})
    merged = await stub.UpsertGroup(pb.UpsertGroupRequest(key="workers", config=second))
    assert (merged.template, merged.size, merged.instance_type) == ("std", 0, "c7.large")
    assert dict(merged.vars) == {"zone": "b", "disk": "ssd"}
    assert merged.etag != made.etag


async def test_a_static_group_keeps_template_and_subnets_and_takes_size_and_vars(
    shard: NstanceShard, stub: OperatorServiceStub
) -> None:
    shard.set_static("workers", GroupSpec("std", 5, "c7.large", "private", {"zone": "a"}))
    sent = pb.GroupConfig(template="std", size=2, vars={"disk": "ssd"})
    merged = await stub.UpsertGroup(pb.UpsertGroupRequest(key="workers", config=sent))
    assert (merged.size, merged.subnet_pool, merged.is_static) == (2, "private", True)
    assert dict(merged.vars) == {"zone": "a", "disk": "ssd"}
    await stub.DeleteGroup(pb.DeleteGroupRequest(key="workers"))
    (left,) = (await stub.ListGroups(Empty())).groups
    assert (left.size, dict(left.vars), left.is_static) == (5, {"zone": "a"}, True)


@pytest.mark.parametrize(
    ("key", "config", "code", "text"),
    [
        ("", STD, Status.INVALID_ARGUMENT, "key is required"),
        ("No", STD, Status.INVALID_ARGUMENT, "invalid key"),
        ("a--b", STD, Status.INVALID_ARGUMENT, "invalid key"),
        ("a" * 33, STD, Status.INVALID_ARGUMENT, "invalid key"),
        ("new", None, Status.INVALID_ARGUMENT, "config is required"),
        ("new", pb.GroupConfig(template="std", subnet_pool="No"), Status.INVALID_ARGUMENT, "invalid subnet_pool"),
        ("new", pb.GroupConfig(size=1), Status.INTERNAL, "template is required for new group"),
        ("new", pb.GroupConfig(template="none"), Status.INTERNAL, 'template "none" not found'),
        ("new", pb.GroupConfig(template="bare"), Status.INTERNAL, "has no subnet pool configured"),
        ("new", pb.GroupConfig(template="std", subnet_pool="other"), Status.INTERNAL, 'subnet pool "other" not found'),
        ("fixed", pb.GroupConfig(template="bare"), Status.INTERNAL, "cannot override template for static group"),
        ("fixed", pb.GroupConfig(subnet_pool="private"), Status.INTERNAL, "cannot override subnet pool for static"),
    ],
)
async def test_an_upsert_that_is_not_valid_is_refused(
    shard: NstanceShard, stub: OperatorServiceStub, key: str, config: pb.GroupConfig | None, code: Status, text: str
) -> None:
    shard.set_static("fixed", GroupSpec("std", 1, subnet_pool="private"))
    found = await code_of(stub.UpsertGroup(pb.UpsertGroupRequest(key=key, config=config)))
    assert found[0] is code
    assert text in found[1]
    assert code is not Status.INTERNAL or found[1].startswith("failed to upsert group: ")
    assert [one.key for one in shard.groups.all()] == ["fixed"]


async def test_the_deletion_of_an_absent_group_is_a_success_and_an_event(stub: OperatorServiceStub) -> None:
    async with stub.WatchGroups.open() as stream:
        await stream.send_message(Empty(), end=True)
        for _ in range(2):
            await stub.DeleteGroup(pb.DeleteGroupRequest(key="gone"))
            event = await stream.recv_message()
            assert event is not None
            assert (event.type, event.group.key, event.group.tenant, event.group.etag) == (2, "gone", "blue", "")
        await stream.cancel()
    assert (await code_of(stub.DeleteGroup(pb.DeleteGroupRequest(key="No"))))[0] is Status.INVALID_ARGUMENT


@pytest.mark.parametrize(("old", "numbers", "tenant"), [(False, [1, 1, 2], "blue"), (True, [0, 0, 1], "")])
async def test_both_numberings_of_group_events_are_played(
    shard: NstanceShard, stub: OperatorServiceStub, old: bool, numbers: list[int], tenant: str
) -> None:
    shard.state.old_numbering = old
    shard.groups.dynamic["first"] = GroupSpec("std", 1)
    async with stub.WatchGroups.open() as stream:
        await stream.send_message(Empty(), end=True)
        events = [await stream.recv_message()]
        await stub.UpsertGroup(pb.UpsertGroupRequest(key="second", config=STD))
        await stub.DeleteGroup(pb.DeleteGroupRequest(key="second"))
        events += [await stream.recv_message() for _ in range(2)]
        await stream.cancel()
    shown = [event for event in events if event is not None]
    assert [event.type for event in shown] == numbers
    assert [event.group.key for event in shown] == ["first", "second", "second"]
    assert [bool(event.group.etag) for event in shown] == [True, True, False]
    assert shown[-1].group.tenant == tenant


# --- instances and drains ----------------------------------------------------------------------------------------------------


async def running(stub: OperatorServiceStub, size: int = 2) -> list[str]:
    await stub.UpsertGroup(pb.UpsertGroupRequest(key="workers", config=pb.GroupConfig(template="std", size=size)))
    await asyncio.sleep(60)
    (group,) = (await stub.ListGroups(Empty())).groups
    assert group.actual_size == size
    return list(group.provider_ids)


async def test_instances_boot_and_the_oldest_is_drained_when_the_group_shrinks(
    shard: NstanceShard, stub: OperatorServiceStub
) -> None:
    oldest, newer = await running(stub)
    async with aclosing(following(stub)) as events:
        await stub.UpsertGroup(pb.UpsertGroupRequest(key="workers", config=pb.GroupConfig(size=1)))
        event = await anext(events)
        assert (event.status, event.group, event.provider_instance_id) == ("pending_deletion", "workers", oldest)
        assert event.delete_at.seconds - event.unhealthy_at.seconds == 300
        (group,) = (await stub.ListGroups(Empty())).groups
        assert list(group.provider_ids) == [newer]
        await stub.AcknowledgeDrained(pb.DrainAckRequest(instance_id=event.instance_id))
        question = pb.GetInstanceStatusRequest(instance_id=event.instance_id)
        assert (await stub.GetInstanceStatus(question)).status == "deleting"
        gone = await anext(events)
        assert (gone.status, gone.reason, gone.instance_id) == ("deleted", "scale-down", event.instance_id)
        assert (await stub.GetInstanceStatus(question)).status == "deleted"


async def following(stub: OperatorServiceStub) -> AsyncGenerator[pb.InstanceEvent, None]:
    async with stub.WatchInstances.open() as stream:
        await stream.send_message(Empty(), end=True)
        try:
            async for event in stream:
                yield event
        finally:
            await stream.cancel()


async def test_instance_is_deleted_at_the_end_of_its_unacknowledged_drain(
    shard: NstanceShard, stub: OperatorServiceStub
) -> None:
    shard.state.sends_deleted = False
    await running(stub)
    await stub.DeleteGroup(pb.DeleteGroupRequest(key="workers"))
    await asyncio.sleep(299)
    assert {one.status for one in shard.state.fleet.instances.values()} == {"running"}
    await asyncio.sleep(20)
    assert {one.status for one in shard.state.fleet.instances.values()} == {"deleted"}


@pytest.mark.parametrize(("timeouts", "default"), [({"workers": 0.0}, 300.0), ({}, 0.0)])
async def test_without_a_drain_timeout_an_instance_goes_at_once(
    shard: NstanceShard, stub: OperatorServiceStub, timeouts: dict[str, float], default: float
) -> None:
    await running(stub)
    shard.state.fleet.pace.drain_timeouts, shard.state.fleet.pace.drain_timeout = timeouts, default
    async with aclosing(following(stub)) as events:
        await stub.DeleteGroup(pb.DeleteGroupRequest(key="workers"))
        assert [(await anext(events)).status for _ in range(2)] == ["deleted", "deleted"]


async def test_a_replaced_instance_drains_when_its_successor_runs(
    shard: NstanceShard, stub: OperatorServiceStub
) -> None:
    (old,) = await running(stub, size=1)
    async with aclosing(following(stub)) as events:
        begun = asyncio.get_running_loop().time()
        shard.state.fleet.replace(next(iter(shard.state.fleet.instances)), "spot-termination")
        event = await anext(events)
        assert (event.reason, event.provider_instance_id) == ("spot-termination", old)
        assert asyncio.get_running_loop().time() - begun == shard.state.fleet.pace.boot
        (group,) = (await stub.ListGroups(Empty())).groups
        assert group.actual_size == 1
        assert list(group.provider_ids) != [old]


async def test_a_new_stream_begins_with_the_drains_in_progress(shard: NstanceShard, stub: OperatorServiceStub) -> None:
    await running(stub)
    await stub.DeleteGroup(pb.DeleteGroupRequest(key="workers"))
    async with aclosing(following(stub)) as events:
        found = [await anext(events) for _ in range(2)]
    assert {event.reason for event in found} == {"unhealthy"}
    await shard.restart(loses_drains=True)
    assert not shard.state.fleet.draining("blue")


async def test_instance_on_demand_has_the_chosen_id_and_no_size(shard: NstanceShard, stub: OperatorServiceStub) -> None:
    await running(stub)
    wanted = pb.CreateInstanceRequest(instance_id="knc01", config=pb.InstanceConfig(group="workers"))
    for _ in range(2):
        made = await stub.CreateInstance(wanted)
        assert (made.instance_id, made.status) == ("knc01", "pending")
    await asyncio.sleep(60)
    assert (await stub.ListGroups(Empty())).groups[0].actual_size == 2
    status = await stub.GetInstanceStatus(pb.GetInstanceStatusRequest(instance_id="knc01"))
    assert (status.status, status.tenant) == ("running", "")
    assert status.provider_instance_id
    for _ in range(2):
        assert (await stub.DeleteInstance(pb.DeleteInstanceRequest(instance_id="knc01"))).status == "deleting"
    assert len(shard.state.fleet.instances) == 3


ERRORS: list[tuple[str, Callable[[OperatorServiceStub], Coroutine[Any, Any, Any]], Status]] = [
    ("no id", lambda stub: stub.GetInstanceStatus(pb.GetInstanceStatusRequest()), Status.INVALID_ARGUMENT),
    ("no id", lambda stub: stub.DeleteInstance(pb.DeleteInstanceRequest()), Status.INVALID_ARGUMENT),
    ("no id", lambda stub: stub.AcknowledgeDrained(pb.DrainAckRequest()), Status.INVALID_ARGUMENT),
    ("unknown", lambda stub: stub.GetInstanceStatus(pb.GetInstanceStatusRequest(instance_id="x")), Status.NOT_FOUND),
    ("unknown", lambda stub: stub.AcknowledgeDrained(pb.DrainAckRequest(instance_id="x")), Status.NOT_FOUND),
    (
        "foreign",
        lambda stub: stub.GetInstanceStatus(pb.GetInstanceStatusRequest(instance_id="theirs")),
        Status.PERMISSION_DENIED,
    ),
    (
        "foreign",
        lambda stub: stub.DeleteInstance(pb.DeleteInstanceRequest(instance_id="theirs")),
        Status.PERMISSION_DENIED,
    ),
    (
        "foreign",
        lambda stub: stub.AcknowledgeDrained(pb.DrainAckRequest(instance_id="theirs")),
        Status.PERMISSION_DENIED,
    ),
    ("no config", lambda stub: stub.CreateInstance(pb.CreateInstanceRequest()), Status.INVALID_ARGUMENT),
    (
        "no group",
        lambda stub: stub.CreateInstance(pb.CreateInstanceRequest(config=pb.InstanceConfig())),
        Status.INVALID_ARGUMENT,
    ),
    (
        "bad group",
        lambda stub: stub.CreateInstance(pb.CreateInstanceRequest(config=pb.InstanceConfig(group="-"))),
        Status.INVALID_ARGUMENT,
    ),
]


@pytest.mark.parametrize(("case", "call", "code"), ERRORS)
async def test_a_call_about_an_instance_that_is_not_valid_has_its_code(
    shard: NstanceShard,
    stub: OperatorServiceStub,
    case: str,
    call: Callable[[OperatorServiceStub], Coroutine[Any, Any, Any]],
    code: Status,
) -> None:
    shard.state.fleet.create("green", "workers", managed=False, id="theirs")
    assert (await code_of(call(stub)))[0] is code


async def test_the_deletion_of_an_unknown_instance_is_a_success(stub: OperatorServiceStub) -> None:
    assert (await stub.DeleteInstance(pb.DeleteInstanceRequest(instance_id="x"))).status == "unknown"


# --- streams -----------------------------------------------------------------------------------------------------------------


async def test_a_second_stream_silences_the_first_which_stays_open(
    shard: NstanceShard, stub: OperatorServiceStub
) -> None:
    async with stub.WatchErrors.open() as first, stub.WatchErrors.open() as second:
        await first.send_message(Empty(), end=True)
        await asyncio.sleep(1)
        await second.send_message(Empty(), end=True)
        await asyncio.sleep(1)
        shard.state.report_error("blue", "no capacity", group="workers")
        shown = await second.recv_message()
        assert shown is not None
        assert (shown.group, shown.error) == ("workers", "no capacity")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3600):
                await first.recv_message()
        assert len(shard.state.error_events) == 2
        await first.cancel()
        await second.cancel()


async def test_errors_without_a_stream_are_dropped(shard: NstanceShard, stub: OperatorServiceStub) -> None:
    shard.state.report_error("blue", "early")
    async with stub.WatchErrors.open() as stream:
        await stream.send_message(Empty(), end=True)
        await asyncio.sleep(1)
        shard.state.report_error("green", "of another tenant")
        shard.state.report_error("blue", "late")
        event = await stream.recv_message()
        assert event is not None
        assert event.error == "late"
        await stream.cancel()


async def test_events_can_come_twice_and_in_reverse(shard: NstanceShard, stub: OperatorServiceStub) -> None:
    shard.state.group_events.copies = 2
    async with stub.WatchGroups.open() as stream:
        await stream.send_message(Empty(), end=True)
        await asyncio.sleep(1)
        shard.state.group_events.hold()
        await stub.UpsertGroup(pb.UpsertGroupRequest(key="workers", config=STD))
        await stub.DeleteGroup(pb.DeleteGroupRequest(key="workers"))
        shard.state.group_events.release(reverse=True)
        events = [await stream.recv_message() for _ in range(4)]
        shard.state.end_streams()
        assert await stream.recv_message() is None
    assert [event.type for event in events if event is not None] == [2, 2, 1, 1]


# --- certificates ------------------------------------------------------------------------------------------------------------


def register(channel: Channel, nonce: str, key: bytes) -> Coroutine[Any, Any, Any]:
    request = RegisterClientRequest(registration_nonce_jwt=nonce, public_key_pem=key)
    return RegistrationServiceStub(channel).RegisterOperator(request)


@pytest.fixture
async def registration(world: NstanceWorld) -> AsyncIterator[Channel]:
    async with world.network.channel("a.nstance", 8992, TlsMaterial(ca=world.authority.certificate)) as channel:
        yield channel


def ours(world: NstanceWorld) -> bytes:
    return public_pem(world.authority.private_key())


async def test_nonce_is_exchanged_for_a_certificate_repeatedly_with_the_same_key(
    world: NstanceWorld, registration: Channel
) -> None:
    nonce, key = world.nonce(), ours(world)
    first = await register(registration, nonce, key)
    certificate = x509.load_pem_x509_certificate(first.client_certificate_pem)
    assert certificate.subject.rfc4514_string() == "O=blue,CN=acme"
    assert role_of(certificate) == "operator"
    assert certificate.not_valid_after_utc - certificate.not_valid_before_utc == timedelta(hours=24, minutes=1)
    assert first.expires_at.ToSeconds() == certificate.not_valid_after_utc.timestamp()
    await register(registration, nonce, key)
    assert await code_of(register(registration, nonce, ours(world))) == (
        Status.UNAUTHENTICATED,
        "nonce was already used",
    )
    world.registrar.single_use = True
    assert (await code_of(register(registration, nonce, key)))[0] is Status.UNAUTHENTICATED


@pytest.mark.parametrize(
    ("nonce", "code"),
    [
        (lambda world: "no-token", Status.UNAUTHENTICATED),
        (lambda world: "e30.e30.AA", Status.UNAUTHENTICATED),
        (lambda world: NstanceWorld(random=Random(2)).nonce(), Status.UNAUTHENTICATED),
        (lambda world: world.nonce(kind="agent"), Status.UNAUTHENTICATED),
        (lambda world: world.nonce(life=timedelta(0)), Status.UNAUTHENTICATED),
        (lambda world: world.nonce(cluster_id="other"), Status.INVALID_ARGUMENT),
        (lambda world: world.nonce(sub="other"), Status.INVALID_ARGUMENT),
    ],
)
async def test_a_nonce_that_is_not_valid_is_refused(
    world: NstanceWorld, registration: Channel, nonce: Callable[[NstanceWorld], str], code: Status
) -> None:
    assert (await code_of(register(registration, nonce(world), ours(world))))[0] is code
    assert world.registrar.issued == 0


async def test_the_leader_alone_registers_and_renews(
    world: NstanceWorld, registration: Channel, stub: OperatorServiceStub
) -> None:
    world.registrar.leader = "b"
    renewal = pb.RenewCertificateRequest(public_key_pem=ours(world))
    assert (await code_of(register(registration, world.nonce(), ours(world))))[0] is Status.FAILED_PRECONDITION
    assert (await code_of(stub.RenewCertificate(renewal)))[0] is Status.FAILED_PRECONDITION
    world.registrar.leader = "a"
    certificate = x509.load_pem_x509_certificate((await stub.RenewCertificate(renewal)).client_certificate_pem)
    assert certificate.not_valid_after_utc - certificate.not_valid_before_utc == timedelta(days=365, minutes=1)
    assert isinstance(certificate.public_key(), ed25519.Ed25519PublicKey)


async def test_a_key_of_another_kind_is_refused(world: NstanceWorld, registration: Channel) -> None:
    elliptic = ec.generate_private_key(ec.SECP256R1()).public_key()
    pem = elliptic.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    for key in (pem, b"no key"):
        assert (await code_of(register(registration, world.nonce(), key)))[0] is Status.INVALID_ARGUMENT


async def test_an_agent_is_registered_and_may_not_call_the_service_of_operators(
    world: NstanceWorld, registration: Channel
) -> None:
    key = world.authority.private_key()
    request = RegisterClientRequest(registration_nonce_jwt=world.nonce(), public_key_pem=public_pem(key))
    made = await RegistrationServiceStub(registration).RegisterAgent(request)
    agent = TlsMaterial(ca=world.authority.certificate, certificate=made.client_certificate_pem, key=b"")
    async with connected(world, agent) as stub:
        assert (await code_of(stub.ListGroups(Empty())))[0] is Status.PERMISSION_DENIED


async def test_a_connection_without_a_certificate_of_the_authority_fails(world: NstanceWorld) -> None:
    stranger = NstanceWorld(random=Random(2))
    expired = world.operator_tls(life=timedelta(seconds=1))
    await asyncio.sleep(2)
    wrong = (
        stranger.operator_tls(),
        TlsMaterial(ca=world.authority.certificate),
        TlsMaterial(ca=world.authority.certificate, certificate=stranger.operator_tls().certificate),
        expired,
    )
    for tls in wrong:
        async with connected(world, tls) as stub:
            with pytest.raises(ssl.SSLError):
                await stub.ListGroups(Empty())
    assert world.shards["a"].calls == []


async def test_client_with_a_wrong_clock_is_judged_by_the_server_clock(world: NstanceWorld) -> None:
    tls = world.operator_tls()
    before = wall_clock()
    token = CLOCK_ERROR.set(-86_400.0)
    try:
        async with connected(world, tls) as stub:
            await stub.ListGroups(Empty())
            config = pb.InstanceConfig(group="workers")
            await stub.UpsertGroup(pb.UpsertGroupRequest(key="workers", config=STD))
            await stub.CreateInstance(pb.CreateInstanceRequest(instance_id="one", config=config))
    finally:
        CLOCK_ERROR.reset(token)
    assert world.shards["a"].state.fleet.instances["one"].created_at >= before


async def test_a_caller_whose_certificate_cannot_be_seen_is_not_authenticated(shard: NstanceShard) -> None:
    service = next(one for one in shard._operator._services if isinstance(one, OperatorService))
    async with ChannelFor([service]) as channel:
        assert (await code_of(OperatorServiceStub(channel).ListGroups(Empty())))[0] is Status.UNAUTHENTICATED


# --- faults ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "acted", "error"),
    [
        (CallFault.UNAVAILABLE, False, GRPCError),
        (CallFault.HANG, False, TimeoutError),
        (CallFault.CUT_BEFORE, False, StreamTerminatedError),
        (CallFault.CUT_AFTER, True, StreamTerminatedError),
        (CallFault.GARBAGE, True, DecodeError),
        (CallFault.LOST_LEADERSHIP, True, GRPCError),
    ],
)
async def test_a_fault_meets_one_call_and_the_next_works(
    shard: NstanceShard, stub: OperatorServiceStub, fault: CallFault, acted: bool, error: type[Exception]
) -> None:
    shard.faults.add("UpsertGroup", fault)
    request = pb.UpsertGroupRequest(key="workers", config=STD)
    with pytest.raises(error):
        async with asyncio.timeout(10):
            await stub.UpsertGroup(request)
    assert (shard.groups.get("workers") is not None) is acted
    assert (await stub.UpsertGroup(request)).key == "workers"
    assert [call.method for call in shard.calls] == ["UpsertGroup", "UpsertGroup"]


async def test_a_refused_connection_fails_at_once_and_a_silent_one_never_answers(
    shard: NstanceShard, stub: OperatorServiceStub
) -> None:
    shard.faults.network = Network.REFUSED
    with pytest.raises(ConnectionRefusedError):
        await stub.ListGroups(Empty())
    shard.faults.network = Network.SILENT
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3600):
            await stub.ListGroups(Empty())
    shard.faults.network = Network.OPEN
    await stub.ListGroups(Empty())
    shard.faults.network = Network.SILENT
    with pytest.raises(TimeoutError):  # on an established connection
        async with asyncio.timeout(3600):
            await stub.ListGroups(Empty())


@pytest.mark.parametrize("end", ["reset", "go_away", "restart"])
async def test_an_ended_connection_ends_its_streams_and_the_next_call_connects_anew(
    shard: NstanceShard, stub: OperatorServiceStub, end: str
) -> None:
    async with stub.WatchErrors.open() as stream:
        await stream.send_message(Empty(), end=True)
        await asyncio.sleep(1)
        done = getattr(shard, end)()
        if done is not None:
            await done
        with pytest.raises(StreamTerminatedError):
            await stream.recv_message()
    await stub.ListGroups(Empty())
    assert len(shard.state.error_events) == 0
