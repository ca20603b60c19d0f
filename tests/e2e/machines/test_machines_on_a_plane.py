"""The family on a real control plane, with Nstance servers as a process of their own over TLS, and the double of Cluster API's core.

The operator is a process that is ended by kill -9 in the middle of each step of the life of an NstanceMachine: at each of its writes,
before and after it is stored, and at each call, before and after the server acted. In the end every NstanceMachine has one instance, and
every deleted NstanceMachine has none.
"""

from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio
from machines_plane import MachinesPlane, machines_plane

from konverge.crds.machines_v1beta1 import NstanceMachine, NstanceMachinePool
from konverge.reconcilers.machines.kinds import MACHINE, MACHINE_POOL, NODE
from konverge.reconcilers.machines.words import MachinesAnnotation
from konverge_testing import ControlPlane, Lab
from konverge_testing.nstance import CallFault
from konverge_testing.proxy import Moment, ProxiedRequest

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(400)]

MOMENTS: Final[tuple[Moment, ...]] = ("before", "after")


@pytest_asyncio.fixture
async def plane(lab: Lab, control_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[MachinesPlane]:
    async with machines_plane(lab, control_plane, tmp_path) as made:
        yield made


async def test_operator_may_die_in_the_middle_of_each_machine_step(plane: MachinesPlane) -> None:
    lab, servers = plane.lab, plane.servers
    await plane.order("m0")
    await lab.until(
        NstanceMachine, "m0", lambda one: bool(one.metadata.annotation(MachinesAnnotation.INSTANCE)), timeout=120
    )
    await plane.kill()  # the id is stored; the server may or may not have received the call
    await plane.runs("m0")
    alive = 1
    assert len(await plane.instances_of("m0")) == alive
    for method in ("CreateInstance", "GetInstanceStatus"):
        for fault in (CallFault.HANG, CallFault.HANG_AFTER):
            name = f"m{alive}"
            await servers.hold(method, fault)
            await plane.order(name)
            await servers.next("held")
            await plane.kill()
            await plane.runs(name)
            alive += 1
            assert len(await plane.instances_of(name)) == alive, f"killed at {method}, {fault.value}"
    for number, fault in enumerate((CallFault.HANG, CallFault.HANG_AFTER)):
        await servers.hold("DeleteInstance", fault)
        await lab.delete(MACHINE, f"m{number}")
        await servers.next("held")
        await plane.kill()
        await lab.until_gone(NstanceMachine, f"m{number}", timeout=60)
        await lab.until_gone(MACHINE, f"m{number}", timeout=60)
        alive -= 1
        assert len(await plane.instances_of("m2")) == alive
    provider_id = (await plane.runs("m2")).status.provider_id
    await lab.client.create(NODE.new(f"{lab.namespace}-n2", spec={"providerID": f"aws:///z/{provider_id}"}))
    try:
        await lab.until(
            MACHINE, "m2", lambda one: one.status.get("nodeRef") == {"name": f"{lab.namespace}-n2"}, timeout=60
        )
    finally:
        await lab.client.delete(NODE, f"{lab.namespace}-n2")
    for number in range(2, 5):
        await lab.delete(MACHINE, f"m{number}")
    for number in range(2, 5):
        await lab.until_gone(MACHINE, f"m{number}", timeout=60)
    assert set((await servers.instances()).values()) <= {"deleting", "deleted"}
    assert plane.operator.starts == 8


async def test_operator_may_die_in_the_middle_of_each_scaling_step(plane: MachinesPlane) -> None:
    lab, servers = plane.lab, plane.servers
    await lab.until(MACHINE_POOL, "workers", lambda one: one.spec["replicas"] == 0, timeout=120)
    try:
        await servers.hold("UpsertGroup", CallFault.HANG)
        await lab.patch(MACHINE_POOL, "workers", {"spec": {"replicas": 3}})
        await servers.next("held")
        await plane.kill()
        await plane.register(await plane.pool_of(3))
        await lab.until(
            NstanceMachinePool,
            "workers",
            lambda one: all(name.startswith("aws:") for name in one.spec.provider_id_list),
            timeout=90,
        )
        await lab.patch(NstanceMachinePool, "workers", {"metadata": {"annotations": {"touched": "yes"}}})
        await plane.paired(3)
        before = await plane.nodes()
        await servers.hold("UpsertGroup", CallFault.HANG_AFTER)
        await lab.patch(MACHINE_POOL, "workers", {"spec": {"replicas": 1}})
        await servers.next("held")
        await plane.kill()
        pool = await plane.pool_of(1)
        await plane.paired(1)
        left = [f"{lab.namespace}-{one.rpartition('/')[2]}" for one in pool.spec.provider_id_list]
        assert await plane.nodes() == left
        assert set(left) < set(before)
        assert (await lab.get(MACHINE_POOL, "workers")).spec["replicas"] == 1
    finally:
        for name in await plane.nodes():
            await lab.client.delete(NODE, name)


def about(name: str) -> Callable[[ProxiedRequest], bool]:
    """Accept requests about an NstanceMachine and its Machine."""
    return lambda call: name in call.path.split("/") and call.resource in ("nstancemachines", "machines")


async def test_operator_may_die_at_each_of_its_writes_about_a_machine(plane: MachinesPlane) -> None:
    """The finalizer, the id, the provider id, the status, the end: the process dies before and after each of these writes."""
    lab = plane.lab
    await plane.order("m0")
    await plane.runs("m0")
    writes = sum("/nstancemachines/m0" in line for line in plane.proxy.writes)
    assert writes >= 5, plane.proxy.writes
    names, hit = ["m0"], []
    for number in range(1, writes + 1):
        for moment in MOMENTS:
            name = f"{moment}-{number}"
            struck = plane.kill_at(number, moment, about(name))
            await plane.order(name)
            if await plane.struck(struck, partial(plane.runs, name)):
                hit.append(name)
            names.append(name)
            assert len(await plane.instances_of(name)) == len(names), f"killed {moment} write {number}"
    # Two status writes become one if their events arrive together, so a machine may take fewer writes than the first one.
    assert len(hit) >= 2 * (writes - 2), f"of {writes} writes: {hit}"
    for moment in MOMENTS:
        name = names.pop()
        struck = plane.kill_at(1, moment, about(name))
        await lab.delete(MACHINE, name)
        assert await plane.struck(struck, partial(plane.gone, name))
        assert len(await plane.instances_of(names[0])) == len(names), f"killed {moment} the end of the deletion"
