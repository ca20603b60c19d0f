"""Run pytest; run each failed test once more, in a process of its own with nothing beside it; report the tests that succeed then as flakes.

    python tools/retry_failed.py build/ci/flakes --workers 4 --lab=quick -- tests/unit

Guarantees: exit status 0 if every test passed, or if each failed test passed when it ran again and the folder holds at most MAX_FLAKES
flakes: the folder is shared by the phases of one run, so their flakes add up. Otherwise the status of the first run. For each flake the
folder holds its name, both logs and the load of the machine.

Caveats: nothing is run again if more than MAX_FAILED tests failed (a broken change, and not flakes), or if pytest ended for another
reason than failed tests.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

MAX_FLAKES: Final = 3
"""The most flakes of a run that succeeds."""
MAX_FAILED: Final = 12
"""The most failed tests that are run again."""
_TESTS_FAILED: Final = 1
"""The exit status of pytest if tests failed; another status is an error of usage, an interruption, or no test."""
_RULE: Final = re.compile(r"^_{3,} (?P<title>.+?) _{3,}$|^={3,} .* ={3,}$")


def run(folder: Path, workers: int, options: Sequence[str], paths: Sequence[str]) -> int:
    """Run the tests, and the failed tests again; return the exit status."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        status, output = run_pytest(
            [*(["-n", str(workers)] if workers else []), *options, *paths], Path(scratch) / "all"
        )
        if status != _TESTS_FAILED:
            return status
        failed = last_failed(Path(scratch) / "all")
        if not failed or len(failed) > MAX_FAILED:
            print(f"==> {len(failed)} tests failed: none is run again", flush=True)
            return status
        flakes = 0
        for number, test in enumerate(failed):
            print(f"==> running {test} again, alone", flush=True)
            again, retry_output = run_pytest([*options, test], Path(scratch) / str(number))
            if again != 0:
                print(f"==> {test} failed again", flush=True)
                continue
            flakes += 1
            _report(folder, test, failure_text(output, test), retry_output)
    total = len(list(folder.glob("*.log")))
    print(
        f"==> {flakes} of {len(failed)} failed tests passed when they ran again; flakes of this run: {total}",
        flush=True,
    )
    return 0 if flakes == len(failed) and total <= MAX_FLAKES else status


def failure_text(output: str, test: str) -> str:
    """Return the section of pytest's output about a failed test; the last lines if no section has its name."""
    title = test.partition("::")[2].replace("::", ".")
    section: list[str] = []
    inside = False
    for line in output.splitlines():
        rule = _RULE.match(line)
        if rule is not None:
            heading = rule["title"] or ""
            inside = bool(title) and (heading == title or heading.endswith(f" of {title}"))
        if inside:
            section.append(line)
    return "\n".join(section or output.splitlines()[-40:])


def run_pytest(arguments: Sequence[str], cache: Path) -> tuple[int, str]:
    """Run pytest, print its output while it runs, and return its exit status and output."""
    command = [str(Path(sys.executable).with_name("pytest")), "-o", f"cache_dir={cache}", *arguments]
    lines: list[str] = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    return process.returncode, "".join(lines)


def last_failed(cache: Path) -> list[str]:
    """Return the names of the failed tests that pytest remembers in its cache folder."""
    stored = cache / "v" / "cache" / "lastfailed"
    return sorted(json.loads(stored.read_text())) if stored.exists() else []


def log_name(test: str) -> str:
    """Return the name of a test as the name of a file, without an extension.

    >>> log_name("test_a.py::test_b[c d]")
    'test_a.py-test_b-c-d-'
    """
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", test)[-120:]


def _report(folder: Path, test: str, first: str, second: str) -> None:
    """Write the log of a flake."""
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    text = (
        f"{test}\nload of the machine: {load}\n\n==== failed\n{first}\n\n==== passed when it ran again, alone\n{second}"
    )
    (folder / f"{log_name(test)}.log").write_text(text)


def main() -> int:
    """Read the arguments, and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="holds a log of each flake")
    parser.add_argument(
        "--workers", type=int, default=0, help="processes of the first run; 0: the tests run in pytest's own"
    )
    words = sys.argv[1:]
    at = words.index("--") if "--" in words else len(words)
    own, options = parser.parse_known_args(words[:at])
    return run(own.folder, own.workers, options, words[at + 1 :])


if __name__ == "__main__":
    sys.exit(main())
