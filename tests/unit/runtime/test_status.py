from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from konverge.conditions import Condition, read_conditions
from konverge.errors import ConditionError
from konverge.model import Model
from konverge.runtime.reconcile.status import Ours, StatusEditor, transitions

NOW = datetime(2030, 1, 1, tzinfo=UTC)
LONG_AGO = "2020-01-01T00:00:00Z"


class Draft(Model):
    cron_job: str | None = None
    copies: int | None = None


def stored(type_: str, status: str, reason: str = "Fine", *, generation: int = 1) -> dict[str, Any]:
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": "",
        "lastTransitionTime": LONG_AGO,
        "observedGeneration": generation,
    }


def editor(
    previous: dict[str, Any] | None = None,
    *,
    declared: tuple[str, ...] | None = ("Ready", "Degraded"),
    generation: int = 2,
    strict: bool = True,
    draft: Model | None = None,
    ours: Ours | None = None,
) -> StatusEditor[Any]:
    return StatusEditor(
        previous=previous or {},
        draft=lambda _: draft or Draft(),
        generation=generation,
        declared=declared,
        now=NOW,
        strict=strict,
        ours=ours,
    )


def test_condition_gets_the_generation_and_a_time_only_with_new_status() -> None:
    status = editor({"conditions": [stored("Ready", "True"), stored("Degraded", "False")]})
    status.set_condition("Ready", True, "Better", "more words")
    status.set_condition("Degraded", True, "Broken")
    ready, degraded = status.intent(failed=False)["conditions"]
    assert (ready["reason"], ready["lastTransitionTime"], ready["observedGeneration"]) == ("Better", LONG_AGO, 2)
    assert degraded["lastTransitionTime"] == "2030-01-01T00:00:00Z"


def test_an_unmarked_condition_keeps_its_value_and_its_own_generation() -> None:
    intent = editor({"conditions": [stored("Ready", "True")]}).intent(failed=False)
    assert intent["conditions"] == [stored("Ready", "True")]
    assert intent["observedGeneration"] == 2


def test_a_type_that_is_no_longer_declared_is_left_out() -> None:
    intent = editor({"conditions": [stored("Old", "True"), stored("Ready", "True")]}).intent(failed=False)
    assert [condition["type"] for condition in intent["conditions"]] == ["Ready"]


def test_after_a_raise_marks_are_written_but_the_observed_generation_stays() -> None:
    status = editor({"observedGeneration": 1})
    status.set_condition("Ready", None, "Unclear")
    intent = status.intent(failed=True)
    assert intent["observedGeneration"] == 1
    assert intent["conditions"][0]["status"] == "Unknown"


def test_a_first_reconcile_that_fails_claims_no_generation() -> None:
    assert "observedGeneration" not in editor().intent(failed=True)


def test_a_retraction_removes_the_condition() -> None:
    status = editor({"conditions": [stored("Degraded", "True")]})
    status.remove_condition("Degraded")
    assert "conditions" not in status.intent(failed=False)


def test_draft_fields_that_were_set_are_part_of_the_intent() -> None:
    status = editor(draft=Draft(cron_job="nightly"))
    status.draft.copies = 3
    assert status.intent(failed=False) == {"cronJob": "nightly", "copies": 3, "observedGeneration": 2}
    status.draft.cron_job = None
    assert status.intent(failed=False)["cronJob"] is None  # the schema decides whether null is a value


@pytest.mark.parametrize(
    ("type_", "reason", "message"),
    [("Undeclared", "Fine", ""), ("Ready", "not a word", ""), ("Ready", "", ""), ("Ready", "Fine", "x" * 40000)],
)
def test_a_malformed_condition_is_an_error_in_tests_and_cut_in_production(
    type_: str, reason: str, message: str
) -> None:
    with pytest.raises(ConditionError):
        editor().set_condition(type_, True, reason, message)
    lenient = editor(strict=False)
    lenient.set_condition(type_, True, reason, message)
    written = lenient.intent(failed=False).get("conditions", [])
    if type_ == "Undeclared":
        assert written == []
    else:
        assert len(written[0]["message"]) <= 32768
        assert written[0]["reason"] in ("notaword", "Unspecified", "Fine")


