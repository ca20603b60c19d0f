"""From a reference run to plans. No possible plan is left out without a line that gives the reason."""

import re
from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from random import Random
from typing import Any

import pytest

from konverge_testing.lab.planning import Planned, kind_of_fault, plans_of, random_plan, spread_over_faults
from konverge_testing.lab.plans import Plan
from konverge_testing.lab.runs import Run
from konverge_testing.lab.timeline import TimelineEntry

CHILD = "configmaps lab/part"


def write(number: int, text: str = "apply configmaps lab/part", *, effect: bool = True) -> TimelineEntry:
    return TimelineEntry(float(number), "write", "process", text, number, effect)


def commit(text: str = f"added {CHILD}", who: str = "process") -> TimelineEntry:
    return TimelineEntry(0.0, "commit", who, text)


def reference(
    *entries: TimelineEntry, watched: dict[str, int] | None = None, state: Any = None, own: Sequence[str] = ()
) -> Run:
    run = Run(Plan(name="reference"), state=state or {}, watched=watched or {}, definitions=tuple(own))
    for entry in entries:
        run.timeline.add(entry)
    return run


def names(planned: Planned, words: str) -> list[str]:
    return [plan.name for plan in planned.plans if words in plan.name]


def reasons(planned: Planned) -> set[str]:
    return {pruned.reason for pruned in planned.pruned}


def thought_of(planned: Planned) -> list[Plan]:
    return [*planned.plans, *(one.plan for one in planned.pruned)]


def shapes(planned: Planned, number: int) -> Counter[str]:
    """The plans at a write, including pruned plans, without the write's number."""
    everything = [plan.name for plan in thought_of(planned) if not plan.foreign]
    return Counter(re.sub(r"\bwrite \d+", "write N", name) for name in everything if f"write {number} " in f"{name} ")


def test_the_process_is_down_for_minutes_and_for_hours_after_every_write() -> None:
    planned = plans_of(reference(write(1), commit(who=""), write(2)), process="lab")
    down = [
        (plan.crashes[0].write, plan.crashes[0].down) for plan in planned.plans if "the process is down" in plan.name
    ]
    assert down == [(1, 600.0), (1, 10800.0), (2, 600.0), (2, 10800.0)]
    assert len({kind_of_fault(plan) for plan in planned.plans if "the process is down" in plan.name}) == 2


def test_plans_that_the_scenario_skips_are_listed_with_its_reason() -> None:
    run = reference(write(1), commit())
    run.skipped = (("the namespace is deleted *", "nothing can be scheduled in it"),)
    planned = plans_of(run, process="lab")
    assert names(planned, "the namespace is deleted") == []
    assert "the scenario skips it: nothing can be scheduled in it" in reasons(planned)


def test_skip_pattern_without_matches_is_reported_with_the_nearest_plan_name() -> None:
    run = reference(write(1), commit())
    run.skipped = (
        ("the name space is deleted *", "a typing error"),
        ("crash before write *", "it matches"),
        ("random *", "these are drawn later"),
    )
    [unmatched] = plans_of(run, process="lab").unmatched
    assert unmatched == "'the name space is deleted *'; the nearest is 'the namespace is deleted after write 1'"


def test_pattern_that_matches_only_pruned_plans_is_not_a_typing_error() -> None:
    run = reference(write(1), commit(), write(2, effect=False))
    run.skipped = (("crash after write 2 *", "nothing is written there"),)
    assert not any(plan.name.startswith("crash after write 2 ") for plan in plans_of(run, process="lab").plans)
    assert plans_of(run, process="lab").unmatched == ()


def test_every_write_meets_every_fault() -> None:
    planned = plans_of(reference(write(1), commit(who=""), write(2)), process="lab")
    assert planned.pruned == ()
    assert [plan.crashes[0].write for plan in planned.plans if plan.name.startswith("crash before")] == [1, 2]
    for words in (
        "crash before write N",
        "crash after write N",
        *(
            f"write N (apply configmaps lab/part) is answered with {status}"
            for status in (409, 422, 429, 500, 503, 504)
        ),
        "the answer to write N (apply configmaps lab/part) is lost, the write is done",
        "write N (apply configmaps lab/part) is lost",
        "write N (apply configmaps lab/part) takes 20 s",
        "partition for 30 s after write N",
    ):
        for number in (1, 2):
            assert any(name.startswith(words) for name in shapes(planned, number)), words


def test_no_plan_at_a_write_is_left_out_without_a_reason() -> None:
    run = reference(write(1), write(2, effect=False), write(3, effect=False), commit(), write(4), write(5))
    planned = plans_of(run, process="lab")
    whole = shapes(planned, 1)
    assert all(shapes(planned, number) == whole for number in (2, 3, 4, 5))
    names = [plan.name for plan in thought_of(planned)]
    assert len(set(names)) == len(names)
    assert all(one.reason for one in planned.pruned)


