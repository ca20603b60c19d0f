"""The life of a manager: one task that runs it, started, awaited and stopped from any other task.

Guarantees: `start` and `stop` may be called from different tasks. A start that is cancelled leaves nothing behind. If the task fails,
`async with` cancels its block and raises the error, and `wait` raises it.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from konverge.errors import UsageError
from konverge.tasks import wait_first

__all__ = ["Supervised"]


class Supervised:
    """Runs `_supervise` in a task of its own, once, and calls `ended` at the end of the task."""

    name: str

    def __init__(self, ended: Callable[[], None]) -> None:
        self._ended = ended
        self._supervisor: asyncio.Task[None] | None = None
        self._started = asyncio.Event()
        self._stopping = asyncio.Event()
        self._host: asyncio.Task[Any] | None = None
        self._woke_host = False

    @abstractmethod
    async def _supervise(self) -> None:
        """Open, set `_started`, work until `_stopping` is set, and close."""

    async def start(self) -> None:
        """Start; returns when client, informers and controllers have been started, not when they are ready (`ready`).

        A start that is cancelled leaves nothing behind.
        Raises ConfigError without a configuration, UsageError if it runs already.
        """
        if self._supervisor is not None:
            raise UsageError(f"manager {self.name!r} was started already; make a new one")
        self._supervisor = asyncio.create_task(self._supervise(), name=f"konverge manager {self.name}")
        self._supervisor.add_done_callback(lambda _: self._ended())
        try:
            await wait_first(self._supervisor, self._started.wait())
        except asyncio.CancelledError:
            self._supervisor.cancel()
            await asyncio.wait({self._supervisor})
            raise

    async def stop(self) -> None:
        """Drain and stop; returns when nothing is left. Harmless when called twice, or before the start."""
        self._stopping.set()
        if self._supervisor is not None:
            await asyncio.wait({self._supervisor})

    async def wait(self) -> None:
        """Wait until the manager has ended; raises the fatal error that ended it."""
        if self._supervisor is None:
            raise UsageError(f"manager {self.name!r} was not started")
        await asyncio.shield(self._supervisor)

    @property
    def _running(self) -> bool:
        return self._supervisor is not None and not self._supervisor.done()

    async def __aenter__(self) -> Self:
        await self.start()
        self._host = asyncio.current_task()
        assert self._supervisor is not None
        self._supervisor.add_done_callback(self._wake_host)
        return self

    def _wake_host(self, supervisor: asyncio.Task[None]) -> None:
        if self._host is not None and not supervisor.cancelled() and supervisor.exception() is not None:
            self._woke_host = True
            self._host.cancel(f"manager {self.name} failed")

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        host, self._host = self._host, None
        await self.stop()
        assert self._supervisor is not None
        fatal = None if self._supervisor.cancelled() else self._supervisor.exception()
        if fatal is None:
            return
        if self._woke_host and host is not None:
            host.uncancel()  # this cancellation was ours; the cancellation of another task continues
            if error is None or isinstance(error, asyncio.CancelledError):
                raise fatal
        elif error is None:
            raise fatal
