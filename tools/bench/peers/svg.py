"""Plots without a library: horizontal bars with the range of the runs, as SVG text. Pure.

Colours are given as classes with a rule for dark pages, and nothing is fetched, so that a repository's document can show a plot.
"""

from __future__ import annotations

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
