"""Run the benchmarks of this folder, print a table each, and keep the rows in build/bench.json.

Guarantees: each `bench_<name>.py` runs in an interpreter of its own, so that neither memory nor garbage of one counts for another. Its
`run()` returns rows with the keys of `KEYS`, `bench` aside; a row that is not of this form fails the run with words that name it and is not
kept. Rows are appended: the file is read, extended and replaced under a lock, so that it is always whole. One benchmark that raises
does not keep the others from running, and its rows of earlier runs stay.

Caveats: equal figures on another machine. A target that is missed is shown, and fails the run only with `--strict`.
"""

import argparse
import fcntl
import importlib.util
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))  # processes and fleets

KEYS = ("bench", "name", "value", "unit", "target", "holds", "how")
HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent.parent / "build" / "bench.json"

RUN = re.compile(r"^def run\(", re.MULTILINE)
BY_NAME = re.compile(r"^BY_NAME_ONLY = True$", re.MULTILINE)

Row = Mapping[str, Any]


def complaint(row: object) -> str:
    """Return the fault of a row; the empty text if it has none."""
    if not isinstance(row, dict):
        return f"a row is a dict, not {type(row).__name__}"
    if set(row) != set(KEYS):
        return f"the keys of a row are {', '.join(KEYS)}, not {', '.join(map(str, row))}"
    for key in ("bench", "name", "unit", "how"):
        if not isinstance(row[key], str) or not row[key]:
            return f"{key} is a text that is not empty, not {row[key]!r}"
    value, target, holds = row["value"], row["target"], row["holds"]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return f"value is a finite number, not {value!r}"
    if isinstance(target, bool) or not isinstance(target, str | int | float | None):
        return f"target is a number, a text such as '>= 25000', or null, not {target!r}"
    if not isinstance(holds, bool | None) or (holds is None) != (target is None):
        return f"holds is true or false where there is a target and null where there is none, not {holds!r}"
    return ""


def check(rows: object) -> list[Row]:
    """Return the rows; raises ValueError with the first row that does not have the agreed form."""
    if not isinstance(rows, list):
        raise ValueError(f"rows are a list, not {type(rows).__name__}")
    for number, row in enumerate(rows, start=1):
        if words := complaint(row):
            raise ValueError(f"row {number}: {words}")
    return rows


def read(path: Path) -> list[Row]:
    """Read the rows kept so far; raises ValueError if the file does not have this program's format."""
    if not path.exists():
        return []
    try:
        return check(json.loads(path.read_text()))
    except ValueError as error:
        raise ValueError(f"{path} is not a list of rows ({error}); move it away") from error


def append(path: Path, rows: Sequence[Row]) -> None:
    """Add rows to the file, which is replaced whole, so that a reader never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lines = ",\n".join(json.dumps({key: row[key] for key in KEYS}) for row in (*read(path), *check(list(rows))))
        fresh = path.with_suffix(".new")
        fresh.write_text(f"[\n{lines}\n]\n")
        fresh.replace(path)


def discover(folder: Path) -> dict[str, Path]:
    """Return the benchmarks of a folder by name, sorted; a file without `run` is a helper of its neighbours."""
    files = (path for path in sorted(folder.glob("bench_*.py")) if RUN.search(path.read_text()))
    return {path.stem.removeprefix("bench_"): path for path in files}


def by_default(benches: Mapping[str, Path], *, quick: bool) -> list[str]:
    """Return the benchmarks that run if none is named: all, but those that take hours (`BY_NAME_ONLY = True`) only when they are quick."""
    return [name for name, path in benches.items() if quick or not BY_NAME.search(path.read_text())]


def number(value: float | str | None) -> str:
    """Write a value for the table: whole numbers grouped, others with three digits that count."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.3g}"


