"""The wait for a state of an object: the object is read again and again, with longer and longer pauses.

Guarantees: at each moment of `next_look` the test gets the object as stored at that moment. In memory a read is sent only if something was
stored since the last read, or if a fault may meet the read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from konverge.kinds import Resource

if TYPE_CHECKING:
    from konverge_testing.memory_server import ApiServer

__all__ = ["Polling", "next_look"]

R = TypeVar("R", bound=Resource)

_LEAST: Final = 0.02
_PART: Final = 50
"""A pause lasts for this part of the wait so far."""


def next_look(began: float, now: float) -> float:
    """Return the moment of the next look of a wait.

    >>> next_look(100.0, 100.0), next_look(100.0, 200.0)
    (100.02, 202.0)
    """
    return now + max(_LEAST, (now - began) / _PART)


class Polling(Generic[R]):
    """One wait. `find` reads the object, `test` is called with the object, or with None if there is none.

    `server` is the in-memory API server, None for another server; `agent` is the User-Agent of the reads.
    """

    def __init__(
        self,
        find: Callable[[], Awaitable[R | None]],
        test: Callable[[R | None], bool],
        server: ApiServer | None,
        agent: str,
    ) -> None:
        self.last: R | None = None
        """The object at the last read."""
        self._find = find
        self._test = test
        self._server = server
        self._agent = agent
        self._version: int | None = None
        self._timer: asyncio.TimerHandle

    async def wait(self) -> None:
        """Return as soon as the object passes the test."""
        began = asyncio.get_running_loop().time()
        while True:
            version = self._stored()
            self.last = await self._find()
            if self._test(self.last):
                return
            self._version = version
            if await self._passes_unread(began):
                return

    def _stored(self) -> int | None:
        """Return the version of the store; None if a read is necessary at any version."""
        if self._server is None or self._server.faults.concern(self._agent):
            return None
        return self._server.store.version

    async def _passes_unread(self, began: float) -> bool:
        """Wait until the object has to be read again; returns True if it passes the test before."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[bool] = loop.create_future()

        def look() -> None:
            if ended.done():  # cancelled at this very moment
                return
            version = self._stored()
            if version is None or version != self._version:
                ended.set_result(False)
                return
            try:
                if self._test(self.last):
                    ended.set_result(True)
                    return
            except Exception as error:  # noqa: BLE001  # the waiting task raises it
                ended.set_exception(error)
                return
            self._timer = loop.call_at(next_look(began, loop.time()), look)

        self._timer = loop.call_at(next_look(began, loop.time()), look)
        try:
            return await ended
        finally:
            self._timer.cancel()
