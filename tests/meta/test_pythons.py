"""The decisions of `make pythons`: which versions and interpreters run, what is installed for them, and what the report names as absent."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import pythons
from pythons import GLIBC, MACOS, MUSL, Interpreter

VERSIONS = ["3.11", "3.12", "3.13"]
OWN = f"{sys.version_info.major}.{sys.version_info.minor}"


def interpreter(version: str, libc: str = GLIBC) -> Interpreter:
    return Interpreter(f"/opt/{version}/bin/python3", version, f"{version}.1", libc, "cpython")


@pytest.mark.parametrize(
    ("only", "versions"),
    [
        ("", VERSIONS),
        ("  ", VERSIONS),
        ("3.12", ["3.12"]),
        ("3.13 3.11", ["3.11", "3.13"]),
        ("3.12 3.12", ["3.12"]),
    ],
    ids=["empty", "blanks", "one version", "two versions, the newer first", "a version twice"],
)
def test_only_selects_among_the_supported_versions_oldest_first(only: str, versions: list[str]) -> None:
    assert pythons.selected(VERSIONS, only) == versions


@pytest.mark.parametrize(
    ("only", "unknown"), [("3.10", "3.10"), ("3.12 3.9", "3.9"), ("3.1", "3.1"), ("3.12,3.13", "3.12,3.13")]
)
def test_only_refuses_a_version_that_is_not_supported(only: str, unknown: str) -> None:
    with pytest.raises(ValueError) as refusal:
        pythons.selected(VERSIONS, only)
    assert str(refusal.value) == f"ONLY={only}: {unknown} is not among the supported versions 3.11, 3.12, 3.13"


def test_an_unknown_version_ends_the_program_before_any_build(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ONLY", "2.7")
    assert pythons.main([]) == 2
    assert capsys.readouterr().err.startswith("ONLY=2.7: 2.7 is not among the supported versions 3.11, ")


def test_a_run_without_an_interpreter_fails_before_any_build(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for name, value in {"ONLY": "3.14", "PYTHONS": "", "PATH": str(tmp_path), "HOME": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    for name in ("PYENV_ROOT", "UV_PYTHON_INSTALL_DIR"):
        monkeypatch.delenv(name, raising=False)
    assert pythons.main([]) == 1
    assert capsys.readouterr().out.startswith("Python 3.14: not on this machine; ")


def test_a_run_whose_packages_cannot_be_had_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pythons, "chosen", lambda paths, versions: [interpreter("3.11")])
    monkeypatch.setattr(pythons, "copied", lambda folder: None)
    monkeypatch.setattr(pythons, "_run", refused)
    assert pythons.main([]) == 1
    assert "Python 3.11.1 (glibc): its packages could not be had: no wheel" in capsys.readouterr().out


def refused(command: str | Path, *words: str | Path, **environment: str) -> None:
    if words[0] == "-m":
        raise pythons._Failed("no wheel")


def test_interpreters_of_the_variable_come_first_then_of_pyenv_and_uv(tmp_path: Path) -> None:
    expected = ["/opt/musl/bin/python3"]
    for name in (".pyenv/versions/3.12.4", ".pyenv/versions/3.12.1", ".local/share/uv/python/cpython-3.12.9-linux"):
        program = tmp_path / name / "bin/python3"
        program.parent.mkdir(parents=True)
        program.touch()
        expected.append(str(program))
    environment = {"PYTHONS": "/opt/musl/bin/python3", "HOME": str(tmp_path), "PATH": str(tmp_path)}
    assert list(pythons.candidates(["3.11", "3.12"], environment)) == expected


def test_the_first_interpreter_of_a_version_is_chosen(tmp_path: Path) -> None:
    shim = tmp_path / "python3"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    paths = [str(tmp_path / "none"), str(shim), sys.executable, sys.executable]
    chosen = pythons.chosen(paths, [OWN])
    assert [(each.path, each.version, each.release) for each in chosen] == [
        (sys.executable, OWN, sys.version.split()[0])
    ]
    assert pythons.chosen(paths, ["3.99"]) == []


def test_versions_and_systems_that_did_not_run_are_named() -> None:
    lines = pythons.absent([interpreter("3.11"), interpreter("3.13", MUSL)], VERSIONS)
    assert [line.partition(":")[0] for line in lines] == ["Python 3.12", MACOS]
    assert [line.partition(":")[0] for line in pythons.absent([], ["3.11"])] == ["Python 3.11", MUSL, MACOS]


def test_a_dependency_without_a_wheel_for_musl_is_left_out_there() -> None:
    everywhere, on_musl = pythons.requirements(GLIBC), pythons.requirements(MUSL)
    assert [line.partition(">")[0] for line in everywhere if line not in on_musl] == ["cel-expr-python"]
    assert not [line for line in everywhere if line.startswith("konverge")], "the wheels of the tree are installed"
