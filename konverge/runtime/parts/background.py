"""Work of a manager that no controller does: it runs while the process leads, and restarts after a failure.

Guarantees: the client is fenced, so no write follows the loss of the lease. The work is cancelled if the lease is lost and when the manager
stops, before the controllers drain; it never runs twice at once. An exception is logged and counts against no controller; the work restarts
after a pause that doubles from one second to a minute.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Sequence
from random import Random
from typing import Any, TypeAlias

import msgspec

from konverge.client import Client
from konverge.errors import NotLeading, UsageError, stack_of
from konverge.keys import Key
from konverge.logs import get_logger
from konverge.metrics import Metrics
from konverge.runtime.events.recorder import EventRecorder
from konverge.runtime.hooks.leadership import Term
from konverge.runtime.observability.readiness import ControllerReport, Report, State
from konverge.runtime.parts.core import Core
from konverge.runtime.parts.part import ManagerPart
from konverge.runtime.reconcile.services import ManagerServices
from konverge.tasks import cancel_and_wait, wait_first
from konverge.words import LogKey

__all__ = ["Background", "BackgroundServices", "BackgroundWork", "background_services", "run_background"]

_LONGEST = 60.0


class BackgroundServices(msgspec.Struct, frozen=True, kw_only=True):
    """The services of background work.

    >>> async def poll(services: BackgroundServices) -> None:
    ...     while True:
    ...         nodes = await services.client.list(kind("v1", "Node"))
    ...         await asyncio.sleep(60)
    """

    client: Client
    """Writes only while the process leads; the client of work on every replica always writes."""
    manager: str
    """The name of the manager."""
    metrics: Metrics
    random: Random
    events: EventRecorder
    enqueue: Callable[[str, Key], None]
    """Enqueues a key of the controller of this name; does nothing while that controller does not run."""


BackgroundWork: TypeAlias = Callable[[BackgroundServices], Coroutine[Any, Any, None]]
"""Runs until it is cancelled; after a return it is called again in the next term."""


async def run_background(name: str, work: BackgroundWork, services: BackgroundServices, term: Term) -> None:
    """Run the work in each term of this process; never returns."""
    log = get_logger("konverge.manager").bind(**{LogKey.NAME: name})
    loop = asyncio.get_running_loop()
    while True:
        await term.begun()
        pause = 1.0
        while term.leads:
            began = loop.time()
            try:
                await wait_first(work(services), term.ended())
                await term.ended()
            except NotLeading:
                await term.ended()
            except Exception as error:  # noqa: BLE001  # containment: the controllers continue
                log.error(
                    "background work failed and begins anew", **{LogKey.STACK: stack_of(error), LogKey.DELAY: pause}
                )
                await wait_first(asyncio.sleep(pause), term.ended())
                pause = 1.0 if loop.time() - began > _LONGEST * 2 else min(pause * 2, _LONGEST)


def _at_the_end(calls: Sequence[Callable[[], None]]) -> BackgroundWork:
    """Return work that does nothing but call these at the end of each term."""

    async def work(_: BackgroundServices) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            for call in calls:
                call()

    return work


def _text_of(note: Callable[[], str]) -> str:
    """Return the text of a note, or the error of a note that raises."""
    try:
        return note()
    except Exception as error:  # noqa: BLE001  # containment: a report needs no working note
        return f"its note raised {type(error).__name__}: {error}"


def background_services(core: Core, services: ManagerServices) -> BackgroundServices:
    """Return the services of background work with the client of these services."""
    return BackgroundServices(
        client=services.client,
        manager=core.name,
        metrics=core.metrics,
        random=core.random,
        events=services.events,
        enqueue=core.enqueue,
    )


class Background(ManagerPart):
    """Runs the background work of a manager while this process leads."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._works: dict[str, BackgroundWork] = {}
        self._everywhere: set[str] = set()
        """The names of the work of each replica."""
        self._notes: dict[str, Callable[[], str]] = {}
        self._tasks: tuple[asyncio.Task[None], ...] = ()
        self.after_leading: list[Callable[[], None]] = []
        """Called at the end of each term."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the background work, in the order of its declaration."""
        return tuple(self._works)

    def add(self, name: str, work: BackgroundWork, note: Callable[[], str] | None, *, elected: bool) -> None:
        """Declare background work, before the start; only the leader does `elected` work."""
        if self._core.started or name in self._works:
            raise UsageError(
                f"background work {name!r}: give each work a name of its own, before the manager is started"
            )
        self._works[name] = work
        if elected:
            self._core.has_background = True
        else:
            self._everywhere.add(name)
        if note is not None:
            self._notes[name] = note

    def remove(self, name: str) -> bool:
        """Forget background work that has not started; returns whether there was any of this name."""
        if self._core.started or self._works.pop(name, None) is None:
            return False
        self._notes.pop(name, None)
        self._core.has_background = bool(self._works.keys() - self._everywhere)
        return True

    async def start(self) -> None:
        """Start the work, which waits for the first term."""
        core = self._core
        assert core.services is not None
        assert core.unfenced is not None
        works = [*self._works.items()]
        if self.after_leading:
            works.append(("after leading", _at_the_end(self.after_leading)))
        self._tasks = tuple(
            self._task(name, work, core.unfenced if name in self._everywhere else core.services) for name, work in works
        )

    def _task(self, name: str, work: BackgroundWork, services: ManagerServices) -> asyncio.Task[None]:
        running = run_background(name, work, background_services(self._core, services), services.term)
        return asyncio.create_task(running, name=f"konverge background {name}")

    def tasks(self) -> Collection[asyncio.Task[None]]:
        """Return the tasks of the work."""
        return self._tasks

    async def drain(self) -> None:
        """Cancel the work, and wait for its end."""
        await cancel_and_wait(*self._tasks)

    def report(self) -> Report:
        """Return the notes of the work; they never affect readiness."""
        notes = self._notes.items()
        return Report(
            (),
            background=tuple(ControllerReport(name, State.RUNNING, note=_text_of(note)) for name, note in notes),
        )
