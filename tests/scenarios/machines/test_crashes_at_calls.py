"""The operator is killed at calls to the servers, before and after the server acted: everything ends as without the crash.

The predicates of `Farm` watch every write: no second instance, no id that was not stored, no import before every shard was heard, no
replicas from a server.
"""

from __future__ import annotations

import asyncio

import pytest
from machines_lab import Farm

from konverge.crds.machines_v1beta1 import NstanceMachine, NstanceMachinePool
from konverge.reconcilers.machines.kinds import MACHINE, MACHINE_POOL
from konverge.testing.nstance import CallFault

MOMENTS = (CallFault.CUT_BEFORE, CallFault.CUT_AFTER)


async def grow_shrink_and_go(farm: Farm) -> None:
    """A pool is imported, scaled up and down, and another one is made and deleted."""
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


@pytest.mark.parametrize("fault", MOMENTS)
@pytest.mark.parametrize(
    ("method", "number"),
    [
        ("RegisterOperator", 1),
        ("ListGroups", 1),
        ("ListGroups", 3),
        ("WatchInstances", 2),
        ("UpsertGroup", 1),
        ("UpsertGroup", 3),
        ("DeleteGroup", 1),
        ("DeleteGroup", 2),
    ],
)
async def test_a_pool_survives_a_crash_at_a_call(farm: Farm, method: str, number: int, fault: CallFault) -> None:
    farm.set_static("a", 2)
    farm.set_static("b", 1)
    crashed = farm.crash_at(method, number, fault)
    await farm.start(wait=False)
    await grow_shrink_and_go(farm)
    assert len(crashed) == 1


@pytest.mark.parametrize("fault", MOMENTS)
@pytest.mark.parametrize(
    ("method", "number"),
    [
        ("CreateInstance", 1),
        ("GetInstanceStatus", 1),
        ("GetInstanceStatus", 2),
        ("GetInstanceStatus", 7),
        ("DeleteInstance", 1),
    ],
)
async def test_a_machine_survives_a_crash_at_a_call(farm: Farm, method: str, number: int, fault: CallFault) -> None:
    for name in farm.world.shards:
        farm.set_static(name, 0)
    await farm.start()
    await farm.start_core()
    crashed = farm.crash_at(method, number, fault)
    await come_and_go(farm)
    assert len(crashed) == 1
    assert farm["b"].called("CreateInstance") <= 2
