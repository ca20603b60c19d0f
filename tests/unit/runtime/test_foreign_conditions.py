"""Conditions of foreign kinds: each kind has its own fields, and some keep their conditions as one value."""

from datetime import UTC, datetime
from typing import Any

import pytest
from foreign_kinds import BY_TYPE, CRDS, GROUP, KEYED, LISTED, OBJECTS, OTHERS, PLAIN, TEXT, WHOLE, says_it
from widgets import By

import konverge as kv
from konverge.client import ConditionShape
from konverge.client.shapes import shape_in
from konverge.conditions import Condition
from konverge.errors import ConditionError
from konverge.runtime.reconcile.status import Ours, StatusEditor
from konverge_testing import Lab, install_crds


@pytest.mark.parametrize(("what", "body"), OBJECTS)
async def test_condition_of_a_foreign_kind_is_written_once_and_others_stay(
    lab: Lab, what: kv.Kind[kv.Object], body: dict[str, Any]
) -> None:
    await install_crds(lab.client, CRDS)
    await lab.create(what.new("one", **body))
    await lab.client.patch(
        what, "one", lab.namespace, patch={"status": {"conditions": [OTHERS]}}, style="merge", subresource="status"
    )
    await lab.start(lambda manager: manager.add(kv.Controller.of(what).named("seer").reconciled_by(By(says_it))))
    found = await lab.until(what, "one", lambda one: one.find_condition("Seen") is not None)
    await lab.settled()
    assert {one.type for one in found.conditions} == {"Theirs", "Seen"}
    runner = lab.manager.runner("seer")
    runner.resync_now()
    await lab.settled()
    assert [one.error for one in runner.history.recent()] == [""] * len(runner.history.recent())
    assert sum(one.writes == ("status",) for one in runner.history.recent()) == 1

    # The other writer writes again: no value of either writer is lost, and neither undoes the other.
    theirs = {**OTHERS, "status": "False"}
    whole = [theirs, *(one for one in found.get("status", "conditions") if one["type"] == "Seen")]
    await lab.client.patch(
        what, "one", lab.namespace, patch={"status": {"conditions": whole}}, style="merge", subresource="status"
    )
    await lab.settled()
    after = await lab.get(what, "one")
    assert {one.type: one.status for one in after.conditions} == {"Theirs": "False", "Seen": "True"}
    assert sum(one.writes == ("status",) for one in runner.history.recent()) <= 2


async def test_condition_has_the_fields_of_its_kind_and_keeps_given_fields(lab: Lab) -> None:
    given = "2026-01-01T00:00:00Z"

    async def probe(object_: kv.Object, ctx: kv.Context[kv.Object]) -> kv.Outcome:
        if object_.find_condition("Probed") is None:
            ctx.status.set_condition("Probed", True, "Asked", fields={"lastProbeTime": given})
        else:
            ctx.status.draft["phase"] = "Known"
        return kv.Done()

    await install_crds(lab.client, CRDS)
    await lab.start(lambda manager: manager.add(kv.Controller.of(KEYED).reconciled_by(By(probe))))
    await lab.create(KEYED.new("one"))
    await lab.until(KEYED, "one", lambda one: one.find_condition("Probed") is not None)
    await lab.patch(KEYED, "one", {"metadata": {"labels": {"a": "b"}}})
    found = await lab.until(KEYED, "one", lambda one: one.get("status", "phase") == "Known")
    (entry,) = found.get("status", "conditions")
    assert entry["lastProbeTime"] == given
    assert "observedGeneration" not in entry


async def test_a_change_deep_inside_a_draft_without_a_model_is_written(lab: Lab) -> None:
    async def counts(object_: kv.Object, ctx: kv.Context[kv.Object]) -> kv.Outcome:
        ctx.status.draft.setdefault("use", {})["cpu"] = object_.get("metadata", "labels", "cpu", default="0")
        return kv.Done()

    await install_crds(lab.client, CRDS)
    await lab.start(lambda manager: manager.add(kv.Controller.of(KEYED).reconciled_by(By(counts))))
    await lab.create(KEYED.new("one"))
    await lab.until(KEYED, "one", lambda one: one.get("status", "use", "cpu") == "0")
    await lab.patch(KEYED, "one", {"metadata": {"labels": {"cpu": "3"}}})
    await lab.until(KEYED, "one", lambda one: one.get("status", "use", "cpu") == "3")