def test_only_refusals_are_planned_at_a_write_that_changed_nothing() -> None:
    planned = plans_of(reference(write(1, effect=False)), process="lab")
    assert planned.plans
    assert all("answered with" in plan.name for plan in planned.plans)
    assert reasons(planned) == {"the write changed nothing in the reference run"}


@pytest.mark.parametrize(("between", "pruned"), [("process", True), ("", False)])
def test_crash_before_a_write_is_pruned_if_nothing_was_stored_in_between(between: str, pruned: bool) -> None:
    planned = plans_of(reference(write(1), commit(who=between), write(2)), process="lab")
    assert bool(names(planned, "crash before write 2")) is not pruned
    assert reasons(planned) == (
        {"nothing was stored since write 1: the same as a crash after that one"} if pruned else set()
    )


def test_events_of_a_long_stream_without_plans_are_listed_as_pruned() -> None:
    few = plans_of(reference(watched={"configmaps": 12}), process="lab")
    many = plans_of(reference(watched={"configmaps": 40}), process="lab")
    assert few.pruned == ()
    assert many.plans == few.plans
    assert [(one.plan.name, one.reason) for one in many.pruned] == [
        ("events of configmaps from number 13 on", "40 events; the first 12 have plans")
    ]


@pytest.mark.parametrize(
    "words",
    [
        "a stale view of configmaps from event 2 on, for 2 writes",
        "a stale view of configmaps from event 1 on, for 20 s",
        "the watch of configmaps breaks inside event 2",
        "the watch of configmaps ends before event 2",
        "410 on the watch of configmaps instead of event 1",
        "event 2 of configmaps comes twice",
        "event 1 of configmaps is 5 s late",
        "events of configmaps from 2 on are lost before a new list",
        "bookmarks of configmaps: omit",
        "bookmarks of configmaps: delay",
        "configmaps is read 5 versions late",
        "the right on configmaps is withdrawn for 30 s after write 0",
    ],
)
def test_every_event_of_a_watched_kind_has_plans_for_all_watch_faults(words: str) -> None:
    planned = plans_of(reference(watched={"configmaps": 2}), process="lab")
    assert words in {plan.name for plan in planned.plans}


def test_rules_strike_the_process_under_test_alone() -> None:
    planned = plans_of(reference(write(1), watched={"configmaps": 1}), process="shop")
    agents = {timed.rule["match"]["user_agent"] for plan in planned.plans for timed in plan.rules}
    assert agents == {"shop *"}


def test_foreign_writes_touch_only_objects_of_the_process() -> None:
    state = {CHILD: {"data": {"n": "1"}}, "secrets lab/other": {"data": {"n": "1"}}}
    run = reference(
        commit(), write(1), commit("added secrets lab/other", who=""), write(2, "apply x lab/x"), state=state
    )
    planned = plans_of(run, process="lab")
    touches = {
        (plan.foreign[0].do, plan.foreign[0].after, plan.foreign[0].value) for plan in planned.plans if plan.foreign
    }
    assert touches >= {(do, after, None) for do in ("delete", "recreate") for after in (1, 2)}
    assert touches >= {(do, after, "1-edited") for do in ("edit", "take") for after in (1, 2)}
    objects = {(one.resource, one.name) for plan in planned.plans for one in plan.foreign if one.do != "terminate"}
    assert objects == {("configmaps", "part")}
    for plan in planned.plans:
        if plan.foreign and plan.foreign[0].do in ("edit", "take"):
            assert not plan.same_end
        elif plan.foreign and plan.foreign[0].do in ("delete", "recreate"):
            assert plan.same_end


def test_with_foreign_false_plans_with_foreign_writes_are_pruned() -> None:
    run = reference(commit(), write(1))
    everything = plans_of(run, process="lab")
    planned = plans_of(run, process="lab", foreign=False)
    by_others = [plan for plan in everything.plans if plan.foreign]
    assert by_others
    assert list(planned.plans) == [plan for plan in everything.plans if not plan.foreign]
    assert [one.plan for one in planned.pruned] == by_others
    assert reasons(planned) == {"the scenario itself plays those who touch the objects"}


def test_lease_loss_is_planned_at_every_write_and_other_faults_at_two() -> None:
    planned = plans_of(reference(write(1), write(2), write(3), write(4)), process="lab").plans
    found: dict[str, list[int]] = {}
    for plan in planned:
        for lease in plan.leases:
            found.setdefault(lease.do, []).append(lease.after)
    often = {do for do, after in found.items() if after == [1, 2, 3, 4]}
    assert often == {"lose", "pause"}
    assert {tuple(after) for do, after in found.items() if do not in often} == {(1, 4)}


def test_crd_removal_is_planned_once_for_several_objects_of_a_kind() -> None:
    places = [f"parts.example.com lab/{name}" for name in ("one", "two")]
    run = reference(
        *(commit(f"added {place}") for place in places),
        write(1, "apply them"),
        state={place: {} for place in places},
        own=("parts.example.com",),
    )
    planned = [
        plan for plan in plans_of(run, process="lab").plans if plan.foreign and plan.foreign[0].do == "remove-crd"
    ]
    assert len(planned) == 1


