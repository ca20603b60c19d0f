"""The driver of one informer's state machine, which executes the outputs of `konverge.informers.machine`.

Guarantees: one command at a time. Every stream is closed at the end of its command, also if the task is cancelled. Objects are decoded in
small slices, between which the event loop gets its turn. Events reach the store in the order of the stream, whatever their versions
(`konverge.informers.machine` says what follows from a version that goes back). A defect in any module below is logged with its stack, and
the machine starts again after a wait.

Caveats: handlers, metrics and problems belong to the `EffectSink`.
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
from konverge.informers.backoff import ExponentialBackoff
from konverge.informers.decode import Decoder
from konverge.informers.messages import (
    Command,
    Discard,
    Discover,
    Discovered,
    Effect,
    Ended,
    Failed,
    ForgetDiscovery,
    Input,
    ListPage,
    Moment,
    Opened,
    PageEnd,
    ReadOn,
    Restarted,
    Sleep,
    Stalled,
    Started,
    StartWatch,
    Unhealthy,
    Woke,
)
from konverge.informers.problem import RestartCause, cause_of
from konverge.informers.settings import InformerSettings, Selection
from konverge.kinds import Kind
from konverge.logs import get_logger
from konverge.tasks import Slice
from konverge.words import LogKey

__all__ = ["Api", "EffectSink", "Reflector", "WatchListDenylist"]


_LOG = get_logger("konverge.informers")


class Api(Protocol):
    """The part of a client that the reflector calls."""

    async def resource(self, kind: Kind[Any]) -> ResourceInfo:
        """Return the resource of a kind; raises NotServed."""

    def forget_discovery(self, group_version: str | None = None) -> None:
        """Drop cached discovery."""

    async def list_page(self, info: ResourceInfo, query: ListQuery) -> Page:
        """Return a page of a list."""

    def watch(self, info: ResourceInfo, query: WatchQuery) -> AbstractAsyncContextManager[WatchStream]:
        """Open a watch; entering raises ApiError for an error response."""


class EffectSink(Protocol):
    """Applies effects to store, handlers and reports."""

    async def apply(self, effect: Effect) -> None:
        """Apply an effect."""

    def discovered(self, info: ResourceInfo) -> None:
        """Record the resource of the kind."""

    def listed(self) -> None:
        """Count a requested page."""

    def watched(self) -> None:
        """Count a requested watch."""


class Reflector:
    """Lists and watches one selection, and passes its changes to an effect sink, while `run` runs."""

    def __init__(
        self,
        *,
        api: Api,
        selection: Selection,
        settings: InformerSettings,
        decoder: Decoder,
        effects: EffectSink,
        denylist: WatchListDenylist,
        share: Slice,
        random: Random,
    ) -> None:
        self._api = api
        self._selection = selection
        self._settings = settings
        self._decoder = decoder
        self._effects = effects
        self._denylist = denylist
        self._share = share
        self._random = random
        # Set by discovery, and so in every phase but DISCOVERY.
        self._info: ResourceInfo | None = None
        self._state = machine.initial_state(settings)

    @property
    def phase(self) -> machine.Phase:
        """The present phase of list and watch."""
        return self._state.phase

    async def run(self) -> None:
        """Run for ever."""
        backoff = ExponentialBackoff(start=self._settings.backoff_start, cap=self._settings.backoff_cap)
        while True:
            try:
                await self._run_machine()
            except Exception as error:  # noqa: BLE001  # a defect is logged and must not end the informer
                backoff, seconds = backoff.next(self._now(), self._random.random())
                _LOG.error(
                    "an informer failed by a defect; it lists again after a wait",
                    **{
                        LogKey.SELECTION: str(self._selection),
                        LogKey.ERROR: type(error).__name__,
                        LogKey.DELAY: seconds,
                        LogKey.STACK: stack_of(error),
                    },
                )
                self._state = machine.initial_state(self._settings)
                known = KonvergeError(f"a defect of the informer ({type(error).__name__}); the log has its stack")
                for effect in (Discard(), Restarted(RestartCause.BROKEN), Unhealthy(RestartCause.BROKEN, known)):
                    await self._effects.apply(effect)
                await asyncio.sleep(seconds)

    async def _run_machine(self) -> None:
        command = await self._feed(Started())
        while True:
            match command:
                case Discover():
                    command = await self._feed(await self._discover())
                case ListPage():
                    command = await self._list(command)
                case StartWatch():
                    command = await self._watch(command)
                case Sleep():
                    await asyncio.sleep(command.seconds)
                    command = await self._feed(Woke())
                case ReadOn():
                    raise LookupError("ReadOn without an open stream")

    async def _feed(self, given: Input) -> Command:
        """Take a step and apply its effects; return its command."""
        now = self._now()
        moment = Moment(now, self._random.random(), self._denylist.denies(self._info, now))
        self._state, outputs = machine.step(self._state, given, moment)
        *effects, command = outputs
        for effect in effects:
            if isinstance(effect, ForgetDiscovery):
                self._api.forget_discovery(self._selection.kind.api_version)
            else:
                await self._effects.apply(effect)
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
        self._effects.discovered(self._info)
        return Discovered()

    async def _list(self, command: ListPage) -> Command:
        assert self._info is not None
        self._effects.listed()
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
            await self._share_of_iteration(begins=start == 0)
            await self._feed(self._decoder.items(page.items[start : start + step]))
        return await self._feed(PageEnd(page.resource_version, page.continue_))

    async def _watch(self, command: StartWatch) -> Command:
        """Read one watch to its end; return the next command."""
        assert self._info is not None
        self._effects.watched()
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
                command = await self._feed_events(events, command)
        return command

    async def _feed_events(self, events: Sequence[WatchEvent], command: Command) -> Command:
        """Feed the events of one network read; events after the end of the stream are dropped."""
        step = self._settings.slice_objects
        for start in range(0, len(events), step):
            await self._share_of_iteration(begins=start == 0)
            for given in self._decoder.events(events[start : start + step]):
                command = await self._feed(given)
                if not isinstance(command, ReadOn):
                    return command
        return command

    async def _share_of_iteration(self, *, begins: bool) -> None:
        """Wait until the slice of the informers has time for a piece of work: the first piece of a read, or a further piece."""
        share = self._share
        if not (share.may_begin() if begins else share.may_continue(self._now())):
            await share.wait()

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
            idle_seconds=self._settings.watch_idle,
            metadata_only=selection.metadata_only,
        )


class _Reader:
    """Reads a stream with deadlines that do not end it."""

    def __init__(self, stream: AsyncIterator[list[WatchEvent]]) -> None:
        self._stream = stream
        # The read that outlived its deadline; None otherwise. `anext` is never called while it runs.
        self._reading: asyncio.Task[list[WatchEvent] | None] | None = None

    async def next(self, deadline: float | None) -> list[WatchEvent] | None:
        """Return the events of the next read, None if the deadline passes first; the read then continues."""
        if deadline is None and self._reading is None:
            return await anext(self._stream)
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._read_one())
        left = None if deadline is None else max(0.0, deadline - asyncio.get_running_loop().time())
        done, _ = await asyncio.wait((self._reading,), timeout=left)
        if not done:
            return None
        reading, self._reading = self._reading, None
        events = reading.result()
        if events is None:
            raise StopAsyncIteration
        return events

    async def _read_one(self) -> list[WatchEvent] | None:
        try:
            return await anext(self._stream)
        except StopAsyncIteration:  # a task cannot raise it
            return None

    async def close(self) -> None:
        """End the read and the stream."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait((self._reading,))
            if not self._reading.cancelled():
                self._reading.exception()  # mark the exception as retrieved
        # The garbage collector would close an abandoned generator in a task without an owner.
        if isinstance(self._stream, AsyncGenerator):
            await self._stream.aclose()


class WatchListDenylist:
    """Resources whose streaming lists the server did not honour, each until its entry expires.

    >>> denylist = WatchListDenylist(seconds=3600)
    >>> info = ResourceInfo(api_version="apps/v1", kind="Deployment", plural="deployments", namespaced=True)
    >>> denylist.add(info, now=0.0)
    >>> denylist.denies(info, now=10.0), denylist.denies(info, now=3600.0)
    (True, False)
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        # The end of each entry by group and resource; expired entries stay, at most one per resource.
        self._until: dict[str, float] = {}

    def add(self, info: ResourceInfo, now: float) -> None:
        """Disable streaming lists of this resource for `seconds`."""
        self._until[info.group_resource] = now + self._seconds

    def denies(self, info: ResourceInfo | None, now: float) -> bool:
        """Report whether streaming lists of this resource are disabled at this time."""
        return bool(self._until) and info is not None and now < self._until.get(info.group_resource, now)
