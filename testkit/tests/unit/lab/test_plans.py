"""Plans as files: they are converted to JSON and back without loss, and an error names its place in the plan."""

from typing import Any

import pytest

from konverge_testing.lab.plans import Crash, Foreign, Interruption, Lease, Plan, Timed

RULE: dict[str, Any] = {
    "match": {"verbs": ["write"], "user_agent": "lab *"},
    "fault": {"type": "refuse", "status": 429, "retry_after": 2},
    "count": 1,
}
EVERYTHING = Plan(
    name="everything",
    seed=7,
    crashes=(Crash(write=3), Crash(write=5, moment="before"), Crash(write=6, behind=2, stale_seconds=1.5)),
    rules=(Timed(rule=RULE, after=2), Timed(rule=RULE, seconds=30.0)),
    foreign=(
        Foreign(
            after=1, do="edit", resource="jobs.batch", namespace="lab", name="a", path=("spec", "n"), value=[1, "x"]
        ),
        Foreign(after=2, do="remove-crd", resource="widgets.example.com", back_after=5.0),
    ),
    leases=(Lease(after=4, do="pause", seconds=60.0),),
    interruptions=(Interruption(finalize=2, do="cancel", moment="after"),),
    same_end=False,
)


@pytest.mark.parametrize("plan", [Plan(name="nothing"), EVERYTHING], ids=lambda plan: plan.name)
def test_a_plan_comes_back_from_its_file_as_it_was(plan: Plan) -> None:
    assert Plan.from_json(plan.to_json()) == plan
    assert Plan.from_json(plan.to_json().encode()).to_json() == plan.to_json()


def test_defaults_of_a_plan_are_left_out_of_its_file() -> None:
    plan = Plan(name="crash after write 3", crashes=(Crash(write=3),))
    assert (
        plan.to_json()
        == '{\n  "name": "crash after write 3",\n  "crashes": [\n    {\n      "write": 3\n    }\n  ]\n}\n'
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"crashes": []}', "missing required field `name`"),
        ('{"name": "x", "crash": []}', "unknown field `crash`"),
        ('{"name": "x", "crashes": [{"write": "3"}]}', r"Expected `int`, got `str` - at `\$.crashes\[0\].write`"),
        ('{"name": "x", "crashes": [{"write": 3, "moment": "during"}]}', "Invalid enum value 'during'"),
        ('{"name": "x", "foreign": [{"after": 1, "do": "sing"}]}', "Invalid enum value 'sing'"),
        ('{"name": "x", "leases": [{"after": 1, "do": "sell"}]}', "Invalid enum value 'sell'"),
        (
            '{"name": "x", "rules": [{"rule": {"match": {}, "fault": {"type": "drop"}}}, {"rule": {"fault": {"type": "drop"}}}]}',
            r"rules\[1\].rule: Object missing required field `match`",
        ),
        (
            '{"name": "x", "rules": [{"rule": {"match": {}, "fault": {"type": "rain"}}}]}',
            r"rules\[0\].rule: Invalid value 'rain'",
        ),
        ('{"name": ', "Input data was truncated"),
    ],
)
def test_an_invalid_file_is_refused_with_the_place_of_its_error(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Plan.from_json(text)


def test_each_fault_of_a_plan_can_be_removed_alone() -> None:
    assert EVERYTHING.faults == 9
    smaller = [EVERYTHING.without(place) for place in range(EVERYTHING.faults)]
    assert [plan.faults for plan in smaller] == [8] * 9
    assert len({plan.to_json() for plan in smaller}) == 9
    assert [crash.write for crash in smaller[1].crashes] == [3, 6]
    assert smaller[4].rules == EVERYTHING.rules[:1]
    assert smaller[7].leases == ()
    assert smaller[8].interruptions == ()
    assert all((plan.name, plan.seed, plan.same_end) == ("everything", 7, False) for plan in smaller)


def test_each_access_to_the_rule_of_a_plan_returns_a_new_rule() -> None:
    timed = Timed(rule=RULE)
    first, second = timed.as_rule, timed.as_rule
    assert first is not second
    assert first.hits == second.hits == []
