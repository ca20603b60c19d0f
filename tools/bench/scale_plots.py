"""The plots of growth of `bench_scale.py`, from its rows. Pure, so that the published rows can be drawn again:

python tools/bench/scale_plots.py docs/guide/benchmark/scale.json docs/guide/benchmark
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from peers.contestants import BY_NAME
from peers.svg import Line, growth

_POINT = re.compile(r"(?P<name>[\w-]+), (?P<size>[\d,]+) (?P<axis>\w+): (?P<figure>.+)")
_EXPONENT = re.compile(r"(?P<name>[\w-]+), (?P<axis>\w+): exponent of (?P<figure>.+)")
_TITLES = {
    "cpu": "CPU of a start",
    "memory": "Peak memory",
    "synced": "Start to synced caches",
    "longest turn until ready": "Longest turn until ready",
    "longest turn": "Longest turn of the loop",
}


def plots(rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return a plot for each axis and figure with three points or more, by file name."""
    points: dict[tuple[str, str, str], list[tuple[float, float]]] = defaultdict(list)
    units: dict[str, str] = {}
    exponents: dict[tuple[str, str, str], float] = {}
    for row in rows:
        if found := _EXPONENT.fullmatch(row["name"]):
            exponents[found["axis"], found["figure"], found["name"]] = row["value"]
        elif found := _POINT.fullmatch(row["name"]):
            size = float(found["size"].replace(",", ""))
            points[found["axis"], found["figure"], found["name"]].append((size, row["value"]))
            units[found["figure"]] = row["unit"]
    lines: dict[tuple[str, str], list[Line]] = defaultdict(list)
    for (axis, figure, name), found_points in points.items():
        if len(found_points) > 1 and (axis, figure, name) in exponents:
            lines[axis, figure].append(Line(BY_NAME[name].label, found_points, exponents[axis, figure, name]))
    return {
        f"scale-{axis}-{figure}.svg".replace(" ", "-"): growth(
            f"{_TITLES[figure]} by the number of {axis}", axis, units[figure], found_lines
        )
        for (axis, figure), found_lines in lines.items()
    }


def write(rows: Iterable[Mapping[str, Any]], folder: Path) -> list[Path]:
    """Write the plots into a folder; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    made = {folder / name: svg for name, svg in plots(rows).items()}
    for path, svg in made.items():
        path.write_text(svg)
    return list(made)


if __name__ == "__main__":
    print(*write(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])), sep="\n")