async def test_retraction_removes_a_condition_from_an_atomic_list(lab: Lab) -> None:
    async def says_and_takes_back(object_: kv.Object, ctx: kv.Context[kv.Object]) -> kv.Outcome:
        if object_.get("metadata", "labels", "a"):
            ctx.status.remove_condition("Seen")
        else:
            ctx.status.set_condition("Seen", True, "Looked")
        return kv.Done()

    await install_crds(lab.client, CRDS)
    await lab.create(WHOLE.new("one"))
    await lab.client.patch(
        WHOLE, "one", lab.namespace, patch={"status": {"conditions": [OTHERS]}}, style="merge", subresource="status"
    )
    await lab.start(lambda manager: manager.add(kv.Controller.of(WHOLE).reconciled_by(By(says_and_takes_back))))
    await lab.until(WHOLE, "one", lambda one: one.find_condition("Seen") is not None)
    await lab.patch(WHOLE, "one", {"metadata": {"labels": {"a": "b"}}})
    found = await lab.until(WHOLE, "one", lambda one: one.find_condition("Seen") is None)
    assert [one.type for one in found.conditions] == ["Theirs"]


def editor(previous: dict[str, Any], told: list[ConditionError] | None = None, **given: Any) -> StatusEditor[Any]:
    chosen: dict[str, Any] = {
        "draft": lambda _: {**previous, "conditions": [dict(one) for one in previous.get("conditions", ())]},
        "declared": None,
        "strict": told is None,
        "ours": Ours(frozenset(), frozenset()),
        "complain": None if told is None else told.append,
        **given,
    }
    return StatusEditor(previous=previous, generation=1, now=datetime(2026, 1, 1, tzinfo=UTC), **chosen)


def test_field_that_the_kind_lacks_is_left_out_and_reported() -> None:
    told: list[ConditionError] = []
    status = editor({}, told)
    status.set_condition("Seen", True, "Looked", "text", fields={"severity": "high"})
    shape = ConditionShape(frozenset({"type", "status", "message"}), by_type=True)
    assert status.intent(failed=False, shape=shape) == {
        "conditions": [{"type": "Seen", "status": "True", "message": "text"}]
    }
    assert [str(one) for one in told] == [
        "condition Seen: this kind's conditions have no reason, but message, status, type",
        "condition Seen: this kind's conditions have no severity, but message, status, type",
    ]


def test_conditions_in_a_draft_are_refused_with_what_to_write() -> None:
    status = editor({"conditions": [OTHERS]})
    status.draft["conditions"].append({"type": "Mine", "status": "True"})
    with pytest.raises(ConditionError, match=r"ctx\.status\.set_condition"):
        status.intent(failed=False)
    told: list[ConditionError] = []
    modelled = editor({}, told, draft=lambda _: kv.Status(), declared=("Ready",), ours=None)
    modelled.draft.conditions = (Condition(type="Ready", status="True"),)
    assert modelled.intent(failed=False) == {"observedGeneration": 1}
    modelled.update(kv.Status(conditions=(Condition(type="Ready", status="True"),)))
    assert len(told) == 2


def test_more_fields_are_refused_for_a_kind_of_ours() -> None:
    with pytest.raises(ConditionError, match="not ours"):
        editor({}, declared=("Ready",), ours=None).set_condition("Ready", True, "A", fields={"severity": "x"})


@pytest.mark.parametrize(
    ("conditions", "shape"),
    [
        ({"items": {"properties": PLAIN}}, ConditionShape(frozenset(PLAIN), by_type=False)),
        ({"items": {"$ref": "#/components/schemas/one"}, **BY_TYPE}, ConditionShape(frozenset({"type"}), by_type=True)),
        (
            {"items": {"allOf": [{"$ref": "#/components/schemas/one"}]}},
            ConditionShape(frozenset({"type"}), by_type=False),
        ),
        ({"items": {"properties": PLAIN, "x-kubernetes-preserve-unknown-fields": True}}, None),
        ({"items": {"type": "object"}}, None),
        ({}, None),
        ("odd", None),
    ],
)
def test_the_shape_of_conditions_is_read_from_the_document_of_the_server(conditions: Any, shape: Any) -> None:
    root = {
        "x-kubernetes-group-version-kind": [{"group": GROUP, "version": "v1", "kind": "Keyed"}],
        "properties": {"status": {"properties": {"conditions": conditions}}},
    }
    one = {"properties": {"type": TEXT}}
    assert shape_in({"components": {"schemas": {"other": {}, "one": one, "keyed": root}}}, KEYED) == shape
    for absent in ({"components": {"schemas": {"keyed": root}}}, None):
        with pytest.raises(LookupError):
            shape_in(absent, LISTED)
