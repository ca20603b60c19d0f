"""A benchmark that takes hours is not part of `make bench`, unless it is named or the run is quick."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.unit.bench.conftest import Runner


def test_a_benchmark_of_hours_runs_only_when_named_or_quick(runner: Runner, tmp_path: Path) -> None:
    (tmp_path / "bench_long.py").write_text("BY_NAME_ONLY = True\n\n\ndef run():\n    return []\n")
    (tmp_path / "bench_short.py").write_text("def run():\n    return []\n")
    benches = runner.discover(tmp_path)
    assert runner.by_default(benches, quick=False) == ["short"]
    assert runner.by_default(benches, quick=True) == ["long", "short"]


def test_the_peers_are_left_out_of_all_benchmarks(runner: Runner) -> None:
    folder = Path(__file__).parents[3] / "tools" / "bench"
    assert "peers" not in runner.by_default(runner.discover(folder), quick=False)
