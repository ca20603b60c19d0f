"""A pause: an annotation, a label of the namespace, or a rule keeps the reconciler from an object, and the status shows why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from widgets import CONFIG_MAP, By, Widget

import konverge as kv
from konverge.conditions import Condition
from konverge.errors import UsageError
from konverge.rbac import Rule
from konverge.runtime.builder.rules import rules_of
from konverge_testing import Lab

FINALIZER = "tests.konverge.dev/gate"
NAMESPACE = kv.kind("v1", "Namespace", namespaced=False, plural="namespaces")
NAME = "konverge.dev/paused"


class GateSpec(kv.Model):
    width: int = 0


@kv.resource("tests.konverge.dev/v1", conditions=("Ready", "Paused"))
class Gate(kv.CustomResource[GateSpec, kv.Status]):
    """A thing that can be paused."""


class Recorder:
    """Records its calls, and sets Ready."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int, str]] = []

    async def reconcile(self, gate: Gate, ctx: kv.Context[Gate]) -> kv.Outcome:
        self.calls.append(("reconcile", gate.spec.width, ctx.paused))
        if not ctx.paused:
            ctx.status.set_condition("Ready", True, "Built")
        return kv.Done()

    async def finalize(self, gate: Gate, ctx: kv.Context[Gate]) -> kv.Outcome:
        self.calls.append(("finalize", gate.spec.width, ctx.paused))
        return kv.Done()


def gates(recorder: Recorder, pausing: Callable[[kv.Controller[Gate]], kv.Controller[Gate]]) -> Any:
    controller = pausing(kv.Controller.of(Gate).finalizer(FINALIZER)).reconciled_by(recorder)
    return lambda manager: manager.add(controller)


def annotated(value: str | None, name: str = NAME) -> dict[str, Any]:
    return {"metadata": {"annotations": {name: value}}}


def labelled(value: str | None, name: str = NAME) -> dict[str, Any]:
    return {"metadata": {"labels": {name: value}}}


def shown(gate: Gate, type_: str = "Paused") -> tuple[bool, str, str]:
    condition: Condition = gate.condition(type_)
    return condition.is_true, condition.reason, condition.message


async def pause(lab: Lab, patch: dict[str, Any]) -> None:
    """Patch the object, or its namespace if labels are given."""
    await (
        lab.patch(NAMESPACE, lab.namespace, patch) if "labels" in patch["metadata"] else lab.patch(Gate, "main", patch)
    )


BY_ANNOTATION = "PausedByAnnotation", f"the annotation {NAME} is set: remove it to continue"


@pytest.mark.parametrize(
    ("name", "paused", "resumed", "reason"),
    [
        ("", annotated("true"), annotated(None), BY_ANNOTATION),
        ("", annotated(""), annotated("false"), BY_ANNOTATION),
        (
            "",
            labelled("true"),
            labelled(None),
            ("PausedByNamespace", "the label {name} of namespace {namespace} is set"),
        ),
        ("", labelled("yes"), labelled("false"), ("PausedByNamespace", "the label {name} of namespace {namespace} is")),
        (
            "a.example/stop",
            annotated("true", "a.example/stop"),
            annotated(None, "a.example/stop"),
            ("PausedByA", "a.ex"),
        ),
        ("a.example/stop", labelled("true", "a.example/stop"), labelled(None, "a.example/stop"), ("PausedByN", "a.ex")),
    ],
)
async def test_a_paused_object_waits_and_names_its_pause(
    lab: Lab, name: str, paused: dict[str, Any], resumed: dict[str, Any], reason: tuple[str, str]
) -> None:
    recorder = Recorder()
    await lab.start(gates(recorder, lambda gate: gate.pausable(name) if name else gate.pausable()))
    await lab.create(Gate.new("main", spec=GateSpec(width=1)))
    await lab.until(Gate, "main", kv.is_true("Ready"))
    assert shown(await lab.get(Gate, "main")) == (False, "NotPaused", "it is reconciled")
    await pause(lab, paused)
    await lab.until(Gate, "main", kv.is_true("Paused"))
    await lab.patch(Gate, "main", {"spec": {"width": 2}})
    await lab.settled()
    gate = await lab.get(Gate, "main")
    is_paused, why, message = shown(gate)
    assert is_paused
    assert why.startswith(reason[0])
    assert reason[1].format(name=name or NAME, namespace=lab.namespace) in message
    assert [width for _, width, _ in recorder.calls] == [1] * len(recorder.calls)
    # The state of the first spec, which no client takes for the state of the second.
    assert shown(gate, "Ready") == (True, "Built", "")
    assert (gate.status.observed_generation, gate.condition("Ready").observed_generation) == (1, 1)
    assert gate.condition("Paused").observed_generation == gate.metadata.generation == 2
    await pause(lab, resumed)
    await lab.until(Gate, "main", kv.is_false("Paused"))
    await lab.settled()
    assert recorder.calls[-1] == ("reconcile", 2, "")
    assert (await lab.get(Gate, "main")).status.observed_generation == 2


