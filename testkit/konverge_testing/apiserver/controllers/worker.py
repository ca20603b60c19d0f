"""The worker of a built-in controller: a queue of keys, one task, a retry after a concurrent write."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from konverge_testing.apiserver.statuses import StatusError

__all__ = ["Worker"]

K = TypeVar("K")

_RETRY: Final = 0.05


class Worker(Generic[K]):
    """Processes keys one after the other; a key that is added during its processing is processed once more.

    A StatusError is retried after a moment, since others write too; any other exception ends the worker and is kept in `failed`, which
    the server raises at its end.
    """

    def __init__(self, name: str, work: Callable[[K], Awaitable[None]]) -> None:
        self.name = name
        self.failed: BaseException | None = None
        self._work = work
        self._keys: dict[K, None] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._timers: set[asyncio.TimerHandle] = set()

    def add(self, key: K) -> None:
        """Queue a key."""
        self._keys[key] = None
        self._wake.set()

    def add_after(self, key: K, seconds: float) -> None:
        """Queue a key later."""

        def due() -> None:
            self._timers.discard(timer)
            self.add(key)

        timer = asyncio.get_running_loop().call_later(seconds, due)
        self._timers.add(timer)

    @property
    def idle(self) -> bool:
        """Whether no key is queued or being processed; a key with a pending retry counts as queued."""
        return not self._keys and not self._wake.is_set() and not self._timers

    def start(self) -> None:
        """Start the worker's task."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"apiserver {self.name}")

    async def stop(self) -> None:
        """Stop the worker's task."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            while self._keys:
                key = next(iter(self._keys))
                del self._keys[key]
                try:
                    await self._work(key)
                except StatusError:
                    self.add_after(key, _RETRY)
                except Exception as error:
                    self.failed = error
                    raise
            self._wake.clear()
