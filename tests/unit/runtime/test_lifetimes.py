"""The parts of a program beside its controllers: held values, hooks, work on each replica, checks, and caches outside of reconcilers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from random import Random
from typing import Any

import pytest
from scripted_leadership import ScriptedLeadership
from widgets import CONFIG_MAP, SECRET, By, Widget, widget

import konverge as kv
from konverge.errors import CacheNotWatched, UsageError
from konverge.runtime.http.health import checks_of
from konverge.runtime.parts.background import BackgroundServices
from konverge_testing import ApiServer, Lab


def holder(notes: list[str], name: str) -> Callable[[], AbstractAsyncContextManager[str]]:
    @asynccontextmanager
    async def enter() -> AsyncIterator[str]:
        notes.append(f"enter {name}")
        yield name
        notes.append(f"leave {name}")

    return enter


def hook(notes: list[str], name: str, error: str = "") -> Callable[[kv.Manager], Awaitable[None]]:
    async def run(manager: kv.Manager) -> None:
        await manager.client.list(CONFIG_MAP, "default")
        notes.append(name)
        if error:
            raise RuntimeError(error)

    return run


async def leave(_: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    ctx.status.skip_write()
    return kv.Done()


async def test_held_values_and_hooks_enclose_the_reconciles(lab: Lab) -> None:
    notes: list[str] = []

    def build(manager: kv.Manager) -> None:
        session = manager.holds(holder(notes, "session"))
        manager.holds(holder(notes, "pool"))
        manager.on_start(hook(notes, "start"))
        manager.on_stop(hook(notes, "first declared"))
        manager.on_stop(hook(notes, "last declared"))

        async def reconcile(_: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
            notes.append(f"reconcile with {session.value}")
            ctx.status.skip_write()
            return kv.Done()

        manager.needs(kv.Rule("", ("configmaps",), ("list",)))
        manager.add(kv.Controller.of(Widget).reconciled_by(By(reconcile)))

    await lab.start(build)
    await lab.create(widget())
    await lab.settled()
    await lab.stop()
    assert notes == [
        *("enter session", "enter pool", "start", "reconcile with session"),
        *("last declared", "first declared", "leave pool", "leave session"),
    ]


async def test_a_held_value_exists_only_while_its_manager_runs() -> None:
    async with ApiServer(random=Random(1)) as server:
        manager = kv.Manager("m", server.config())
        session = manager.holds(holder([], "session"), name="the session")
        for _ in ("before", "after"):
            with pytest.raises(UsageError, match="the session exists only while its manager runs"):
                session.value  # noqa: B018  # the read raises
            if not manager._core.started:  # the second round is after the end
                async with manager:
                    assert session.value == "session"


@pytest.mark.parametrize("where", ["holds", "on_start"])
async def test_start_error_ends_the_start_and_exits_held_contexts(where: str) -> None:
    notes: list[str] = []

    class Broken(nullcontext[None]):
        async def __aenter__(self) -> None:
            raise RuntimeError("no route")

    async with ApiServer(random=Random(1)) as server:
        manager = kv.Manager("m", server.config())
        manager.holds(holder(notes, "session"))
        if where == "holds":
            manager.holds(Broken)
        else:
            manager.on_start(hook(notes, "started", "no route"))
        manager.on_stop(hook(notes, "stopped"))
        with pytest.raises(RuntimeError, match="no route"):
            async with manager:
                pytest.fail("the manager runs")
    assert [note for note in notes if note != "started"] == ["enter session"]


async def test_a_hook_without_async_is_an_error_that_names_it() -> None:
    def forgets_async(_: kv.Manager) -> None:
        """A plain function."""

    async with ApiServer(random=Random(1)) as server:
        manager = kv.Manager("m", server.config())
        hook: Any = forgets_async
        manager.on_start(hook)
        with pytest.raises(UsageError, match="the hook 'forgets_async' of a manager is no coroutine function"):
            async with manager:
                pytest.fail("the manager runs")


async def test_each_stop_hook_runs_although_another_raises() -> None:
    notes: list[str] = []
    async with ApiServer(random=Random(1)) as server:
        manager = kv.Manager("m", server.config())
        manager.holds(holder(notes, "session"))
        manager.on_stop(hook(notes, "first declared"))
        manager.on_stop(hook(notes, "last declared", "broken"))
        with pytest.raises(RuntimeError, match="broken"):
            async with manager:
                pass
    assert notes == ["enter session", "last declared", "first declared"]


async def test_work_on_every_replica_runs_and_writes_without_the_lease() -> None:
    works: list[str] = []

    def work(name: str) -> Callable[[BackgroundServices], Any]:
        async def run(services: BackgroundServices) -> None:
            await services.client.create(CONFIG_MAP.new(name, "default"))
            works.append(name)
            await asyncio.Event().wait()

        return run

    async with ApiServer(random=Random(1)) as server:
        leadership = ScriptedLeadership(leads=False)
        manager = kv.Manager("m", server.config(), random=Random(2), leadership=leadership)
        manager.run_on_every_replica("everywhere", work("everywhere"))
        manager.run_while_leading("leader", work("leader"))
        async with manager:
            await asyncio.sleep(5)
            assert works == ["everywhere"]
            leadership.win()
            await asyncio.sleep(5)
            assert works == ["everywhere", "leader"]


@pytest.mark.parametrize("declare", ["checks_readiness", "checks_health"])
async def test_an_own_check_is_one_line_of_its_probe(declare: str) -> None:
    problem = ["the license server is away: start it"]

    def check() -> str:
        if problem == ["raise"]:
            raise LookupError("no license")
        return "".join(problem)

    async with ApiServer(random=Random(1)) as server:
        manager = kv.Manager("m", server.config())
        getattr(manager, declare)("license", check)
        async with manager:
            ready, live = manager.report, manager.liveness
            chosen, other = (ready, live) if declare == "checks_readiness" else (live, ready)
            assert [line.line() for line in checks_of(chosen())] == [
                "[-]check/license failed: the license server is away: start it"
            ]
            assert checks_of(other()) == ()
            problem[:] = ["raise"]
            assert "the check raised LookupError: no license" in checks_of(chosen())[0].line()
            problem[:] = []
            assert [line.line() for line in checks_of(chosen())] == ["[+]check/license ok"]


async def test_a_manager_is_ready_as_soon_as_its_own_check_passes() -> None:
    problem = ["not yet"]
    async with ApiServer(random=Random(1)) as server:
        manager = kv.Manager("m", server.config())
        manager.checks_readiness("warm", lambda: "".join(problem))
        async with manager:
            assert not await manager.ready(timeout=3)
            asyncio.get_running_loop().call_later(5, problem.clear)
            began = asyncio.get_running_loop().time()
            assert await manager.ready(timeout=60)
            assert 5 <= asyncio.get_running_loop().time() - began <= 6


async def test_a_shared_cache_is_read_outside_of_reconcilers(lab: Lab) -> None:
    def no_keys(_: kv.Object, __: kv.Caches) -> list[kv.Key]:
        return []

    def build(manager: kv.Manager) -> None:
        manager.add(kv.Controller.of(Widget).owns(CONFIG_MAP).reconciled_by(By(leave)))
        manager.add(
            kv.Controller.of(CONFIG_MAP)
            .named("other")
            .watches(SECRET, to=no_keys)
            .selecting("a=b")
            .reconciled_by(By(leave))
        )

    await lab.start(build)
    await lab.create(widget())
    await lab.settled()
    manager = lab.manager
    assert [found.name for found in manager.cache(Widget).list()] == ["one"]
    assert manager.cache(SECRET).synced
    with pytest.raises(UsageError, match="controllers other, widget watch different selections of ConfigMap"):
        manager.cache(CONFIG_MAP)
    assert manager.cache(CONFIG_MAP, controller="widget").synced
    with pytest.raises(CacheNotWatched, match=r"no controller of manager 'lab' watches Pod"):
        manager.cache(kv.kind("v1", "Pod"))
    with pytest.raises(CacheNotWatched, match="controller 'widget' does not watch Secret"):
        manager.cache(SECRET, controller="widget")
    await lab.stop()
    with pytest.raises(UsageError, match="no caches before it is started, nor after its end"):
        manager.cache(Widget)


@pytest.mark.parametrize(
    "declare",
    [
        lambda manager: manager.holds(holder([], "late")),
        lambda manager: manager.on_start(hook([], "late")),
        lambda manager: manager.on_stop(hook([], "late")),
        lambda manager: manager.checks_readiness("late", str),
        lambda manager: manager.checks_health("late", str),
    ],
    ids=["holds", "on_start", "on_stop", "checks_readiness", "checks_health"],
)
async def test_a_declaration_after_the_start_is_refused(declare: Callable[[kv.Manager], object]) -> None:
    async with ApiServer(random=Random(1)) as server:
        manager = kv.Manager("m", server.config())
        async with manager:
            with pytest.raises(UsageError, match="was started already"):
                declare(manager)


@pytest.mark.parametrize("returned", [None, True, 0])
async def test_a_check_that_returns_no_text_fails(returned: Any) -> None:
    async with ApiServer(random=Random(1)) as server:
        manager = kv.Manager("m", server.config())
        manager.checks_readiness("odd", lambda: returned)
        async with manager:
            [line] = [check.line() for check in checks_of(manager.report())]
    assert line.startswith(f"[-]check/odd failed: the check returned a {type(returned).__name__}")


def test_a_check_is_a_plain_function() -> None:
    async def waits() -> str:
        return ""

    wrong: list[Any] = [waits, None]
    for check in wrong:
        with pytest.raises(UsageError, match="give a plain function"):
            kv.Manager("m").checks_health("odd", check)


@pytest.mark.parametrize("name", ["", "a/b", "twice"])
def test_a_check_needs_a_name_of_its_own(name: str) -> None:
    manager = kv.Manager("m")
    manager.checks_health("twice", str)
    with pytest.raises(UsageError, match="give each check a name of its own"):
        manager.checks_health(name, str)
