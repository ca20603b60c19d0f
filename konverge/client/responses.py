"""Bodies of successful responses, decoded as far as each is needed: objects, pages of a list, and the events of a watch.

Guarantees: a body of another type than the requested one raises `ServerFailure`, which names the size and not the content: such a
body is from a proxy or gateway between client and API server. `LineSplitter` is pure; it takes chunks of bytes and returns whole lines
as one block, at a cost linear in the bytes and with no limit except its own. `WatchStream` yields lists of events; each list holds all
events that one read from the network completed. The stream ends when the server ends the watch. It raises `Unreachable` if the connection
is cut, and `WatchIdle` if no byte arrives for the length of the timeout.

Caveats: the stream knows neither kinds nor versions nor bookmarks, and does not reconnect; the reflector does.

Why the read-idle timeout belongs to the watch and not to the connection: https://github.com/kube-rs/kube/pull/1945
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

import msgspec

from konverge.client.depth import flattened, flattened_in_turns
from konverge.client.resources import Page
from konverge.errors import ServerFailure, Unreachable
from konverge.objects import Metadata
from konverge.tasks import Deadline, Deadlines

__all__ = [
    "LineSplitter",
    "Stored",
    "WatchEvent",
    "WatchIdle",
    "WatchStream",
    "decode_as",
    "decode_metadata",
    "decode_object",
    "decode_page",
    "decode_stored",
]


T = TypeVar("T")


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None


class _List(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[msgspec.Raw] | None = None


class _WithMetadata(msgspec.Struct):
    metadata: Metadata


class _Written(msgspec.Struct, rename="camel"):
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    finalizers: list[str] | None = None


class _WithWritten(msgspec.Struct):
    metadata: _Written


class Stored(NamedTuple):
    """Identity and version of the object in the response to a write. `ended`: the write removed the last finalizer, so the object no longer
    exists.

    The response to such a write shows the version from before the write. A pod within its grace period has not ended.
    """

    name: str
    uid: str
    version: str
    ended: bool


_OBJECT = msgspec.json.Decoder(dict[str, Any])
_LIST = msgspec.json.Decoder(_List)
_METADATA = msgspec.json.Decoder(_WithMetadata)
_WRITTEN = msgspec.json.Decoder(_WithWritten)


def decode_as(decoder: msgspec.json.Decoder[T], body: bytes | msgspec.Raw, what: str) -> T:
    """Decode a body by this decoder; `what` names the expected type in the error."""
    try:
        try:
            return decoder.decode(body)
        except RecursionError:
            return decoder.decode(flattened(bytes(body)))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ServerFailure(
            f"the body of a successful response is {len(bytes(body))} bytes that are no {what}"
        ) from error


def decode_object(body: bytes | msgspec.Raw) -> dict[str, Any]:
    """Decode an object whole."""
    return decode_as(_OBJECT, body, "object")


def decode_metadata(body: bytes) -> Metadata:
    """Decode only the metadata of an object."""
    return decode_as(_METADATA, body, "object with metadata").metadata


def decode_stored(body: bytes) -> Stored:
    """Decode name, uid and version from the response to a write, and whether the write ended the object."""
    metadata = decode_as(_WRITTEN, body, "object with metadata").metadata
    ended = bool(metadata.deletion_timestamp and not metadata.deletion_grace_period_seconds and not metadata.finalizers)
    return Stored(metadata.name, metadata.uid, metadata.resource_version, ended)


async def decode_page(body: bytes) -> Page:
    """Cut a page of a list into its items."""
    try:
        page = _LIST.decode(body)
    except RecursionError:
        page = decode_as(_LIST, await flattened_in_turns(body), "list")
    except (msgspec.DecodeError, UnicodeDecodeError):
        page = decode_as(_LIST, body, "list")  # raises, in the words for every body
    return Page(
        items=page.items or [],
        resource_version=page.metadata.resource_version,
        continue_=page.metadata.continue_,
        remaining=page.metadata.remaining_item_count,
    )


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
        self._deadlines = Deadlines()
        self._now = asyncio.get_running_loop().time
        self.opened_at = self.last_read_at = self._now()

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
            with Deadline(self._deadlines, self._now() + self._idle):
                chunk = await self._read()
        except TimeoutError as error:
            raise WatchIdle(f"{self._what}: no byte for {self._idle:g} s") from error
        self.bytes_read += len(chunk)
        self.last_read_at = self._now()
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
