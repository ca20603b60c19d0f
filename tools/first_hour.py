"""Run docs/guide/start.md and the tutorial word for word in an empty folder: `python tools/first_hour.py [--bare] DIST`.

The time of each step is printed. Every block `sh` runs in one shell, line by line, and every block `diff` is applied to the project. The first line that fails ends the run with
exit code 1. The pages' python3 is the interpreter of this program. The wheels are those of DIST (`.ci/dist DIST`) and the cached wheels of
.venv, so no network is used, and the times contain no download.

With --bare the pages run as a new user in a container: in a root directory of its own with this Python, make, a shell and a few small programs,
all read-only; as a user without an entry in /etc/passwd, without a locale, with umask 077, in a folder with a space and an umlaut in its name.
This takes root and the right to mount. Without them the pages run as without --bare, and a line reports it.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "guide" / "start.md"
TUTORIAL = ROOT / "examples" / "tutorial"
CHAPTERS = ("project", "model", "reconcile", "clock", "finalizer", "webhook", "lab", "chart", "metrics")
_BLOCK = re.compile(r"^```(?P<language>sh|diff)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_MARK = "first-hour:"
_PYTHON = Path(getattr(sys, "_base_executable", sys.executable))

USER = 12345
"""The user and group of --bare, whom no file of the root names."""
PROGRAMS = (
    *(
        "awk",
        "basename",
        "bash",
        "cat",
        "chmod",
        "cp",
        "cut",
        "date",
        "dirname",
        "env",
        "expr",
        "grep",
        "head",
        "id",
        "ln",
        "ls",
        "make",
        "mkdir",
    ),
    *("mktemp", "mv", "pwd", "rm", "sed", "sh", "sleep", "sort", "tail", "touch", "tr", "uname", "wc"),
)
"""The programs of the root. git, which applies the differences of the page in place of an editor, is not in PATH."""
_ROOT = """\
set -eu
mount -t tmpfs -o mode=755 root "$ROOT"
mkdir -p "$ROOT/proc" "$ROOT/tmp" "$ROOT/dev/shm" "$ROOT/etc" "$ROOT/usr/bin"
ln -s usr/bin "$ROOT/bin"
mount -t tmpfs -o mode=1777 tmp "$ROOT/tmp"
mount -t tmpfs -o mode=1777 shm "$ROOT/dev/shm"
place() { # place SOURCE TARGET
    mkdir -p "$ROOT$(dirname "$2")"
    if [ -d "$1" ]; then mkdir -p "$ROOT$2"; else touch "$ROOT$2"; fi
    mount --bind "$1" "$ROOT$2"
}
for path in $SHOWN; do
    place "$path" "$path"
    mount -o remount,bind,ro "$ROOT$path"
