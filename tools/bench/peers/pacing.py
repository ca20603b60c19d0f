"""Load at a fixed rate, which slow responses never reduce."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

UNANSWERED_SECONDS = 10.0
"""Seconds' worth of calls without a response after which the load ends: the server itself is overloaded then."""


@dataclass(frozen=True, slots=True)
class Paced:
    """The outcome: calls begun, the delay of the last call, the duration of all calls (seconds), and whether the load was cut short."""

    begun: int
    late: float
    lasted: float
    cut: bool

    @property
    def achieved(self) -> float:
        """Calls a second, by their responses."""
        return self.begun / self.lasted


async def at_rate(act: Callable[[int], Awaitable[None]], total: int, rate: float) -> Paced:
    """Begin `total` calls at a fixed rate without waiting for their ends, and then wait for these.

    Ends early, and cancels open calls, once `UNANSWERED_SECONDS` of the rate have no response. Raises what a call raised.
    """
    loop = asyncio.get_running_loop()
    began, late, cut = loop.time(), 0.0, False
    tasks: list[asyncio.Future[None]] = []
    waiting: set[asyncio.Future[None]] = set()
    for number in range(total):
        await asyncio.sleep(began + number / rate - loop.time())
        if cut := len(waiting) >= rate * UNANSWERED_SECONDS:
            break
        late = max(0.0, loop.time() - began - number / rate)
        task: asyncio.Future[None] = asyncio.ensure_future(act(number))
        waiting.add(task)
        task.add_done_callback(waiting.discard)
        tasks.append(task)
    if cut:
        for task in waiting:
            task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=cut)
    for outcome in ended:
        if isinstance(outcome, Exception):
            raise outcome
    return Paced(len(tasks), late, loop.time() - began, cut)
