"""The timeline of a run: requests, commits, reconciles, deaths, in order and with their causes. The same seed gives the same bytes.

Guarantees: a line has the loop time, the actor (the process or another client), the action and its effect; no object content. Uids and
versions are not in the lines, so that two runs can be compared line by line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Literal, TypeAlias

__all__ = ["TimelineEntry", "Kind", "Timeline", "first_difference", "summary"]

Kind: TypeAlias = Literal["write", "commit", "pass", "fault", "life", "watch"]


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """One thing that happened."""

    at: float
    kind: Kind
    who: str
    text: str
    number: int = 0
    """Of a write: its number among the writes of the process."""
    effect: bool = False
    """Of a write: whether it changed anything."""

    def __str__(self) -> str:
        mark = f" #{self.number}" if self.number else ""
        return f"{self.at:10.3f}  {self.kind:<6} {self.who:<12} {self.text}{mark}"


@dataclass(slots=True)
class Timeline:
    """The entries of one run."""

    entries: list[TimelineEntry] = field(default_factory=list)

    def add(self, entry: TimelineEntry) -> None:
        """Add an entry."""
        self.entries.append(entry)

    def writes(self) -> list[TimelineEntry]:
        """Return the numbered writes of the process under test."""
        return [entry for entry in self.entries if entry.kind == "write"]

    def lines(self) -> Iterator[str]:
        """Yield the timeline as text."""
        return (str(entry) for entry in self.entries)

    def text(self) -> str:
        """Return the timeline as one text."""
        return "".join(f"{line}\n" for line in self.lines())


def summary(entries: Iterable[TimelineEntry]) -> list[str]:
    """Return the lines of a timeline; a run of entries that differ only in their times is one line, with their number."""
    lines = []
    for _, row in groupby(entries, key=lambda entry: (entry.kind, entry.who, entry.text, entry.number)):
        first, *others = row
        lines.append(f"{first} ({len(others) + 1} times, until {others[-1].at:.3f})" if others else str(first))
    return lines


def first_difference(reference: Timeline, run: Timeline) -> int | None:
    """Return the place in `run` of the first write that differs from the reference, or None if the writes are the same."""
    ours = [(place, entry.text) for place, entry in enumerate(run.entries) if entry.kind == "write"]
    theirs = [entry.text for entry in reference.entries if entry.kind == "write"]
    for number, (place, text) in enumerate(ours):
        if number >= len(theirs) or theirs[number] != text:
            return place
    return None
