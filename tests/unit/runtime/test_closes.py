"""The functions that a manager calls at its end, and background work that is removed before the start."""

import asyncio
from random import Random
from typing import Any

import pytest
from widgets import CONFIG_MAP, By

import konverge as kv
from konverge.errors import UsageError
from konverge.runtime import Manager
from konverge_testing import ApiServer


async def test_shared_resources_are_declared_before_start_and_closed_after_reconciles() -> None:
    notes: list[str] = []

    async def slow(_object: Any, _ctx: kv.Context[Any]) -> kv.Outcome:
        await asyncio.sleep(3)
        notes.append("reconciled")
        return kv.Done()

    async def close() -> None:
        notes.append("closed")

    async with ApiServer(random=Random(1)) as server:
        manager = Manager("m", server.config(), random=Random(2))
        manager.add(kv.Controller.of(CONFIG_MAP).reconciled_by(By(slow)))
        manager.closes(close)
        async with manager:
            await manager.client.create(CONFIG_MAP.new("one", "default"))
            await asyncio.sleep(1)
            with pytest.raises(UsageError, match="started already"):
                manager.closes(close)
        assert notes == ["reconciled", "closed"]


async def test_background_work_that_was_removed_before_the_start_does_not_run() -> None:
    ran: list[str] = []

    async def work(_services: Any) -> None:
        ran.append("work")

    async with ApiServer(random=Random(1)) as server:
        manager = Manager("m", server.config(), random=Random(2))
        manager.run_while_leading("work", work)
        names = [manager.background]
        await manager.remove("work")
        names.append(manager.background)
        assert names == [("work",), ()]
        async with manager:
            await asyncio.sleep(5)
            with pytest.raises(LookupError):
                await manager.remove("work")
    assert ran == []
