"""Plant each fault of the catalogue in a copy of the tree, and let the lab, or the test that the mutant names, find it; print the table.

    python tools/mutants/plant.py [--only WORD] [--processes 2] [--seconds 60]

Guarantees: the tree itself is only read. Ends with status 1 if a mutant survives or the unmutated copy fails a story. Each hunt is a
process of its own with the copy first on its path; if it does not end in time, its mutant counts as a survivor.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from catalogue import MUTANTS, STORIES
from planting import Mutant, file_of, mutated

from konverge.clock import monotonic

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
GRACE = 60.0
"""Seconds that a hunt may continue after its own limit: a run cannot be interrupted."""


@dataclass(frozen=True)
class Hunted:
    """The result of one mutant (None: of the unmutated tree)."""

    mutant: Mutant | None
    answer: dict[str, Any]
    seconds: float

    @property
    def well(self) -> bool:
        result = self.answer.get("found")
        return "error" not in self.answer and (result is None if self.mutant is None else result is not None)


def copied(folder: Path, tree: Path = ROOT) -> Path:
    """Copy both packages, compiled files included, with the rooms of konverge in the place of the links to them."""
    shutil.copytree(tree / "konverge", folder / "konverge", symlinks=False)
    shutil.copytree(tree / "testkit" / "konverge_testing", folder / "testkit" / "konverge_testing")
    return folder


def hunted(mutant: Mutant | None, copy: Path, seconds: float, stories: Sequence[str] = STORIES) -> Hunted:
    """Plant the fault in the copy, hunt, and remove the fault."""
    began = monotonic()
    if mutant is None:
        return Hunted(None, _hunt(copy, list(stories), [], seconds), monotonic() - began)
    file = file_of(mutant, copy)
    text = file.read_text()
    kept = file.stat()
    try:
        file.write_text(mutated(text, mutant))
        _forget_compiled(file)
        first = list(mutant.stories)
        order = first + [name for name in STORIES if name not in first]
        answer = _hunt(copy, order, list(mutant.hints), seconds, mutant.test)
    finally:
        file.write_text(text)
        os.utime(file, ns=(kept.st_atime_ns, kept.st_mtime_ns))
        _forget_compiled(file)
    return Hunted(mutant, answer, monotonic() - began)


def _forget_compiled(file: Path) -> None:
    for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
        compiled.unlink()


def _hunt(copy: Path, stories: list[str], hints: list[str], seconds: float, test: str = "") -> dict[str, Any]:
    orders = json.dumps(
        {"root": str(copy), "stories": stories, "hints": hints, "seconds": seconds, "test": test, "tests": str(ROOT)}
    )
    command = [sys.executable, "-W", "ignore", str(HERE / "hunt.py"), orders]
    environment = {**os.environ, "PYTHONPATH": f"{copy}{os.pathsep}{copy / 'testkit'}", "PYTHONHASHSEED": "0"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=copy, env=environment, timeout=seconds + GRACE
        )
    except subprocess.TimeoutExpired:
        return {"error": f"the hunt did not end within {seconds + GRACE:g} s"}
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"status {done.returncode}"}
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def line(hunted_: Hunted) -> str:
    """Write one row of the table."""
    mutant, answer = hunted_.mutant, hunted_.answer
    name, breaks = ("(unmutated)", "nothing") if mutant is None else (mutant.name, mutant.breaks)
    result = answer.get("found")
    if "error" in answer:
        by = f"ERROR: {answer['error']}"
    elif result is None:
        left = f", left for want of time: {', '.join(answer['left'])}" if answer["left"] else ""
        tried = f"the test {mutant.test}" if mutant is not None and mutant.test else f"{answer['plans']} plans{left}"
        by = f"{'no plan of' if mutant is None else 'SURVIVED'} {tried}"
    else:
        by = " | ".join(result.values())
    return f"{name:<36} {hunted_.seconds:6.1f} s  {breaks}\n{'':<36}           {by[:230]}"


def main(arguments: Sequence[str]) -> int:
    """Run them all; return the status of the process."""
    parser = argparse.ArgumentParser(description="let the lab find planted faults")
    parser.add_argument(
        "--only", default="", help="mutants whose name contains one of these words (a|b), without the unmutated tree"
    )
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=45.0, help="limit of each hunt")
    parser.add_argument("--unmutated", type=float, default=20.0, help="seconds for the unmutated tree, for each story")
    parser.add_argument("--tree", type=Path, default=ROOT, help="the tree to copy")
    options = parser.parse_args(arguments)
    chosen = [mutant for mutant in MUTANTS if any(word in mutant.name for word in options.only.split("|"))]
    began = monotonic()
    with tempfile.TemporaryDirectory(prefix="konverge-mutants-") as folder:
        copies: queue.Queue[Path] = queue.Queue()
        for number in range(options.processes):
            copies.put(copied(Path(folder) / str(number), options.tree))

        def work(job: tuple[Mutant | None, tuple[str, ...]]) -> Hunted:
            copy = copies.get()
            try:
                limit = options.unmutated if job[0] is None else options.seconds
                done = hunted(job[0], copy, limit, job[1])
            finally:
                copies.put(copy)
            print(line(done), flush=True)
            return done

        jobs: list[tuple[Mutant | None, tuple[str, ...]]] = [(mutant, STORIES) for mutant in chosen]
        if not options.only:
            jobs = [(None, (story,)) for story in STORIES] + jobs
        with ThreadPoolExecutor(options.processes) as pool:
            results = list(pool.map(work, jobs))
    bad = [result for result in results if not result.well]
    result = sum(1 for result in results if result.mutant is not None and result.well)
    print(
        f"\n{result} of {len(chosen)} mutants were found, in {monotonic() - began:.0f} s with {options.processes} processes"
    )
    for item in bad:
        print(
            f"  {'the unmutated tree fails' if item.mutant is None else f'{item.mutant.name} survives'}: {item.answer}"
        )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
