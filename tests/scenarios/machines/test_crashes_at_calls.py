"""The operator is killed at calls to the servers, before and after the server acted: the end state is the same as without the crash.

The predicates of `Farm` check every write: no second instance, no id before it is stored, no import before every shard has reported, no
replicas from a server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

import pytest
from machines_lab import Farm

from konverge.crds.machines_v1beta1 import NstanceMachine, NstanceMachinePool
from konverge.reconcilers.machines.kinds import MACHINE, MACHINE_POOL, POD
from konverge_testing.nstance import CallFault
from konverge_testing.nstance.instances import DELETED, DELETING

MOMENTS = (CallFault.CUT_BEFORE, CallFault.CUT_AFTER)


async def grow_shrink_and_go(farm: Farm) -> None:
    """A pool is imported, scaled up and down, and a second pool is created and deleted."""
    await farm.pool("workers", timeout=400)
    await farm.create_pool("gpu", replicas=2, shards=["a", "c"])
    await farm.pool("gpu", timeout=400)
    await farm.scale("workers", 5)
    await farm.until(lambda: farm.sizes() == {"a": 3, "b": 2}, timeout=400)
    await farm.scale("workers", 1)
    await farm.until(lambda: farm.sizes() == {"a": 1, "b": 0}, timeout=400)
    await farm.pool("workers", timeout=400)
    await farm.lab.delete(MACHINE_POOL, "gpu")
    await farm.lab.delete(NstanceMachinePool, "gpu")
    await farm.lab.until_gone(NstanceMachinePool, "gpu", timeout=400)
    assert farm.sizes("gpu") == {}
    assert (await farm.lab.get(MACHINE_POOL, "workers")).spec["replicas"] == 1


async def come_and_go(farm: Farm) -> None:
    """A Machine gets its instance and is deleted."""
    await farm.create_machine("m1", failure_domain="b")
    made = await farm.machine("m1", timeout=400)
    assert made.status.shard == "b"
    assert list(farm.on_demand().values()) == ["running"]
    await asyncio.sleep(130)
    await farm.lab.delete(MACHINE, "m1")
    await farm.lab.until_gone(NstanceMachine, "m1", timeout=400)
    await farm.lab.until_gone(MACHINE, "m1", timeout=400)
    assert set(farm.on_demand().values()) <= {"deleting", "deleted"}
    assert len(farm.on_demand()) == 1


async def drain_and_renew(farm: Farm) -> None:
    """A Node with a temporarily blocking budget is drained, and the certificate is renewed."""
    one = await farm.add_instance("a", node="n1")
    await farm.add_pod("web", "n1", labels={"app": "web"})
    await farm.add_budget("web", allowed=0, app="web")
    farm.drain("a", one)
    await asyncio.sleep(20)
    await farm.allow("web", 1)
    await farm.until(lambda: one.status in (DELETING, DELETED), timeout=400)
    assert await farm.lab.find(POD, "web") is None
    await farm.until(lambda: farm.world.registrar.issued > 1, timeout=400)
    await farm.cluster(lambda found: found.condition("ShardsReachable").is_true, timeout=400)


async def begin_with_groups(farm: Farm) -> None:
    farm.set_static("a", 2)
    farm.set_static("b", 1)


async def begin_with_core(farm: Farm) -> None:
    for name in farm.world.shards:
        farm.set_static(name, 0)
    await farm.start()
    await farm.start_core()


async def begin_with_an_instance(farm: Farm) -> None:
    farm.world.registrar.first_life = timedelta(minutes=10)
    farm.set_static("a", 1)


@dataclass(frozen=True)
class Story:
    """The events while the operator is killed: `begin` precedes the first call that may be its last, `calls` is their least number."""

    begin: Callable[[Farm], Awaitable[None]]
    go_on: Callable[[Farm], Awaitable[None]]
    calls: int
    started: bool = False
    """Whether `begin` starts the operator."""

    async def run(self, farm: Farm, method: str = "", number: int = 0, fault: CallFault = CallFault.CUT_AFTER) -> int:
        """Run the story; returns the number of calls after `begin`."""
        await self.begin(farm)
        before = sum(len(shard.calls) for shard in farm.world.shards.values())
        crashed = farm.crash_at(method, number, fault) if number else ["none"]
        if not self.started:
            await farm.start(wait=False)
        await self.go_on(farm)
        assert len(crashed) == 1
        return sum(len(shard.calls) for shard in farm.world.shards.values()) - before


STORIES = {
    "pools": Story(begin_with_groups, grow_shrink_and_go, 26),
    "machines": Story(begin_with_core, come_and_go, 27, started=True),
    "drains": Story(begin_with_an_instance, drain_and_renew, 28),
}
CRASHES = [
    ("pools", "RegisterOperator", 1),
    ("pools", "ListGroups", 1),
    ("pools", "ListGroups", 3),
    ("pools", "WatchGroups", 1),
    ("pools", "WatchInstances", 2),
    ("pools", "WatchErrors", 3),
    ("pools", "UpsertGroup", 1),
    ("pools", "UpsertGroup", 3),
    ("pools", "DeleteGroup", 1),
    ("pools", "DeleteGroup", 2),
    ("machines", "CreateInstance", 1),
    ("machines", "GetInstanceStatus", 1),
    ("machines", "GetInstanceStatus", 2),
    ("machines", "GetInstanceStatus", 7),
    ("machines", "DeleteInstance", 1),
    ("drains", "AcknowledgeDrained", 1),
    ("drains", "RenewCertificate", 1),
]


@pytest.mark.parametrize("fault", MOMENTS)
@pytest.mark.parametrize(("story", "method", "number"), CRASHES)
async def test_everything_survives_a_crash_at_a_call(
    farm: Farm, story: str, method: str, number: int, fault: CallFault
) -> None:
    await STORIES[story].run(farm, method, number, fault)
    assert all(shard.called("CreateInstance") <= 2 for shard in farm.world.shards.values())


@pytest.mark.parametrize("story", STORIES)
async def test_each_method_that_the_operator_calls_is_met_by_a_crash(farm: Farm, story: str) -> None:
    assert await STORIES[story].run(farm) >= STORIES[story].calls
    calls = [call.method for shard in farm.world.shards.values() for call in shard.calls]
    assert set(calls) <= {method for _, method, _ in CRASHES}
    assert set(calls) >= {method for name, method, _ in CRASHES if name == story}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Choose the numbers of calls: all with `--lab=full`, else a few of each story."""
    if "at_call" in metafunc.fixturenames:
        first, step = (1, 1) if metafunc.config.getoption("--lab") == "full" else (4, 9)
        chosen = [(name, number) for name, story in STORIES.items() for number in range(first, story.calls + 1, step)]
        metafunc.parametrize(("story", "at_call"), chosen)


@pytest.mark.parametrize("fault", MOMENTS)
async def test_every_story_survives_the_fault_of_a_crash_at_any_call(
    farm: Farm, story: str, at_call: int, fault: CallFault
) -> None:
    await STORIES[story].run(farm, "", at_call, fault)
