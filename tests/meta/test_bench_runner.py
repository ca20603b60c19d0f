"""The runner of the benchmarks keeps whole, well-formed rows, whatever a benchmark does."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.meta.conftest import Tree

ROW = {
    "bench": "informers",
    "name": "initial sync",
    "value": 31000.5,
    "unit": "objects/s",
    "target": ">= 25000",
    "holds": True,
    "how": "20,000 objects of 3 KB from a stub process",
}

MALFORMED = {
    "a key too few": {key: value for key, value in ROW.items() if key != "how"},
    "a key too many": {**ROW, "date": "today"},
    "a value that is a text": {**ROW, "value": "31000"},
    "a value that is a truth": {**ROW, "value": True},
    "a value that is no number": {**ROW, "value": math.nan},
    "an empty unit": {**ROW, "unit": ""},
    "a target without a verdict": {**ROW, "holds": None},
    "a verdict without a target": {**ROW, "target": None},
    "a verdict that is a text": {**ROW, "holds": "yes"},
    "no dict at all": ["informers"],
}


@pytest.fixture
def runner(tree: Tree) -> Any:
    return tree.load("tools/bench/run.py")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "bench_good.py").write_text(f"def run():\n    return [{ROW!r}]\n")
    return tmp_path


def call(runner: Any, folder: Path, *arguments: str) -> int:
    code: int = runner.main(["--folder", str(folder), "--results", str(folder / "out" / "bench.json"), *arguments])
    return code


def kept(folder: Path) -> Any:
    return json.loads((folder / "out" / "bench.json").read_text())


def test_a_row_of_the_agreed_form_is_accepted(runner: Any) -> None:
    assert runner.check([ROW, {**ROW, "value": 3, "target": None, "holds": None}])


@pytest.mark.parametrize("case", MALFORMED)
def test_a_row_of_another_form_is_refused_with_words(runner: Any, case: str) -> None:
    with pytest.raises(ValueError, match="row 2: "):
        runner.check([ROW, MALFORMED[case]])


def test_rows_are_appended_in_the_order_of_the_runs(runner: Any, folder: Path) -> None:
    assert call(runner, folder) == 0
    assert call(runner, folder) == 0
    assert kept(folder) == [ROW, ROW]
    assert list(kept(folder)[0]) == list(runner.KEYS)


def test_a_benchmark_that_raises_leaves_the_others_their_rows(
    runner: Any, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "bench_bad.py").write_text("def run():\n    raise RuntimeError('no server')\n")
    assert call(runner, folder) == 1
    assert kept(folder) == [ROW]
    captured = capfd.readouterr()
    assert "FAILED: bad" in captured.out
    assert "no server" in captured.err


def test_malformed_rows_of_a_benchmark_are_not_kept(
    runner: Any, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "bench_good.py").write_text("def run():\n    return [{'name': 'x'}]\n")
    assert call(runner, folder) == 1
    assert not (folder / "out" / "bench.json").exists()
    assert "row 1: the keys of a row are" in capfd.readouterr().err


def test_a_missed_target_is_printed_and_fails_only_a_strict_run(
    runner: Any, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "bench_good.py").write_text(f"def run():\n    return [{ {**ROW, 'holds': False}!r}]\n")
    assert call(runner, folder) == 0
    assert "MISSED informers: initial sync is 31,000 objects/s, target >= 25000" in capfd.readouterr().out
    assert call(runner, folder, "--strict") == 1


def test_one_benchmark_alone_can_be_chosen(runner: Any, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "bench_other.py").write_text("def run():\n    return []\n")
    assert call(runner, folder, "--only", "other") == 0
    out = capfd.readouterr().out
    assert "==> other" in out
    assert "==> good" not in out


def test_an_unknown_name_is_answered_with_the_known_ones(
    runner: Any, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        call(runner, folder, "--only", "nothing")
    assert ended.value.code == 2
    assert "there are: good" in capsys.readouterr().err


def test_a_results_file_of_another_form_is_refused_before_anything_runs(runner: Any, folder: Path) -> None:
    (folder / "out").mkdir()
    (folder / "out" / "bench.json").write_text("{}")
    with pytest.raises(ValueError, match="move it away"):
        call(runner, folder)


def test_columns_of_the_table_are_aligned(runner: Any) -> None:
    head, _, first, second = runner.table([ROW, {**ROW, "name": "x", "value": 0.1234}]).splitlines()
    assert head.index("unit") == first.index("objects/s") == second.index("objects/s")
    assert "0.123" in second


def test_every_benchmark_of_the_tree_says_what_it_measures(runner: Any, tree: Tree) -> None:
    found = runner.discover(tree.root / "tools" / "bench")
    assert found
    assert [path.name for path in found.values() if not path.read_text().startswith('"""')] == []


def test_a_helper_beside_the_benchmarks_is_not_run(runner: Any, folder: Path) -> None:
    (folder / "bench_good_server.py").write_text("raise SystemExit('not to be run')\n")
    assert list(runner.discover(folder)) == ["good"]