def test_plan_removes_a_crd_of_the_process_and_restores_it() -> None:
    child = "parts.example.com lab/part"
    run = reference(commit(f"added {child}"), write(1, f"apply {child}"), state={child: {}}, own=("parts.example.com",))
    assert names(plans_of(run, process="lab"), "the CRD of parts.example.com goes after write 1 and comes back")


@pytest.mark.parametrize(("calls", "numbers"), [(0, []), (1, [1]), (2, [1, 2]), (3, [1, 2, 3]), (5, [1, 2, 5])])
def test_the_first_calls_of_finalize_and_the_last_raise_and_are_cancelled(calls: int, numbers: list[int]) -> None:
    run = reference(write(1))
    run.finalizes = ["Widget lab/one"] * calls
    planned = plans_of(run, process="lab")
    found = [plan.interruptions[0] for plan in planned.plans if plan.interruptions]
    assert [(one.finalize, one.moment, one.do) for one in found] == [
        (number, moment, do) for number in numbers for moment in ("before", "after") for do in ("raise", "cancel")
    ]
    assert len({kind_of_fault(plan) for plan in planned.plans if plan.interruptions}) == (4 if calls else 0)
    left = [one.reason for one in planned.pruned if "finalize" in one.plan.name]
    assert left == ([] if calls < 4 else ["5 calls; the first 2 and the last one have plans"])


def test_the_same_reference_gives_the_same_plans_in_the_same_order() -> None:
    def planned() -> Planned:
        return plans_of(
            reference(commit(), write(1), watched={"b": 2, "a": 1}, state={CHILD: {"data": {"n": 1}}}), process="lab"
        )

    assert planned() == planned()


def test_every_plan_reads_back_from_json_unchanged() -> None:
    run = reference(
        commit(), write(1), watched={"configmaps": 2}, state={CHILD: {"data": {"n": "1"}}}, own=("configmaps",)
    )
    planned = plans_of(run, process="lab")
    assert [Plan.from_json(plan.to_json()) for plan in planned.plans] == list(planned.plans)


def test_random_plan_joins_two_or_three_faults_reproducibly_by_seed() -> None:
    plans = plans_of(reference(commit(), write(1), state={CHILD: {"data": {"n": 1}}}), process="lab").plans
    drawn = [random_plan(plans, Random(3), number) for number in (1, 1)]
    assert drawn[0] == drawn[1]
    assert 2 <= drawn[0].faults <= 3
    assert drawn[0].seed > 0
    many = [random_plan(plans, Random(seed), seed) for seed in range(40)]
    assert {plan.faults for plan in many} == {2, 3}
    assert all(plan.same_end == all(one.same_end for one in plans if one.name in plan.name) for plan in many)


def test_a_few_plans_of_consecutive_positions_have_every_kind_of_fault() -> None:
    plans = plans_of(reference(write(1), commit(), write(2), watched={"configmaps": 3}), process="lab").plans
    kinds = {kind_of_fault(plan) for plan in plans}
    few = len(kinds) // 4
    first = [spread_over_faults(plans, Random(1), position)[:few] for position in range(20, 28)]
    assert {kind_of_fault(plan) for chosen in first for plan in chosen} == kinds
    assert len({kind_of_fault(plan) for plan in first[0]}) == few


def test_a_position_leaves_no_plan_out_and_repeats_no_kind_early() -> None:
    plans = plans_of(reference(write(1), commit(), write(2), watched={"configmaps": 3}), process="lab").plans
    drawn = spread_over_faults(plans, Random(1), 3)
    assert sorted(plan.name for plan in drawn) == sorted(plan.name for plan in plans)
    kinds = [kind_of_fault(plan) for plan in drawn]
    assert len(set(kinds[: len(set(kinds))])) == len(set(kinds))


def test_every_plan_fits_one_row_of_the_guide_and_vice_versa() -> None:
    guide = (
        (Path(__file__).parents[4] / "testkit/docs/lab.md")
        .read_text()
        .partition("\n## Plans\n")[2]
        .partition("\n## ")[0]
    )
    patterns = re.findall(r"^\| `([^-`][^`]*)` \|", guide, re.MULTILINE)
    run = reference(
        commit("added widgets.tests lab/one", who=""),
        commit(),
        write(1),
        write(2, "apply widgets.tests/status lab/one"),
        watched={"configmaps": 2},
        state={CHILD: {"data": {"n": "1"}}, "widgets.tests lab/one": {}},
        own=("configmaps",),
    )
    run.finalizes[:] = ["widget lab/one"]
    run.requests["service 1"] = ["PUT /photos"]
    planned = plans_of(run, process="lab")
    everything = [plan.name for plan in planned.plans] + [random_plan(planned.plans, Random(1), 1).name]
    fitting = {name: [one for one in patterns if fnmatchcase(name, one)] for name in everything}
    assert {name: fits for name, fits in fitting.items() if len(fits) != 1 and not name.startswith("random ")} == {}
    assert set(patterns) - {one for fits in fitting.values() for one in fits} == set()
