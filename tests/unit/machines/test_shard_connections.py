"""Connections to shards, against the double in memory: deadlines, reconnects, hot reload, and that no shard delays another."""

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise
from random import Random

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from nstance_kit import Heard, dial, shard_map

from konverge.client.credentials import TlsMaterial
from konverge.reconcilers.machines.shards.connections import Connections
from konverge.reconcilers.machines.shards.document import parse_shard_map
from konverge.reconcilers.machines.shards.failures import FailureKind, ShardFailure
from konverge.reconcilers.machines.shards.messages import DrainEvent, ProviderFailure, drain_event
from konverge.reconcilers.machines.wire.operator_pb2 import InstanceEvent
from konverge_testing.nstance import CallFault, GroupSpec, Network, NstanceShard, NstanceWorld


@pytest.fixture
async def world() -> AsyncIterator[NstanceWorld]:
    made = NstanceWorld(random=Random(1))
    for name in ("a", "b", "c"):
        made.add_shard(name).groups.static["workers"] = GroupSpec("std", 1, subnet_pool="private")
    yield made
    await made.close()


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
async def connections(world: NstanceWorld, heard: Heard) -> AsyncIterator[Connections]:
    made = Connections(heard, random=Random(1))
    made.use(shard_map(world), dial(world))
    task = asyncio.create_task(made.run())
    await asyncio.sleep(1)
    yield made
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


def streams(shard: NstanceShard) -> tuple[int, ...]:
    state = shard.state
    return len(state.group_events), len(state.instance_events), len(state.error_events)


async def test_each_shard_is_listed_and_followed_by_one_stream_of_each_kind(
    world: NstanceWorld, heard: Heard, connections: Connections
) -> None:
    assert connections.shards == ("a", "b", "c")
    assert {name: [one.key for one in groups] for name, groups in heard.groups.items()} == {
        name: ["workers"] for name in "abc"
    }
    assert [one.size for one in await connections.client("a").list_groups()] == [1]
    await asyncio.sleep(600)
    for shard in world.shards.values():
        assert streams(shard) == (1, 1, 1)
        assert [shard.called(method) for method in ("WatchGroups", "WatchInstances", "WatchErrors")] == [1, 1, 1]
    polls = heard.times("b")
    assert 19 <= len(polls) <= 23
    assert max(later - earlier for earlier, later in pairwise(polls)) <= 30.1


@pytest.mark.parametrize("old_numbering", [False, True])
async def test_group_event_is_followed_by_a_listing_at_once_with_both_numberings(
    world: NstanceWorld, heard: Heard, connections: Connections, old_numbering: bool
) -> None:
    shard = world.shards["a"]
    shard.state.old_numbering = old_numbering
    now = asyncio.get_running_loop().time()
    shard.set_static("extra", GroupSpec("std", 1, subnet_pool="private"))
    await asyncio.sleep(1)
    assert [one.key for one in heard.groups["a"]] == ["extra", "workers"]
    shard.set_static("extra", None)
    await asyncio.sleep(1)
    assert [one.key for one in heard.groups["a"]] == ["workers"]
    assert [time - now for time in heard.times("a") if time >= now] == pytest.approx([0.1, 1.1])


async def test_many_events_of_groups_cause_few_listings(
    world: NstanceWorld, heard: Heard, connections: Connections
) -> None:
    shard = world.shards["a"]
    before = shard.called("ListGroups")
    for number in range(100):
        shard.set_static(f"group-{number}", GroupSpec("std", 0, subnet_pool="private"))
        await asyncio.sleep(0.01)
    await asyncio.sleep(1)
    assert len(heard.groups["a"]) == 101
    assert shard.called("ListGroups") - before <= 11


async def test_sessions_that_run_before_there_is_a_document_wait_for_it(world: NstanceWorld, heard: Heard) -> None:
    made = Connections(heard, random=Random(1))
    task = asyncio.create_task(made.run())
    await asyncio.sleep(1)
    assert made.shards == ()
    made.use(shard_map(world, "a"), dial(world))
    await asyncio.sleep(1)
    assert set(heard.groups) == {"a"}
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


async def test_drains_and_errors_of_the_provider_are_heard(
    world: NstanceWorld, heard: Heard, connections: Connections
) -> None:
    shard = world.shards["a"]
    made = shard.state.fleet.create("blue", "workers", managed=True)
    await asyncio.sleep(60)
    shard.state.fleet.drain(made, "spot-termination")
    shard.state.report_error("blue", "no capacity", group="workers", instance_id=made.id)
    await asyncio.sleep(1)
    (event,) = heard.all("a", DrainEvent)
    assert isinstance(event, DrainEvent)
    assert (event.instance_id, event.provider_id, event.status) == (made.id, made.provider_id, "pending_deletion")
    assert made.drain is not None
    assert event.delete_at == made.drain.delete_at
    assert heard.all("a", ProviderFailure) == [ProviderFailure("workers", made.id, "no capacity")]


