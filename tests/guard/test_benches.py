"""Benchmarks of virtual time, and of scale on the stand-in of the server, run in their quick form, and their counts hold: full runs are manual, so a broken benchmark would stay
unnoticed.
"""

import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).parents[2] / "tools" / "bench" / "run.py"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("bench", ["lab", "machines", "operations", "pools", "quota", "scale", "shards"])
def test_a_benchmark_runs_and_its_counts_hold(bench: str, tmp_path: Path) -> None:
    command = [
        sys.executable,
        str(RUN),
        "--only",
        bench,
        "--quick",
        "--strict",
        "--results",
        str(tmp_path / "rows.json"),
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
