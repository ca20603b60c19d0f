"""How long the daemon holds the event loop: the CPU time of each step of its tasks, without the work of the in-memory API server.

CPU time of the thread, and not real time: other processes on the machine do not count. The steps of the test and of the stand-ins do not
count either: the tasks of the daemon inherit `OF_DAEMON` from the context that started it.
"""

import asyncio
import time
from collections.abc import Generator
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Self

from konverge_testing import ApiServer

OF_DAEMON: ContextVar[bool] = ContextVar("of_daemon", default=False)
"""Whether a callback is the daemon's."""


class LoopMeter:
    """Measures every callback of the loop while it is entered; `longest` is the longest step, and `where` its callback."""

    def __init__(self, server: ApiServer) -> None:
        self.longest = 0.0
        self.where = ""
        self._server = server
        self._handle = server.handle
        self._run = asyncio.Handle._run
        self._excluded = 0.0

    def __enter__(self) -> Self:
        meter, run = self, self._run

        def measured(handle: asyncio.Handle) -> None:
            excluded, began = meter._excluded, time.thread_time()
            run(handle)
            taken = time.thread_time() - began - (meter._excluded - excluded)
            if taken > meter.longest and handle._context.get(OF_DAEMON, False):  # type: ignore[attr-defined]  # of asyncio
                meter.longest, meter.where = taken, repr(handle)

        asyncio.Handle._run = measured  # type: ignore[method-assign,assignment]  # a method of every callback
        self._server.handle = self._metered  # type: ignore[method-assign]  # the work of the server is not the daemon's
        return self

    def __exit__(
        self, kind_: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.Handle._run = self._run  # type: ignore[method-assign]  # as it was
        self._server.handle = self._handle  # type: ignore[method-assign]  # as it was

    def reset(self) -> None:
        """Forget the steps so far."""
        self.longest, self.where = 0.0, ""

    async def _metered(self, call: Any) -> Any:
        return await _Metered(self, self._handle(call))


class _Metered:
    """A coroutine of the server, whose steps are not the daemon's."""

    def __init__(self, meter: LoopMeter, work: Any) -> None:
        self._meter = meter
        self._work = work

    def __await__(self) -> Generator[Any, Any, Any]:
        work, value, error = self._work, None, None
        while True:
            began = time.thread_time()
            try:
                waited = work.send(value) if error is None else work.throw(error)
            except StopIteration as end:
                return end.value
            finally:
                self._meter._excluded += time.thread_time() - began
            error = None
            try:
                value = yield waited
            except BaseException as raised:  # handed on to the server's coroutine
                value, error = None, raised
