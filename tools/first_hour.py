"""Run docs/guide/start.md word for word in an empty folder, and print the time of each step: `python tools/first_hour.py DIST`.

Every block `sh` runs in one shell, line by line, and every block `diff` is applied to the project. The first line that fails ends the run with
exit code 1. The page's python3 is the interpreter of this program. The wheels are those of DIST (`.ci/dist DIST`) and the cached wheels of
.venv, so no network is used, and the times contain no download.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "guide" / "start.md"
_BLOCK = re.compile(r"^```(?P<language>sh|diff)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_MARK = "first-hour:"


class Step(NamedTuple):
    """A line of the shell, or a difference to apply, below a heading of the page."""

    section: str
    command: str
    text: str = ""
    """The difference."""


class Timed(NamedTuple):
    """A step and the seconds that it took."""

    step: Step
    seconds: float


def steps_of(page: str) -> Iterator[Step]:
    """Yield the steps of a page in their order."""
    for block in _BLOCK.finditer(page):
        section = _HEADING.findall(page[: block.start()])[-1]
        if block["language"] == "diff":
            yield Step(section, "git apply", block["body"])
        else:
            yield from (Step(section, line) for line in block["body"].splitlines() if line.strip())


def run(steps: list[Step], folder: Path, environment: Mapping[str, str]) -> list[Timed]:
    """Run the steps in one shell; returns the steps that ended well, with their times. The rest of the output is the programs'."""
    patches = {number: folder / f".{number}.diff" for number, step in enumerate(steps) if step.text}
    for number, path in patches.items():
        path.write_text(steps[number].text)
    lines = ["set -e"]
    for number, step in enumerate(steps):
        lines += [f"git apply {patches[number]}" if step.text else step.command, f"echo {_MARK}{number}"]
    done: list[Timed] = []
    began = time.perf_counter()
    with subprocess.Popen(
        ["bash", "-c", "\n".join(lines)],
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as shell:
        assert shell.stdout is not None
        for line in shell.stdout:
            if line.startswith(_MARK):
                now = time.perf_counter()
                done.append(Timed(steps[int(line.removeprefix(_MARK))], now - began))
                began = now
            else:
                sys.stdout.write(line)
    return done


def table(done: list[Timed]) -> str:
    """Return the times of the steps, and their sums from the beginning."""
    rows, sums = [], 0.0
    for step, seconds in done:
        sums += seconds
        rows.append(f"{seconds:7.1f} s {sums:7.1f} s  {step.section}: {step.command}")
    return "\n".join(["   step       sum", *rows])


def environment_of(folder: Path, wheels: str) -> dict[str, str]:
    """Return the variables of an empty environment, whose python3 is this interpreter and whose pip reads these folders of wheels only."""
    programs, home = folder / "programs", folder / "home"
    programs.mkdir()
    home.mkdir()
    python = programs / "python3"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    constraints = str(ROOT / "constraints.txt")
    return {
        "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home),
        "CI": "true",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": wheels,
        "PIP_CONSTRAINT": constraints,
        "PIP_BUILD_CONSTRAINT": constraints,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }


def main(arguments: list[str]) -> int:
    """Run the page; return the exit code."""
    if len(arguments) != 1:
        print("usage: python tools/first_hour.py DIST", file=sys.stderr)
        return 2
    steps = list(steps_of(PAGE.read_text(encoding="utf-8")))
    with tempfile.TemporaryDirectory(prefix="first-hour-") as name:
        work = Path(name) / "work"
        work.mkdir()
        wheels = f"{Path(arguments[0]).resolve()} {(ROOT / '.venv' / 'wheels').resolve()}"
        done = run(steps, work, environment_of(Path(name), wheels))
    print(f"the first hour on Python {sys.version.split()[0]}, packages from a local folder\n{table(done)}")
    if len(done) < len(steps):
        print(f"{PAGE.name}: this step failed: {steps[len(done)].command}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
