"""Statistics of informers as frozen data, for `/debug` and for tests that wait for a state."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from konverge.informers.problem import Problem

__all__ = ["HandlerStatistics", "InformerStatistics"]


class HandlerStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """One handler: whether it received all existing objects, waiting keys, delivered and merged changes, exceptions.

    >>> HandlerStatistics(name="backup", synced=True).waiting
    0
    """

    name: str
    synced: bool = False
    waiting: int = 0
    delivered: int = 0
    merged: int = 0
    errors: int = 0


class InformerStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """One informer at one moment; times are in seconds.

    `restarts`, `fallbacks` and `dropped` count by cause. `watch_age` is the age of the present watch (None without one),
    `silence` the time since the last event or bookmark (None before the first event or bookmark).

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
    restarts: Mapping[str, int] = msgspec.field(default_factory=dict)
    fallbacks: Mapping[str, int] = msgspec.field(default_factory=dict)
    dropped: Mapping[str, int] = msgspec.field(default_factory=dict)
    index_errors: int = 0
    watch_age: float | None = None
    silence: float | None = None
    handlers: tuple[HandlerStatistics, ...] = ()
