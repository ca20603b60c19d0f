"""Failures of the scripts that put programs for the tests into the cache: a single line with the reason, and no traceback."""

import subprocess
import sys
from pathlib import Path

import go_programs
import promtool
import pytest
from go_programs import HELM, PROMETHEUS, go_program

from konverge_testing.failures import InstallFailed, build_failure

TOOLS = Path(promtool.__file__).parent


@pytest.fixture
def slow_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment whose programs never end."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("go", "apt-get", "dpkg-deb"):
        program = folder / name
        program.write_text("#!/bin/sh\nexec /bin/sleep 60\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    return {"PATH": str(folder), "KONVERGE_CACHE": str(tmp_path / "cache"), "HOME": str(tmp_path)}


def test_a_build_that_runs_out_of_time_says_so_in_one_line(
    slow_programs: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(go_programs, "BUILD_SECONDS", 0.1)
    with pytest.raises(
        InstallFailed, match=r"^go build of .* took longer than 0.1 s and was ended; run it again"
    ) as told:
        go_program(HELM, slow_programs, tell=lambda _: None)
    assert "\n" not in str(told.value)


def test_a_package_archive_that_does_not_respond_is_reported_in_one_line(
    slow_programs: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(promtool, "_SECONDS", 0.1)
    with pytest.raises(OSError, match=r"^no promtool: apt-get download prometheus took longer than 0.1 s") as told:
        promtool.fetch(slow_programs)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    "line",
    [
        'm.go:8:2: k8s.io/api@v0.36.3: Get "https://proxy.example.com/": dial tcp: lookup proxy.example.com: no such host',
        "npm error code EAI_AGAIN",
        "npm error code ECONNREFUSED",
        "  [6] Couldn't resolve host name (Could not resolve host: index.example.com)",
        "error: could not download file: error sending request for url",
    ],
)
def test_a_build_without_a_network_is_reported_in_one_line(line: str) -> None:
    text = build_failure("go build of helm", ["downloading", line, *["another module: the same"] * 30])
    assert text.startswith(
        f"go build of helm failed: no network, or the registry does not respond ({line.strip()}); run"
    )
    assert "\n" not in text


def test_a_build_that_does_not_compile_shows_the_last_lines() -> None:
    output = [f"m.go:{number}: undefined" for number in range(40)]
    assert build_failure("go build of helm", output).splitlines() == ["go build of helm failed:", *output[-15:]]


def test_a_package_archive_that_cannot_be_reached_is_named_with_its_error(slow_programs: dict[str, str]) -> None:
    program = Path(slow_programs["PATH"], "apt-get")
    program.write_text("#!/bin/sh\necho 'E: Failed to fetch: no route' >&2\nexit 100\n")
    with pytest.raises(
        OSError, match=r"^no promtool: apt-get download prometheus failed: E: Failed to fetch: no route$"
    ):
        promtool.fetch(slow_programs)


@pytest.mark.parametrize("words", [("go_programs.py",), ("go_programs.py", PROMETHEUS), ("promtool.py",)])
def test_a_setup_script_that_fails_prints_one_line_and_exits_with_1(words: tuple[str, ...], tmp_path: Path) -> None:
    script, *wanted = words
    done = subprocess.run(
        [sys.executable, TOOLS / script, *wanted],
        env={"PATH": str(tmp_path), "KONVERGE_CACHE": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith("no ")
