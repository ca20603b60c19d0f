"""Plots without a library: horizontal bars with the range of the runs, and lines of growth, as SVG text. Pure.

Colours are given as classes with a rule for dark pages, and nothing is fetched, so that a repository's document can show a plot.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from peers.statistics_of import Spread, shown

WIDTH, LEFT, RIGHT, ROW, TOP = 760, 250, 130, 26, 46
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1f2328}.t{font-weight:600;font-size:14px}.u{fill:#656d76}"
    ".b{fill:#8c959f}.o{fill:#1a7f37}.l{fill:#d0d7de}.r{stroke:#1f2328;stroke-width:1.5}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.u{fill:#8d96a0}.b{fill:#6e7681}.o{fill:#3fb950}"
    ".l{fill:#30363d}.r{stroke:#e6edf3}}"
)

_LIGHT = ("#1a7f37", "#0969da", "#bc4c00", "#8250df", "#656d76", "#cf222e")
_DARK = ("#3fb950", "#58a6ff", "#f0883e", "#bc8cff", "#8d96a0", "#ff7b72")


def _rules(colours: Sequence[str]) -> str:
    return "".join(f".c{n}{{stroke:{each}}}text.n{n}{{fill:{each}}}" for n, each in enumerate(colours))


GROWTH_STYLE = (
    "path{fill:none;stroke-width:2}.g{stroke:#8c959f;stroke-width:.3}"
    f"{_rules(_LIGHT)}@media(prefers-color-scheme:dark){{{_rules(_DARK)}}}"
)


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: `look` is "o" for ours, "l" for a limit, "b" for all others; `value` is None if there is nothing to show."""

    label: str
    value: Spread | None
    look: str = "b"
    note: str = ""


def bars(title: str, unit: str, rows: Sequence[Bar]) -> str:
    """One plot; bars begin at zero, the thin line is the range of the runs.

    >>> bars("cold start", "s", [Bar("konverge", None, note="failed")]).startswith("<svg")
    True
    """
    widest = max((row.value.high for row in rows if row.value), default=0.0) or 1.0
    scale = (WIDTH - LEFT - RIGHT) / widest
    height = TOP + ROW * len(rows) + 10
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">',
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        f'<text class="t" x="10" y="22">{escape(title)}</text>',
        f'<text class="u" x="{WIDTH - 10}" y="22" text-anchor="end">{escape(unit)}</text>',
    ]
    for number, row in enumerate(rows):
        lines += _row(row, TOP + ROW * number, scale)
    return "\n".join((*lines, "</svg>", ""))


def _row(row: Bar, top: float, scale: float) -> list[str]:
    middle = top + ROW / 2
    lines = [f'<text x="{LEFT - 8}" y="{middle + 4:.1f}" text-anchor="end">{escape(row.label)}</text>']
    if row.value is None:
        return [*lines, f'<text class="u" x="{LEFT}" y="{middle + 4:.1f}">{escape(row.note or "none")}</text>']
    width, low, high = (value * scale for value in (row.value.median, row.value.low, row.value.high))
    lines.append(
        f'<rect class="{row.look}" x="{LEFT}" y="{top + 4}" width="{max(width, 0.5):.1f}" height="{ROW - 8}"/>'
    )
    if row.value.high > row.value.low:
        lines.append(f'<path class="r" d="M{LEFT + low:.1f} {middle}H{LEFT + high:.1f}"/>')
    text = f"{shown(row.value.median)} {row.note}".strip()
    lines.append(f'<text x="{LEFT + max(width, high) + 6:.1f}" y="{middle + 4:.1f}">{escape(text)}</text>')
    return lines


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a plot of growth: its points, and the exponent of its growth."""

    label: str
    points: Sequence[tuple[float, float]]
    exponent: float


PLOT, LINES_LEFT, LINES_RIGHT = 300, 70, 290


def growth(title: str, x_label: str, unit: str, lines: Sequence[Line]) -> str:
    """A plot with two logarithmic axes, on which a straight line is a power: its slope is the exponent that its label names.

    >>> growth("start", "objects", "s", [Line("konverge", [(1, 1), (10, 5)], 0.7)]).startswith("<svg")
    True
    """
    xs, ys = ([math.log10(point[axis]) for line in lines for point in line.points] for axis in (0, 1))
    left, right = math.floor(min(xs)), max(math.ceil(max(xs)), math.floor(min(xs)) + 1)
    low, high = math.floor(min(ys)), max(math.ceil(max(ys)), math.floor(min(ys)) + 1)

    def place(x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - left) / (right - left) * (WIDTH - LINES_LEFT - LINES_RIGHT)
        return LINES_LEFT + across, TOP + PLOT - (math.log10(y) - low) / (high - low) * PLOT

    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {TOP + PLOT + 50}" width="{WIDTH}" height="{TOP + PLOT + 50}" role="img">',
        f"<title>{escape(title)}</title><style>{STYLE}{GROWTH_STYLE}</style>",
        f'<text class="t" x="10" y="22">{escape(title)}, {escape(unit)}</text>',
    ]
    edge = WIDTH - LINES_RIGHT
    for power in range(low, high + 1):
        y = place(10**left, 10**power)[1]
        drawn.append(f'<path class="g" d="M{LINES_LEFT} {y:.1f}H{edge}"/>')
        drawn.append(f'<text class="u" x="{LINES_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{10**power:,g}</text>')
    for power in range(left, right + 1):
        x = place(10**power, 10**low)[0]
        drawn.append(f'<path class="g" d="M{x:.1f} {TOP}V{TOP + PLOT}"/>')
        drawn.append(f'<text class="u" x="{x:.1f}" y="{TOP + PLOT + 18}" text-anchor="middle">{10**power:,g}</text>')
    drawn.append(
        f'<text class="u" x="{(LINES_LEFT + edge) / 2}" y="{TOP + PLOT + 38}" text-anchor="middle">{escape(x_label)}</text>'
    )
    names = -math.inf
    for number, line in sorted(enumerate(lines), key=lambda each: place(*each[1].points[-1])[1]):
        places = [place(*point) for point in line.points]
        drawn.append(f'<path class="c{number % 6}" d="M{"L".join(f"{x:.1f} {y:.1f}" for x, y in places)}"/>')
        names = max(names + 17, places[-1][1])
        drawn.append(
            f'<text class="n{number % 6}" x="{edge + 10}" y="{names + 4:.1f}">{escape(line.label)}: n^{line.exponent:.2f}</text>'
        )
    return "\n".join((*drawn, "</svg>", ""))
