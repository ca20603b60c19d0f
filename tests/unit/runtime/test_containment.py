"""Every admitted object has a status that names its problem, whatever a reconciler raises and whatever is stored."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import deepcopy
from random import Random
from typing import Any

import pytest
import structlog
from widgets import CONFIG_MAP, By, Widget, WidgetSpec, widget

import konverge as kv
from konverge.client import Client
from konverge.conditions import MAX_MESSAGE, fit_conditions
from konverge.crds import crd
from konverge.errors import (
    BadRequest,
    ConditionError,
    Conflict,
    Invalid,
    InvalidObject,
    KonvergeError,
    NotAnOutcome,
    ReconcileTimeout,
    ServerFailure,
    Unreachable,
)
from konverge.keys import Key
from konverge.runtime import Controller
from konverge.runtime.controller.failure_message import TOO_DEEP, failure_message
from konverge_testing import ApiServer, install_crds
from konverge_testing.lab import Lab

SECRET = "hunter2"
EVENT = kv.kind("events.k8s.io/v1", "Event", namespaced=True, plural="events")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError(SECRET), "reconciling failed with ValueError; "),
        (ExceptionGroup(SECRET, [Unreachable("x"), KeyError(SECRET)]), "reconciling failed with KeyError; "),
        (NotAnOutcome(f"returned {SECRET!r}"), "reconciling failed with NotAnOutcome; "),
        (RecursionError("maximum recursion depth exceeded"), TOO_DEEP),
        (
            Invalid(
                f"spec.a: Invalid value: {SECRET}",
                status=422,
                reason="Invalid",
                causes=[("spec.a", f"Invalid value: {SECRET}")],
                request="apply jobs web/a",
            ),
            "the API server refused apply jobs web/a with 422 Invalid because of spec.a; ",
        ),
        (
            BadRequest(SECRET, status=400, request="apply jobs web/a"),
            "the API server refused apply jobs web/a with 400; ",
        ),
        (kv.Terminal("the volume is gone"), "the volume is gone"),
        (ReconcileTimeout("it took longer than 120 s"), "it took longer than 120 s"),
        (InvalidObject("Job web/a", ".spec.a", "is missing"), ".spec.a: is missing"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_the_status_of_an_error_quotes_no_value(error: Exception, words: str) -> None:
    told = failure_message(error)
    assert told is not None
    assert told.startswith(words)
    assert SECRET not in told


@pytest.mark.parametrize(
    "error", [Unreachable("x"), ServerFailure("x"), Conflict("x"), kv.RetryAfter(1)], ids=lambda e: type(e).__name__
)
def test_an_error_that_the_next_try_may_mend_is_not_told(error: KonvergeError) -> None:
    assert failure_message(error) is None


async def _start(lab: Lab, reconcile: Any, *rules: kv.Rule, **more: Any) -> None:
    sentence = Controller.of(Widget).owns(CONFIG_MAP).needs(*rules).with_(**more).reconciled_by(By(reconcile))
    await lab.start(lambda manager: manager.add(sentence))


@pytest.mark.parametrize("judged", [True, False], ids=["a reconciler that marks Ready", "one that marks nothing"])
async def test_exception_is_shown_in_status_and_removed_by_the_next_success(lab: Lab, judged: bool) -> None:
    async def reconcile(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        if w.spec.mode == "odd":
            raise OverflowError(f"{SECRET} of {w.name}")
        if judged:
            ctx.status.set_condition("Ready", True, "Fine")
        ctx.status.draft.note = w.spec.mode
        return kv.Done()

    lab.expects(OverflowError)
    await _start(lab, reconcile)
    await lab.create(widget("bad", mode="odd"))
    await lab.create(widget("good"))
    bad = await lab.until(Widget, "bad", kv.is_false("Ready"))
    assert bad.condition("Ready").reason == "ReconcileFailed"
    assert "OverflowError" in bad.condition("Ready").message
    assert SECRET not in str(bad.to_dict())
    assert bad.condition("Ready").observed_generation == 1
    assert bad.status.observed_generation is None
    await lab.until(Widget, "good", lambda w: w.status.note == "plain")
    await lab.patch(Widget, "bad", {"spec": {"mode": "plain"}})
    mended = await lab.until(Widget, "bad", lambda w: w.status.note == "plain")
    ready = mended.find_condition("Ready")
    assert (ready is not None and ready.is_true) if judged else ready is None


async def test_failure_reported_before_an_exception_keeps_its_reason_and_message(lab: Lab) -> None:
    async def reconcile(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        ctx.status.set_condition("Ready", w.spec.parts > 0, "Counted")
        raise kv.Terminal("and that was all")

    await _start(lab, reconcile)
    await lab.create(widget("none", parts=0))
    await lab.create(widget("some", parts=1))
    none = await lab.until(Widget, "none", kv.is_false("Ready"))
    some = await lab.until(Widget, "some", kv.is_false("Ready"))
    assert (none.condition("Ready").reason, some.condition("Ready").reason) == ("Counted", "ReconcileFailed")
    assert some.condition("Ready").message == "and that was all"


@pytest.mark.parametrize(
    ("parts", "error", "words"),
    [(2**63, Invalid, "422 Invalid because of status.parts"), ("many", UserWarning, "UserWarning")],
    ids=["refused", "no status"],
)
async def test_unwritable_status_is_replaced_by_a_report_of_the_error(
    lab: Lab, parts: Any, error: type[Exception], words: str
) -> None:
    async def reconcile(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        ctx.status.set_condition("Ready", True, "Fine")
        if w.spec.mode == "odd":
            ctx.status.draft.__dict__["parts"] = parts  # past the model, which would reject it
            ctx.status.draft.model_fields_set.add("parts")
        return kv.Done()

    lab.expects(error)
    await _start(lab, reconcile)
    await lab.create(widget("bad", mode="odd"))
    bad = await lab.until(Widget, "bad", kv.is_false("Ready"))
    assert bad.condition("Ready").reason == "ReconcileFailed"
    assert words in bad.condition("Ready").message


def write_note(w: Widget, ctx: kv.Context[Widget], message: str) -> None:
    """Report a failure in a field, like a kind without the condition Ready."""
    ctx.status.draft.note = f"{w.name}: {message}"


@pytest.mark.parametrize("how", ["it raises", "its status is refused", "the object does not decode"])
async def test_a_controller_that_declares_how_reports_its_failures_in_its_own_form(lab: Lab, how: str) -> None:
    async def reconcile(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        ctx.status.draft.note = "fine"
        if w.spec.mode == "odd" and how == "it raises":
            raise OverflowError(SECRET)
        if w.spec.mode == "odd":
            ctx.status.draft.__dict__["parts"] = 2**63
            ctx.status.draft.model_fields_set.add("parts")
        return kv.Done()

    if how == "it raises":
        lab.expects(OverflowError)
    sentence = Controller.of(Widget).owns(CONFIG_MAP).reports_failure(by=write_note).reconciled_by(By(reconcile))
    await lab.start(lambda manager: manager.add(sentence))
    await lab.create(widget("w", mode="odd"))
    if how == "the object does not decode":
        await lab.settled()
        stored = lab.server.store.get(("tests.konverge.dev", "widgets"), lab.namespace, "w")
        assert stored is not None
        data = stored.object()
        data["spec"]["parts"] = {"not": "a number"}
        lab.server.store.update(("tests.konverge.dev", "widgets"), stored, data)
    expected = {
        "it raises": "w: reconciling failed with OverflowError",
        "its status is refused": "422 Invalid because of status.parts",
        "the object does not decode": "w: .spec.parts: ",
    }[how]
    found = await lab.until(
        kv.kind("tests.konverge.dev/v1", "Widget"), "w", lambda w: expected in (w.get("status", "note") or "")
    )
    assert found.get("status", "conditions") is None
    assert SECRET not in str(found.to_dict())
    await lab.patch(Widget, "w", {"spec": {"mode": "plain", "parts": 1}})
    await lab.until(Widget, "w", lambda w: w.status.note == "fine")


async def test_exception_of_the_reporting_function_is_logged_and_the_reconcile_retried(lab: Lab) -> None:
    failures = 2

    async def reconcile(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise OverflowError(SECRET)
        ctx.status.set_condition("Ready", True, "Fine")
        return kv.Done()

    def report(w: Widget, ctx: kv.Context[Widget], message: str) -> None:
        raise LookupError("no such field")

    lab.expects(OverflowError)
    lab.expects(LookupError, "no such field")
    sentence = Controller.of(Widget).owns(CONFIG_MAP).reports_failure(by=report).reconciled_by(By(reconcile))
    with structlog.testing.capture_logs() as lines:
        await lab.start(lambda manager: manager.add(sentence))
        await lab.create(widget("w"))
        await lab.until(Widget, "w", kv.is_true("Ready"))
    told = {line["event"] for line in lines}
    assert {"the function of .reports_failure raised", "reconcile failed"} <= told


async def test_terminal_error_reports_its_cut_text_and_nothing_of_its_cause(lab: Lab, logs: list[Any]) -> None:
    async def reconcile(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        try:
            raise ConnectionError(f"password={SECRET}")
        except ConnectionError as cause:
            error = kv.Terminal("the volume is gone: " + "é" * w.spec.parts)
            error.add_note(f"with {SECRET}")
            raise error from cause

    await _start(lab, reconcile)
    for name, parts in (("short", 1), ("long", 2 * MAX_MESSAGE)):
        await lab.create(widget(name, parts=parts))
        found = await lab.until(Widget, name, kv.is_false("Ready"))
        ready = found.condition("Ready")
        assert (ready.reason, ready.message[:19]) == ("ReconcileFailed", "the volume is gone:")
        assert len(ready.message) == min(parts + 20, MAX_MESSAGE)
        assert SECRET not in str(found.to_dict())
    await lab.settled()
    events = (await lab.client.list(EVENT, lab.namespace)).items
    assert {event.get("regarding", "name") for event in events} == {"short", "long"}
    assert all(len(event.get("note")) <= 1024 for event in events)
    assert SECRET not in str([event.to_dict() for event in events])
    assert SECRET not in str(lab.manager.runner("widget").history.recent())
    assert [line["key"] for line in logs if line["event"] == "reconcile failed"]
    assert SECRET not in str(logs)


async def test_text_of_any_length_reaches_the_reporting_function_within_api_limits(lab: Lab) -> None:
    async def reconcile(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        raise kv.Terminal("x" * (MAX_MESSAGE + 1))

    sentence = Controller.of(Widget).owns(CONFIG_MAP).reports_failure(by=write_note).reconciled_by(By(reconcile))
    await lab.start(lambda manager: manager.add(sentence))
    await lab.create(widget("w"))
    found = await lab.until(Widget, "w", lambda w: bool(w.status.note))
    assert len((found.status.note or "").removeprefix("w: ")) == MAX_MESSAGE


def long_condition(status: str = "False") -> dict[str, str]:
    return {
        "type": "Ready",
        "status": status,
        "reason": "9 odd!",
        "message": "é" * (MAX_MESSAGE + 9),
        "lastTransitionTime": "2030-01-01T00:00:00Z",
    }


@asynccontextmanager
async def running(*controllers: Controller[Any], strict: bool) -> AsyncIterator[tuple[Client, kv.Manager]]:
    """A manager with these controllers, in production or as in tests."""
    async with (
        ApiServer(random=Random(1)) as server,
        Client(server.config(), name="tester", random=Random(2)) as client,
    ):
        await install_crds(client, [crd(Widget)])
        manager = kv.Manager("tests", server.config(), settings=kv.ManagerSettings(strict=strict))
        for controller in controllers:
            manager.add(controller)
        async with manager:
            await manager.ready(timeout=10)
            yield client, manager


@pytest.mark.parametrize("strict", [True, False], ids=["in tests", "in production"])
async def test_conditions_of_another_objects_status_are_cut_like_own_conditions(strict: bool) -> None:
    met: list[str] = []

    async def judge(w: kv.Object, ctx: kv.Context[kv.Object]) -> kv.Outcome:
        found = ctx.cache(Widget).find(w.namespace, "judged")
        if found is None:
            return kv.Done()
        status = {"conditions": [long_condition()], "note": "judged"}
        try:
            await ctx.write_status(Widget, expect=found, status=status)
        except ConditionError as error:
            met.append(str(error))
        return kv.Done()

    controller = (
        Controller.of(CONFIG_MAP)
        .named("judge")
        .watches(Widget, to=lambda w, _: [Key("", CONFIG_MAP, w.namespace, "judge")])
        .writes_status_of(Widget, "widget")
        .reconciled_by(By(judge))
    )
    async with running(controller, strict=strict) as (client, _):
        await client.create(CONFIG_MAP.new("judge", "default"))
        await client.create(Widget.new("judged", "default", spec=WidgetSpec()))
        async with asyncio.timeout(10):
            while not met and (await client.get(Widget, "judged", "default")).status.note is None:
                await asyncio.sleep(0.02)
        found = await client.get(Widget, "judged", "default")
    if strict:
        assert "reason '9 odd!' of condition Ready" in met[0]
        assert found.status.note is None
    else:
        assert met == []
        ready = found.condition("Ready")
        assert (ready.reason, len(ready.message)) == ("odd", MAX_MESSAGE)


@pytest.mark.parametrize(
    ("status", "cut"),
    [
        ({"conditions": [long_condition()]}, True),
        ({"condition": long_condition()}, True),
        ({"conditions": [{"type": "Ready", "status": "True"}]}, False),
        ({"conditions": [], "note": "é" * (MAX_MESSAGE + 9), "pool": {"name": "p"}}, False),
        ({"conditions": "none", "condition": {"type": 7}}, False),
    ],
    ids=["a list of conditions", "one condition", "one without reason and message", "none", "no conditions at all"],
)
def test_only_conditions_of_a_status_are_cut_and_the_argument_is_unchanged(status: dict[str, Any], cut: bool) -> None:
    before, refused = deepcopy(status), list[ConditionError]()
    after = fit_conditions(status, refused.append)
    assert status == before
    assert bool(refused) is cut
    assert (after == before) is not cut
    entries = after["conditions"] if "condition" not in after else [after["condition"]]
    if cut:
        assert [(entry["reason"], len(entry["message"])) for entry in entries] == [("odd", MAX_MESSAGE)]


async def test_in_production_a_long_condition_is_cut_until_the_api_accepts_it() -> None:
    async def reconcile(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        ctx.status.set_condition("Ready", False, "9 " + "x" * 5000 + "!:", "é" * (MAX_MESSAGE + 9))
        return kv.Done()

    sentence = Controller.of(Widget).owns(CONFIG_MAP).reconciled_by(By(reconcile))
    async with running(sentence, strict=False) as (client, _):
        await client.create(Widget.new("long", "default", spec=WidgetSpec()))
        async with asyncio.timeout(10):
            while (found := await client.get(Widget, "long", "default")).find_condition("Ready") is None:
                await asyncio.sleep(0.02)
        assert len(found.condition("Ready").message) == MAX_MESSAGE


@pytest.mark.parametrize(("races", "errors"), [(4, 0), (6, 2)])
async def test_lost_race_is_logged_as_an_error_from_the_fifth_on(
    lab: Lab, logs: list[Any], races: int, errors: int
) -> None:
    tries = 0

    async def reconcile(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        nonlocal tries
        tries += 1
        if tries <= races:
            await ctx.patch(Widget, w.name, w.namespace, patch={"metadata": {"resourceVersion": "1", "labels": {}}})
        ctx.status.set_condition("Ready", True, "Fine")
        return kv.Done()

    await _start(lab, reconcile, kv.Rule("tests.konverge.dev", ("widgets",), ("patch",)))
    await lab.create(widget("w"))
    await lab.until(Widget, "w", kv.is_true("Ready"))
    levels = [line["log_level"] for line in logs if "Conflict" in line.get("error_type", "")]
    assert levels == ["error"] * errors
