"""The guard: the cost of a thousand objects now, against the figures of `tests/guard/baseline.json`.

    python tools/guard/count.py            count, and report what grew
    python tools/guard/count.py --write    store the counts as the new figures (`make guard`)

Figures are of one minor version of Python, since calls differ between them. A figure is named by its metric, never by a file or a module, so
that a rename or a move within the library changes none. Calls by room are kept beside them as information: they locate the growth.
"""

import argparse
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

BASELINE: Final = Path(__file__).resolve().parents[2] / "tests" / "guard" / "baseline.json"
PROGRAM: Final = Path(__file__).with_name("program.py")
VERSION: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
Figures = Mapping[str, float]

ALLOWED: Final[Figures] = {"requests": 0, "calls per object": 10, "calls per child": 5, "bytes per object": 500}
"""The allowed growth. Two counts of the same code are equal in calls; a second decode of each object makes fourteen more."""


def count(*arguments: str) -> dict[str, Any]:
    """Run the program once and return what it counted."""
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *arguments], env=environment, check=True, capture_output=True, text=True
    )
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def figures_of(*counted: Mapping[str, Any]) -> dict[str, float]:
    """Return the figures of these runs, by metric."""
    figures: dict[str, float] = {}
    for item in counted:
        if "requests" in item:
            figures["requests"] = sum(item["requests"].values())
        if "calls" in item:
            figures["calls per object"] = round(sum(item["calls"].values()) / item["objects"], 2)
        if "children" in item:
            figures["calls per child"] = round(item["children"] / item["objects"], 2)
        if "bytes" in item:
            figures["bytes per object"] = round(item["bytes"] / item["objects"])
    return dict(sorted(figures.items()))


def rooms_of(*counted: Mapping[str, Any]) -> dict[str, float]:
    """Return the calls per object of each room, for information."""
    rooms = defaultdict[str, float](float)
    for item in counted:
        for room, number in item.get("calls", {}).items():
            rooms[room] += number / item["objects"]
    return {room: round(number, 2) for room, number in sorted(rooms.items())}


def grown(before: Figures, now: Figures) -> list[str]:
    """Describe the figures that grew by more than is allowed; a new figure counts as grown."""
    return [
        f"{metric}: {number:,.10g}, and {before[metric]:,.10g} before"
        if metric in before
        else f"{metric}: {number:,.10g}, and not known before"
        for metric, number in sorted(now.items())
        if metric not in before or round(number - before[metric], 2) > ALLOWED[metric]
    ]


def main() -> int:
    """Count, compare or write."""
    parser = argparse.ArgumentParser(description="Count what a thousand objects cost.")
    parser.add_argument("--write", action="store_true", help="take what is counted as the new figures")
    options = parser.parse_args()
    with ThreadPoolExecutor() as pool:
        counted = list(pool.map(lambda arguments: count(*arguments), [(), ("--bytes",), ("--children",)]))
    figures, rooms = figures_of(*counted), rooms_of(*counted)
    known: dict[str, dict[str, Figures]] = json.loads(BASELINE.read_text()) if BASELINE.exists() else {}
    before = known.get(VERSION, {"figures": {}, "rooms": {}})
    for title, now in (("figures", figures), ("rooms", rooms)):
        print(f"{title}:" if title == "figures" else "calls per object by room, for information:")
        for name, number in now.items():
            print(f"  {name:20} {number:>12,}   before: {before[title].get(name, 0):,}")
    if options.write:
        written = {**known, VERSION: {"figures": figures, "rooms": rooms}}
        BASELINE.write_text(json.dumps(written, indent=1) + "\n")
        return 0
    result = grown(before["figures"], figures)
    print("\n".join(result) if result else "nothing grew by more than is allowed")
    return 1 if result else 0


if __name__ == "__main__":
    sys.exit(main())
