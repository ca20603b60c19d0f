"""The targets of konverge against its peers, as ratios of medians of one session. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from peers.contestants import BY_NAME
from peers.report import COLUMNS, Column, Record, of_session, value_of
from peers.statistics_of import shown, spread

OURS = ("konverge", "konverge-speed")
"""konverge as `pip install` installs it, and with the extra: each is judged, so that neither hides the other."""


@dataclass(frozen=True, slots=True)
class Target:
    """The target of one of our figures, as a multiple of another contestant's figure or as a number."""

    session: str
    part: str
    figure: str
    bound: float
    against: str = ""
    above: bool = False

    @property
    def column(self) -> Column:
        """The column that it is about."""
        return next(each for each in COLUMNS if (each.part, each.figure) == (self.part, self.figure))


TARGETS = (
    *(
        target
        for session in ("base", "large")
        for target in (
            Target(session, "cold", "rate", 0.95, "bare-loop", above=True),
            Target(session, "cold", "rate", 1.0, "cr-unstructured", above=True),
        )
    ),
    Target("base", "storm", "seconds", 1.05, "bare-loop"),
    # The cold start of few objects is in good part the start of the interpreter; the others show what an object costs.
    *(
        Target(session, part, "cpu_ms_per_object", bound, against)
        for session, part in (("base", "cold"), ("base", "storm"), ("large", "cold"))
        for bound, against in ((0.7, "cr-unstructured"), (1.2, "bare-loop"), (0.12, "kopf-change"))
    ),
    Target("large", "cold", "peak_mib", 0.4, "cr-unstructured"),
    Target("base", "open_1", "p99_ms", 1.25, "cr-unstructured"),
    Target("base", "open_1", "stall_ms", 50.0),
    Target("base", "restart", "writes", 0.0),
    Target("large", "cold", "errors", 0.0),
    Target("owners", "repairs", "writes_per_repair", 1.0),
    # On a server that is not the limit.
    Target("base-standin", "cold", "rate", 0.98, "bare-loop", above=True),
    Target("base-standin", "cold", "cpu_ms_per_object", 0.6, "cr-unstructured"),
    Target("base-standin", "storm", "cpu_ms_per_object", 0.55, "cr-unstructured"),
    Target("base-standin", "storm", "cpu_ms_per_object", 1.2, "kube-rs"),
    Target("base-standin", "storm", "errors", 0.0),
    Target("base-standin", "restart", "synced", 1.0, "cr-unstructured"),
    Target("owners-standin", "repairs", "cpu", 1.0, "cr-unstructured"),
    Target("owners-standin", "repairs", "p99_ms", 5.0),
    Target("base-standin", "cold", "peak_mib", 50.0),
    Target("large-standin", "cold", "peak_mib", 120.0),
    Target("base-standin", "open_1", "turn_ms", 10.0),
    Target("base-standin", "open_2", "errors", 0.0),
    Target("base", "open_2", "errors", 0.0),
)


def verdicts(records: Sequence[Record], how: str) -> list[dict[str, Any]]:
    """One row per target with measurements of both sides."""
    return [row for target in TARGETS for ours in OURS if (row := verdict(records, target, ours, how))]


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The verdicts as a table in Markdown."""
    lines = ["| Target | measured | target | |", "| --- | ---: | ---: | --- |"]
    for row in rows:
        what = row["name"].removeprefix("target, ")
        lines.append(
            f"| {what} | {shown(row['value'])} {row['unit']} | {row['target']} | {'reached' if row['holds'] else 'missed'} |"
        )
    return "\n".join(lines) + "\n"


def verdict(records: Sequence[Record], target: Target, ours: str, how: str) -> dict[str, Any] | None:
    """The row of one target; None if a side is missing."""
    mine = median(records, target, ours)
    other = median(records, target, target.against) if target.against else 1.0
    if mine is None or not other:
        return None
    value = mine / other
    against = f" against {target.against}" if target.against else ""
    title = target.column.title.format(rate="the lower rate" if target.part == "open_1" else "the higher rate")
    form = "" if ours == OURS[0] else f", {BY_NAME[ours].label}"
    return {
        "bench": "peers",
        "name": f"target, {target.session}{form}: {title}{against}",
        "value": round(value, 4),
        "unit": "x" if target.against else target.column.unit,
        "target": f"{'>=' if target.above else '<='} {target.bound:g}",
        "holds": value >= target.bound if target.above else value <= target.bound,
        "how": how,
    }


def median(records: Sequence[Record], target: Target, name: str) -> float | None:
    """The median of one contestant's figure."""
    result = spread(value_of(record, target.column) for record in of_session(records, target.session).get(name, ()))
    return result.median if result else None