def table(rows: Sequence[Row]) -> str:
    """Lay rows out in aligned columns."""
    verdicts = {True: "holds", False: "MISSED", None: ""}
    cells = [("name", "value", "unit", "target", "", "how")]
    for row in rows:
        cells.append(
            (row["name"], number(row["value"]), row["unit"], number(row["target"]), verdicts[row["holds"]], row["how"])
        )
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]

    def line_of(texts: Sequence[str]) -> str:
        aligned = (
            text.rjust(width) if column in {1, 3} else text.ljust(width)
            for column, (text, width) in enumerate(zip(texts, widths, strict=True))
        )
        return "  ".join(aligned).rstrip()

    head, *body = cells
    return "\n".join((line_of(head), "  ".join("-" * width for width in widths), *map(line_of, body)))


def measure(path: Path) -> list[Row]:
    """Run one benchmark in this interpreter."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses and pickled workers look their module up here
    spec.loader.exec_module(module)
    return check([{"bench": path.stem.removeprefix("bench_"), **row} for row in module.run()])


def measure_apart(path: Path) -> list[Row] | None:
    """Run one benchmark in an interpreter of its own; None if it failed (its output is on stderr)."""
    with tempfile.TemporaryDirectory() as scratch:
        rows = Path(scratch) / "rows.json"
        command = [sys.executable, str(HERE / "run.py"), "--measure", str(path), "--rows", str(rows)]
        done = subprocess.run(command, check=False)
        return check(json.loads(rows.read_text())) if done.returncode == 0 else None


def run_all(benches: Mapping[str, Path], results: Path) -> tuple[list[str], list[Row]]:
    """Run benchmarks one after another; return the names of those that failed, and the rows whose target was missed."""
    failed: list[str] = []
    missed: list[Row] = []
    for name, path in benches.items():
        print(f"==> {name}", flush=True)
        rows = measure_apart(path)
        if rows is None:
            failed.append(name)
            continue
        append(results, rows)
        missed += [row for row in rows if row["holds"] is False]
        print(f"{table(rows)}\n", flush=True)
    return failed, missed


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse arguments, run what they name, report the outcome; return the exit code (2: a mistake in the call)."""
    parser = argparse.ArgumentParser(description="Run the benchmarks of this folder.")
    parser.add_argument("--only", metavar="NAME", action="append", help="run this benchmark alone (may be repeated)")
    parser.add_argument("--list", action="store_true", help="name the benchmarks")
    parser.add_argument(
        "--quick", action="store_true", help="small numbers, where a benchmark has them: shows that it works"
    )
    parser.add_argument("--strict", action="store_true", help="exit with 1 where a target is missed")
    parser.add_argument("--folder", type=Path, default=HERE, help=argparse.SUPPRESS)
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the rows are kept")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.quick:
        os.environ["BENCH_QUICK"] = "1"  # each benchmark runs in an interpreter of its own
    if chosen.measure:
        chosen.rows.write_text(json.dumps(measure(chosen.measure)))
        return 0
    benches = discover(chosen.folder)
    if unknown := sorted(set(chosen.only or ()) - set(benches)):
        parser.error(f"no benchmark named {', '.join(unknown)}; there are: {', '.join(benches) or 'none'}")
    if chosen.list:
        print("\n".join(benches))
        return 0
    read(chosen.results)  # fail on an unusable file before minutes of work, not after
    names = chosen.only or by_default(benches, quick=chosen.quick)
    if left_out := ", ".join(name for name in benches if not chosen.only and name not in names):
        print(f"left out, since they take hours and run only when named: {left_out}")
    failed, missed = run_all({name: benches[name] for name in names}, chosen.results)
    print(f"rows are in {chosen.results}")
    for row in missed:
        print(f"MISSED {row['bench']}: {row['name']} is {number(row['value'])} {row['unit']}, target {row['target']}")
    if failed:
        print(f"FAILED: {', '.join(failed)}")
    return 1 if failed or (chosen.strict and missed) else 0


if __name__ == "__main__":
    sys.exit(main())
