"""The driver of one informer's state machine: it alone performs what `konverge.informers.machine` puts out.

Promises: commands are carried out one at a time; every stream is closed when its command is over, also when the task is cancelled.
Objects are decoded in small pieces, and the loop gets its turn between them. A defect anywhere below is logged with its stack and
starts the machine anew after a wait; it never ends the informer in silence.

Does not promise: to know handlers, metrics or problems; those are the `Mirror`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from random import Random
from typing import Any, Protocol

from konverge.client import ListQuery, Page, ResourceInfo, WatchEvent, WatchQuery, WatchStream
from konverge.errors import KonvergeError, stack_of
from konverge.informers import machine
from konverge.informers.backoff import Backoff
from konverge.informers.decode import Decoder
from konverge.informers.memory import PlainMemory
from konverge.informers.messages import (
    Begin,
    Command,
    Discard,
    Discover,
    Discovered,
    Effect,
    Ended,
    Failed,
    Forget,
    Input,
    ListPage,
    Moment,
    Opened,
    PageEnd,
    ReadOn,
    Restarted,
    Stalled,
    StartWatch,
    Troubled,
    Wait,
    Woke,
)
from konverge.informers.pace import Pace
from konverge.informers.problem import Cause, cause_of
from konverge.informers.settings import InformerSettings, Selection
from konverge.kinds import Kind
from konverge.logs import get_logger
from konverge.words import LogKey

__all__ = ["Api", "Mirror", "Reflector"]

_LOG = get_logger("konverge.informers")


class Api(Protocol):
    """What the reflector needs of a client."""

    async def resource(self, kind: Kind[Any]) -> ResourceInfo:
        """Return how the kind is served; raises NotServed."""

    def forget_discovery(self, group_version: str | None = None) -> None:
        """Do not believe what discovery said."""

    async def list_page(self, info: ResourceInfo, query: ListQuery) -> Page:
        """Return a page of a list."""

    def watch(self, info: ResourceInfo, query: WatchQuery) -> AbstractAsyncContextManager[WatchStream]:
        """Open a watch; entering raises ApiError for an answer that is no success."""


class Mirror(Protocol):
    """Where the effects go: store, handlers, reports."""

    async def perform(self, effect: Effect) -> None:
        """Carry an effect out."""

    def discovered(self, info: ResourceInfo) -> None:
        """Take note of how the kind is served."""

    def listed(self) -> None:
        """Take note that a page was asked for."""

    def watched(self) -> None:
        """Take note that a watch was asked for."""


class Reflector:
    """Keeps a mirror equal to what the API server has, for as long as `run` runs."""

    def __init__(
        self,
        *,
        api: Api,
        selection: Selection,
        settings: InformerSettings,
        decoder: Decoder,
        mirror: Mirror,
        memory: PlainMemory,
        pace: Pace,
        random: Random,
    ) -> None:
        self._api = api
        self._selection = selection
        self._settings = settings
        self._decoder = decoder
        self._mirror = mirror
        self._memory = memory
        self._pace = pace
        self._random = random
        self._info: ResourceInfo | None = None
        self._state = machine.begin(settings)

    @property
    def phase(self) -> machine.Phase:
        """What the informer is doing."""
        return self._state.phase

    async def run(self) -> None:
        """Run for ever."""
        rest = Backoff(start=self._settings.backoff_start, cap=self._settings.backoff_cap)
        while True:
            try:
                await self._work()
            except Exception as error:  # noqa: BLE001  # a defect must not end the informer in silence
                rest, seconds = rest.next(self._now(), self._random.random())
                _LOG.error(
                    "an informer failed by a defect; it begins anew",
                    **{
                        LogKey.SELECTION: str(self._selection),
                        LogKey.ERROR: type(error).__name__,
                        LogKey.DELAY: seconds,
                        LogKey.STACK: stack_of(error),
                    },
                )
                self._state = machine.begin(self._settings)
                known = KonvergeError(f"a defect of the informer ({type(error).__name__}); the log has its stack")
                for effect in (Discard(), Restarted(Cause.BROKEN), Troubled(Cause.BROKEN, known)):
                    await self._mirror.perform(effect)
                await asyncio.sleep(seconds)

    async def _work(self) -> None:
        command = await self._feed(Begin())
        while True:
            match command:
                case Discover():
                    command = await self._feed(await self._discover())
                case ListPage():
                    command = await self._list(command)
                case StartWatch():
                    command = await self._watch(command)
                case Wait():
                    await asyncio.sleep(command.seconds)
                    command = await self._feed(Woke())
                case ReadOn():
                    raise LookupError("ReadOn without an open stream")

    async def _feed(self, given: Input) -> Command:
        """Take a step and carry its effects out; return its command."""
        now = self._now()
        moment = Moment(now, self._random.random(), self._memory.plain(self._info, now))
        self._state, outputs = machine.step(self._state, given, moment)
        *effects, command = outputs
        for effect in effects:
            if isinstance(effect, Forget):
                self._api.forget_discovery(self._selection.kind.api_version)
            else:
                await self._mirror.perform(effect)
        return command

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()

    # Commands

    async def _discover(self) -> Input:
        try:
            self._info = await self._api.resource(self._selection.kind)
        except KonvergeError as error:
            return Failed(error, cause_of(error))
        self._mirror.discovered(self._info)
        return Discovered()

    async def _list(self, command: ListPage) -> Command:
        assert self._info is not None
        self._mirror.listed()
        query = ListQuery(
            namespace=self._namespace,
            labels=self._selection.labels,
            fields=self._selection.fields,
            resource_version=command.version,
            limit=command.limit,
            continue_=command.continue_,
            metadata_only=self._selection.metadata_only,
        )
        try:
            page = await self._api.list_page(self._info, query)
        except KonvergeError as error:
            return await self._feed(Failed(error, cause_of(error)))
        step = self._settings.slice_objects
        for start in range(0, len(page.items), step):
            await self._feed(self._decoder.items(page.items[start : start + step]))
            await self._breathe()
        return await self._feed(PageEnd(page.resource_version, page.continue_))

    async def _watch(self, command: StartWatch) -> Command:
        """Read one watch until it is over; return what is to be done then."""
        assert self._info is not None
        self._mirror.watched()
        given: Input
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout_at(command.deadline):
                    stream = await stack.enter_async_context(self._api.watch(self._info, self._watch_query(command)))
            except TimeoutError:
                given = Stalled()
            except KonvergeError as error:
                given = Failed(error, cause_of(error))
            else:
                return await self._read_all(aiter(stream))
        return await self._feed(given)

    async def _read_all(self, stream: AsyncIterator[list[WatchEvent]]) -> Command:
        reader = _Reader(stream)
        try:
            return await self._read(reader)
        finally:
            await reader.close()

    async def _read(self, reader: _Reader) -> Command:
        command = await self._feed(Opened())
        while isinstance(command, ReadOn):
            try:
                events = await reader.next(command.deadline)
            except StopAsyncIteration:
                return await self._feed(Ended())
            except KonvergeError as error:
                return await self._feed(Failed(error, cause_of(error)))
            if events is None:
                command = await self._feed(Stalled())
            else:
                command = await self._take(events, command)
        return command

    async def _take(self, events: Sequence[WatchEvent], command: Command) -> Command:
        """Feed the events of one network read; what follows an end of the stream is dropped."""
        step = self._settings.slice_objects
        for start in range(0, len(events), step):
            for given in self._decoder.events(events[start : start + step]):
                command = await self._feed(given)
                if not isinstance(command, ReadOn):
                    return command
            await self._breathe()
        return command

    async def _breathe(self) -> None:
        if self._pace.spent():
            await self._pace.rest()

    # Queries

    @property
    def _namespace(self) -> str | None:
        assert self._info is not None
        return self._selection.namespace if self._info.namespaced else None

    def _watch_query(self, command: StartWatch) -> WatchQuery:
        selection = self._selection
        return WatchQuery(
            namespace=self._namespace,
            labels=selection.labels,
            fields=selection.fields,
            resource_version=command.version,
            match="NotOlderThan" if command.streaming else "",
            send_initial_events=command.streaming,
            timeout_seconds=command.timeout_seconds,
            idle_seconds=self._settings.read_idle,
            metadata_only=selection.metadata_only,
        )


class _Reader:
    """Reads a stream with deadlines that do not end it."""

    def __init__(self, stream: AsyncIterator[list[WatchEvent]]) -> None:
        self._stream = stream
        self._reading: asyncio.Task[list[WatchEvent] | None] | None = None

    async def next(self, deadline: float | None) -> list[WatchEvent] | None:
        """Return what the next read brings, None where the deadline passes first; the read then goes on."""
        if deadline is None and self._reading is None:
            return await anext(self._stream)
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._one())
        left = None if deadline is None else max(0.0, deadline - asyncio.get_running_loop().time())
        done, _ = await asyncio.wait((self._reading,), timeout=left)
        if not done:
            return None
        reading, self._reading = self._reading, None
        events = reading.result()
        if events is None:
            raise StopAsyncIteration
        return events

    async def _one(self) -> list[WatchEvent] | None:
        try:
            return await anext(self._stream)
        except StopAsyncIteration:  # which a task cannot end with
            return None

    async def close(self) -> None:
        """End the read and the stream."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait((self._reading,))
            if not self._reading.cancelled():
                self._reading.exception()  # nobody waits for it any more
        # Left to the garbage collector, a generator would be closed by a task that nobody owns.
        if isinstance(self._stream, AsyncGenerator):
            await self._stream.aclose()
