"""Work of a manager outside of controllers: when it runs, ends and restarts."""

import asyncio
from random import Random

import pytest
from scripted_leadership import ScriptedLeadership

from konverge.errors import NotLeading, UsageError
from konverge.kinds import kind
from konverge.runtime import Manager
from konverge.runtime.http.health import checks_of
from konverge.runtime.parts.background import BackgroundServices
from konverge_testing import ApiServer

CONFIG_MAP = kind("v1", "ConfigMap", namespaced=True, plural="configmaps")


class Work:
    """Records when it begins and ends; fails at its first `failures` calls."""

    def __init__(self, failures: int = 0) -> None:
        self.notes: list[str] = []
        self.began: list[float] = []
        self.services: BackgroundServices
        self._failures = failures

    async def __call__(self, services: BackgroundServices) -> None:
        self.services = services
        self.notes.append("begins")
        self.began.append(asyncio.get_running_loop().time())
        try:
            if len(self.began) <= self._failures:
                raise RuntimeError("broken")
            await asyncio.get_running_loop().create_future()
        finally:
            self.notes.append("ends")


async def test_it_runs_while_the_process_leads_and_writes_nothing_afterwards() -> None:
    leadership, work = ScriptedLeadership(leads=False), Work()
    async with ApiServer(random=Random(1)) as server:
        manager = Manager("m", server.config(), random=Random(2), leadership=leadership)
        manager.run_while_leading("work", work)
        async with manager:
            await asyncio.sleep(5)
            assert work.notes == []
            leadership.win()
            await asyncio.sleep(1)
            assert work.notes == ["begins"]
            await work.services.client.create(CONFIG_MAP.new("mine", "default"))
            leadership.lose()
            await asyncio.sleep(1)
            assert work.notes == ["begins", "ends"]
            with pytest.raises(NotLeading):
                await work.services.client.create(CONFIG_MAP.new("late", "default"))
            leadership.win()
            await asyncio.sleep(1)
            assert work.notes == ["begins", "ends", "begins"]
        assert work.notes == ["begins", "ends"] * 2


async def test_callback_after_leading_runs_at_the_end_of_terms_and_manager() -> None:
    leadership, calls = ScriptedLeadership(leads=False), list[float]()
    async with ApiServer(random=Random(1)) as server:
        manager = Manager("m", server.config(), random=Random(2), leadership=leadership)
        manager.after_leading(lambda: calls.append(asyncio.get_running_loop().time()))
        async with manager:
            with pytest.raises(UsageError, match="started already"):
                manager.after_leading(calls.clear)
            await asyncio.sleep(5)
            assert calls == [], "it has not led yet"
            for turns in (1, 2):
                leadership.win()
                await asyncio.sleep(1)
                assert len(calls) == turns - 1
                leadership.lose()
                await asyncio.sleep(1)
                assert len(calls) == turns
            leadership.win()
            await asyncio.sleep(1)
        assert len(calls) == 3
        assert manager.background == (), "it is none, and by itself no reason for an election"


async def test_work_that_fails_begins_again_after_pauses_that_double() -> None:
    work = Work(failures=3)
    async with ApiServer(random=Random(1)) as server:
        manager = Manager("m", server.config(), random=Random(2))
        manager.run_while_leading("work", work)
        async with manager:
            await asyncio.sleep(60)
    assert [round(after - before) for before, after in zip(work.began, work.began[1:], strict=False)] == [1, 2, 4]


async def test_background_work_needs_a_unique_name_before_the_start() -> None:
    async with ApiServer(random=Random(1)) as server:
        manager = Manager("m", server.config(), random=Random(2))
        manager.run_while_leading("work", Work())
        with pytest.raises(UsageError, match="a name of its own"):
            manager.run_while_leading("work", Work())
        async with manager:
            with pytest.raises(UsageError, match="before the manager is started"):
                manager.run_while_leading("more", Work())


async def test_note_of_background_work_is_shown_and_never_affects_readiness() -> None:
    said = ""

    def broken() -> str:
        raise LookupError("no note")

    async with ApiServer(random=Random(1)) as server:
        manager = Manager("m", server.config(), random=Random(2))
        manager.run_while_leading("silent", Work())
        manager.run_while_leading("shards", Work(), note=lambda: said)
        manager.run_while_leading("broken", Work(), note=broken)
        async with manager:
            await manager.wait_ready()
            names = ["background/shards", "background/broken"]
            checks = [one for one in checks_of(manager.report()) if one.name.startswith("background/")]
            assert [one.name for one in checks] == names, "work without a note has no line"
            assert checks[0].line() == "[+]background/shards ok"
            said = "shard b does not answer"
            report = manager.report()
            checks = [one for one in checks_of(report) if one.name in names]
            assert [one.line() for one in checks] == [
                "[+]background/shards ok (shard b does not answer)",
                "[+]background/broken ok (its note raised LookupError: no note)",
            ]
            assert report.ready
            assert "shards: shard b does not answer" in str(report)
