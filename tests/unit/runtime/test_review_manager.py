"""Controllers are added and removed, and a manager's start and end are cancelled at any moment: no task is left, and reports are true."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from controller_harness import Informers, Server
from scripted_leadership import ScriptedLeadership
from widgets import CONFIG_MAP, By, Widget

import konverge as kv
from konverge.errors import UsageError
from konverge.kinds import kind
from konverge.runtime.parts import core, resources


async def nothing(object_: Any, ctx: kv.Context[Any]) -> kv.Outcome:
    return kv.Done()


def config_maps(name: str = "one", reconcile: Any = nothing) -> kv.Controller[kv.Object]:
    return kv.Controller.of(CONFIG_MAP).named(name).reconciled_by(By(reconcile))


class Shell:
    """The manager's surroundings without a network."""

    def __init__(self) -> None:
        self.server = Server(frozenset())
        self.informers: Informers | None = None

    @contextlib.asynccontextmanager
    async def client(self, config: Any, **_: Any) -> AsyncIterator[Server]:
        yield self.server

    @contextlib.asynccontextmanager
    async def recorder(self, client: Any, **_: Any) -> AsyncIterator[Any]:
        yield self

    def record(self, *_: Any, **__: Any) -> None:
        pass

    @contextlib.asynccontextmanager
    async def set_of(self, client: Any, *, managers: frozenset[str], **_: Any) -> AsyncIterator[Informers]:
        self.informers = Informers(self.server, managers)
        yield self.informers

    def show(self, name: str) -> None:
        assert self.informers is not None
        [informer] = self.informers.by_selection.values()
        data = self.server.store(CONFIG_MAP, CONFIG_MAP.new(name, "web").to_dict())
        informer.show(data, namespace="web", name=name, version=data["metadata"]["resourceVersion"])


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Shell:
    shell = Shell()
    monkeypatch.setattr(resources, "Client", shell.client)
    monkeypatch.setattr(core, "EventRecorder", shell.recorder)
    monkeypatch.setattr(resources, "InformerSet", shell.set_of)
    return shell


def manager(*controllers: kv.Controller[Any], **more: Any) -> kv.Manager:
    configured: Any = object()
    made = kv.Manager("konverge", configured, **more)
    for controller in controllers:
        made.add(controller)
    return made


def ours() -> set[str]:
    return {name for task in asyncio.all_tasks() if (name := task.get_name()).startswith("konverge")}


async def test_a_manager_that_has_not_begun_is_not_ready() -> None:
    made = manager(config_maps())
    assert not made.report()
    assert made.report().of("one").why == "starting"


async def test_two_versions_of_a_kind_are_one_status() -> None:
    made = manager(kv.Controller.of(kind("example.com/v1", "Backup")).named("a").reconciled_by(By(nothing)))
    with pytest.raises(UsageError, match="both write the status"):
        made.add(kv.Controller.of(kind("example.com/v2", "Backup")).named("b").reconciled_by(By(nothing)))


def test_two_controllers_of_one_kind_do_not_share_a_finalizer() -> None:
    def held(name: str, labels: str = "") -> kv.Controller[Any]:
        spec = kv.Controller.of(Widget).named(name).writes_status_as(name).finalizer("tests.konverge.dev/widget")
        return spec.selecting(labels).reconciled_by(By(nothing, nothing))

    made = manager(held("a"), held("shard", labels="shard=1"))
    with pytest.raises(UsageError, match="a finalizer of its own"):
        made.add(held("b"))


