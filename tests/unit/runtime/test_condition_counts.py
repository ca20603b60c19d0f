"""`konverge_status_conditions`: how many objects of a controller have each status of a condition."""

from __future__ import annotations

from typing import Any

import pytest
from controller_harness import ControllerHarness
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


async def test_objects_are_counted_by_condition_and_status_as_they_come_change_and_go() -> None:
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


async def test_every_status_of_every_counted_condition_is_there_from_the_start_at_0() -> None:
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
async def test_a_status_that_another_writer_mangled_neither_breaks_the_counts_nor_adds_a_series(
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


async def test_a_controller_without_counted_conditions_has_no_series_and_one_that_ended_counts_nothing() -> None:
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


def test_conditions_of_a_kind_without_a_model_are_counted_if_they_are_named() -> None:
    assert kv.Controller.of(VIEW).counts_conditions("Ready").counted == ("Ready",)
