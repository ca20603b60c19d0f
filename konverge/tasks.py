"""Waiting for several things at once, and for changes, without polling. The ground floor; knows nothing of Kubernetes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeAlias

__all__ = ["Broadcast", "Signal", "Wait", "cancel_and_wait", "wait_first"]

Wait: TypeAlias = Coroutine[Any, Any, Any] | asyncio.Future[Any]
"""A coroutine, which `wait_first` owns, or a task or future, which belongs to the caller."""


async def wait_first(*waits: Wait) -> None:
    """Return once one of these waits has ended, and raise its error if it failed.

    Guarantees: coroutines that have not ended are cancelled and awaited, also if the caller is cancelled; tasks and futures of the caller
    go on. If several have ended at that moment, the first failure in the order of the arguments is raised, and the failures of other
    coroutines are dropped. If the caller is cancelled, all failures are dropped.

    >>> async def example() -> None:
    ...     stop = asyncio.Event()
    ...     stop.set()
    ...     await wait_first(asyncio.sleep(3600), stop.wait())
    >>> asyncio.run(example())
    """
    own: dict[asyncio.Future[Any], bool] = {}
    for wait in waits:
        own[asyncio.ensure_future(wait)] = not isinstance(wait, asyncio.Future)
    cancelled: set[asyncio.Future[Any]] = set()
    try:
        await asyncio.wait(own, return_when=asyncio.FIRST_COMPLETED)
    finally:
        cancelled = {task for task, ours in own.items() if ours and not task.done()}
        for task in cancelled:
            task.cancel()
        if cancelled:
            await asyncio.wait(cancelled)
        for task, ours in own.items():
            if ours and task.done() and not task.cancelled():
                task.exception()  # read, so that asyncio does not warn about a dropped exception
    for task in own:
        if task.done() and not (task in cancelled and task.cancelled()):
            task.result()


async def cancel_and_wait(*tasks: asyncio.Task[Any]) -> None:
    """Cancel these tasks, and wait for their end; their errors are dropped."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)


class Signal:
    """Wakes the one task that waits for it; a `set` before the `wait` is kept, several are one.

    An `asyncio.Event` that its only waiter clears, at a third of the calls: each change of a cache passes through one.
    """

    __slots__ = ("_is_set", "_waiter")

    def __init__(self) -> None:
        self._is_set = False
        self._waiter: asyncio.Future[None] | None = None

    def set(self) -> None:
        """Wake the waiting task, or the next that waits; never blocks."""
        self._is_set = True
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def wait(self) -> None:
        """Return once `set` was called since the last return."""
        if not self._is_set:
            waiter = self._waiter = asyncio.get_running_loop().create_future()
            await waiter
        self._is_set = False


class Broadcast:
    """Wakes every task that waits at the moment of `notify`; a later `wait` waits for the next `notify`.

    A task that checks a condition and calls `wait` without an `await` in between misses no change.
    """

    __slots__ = ("_next",)

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def notify(self) -> None:
        """Wake all that wait; never blocks."""
        self._next.set()
        self._next = asyncio.Event()

    async def wait(self) -> None:
        """Return at the next `notify`."""
        await self._next.wait()
