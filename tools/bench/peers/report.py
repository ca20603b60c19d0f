"""From records to what people read: tables, rows for build/bench.json, plots. Pure: nothing is read or written here.

A record is what `driving.perform` returns. If a contestant failed or has no such figure, its cell shows it; rows where we lose stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from peers.contestants import BY_NAME, CONTESTANTS, LIMITS
from peers.plan import Session
from peers.statistics_of import Spread, shown, spread
from peers.svg import Bar, bars

Record = Mapping[str, Any]
QUIET = 0.05


@dataclass(frozen=True, slots=True)
class Column:
    """One figure: its part of a run, and its title. `row` also puts it into build/bench.json."""

    part: str
    figure: str
    title: str
    unit: str
    row: bool = True
    plot: str = ""


COLUMNS = (
    Column("cold", "seconds", "cold start: all converged", "s", plot="Cold start: from the start of the process until all are converged"),
    Column("cold", "synced", "cold start: caches synced", "s"),
    Column("cold", "rate", "cold start: from the first status to the last", "objects/s", plot="Cold start: objects/s from the first status to the last"),
    Column("cold", "cpu", "cold start: CPU", "s"),
    Column("cold", "cpu_ms_per_object", "cold start: CPU per object", "ms", plot="Cold start: CPU per object, start-up included"),
    Column("cold", "peak_mib", "cold start: peak memory", "MiB", plot="Cold start: peak memory"),
    Column("cold", "steady_mib", "after the cold start: memory", "MiB"),
    Column("cold", "writes", "cold start: writes", "writes"),
    Column("cold", "errors", "cold start: errors", "responses"),
    Column("idle", "memory_mib", "idle: memory", "MiB", plot="Idle: memory"),
    Column("idle", "cpu_percent", "idle: CPU", "% of a core"),
    Column("storm", "seconds", "storm: all converged again", "s", plot="Storm: from the first change until all are converged again"),
    Column("storm", "cpu", "storm: CPU", "s"),
    Column("storm", "cpu_ms_per_object", "storm: CPU per object", "ms", plot="Storm: CPU per object, without start-up"),
    Column("storm", "writes", "storm: writes", "writes"),
    Column("storm", "errors", "storm: errors", "responses"),
    Column("storm", "conflicts", "storm: of these conflicts (409)", "responses"),
    *(
        column
        for part in ("open_1", "open_2")
        for column in (
            Column(part, "p50_ms", "open loop at {rate}/s: p50", "ms"),
            Column(part, "p99_ms", "open loop at {rate}/s: p99", "ms", plot="Open loop at {rate} changes/s: p99 from the answer to the status"),
            Column(part, "cpu", "open loop at {rate}/s: CPU", "s"),
            Column(part, "stall_ms", "open loop at {rate}/s: longest stall of the loop", "ms"),
            Column(part, "bystander_ms", "open loop at {rate}/s: longest stall of a process that does nothing", "ms"),
            Column(part, "work_ms", "open loop at {rate}/s: longest work in one iteration", "ms"),
            Column(part, "turn_ms", "open loop at {rate}/s: longest turn of the loop, in CPU", "ms"),
            Column(part, "backlog", "open loop at {rate}/s: left at the end", "changes"),
            Column(part, "errors", "open loop at {rate}/s: errors", "responses"),
            Column(part, "conflicts", "open loop at {rate}/s: of these conflicts (409)", "responses"),
        )
    ),
    Column("restart", "synced", "restart: caches synced", "s"),
    Column("restart", "writes", "restart: writes", "writes"),
    Column("restart", "cpu", "restart: CPU", "s"),
    Column("repairs", "p50_ms", "repair: p50", "ms"),
    Column("repairs", "p99_ms", "repair: p99", "ms", plot="Repair of a child: p99 from the answer to its restoration"),
    Column("repairs", "writes_per_repair", "repair: writes", "writes/repair"),
    Column("repairs", "cpu", "repair: CPU of all", "s", plot="Repair: CPU of all repairs"),
    Column("repairs", "reads", "repair: objects read", "reads"),
    Column("repairs", "lost", "repair: not restored", "children"),
    Column("repairs", "errors", "repair: errors", "responses"),
    Column("repairs", "conflicts", "repair: of these conflicts (409)", "responses"),
)  # fmt: skip
"""All figures that are shown, in the order of the tables."""


_SUMMARY = (
    ("cold", "seconds", "cold start, s"),
    ("cold", "rate", "objects/s"),
    ("cold", "cpu_ms_per_object", "CPU/object, cold, ms"),
    ("storm", "cpu_ms_per_object", "CPU/object, storm, ms"),
    ("cold", "peak_mib", "peak memory, MiB"),
    ("idle", "memory_mib", "idle memory, MiB"),
    ("open_1", "p99_ms", "p99 at {rate}/s, ms"),
    ("repairs", "p99_ms", "repair p99, ms"),
    ("repairs", "cpu", "repair CPU, s"),
    ("repairs", "writes_per_repair", "writes/repair"),
)
"""The columns of the summary: part, figure, head of the column."""


def counted(records: Iterable[Record]) -> list[Record]:
    """The records that count: without disturbed runs that were repeated."""
    return [record for record in records if not record.get("repeated")]


def disturbed(records: Iterable[Record]) -> list[Record]:
    """The counting records with more foreign CPU than is allowed."""
    return [record for record in counted(records) if record.get("foreign", 0.0) > QUIET]


def value_of(record: Record, column: Column) -> float | None:
    """One figure of one run; None if it does not exist."""
    value = record.get("phases", {}).get(column.part, {}).get(column.figure)
    return None if value is None else float(value)


def of_session(records: Iterable[Record], session: str) -> dict[str, list[Record]]:
    """The records of a session by contestant, in the order of the tables."""
    mine = [record for record in counted(records) if record["session"] == session]
    return {
        each.name: results
        for each in CONTESTANTS
        if (results := [item for item in mine if item["contestant"] == each.name])
    }


def titled(column: Column, session: Session) -> Column:
    """The column with the session's rates in its words."""
    numbers = {f"open_{turn}": f"{rate:g}" for turn, rate in enumerate(session.rates, start=1)}
    rate = numbers.get(column.part, "")
    return Column(
        column.part,
        column.figure,
        column.title.format(rate=rate),
        column.unit,
        column.row,
        column.plot.format(rate=rate),
    )


