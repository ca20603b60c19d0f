"""The stream of a WATCH: lines on the running loop's own time. A thin shell around `changes.py`.

Guarantees
- A `Watch` is an async iterator of whole lines. It subscribes in its constructor, so no event is lost between its request and its first
line; the initial objects are encoded only when they are read.
- Bookmarks are sent about once a minute and two seconds before the end; the end is after timeoutSeconds or, without it, after 30 to 60
  minutes: by timers of the loop, so on a virtual loop at virtual times. All randomness is from the given `Random`.
- A slow reader is cut off: after `buffer` unread lines no line is added, and the stream ends with the last unread line.
- Faults are plain methods: `freeze`, `thaw`, `cut`, and `tell` to drop or repeat single lines.

One consumer per watch. Abandoned watches must be closed (`close`), or they stay subscribed until they end.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from random import Random
from typing import Final, TypeAlias

from konverge_testing.apiserver.reading.changes import (
    Beginning,
    Bookmark,
    begin,
    change,
    error_line,
    event_line,
    line,
    never,
)
from konverge_testing.apiserver.reading.lists import raw_of
from konverge_testing.apiserver.reading.options import ReadOptions
from konverge_testing.apiserver.storage import Encode, Entry, Event, Store

__all__ = ["BUFFER", "StreamCut", "Tell", "Watch"]

BUFFER: Final = 10_000
"""The maximum number of unread lines for a slow reader."""

Tell: TypeAlias = Callable[[str, Entry | None], int]
"""How often a line is sent (0: dropped, 2: repeated), by its type and object; bookmarks have no object."""

_MINUTE: Final = 60.0
_JITTER: Final = 1.0
_LAST_WORD: Final = 2.0
_PATIENCE: Final = 3.0
_SHORTEST: Final = 1800.0
_BREATH: Final = 256


class StreamCut(ConnectionError):
    """A fault broke the connection in the middle."""


class Watch:
    """One watch; see the module. Raises StatusError for an invalid request."""

    def __init__(
        self,
        store: Store,
        options: ReadOptions,
        *,
        bookmark: Bookmark,
        random: Random,
        encode: Encode = raw_of,
        buffer: int = BUFFER,
        tell: Tell | None = None,
    ) -> None:
        self.options = options
        self.tell = tell
        """Called for each line before it is encoded; may be changed at any time."""
        self.frozen = False
        self.sent = 0
        """The number of bytes that the reader has got."""
        self._store = store
        self._selection = options.selection
        self._encode = encode
        self._bookmark = bookmark
        self._random = random
        self._limit = buffer
        self._lines: deque[bytes] = deque()
        self._first: Iterator[bytes] | None = None
        self._after = 0
        self._left: int | None = None
        self._broken = False
        self._marked = (-1, b"")
        """The version and the line of the last bookmark: an idle watch sends the same line each minute."""
        self._parting = False
        self._ended = False
        self._unread = 0
        self._waiter: asyncio.Future[None] | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self._leave: Callable[[], None] | None = None
        self._loop = asyncio.get_running_loop()
        self._start(begin(store, options))

    # Reading

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> bytes:
        self._unread += 1
        if self._unread % _BREATH == 0:
            # A long backlog must not starve the other tasks of the loop.
            await asyncio.sleep(0)
        while True:
            if not self.frozen or self._left is not None:
                found = self._take()
                if found is not None:
                    self.sent += len(found)
                    return found
                if self._broken:
                    raise StreamCut("the stream was cut")
                if self._ended:
                    raise StopAsyncIteration
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    async def aclose(self) -> None:
        """Close the watch, as an async generator is closed."""
        self.close()

    def close(self) -> None:
        """End the watch at once; unread lines are lost."""
        self._finish()
        self._lines.clear()
        self._first = None

    # Faults

    def freeze(self) -> None:
        """Send no more lines, not even the end, until `thaw`; the reader sees an idle connection."""
        self.frozen = True

    def thaw(self) -> None:
        """Resume, with all held lines."""
        self.frozen = False
        self._wake()

    def cut(self, after_bytes: int = 0, *, clean: bool = False) -> None:
        """Break the connection after this many more bytes, possibly inside a line: StreamCut, or (`clean`) an ordinary end."""
        self._left = after_bytes
        self._broken = not clean
        if not after_bytes:
            self.close()
        self._wake()

    def end(self) -> None:
        """End the watch after its unread lines: its resource is no longer served."""
        self._finish()

    # Inside

    def _start(self, beginning: Beginning) -> None:
        seconds = self.options.timeout or _SHORTEST * self._random.uniform(1, 2)
        if beginning.error is not None:
            self._lines.append(error_line(beginning.error))
            self._ended = True
            return
        self._deadline = self._loop.time() + max(seconds, 0)
        self._timers = [self._loop.call_at(self._deadline, self._finish)]
        if beginning.ahead:
            self._await(beginning.ahead)
            return
        self._follow(beginning)

    def _await(self, version: int) -> None:
        """Wait up to three seconds for a future version."""

        def arrived(_event: Event) -> None:
            if self._store.version >= version:
                handle.cancel()
                self._forget()
                self._follow(begin(self._store, self.options))
                self._wake()

        def give_up() -> None:
            self._forget()
            if self._store.version >= version:
                self._follow(begin(self._store, self.options))
            else:
                beginning = never(version, self._store)
                assert beginning.error is not None
                self._lines.append(error_line(beginning.error))
                self._finish()
            self._wake()

        handle = self._loop.call_later(_PATIENCE, give_up)
        self._timers.append(handle)
        self._store.observers.append(arrived)
        self._leave = lambda: self._store.observers.remove(arrived)

    def _follow(self, beginning: Beginning) -> None:
        self._after = beginning.version
        self._first = self._opening(beginning)
        self._leave = self._store.subscribe(self._selection.resource.id, self._on_event)
        if self.options.bookmarks:
            self._schedule_bookmark()

    def _opening(self, beginning: Beginning) -> Iterator[bytes]:
        selection, encode = self._selection, self._encode
        for entry in beginning.entries:
            if selection.selects(entry):
                yield from self._repeated("ADDED", entry, line("ADDED", encode(entry)))
        if beginning.marked:
            yield from self._repeated("BOOKMARK", None, line("BOOKMARK", self._bookmark(beginning.version, True)))
        for event in beginning.events:
            if (found := change(event, selection)) is not None:
                yield from self._repeated(*found, line(found[0], encode(found[1])))

    def _on_event(self, event: Event) -> None:
        if event.entry.version <= self._after:
            return
        found = change(event, self._selection)
        if found is not None:
            self._push(found[0], found[1], event_line(event, found[0], found[1], self._encode))

    def _push(self, kind: str, entry: Entry | None, what: bytes) -> None:
        if self.tell is None:
            self._lines.append(what)
        else:
            self._lines.extend(self._repeated(kind, entry, what))
        if len(self._lines) > self._limit:
            self._finish()
        elif self._waiter is not None:
            self._wake()

    def _repeated(self, kind: str, entry: Entry | None, what: bytes) -> list[bytes]:
        return [what] if self.tell is None else [what] * self.tell(kind, entry)

    def _schedule_bookmark(self) -> None:
        now = self._loop.time()
        when = now + _MINUTE + self._random.uniform(-_JITTER, _JITTER)
        last = self._deadline - _LAST_WORD
        if not self._parting and now < last < when:
            when, self._parting = last, True
        self._timers[1:] = [self._loop.call_at(when, self._mark)]

    def _mark(self) -> None:
        version = max(self._after, self._store.version)
        if version != self._marked[0]:
            self._marked = version, line("BOOKMARK", self._bookmark(version, False))
        self._push("BOOKMARK", None, self._marked[1])
        if not self._ended:
            self._schedule_bookmark()

    def _take(self) -> bytes | None:
        if self._left == 0:
            return None
        found: bytes | None = None
        if self._first is not None:
            found = next(self._first, None)
            if found is None:
                self._first = None
        if found is None and self._lines:
            found = self._lines.popleft()
        if found is None or self._left is None:
            return found
        found = found[: self._left]
        self._left -= len(found)
        if not self._left:
            self.close()
        return found

    def _forget(self) -> None:
        if self._leave is not None:
            self._leave()
            self._leave = None

    def _finish(self) -> None:
        self._ended = True
        self._forget()
        for timer in self._timers:
            timer.cancel()
        self._timers = []
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
