"""Drains on a real control plane: evictions of the API server, budgets whose status the disruption controller writes, and an operator that is
a process, ended by kill -9 in the middle of each step: before and after the cordon, an eviction, and the acknowledgement.

The test plays the kubelets: it writes the status of pods, and removes those that are being deleted.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from machines_lab import BUDGET
from machines_plane import MachinesPlane, machines_plane
from nstance_server import DrainState

from konverge.errors import NotFound
from konverge.kinds import kind
from konverge.objects import Object
from konverge.reconcilers.machines.kinds import MACHINE_POOL, NODE, POD
from konverge_testing import ControlPlane, ControlPlaneConfig, Lab
from konverge_testing.config import CONTROLLERS
from konverge_testing.nstance import CallFault
from konverge_testing.proxy import Moment, ProxiedRequest

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(400)]

EVENT = kind("events.k8s.io/v1", "Event", namespaced=True, plural="events")
ENDED = ("deleting", "deleted")
LONG = 300.0
"""Seconds of a drain that no test waits for."""


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """A cluster of its own: the controller that writes the status of budgets runs nowhere else. It has the scope of the fixture that it
    replaces.
    """
    config = ControlPlaneConfig(controllers=True, controller_names=(*CONTROLLERS, "disruption-controller"))
    with ControlPlane(config) as running:
        yield running


@pytest_asyncio.fixture
async def plane(lab: Lab, control_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[MachinesPlane]:
    async with machines_plane(lab, control_plane, tmp_path) as made, kubelets(lab):
        yield made
        await made.remove_pool()


@asynccontextmanager
async def kubelets(lab: Lab) -> AsyncIterator[None]:
    """Remove each pod that is being deleted, as its kubelet does when the containers have ended."""

    async def remove() -> None:
        while True:
            for pod in (await lab.client.list(POD, lab.namespace)).items:
                if pod.metadata.deleting:
                    options = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod.metadata.uid}}
                    try:
                        await lab.client.raw("DELETE", path_of(pod), body=options)
                    except NotFound:
                        continue
            await asyncio.sleep(0.1)

    task = asyncio.create_task(remove())
    try:
        yield
    finally:
        task.cancel()
        [ended] = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(ended, asyncio.CancelledError), ended


def path_of(pod: Object) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"


async def until(test: Callable[[], Awaitable[bool]], *, seconds: float = 90.0) -> None:
    async with asyncio.timeout(seconds):
        while not await test():
            await asyncio.sleep(0.1)


async def pool_of(plane: MachinesPlane, count: int) -> tuple[str, ...]:
    """Return the provider's ids of so many instances whose Nodes exist, each with the name of its Node, in the order of both."""
    await plane.lab.until(MACHINE_POOL, "workers", lambda one: one.spec["replicas"] == 0, timeout=120)
    await plane.lab.patch(MACHINE_POOL, "workers", {"spec": {"replicas": count}})
    pool = await plane.pool_of(count)
    await plane.register(pool)
    return tuple(pool.spec.provider_id_list)


async def add_pod(plane: MachinesPlane, name: str, node: str, *, ready: bool = True) -> None:
    spec = {"nodeName": node, "containers": [{"name": "main", "image": "busybox"}]}
    await plane.lab.create(POD.new(name, labels={"app": "web"}, spec=spec))
    await show(plane, name, ready=ready)


