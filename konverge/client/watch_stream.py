"""Watch streams: lines out of bytes, events out of lines, and the read-idle timeout.

Guarantees: `LineSplitter` is pure; it takes chunks of bytes and returns whole lines as one block, at a cost linear in the bytes and
with no limit except its own. `WatchStream` yields lists of events; each list holds all events that a single network read completed.
The stream ends when the server ends the watch. It raises `Unreachable` if the connection is cut, and `WatchIdle` if no byte arrives for the
length of the timeout.

Caveats: the stream knows neither kinds nor versions nor bookmarks, and does not reconnect; the reflector does.

Why the read-idle timeout belongs to the watch and not to the connection: https://github.com/kube-rs/kube/pull/1945
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec

from konverge.client.depth import flattened_in_turns
from konverge.errors import Unreachable

__all__ = ["LineSplitter", "WatchEvent", "WatchIdle", "WatchStream"]


class WatchEvent(msgspec.Struct, frozen=True, gc=False):
    """One event: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR, and its object as bytes not yet decoded.

    The bytes are a slice of one network read; copy them to keep them for long.
    """

    type: str
    object: msgspec.Raw


class WatchIdle(Unreachable):
    """No byte arrived on a watch for longer than its read-idle timeout: the connection is considered dead."""


_DECODE = msgspec.json.Decoder(WatchEvent)


class LineSplitter:
    r"""Cuts a stream of bytes at its line ends.

    >>> splitter = LineSplitter(limit=100)
    >>> splitter.feed(b'{"a":1}\n{"b"'), splitter.feed(b':2}\n'), splitter.rest
    (b'{"a":1}\n', b'{"b":2}\n', b'')
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._held = 0

    def feed(self, chunk: bytes) -> bytes:
        """Take the next bytes; return the whole lines that they complete, line ends included, as one block.

        Raises ValueError if an unfinished line exceeds the limit.
        """
        end = chunk.rfind(b"\n") + 1
        if not end:
            self._hold(chunk)
            return b""
        lines = chunk if end == len(chunk) and not self._parts else b"".join((*self._parts, chunk[:end]))
        self._parts.clear()
        self._held = 0
        if end < len(chunk):
            self._hold(chunk[end:])
        return lines

    def _hold(self, part: bytes) -> None:
        self._held += len(part)
        if self._held > self._limit:
            raise ValueError(f"a line of the watch is longer than {self._limit} bytes")
        self._parts.append(part)

    @property
    def rest(self) -> bytes:
        """The bytes after the last line end."""
        return b"".join(self._parts)


class WatchStream:
    """The events of one open watch; iterate it once.

    `bytes_read` and `events_read` count since the start; `opened_at` and `last_read_at` are times of the running loop.
    """

    def __init__(
        self, read: Callable[[], Awaitable[bytes]], *, what: str, idle_seconds: float, max_line_bytes: int
    ) -> None:
        self._read = read
        self._what = what
        self._idle = idle_seconds
        self._splitter = LineSplitter(max_line_bytes)
        self.bytes_read = 0
        self.events_read = 0
        self.opened_at = self.last_read_at = asyncio.get_running_loop().time()

    async def __aiter__(self) -> AsyncIterator[list[WatchEvent]]:
        """Yield the events that each network read completed, never an empty list."""
        while chunk := await self._chunk():
            events = await self._events(chunk)
            if events:
                yield events
        if rest := self._splitter.rest.strip():
            yield await self._decoded(rest)

    async def _chunk(self) -> bytes:
        try:
            async with asyncio.timeout(self._idle):
                chunk = await self._read()
        except TimeoutError as error:
            raise WatchIdle(f"{self._what}: no byte for {self._idle:g} s") from error
        self.bytes_read += len(chunk)
        self.last_read_at = asyncio.get_running_loop().time()
        return chunk

    async def _events(self, chunk: bytes) -> list[WatchEvent]:
        try:
            lines = self._splitter.feed(chunk)
        except ValueError as error:
            raise Unreachable(f"{self._what}: {error}") from error
        return await self._decoded(lines) if lines else []

    async def _decoded(self, lines: bytes) -> list[WatchEvent]:
        try:
            try:
                events = _DECODE.decode_lines(lines)
            except RecursionError:
                events = _DECODE.decode_lines(await flattened_in_turns(lines))
        except msgspec.DecodeError as error:
            raise Unreachable(f"{self._what}: the stream broke off inside an event, or is no watch") from error
        self.events_read += len(events)
        return events
