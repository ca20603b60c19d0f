"""Which plans share their beginning, and where they branch."""

from typing import Any

import pytest

from konverge_testing.apiserver.faults.rules import About, Moment, Rule
from konverge_testing.lab import Crash, Foreign, Plan, Timed
from konverge_testing.lab.branching import LEAST, MOST, Batch, SharedPrefix, acts_when_armed, batches, branches_at
from konverge_testing.lab.plans import Interruption, Lease
from konverge_testing.lab.timeline import Timeline, TimelineEntry

CRASH = (Crash(write=3),)
OPEN = (About("watch", resource="secrets"),)


def plans(count: int, seed: int = 0) -> list[Plan]:
    return [Plan(name=str(number), seed=seed, crashes=CRASH) for number in range(count)]


def timed(fault: dict[str, Any], after: int = 0, seconds: float | None = None) -> Timed:
    return Timed(rule={"match": {"resources": ["secrets"]}, "fault": fault}, after=after, seconds=seconds)


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("count", [0, 1, 2, 39, 743])
def test_every_plan_is_in_one_batch_and_the_order_stays(count: int, workers: int) -> None:
    cut = batches(plans(count), workers)
    assert [place for batch in cut for place in batch.places] == list(range(count))
    assert all(batch.shared == (len(batch.places) > 1) for batch in cut)
    assert all(len(batch.places) < MOST + LEAST for batch in cut)


def test_batches_get_smaller_so_that_workers_end_together() -> None:
    sizes = [len(batch.places) for batch in batches(plans(400), 2)]
    assert sizes[0] == MOST
    assert sizes == sorted(sizes, reverse=True)
    assert LEAST // 2 <= sizes[-1] < 2 * LEAST


def test_only_neighbours_of_one_seed_share_their_beginning() -> None:
    mixed = [*plans(2), *plans(1, seed=4), *plans(1, seed=5), *plans(2, seed=6)]
    assert batches(mixed, 1) == [Batch((0, 1), shared=True), Batch((2, 3)), Batch((4, 5), shared=True)]


def test_plans_that_share_no_run_do_not_part_the_plans_around_them() -> None:
    lease = Plan(name="lease", leases=(Lease(after=1, do="lose"),))
    mixed = [plan for number in range(MOST) for plan in (*plans(4), *plans(2, seed=number + 1), lease)]
    cut = batches(mixed, 1)
    assert sorted(place for batch in cut for place in batch.places) == list(range(len(mixed)))
    common = [len(batch.places) for batch in cut if batch.shared and mixed[batch.places[0]].seed == 0]
    assert common[:-1] == [MOST] * (len(common) - 1)
    assert all(batch.places[-1] - batch.places[0] < 3 * MOST for batch in cut)


def test_plans_without_faults_or_with_leases_run_alone() -> None:
    lease = Lease(after=1, do="lose")
    odd = [Plan(name="nothing"), Plan(name="nothing"), Plan(name="lease", crashes=CRASH, leases=(lease,))]
    assert batches([*plans(2), *odd], 1) == [Batch((0, 1), shared=True), Batch((2, 3, 4))]


def test_batches_of_single_plans_are_not_marked_as_shared() -> None:
    assert not any(batch.shared for batch in batches(plans(50), 2, share=False))


@pytest.mark.parametrize(
    ("plan", "at"),
    [
        (Plan(name="", crashes=(Crash(write=3, moment="before"),)), [(3, "before")]),
        (Plan(name="", crashes=CRASH), [(3, "after")]),
        (Plan(name="", foreign=(Foreign(after=2, do="delete"),)), [(2, "after")]),
        (Plan(name="", rules=(timed({"type": "drop"}, after=1),)), []),
        (Plan(name="", rules=(timed({"type": "drop"}, after=1, seconds=5.0),)), [(1, "after")]),
        (Plan(name="", rules=(timed({"type": "drop"}, seconds=5.0),)), [(0, "after")]),
        (
            Plan(name="", crashes=CRASH, rules=(timed({"type": "drop", "watches": True}, 2),)),
            [(2, "after"), (3, "after")],
        ),
        (Plan(name="", crashes=(Crash(write=0),)), []),
    ],
)
def test_a_plan_branches_off_where_its_first_fault_shows(plan: Plan, at: list[tuple[int, str]]) -> None:
    moments = [(number, moment) for number in range(5) for moment in ("before", "after")]
    assert [(number, moment) for number, moment in moments if branches_at(plan, number, moment, OPEN)] == at  # type: ignore[arg-type]  # the two words