done
place "$GIT" /opt/git
place "$WORK" "$WORK"
echo root:x:0:0:root:/:/bin/sh >"$ROOT/etc/passwd"
echo 127.0.0.1 localhost >"$ROOT/etc/hosts"
mount -t proc -o ro proc "$ROOT/proc" 2>/dev/null || mount --bind /proc "$ROOT/proc"
mount -o remount,ro "$ROOT"
"""


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
        section = (_HEADING.findall(page[: block.start()]) or [""])[-1]
        if block["language"] == "diff":
            yield Step(section, "git apply", block["body"])
        else:
            yield from (Step(section, line) for line in block["body"].splitlines() if line.strip())


def tutorial() -> Iterator[Step]:
    """Yield the steps of the tutorial, which begin with a copy of its program in an empty folder."""
    yield Step("The tutorial", f"mkdir ../cronjobs && cd ../cronjobs && cp -R {shlex.quote(str(TUTORIAL))} tutorial")
    for chapter in CHAPTERS:
        page = (ROOT / "docs" / "tutorial" / f"{chapter}.md").read_text(encoding="utf-8")
        yield from (step._replace(section=f"{chapter}.md, {step.section}") for step in steps_of(page))


def run(
    steps: list[Step], folder: Path, environment: Mapping[str, str], inside: Sequence[str] = (), git: str = "git"
) -> list[Timed]:
    """Run the steps in one shell; returns the steps that ended well, with their times. The rest of the output is the programs'.

    `inside` is a command that runs a command in another root directory; `git` is the program there.
    """
    patches = {number: folder / f".{number}.diff" for number, step in enumerate(steps) if step.text}
    for number, path in patches.items():
        path.write_text(steps[number].text)
    lines = ["set -e", f"cd {shlex.quote(str(folder))}", *(["umask 077"] if inside else [])]
    for number, step in enumerate(steps):
        lines += [
            f"{git} apply {shlex.quote(str(patches[number]))}" if step.text else step.command,
            f"echo {_MARK}{number}",
        ]
    done: list[Timed] = []
    began = time.perf_counter()
    with subprocess.Popen(
        [*inside, "bash", "-c", "\n".join(lines)],
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
    python.write_text(f'#!/bin/sh\nexec "{_PYTHON}" "$@"\n')
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


def bare(folder: Path, *shown: Path) -> list[str]:
    """Return the command that runs a command as a new user in a root with this folder and the paths in `shown`, which it does not change."""
    programs = [Path(path) for name in PROGRAMS if (path := shutil.which(name, path="/usr/bin:/bin"))]
    prefix = subprocess.run(
        [_PYTHON, "-c", "import sys; print(sys.base_prefix)"], capture_output=True, text=True, check=True
    )
    system = [Path(path) for path in ("/lib", "/lib64", "/usr/lib", "/dev/null", "/dev/urandom") if Path(path).exists()]
    paths = [Path(prefix.stdout.strip()), *programs, *system, *shown]
    git = shutil.which("git")
    root, setup = folder.parent / "root", folder.parent / "setup"
    root.mkdir()
    variables = {"ROOT": root, "WORK": folder, "GIT": git, "SHOWN": " ".join(str(path.absolute()) for path in paths)}
    chroot = shutil.which("chroot", path="/usr/sbin:/usr/bin:/sbin:/bin")
    setup.write_text(
        "\n".join(f"{name}={shlex.quote(str(value))}" for name, value in variables.items())
        + f'\n{_ROOT}exec {chroot} --userspec={USER}:{USER} --groups= "$ROOT" "$@"\n'
    )
    for entry in (folder, *folder.rglob("*")):
        os.chown(entry, USER, USER)
    return ["unshare", "--mount", "--propagation", "private", "sh", str(setup)]


def main(arguments: list[str]) -> int:
    """Run the page; return the exit code."""
    *options, dist = arguments or ["--help"]
    if options not in ([], ["--bare"]) or dist.startswith("-"):
        print("usage: python tools/first_hour.py [--bare] DIST", file=sys.stderr)
        return 2
    steps = [*steps_of(PAGE.read_text(encoding="utf-8")), *tutorial()]
    wheels = [Path(dist).resolve(), (ROOT / ".venv" / "wheels").resolve()]
    with tempfile.TemporaryDirectory(prefix="first-hour-") as name:
        Path(name).chmod(0o755)
        home = Path(name) / ("Jörg Müller" if options else "user")
        work = home / "work"
        work.mkdir(parents=True)
        environment = environment_of(home, " ".join(map(str, wheels)))
        inside = bare(home, *wheels, ROOT / "constraints.txt", TUTORIAL) if options else []
        if (
            inside
            and (
                tried := subprocess.run([*inside, "sh", "-c", ":"], capture_output=True, text=True, check=False)
            ).returncode
        ):
            print(f"--> not in a root of its own, which takes root and the right to mount: {tried.stderr.strip()}")
            inside = []
        done = run(steps, work, environment, inside, "/opt/git" if inside else "git")
    print(f"the first hour on Python {sys.version.split()[0]}, packages from a local folder\n{table(done)}")
    if len(done) < len(steps):
        print(f"this step failed: {steps[len(done)].command}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