@pytest.mark.parametrize("network", [Network.REFUSED, Network.SILENT])
async def test_a_dead_shard_delays_no_other_and_comes_back(
    world: NstanceWorld, heard: Heard, connections: Connections, network: Network
) -> None:
    dead = world.shards["b"]
    dead.faults.network = network
    if network is Network.REFUSED:
        dead.reset()
    await asyncio.sleep(300)
    (failure,) = heard.all("b", ShardFailure)  # heard once, not at each attempt
    assert isinstance(failure, ShardFailure)
    assert failure.kind is FailureKind.UNREACHABLE
    with pytest.raises(ShardFailure, match="shard b: "):
        connections.client("b")
    for other in ("a", "c"):
        assert max(later - earlier for earlier, later in pairwise(heard.times(other))) <= 30.1
    dead.faults.network = Network.OPEN
    back = asyncio.get_running_loop().time()
    await asyncio.sleep(60)
    assert heard.times("b")[-1] > back
    dead.state.report_error("blue", "heard again")  # half-open streams of a server are the silent streams
    await asyncio.sleep(1)
    assert heard.all("b", ProviderFailure) == [ProviderFailure("", "", "heard again")]
    await connections.client("b").list_groups()


async def test_hanging_call_ends_at_its_limit_and_the_shard_reconnects(
    world: NstanceWorld, heard: Heard, connections: Connections
) -> None:
    shard = world.shards["a"]
    shard.faults.add("ListGroups", CallFault.HANG)
    with pytest.raises(ShardFailure, match="no response within 10 s") as failed:
        await connections.client("a").list_groups()
    assert failed.value.kind is FailureKind.UNREACHABLE
    assert heard.all("a", ShardFailure) == []  # the failure of one call is its caller's
    shard.faults.add("ListGroups", CallFault.HANG)
    await asyncio.sleep(60)
    assert len(heard.all("a", ShardFailure)) == 1  # the poll's is the session's
    assert streams(shard) == (1, 1, 1)


@pytest.mark.parametrize("fault", [CallFault.GARBAGE, CallFault.UNAVAILABLE, CallFault.CUT_BEFORE])
@pytest.mark.parametrize("method", ["ListGroups", "WatchGroups", "WatchInstances", "WatchErrors"])
async def test_a_failed_listing_or_stream_is_mended_by_a_new_connection(
    world: NstanceWorld, heard: Heard, connections: Connections, fault: CallFault, method: str
) -> None:
    shard = world.shards["a"]
    shard.faults.add(method, fault)
    shard.reset()
    await asyncio.sleep(45)
    shard.state.report_error("blue", "an event, which is garbage with that fault")
    await asyncio.sleep(45)
    assert connections.client("a") is not None
    assert streams(shard) == (1, 1, 1)


async def test_a_stream_that_ends_cleanly_is_opened_again_with_growing_delays(
    world: NstanceWorld, heard: Heard, connections: Connections
) -> None:
    shard = world.shards["a"]

    async def ending() -> None:
        while True:
            if streams(shard) == (1, 1, 1):
                shard.state.end_streams()
            await asyncio.sleep(0.1)

    task = asyncio.create_task(ending())
    await asyncio.sleep(120)
    task.cancel()
    opened = [call.time for call in shard.calls if call.method == "WatchGroups"]
    waits = [later - earlier for earlier, later in pairwise(opened)]
    assert 6 <= len(waits) <= 16
    assert all(
        0.5 * min(2**turn, 30) - 0.2 <= wait <= min(2**turn, 30) + 0.2 for turn, wait in enumerate(waits[1:], start=1)
    )


async def test_a_session_that_lasted_begins_with_the_first_delay_again(
    world: NstanceWorld, heard: Heard, connections: Connections
) -> None:
    for _ in range(8):
        await asyncio.sleep(70)
        now = asyncio.get_running_loop().time()
        world.shards["a"].go_away()
        await asyncio.sleep(1.1)
        assert heard.times("a")[-1] - now <= 1.05


