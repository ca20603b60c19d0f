"""Concurrent writes of one reconcile, at most as many at once as the settings allow; and long computations in slices."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterable
from typing import TypeVar

__all__ = ["finished", "for_each", "in_slices"]

T = TypeVar("T")


async def for_each(items: Iterable[T], write: Callable[[T], Awaitable[None]], parallel: int) -> None:
    """Write all items, so many at once, and wait for all of them; an error of one cancels the others."""
    left = iter(items)

    async def write_items(first: T) -> None:
        await write(first)
        for item in left:
            await write(item)

    async with asyncio.TaskGroup() as tasks:
        for _, item in zip(range(parallel), left, strict=False):
            tasks.create_task(write_items(item))


def finished(steps: Generator[None, None, T]) -> T:
    """Run a computation to its end in one turn of the event loop."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


async def in_slices(steps: Generator[None, None, T]) -> T:
    """Run a computation, and let other work run whenever it yields."""

    def noted() -> Generator[None, None, None]:
        results.append((yield from steps))

    results: list[T] = []
    for _ in noted():
        await asyncio.sleep(0)
    return results[0]
