"""Operators with planted mistakes: each is red in an ordinary run and in the lab's reference run, with a text that names the mistake."""

import asyncio
import json
import re
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from plain_runs import played
from widgets import CONFIG_MAP, SECRET, By, Widget, part, widget

import konverge as kv
from konverge.errors import ForgottenAwait, NotFound
from konverge_testing import Lab
from konverge_testing.lab import Plan, explore
from konverge_testing.lab.runs import run
from konverge_testing.loop import Deadlock

Scenario = Callable[[Lab], Awaitable[None]]
Reconcile = Callable[[Any, kv.Context[Any]], Any]
VALIDATING = kv.Webhook.validating(Widget).on("CREATE")


@kv.resource("tests.konverge.dev/v1", conditions=("Ready", "Issued"))
class Notice(kv.CustomResource[kv.Model, kv.Status]):
    """A kind with a condition in which the runtime reports no failure."""


def of(controller: kv.Controller[Any]) -> Scenario:
    """Return a scenario that creates a widget for this controller, and expects nothing."""

    async def scenario(lab: Lab) -> None:
        await lab.start(lambda manager: manager.add(controller))
        await lab.create(widget(parts=1))
        await asyncio.sleep(3)

    return scenario


def reconciled(reconcile: Reconcile, finalize: Reconcile | None = None) -> kv.Controller[Any]:
    rules = (
        kv.Rule("", ("secrets",), ("get",)),
        kv.Rule("tests.konverge.dev", ("widgets",), ("patch",)),
    )
    return kv.Controller.of(Widget).owns(CONFIG_MAP).needs(*rules).reconciled_by(By(reconcile, finalize))


