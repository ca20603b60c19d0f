"""The packages that the contestants in Python have, and an environment that cannot be installed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from peers import building, installed


@pytest.fixture(autouse=True)
def tree(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A tree with the requirements of this one, and its environment, which the other tests of benchmarks replace."""
    folder = tmp_path / "tree"
    folder.mkdir()
    (folder / "pyproject.toml").write_text((installed.ROOT / "pyproject.toml").read_text())
    (folder / "constraints.txt").write_text("aiohttp==3.14.5\n")
    monkeypatch.setattr(installed, "ROOT", folder)
    monkeypatch.setattr(building, "interpreter", installed.interpreter)
    return folder


def test_contestants_have_the_packages_that_users_install(tree: Path) -> None:
    wanted = installed.packages((tree / "pyproject.toml").read_text())
    names = {each.split(">=")[0] for each in wanted}
    assert {"aiohttp", "msgspec", "pydantic", "structlog", "uvloop", "kopf"} <= names
    assert not {"hypothesis", "playwright", "import-linter", "kr8s"} & names


def test_an_environment_that_cannot_be_installed_is_skipped_with_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*command: str, **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "", "Collecting aiohttp\nERROR: no network\n")

    monkeypatch.setattr(subprocess, "run", fail)
    assert building.programs({building.PYTHON}, {"KONVERGE_CACHE": str(tmp_path)}, print) == {}
    assert "skipped: the contestants in python (" in (words := capsys.readouterr().out)
    assert "ERROR: no network" in words
    assert not [path for path in (tmp_path / "peers").iterdir() if path.name.startswith("python-")]


def test_an_environment_is_installed_without_the_network_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    commands: list[tuple[str, ...]] = []

    def fill(command: list[str] | tuple[str, ...], **_: object) -> subprocess.CompletedProcess[str]:
        commands.append(tuple(command))
        if "venv" in command:
            python = Path(command[-1]) / "bin" / "python"
            python.parent.mkdir(parents=True)
            python.write_text("#!/bin/sh\n")
            python.chmod(0o755)
        return subprocess.CompletedProcess(command, int("--no-index" in command), "", "no such wheel")

    monkeypatch.setattr(subprocess, "run", fill)
    python = installed.interpreter({"KONVERGE_CACHE": str(tmp_path)}, print)
    assert python.is_file()
    assert ["--no-index" in command for command in commands] == [False, True, False]
    assert installed.interpreter({"KONVERGE_CACHE": str(tmp_path)}, print) == python
    assert len(commands) == 3, "an environment is installed once"
