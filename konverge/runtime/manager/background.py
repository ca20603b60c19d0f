"""Work of a manager that no controller does: it runs while the process leads, and is begun anew when it fails.

Guarantees: the client is fenced, so nothing is written after the lease was lost. The work is cancelled if the lease is lost and when the
manager stops, before the controllers drain; it is never run twice at once. An exception is logged and counted against no controller; the
work begins again after a pause that doubles from one second to a minute.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, TypeAlias

from konverge.client import Client
from konverge.errors import NotLeading, stack_of
from konverge.keys import Key
from konverge.logs import get_logger
from konverge.metrics import Metrics
from konverge.runtime.election.leadership import Turn
from konverge.runtime.events.recorder import EventRecorder
from konverge.tasks import wait_first
from konverge.words import LogKey

__all__ = ["BackgroundServices", "BackgroundWork", "at_the_end", "run_background", "text_of"]

_LONGEST = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundServices:
    """The services of background work."""

    client: Client
    """Fenced: it writes only while the process leads."""
    manager: str
    """The name of the manager."""
    metrics: Metrics
    random: Random
    events: EventRecorder
    enqueue: Callable[[str, Key], None]
    """Enqueues a key of the controller of this name; does nothing while that controller does not run."""


BackgroundWork: TypeAlias = Callable[[BackgroundServices], Coroutine[Any, Any, None]]
"""Runs until it is cancelled; if it returns, it is not called again until the process leads once more."""


async def run_background(name: str, work: BackgroundWork, services: BackgroundServices, turn: Turn) -> None:
    """Run the work in each turn of leading; never returns."""
    log = get_logger("konverge.manager").bind(**{LogKey.NAME: name})
    loop = asyncio.get_running_loop()
    while True:
        await turn.begun()
        pause = 1.0
        while turn.leads:
            began = loop.time()
            try:
                await wait_first(work(services), turn.ended())
                await turn.ended()
            except NotLeading:
                await turn.ended()
            except Exception as error:  # noqa: BLE001  # containment: the controllers go on
                log.error(
                    "background work failed and begins anew", **{LogKey.STACK: stack_of(error), LogKey.DELAY: pause}
                )
                await wait_first(asyncio.sleep(pause), turn.ended())
                pause = 1.0 if loop.time() - began > _LONGEST * 2 else min(pause * 2, _LONGEST)


def at_the_end(calls: Sequence[Callable[[], None]]) -> BackgroundWork:
    """Return work that does nothing but call these at the end of each turn."""

    async def work(_: BackgroundServices) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            for call in calls:
                call()

    return work


def text_of(note: Callable[[], str]) -> str:
    """Return the text of a note; one that raises gives its error as text, so that it hides no other note."""
    try:
        return note()
    except Exception as error:  # noqa: BLE001  # containment: a report must be made whatever its sources do
        return f"its note raised {type(error).__name__}: {error}"
