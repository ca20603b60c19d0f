"""Sources of keys beside the watches: clocks, and programs outside Kubernetes.

A source is an async generator: it receives a `Listening` and yields the keys that are to be reconciled.

    async def changed_parts(listening):                        # a message bus, a long poll, a file
        async for message in bus.subscribe("parts"):
            yield listening.key(message.part, "web")

    Controller.of(Part).listens_to(changed_parts).listens_to(every(3600))

Guarantees: a source runs while the controller works: on the leader, or on each replica that shares the objects, where a key that another
replica owns is dropped. A source that raises is called again after a pause that doubles from one second to a minute. It is an obstacle in
the report of the controller until it yields a key or has run for ten seconds. A source that returns is not called again in the same term.

Caveats: keys of a term that ended are lost, so a source that has missed messages must yield `listening.all_keys()` when it begins.
Equal keys are one entry of the queue, so a fast source needs no more memory than the number of its keys.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from datetime import datetime, time, timedelta, tzinfo
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from konverge.clock import wall_clock
from konverge.errors import UsageError
from konverge.keys import Key
from konverge.kinds import Kind, Resource

if TYPE_CHECKING:
    from konverge.client import Client
    from konverge.runtime.cache.readers import Reader

__all__ = ["Channel", "Listening", "Source", "daily", "every", "next_of"]

R = TypeVar("R", bound=Resource)


class Listening(Protocol):
    """The services of a source.

    >>> async def once(listening: Listening) -> AsyncIterator[Key]:
    ...     yield listening.key("shop", "web")
    """

    @property
    def client(self) -> Client:
        """The client; fenced, so it writes only while the process leads."""

    def key(self, name: str, namespace: str = "") -> Key:
        """Return the key of an object of the controller's kind."""

    def all_keys(self) -> list[Key]:
        """Return the keys of all cached objects of the controller's kind."""

    def cache(self, what: Kind[R] | type[R]) -> Reader[R]:
        """Return the cache of a kind that the controller declared; raises CacheNotWatched for others."""


Source: TypeAlias = Callable[[Listening], AsyncIterator[Key]]
"""Yields the keys that are to be reconciled."""


class _Every(msgspec.Struct, frozen=True):
    seconds: float

    async def __call__(self, listening: Listening) -> AsyncIterator[Key]:
        while True:
            await asyncio.sleep(self.seconds)
            for key in listening.all_keys():
                yield key


def every(seconds: float) -> Source:
    """Return a source that yields every object of the controller once in so many seconds, counted from the begin of the term.

    `RequeueAfter` is the better choice if each object has an interval of its own. Raises UsageError unless `seconds` is above 0.

    >>> from konverge.kinds import kind
    >>> from konverge.runtime.builder.builder import Controller
    >>> hourly = Controller.of(kind("example.com/v1", "Backup")).listens_to(every(3600))
    """
    if not (math.isfinite(seconds) and seconds > 0):
        raise UsageError(f"every({seconds!r}): give the seconds between two runs, a number above 0")
    return _Every(seconds)


class _Daily(msgspec.Struct, frozen=True):
    times: tuple[time, ...]
    zone: tzinfo

    async def __call__(self, listening: Listening) -> AsyncIterator[Key]:
        due = next_of(self.times, self.zone, wall_clock())
        while True:
            # Longer sleeps would miss a change of the wall clock.
            await asyncio.sleep(min(max((due - wall_clock()).total_seconds(), 0.0), 60.0))
            if wall_clock() < due:
                continue
            for key in listening.all_keys():
                yield key
            due = next_of(self.times, self.zone, max(due, wall_clock()))


def daily(*times: str, zone: str = "UTC") -> Source:
    """Return a source that yields every object of the controller at these times of each day, in this time zone.

    A time that the change to summer time skips is due an hour later; a time that occurs twice is due at the first occurrence. A time at
    which no replica leads is skipped. Raises UsageError for a malformed time and for an unknown zone.

    >>> from konverge.kinds import kind
    >>> from konverge.runtime.builder.builder import Controller
    >>> nightly = Controller.of(kind("example.com/v1", "Backup")).listens_to(daily("03:00"))
    """
    try:
        parsed = tuple(sorted(time.fromisoformat(text) for text in times))
    except ValueError:
        parsed = ()
    if not parsed or any(moment.tzinfo is not None for moment in parsed):
        raise UsageError(
            f"daily({', '.join(map(repr, times))}): give at least one time of day, as in daily('03:00', '15:30')"
        )
    try:
        return _Daily(parsed, ZoneInfo(zone))
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise UsageError(f"daily(zone={zone!r}): give the name of a time zone, as in 'Europe/Berlin'") from error


def next_of(times: tuple[time, ...], zone: tzinfo, now: datetime) -> datetime:
    """Return the first moment after `now` that has one of these times of day in the zone. Pure.

    >>> from datetime import UTC
    >>> next_of((time(3, 0),), UTC, datetime(2030, 1, 1, 3, 0, tzinfo=UTC)).isoformat()
    '2030-01-02T03:00:00+00:00'
    """
    today = now.astimezone(zone).date()
    moments = (
        datetime.combine(today + timedelta(days=days), moment, tzinfo=zone).astimezone(now.tzinfo)
        for days in (0, 1)
        for moment in times
    )
    return min(moment for moment in moments if moment > now)


class Channel:
    """A source that other code of the program fills: a web server, another controller's callback.

    >>> channel = Channel(limit=100)
    >>> channel.send_nowait("shop", "web")
    True
    """

    def __init__(self, *, limit: int = 1000) -> None:
        if limit < 1:
            raise UsageError(f"Channel(limit={limit!r}): it is at least 1")
        self._waiting: asyncio.Queue[tuple[str, str]] = asyncio.Queue(limit)

    async def send(self, name: str, namespace: str = "") -> None:
        """Enqueue an object of the controller; waits while `limit` objects wait, for example because the controller does not work."""
        await self._waiting.put((name, namespace))

    def send_nowait(self, name: str, namespace: str = "") -> bool:
        """Enqueue an object of the controller; returns False, and drops the object, if `limit` objects wait."""
        if self._waiting.full():
            return False
        self._waiting.put_nowait((name, namespace))
        return True

    async def __call__(self, listening: Listening) -> AsyncIterator[Key]:
        """Yield the keys of the sent objects. One controller only listens to a channel."""
        while True:
            name, namespace = await self._waiting.get()
            yield listening.key(name, namespace)
