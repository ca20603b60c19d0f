"""From records to tables, rows and plots: rows that we lose stay, failures are shown, repeated runs do not count."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest
from peers import campaign, plan, publish, report, targets
from peers.statistics_of import Spread
from peers.svg import Bar, bars

if TYPE_CHECKING:
    from tests.unit.bench.conftest import Runner

BASE = plan.SESSIONS[0]


def record(contestant: str, run: int = 1, **parts: Any) -> dict[str, Any]:
    cold = {"seconds": 4.0, "synced": 0.5, "rate": 600.0, "cpu_ms_per_object": 1.0, "errors": 0}
    made = {"session": "base", "contestant": contestant, "run": run, "foreign": 0.01, "phases": {"cold": cold, **parts}}
    return {**made, "versions": {contestant: "1.0"}, "settings": {"workers": 10}}


def slower(seconds: float, contestant: str = "konverge", run: int = 1) -> dict[str, Any]:
    made = record(contestant, run)
    made["phases"]["cold"]["seconds"] = seconds
    return made


def test_a_table_has_median_and_range_of_every_contestant() -> None:
    table = report.session_table([slower(4.0), slower(6.0, run=2), slower(5.0, run=3), record("kube-rs")], BASE)
    head, _, first, *_ = table.splitlines()
    assert head == "|  | konverge | kube-rs |"
    assert first == "| cold start: all converged, s | 5 (4-6) | 4 |"


def test_a_record_that_was_repeated_does_not_count() -> None:
    noisy = {**slower(9.0), "repeated": True, "foreign": 0.4}
    assert "| 4 |" in report.session_table([noisy, slower(4.0)], BASE)
    assert report.disturbed([noisy, slower(4.0)]) == []
    assert len(report.disturbed([{**slower(4.0), "foreign": 0.06}])) == 1


def test_a_contestant_that_failed_keeps_its_column() -> None:
    failed = {"session": "base", "contestant": "kube-rs", "run": 1, "failed": "Died: ended with code 1", "phases": {}}
    table = report.session_table([record("konverge"), failed], BASE)
    assert "| cold start: all converged, s | 4 | failed |" in table


def test_not_to_keep_up_is_a_result() -> None:
    behind = {"p50_ms": 900.0, "p99_ms": 4000.0, "keeps_up": False, "errors": 0}
    table = report.session_table([record("konverge", open_2=behind)], BASE)
    assert "| open loop at 300/s: p99, ms | 4,000, does not keep up |" in table
    plot = report.plots([record("konverge", open_2=behind)], BASE)["base-open-2-p99-ms.svg"]
    assert "does not keep up" in plot


def test_a_load_that_the_server_did_not_take_counts_for_no_contestant() -> None:
    cut = {"p50_ms": 900.0, "p99_ms": 4000.0, "keeps_up": False, "errors": 0, "cut": True}
    records = [record("konverge", open_2=cut), record("konverge", 2, open_2=cut)]
    assert "| open loop at 300/s: p99, ms | 4,000, the server does not take the load |" in report.session_table(
        records, BASE
    )
    assert "the server does not take the load" in report.plots(records, BASE)["base-open-2-p99-ms.svg"]


def test_rows_are_of_the_form_that_the_runner_keeps(runner: Runner) -> None:
    rows = report.rows([record("konverge"), record("bare-loop")], BASE, "quiet machine")
    assert runner.check(rows)
    assert {"base, konverge: cold start: all converged", "base, bare-loop: cold start: all converged"} <= {
        row["name"] for row in rows
    }


def test_targets_are_judged_against_the_others_medians(runner: Runner) -> None:
    records = [record("konverge"), record("bare-loop"), record("cr-unstructured"), record("kopf-change")]
    records[2]["phases"]["cold"]["cpu_ms_per_object"] = 2.0
    rows = runner.check(targets.verdicts(records, "quiet machine"))
    found = {row["name"]: (row["value"], row["holds"]) for row in rows}
    assert found["target, base: cold start: CPU per object against cr-unstructured"] == (0.5, True)
    assert found["target, base: cold start: CPU per object against kopf-change"] == (1.0, False)
    assert not any("large" in name for name in found)


def test_summary_has_a_line_for_each_contestant_and_omits_empty_figures() -> None:
    behind = {"p50_ms": 900.0, "p99_ms": 4000.0, "keeps_up": False, "errors": 0}
    failed = {"session": "base", "contestant": "kube-rs", "run": 1, "failed": "Died: ended with code 1", "phases": {}}
    head, _, *lines = report.summary(
        [slower(4.0), slower(6.0, run=2), record("konverge", 3, open_1=behind), failed], BASE
    ).splitlines()
    assert head == "|  | cold start, s | objects/s | CPU/object, cold, ms | p99 at 100/s, ms |"
    assert lines == [
        "| konverge | 4 | 600 | 1 | 4,000, does not keep up |",
        "| kube-rs | failed | failed | failed | failed |",
    ]
    assert report.summary([], BASE) == ""


def test_targets_are_shown_with_what_was_reached_and_what_was_missed() -> None:
    records = [record("konverge"), record("bare-loop"), record("cr-unstructured")]
    records[2]["phases"]["cold"]["cpu_ms_per_object"] = 2.0
    lines = targets.table(targets.verdicts(records, "quiet machine")).splitlines()
    assert "| base: cold start: CPU per object against cr-unstructured | 0.5 x | <= 0.7 | reached |" in lines
    assert not [line for line in lines if "missed" in line]


def test_settings_are_shown_once_for_each_contestant() -> None:
    table = report.settings_table([record("konverge"), record("konverge", 2), record("kube-rs")])
    assert table.count("| konverge |") == 1
    assert "| kube-rs | kube-rs 1.0 | workers: 10 |" in table


def test_a_plot_is_well_formed_and_shows_what_is_missing() -> None:
    plot = bars("a < b", "s", [Bar("ours & theirs", Spread(2.0, 1.0, 3.0, 3), "o"), Bar("none", None, note="failed")])
    tree = ElementTree.fromstring(plot)
    texts = [each.text for each in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["a < b", "s", "ours & theirs", "2", "none", "failed"]


def test_a_report_is_put_between_the_marks_of_a_document(tmp_path: Path) -> None:
    document = tmp_path / "benchmark.md"
    document.write_text(f"# How\n\n{publish.BEGIN}\n\nold\n\n{publish.END}\n\nend\n")
    publish.publish(document, "new", {"plot.svg": "<svg/>"}, [])
    assert (tmp_path / "benchmark" / "plot.svg").read_text() == "<svg/>"
    text = document.read_text()
    assert "old" not in text
    assert "![plot](benchmark/plot.svg)" in text
    assert text.endswith("\n\nend\n")


def test_published_runs_are_read_back_with_all_figures_except_single_latencies(tmp_path: Path) -> None:
    document = tmp_path / "benchmark.md"
    document.write_text(f"{publish.BEGIN}{publish.END}")
    assert publish.published(document) == {}
    open_loop = {"p50_ms": 1.0, "p99_ms": 2.123456, "keeps_up": True, "errors": 0}
    records = [record("konverge", open_1={**open_loop, "samples_ms": [1.0, 2.0]}), record("kube-rs", 2)]
    publish.publish(document, "new", {}, records)
    found = publish.published(document)
    assert found.keys() == {("base", "konverge", 1), ("base", "kube-rs", 2)}
    assert found["base", "konverge", 1] == [record("konverge", open_1={**open_loop, "p99_ms": 2.1235})]
    assert "[runs.jsonl](benchmark/runs.jsonl)" in document.read_text()


def test_a_document_without_marks_is_left_alone() -> None:
    with pytest.raises(ValueError, match="no <!-- figures -->"):
        publish.replaced("# How\n", "new")


def test_a_part_of_the_campaign_can_be_chosen() -> None:
    chosen = campaign.options(
        {"PEERS": "--sessions large,base --contestants kube-rs,konverge --runs 2", "BENCH_QUICK": "1"}
    )
    assert [each.name for each in chosen.sessions] == ["base", "large"]
    assert [each.name for each in chosen.contestants] == ["konverge", "kube-rs"]
    assert {each.runs for each in chosen.sessions} == {2}
    assert chosen.repeats == 0


def test_an_unknown_contestant_is_answered_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        campaign.options({"PEERS": "--contestants nobody"})
    assert "unknown: nobody; there are: konverge" in capsys.readouterr().err
