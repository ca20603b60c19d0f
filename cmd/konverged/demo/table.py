"""The table of `konverge demo`: redrawn on a terminal, one line for each change elsewhere.

Guarantees: rows are computed in pure functions; rich is imported only on a terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

import click

from konverge.daemon.demo.samples import Expected
from konverge.objects import Object

__all__ = ["Row", "Table", "converged", "row_of"]


class Row(NamedTuple):
    """The state of one instance."""

    name: str
    mode: str
    chart: str
    values: str
    ready: str
    reason: str
    message: str

    @property
    def line(self) -> str:
        """The row as one line of a log."""
        state = f"Ready={self.ready or '?'} {self.reason}".rstrip()
        return f"{self.name:<6} {state}{': ' if self.message else ''}{self.message}"


def row_of(instance: Object) -> Row:
    """Return the row of an instance."""
    chart, ready = instance.get("spec", "chart", default={}), instance.find_condition("Ready")
    return Row(
        name=instance.name,
        mode=str(instance.get("spec", "mode", default="managed")),
        chart=f"{chart['name']} {chart['version']} ({chart['sourceType']})" if chart else "",
        values=str(instance.get("spec", "values", "source", default="")),
        ready=ready.status if ready else "",
        reason=ready.reason if ready else "",
        message=ready.message if ready else "",
    )


def converged(rows: Iterable[Row], expected: Mapping[str, Expected]) -> bool:
    """Tell whether every instance has its expected condition."""
    present = {row.name: Expected(row.ready, row.reason) for row in rows}
    return all(present.get(name) == end for name, end in expected.items())


class Table:
    """Shows rows repeatedly. A context manager; draws only inside it."""

    def __init__(self, *, live: bool | None = None) -> None:
        self._live = sys.stdout.isatty() if live is None else live
        self._screen: Any = None
        self._shown: dict[str, Row] = {}

    def __enter__(self) -> Self:
        if self._live:
            from rich.live import Live

            self._screen = Live(refresh_per_second=8)
            self._screen.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._screen is not None:
            self._screen.__exit__(kind, error, trace)
            self._screen = None

    def show(self, rows: Sequence[Row]) -> None:
        """Show these rows: the whole table on a terminal, else the lines that changed."""
        if self._screen is not None:
            self._screen.update(_render(rows))
        else:
            for row in rows:
                if self._shown.get(row.name) != row:
                    click.echo(row.line)
        self._shown = {row.name: row for row in rows}


def _render(rows: Sequence[Row]) -> Any:
    from rich.table import Table as Drawing
    from rich.text import Text

    drawing = Drawing(box=None, pad_edge=False)
    for head in ("Instance", "Mode", "Chart", "Values", "Ready", "Reason", "Message"):
        drawing.add_column(head, overflow="fold")
    styles = {"True": "green", "False": "yellow", "Unknown": "cyan"}
    for row in rows:
        cells = [Text(str(cell)) for cell in row]
        cells[4].stylize(styles.get(row.ready, "dim"))
        drawing.add_row(*cells)
    return drawing
