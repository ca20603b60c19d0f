"""How many objects of a controller are in each group: `konverge_status_conditions`, and gauges of a controller's own."""

from typing import Any

import pytest
from controller_harness import ControllerHarness
from structlog.testing import capture_logs
from widgets import By, Widget

import konverge as kv
from konverge.errors import UsageError
from konverge.metrics import Metrics

NAME = "konverge_status_conditions"
VIEW = kv.kind("tests.konverge.dev/v1", "Widget")


def counted(metrics: Metrics) -> dict[tuple[str, str], float]:
    """The counts that a scrape shows, without those that are 0."""
    [family] = [one for one in metrics.registry.collect() if one.name == NAME]
    assert {sample.labels["controller"] for sample in family.samples} <= {"widget"}
    found = {(one.labels["condition"], one.labels["status"]): one.value for one in family.samples}
    return {said: count for said, count in found.items() if count}


def stored(name: str, *conditions: Any, **more: Any) -> Any:
    return VIEW.new(name, "web", status={"conditions": list(conditions)}, **more)


def said(type_: str, status: Any) -> dict[str, Any]:
    return {"type": type_, "status": status, "reason": "Said"}


def controller(*types: str) -> kv.Controller[Widget]:
    async def nothing(_widget: Widget, _ctx: kv.Context[Widget]) -> kv.Outcome:
        return kv.Done()

    return kv.Controller.of(Widget).counts_conditions(*types).reconciled_by(By(nothing))


async def test_objects_are_counted_by_condition_and_status_through_their_lifecycle() -> None:
    async with ControllerHarness(controller()) as harness:
        harness.put(stored("a", said("Ready", "True"), said("Blocked", "False")))
        harness.put(stored("b", said("Ready", "False"), said("Blocked", "True")))
        harness.put(stored("new"))
        await harness.settle()
        assert counted(harness.metrics) == {
            ("Ready", "True"): 1,
            ("Ready", "False"): 1,
            ("Blocked", "True"): 1,
            ("Blocked", "False"): 1,
        }
        harness.put(stored("b", said("Ready", "True"), said("Blocked", "False")))
        await harness.settle()
        assert counted(harness.metrics) == {("Ready", "True"): 2, ("Blocked", "False"): 2}
        await harness.server.delete(VIEW, "a", "web")
        harness.show(Widget, "a", "web")
        await harness.settle()
        assert counted(harness.metrics) == {("Ready", "True"): 1, ("Blocked", "False"): 1}


async def test_every_status_of_every_counted_condition_starts_at_0() -> None:
    async with ControllerHarness(controller()) as harness:
        for type_ in ("Ready", "Blocked"):
            for status in ("True", "False", "Unknown"):
                labels = {"controller": "widget", "condition": type_, "status": status}
                assert harness.metrics.registry.get_sample_value(NAME, labels) == 0


@pytest.mark.parametrize(
    ("conditions", "shown"),
    [
        ([said("Ready", "odd")], {("Ready", "Unknown"): 1}),
        ([said("Ready", ["True"])], {("Ready", "Unknown"): 1}),
        ([said("Ready", "True"), said("Ready", "False")], {("Ready", "True"): 1}),
        (["none", 3, {}, said("Foreign", "True"), {"type": ["Ready"], "status": "True"}], {}),
        ("none", {}),
    ],
)
async def test_malformed_foreign_status_neither_breaks_counts_nor_adds_a_series(
    conditions: Any, shown: dict[tuple[str, str], float]
) -> None:
    async with ControllerHarness(controller()) as harness:
        harness.put(VIEW.new("a", "web", status={"conditions": conditions}))
        await harness.settle()
        assert counted(harness.metrics) == shown


async def test_only_the_named_conditions_are_counted() -> None:
    async with ControllerHarness(controller("Ready")) as harness:
        harness.put(stored("a", said("Ready", "True"), said("Blocked", "False")))
        await harness.settle()
        assert counted(harness.metrics) == {("Ready", "True"): 1}


