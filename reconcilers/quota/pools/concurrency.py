"""Concurrent writes of one reconcile, at most as many at once as the settings allow."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

__all__ = ["for_each"]

T = TypeVar("T")


async def for_each(items: Iterable[T], write: Callable[[T], Awaitable[None]], slots: asyncio.Semaphore) -> None:
    """Write all items, each in one of these slots, and wait for all of them; an error of one cancels the others."""

    async def write_in_slot(item: T) -> None:
        async with slots:
            await write(item)

    async with asyncio.TaskGroup() as tasks:
        for item in items:
            tasks.create_task(write_in_slot(item))
