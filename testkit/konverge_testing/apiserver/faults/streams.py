"""Faults of one watch: `Watched` sits between the server's lines and the shell that sends them.

Guarantees: without rules a line costs one call; rules may be added and removed while the watch is open. Lines are never
re-ordered, except bookmarks that a rule delays. Closing it closes the server's iterator.

Caveats: for one reading task only.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, Protocol

import msgspec

from konverge.words import Annotation
from konverge_testing.apiserver import statuses
from konverge_testing.apiserver.faults.rules import About, Bookmarks, Cut, Expire, Freeze, Lines, StreamFault

__all__ = ["Dropped", "Holding", "StreamStage", "StaleView", "Watched", "close_lines", "stage_of"]

_TOO_OLD: Final = "The resourceVersion for the provided watch is too old."
_INITIAL_END: Final = Annotation.INITIAL_EVENTS_END.encode()


class Dropped(Exception):
    """A fault drops the connection, each shell in its own way. `maybe_done`: whether the client must assume that the request may have
    succeeded.
    """

    def __init__(self, about: About, *, maybe_done: bool = True) -> None:
        super().__init__(f"{about}: the connection was dropped by a fault")
        self.about = about
        self.maybe_done = maybe_done


class StaleView:
    """An older state of one kind: reads see the objects as they were at `version`, until `ended` is set."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.ended = asyncio.Event()


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Object(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _Line(msgspec.Struct):
    type: str = ""
    object: _Object = msgspec.field(default_factory=_Object)


_LINE = msgspec.json.Decoder(_Line)


class StreamStage(Protocol):
    """One fault applied to one watch."""

    def ending(self) -> tuple[list[bytes], bool] | None:
        """Return the last lines and whether the end is a clean one, or None if the watch does not end now."""

    async def take(self, line: bytes, watch: Watched, /) -> tuple[bytes, ...]:
        """Return the lines that replace a line."""


class Watched:
    """The lines of one watch after the rules: an async iterator with `aclose`."""

    def __init__(self, about: About, source: AsyncIterator[bytes], closed: Callable[[Watched], None]) -> None:
        self.about = about
        self._source = source
        self._closed = closed
        self._stages: list[tuple[object, StreamStage]] = []
        self._out: deque[bytes] = deque()
        self._end: type[StopAsyncIteration] | Exception | None = None
        self._waiting: asyncio.Task[Any] | None = None
        self._pull: asyncio.Future[bytes] | None = None
        self._late: tuple[float, bytes] | None = None

    def __aiter__(self) -> Watched:
        return self

    async def __anext__(self) -> bytes:
        self._waiting = task = asyncio.current_task()
        try:
            if not (self._out or self._end or self._late or self._pull):
                line = await anext(self._source)
                if not (self._stages or self._out):
                    return line
                await self._through(line)
            return await self._advance()
        except asyncio.CancelledError:
            # As in asyncio.timeout: a cancellation of our own is undone here, a cancellation from outside propagates.
            if self._end is None or task is None or task.uncancel() > 0:
                raise
            return self._last()
        except StopAsyncIteration:
            self._closed(self)
            raise
        finally:
            self._waiting = None

    # --- for the rules -----------------------------------------------------------------------------------------------------------

    def put(self, owner: object, stage: StreamStage) -> None:
        """Apply a fault to this watch from now on; `owner` is the argument of `lift`."""
        self._stages.append((owner, stage))
        self._settle()

    def lift(self, owner: object) -> None:
        """Remove the faults of an owner."""
        self._stages = [one for one in self._stages if one[0] is not owner]

    def drop(self) -> None:
        """Break the watch off now."""
        self._finish([], clean=False)

    def late(self, due: float, line: bytes) -> None:
        """Send a bookmark when it is due, unless an event overtakes it; a waiting bookmark is superseded."""
        self._late = (due, line)

    # --- lines -----------------------------------------------------------------------------------------------------------------

    def _finish(self, lines: list[bytes], *, clean: bool) -> None:
        if self._end is None:
            self._out.extend(lines)
            self._end = StopAsyncIteration if clean else Dropped(self.about)
            if self._waiting is not None and self._waiting is not asyncio.current_task():
                self._waiting.cancel()

    def _settle(self) -> None:
        for _, stage in self._stages:
            ending = stage.ending()
            if ending is not None:
                self._finish(ending[0], clean=ending[1])

    def _last(self) -> bytes:
        if self._out:
            return self._out.popleft()
        self._closed(self)
        assert self._end is not None
        raise self._end

    async def _advance(self) -> bytes:
        while not self._out and self._end is None:
            line = await self._next()
            if line is not None:
                await self._through(line)
        return self._last()

    async def _through(self, line: bytes) -> None:
        lines = [line]
        for staged in tuple(self._stages):
            if staged in self._stages:  # not lifted by an earlier stage
                lines = [out for one in lines for out in await staged[1].take(one, self)]
        self._out.extend(lines)
        self._settle()

    async def _next(self) -> bytes | None:
        """Wait for a line; None if a late bookmark became due instead."""
        if self._late is None and self._pull is None:
            return await anext(self._source)
        if self._pull is None:
            self._pull = asyncio.ensure_future(_one(self._source))
        if self._late is not None:
            due, bookmark = self._late
            await asyncio.wait({self._pull}, timeout=max(0.0, due - asyncio.get_running_loop().time()))
            if not self._pull.done():
                self._late = None
                self._out.append(bookmark)
                return None
        pull, self._pull = self._pull, None
        try:
            line = await asyncio.shield(pull)
        except asyncio.CancelledError:
            self._pull = pull
            raise
        except _Over:
            raise StopAsyncIteration from None
        self._late = None
        return line

    async def aclose(self) -> None:
        """Close the server's iterator."""
        self._closed(self)
        self._stages.clear()
        if self._pull is not None:
            pull, self._pull = self._pull, None
            pull.cancel()
            await asyncio.wait({pull})
        await close_lines(self._source)


class _Over(Exception):
    """The server's lines have ended; StopAsyncIteration cannot be the result of a task."""


async def _one(source: AsyncIterator[bytes]) -> bytes:
    try:
        return await anext(source)
    except StopAsyncIteration:
        raise _Over from None


async def close_lines(lines: AsyncIterator[bytes]) -> None:
    """Close an async iterator if it can be closed."""
    close = getattr(lines, "aclose", None)
    if close is not None:
        await close()


# --- the faults, one class each ---------------------------------------------------------------------------------------------------


def stage_of(fault: StreamFault, struck: Callable[[], bool], released: asyncio.Event) -> StreamStage:
    """Apply a fault to one watch; `struck` is called once, at the first effect, and returns whether it is allowed; `released` releases held
    lines.
    """
    if isinstance(fault, Cut):
        return _Cutting(fault, struck)
    if isinstance(fault, Expire):
        return _Expiring(fault, struck)
    if isinstance(fault, Freeze):
        return _Freezing(fault, struck, released)
    if isinstance(fault, Lines):
        return _Handling(fault, struck)
    return _Marking(fault, struck)


class _Stage:
    def __init__(self, struck: Callable[[], bool]) -> None:
        self._struck = struck
        self._hit = False
        self._may = True
        self.passed = 0

    def hit(self) -> bool:
        """Tell whether the fault may act; the first call counts as its hit."""
        if not self._hit:
            self._hit = True
            self._may = self._struck()
        return self._may

    def ending(self) -> tuple[list[bytes], bool] | None:
        return None


class _Cutting(_Stage):
    def __init__(self, fault: Cut, struck: Callable[[], bool]) -> None:
        super().__init__(struck)
        self._fault = fault
        self._at_once = fault.clean or fault.bytes == 0

    def ending(self) -> tuple[list[bytes], bool] | None:
        if not self._at_once or self.passed < self._fault.lines:
            return None
        return ([], self._fault.clean) if self.hit() else None

    async def take(self, line: bytes, _watch: Watched) -> tuple[bytes, ...]:
        self.passed += 1
        if self.passed <= self._fault.lines:
            return (line,)
        if not self.hit():
            return (line,)
        if not self._at_once:
            self._at_once = True
            size = len(line) // 2 if self._fault.bytes is None else min(self._fault.bytes, len(line) - 1)
            return (line[:size],)
        return ()


class _Expiring(_Stage):
    def __init__(self, fault: Expire, struck: Callable[[], bool]) -> None:
        super().__init__(struck)
        self._fault = fault

    def ending(self) -> tuple[list[bytes], bool] | None:
        if self.passed < self._fault.lines or not self.hit():
            return None
        error = {"type": "ERROR", "object": statuses.expired(_TOO_OLD).body()}
        return [msgspec.json.encode(error) + b"\n"], True

    async def take(self, line: bytes, _watch: Watched) -> tuple[bytes, ...]:
        self.passed += 1
        return (line,) if self.passed <= self._fault.lines or not self.hit() else ()


class _Freezing(_Stage):
    def __init__(self, fault: Freeze, struck: Callable[[], bool], released: asyncio.Event) -> None:
        super().__init__(struck)
        self._fault = fault
        self._released = released

    async def take(self, line: bytes, _watch: Watched) -> tuple[bytes, ...]:
        self.passed += 1
        if self.passed > self._fault.lines and not self._released.is_set() and self.hit():
            await self._released.wait()
        return (line,)


class _Handling(_Stage):
    def __init__(self, fault: Lines, struck: Callable[[], bool]) -> None:
        super().__init__(struck)
        self._fault = fault

    async def take(self, line: bytes, _watch: Watched) -> tuple[bytes, ...]:
        fault = self._fault
        if _LINE.decode(line).type not in fault.types:
            return (line,)
        self.passed += 1
        if self.passed < fault.first or (fault.count is not None and self.passed >= fault.first + fault.count):
            return (line,)
        if not self.hit():
            return (line,)
        if fault.do == "delay":
            await asyncio.sleep(fault.seconds)
        return {"omit": (), "duplicate": (line, line), "delay": (line,)}[fault.do]


class _Marking(_Stage):
    def __init__(self, fault: Bookmarks, struck: Callable[[], bool]) -> None:
        super().__init__(struck)
        self._fault = fault

    async def take(self, line: bytes, watch: Watched) -> tuple[bytes, ...]:
        if _LINE.decode(line).type != "BOOKMARK" or (_INITIAL_END in line and not self._fault.initial):
            return (line,)
        if not self.hit():
            return (line,)
        if self._fault.do == "delay":
            watch.late(asyncio.get_running_loop().time() + self._fault.seconds, line)
        return (line, line) if self._fault.do == "duplicate" else ()


class Holding:
    """Holds back lines that are newer than a view, until the view ends."""

    def __init__(self, view: StaleView) -> None:
        self._view = view

    def ending(self) -> tuple[list[bytes], bool] | None:
        """A held watch does not end."""
        return None

    async def take(self, line: bytes, _watch: Watched) -> tuple[bytes, ...]:
        """Let older lines pass."""
        version = _LINE.decode(line).object.metadata.resource_version
        if version.isdigit() and int(version) > self._view.version:
            await self._view.ended.wait()
        return (line,)
