"""Functions of an operator in place of the numbers of its queue: delays of retries, limiters, priorities."""

import asyncio
import math
from collections.abc import Callable
from typing import Any

import pytest
from controller_harness import ControllerHarness
from widgets import By, Widget, widget

import konverge as kv
from konverge.errors import UsageError
from konverge.runtime.controller.gate_host import GateHost
from konverge_testing import Lab

Times = dict[str, list[float]]


def failing(times: Times, *, tries: int = 4) -> By:
    """Fail the first reconciles of each object, and record the seconds since its first reconcile."""

    async def reconcile(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        ctx.status.skip_write()
        calls = times.setdefault(w.name, [])
        calls.append(asyncio.get_running_loop().time())
        if len(calls) < tries:
            raise RuntimeError("not yet")
        return kv.Done()

    return By(reconcile)


def seconds(calls: list[float], start: float) -> list[int]:
    return [round(call - start) for call in calls]


async def run(lab: Lab, controller: kv.Controller[Widget], names: str, times: Times, tries: int = 4) -> None:
    """Run the controller until each object was reconciled without an error."""
    await lab.start(lambda manager: manager.add(controller.reconciled_by(failing(times, tries=tries))))
    for name in names:
        if await lab.find(Widget, name) is None:
            await lab.create(widget(name))
    await lab.until(Widget, names[0], lambda _: sum(map(len, times.values())) == tries * len(names), timeout=100)


async def test_a_function_of_the_failures_delays_each_retry(lab: Lab) -> None:
    lab.expects(RuntimeError, "not yet")
    times: Times = {}
    await run(lab, kv.Controller.of(Widget).retries(delay=lambda key, failures: 10.0 * failures), "a", times)
    assert seconds(times["a"], times["a"][0]) == [0, 10, 30, 60]


async def test_a_limiter_of_all_keys_spreads_the_retries_of_each_start(lab: Lab) -> None:
    lab.expects(RuntimeError, "not yet")
    limiters: list[kv.Limiter[kv.Key]] = []

    def limiter() -> kv.Limiter[kv.Key]:
        limiters.append(kv.MaxOf(kv.ItemExponential(base=1, cap=1), kv.Bucket(rate=0.1, burst=1)))
        return limiters[-1]

    for start in range(2):
        times: Times = {}
        await run(lab, kv.Controller.of(Widget).retries(limiter=limiter), "abc", times, tries=2)
        first = min(calls[0] for calls in times.values())
        assert sorted(seconds(calls, first)[1] for calls in times.values()) == [1, 10, 20]
        assert len(limiters) == start + 1
        await lab.stop()


def nothing(*_: object) -> Any:
    raise LookupError("no such tier")


@pytest.mark.parametrize(
    "returned", [nothing, lambda *_: math.nan, lambda *_: -1.0, lambda *_: math.inf, lambda *_: "5"]
)
async def test_a_failing_function_of_retries_gives_way_to_the_default_delay(
    lab: Lab, returned: Callable[..., Any]
) -> None:
    lab.expects(Exception)
    times: Times = {}
    await run(lab, kv.Controller.of(Widget).retries(delay=returned), "a", times)
    assert times["a"][-1] - times["a"][0] < 1


@pytest.mark.parametrize(
    ("by", "order"),
    [
        (
            lambda metadata, _: {"gold": 10, "tin": -10}.get(metadata.label("tier"), 0),
            ["gold", "none", "none-2", "tin"],
        ),
        (lambda _, reason: 10 if reason == "created" else 0, ["tin", "none", "gold", "none-2"]),
        (nothing, ["tin", "none", "gold", "none-2"]),
        (lambda *_: "high", ["tin", "none", "gold", "none-2"]),
    ],
    ids=["by label", "by reason", "raises", "no number"],
)
async def test_waiting_keys_are_reconciled_by_their_priority(by: Callable[..., Any], order: list[str]) -> None:
    taken: list[str] = []
    free = asyncio.Event()

    async def reconcile(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        taken.append(w.name)
        await free.wait()
        ctx.status.skip_write()
        return kv.Done()

    async with ControllerHarness(kv.Controller.of(Widget).prioritized(by).reconciled_by(By(reconcile))) as harness:
        harness.put(widget("busy"))
        await harness.settle()
        for name in ("tin", "none", "gold", "none-2"):
            harness.put(Widget.new(name, labels={"tier": name}))
        free.set()
        await harness.settle()
        assert taken == ["busy", *order]
        taken.clear()
        harness.runner.resync_now()
        await harness.settle()
        assert taken[0] == ("gold" if order[0] == "gold" else taken[0])
        assert len(taken) == 5


def first_the_gold(metadata: kv.Metadata, _: str) -> int:
    return 10 if metadata.label("tier") == "gold" else 0


async def test_key_taken_over_by_a_replica_has_its_objects_priority() -> None:
    free = asyncio.Event()

    async def reconcile(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        await free.wait()
        ctx.status.skip_write()
        return kv.Done()

    async with ControllerHarness(
        kv.Controller.of(Widget).prioritized(first_the_gold).reconciled_by(By(reconcile))
    ) as h:
        h.put(Widget.new("gold", labels={"tier": "gold"}))
        await h.settle()
        runner, key = h.runner, kv.Key("", h.runner.spec.kind, "", "gold")
        GateHost(
            runner.spec,
            runner._shared,
            runner.queue,
            watches=runner._watches,
            barrier=runner._pipeline.barrier,
            priorities=runner._priorities,
            enqueue_where=runner._enqueue_where,
        ).enqueue(key)
        waiting = runner.queue.why(key)
        assert waiting is not None
        assert waiting.priority == 10
        free.set()


async def test_events_of_objects_that_matter_more_starve_no_object() -> None:
    taken: list[str] = []

    async def reconcile(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        taken.append(w.name)
        ctx.status.skip_write()
        for number in (2 * len(taken), 2 * len(taken) + 1) if len(taken) < 100 else ():
            harness.put(Widget.new(f"gold-{number}", labels={"tier": "gold"}))
        return kv.Done()

    controller = kv.Controller.of(Widget).prioritized(first_the_gold).reconciled_by(By(reconcile))
    async with ControllerHarness(controller) as harness:
        harness.put(widget("busy"))
        harness.put(widget("plain"))
        await harness.settle()
        assert 1 < taken.index("plain") < 20


@pytest.mark.parametrize(
    ("declare", "text"),
    [
        (lambda of: of.retries(), "give delay= or limiter=, one of the two"),
        (
            lambda of: of.retries(delay=lambda *_: 1, limiter=kv.ItemExponential),
            "give delay= or limiter=, one of the two",
        ),
        (lambda of: of.with_(base_delay=1).retries(limiter=kv.ItemExponential), "replaces base_delay and max_delay"),
        (lambda of: of.retries(limiter=kv.ItemExponential).with_(max_delay=5), "replaces base_delay and max_delay"),
    ],
)
def test_a_contradiction_about_retries_is_an_error_at_once(declare: Callable[[Any], object], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        declare(kv.Controller.of(Widget))