async def fine(_: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    ctx.status.set_condition("Ready", True, "Fine")
    return kv.Done()


async def notify(_: str) -> None:
    """A coroutine function of the program."""


async def forgets_own(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    ctx.own(part(0, w.namespace))
    return await fine(w, ctx)


async def forgets_coroutine(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    notify(w.name)  # type: ignore[unused-coroutine]  # the mistake
    return await fine(w, ctx)


async def forgets_kept_coroutine(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    _told = notify(w.name)
    return await fine(w, ctx)


async def returns_nothing(_: Widget, ctx: kv.Context[Widget]) -> None:
    ctx.status.set_condition("Ready", True, "Fine")


async def raises(w: Widget, _: kv.Context[Widget]) -> kv.Outcome:
    raise KeyError(w.name)


async def stumbles_once(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    if w.status.note is None and not ctx.reasons[0].startswith("retry"):
        raise AttributeError("note")
    return await fine(w, ctx)


async def raises_in_a_group(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(raises(w, ctx))
    return kv.Done()


async def reads_an_undeclared_cache(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    ctx.cache(SECRET).find(w.namespace, "x")
    return kv.Done()


async def runs_out_of_time(_: Widget, __: kv.Context[Widget]) -> kv.Outcome:
    async with asyncio.timeout(1):
        await asyncio.sleep(5)
    return kv.Done()


async def is_refused_for_ever(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    await ctx.own(CONFIG_MAP.new("Not A Name", w.namespace))
    return kv.Done()


async def loses_a_task(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    asyncio.get_running_loop().create_task(raises(w, ctx))
    await asyncio.sleep(1)
    return await fine(w, ctx)


async def counts_itself(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    await ctx.patch(Widget, w.name, w.namespace, patch={"spec": {"parts": w.spec.parts + 1}})
    return kv.Done()


async def spins(_: Widget, __: kv.Context[Widget]) -> kv.Outcome:
    while True:
        await asyncio.sleep(0)


def blocking(_: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    raise LookupError("in a thread")


class Blocking:
    """A reconciler that runs in a thread."""

    def reconcile(self, w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        return blocking(w, ctx)


def no_keys(_: Any, __: kv.Caches) -> Any:
    raise IndexError("no keys")


def refuses(_: Any) -> bool:
    raise TypeError("not a widget")


async def fails(_: Any) -> kv.Allow:
    raise ZeroDivisionError("a bug")


async def watched(lab: Lab) -> None:
    await lab.create(CONFIG_MAP.new("seen"))
    await of(kv.Controller.of(Widget).watches(CONFIG_MAP, to=no_keys).reconciled_by(By(fine)))(lab)


async def filtered(lab: Lab) -> None:
    await lab.start(lambda manager: manager.add(kv.Controller.of(Widget).when(refuses).reconciled_by(By(fine))))
    await lab.create(widget())
    await lab.until(Widget, "one", kv.is_true("Ready"))
    await lab.patch(Widget, "one", {"spec": {"parts": 2}})
    await lab.settled()


async def webhook(lab: Lab) -> None:
    def build(manager: kv.Manager) -> None:
        manager.add(kv.Controller.of(Widget).reconciled_by(By(fine)))
        manager.add(VALIDATING.ignoring_failures().handled_by(fails))

    await lab.start(build)
    await lab.create(widget())
    await lab.until(Widget, "one", kv.is_true("Ready"))


async def reporting(lab: Lab) -> None:
    def report(*_: Any) -> None:
        raise LookupError("no such field")

    async def refused(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        raise kv.Terminal("no")

    await of(kv.Controller.of(Widget).reports_failure(by=report).reconciled_by(By(refused)))(lab)


async def finalizing(lab: Lab) -> None:
    async def forgets(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        ctx.delete(CONFIG_MAP, "part-0", w.namespace)
        return kv.Done()

    controller = (
        kv.Controller.of(Widget).owns(CONFIG_MAP).finalizer("tests.konverge.dev/w").reconciled_by(By(fine, forgets))
    )
    await of(controller)(lab)
    await lab.delete(Widget, "one")
    await asyncio.sleep(3)


async def in_the_test_itself(lab: Lab) -> None:
    await of(reconciled(fine))(lab)
    while (await lab.get(Widget, "one")).spec.parts < 7:
        pass


async def forgotten_in_the_test_itself(lab: Lab) -> None:
    await of(reconciled(fine))(lab)
    lab.create(widget("two"))  # type: ignore[unused-coroutine]  # the mistake


async def broken_invariant(lab: Lab) -> None:
    def none_is_ready() -> None:
        found = lab.server.store.get(("tests.konverge.dev", "widgets"), lab.namespace, "one")
        assert found is None or b"Ready" not in found.raw, "one is ready"

    lab.always.append(none_is_ready)
    await of(reconciled(fine))(lab)


PLANTED: dict[str, tuple[Scenario, str]] = {
    "an effect is not awaited": (
        of(reconciled(forgets_own)),
        r"ForgottenAwait in widget lab/one: .*ctx\.own\(ConfigMap lab/part-0\)",
    ),
    "a coroutine is not awaited": (
        of(reconciled(forgets_coroutine)),
        r"ForgottenAwait in widget lab/one: coroutine notify \(test_planted_mistakes\.py:\d+\) was never awaited",
    ),
    "a coroutine is kept and not awaited": (
        of(reconciled(forgets_kept_coroutine)),
        r"lab/one: coroutine notify .* never awaited",
    ),
    "finalize does not await an effect": (finalizing, r"ForgottenAwait in widget lab/one: .*ctx\.delete\(part-0\)"),
    "the test does not await": (forgotten_in_the_test_itself, r"coroutine Lab\.create .* was never awaited"),
    "nothing is returned": (of(reconciled(returns_nothing)), r"NotAnOutcome in widget lab/one"),
    "an exception": (of(reconciled(raises)), r"KeyError in widget lab/one: 'one' \(test_planted_mistakes\.py:\d+\)"),
    "an exception that the retry mends": (of(reconciled(stumbles_once)), r"AttributeError in widget lab/one: note"),
    "an exception of a task group": (of(reconciled(raises_in_a_group)), r"ExceptionGroup in widget lab/one"),
    "an exception of a task that is lost": (of(reconciled(loses_a_task)), r"never retrieved: KeyError: 'one'"),
    "an exception in a thread": (
        of(kv.Controller.of(Widget).reconciled_by(Blocking())),
        r"LookupError in widget lab/one: in a thread",
    ),
    "an undeclared cache": (of(reconciled(reads_an_undeclared_cache)), r"CacheNotWatched in widget lab/one"),
    "a timeout of its own": (of(reconciled(runs_out_of_time)), r"TimeoutError in widget lab/one"),
    "a map function raises": (watched, r"IndexError in widget, a predicate or map function, for lab/seen: no keys"),
    "a predicate raises": (filtered, r"TypeError in widget, a predicate or map function, for lab/one: not a widget"),
    "a webhook raises": (webhook, r"ZeroDivisionError in the webhook /validate-.*: a bug"),
    "the report of failures raises": (reporting, r"LookupError in widget, its function of \.reports_failure lab/one"),
    "a request is refused for ever": (
        of(reconciled(is_refused_for_ever)),
        r"widget lab/one fails again and again \(\d+ times in a row\), the last time with Invalid: .*Not A Name",
    ),
    "an invariant does not hold": (
        broken_invariant,
        r"does not hold after modified widgets\.tests\.konverge\.dev lab/one: one is ready",
    ),
    "a key is enqueued by its own write": (
        of(reconciled(counts_itself)),
        r"without a pause: Widget lab/one: Done because of changed; wrote patch Widget lab/one, status\n.* changed .*\.spec\.parts from \d+ to",
    ),
    "a reconcile spins": (
        of(reconciled(spins)),
        r"widget is within a reconcile of Widget lab/one(.|\n)* steps again and again at test_planted_mistakes\.py:\d+",
    ),
    "the test polls without a pause": (in_the_test_itself, r"steps again and again at .*test_planted_mistakes\.py:\d+"),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_mistake_fails_an_ordinary_run(planted: str) -> None:
    scenario, words = PLANTED[planted]
    with pytest.raises(Exception, match=words):
        played(scenario)


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_mistake_fails_the_reference_run_of_the_lab(planted: str) -> None:
    scenario, words = PLANTED[planted]
    report = explore(scenario, only=[])
    assert not report.passed
    assert re.search(words, report.text()), report.text()


def test_a_thread_that_never_returns_fails_an_ordinary_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("konverge_testing.loop.MOST_WAITING", 0.05)
    never = threading.Event()

    async def waits(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        await asyncio.to_thread(never.wait)
        return await fine(w, ctx)

    try:
        with pytest.raises(Deadlock, match=r"threading\.Event\.wait did not return in .* s of real time"):
            played(of(reconciled(waits)))
    finally:
        never.set()


# --- errors that are right ---------------------------------------------------------------------------------------------------------


async def waits_with_an_error_of_its_own(_: Widget, __: kv.Context[Widget]) -> kv.Outcome:
    raise kv.RetryAfter(7.3, "the service is down")


async def gives_up(_: Widget, __: kv.Context[Widget]) -> kv.Outcome:
    raise kv.Terminal("the volume is gone")


async def a_secret_that_comes_late(lab: Lab) -> None:
    async def reads(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        await ctx.live(SECRET).get(w.namespace, "late")
        return await fine(w, ctx)

    await of(reconciled(reads))(lab)
    await lab.create(SECRET.new("late"))


async def an_error_that_is_expected(lab: Lab) -> None:
    lab.expects(KeyError, "one")
    await of(reconciled(raises))(lab)


async def a_failure_that_is_expected(lab: Lab) -> None:
    lab.expects(kv.ApiError, "Not A Name")
    await of(reconciled(is_refused_for_ever))(lab)


RIGHT: dict[str, Scenario] = {
    "RetryAfter": of(reconciled(waits_with_an_error_of_its_own)),
    "Terminal": of(reconciled(gives_up)),
    "an error of the API that a later retry mends": a_secret_that_comes_late,
    "an exception that the test expects": an_error_that_is_expected,
    "a key that the test expects to fail for ever": a_failure_that_is_expected,
}


@pytest.mark.parametrize("right", RIGHT)
def test_an_error_other_than_a_mistake_is_green_in_both_runs(right: str) -> None:
    played(RIGHT[right])
    assert run(RIGHT[right], Plan(name="reference")).problems == []


def test_an_expected_error_that_does_not_occur_fails_the_undisturbed_run_alone() -> None:
    async def scenario(lab: Lab) -> None:
        lab.expects(NotFound, "anything")
        await of(reconciled(fine))(lab)

    words = "the test expects NotFound with 'anything', which did not occur"
    with pytest.raises(AssertionError, match=words):
        played(scenario)
    assert run(scenario, Plan(name="reference")).problems == [words]
    slow: dict[str, Any] = {"match": {"verbs": ["write"]}, "fault": {"type": "delay", "seconds": 1.0}}
    assert run(scenario, Plan.from_json(_plan_with(slow))).problems == []


def _plan_with(rule: dict[str, Any]) -> bytes:
    return json.dumps({"name": "a plan", "rules": [{"rule": rule}]}).encode()


def test_an_exceeded_timeout_causes_no_finding_under_a_plan() -> None:
    async def hurries(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        async with asyncio.timeout(1):
            await ctx.own(part(0, w.namespace))
        return await fine(w, ctx)

    slow: dict[str, Any] = {
        "match": {"verbs": ["write"], "user_agent": "lab *"},
        "fault": {"type": "delay", "seconds": 3.0},
    }
    done = run(of(reconciled(hurries)), Plan.from_json(_plan_with(slow | {"count": 1})))
    assert "TimeoutError" in done.timeline.text()
    assert done.problems == []


def test_a_mistake_is_listed_once_however_often_it_is_repeated() -> None:
    found = run(of(reconciled(raises)), Plan(name="reference")).problems
    assert len(found) == 1, found


@pytest.mark.parametrize("planted", [forgets_own, forgets_coroutine, forgets_kept_coroutine])
def test_a_condition_is_not_stored_by_a_reconcile_that_forgot_an_await(planted: Any) -> None:
    async def issues(notice: Notice, ctx: kv.Context[Notice]) -> kv.Outcome:
        ctx.status.set_condition("Issued", True, "Made")
        outcome: kv.Outcome = await planted(notice, ctx)
        return outcome

    async def scenario(lab: Lab) -> None:
        lab.expects(ForgottenAwait)
        controller = kv.Controller.of(Notice).owns(CONFIG_MAP).reconciled_by(By(issues))
        await lab.start(lambda manager: manager.add(controller))
        await lab.create(Notice.new("one"))
        await lab.settled()
        assert (await lab.get(Notice, "one")).find_condition("Issued") is None

    played(scenario)