def columns_of(records: Mapping[str, Sequence[Record]], session: Session) -> list[Column]:
    """The columns with a figure of any contestant."""
    return [titled(column, session) for column in COLUMNS if column_is_known(records, column)]


def column_is_known(records: Mapping[str, Sequence[Record]], column: Column) -> bool:
    """Whether any contestant has a figure for it."""
    return any(value_of(record, column) is not None for each in records.values() for record in each)


def session_table(records: Iterable[Record], session: Session) -> str:
    """One session as a table in Markdown: a line per figure, a column per contestant, median and range."""
    mine = of_session(records, session.name)
    if not mine:
        return ""
    head = ["", *(BY_NAME[name].label for name in mine)]
    lines = [head, ["---"] + ["---:"] * len(mine)]
    for column in columns_of(mine, session):
        cells = [cell(item, column) for item in mine.values()]
        lines.append([f"{column.title}, {column.unit}", *cells])
    lines.append(["runs", *(str(len(item)) for item in mine.values())])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def summary(records: Iterable[Record], session: Session) -> str:
    """The main figures, as a table in Markdown: a line per contestant, medians."""
    mine = of_session(records, session.name)
    shown_ones = [
        (titled(column, session), head.format(rate=f"{session.rates[0]:g}" if session.rates else ""))
        for part, figure, head in _SUMMARY
        for column in COLUMNS
        if (column.part, column.figure) == (part, figure) and column_is_known(mine, column)
    ]
    if not shown_ones:
        return ""
    lines = [["", *(head for _, head in shown_ones)], ["---"] + ["---:"] * len(shown_ones)]
    for name, item in mine.items():
        lines.append([BY_NAME[name].label, *(cell(item, column, ranges=False) for column, _ in shown_ones)])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def cell(records: Sequence[Record], column: Column, *, ranges: bool = True) -> str:
    """Median and range, with a remark if a contestant failed or did not keep up."""
    result = spread(value_of(record, column) for record in records)
    if result is None:
        return "failed" if all("failed" in record for record in records) else "-"
    failed = sum("failed" in record for record in records)
    behind = behind_in(records, column.part) if column.figure == "p99_ms" else ""
    text = str(result) if ranges else shown(result.median)
    return f"{text}{f', {behind}' if behind else ''}{f', {failed} failed' if failed else ''}"


