"""The arithmetic of the peers benchmark: percentiles, ranges, the order of the runs, the CPU time of other processes."""

from __future__ import annotations

import pytest
from peers import machine, plan, scrape
from peers.contestants import CONTESTANTS
from peers.objects import in_step, item, status_intent
from peers.statistics_of import Spread, foreign_share, percentile, rotated, shown, spread

STAT = (
    "42 (a (strange) name) S 1 42 42 0 -1 4194304 500 0 0 0 {user} {system} {ended_user} {ended_system} 20 0 1 0 9 8 7"
)

COUNTED = """# HELP apiserver_request_total Counter of requests
apiserver_request_total{code="200",component="apiserver",dry_run="",group="x",resource="items",scope="resource",subresource="status",verb="APPLY",version="v1"} 7
apiserver_request_total{code="409",component="apiserver",dry_run="",group="x",resource="items",scope="resource",subresource="status",verb="APPLY",version="v1"} 2
apiserver_request_total{code="404",component="apiserver",dry_run="",group="x",resource="items",scope="resource",subresource="",verb="GET",version="v1"} 3
apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="events",scope="resource",subresource="",verb="POST",version="v1"} 5
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="secrets",scope="cluster",subresource="",verb="LIST",version="v1"} 9
"""


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        ([5.0], 99, 5.0),
        ([1.0, 2.0, 3.0, 4.0], 50, 2.0),
        (list(map(float, range(1, 101))), 99, 99.0),
        ([2.0, 1.0], 100, 2.0),
    ],
)
def test_a_percentile_is_the_nearest_rank(values: list[float], percent: float, expected: float) -> None:
    assert percentile(values, percent) == expected


def test_nothing_has_no_percentile() -> None:
    with pytest.raises(ValueError, match="of nothing"):
        percentile([], 50)


def test_a_spread_leaves_out_what_was_not_measured() -> None:
    assert spread([3.0, None, 1.0, float("nan"), 2.0]) == Spread(2.0, 1.0, 3.0, 3)
    assert spread([None]) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Spread(2.0, 1.0, 3.5, 3), "2 (1-3.5)"),
        (Spread(1234.5, 1234.5, 1234.5, 1), "1,234"),
        (Spread(0.4567, 0.4567, 0.4567, 5), "0.457"),
    ],
)
def test_a_spread_is_written_with_its_range(value: Spread, text: str) -> None:
    assert str(value) == text


def test_figures_above_a_hundred_are_written_whole() -> None:
    assert [shown(value) for value in (123.4, 12.34, 0.001234, 5.0)] == ["123", "12.3", "0.00123", "5"]


def test_each_run_begins_with_another_contestant() -> None:
    names = ["a", "b", "c"]
    assert [rotated(names, run)[0] for run in range(4)] == ["a", "b", "c", "a"]
    assert all(sorted(rotated(names, run)) == names for run in range(4))


def test_foreign_cpu_is_a_share_of_the_machine_and_never_negative() -> None:
    assert foreign_share(busy=15.0, ours=13.0, elapsed=10.0, cpus=2) == pytest.approx(0.1)
    assert foreign_share(busy=1.0, ours=2.0, elapsed=10.0, cpus=2) == 0.0


def test_the_cpu_of_children_that_ended_belongs_to_a_process() -> None:
    stat = STAT.format(user=1, system=2, ended_user=30, ended_system=40)
    assert machine.parse_cpu(stat) * machine.TICKS == pytest.approx(73)


def test_disk_wait_is_not_busy_time_but_stolen_time_is() -> None:
    stat = "cpu  10 20 30 4000 5000 6 7 8 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n"
    assert machine.parse_busy(stat) * machine.TICKS == pytest.approx(81)


def test_requests_are_read_from_the_metrics_of_the_server() -> None:
    before = scrape.parse("", frozenset({"items"}))
    after = scrape.parse(COUNTED, frozenset({"items", "events"}))
    assert scrape.writes(before, after) == 9
    assert scrape.errors(before, after) == 2
    assert [scrape.errors(before, after, code=code) for code in ("409", "500")] == [2, 0]
    assert scrape.reads(before, after) == 3
    assert sum(after.values()) == 17


def test_watches_that_the_server_ended_are_counted() -> None:
    text = (
        'apiserver_terminated_watchers_total{group="x",resource="items"} 3\n'
        'apiserver_terminated_watchers_total{group="",resource="pods"} 9\n'
    )
    assert scrape.ended_watches(text) == 3


def test_every_run_has_a_name_of_its_own() -> None:
    names = [run.name for run in plan.runs(plan.SESSIONS)]
    assert len(names) == len(set(names))
    assert names[0] == "base-konverge-1"


def test_limits_have_no_row_where_children_are_repaired() -> None:
    owners = [run.contestant.name for run in plan.runs([each for each in plan.SESSIONS if each.owners])]
    assert {"konverge", "konverge-speed", "cr-unstructured", "cr-typed", "kopf-event", "kube-rs"} == set(owners)


def test_the_quick_sessions_are_those_of_the_full_run() -> None:
    assert [each.name for each in plan.QUICK] == [each.name for each in plan.SESSIONS]
    assert all(each.runs == 1 and each.title.startswith("QUICK") for each in plan.QUICK)


def test_everything_that_is_to_be_compared_takes_part() -> None:
    ours = {"konverge", "konverge-speed", "konverge-events"}
    others = {"kopf-change", "kopf-event", "cr-unstructured", "cr-typed", "kube-rs"}
    assert ours | others | {"bare-loop", "bare-writer"} == {each.name for each in CONTESTANTS}


@pytest.mark.parametrize(
    ("generation", "status", "expected"),
    [
        (1, {}, False),
        (1, status_intent("item", 1)["status"], True),
        (2, status_intent("item", 1)["status"], False),
        (2, status_intent("item", 1)["status"] | {"observedGeneration": 2}, False),
        (1, {"observedGeneration": 1}, False),
    ],
    ids=["no status", "in step", "behind", "the condition is behind", "no condition"],
)
def test_an_item_is_in_step_once_status_and_condition_have_its_generation(
    generation: int, status: dict[str, object], expected: bool
) -> None:
    found = item(1, "bench")
    found["metadata"]["generation"] = generation
    assert in_step(found | {"status": status}) is expected