@pytest.mark.parametrize(
    ("value", "holds", "finalized"),
    [("true", False, True), ("including-deletion", False, False), ("true", True, False)],
)
async def test_deletion_of_a_paused_object_waits_only_if_the_pause_includes_it(
    lab: Lab, value: str, holds: bool, finalized: bool
) -> None:
    recorder = Recorder()
    await lab.start(gates(recorder, lambda gate: gate.pausable(deletion=holds)))
    await lab.create(Gate.new("main"))
    await lab.until(Gate, "main", kv.is_true("Ready"))
    await lab.patch(Gate, "main", annotated(value))
    await lab.until(Gate, "main", kv.is_true("Paused"))
    await lab.delete(Gate, "main")
    await lab.settled()
    assert (await lab.find(Gate, "main") is None) is finalized
    if not finalized:
        assert [verb for verb, _, _ in recorder.calls] == ["reconcile"]
        await lab.patch(Gate, "main", annotated("true" if not holds else None))
        await lab.until_gone(Gate, "main")
    assert recorder.calls[-1][0] == "finalize"


async def test_an_object_created_in_a_pause_gets_no_finalizer(lab: Lab) -> None:
    recorder = Recorder()
    await pause(lab, labelled("true"))
    await lab.start(gates(recorder, lambda gate: gate.pausable()))
    await lab.create(Gate.new("main"))
    await lab.settled()
    gate = await lab.get(Gate, "main")
    assert (gate.metadata.finalizers, recorder.calls, shown(gate)[0]) == ((), [], True)
    assert gate.find_condition("Ready") is None
    assert gate.status.observed_generation is None
    await pause(lab, labelled(None))
    await lab.until(Gate, "main", kv.is_true("Ready"))


async def test_an_observing_reconciler_is_called_with_the_reason_of_the_pause(lab: Lab) -> None:
    recorder = Recorder()

    def frozen(metadata: kv.Metadata, caches: kv.Caches) -> str:
        return "the season is over" if metadata.annotation("season") == "over" else ""

    await lab.start(gates(recorder, lambda gate: gate.pausable(frozen, observing=True)))
    await lab.create(Gate.new("main"))
    await lab.until(Gate, "main", kv.is_true("Ready"))
    await lab.patch(Gate, "main", {**annotated("over", "season"), "spec": {"width": 3}})
    await lab.until(Gate, "main", kv.is_true("Paused"))
    await lab.settled()
    gate = await lab.get(Gate, "main")
    assert shown(gate) == (True, "Paused", "the season is over")
    assert recorder.calls[-1] == ("reconcile", 3, "the season is over")
    assert gate.status.observed_generation == 1
    assert lab.manager.explain("gate", lab.namespace, "main")[0]["paused"] == "the season is over"


async def test_a_predicate_hides_no_change_of_the_pause(lab: Lab) -> None:
    recorder = Recorder()
    await lab.start(gates(recorder, lambda gate: gate.when(kv.generation_changed).pausable()))
    await lab.create(Gate.new("main"))
    await lab.until(Gate, "main", kv.is_true("Ready"))
    await lab.patch(Gate, "main", annotated("true"))
    await lab.until(Gate, "main", kv.is_true("Paused"))


@pytest.mark.parametrize("of", [kv.Controller.of, kv.Controller.of_metadata])
async def test_a_kind_without_a_model_is_paused_without_a_condition(lab: Lab, of: Callable[..., Any]) -> None:
    calls: list[str] = []

    async def reconcile(object_: kv.Resource, ctx: kv.Context[kv.Resource]) -> kv.Outcome:
        calls.append(object_.name)
        return kv.Done()

    await lab.start(lambda manager: manager.add(of(CONFIG_MAP).pausable().reconciled_by(By(reconcile))))
    await lab.create(CONFIG_MAP.new("main", annotations={NAME: "true"}))
    await lab.settled()
    assert calls == []
    assert "PausedByAnnotation" not in str((await lab.get(CONFIG_MAP, "main")).data)
    await lab.patch(CONFIG_MAP, "main", annotated(None))
    await lab.settled()
    assert calls == ["main"]


def test_the_watch_of_namespaces_and_its_right_are_opt_in() -> None:
    right = Rule("", ("namespaces",), ("list", "watch"), cluster_wide=True)
    controller = kv.Controller.of(Gate)
    rights = [
        [rule for rule in rules_of(spec.reconciled_by(Recorder())) if "namespaces" in rule.resources]
        for spec in (
            controller.finalizer(FINALIZER),
            controller.finalizer(FINALIZER).pausable(),
            controller.finalizer(FINALIZER).pausable(namespaces=False),
            controller.finalizer(FINALIZER).pausable(lambda metadata, caches: ""),
        )
    ]
    assert rights == [[], [right], [], []]


@pytest.mark.parametrize(
    ("declare", "text"),
    [
        (lambda: kv.Controller.of(Widget).pausable(), "declares no condition Paused: add it to conditions="),
        (lambda: kv.Controller.of(Gate).pausable().pausable(), "is pausable already"),
        (lambda: kv.Controller.of(Gate).pausable("paused"), "write domain/name, for instance example.com/paused"),
    ],
)
def test_a_mistake_in_a_pause_is_an_error_at_once(declare: Callable[[], object], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        declare()