def behind_in(records: Iterable[Record], part: str) -> str:
    """The remark on an open loop: none if most runs kept up, else the contestants that did not.

    If the load ended because the server did not respond, the figure is not a result of the contestant.
    """
    results = [record["phases"][part] for record in records if part in record.get("phases", {})]
    if not part.startswith("open") or sum(bool(each["keeps_up"]) for each in results) * 2 > len(results):
        return ""
    cut = sum(bool(each.get("cut")) for each in results)
    return "the server does not take the load" if cut * 2 > len(results) else "does not keep up"


def rows(records: Sequence[Record], session: Session, how: str) -> list[dict[str, Any]]:
    """The rows for build/bench.json; names stay the same from one version to the next."""
    manifest = []
    for name, item in of_session(records, session.name).items():
        for column in columns_of({name: item}, session):
            value = spread(value_of(record, column) for record in item)
            if column.row and value is not None:
                manifest.append(
                    row(f"{session.name}, {name}: {column.title}", value, column.unit, f"{session.title}; {how}")
                )
    return manifest


def row(name: str, value: Spread, unit: str, how: str) -> dict[str, Any]:
    runs = f"median of {value.count}, {value.low:.4g} to {value.high:.4g}; {how}"
    return {
        "bench": "peers",
        "name": name,
        "value": round(value.median, 4),
        "unit": unit,
        "target": None,
        "holds": None,
        "how": runs,
    }


def plots(records: Sequence[Record], session: Session) -> dict[str, str]:
    """The plots of a session by file name."""
    mine, manifest = of_session(records, session.name), {}
    for column in columns_of(mine, session):
        if column.plot:
            each = [bar(name, item, column) for name, item in mine.items()]
            title = f"{column.plot} ({session.title})"
            manifest[f"{session.name}-{column.part}-{column.figure}.svg".replace("_", "-")] = bars(
                title, column.unit, each
            )
    return manifest


def bar(name: str, records: Sequence[Record], column: Column) -> Bar:
    look = "l" if name in LIMITS else "o" if name.startswith("konverge") else "b"
    behind = behind_in(records, column.part)
    value = spread(value_of(record, column) for record in records)
    note = behind or ("failed" if value is None and any("failed" in item for item in records) else "")
    return Bar(BY_NAME[name].label, value, look, note)


def settings_table(records: Iterable[Record]) -> str:
    """Versions and settings of every contestant, in Markdown."""
    lines = ["| Contestant | Versions | Settings |", "|---|---|---|"]
    seen: set[str] = set()
    for record in counted(records):
        name = record["contestant"]
        if name in seen or "settings" not in record:
            continue
        seen.add(name)
        versions = ", ".join(f"{package} {version}" for package, version in record["versions"].items())
        settings = ", ".join(f"{key}: {value}" for key, value in record["settings"].items())
        lines.append(f"| {BY_NAME[name].label} | {versions} | {settings} |")
    return "\n".join(lines) + "\n"
