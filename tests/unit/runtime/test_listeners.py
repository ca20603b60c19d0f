"""Sources of keys beside the watches: clocks, channels and async generators."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, time
from itertools import pairwise
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from scripted_leadership import ScriptedLeadership
from widgets import By, Widget, widget

import konverge as kv
from konverge.crds import crd
from konverge.errors import UsageError
from konverge.runtime.builder.sources import next_of
from konverge_testing import ApiServer, Lab
from konverge_testing.lab.lab import install_crds


class Runs:
    """Records the reasons of each reconcile."""

    def __init__(self) -> None:
        self.reasons: list[tuple[str, ...]] = []
        self.times: list[datetime] = []

    async def reconcile(self, _: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        self.reasons.append(ctx.reasons)
        self.times.append(ctx.now())
        ctx.status.skip_write()
        return kv.Done()


def controller(runs: Runs) -> kv.Controller[Widget]:
    return kv.Controller.of(Widget).reconciled_by(By(runs.reconcile))


async def test_each_key_of_a_source_is_reconciled_for_its_reason(lab: Lab) -> None:
    runs = Runs()

    async def bus(listening: kv.Listening) -> AsyncIterator[kv.Key]:
        await asyncio.sleep(10)
        assert listening.all_keys() == listening.cache(Widget).keys() == [listening.key("one", lab.namespace)]
        yield listening.key("one", lab.namespace)
        yield listening.key("absent", lab.namespace)

    await lab.start(lambda manager: manager.add(controller(runs).listens_to(bus)))
    await lab.create(widget())
    await asyncio.sleep(30)
    assert runs.reasons == [("created",), ("source bus",)]
    assert lab.manager.report()


async def test_a_failed_source_begins_again_and_is_reported_meanwhile(lab: Lab) -> None:
    runs, began = Runs(), list[float]()

    async def bus(listening: kv.Listening) -> AsyncIterator[kv.Key]:
        began.append(asyncio.get_running_loop().time())
        if len(began) <= 3:
            raise ConnectionError("no route to the bus")
        yield listening.key("one", lab.namespace)
        await asyncio.Event().wait()

    await lab.start(lambda manager: manager.add(controller(runs).listens_to(bus)), wait=False)
    await lab.create(widget())
    await asyncio.sleep(2)
    [problem] = lab.manager.report().of("widget").problems
    assert str(problem).startswith("source bus: it raised ConnectionError: no route to the bus")
    await asyncio.sleep(60)
    assert [round(after - before) for before, after in pairwise(began)] == [1, 2, 4]
    assert lab.manager.report()
    assert ("source bus",) in runs.reasons


async def test_a_source_runs_only_while_the_process_leads() -> None:
    runs, notes = Runs(), list[str]()

    async def bus(listening: kv.Listening) -> AsyncIterator[kv.Key]:
        notes.append("begins")
        try:
            await asyncio.Event().wait()
            yield listening.key("one")
        finally:
            notes.append("ends")

    leadership = ScriptedLeadership(leads=False)
    async with ApiServer(random=Random(1)) as server:
        manager = kv.Manager("m", server.config(), random=Random(2), leadership=leadership)
        manager.add(controller(runs).listens_to(bus))
        async with kv.Client(server.config(), name="installer") as client:
            await install_crds(client, [crd(Widget)])
        async with manager:
            await asyncio.sleep(5)
            assert notes == []
            leadership.win()
            await asyncio.sleep(5)
            assert notes == ["begins"]
            leadership.lose()
            await asyncio.sleep(5)
            assert notes == ["begins", "ends"]
            leadership.win()
            await asyncio.sleep(5)
            assert notes == ["begins", "ends", "begins"]
    assert notes[-1] == "ends"


async def test_a_channel_hands_keys_over_and_bounds_what_waits(lab: Lab) -> None:
    runs, channel = Runs(), kv.Channel(limit=2)
    assert [channel.send_nowait("one", lab.namespace) for _ in range(3)] == [True, True, False]
    sending = asyncio.create_task(channel.send("one", lab.namespace))
    await asyncio.sleep(1)
    assert not sending.done()
    await lab.start(lambda manager: manager.add(controller(runs).listens_to(channel)))
    await lab.create(widget())
    await sending
    await asyncio.sleep(1)
    assert any("source channel" in reasons for reasons in runs.reasons)


async def test_an_interval_reconciles_every_object(lab: Lab) -> None:
    runs = Runs()
    await lab.start(lambda manager: manager.add(controller(runs).listens_to(kv.every(60))))
    await lab.create(widget())
    await asyncio.sleep(200)
    assert runs.reasons[1:] == [("source every",)] * 3


async def test_a_time_of_day_reconciles_every_object_once(lab: Lab) -> None:
    runs = Runs()
    await lab.start(lambda manager: manager.add(controller(runs).listens_to(kv.daily("03:00", "15:30"))))
    await lab.create(widget())
    await asyncio.sleep(2 * 86400)
    times = [moment for moment, reasons in zip(runs.times, runs.reasons, strict=True) if "source daily" in reasons]
    assert [moment.strftime("%d %H:%M") for moment in times] == [
        "01 03:00",
        "01 15:30",
        "02 03:00",
        "02 15:30",
    ]


BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("at", "now", "due"),
    [
        pytest.param("03:00", "2030-01-01T01:59:59", "2030-01-01T02:00:00", id="later today"),
        pytest.param("03:00", "2030-01-01T02:00:00", "2030-01-02T02:00:00", id="tomorrow"),
        pytest.param("02:30", "2030-03-31T00:00:00", "2030-03-31T01:30:00", id="skipped by summer time"),
        pytest.param("02:30", "2030-10-27T00:00:00", "2030-10-27T00:30:00", id="first of two"),
        pytest.param("02:30", "2030-10-27T00:30:00", "2030-10-28T01:30:00", id="not the second of two"),
    ],
)
def test_a_local_time_of_day_is_found_in_its_zone(at: str, now: str, due: str) -> None:
    moment = next_of((time.fromisoformat(at),), BERLIN, datetime.fromisoformat(now).replace(tzinfo=UTC))
    assert moment == datetime.fromisoformat(due).replace(tzinfo=UTC)


async def test_a_source_works_again_after_ten_quiet_seconds(lab: Lab) -> None:
    calls = 0

    async def bus(listening: kv.Listening) -> AsyncIterator[kv.Key]:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise ConnectionError("no route to the bus")
        await asyncio.Event().wait()
        yield listening.key("one")

    await lab.start(lambda manager: manager.add(controller(Runs()).listens_to(bus)), wait=False)
    await asyncio.sleep(5)
    assert not lab.manager.report()
    await asyncio.sleep(10)
    assert lab.manager.report()


async def test_a_source_may_be_any_async_iterator(lab: Lab) -> None:
    class Once:
        def __init__(self, key: kv.Key) -> None:
            self._keys = [key]

        def __aiter__(self) -> Once:
            return self

        async def __anext__(self) -> kv.Key:
            await asyncio.sleep(10)
            if not self._keys:
                raise StopAsyncIteration
            return self._keys.pop()

    def bus(listening: kv.Listening) -> AsyncIterator[kv.Key]:
        return Once(listening.key("one", lab.namespace))

    runs = Runs()
    await lab.start(lambda manager: manager.add(controller(runs).listens_to(bus)))
    await lab.create(widget())
    await asyncio.sleep(60)
    assert runs.reasons == [("created",), ("source bus",)]


async def test_a_source_that_yields_no_key_gets_the_remedy(lab: Lab) -> None:
    async def bus(_: kv.Listening) -> AsyncIterator[Any]:
        yield "one" * 1000

    await lab.start(lambda manager: manager.add(controller(Runs()).listens_to(bus)), wait=False)
    await asyncio.sleep(2)
    [problem] = lab.manager.report().of("widget").problems
    assert "yield listening.key(name, namespace)" in str(problem)
    assert len(str(problem)) < 400


def test_a_mistake_in_a_source_is_refused_when_it_is_declared() -> None:
    async def forgets_to_yield(_: kv.Listening) -> None:
        """A coroutine function."""

    wrong: list[Any] = [forgets_to_yield, None]
    for source in wrong:
        with pytest.raises(UsageError, match="give an async generator function"):
            controller(Runs()).listens_to(source)
    for seconds in (float("nan"), float("inf"), -1.0):
        with pytest.raises(UsageError, match="above 0"):
            kv.every(seconds)
    with pytest.raises(UsageError, match="above 0"):
        kv.every(0)
    for times in ((), ("25:00",), ("noon",), ("03:00+01:00",)):
        with pytest.raises(UsageError, match="time of day"):
            kv.daily(*times)
    with pytest.raises(UsageError, match="time zone"):
        kv.daily("03:00", zone="Mars/Base")
    with pytest.raises(UsageError, match="at least 1"):
        kv.Channel(limit=0)
    with pytest.raises(UsageError, match="has a source 'every' already"):
        controller(Runs()).listens_to(kv.every(1)).listens_to(kv.every(2))
    controller(Runs()).listens_to(kv.every(1)).listens_to(kv.every(2), name="slow")