@pytest.mark.parametrize(
    "number", [{"concurrency": 0}, {"timeout": 0}, {"base_delay": 0}, {"max_delay": 0.001}, {"debounce": -1}]
)
def test_impossible_controller_number_is_an_error_at_its_declaration(number: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        config_maps().with_(**number)


async def test_a_start_that_is_cancelled_leaves_nothing_running(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow:
        @classmethod
        async def load(cls) -> Any:
            await asyncio.sleep(3600)

    monkeypatch.setattr(resources, "ClientConfig", Slow)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1), kv.Manager("konverge"):
            pass
    assert ours() == set()


async def test_a_supervisor_that_is_cancelled_leaves_no_task_behind(shell: Shell) -> None:
    made = manager(config_maps())
    await made.start()
    before = asyncio.all_tasks()
    assert made._supervisor is not None
    made._supervisor.cancel()
    await asyncio.wait({made._supervisor})
    await asyncio.sleep(0)
    assert {task for task in asyncio.all_tasks() & before if task is not asyncio.current_task()} == set()


async def test_failed_drain_of_a_part_keeps_no_other_part_from_draining(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail() -> None:
        raise OSError("no route")

    running = manager(config_maps())
    monkeypatch.setattr(running._background, "drain", fail)  # the first part that drains
    await running.start()
    await running.stop()
    with pytest.raises(OSError, match="no route"):
        await running.wait()
    assert ours() == set()


async def test_a_controller_is_not_added_again_while_its_predecessor_still_drains(shell: Shell) -> None:
    running = 0
    most = 0

    async def slow(object_: Any, ctx: kv.Context[Any]) -> kv.Outcome:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(5)
        running -= 1
        return kv.Done()

    async with manager(config_maps(reconcile=slow)) as made:
        await made.ready()
        shell.show("a")
        await asyncio.sleep(1)
        removal = asyncio.create_task(made.remove("one"))
        await asyncio.sleep(1)
        assert made.report().ready
        with pytest.raises(UsageError, match="still being stopped"):
            made.add(config_maps(reconcile=slow))
        await removal
        made.add(config_maps(reconcile=slow))
        shell.show("a")
        await asyncio.sleep(10)
    assert most == 1


async def test_readiness_wait_wakes_on_changes_and_polls_nothing(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    opens_at = asyncio.get_running_loop().time() + 300

    async def gate(_: Any) -> str:
        return "" if asyncio.get_running_loop().time() >= opens_at else "not yet"

    looks = 0
    report = kv.Manager.report

    def counted(made: kv.Manager) -> Any:
        nonlocal looks
        looks += 1
        return report(made)

    monkeypatch.setattr(kv.Manager, "report", counted)
    async with manager(
        config_maps("gated").starts_when(gate), config_maps("free", nothing).writes_status_as("x")
    ) as made:
        assert not await made.ready(timeout=20)
        assert await made.ready(timeout=None)
        assert asyncio.get_running_loop().time() == pytest.approx(opens_at, abs=0.01)
    assert looks < 40, "11 rounds of the gate, each of which wakes the wait once"


async def test_the_wait_for_readiness_ends_with_the_manager(shell: Shell) -> None:
    async def gate(_: Any) -> str:
        return "never"

    async with manager(config_maps().starts_when(gate)) as made:
        waiting = asyncio.create_task(made.ready(timeout=None))
        await asyncio.sleep(1)
        await made.stop()
        assert not await waiting


async def test_a_removal_whose_caller_is_cancelled_still_ends_before_the_manager_does(shell: Shell) -> None:
    ended: list[str] = []

    async def slow(object_: Any, ctx: kv.Context[Any]) -> kv.Outcome:
        await asyncio.sleep(5)
        ended.append(object_.name)
        return kv.Done()

    async with manager(config_maps(reconcile=slow)) as made:
        await made.ready()
        shell.show("a")
        await asyncio.sleep(1)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(made.remove("one"), 1)
    assert ended == ["a"]
    assert ours() == set()


async def test_status_writer_unknown_to_the_caches_is_refused_while_running(shell: Shell) -> None:
    """Its caches would not show its own fields: each reconcile would take the previous reconcile's fields for another manager's, and drop
    them.
    """
    late = kv.Controller.of(Widget).named("late").writes_status_as("late").reconciled_by(By(nothing))
    async with manager(config_maps()) as made:
        with pytest.raises(UsageError, match="before the start"):
            made.add(late)
        assert [spec.name for spec in made.controllers] == ["one"]


async def test_a_cancellation_from_outside_is_not_swallowed_by_a_fatal_error(shell: Shell) -> None:
    class Leadership(ScriptedLeadership):
        async def release(self) -> None:
            raise RuntimeError("the lease cannot be given back")

    async def work() -> None:
        async with manager(config_maps(), leadership=Leadership()):
            await asyncio.sleep(3600)

    task = asyncio.create_task(work())
    await asyncio.sleep(1)
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()


async def test_block_that_swallows_a_fatal_errors_cancellation_is_not_left_cancelled(shell: Shell) -> None:
    class Leadership(ScriptedLeadership):
        async def acquire(self) -> None:
            await asyncio.sleep(1)
            raise RuntimeError("lost for good")

    with pytest.raises(RuntimeError, match="lost for good"):
        async with manager(config_maps(), leadership=Leadership()):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(3600)
    current = asyncio.current_task()
    assert current is not None
    assert current.cancelling() == 0
