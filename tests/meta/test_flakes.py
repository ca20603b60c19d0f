"""`make flakes` finds the tests that fail only on a busy machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import flakes
import pytest

if TYPE_CHECKING:
    from pathlib import Path

SAMPLE = """
import pathlib

def test_fails_in_the_second_round():
    marker = pathlib.Path(__file__).with_name("rounds")
    rounds = len(marker.read_text()) if marker.exists() else 0
    marker.write_text("x" * (rounds + 1))
    assert rounds != 1, "the second round fails"

def test_sound():
    pass
"""


@pytest.fixture(autouse=True)
def project(empty_project: Path) -> None:
    (empty_project / "test_sample.py").write_text(SAMPLE)


def test_each_failure_of_a_round_is_counted_and_logged(tmp_path: Path) -> None:
    failures = flakes.run(["test_sample.py"], 3, ["-q"], tmp_path / "logs")
    assert failures == {"test_sample.py::test_fails_in_the_second_round": 1}
    (log,) = (tmp_path / "logs").iterdir()
    assert "round 2, load of the machine: " in log.read_text()
    assert "the second round fails" in log.read_text()


def test_a_run_that_collects_no_test_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="status 4"):
        flakes.run(["test_missing.py"], 1, ["-q"], tmp_path / "logs")


def test_without_recorded_times_the_command_names_the_way_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["flakes.py"])
    assert flakes.main() == 2
    assert "run `make test` first" in capsys.readouterr().err
