"""Run the tests that depend most on timing again and again on a busy machine; list the tests that fail.

    python tools/flakes.py --rounds 20

Guarantees: the tests are chosen from the times of the last long run of pytest (build/test-times.json): the slowest tests, and the tests
that wait longest for other processes. Beside each round one process for each core computes, so that a wait which only a quiet machine keeps
ends too early. build/flakes holds a log of each failure. Exit status 1 if a test failed in any round, 2 if no times are recorded.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from retry_failed import failure_text, last_failed, log_name, run_pytest

TIMES: Final = Path("build/test-times.json")
LOGS: Final = Path("build/flakes")
TESTS_FAILED: Final = 1
_BUSY: Final = "while True: pass"


def chosen(times: Iterable[tuple[str, float, float]], most: int) -> list[str]:
    """Return the slowest tests and the tests that wait longest, given the name, the seconds and the CPU seconds of each test.

    >>> chosen([("computes", 9.0, 9.0), ("waits", 4.0, 0.1), ("is quick", 0.1, 0.1)], most=1)
    ['computes', 'waits']
    """
    tests = list(times)
    slowest = sorted(tests, key=lambda test: -test[1])[:most]
    waiting = sorted(tests, key=lambda test: test[2] - test[1])[:most]
    return sorted({name for name, _, _ in (*slowest, *waiting)})


@contextlib.contextmanager
def load(processes: int) -> Iterator[None]:
    """Keep this number of processes computing."""
    busy = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def run(tests: Sequence[str], rounds: int, options: Sequence[str], logs: Path) -> Counter[str]:
    """Run the tests this number of times; return how often each test failed, and log each failure."""
    logs.mkdir(parents=True, exist_ok=True)
    failures = Counter[str]()
    for number in range(1, rounds + 1):
        print(f"==> round {number} of {rounds}", flush=True)
        with tempfile.TemporaryDirectory() as cache:
            status, output = run_pytest([*options, *tests], Path(cache))
            failed = last_failed(Path(cache)) if status == TESTS_FAILED else []
        if status not in (0, TESTS_FAILED):
            raise SystemExit(f"pytest ended with status {status}: see above")
        failures.update(failed)
        for test in failed:
            load_now = " ".join(f"{value:.1f}" for value in os.getloadavg())
            text = f"{test}\nround {number}, load of the machine: {load_now}\n\n{failure_text(output, test)}\n"
            (logs / f"{log_name(test)}-{number}.log").write_text(text)
    return failures


def main() -> int:
    """Choose the tests, run them, and list the failures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--most", type=int, default=20, help="as many of the slowest and of the waiting tests")
    parser.add_argument("tests", nargs="*", help="run these tests only")
    arguments = parser.parse_args()
    if not arguments.tests and not TIMES.exists():
        print(f"{TIMES} does not exist: run `make test` first, or name tests in ARGS", file=sys.stderr)
        return 2
    tests = arguments.tests or chosen(json.loads(TIMES.read_text()), arguments.most)
    with load(os.cpu_count() or 1):
        failures = run(tests, arguments.rounds, ["-q", "-n", "4", "--lab=quick"], LOGS)
    for test, count in failures.most_common():
        print(f"==> {test} failed in {count} of {arguments.rounds} rounds")
    print(f"==> {len(tests)} tests, {arguments.rounds} rounds, {len(failures)} flakes; logs: {LOGS}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