async def show(plane: MachinesPlane, name: str, *, ready: bool) -> None:
    """Write the status of a pod."""
    condition = {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": "2030-01-01T00:00:00Z"}
    status = {"phase": "Running", "conditions": [condition]}
    await plane.lab.client.patch(
        POD, name, plane.lab.namespace, patch={"status": status}, style="merge", subresource="status"
    )


async def budget_of(plane: MachinesPlane, **state: int) -> Object:
    """Wait until the disruption controller writes this state."""
    return await plane.lab.until(
        BUDGET, "web", lambda one: state.items() <= (one.get("status", default={}) or {}).items(), timeout=60
    )


async def told(plane: MachinesPlane, node: str) -> dict[str, str]:
    """Return reason and message of the Events about a Node."""
    found = (await plane.lab.client.list(EVENT, "default")).items
    return {one.get("reason"): one.get("note") for one in found if one.get("regarding", "name") == node}


async def drain_of(plane: MachinesPlane, provider_id: str) -> DrainState:
    return (await plane.servers.drains())[provider_id]


async def test_a_budget_blocks_a_drain_until_it_allows_a_disruption(plane: MachinesPlane) -> None:
    (one,) = await pool_of(plane, 1)
    node = f"{plane.lab.namespace}-{one}"
    await add_pod(plane, "first", node)
    await add_pod(plane, "second", "elsewhere", ready=False)
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    await plane.lab.create(BUDGET.new("web", spec=spec))
    await budget_of(plane, disruptionsAllowed=0, currentHealthy=1, desiredHealthy=1)
    await plane.servers.drain(one, seconds=LONG)

    async def blocked() -> bool:
        return "DrainBlocked" in await told(plane, node)

    await until(blocked)
    assert (
        "The disruption budget web needs 1 healthy pods and has 1 currently"
        in (await told(plane, node))["DrainBlocked"]
    )
    assert (await plane.lab.get(NODE, node, "")).spec["unschedulable"] is True
    await asyncio.sleep(2)  # several looks
    assert not (await plane.lab.get(POD, "first")).metadata.deleting
    assert await drain_of(plane, one) == DrainState("running", 0)
    await show(plane, "second", ready=True)
    await plane.lab.until_gone(POD, "first", timeout=60)

    async def acknowledged() -> bool:
        return (await drain_of(plane, one)).acknowledged > 0

    await until(acknowledged)
    assert (await drain_of(plane, one)).status in ENDED
    assert await plane.lab.find(POD, "second") is not None
    assert "Drained" in await told(plane, node)


async def test_a_budget_that_never_yields_is_given_up_before_the_server_deletes(plane: MachinesPlane) -> None:
    (one,) = await pool_of(plane, 1)
    node = f"{plane.lab.namespace}-{one}"
    await add_pod(plane, "first", node)
    await plane.lab.create(BUDGET.new("web", spec={"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}))
    await budget_of(plane, disruptionsAllowed=0, currentHealthy=1)
    await plane.servers.drain(one, seconds=16)

    async def ended() -> bool:
        return (await drain_of(plane, one)).status in ENDED

    await until(ended)
    assert (await drain_of(plane, one)).acknowledged == 1
    assert not (await plane.lab.get(POD, "first")).metadata.deleting
    assert {"DrainBlocked", "DrainTimedOut"} <= (await told(plane, node)).keys()


def cordons(node: str) -> Callable[[ProxiedRequest], bool]:
    return lambda call: call.method == "PATCH" and call.path == f"/api/v1/nodes/{node}"


def evicts(pod: str) -> Callable[[ProxiedRequest], bool]:
    return lambda call: call.path.endswith(f"/pods/{pod}/eviction")


async def test_operator_may_die_in_the_middle_of_each_step_of_drain(plane: MachinesPlane) -> None:
    ids = await pool_of(plane, 6)
    nodes = {one: f"{plane.lab.namespace}-{one}" for one in ids}
    for number, one in enumerate(ids):
        await add_pod(plane, f"p{number}", nodes[one])
    await plane.lab.create(BUDGET.new("web", spec={"minAvailable": 0, "selector": {"matchLabels": {"app": "web"}}}))
    writes: list[tuple[Moment, Callable[[int], Callable[[ProxiedRequest], bool]]]] = [
        ("before", lambda number: cordons(nodes[ids[number]])),
        ("after", lambda number: cordons(nodes[ids[number]])),
        ("before", lambda number: evicts(f"p{number}")),
        ("after", lambda number: evicts(f"p{number}")),
    ]
    calls = (CallFault.HANG, CallFault.HANG_AFTER)
    for number, one in enumerate(ids):
        if number < len(writes):
            moment, rule = writes[number]
            struck = plane.kill_at(1, moment, rule(number))
            await plane.servers.drain(one, seconds=LONG)
            async with asyncio.timeout(60):
                await struck.wait()
            await plane.revive()
        else:
            await plane.servers.hold("AcknowledgeDrained", calls[number - len(writes)])
            await plane.servers.drain(one, seconds=LONG)
            await plane.servers.next("held")
            await plane.kill()

        async def ended(one: str = one) -> bool:
            return (await drain_of(plane, one)).status in ENDED

        await until(ended)
        where = f"killed in step {number}"
        assert (await drain_of(plane, one)).acknowledged >= 1, where
        assert await plane.lab.find(POD, f"p{number}") is None, where
        left = [await plane.lab.find(POD, f"p{other}") for other in range(number + 1, len(ids))]
        assert all(pod is not None and not pod.metadata.deleting for pod in left), where
        for other in ids[number + 1 :]:
            assert not await cordoned(plane, nodes[other]), where
    assert plane.operator.starts == 1 + len(ids)


async def cordoned(plane: MachinesPlane, node: str) -> bool:
    found: dict[str, Any] = (await plane.lab.get(NODE, node, "")).get("spec", default={})
    return bool(found.get("unschedulable"))
