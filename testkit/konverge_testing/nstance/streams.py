"""The streams of a shard: one for each tenant and kind; a newer stream silences the older."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

__all__ = ["EventStreams"]

Event = TypeVar("Event")


@dataclass(eq=False)
class _Open(Generic[Event]):
    events: asyncio.Queue[Event | None] = field(default_factory=asyncio.Queue)


class EventStreams(Generic[Event]):
    """The streams of one kind of event.

    Guarantees: an open stream gets its initial snapshot before any live event. An event without a stream is dropped.
    """

    def __init__(self) -> None:
        self.copies = 1
        """How often each event is sent."""
        self._current: dict[str, _Open[Event]] = {}
        self._open: set[_Open[Event]] = set()
        self._held: list[tuple[str, Event]] | None = None

    def __len__(self) -> int:
        """Return the number of open streams, silent streams included."""
        return len(self._open)

    def send(self, tenant: str, event: Event) -> None:
        """Send an event to the newest stream of a tenant."""
        if self._held is not None:
            self._held.append((tenant, event))
        elif (result := self._current.get(tenant)) is not None:
            for _ in range(self.copies):
                result.events.put_nowait(event)

    def hold(self) -> None:
        """Hold back the next events until `release`."""
        self._held = []

    def release(self, *, reverse: bool = False) -> None:
        """Send the events that were held back, in their order or in reverse."""
        held, self._held = self._held or [], None
        for tenant, event in reversed(held) if reverse else held:
            self.send(tenant, event)

    def end(self) -> None:
        """End all streams cleanly."""
        for item in self._open:
            item.events.put_nowait(None)

    async def follow(self, tenant: str, snapshot: Callable[[], Iterable[Event]]) -> AsyncIterator[Event]:
        """Yield the snapshot, then live events, until `end`; the tenant's former stream gets no more events."""
        mine = self._current[tenant] = _Open[Event]()
        self._open.add(mine)
        try:
            for event in list(snapshot()):
                yield event
            while (live := await mine.events.get()) is not None:
                yield live
        finally:
            self._open.discard(mine)
            if self._current.get(tenant) is mine:
                del self._current[tenant]