async def test_controllers_without_counted_conditions_or_after_their_end_count_nothing() -> None:
    plain = kv.Controller.of(Widget).reconciled_by(controller().reconciler)  # type: ignore[arg-type]  # it has one
    async with ControllerHarness(plain) as harness:
        harness.put(stored("a", said("Ready", "True")))
        await harness.settle()
        assert harness.metrics.registry.get_sample_value(NAME) is None
        assert counted(harness.metrics) == {}
    async with ControllerHarness(controller()) as harness:
        harness.put(stored("a", said("Ready", "True")))
        await harness.settle()
        assert counted(harness.metrics) == {("Ready", "True"): 1}
    assert counted(harness.metrics) == {}


@pytest.mark.parametrize(
    ("described", "types"),
    [
        (kv.Controller.of(Widget), ("Raedy",)),
        (kv.Controller.of(VIEW), ()),
    ],
)
def test_conditions_that_the_kind_does_not_declare_are_refused_at_once(
    described: kv.Controller[Any], types: tuple[str, ...]
) -> None:
    with pytest.raises(UsageError, match=r"controller 'widget': \.counts_conditions\(.*\): name condition types"):
        described.counts_conditions(*types)


def test_conditions_of_a_kind_without_a_model_are_counted_by_name() -> None:
    assert kv.Controller.of(VIEW).counts_conditions("Ready").counted == ("Ready",)


def by_mode(found: kv.Object) -> list[tuple[str, ...]]:
    return [(str(found.get("spec", "mode", default="none")),)]


def grouped() -> kv.Controller[Widget]:
    return controller().counts_objects(
        "widgets", "Widgets by mode", labels=("mode",), by=by_mode, always=[("plain",), ("none",)]
    )


def shown(metrics: Metrics) -> dict[str, float]:
    [family] = [one for one in metrics.registry.collect() if one.name == "widgets"]
    return {one.labels["mode"]: one.value for one in family.samples}


async def test_objects_are_counted_by_what_a_function_says_of_them() -> None:
    async with ControllerHarness(grouped()) as harness:
        assert shown(harness.metrics) == {"plain": 0, "none": 0}
        harness.put(VIEW.new("a", "web", spec={"mode": "plain"}))
        harness.put(VIEW.new("b", "web", spec={"mode": "odd"}))
        await harness.settle()
        assert shown(harness.metrics) == {"plain": 1, "none": 0, "odd": 1}
        harness.put(VIEW.new("b", "web", spec={"mode": "plain"}))
        await harness.settle()
        assert shown(harness.metrics) == {"plain": 2, "none": 0, "odd": 0}
        metrics = harness.metrics
    assert shown(metrics) == {"plain": 0, "none": 0, "odd": 0}


def test_a_gauge_whose_name_or_labels_prometheus_refuses_is_wrong_usage() -> None:
    with pytest.raises(UsageError, match=r"controller 'widget': \.counts_objects\('widgets of mine'\)"):
        controller().counts_objects("widgets of mine", "Widgets", labels=("mode",), by=by_mode)
    with pytest.raises(UsageError, match=r"counts_objects\('widgets'\)"):
        controller().counts_objects("widgets", "Widgets", labels=("__mode",), by=by_mode)


def by_list(_found: kv.Object) -> Any:
    return [("plain", "more")]


def by_mistake(found: kv.Object) -> Any:
    return [(found.to_dict()["nowhere"],)]


@pytest.mark.parametrize(
    ("by", "said"), [(by_list, "one value for each of the labels mode"), (by_mistake, "KeyError('nowhere')")]
)
async def test_failing_count_function_is_logged_once_and_blocks_no_reconcile(by: Any, said: str) -> None:
    reconciled: list[str] = []

    async def note(found: Widget, _ctx: kv.Context[Widget]) -> kv.Outcome:
        reconciled.append(found.name)
        return kv.Done()

    described = kv.Controller.of(Widget).counts_objects("widgets", "Widgets by mode", labels=("mode",), by=by)
    with capture_logs() as logs:
        async with ControllerHarness(described.reconciled_by(By(note))) as harness:
            harness.put(VIEW.new("a", "web"))
            harness.put(VIEW.new("b", "web"))
            await harness.settle()
    assert sorted(reconciled) == ["a", "b"]
    [line] = [one for one in logs if one["log_level"] == "error"]
    assert (line["event"], line["name"]) == ("objects are not counted", "widgets")
    assert said in line["error"]