@pytest.mark.parametrize(
    ("fault", "with_watches", "without"),
    [
        ({"type": "refuse", "status": 500}, False, False),
        ({"type": "drop"}, False, False),
        ({"type": "drop", "watches": True}, True, True),
        ({"type": "stale", "behind": 1, "honest": True}, False, False),
        ({"type": "stale", "behind": 1}, True, True),
        ({"type": "freeze"}, False, False),
        ({"type": "cut"}, False, False),
        ({"type": "cut", "clean": True}, True, False),
        ({"type": "cut", "bytes": 0}, True, False),
        ({"type": "expire"}, True, False),
        ({"type": "bookmarks", "do": "omit"}, False, False),
    ],
)
def test_rules_that_act_without_a_hit_act_when_they_are_armed(
    fault: dict[str, Any], with_watches: bool, without: bool
) -> None:
    assert acts_when_armed(timed(fault), OPEN) is with_watches
    assert acts_when_armed(timed(fault), [About("watch", resource="pods")]) is without
    assert acts_when_armed(timed(fault, seconds=1.0), ()) is True


def entry(text: str) -> TimelineEntry:
    return TimelineEntry(0.0, "fault", "plan", text)


def test_entries_about_arming_have_the_position_of_a_run_of_their_own() -> None:
    prefix = SharedPrefix(dict(enumerate(plans(2))), lambda _: False)
    timeline, rule = Timeline(), Rule.from_json(timed({"type": "drop"}).rule)
    prefix.probe(0, rule, timeline, entry("a"))
    prefix.probe(0, rule, timeline, entry("b"))
    timeline.add(entry("1"))
    prefix.probe(1, rule, timeline, entry("of another"))
    prefix.probe(0, rule, timeline, entry("c"))
    timeline.add(entry("2"))
    assert [one.text for one in prefix.timeline(0, timeline).entries] == ["a", "b", "1", "c", "2"]
    assert [one.text for one in timeline.entries] == ["1", "2"]


def test_a_plan_branches_off_at_the_call_of_finalize_that_it_interrupts() -> None:
    waiting = {
        0: Plan(name="", interruptions=(Interruption(finalize=2, do="raise"),)),
        1: Plan(name="", interruptions=(Interruption(finalize=2, do="cancel", moment="after"),)),
        2: Plan(name="", crashes=CRASH),
    }
    prefix = SharedPrefix(waiting, lambda _: False)
    moments: list[tuple[int, Moment]] = [(1, "before"), (2, "before"), (2, "after"), (3, "before")]
    assert [prefix.due_at_finalize(number, moment) for number, moment in moments] == [[], [0], [1], []]


@pytest.mark.parametrize("copy", [True, False])
def test_copied_branch_drops_other_plans_rules_and_original_drops_its_plans_rules(copy: bool) -> None:
    prefix = SharedPrefix(dict(enumerate(plans(2))), lambda _: copy)
    ours, others = (Rule.from_json(timed({"type": "drop"}).rule) for _ in range(2))
    prefix.probe(0, ours, Timeline(), entry(""))
    prefix.probe(1, others, Timeline(), entry(""))
    taken, over = prefix.branch(0)
    assert (taken, over) == (copy, [others] if copy else [ours])
    assert list(prefix.waiting) == ([0, 1] if copy else [1])
