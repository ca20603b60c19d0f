"""A benchmark in virtual time: its loop, which may use more CPU time than any test, and its calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Final

from konverge_testing.loop import VirtualTimeLoop

__all__ = ["in_batches", "take_off_bounds"]

_AT_ONCE: Final = 50


def take_off_bounds() -> None:
    """Take off the bounds on CPU and real time that a lab sets for tests."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    loop.no_limit()


async def in_batches(calls: Iterable[Awaitable[object]]) -> None:
    """Make calls, fifty at once."""
    batch: list[Awaitable[object]] = []
    for call in calls:
        batch.append(call)
        if len(batch) == _AT_ONCE:
            await asyncio.gather(*batch)
            batch.clear()
            await asyncio.sleep(0.01)  # a moment of virtual time has a bound of turns
    await asyncio.gather(*batch)
