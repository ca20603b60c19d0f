"""The verdict on a run, from its result and the reference's result."""

from collections import Counter
from typing import Any

import pytest

from konverge_testing.lab.comparison import differences, problems_of
from konverge_testing.lab.finalizing import LET_THROUGH
from konverge_testing.lab.owned import owned_paths
from konverge_testing.lab.plans import Crash, Foreign, Interruption, Plan
from konverge_testing.lab.runs import EXPECTATION, REQUEST, Run

CRASH = Plan(name="crash", crashes=(Crash(write=1),))
EDIT = Plan(name="edit", foreign=(Foreign(after=1, do="edit"),), same_end=False)


def run(
    plan: Plan, state: dict[str, Any] | None = None, *, made: int = 1, deleted: int = 0, problems: tuple[str, ...] = ()
) -> Run:
    what = "configmaps lab/a"
    return Run(
        plan,
        state={what: {"data": {"n": "1"}}} | (state or {}),
        created=Counter({what: made}),
        deleted=Counter({what: deleted}),
        problems=list(problems),
    )


REFERENCE = run(Plan(name="reference"))


def test_a_run_that_ends_as_the_reference_has_no_problems() -> None:
    assert problems_of(REFERENCE, run(CRASH)) == []


def test_problems_of_the_run_itself_count_whatever_the_reference_did() -> None:
    assert problems_of(REFERENCE, run(EDIT, problems=("unhandled KeyError",))) == ["unhandled KeyError"]


@pytest.mark.parametrize(
    ("plan", "forgiven"),
    [
        (CRASH, False),
        (Plan(name="an error", interruptions=(Interruption(finalize=1, do="raise"),)), False),
        (Plan(name="a cancellation", interruptions=(Interruption(finalize=1, do="cancel"),)), True),
    ],
)
def test_uncaught_cancellation_in_a_reconciler_is_a_problem_unless_planned(plan: Plan, forgiven: bool) -> None:
    problem = f"finalize of Widget lab/one {LET_THROUGH}: something that it awaited was cancelled"
    assert problems_of(REFERENCE, run(plan, problems=(problem, "another"))) == (
        ["another"] if forgiven else [problem, "another"]
    )


def test_a_different_end_state_is_reported_with_both_values() -> None:
    other = run(CRASH, {"configmaps lab/a": {"data": {"n": "2"}}})
    assert problems_of(REFERENCE, other) == [
        "the end state differs: configmaps lab/a .data.n: '2', in the reference run '1'"
    ]


def test_a_different_end_state_is_accepted_if_a_foreign_change_may_stay() -> None:
    assert problems_of(REFERENCE, run(EDIT, {"configmaps lab/a": {"data": {"n": "2"}}})) == []


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({"made": 2}, ["configmaps lab/a was created 2 times, in the reference run 1"]),
        ({"made": 2, "deleted": 1}, ["was created 2 times", "was deleted 1 times, in the reference run 0"]),
        ({"made": 0}, []),
    ],
)
def test_more_creations_and_deletions_than_in_the_reference_are_a_problem(
    counts: dict[str, Any], said: list[str]
) -> None:
    found = problems_of(REFERENCE, run(CRASH, **counts))
    assert len(found) == len(said)
    assert all(words in one for words, one in zip(said, found, strict=True))


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        ({"a": 1}, {}, ["a is missing"]),
        ({}, {"a": 1}, ["a is there and should not be"]),
        ({"a": {"x": [1, 2]}}, {"a": {"x": [1, 3]}}, ["a .x[1]: 3, in the reference run 2"]),
        ({"a": {"x": [1]}}, {"a": {"x": [1, 3]}}, ["a .x: [1, 3], in the reference run [1]"]),
        ({"a": {"x": None}}, {"a": {}}, []),
        ({"a": "old"}, {"a": "new"}, ["a .: 'new', in the reference run 'old'"]),
    ],
)
def test_a_difference_names_its_path(one: dict[str, Any], other: dict[str, Any], said: list[str]) -> None:
    assert differences(one, other) == said


def test_no_more_than_a_dozen_differences_are_listed() -> None:
    found = differences({}, {f"object {number:02}": 1 for number in range(30)})
    assert len(found) == 13
    assert found[-1] == "and 18 more"


def test_objects_that_may_stay_gone_may_be_missing_and_nothing_else() -> None:
    one: dict[str, Any] = {"configmaps lab/b": {}}
    two: dict[str, Any] = {"secrets lab/c": {}}
    reference = run(Plan(name="reference"), one | two)
    assert len(problems_of(reference, run(CRASH))) == 2
    reference.may_be_gone = frozenset({"configmaps lab/b", "secrets"})
    assert problems_of(reference, run(CRASH)) == []
    assert differences(one, {"configmaps lab/b": {"data": 1}}, reference.may_be_gone) != []


def test_objects_of_a_kind_that_may_differ_may_be_recreated_freely() -> None:
    reference = run(Plan(name="reference"))
    reference.may_differ = frozenset({"jobs.batch"})
    assert len(problems_of(reference, run(CRASH, made=2, deleted=2))) == 2
    reference.may_differ = frozenset({"configmaps"})
    assert problems_of(reference, run(CRASH, made=2, deleted=2)) == []


@pytest.mark.parametrize("words", [EXPECTATION, REQUEST])
def test_scenario_that_a_foreign_change_blocks_is_forgiven(words: str) -> None:
    problem = f"{words}: NotFound: the namespace is gone"
    assert problems_of(REFERENCE, run(EDIT, problems=(problem,))) == []
    assert problems_of(REFERENCE, run(CRASH, problems=(problem,))) == [problem]


FIELDS: dict[str, Any] = {"f:spec": {"f:selector": {}, "f:ports": {'k:{"port":80}': {".": {}, "f:port": {}}}}}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"clusterIP": "10.0.0.2"}, "spec.clusterIP"),
        ({"ports": [{"port": 80, "nodePort": 30002}]}, "spec.ports.nodePort"),
        ({"selector": {"app": "b"}}, ""),
        ({"ports": [{"port": 81, "nodePort": 30001}]}, ""),
    ],
    ids=["a field of the server", "in a list", "within an atomic field of a client", "a client's field in a list"],
)
def test_a_difference_in_a_field_of_the_server_names_may_differ(spec: dict[str, Any], field: str) -> None:
    before = {"clusterIP": "10.0.0.1", "ports": [{"port": 80, "nodePort": 30001}], "selector": {"app": "a"}}
    reference, state = ({"services lab/web": {"kind": "Service", "spec": {**before, **new}}} for new in ({}, spec))
    owned = {"services lab/web": owned_paths({"metadata": {"managedFields": [{"manager": "lab", "fieldsV1": FIELDS}]}})}
    [line] = differences(reference, state, owned=owned)
    assert (f'lab.may_differ(SERVICE, "{field}", why="...")' in line) is bool(field), line
