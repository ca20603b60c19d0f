"""Writes Kubernetes Events (events.k8s.io/v1) from a task of its own.

Guarantees: `record` returns at once and never raises; a slow, refusing or absent API server costs events and nothing else. Failures
are counted by cause (`konverge_events_dropped_total`), and failures that an operator can fix are logged once. Leaving writes the
queue, for a bounded time, and leaves no task behind.

Caveats: neither delivery nor an order between events of different objects is guaranteed. Not for use from another thread than the
loop's.

`konverge.runtime.events.core` decides (send, count, drop).
"""

from __future__ import annotations

import asyncio
import contextlib
import random as randomness
import re
from collections.abc import Awaitable, Mapping
from typing import Any, Final, Literal, Protocol, Self

from konverge.client import namespace_is_ending
from konverge.clock import WallClock, wall_clock
from konverge.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    KonvergeError,
    NotFound,
    ServerFailure,
    TooManyRequests,
    Unauthorized,
    Unreachable,
    UsageError,
)
from konverge.kinds import Kind, kind
from konverge.logs import get_logger
from konverge.metrics import Metrics
from konverge.objects import Object
from konverge.rbac import Rule
from konverge.runtime.events.core import (
    WORD_BYTES,
    DropReason,
    EventCore,
    EventEntry,
    EventSettings,
    EventVerb,
    EventWrite,
    Identity,
    NextStep,
    Regarding,
    WriteResult,
    cut,
)
from konverge.tasks import Deadline, Deadlines, Signal
from konverge.words import EventType, LogKey

__all__ = ["EVENT", "EVENT_RULE", "EventRecorder", "EventSettings", "EventSink", "Regarding"]

EVENT: Final[Kind[Object]] = kind("events.k8s.io/v1", "Event", namespaced=True, plural="events")
EVENT_RULE: Final = Rule("events.k8s.io", ("events",), ("create", "patch"))

