"""CI reruns a failed test once, without other tests; a test that succeeds then is a flake."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
import retry_failed

if TYPE_CHECKING:
    from pathlib import Path

FLAKY = """
import pathlib
import pytest

@pytest.mark.parametrize("number", range({flaky}))
def test_flaky(number):
    marker = pathlib.Path(__file__).with_name(f"ran-{{number}}")
    ran = marker.exists()
    marker.touch()
    assert ran, "the first run fails"

@pytest.mark.parametrize("number", range({broken}))
def test_broken(number):
    raise AssertionError("it fails always")

def test_sound():
    pass
"""


pytestmark = pytest.mark.usefixtures("empty_project")


@pytest.mark.parametrize(
    ("flaky", "broken", "status", "logs"),
    [
        (0, 0, 0, 0),
        (1, 0, 0, 1),
        (retry_failed.MAX_FLAKES + 1, 0, 1, retry_failed.MAX_FLAKES + 1),
        (1, 1, 1, 1),
        (0, retry_failed.MAX_FAILED + 1, 1, 0),
    ],
)
def test_only_up_to_three_flakes_pass(flaky: int, broken: int, status: int, logs: int, tmp_path: Path) -> None:
    (tmp_path / "test_sample.py").write_text(FLAKY.format(flaky=flaky, broken=broken))
    folder = tmp_path / "flakes"
    assert retry_failed.run(folder, 0, ["-q"], ["test_sample.py"]) == status
    assert len(list(folder.glob("*.log"))) == logs


def test_flakes_of_earlier_phases_count(tmp_path: Path) -> None:
    (tmp_path / "test_sample.py").write_text(FLAKY.format(flaky=1, broken=0))
    folder = tmp_path / "flakes"
    folder.mkdir()
    for number in range(retry_failed.MAX_FLAKES):
        (folder / f"{number}.log").touch()
    assert retry_failed.run(folder, 0, ["-q"], ["test_sample.py"]) == 1


def test_log_holds_name_load_and_both_runs(tmp_path: Path) -> None:
    (tmp_path / "test_sample.py").write_text(FLAKY.format(flaky=1, broken=0))
    retry_failed.run(tmp_path / "flakes", 0, ["-q"], ["test_sample.py"])
    (log,) = (tmp_path / "flakes").glob("*.log")
    text = log.read_text()
    assert text.startswith("test_sample.py::test_flaky[0]\nload of the machine: ")
    assert "the first run fails" in text
    assert "1 passed" in text


def test_errors_of_usage_are_not_run_again(tmp_path: Path) -> None:
    assert (
        retry_failed.run(tmp_path / "flakes", 0, ["-q"], [os.fspath(tmp_path / "missing.py")])
        == pytest.ExitCode.USAGE_ERROR
    )
