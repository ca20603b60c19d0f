"""Events: which transitions they report, how many wait, and which are sent again; row X9."""

import asyncio
import itertools
from typing import Any

import pytest
from pull_kit import TOKEN, World, manifest

from konverge.objects import Object
from konverge.reconcilers.clusters.agent_state import Step
from konverge.reconcilers.clusters.events import EventBuffer, deletion, snapshot, transitions
from konverge.reconcilers.clusters.protocol import EventBatch, read


def instance(status: str = "", *, version: int = 1, moved: str = "2030-01-01T00:00:00Z", name: str = "shop") -> Object:
    data: dict[str, Any] = manifest(name, labels={"app.vworkspace.io/managed-by": "control-plane"})
    data["metadata"] |= {"uid": f"uid-{name}", "resourceVersion": str(version), "generation": 1}
    condition = {"type": "Ready", "status": status, "reason": "R", "message": "m", "lastTransitionTime": moved}
    data["status"] = {"conditions": [condition] if status else []}
    return Object(data)


def test_x9_three_transitions_within_one_generation_and_one_second_are_three_events() -> None:
    states = [instance(), *(instance(status, version=n) for n, status in enumerate(("True", "False", "True"), 2))]
    told = [event for old, new in itertools.pairwise(states) for event in transitions(old, new)]
    assert [event.status for event in told] == ["True", "False", "True"]
    assert len({event.key for event in told}) == 3


def test_a_change_of_nothing_but_the_spec_makes_no_event() -> None:
    assert list(transitions(instance("True"), instance("True", version=9))) == []


def test_only_objects_of_a_control_plane_are_in_a_snapshot() -> None:
    foreign = instance("True", name="foreign")
    del foreign.data["metadata"]["labels"]
    assert [event.object.name for event in snapshot([foreign, instance("True")])] == ["shop"]


async def test_x9_a_flap_is_delivered_whole() -> None:
    async with World() as world:
        agent = await world.start()
        await world.plane.until(lambda: agent.state.step is Step.CONNECTED)
        states = [instance(), *(instance(status, version=n) for n, status in enumerate(("True", "False", "True"), 2))]
        for old, new in itertools.pairwise(states):
            for event in transitions(old, new):
                agent.record(event)
        await world.plane.until(lambda: len(world.plane.events) == 3)
    assert [event.status for event in world.plane.events] == ["True", "False", "True"]


async def test_after_an_outage_the_status_comes_first_and_then_the_jobs() -> None:
    async with World() as world:
        world.present = lambda: [instance("True")]
        agent = await world.start()
        await world.plane.until(lambda: agent.state.step is Step.CONNECTED)
        world.plane.faults.add(status=503, times=20)
        world.plane.submit("intent", {"intent": "rotate-operator-credentials"})
        await world.plane.until(lambda: world.plane.exchanges[-1].response.status == 503)
        world.plane.faults.clear()
        seen = len(world.plane.exchanges)
        await world.plane.until(lambda: len(world.plane.exchanges) > seen + 2)
    first, second = (one.request.path.rpartition("/")[2] for one in world.plane.exchanges[seen : seen + 2])
    assert (first, second) == ("events", "jobs")
    assert {event.type for event in world.plane.events} == {"snapshot"}


async def test_full_buffer_drops_and_counts_the_oldest_before_a_status_snapshot() -> None:
    async with World(event_buffer=150) as world:
        agent = await world.start()
        await world.plane.until(lambda: agent.state.step is Step.CONNECTED)
        world.plane.faults.add(status=503, times=5)
        for number in range(200):
            agent.record(deletion(instance(name=f"shop-{number}")))
        assert (len(agent.buffer), agent.buffer.dropped, agent.buffer.overflowed) == (150, 50, True)
        assert world.metrics.registry.get_sample_value("event_buffer_occupancy") == 1.0
        world.present = lambda: [instance("True")]
        await world.plane.until(lambda: world.plane.state.dropped == 50)
        await world.plane.until(lambda: any(event.type == "snapshot" for event in world.plane.events))
        await world.plane.until(lambda: not len(agent.buffer))
        await asyncio.sleep(2)
        assert not agent.buffer.overflowed
    names = [event.object.name for event in world.plane.events if event.type == "deleted"]
    assert names == [f"shop-{number}" for number in range(50, 200)]


@pytest.mark.parametrize("status", [404, 409, 400])
async def test_events_that_the_control_plane_does_not_want_are_dropped(status: int) -> None:
    async with World() as world:
        agent = await world.start()
        await world.plane.until(lambda: agent.state.step is Step.CONNECTED)
        world.plane.faults.add(path="/events", status=status)
        agent.record(deletion(instance()))
        await world.plane.until(lambda: world.plane.exchanges[-1].response.status == status)
        await asyncio.sleep(5)
        assert not len(agent.buffer)
    assert "disconnected" not in world.states