# validation.IsQualifiedName of apimachinery: an optional DNS prefix, a slash, a name of at most 63 characters.
_CONTROLLER = re.compile(r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$")


class EventSink(Protocol):
    """The two calls of a client that events need."""

    def create(self, obj: Object, /) -> Awaitable[object]:
        """Create an Event."""

    def patch(
        self, kind: Kind[Object], name: str, namespace: str, /, *, patch: Mapping[str, Any], style: Literal["merge"]
    ) -> Awaitable[object]:
        """Patch the series of an Event."""


def result_of_error(error: BaseException, verb: EventVerb) -> WriteResult | str:
    """Return the meaning of an error for a write: a result for `settle`, or the cause of the event's drop."""
    match error:
        case NotFound() if verb is EventVerb.PATCH:
            return WriteResult.MISSING
        case AlreadyExists():
            return WriteResult.EXISTS
        case Forbidden() if namespace_is_ending(error):
            return DropReason.NAMESPACE_ENDING
        case NotFound():
            return DropReason.NAMESPACE_ENDING  # of a creation: the namespace was deleted
        case Forbidden():
            return DropReason.FORBIDDEN
        case Unreachable() | TooManyRequests() | ServerFailure() | Unauthorized() | Conflict() | TimeoutError():
            return WriteResult.FAILED
        case ApiError() | KonvergeError():
            return DropReason.REFUSED
        case _:
            return DropReason.FAILED


class EventRecorder:
    """Records events of one reporting controller. Constructing it starts nothing; `async with` runs its task.

        async with EventRecorder(client, controller="backup-operator", instance="pod-7", metrics=metrics) as recorder:
            recorder.record(Regarding.of(backup), "Scheduled", "copies are made by nightly")

    `controller` and `instance` are every event's reportingController and reportingInstance; raises UsageError for a controller name
    that is not a qualified name. Before the block and after it, events are dropped and counted.
    """

    def __init__(
        self,
        client: EventSink,
        *,
        controller: str,
        instance: str,
        metrics: Metrics,
        settings: EventSettings | None = None,
        clock: WallClock = wall_clock,
        random: randomness.Random | None = None,
    ) -> None:
        if not _CONTROLLER.match(controller):
            raise UsageError(
                f"events cannot be reported by {controller!r}: use letters, digits, dashes, dots, at most 63, "
                "with an optional domain before a slash"
            )
        if not instance:
            raise UsageError("events need the name of the reporting instance, for instance that of the pod")
        self._client = client
        self._controller = controller
        self._instance = cut(instance, WORD_BYTES)
        self._dropped = metrics.events_dropped
        self._settings = settings or EventSettings()
        self._clock = clock
        self._random = random or randomness.Random()  # noqa: S311  # jitter, no secret
        self._core = EventCore(self._settings)
        self._log = get_logger("konverge.runtime")
        self._reported: set[str] = set()
        self._task: asyncio.Task[None] | None = None
        self._news = Signal()
        self._closing = asyncio.Event()
        self._deadlines = Deadlines()

    # --- recording ----------------------------------------------------------------------------------------------------------

    def record(
        self,
        regarding: Regarding,
        reason: str,
        note: str,
        type_: str = EventType.NORMAL,
        action: str = "Reconcile",
        *,
        related: Regarding | None = None,
    ) -> None:
        """Record one event about an object; returns at once and never raises. Words that are too long are cut."""
        try:
            reason, action = cut(reason, WORD_BYTES), cut(action, WORD_BYTES)
            identity = Identity(type_, action, reason, self._controller, self._instance, regarding, related)
            self._take_in(identity, note)
        except Exception as error:  # noqa: BLE001  # an event is never worth a failed reconcile
            self._drop(DropReason.FAILED, error=error)

    def _take_in(self, identity: Identity, note: str) -> None:
        if self._task is None or self._closing.is_set():
            self._drop(DropReason.STOPPED)
            return
        problem = identity.problem()
        if problem:
            self._drop(DropReason.INVALID, problem=problem)
            return
        cause = self._core.record(identity, note, self._now(), self._clock())
        if cause:
            self._drop(cause)
        self._news.set()

    def _drop(self, cause: str, *, problem: str = "", error: BaseException | None = None) -> None:
        self._dropped.labels(cause=cause).inc()
        # A terminating namespace and a stopped recorder are normal, and throttling is the bucket's purpose.
        if cause in {DropReason.NAMESPACE_ENDING, DropReason.STOPPED, DropReason.THROTTLED} or cause in self._reported:
            return
        self._reported.add(cause)
        details: dict[str, Any] = {LogKey.CAUSE: cause}
        if problem or error is not None:
            details[LogKey.ERROR] = problem or (str(error) if isinstance(error, KonvergeError) else repr(error))
        if cause == DropReason.FORBIDDEN:
            details[LogKey.RULE] = EVENT_RULE.to_dict()
        self._log.warning("events are dropped; said once for each cause, then only counted", **details)

    # --- life ---------------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self._task is not None:
            raise UsageError("an EventRecorder runs once; make another one")
        loop = asyncio.get_running_loop()
        self._now = loop.time
        self._task = loop.create_task(self._run(), name=f"konverge events {self._controller}")
        return self

    async def __aexit__(self, *_: object) -> None:
        """Write the queue, counts included, for at most `settings.drain` seconds; then drop the rest."""
        task = self._task
        assert task is not None
        self._core.finish()
        self._closing.set()
        self._news.set()
        try:
            # A wait that times out, or is cancelled, leaves the task to be ended below.
            await asyncio.wait({task}, timeout=self._settings.drain)
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            for _left in iter(self._core.take, None):
                self._drop(DropReason.STOPPED)

    async def _run(self) -> None:
        while True:
            self._core.due(self._now())
            entry = self._core.take()
            if entry is not None:
                await self._deliver(entry)
            elif self._closing.is_set():
                return
            else:
                await self._wait(self._core.next_at())

    async def _wait(self, until: float | None) -> None:
        try:
            with Deadline(self._deadlines, until):
                await self._news.wait()
        except TimeoutError:
            await asyncio.sleep(0)  # an event of this very moment belongs to the count that is due

    # --- sending ------------------------------------------------------------------------------------------------------------

    async def _deliver(self, entry: EventEntry) -> None:
        """Send an entry until it is stored, refused or given up. Other entries wait for it: an outage concerns them all."""
        cause: str = DropReason.STOPPED
        error: BaseException | None = None
        try:
            for attempt in range(self._settings.tries):
                write = entry.write()
                answer, error = await self._send(write)
                if isinstance(answer, str):
                    cause = answer
                    return
                step = self._core.settle(entry, write, answer, self._clock(), self._now())
                if step is NextStep.DONE:
                    cause = ""
                    return
                last = attempt + 1 == self._settings.tries
                if step is NextStep.LATER and not last and await self._closed_during(self._pause()):
                    return
            cause = DropReason.GAVE_UP
        finally:
            if cause:
                self._core.drop(entry)
                self._drop(cause, error=error)

    async def _send(self, write: EventWrite) -> tuple[WriteResult | str, BaseException | None]:
        try:
            if write.verb is EventVerb.CREATE:
                await self._client.create(EVENT.decode(dict(write.body)))
            else:
                await self._client.patch(EVENT, write.name, write.namespace, patch=write.body, style="merge")
        except Exception as error:  # noqa: BLE001  # any exception concerns only this event
            return result_of_error(error, write.verb), error
        return WriteResult.STORED, None

    async def _closed_during(self, seconds: float) -> bool:
        """Wait before the next try; True at once if the recorder is being closed."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closing.wait()
        return self._closing.is_set()

    def _pause(self) -> float:
        settings = self._settings
        return settings.retry_delay * self._random.uniform(1 - settings.jitter, 1 + settings.jitter)
