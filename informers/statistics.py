"""What informers tell about themselves: frozen pictures of a moment, for `/debug`, for people and for tests that wait on state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from konverge.informers.problem import Problem

__all__ = ["HandlerStatistics", "InformerStatistics"]


@dataclass(frozen=True, kw_only=True)
class HandlerStatistics:
    """One handler: whether it was told of all that existed, keys that wait, changes told and merged, exceptions.

    >>> HandlerStatistics(name="backup", synced=True).waiting
    0
    """

    name: str
    synced: bool = False
    waiting: int = 0
    delivered: int = 0
    merged: int = 0
    errors: int = 0


@dataclass(frozen=True, kw_only=True)
class InformerStatistics:
    """One informer at one moment; times in seconds.

    `restarts`, `fallbacks` and `dropped` count by cause. `watch_age` is how long the present watch is open (None without one),
    `silence` how long ago the last event or bookmark came (None where none has).

    >>> InformerStatistics(selection="Secret in web", phase="watch", synced=True).objects
    0
    """

    selection: str
    phase: str
    synced: bool
    users: int = 0
    problem: Problem | None = None
    objects: int = 0
    bytes: int = 0
    version: str = ""
    lists: int = 0
    watches: int = 0
    events: int = 0
    bookmarks: int = 0
    restarts: Mapping[str, int] = field(default_factory=dict)
    fallbacks: Mapping[str, int] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    index_errors: int = 0
    watch_age: float | None = None
    silence: float | None = None
    handlers: tuple[HandlerStatistics, ...] = ()