async def test_events_are_gathered_for_a_second_and_sent_by_the_hundred() -> None:
    async with World() as world:
        agent = await world.start()
        await world.plane.until(lambda: agent.state.step is Step.CONNECTED)
        await asyncio.sleep(5)
        batches: list[tuple[float, int]] = []

        async def record(count: int) -> None:
            began, before = asyncio.get_running_loop().time(), len(world.plane.events)
            for number in range(count):
                agent.record(deletion(instance(name=f"shop-{before + number}")))
            while (seen := len(world.plane.events)) < before + count:
                await world.plane.until(lambda: len(world.plane.events) > seen)
                batches.append((asyncio.get_running_loop().time() - began, len(world.plane.events) - before))

        await record(3)
        await record(250)
    (pause, count), *others = batches
    assert (count, [total for _, total in others]) == (3, [100, 200, 250])
    assert 1.0 <= pause < 1.5
    assert max(after for after, _ in others) < 0.5, "no pause before, or between, full batches"


def names_in(buffer: EventBuffer) -> list[str]:
    with buffer.sending(9) as (events, _):
        return [event.object.name for event in events]


def test_events_that_are_being_sent_do_not_make_room_for_others() -> None:
    buffer = EventBuffer(3)
    for number in range(3):
        buffer.add(deletion(instance(name=f"a{number}")))
    with buffer.sending(2) as (events, dropped):
        for number in range(2):
            buffer.add(deletion(instance(name=f"b{number}")))
        assert ([event.object.name for event in events], dropped) == (["a0", "a1"], 0)
        assert not buffer.overflowed
    assert names_in(buffer) == ["a2", "b0", "b1"]


def test_after_an_error_the_same_events_are_sent_and_waiting_events_dropped() -> None:
    buffer = EventBuffer(3)
    for number in range(3):
        buffer.add(deletion(instance(name=f"a{number}")))
    with pytest.raises(ConnectionError), buffer.sending(2):
        for number in range(3):
            buffer.add(deletion(instance(name=f"b{number}")))
        raise ConnectionError
    assert (buffer.dropped, buffer.reported, len(buffer)) == (1, 0, 5)
    with buffer.sending(9) as (events, dropped):
        buffer.add(deletion(instance(name="c")))
    assert ([event.object.name for event in events], dropped) == (["a0", "a1"], 1)
    assert (buffer.dropped, buffer.reported, buffer.overflowed) == (2, 1, True)
    assert names_in(buffer) == ["b1", "b2", "c"]


async def test_the_number_of_dropped_events_is_exact_whichever_responses_are_lost() -> None:
    async with World(event_buffer=150) as world:
        recorded = 0
        for _ in range(2):
            agent = await world.start(token="" if recorded else TOKEN)
            await world.plane.until(lambda: world.agent.state.step is Step.CONNECTED)
            world.plane.faults.add(path="/events", cut="after", times=3)
            for number in range(recorded, recorded + 200):
                agent.record(deletion(instance(name=f"shop-{number}")))
            await asyncio.sleep(1.01)
            for number in range(recorded + 200, recorded + 320):
                agent.record(deletion(instance(name=f"shop-{number}")))
            recorded += 320
            await asyncio.sleep(30)
            assert not len(agent.buffer)
            assert len(world.plane.events) + world.plane.state.dropped == recorded
            await world.kill()
        assert world.plane.state.dropped > 0
    bodies = [
        read(EventBatch, one.request.body or b"") for one in world.plane.exchanges if "events" in one.request.path
    ]
    assert sum(one.dropped for one in bodies) > world.plane.state.dropped, "responses to reports of a loss were lost"


async def test_no_loss_is_reported_if_all_events_that_were_recorded_arrived() -> None:
    """150 events arrive while as many are being sent: the buffer overflows, and loses none."""
    async with World(event_buffer=100) as world:
        agent = await world.start()
        await world.plane.until(lambda: agent.state.step is Step.CONNECTED)
        world.plane.faults.add(path="/events", delay=5)
        for number in range(100):
            agent.record(deletion(instance(name=f"first-{number}")))
        await asyncio.sleep(3)
        for number in range(60):
            agent.record(deletion(instance(name=f"second-{number}")))
        await world.plane.until(lambda: len(world.plane.events) == 160)
        await asyncio.sleep(5)
        assert world.plane.state.dropped == 0
        assert not agent.buffer.overflowed