async def test_a_new_document_touches_the_shards_alone_that_it_changes(
    world: NstanceWorld, heard: Heard, connections: Connections
) -> None:
    used = dial(world)
    connections.use(shard_map(world, "a", "b"), used)
    await asyncio.sleep(1)
    seen = {name: world.shards[name].called("WatchGroups") for name in "abc"}
    world.add_shard("d")
    moved = parse_shard_map({"a": "a.nstance:8993", "b": "elsewhere:8993", "d": "d.nstance:8993"})
    connections.use(moved, used)
    await asyncio.sleep(1)
    assert connections.shards == ("a", "b", "d")
    assert world.shards["a"].called("WatchGroups") == seen["a"]
    assert heard.times("d")
    assert [streams(world.shards[name]) for name in "abcd"] == [(1, 1, 1), (0, 0, 0), (0, 0, 0), (1, 1, 1)]
    for name, words in (("b", "no program listens at this address"), ("c", "not in the document of shards")):
        with pytest.raises(ShardFailure, match=words):
            connections.client(name)


async def test_new_certificates_connect_all_shards_anew_within_the_process(
    world: NstanceWorld, heard: Heard, connections: Connections
) -> None:
    connections.use(shard_map(world), dial(world))
    await asyncio.sleep(1)
    assert [world.shards[name].called("WatchGroups") for name in "abc"] == [2, 2, 2]
    assert [streams(world.shards[name]) for name in "abc"] == [(1, 1, 1)] * 3
    assert not [entry for entry in heard.log if isinstance(entry[2], ShardFailure)]


async def test_certificates_that_the_servers_refuse_are_said_so(world: NstanceWorld, heard: Heard) -> None:
    stranger = NstanceWorld(random=Random(2)).operator_tls()
    foreign = TlsMaterial(ca=world.authority.certificate, certificate=stranger.certificate, key=stranger.key)
    cases = (
        (stranger, "its certificate is refused .*: check the authority in the ConfigMap"),
        (foreign, "TLS failed .*: check the operator's certificate"),
        (world.operator_tls(role="agent"), r"the certificate is not an operator's \(PERMISSION_DENIED\)"),
    )
    for tls, words in cases:
        made = Connections(heard, random=Random(1))
        made.use(shard_map(world, "a"), dial(world, tls))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await made.run()
        failure = heard.all("a", ShardFailure).pop()
        assert isinstance(failure, ShardFailure)
        assert failure.kind is FailureKind.DENIED
        with pytest.raises(ShardFailure, match=words):
            raise failure


def test_an_event_without_a_time_of_deletion_is_read() -> None:
    assert drain_event(InstanceEvent(instance_id="x")).delete_at is None


@pytest.mark.parametrize("seconds", [10**15, -(10**15), 2**63 - 1])
def test_a_time_that_no_datetime_holds_is_read_as_absent(seconds: int) -> None:
    assert drain_event(InstanceEvent(instance_id="x", delete_at=Timestamp(seconds=seconds))).delete_at is None


async def test_event_with_an_invalid_time_is_processed_without_ending_the_session(
    world: NstanceWorld, heard: Heard, connections: Connections
) -> None:
    event = InstanceEvent(instance_id="x", status="pending_deletion", delete_at=Timestamp(seconds=10**15))
    world.shards["a"].state.instance_events.send("blue", event)
    await asyncio.sleep(60)
    (read,) = heard.all("a", DrainEvent)
    assert isinstance(read, DrainEvent)
    assert (read.instance_id, read.delete_at) == ("x", None)
    assert [world.shards[name].called("WatchGroups") for name in "abc"] == [1, 1, 1]


async def test_message_that_a_listener_cannot_use_fails_only_its_shard(
    world: NstanceWorld, heard: Heard, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = heard.drain

    def drain(shard: str, event: DrainEvent) -> None:
        if shard == "a":
            raise ArithmeticError("poisoned")
        refused(shard, event)

    monkeypatch.setattr(heard, "drain", drain)
    for name in ("a", "b"):
        made = world.shards[name].state.fleet.create("blue", "workers", managed=True)
        await asyncio.sleep(60)
        world.shards[name].state.fleet.drain(made, "spot")  # the snapshot repeats it to each new session
    await asyncio.sleep(120)
    failures = heard.all("a", ShardFailure)
    assert {str(one) for one in failures} == {"shard a: a message could not be used: ArithmeticError: poisoned"}, (
        "it is tried again, and each try lists the groups before"
    )
    assert 3 <= len(failures) <= 20
    assert len(heard.all("b", DrainEvent)) == 1
    assert [world.shards[name].called("WatchGroups") for name in "bc"] == [1, 1]
    monkeypatch.undo()
    await asyncio.sleep(60)
    assert streams(world.shards["a"]) == (1, 1, 1)