def test_malformed_foreign_conditions_are_read_as_far_as_possible() -> None:
    mangled = ["text", {"type": "Ready", "status": "perhaps"}, {"status": "True"}, 5]
    assert [(c.type, c.status) for c in read_conditions(mangled)] == [("Ready", "Unknown")]
    assert read_conditions({"type": "Ready"}) == ()
    assert read_conditions("nothing") == ()
    assert read_conditions(None) == ()


def test_kept_condition_without_a_time_gets_a_time_for_the_api() -> None:
    intent = editor({"conditions": [{"type": "Ready", "status": "True", "reason": "Fine"}]}).intent(failed=False)
    assert intent["conditions"][0]["lastTransitionTime"] == "2030-01-01T00:00:00Z"


def condition(type_: str, status: Any, reason: str = "A") -> Condition:
    return Condition(type=type_, status=status, reason=reason)


def test_a_transition_is_a_change_of_status_never_of_reason() -> None:
    before = (condition("Ready", "True"), condition("Degraded", "False"))
    after = (condition("Ready", "True", "B"), condition("Degraded", "True"))
    assert [change.after.type for change in transitions(before, after)] == ["Degraded"]


def test_a_condition_that_appears_is_announced_if_it_is_true_or_ready() -> None:
    after = (condition("Ready", "False"), condition("Blocked", "True"), condition("Degraded", "False"))
    assert [change.after.type for change in transitions((), after)] == ["Ready", "Blocked"]


def test_of_two_writers_each_says_only_what_it_owns_or_set() -> None:
    owned = b'{"f:status":{"f:copies":{},"f:conditions":{"k:{\\"type\\":\\"Ready\\"}":{".":{},"f:type":{}}}}}'
    previous = {"conditions": [stored("Ready", "True"), stored("Degraded", "True")]}
    status = editor(previous, draft=Draft(cron_job="theirs", copies=3), ours=Ours.of(owned))
    intent = status.intent(failed=False)
    assert intent["copies"] == 3
    assert "cronJob" not in intent
    assert [entry["type"] for entry in intent["conditions"]] == ["Ready"]


CLEARED: dict[str, Any] = {
    "cronJob": "theirs",
    "conditions": [stored("Ready", "True"), stored("Degraded", "True"), stored("Theirs", "True")],
}


def test_removed_condition_of_another_manager_is_left_until_patched() -> None:
    status = editor(CLEARED, draft=Draft(cron_job="theirs"))
    status.update(Draft(cron_job=None))
    status.remove_condition("Degraded")
    status.intent(failed=False)
    kept = [entry for entry in CLEARED["conditions"] if entry["type"] != "Degraded"]
    assert status.left_over(CLEARED) == {"cronJob": None, "conditions": kept}
    assert status.left_over({"conditions": kept}) == {}


def test_nothing_is_left_over_that_was_not_taken_out() -> None:
    status = editor(CLEARED, draft=Draft(cron_job="theirs"))
    status.remove_condition("Degraded")
    status.set_condition("Degraded", True, "Broken")
    status.intent(failed=False)
    assert status.left_over(CLEARED) == {}


@pytest.mark.parametrize(
    "shared", [{"ours": Ours(frozenset({"cronJob"}), frozenset({"Degraded"}))}, {"declared": None}], ids=str
)
def test_where_several_write_a_status_what_others_hold_stays(shared: dict[str, Any]) -> None:
    status = editor(CLEARED, draft=Draft(cron_job="theirs"), **shared)
    status.update(Draft(cron_job=None))
    status.remove_condition("Degraded")
    status.intent(failed=False)
    assert status.left_over(CLEARED) == {}
