"""The Node of a drained instance is deleted after the instance's end, unless Cluster API or the cloud has deleted it before."""

import asyncio
from typing import Any

import pytest
from machines_lab import NAME, Farm

from konverge.crds.machines_v1beta1 import NstanceMachinePool
from konverge.kinds import kind
from konverge.reconcilers.machines.kinds import MACHINE_POOL, NODE
from konverge.reconcilers.machines.words import MachinesAnnotation, MachinesLabel
from konverge_testing.nstance import Network
from konverge_testing.nstance.instances import DELETED, DELETING, RUNNING, Instance

EVENT = kind("events.k8s.io/v1", "Event", namespaced=True, plural="events")


@pytest.fixture
async def drained(farm: Farm) -> Instance:
    """Start the operator, with an instance on shard a and its Node n1."""
    farm.set_static("a", 1)
    await farm.start()
    return await farm.add_instance("a", node="n1")


async def nodes(farm: Farm) -> list[str]:
    return sorted(one.name for one in (await farm.lab.client.list(NODE)).items)


async def until_nodes(farm: Farm, *names: str, timeout: float = 200.0) -> None:
    async with asyncio.timeout(timeout):
        while await nodes(farm) != sorted(names):
            await asyncio.sleep(1)


async def test_the_nodes_of_a_deleted_pool_go_with_their_instances(farm: Farm) -> None:
    """Cluster API leaves the Nodes: recording pool-deleted."""
    await farm.start()
    await farm.start_core()
    await farm.create_pool("gpu", replicas=2, shards=["a", "b"])
    pool = await farm.pool("gpu", lambda one: len(one.spec.provider_id_list) == 2)
    for number, one in enumerate(pool.spec.provider_id_list):
        await farm.add_node(f"n{number}", f"aws:///z/{one}")
    await farm.add_node("other", "aws:///z/i-other")
    await farm.lab.until(MACHINE_POOL, "gpu", lambda one: len(one.status.get("nodeRefs", ())) == 2, timeout=100)
    await farm.lab.delete(MACHINE_POOL, "gpu")
    await farm.lab.until_gone(NstanceMachinePool, "gpu", timeout=200)
    await until_nodes(farm, "other")


async def test_a_node_goes_after_its_instance_and_an_event_tells_it(farm: Farm, drained: Instance) -> None:
    farm["a"].state.fleet.pace.delete = 100.0
    farm.drain("a", drained)
    await farm.until(lambda: drained.status == DELETING)
    await asyncio.sleep(80)
    assert await nodes(farm) == ["n1"], "its instance is still being deleted"
    await until_nodes(farm)
    assert drained.status == DELETED
    told = (await farm.lab.client.list(EVENT, "default")).items
    assert [one.get("note") for one in told if one.get("reason") == "NodeDeleted"] == [
        f"instance {drained.id} on shard a is gone"
    ]


async def test_the_node_of_an_instance_that_was_not_deleted_after_all_stays(farm: Farm, drained: Instance) -> None:
    await farm.add_pod("web", "n1", labels={"app": "web"})
    await farm.add_budget("web", allowed=0, app="web")
    farm.drain("a", drained)
    await farm.lab.until(NODE, "n1", lambda one: MachinesLabel.DRAINED_BY in (one.metadata.labels or {}))
    farm["a"].state.fleet.forget_drains()
    await asyncio.sleep(600)
    assert (drained.status, await nodes(farm)) == (RUNNING, ["n1"])


async def test_a_node_whose_kubelet_still_reports_stays_until_it_does_not(farm: Farm, drained: Instance) -> None:
    async def report(status: str) -> None:
        ready = {"type": "Ready", "status": status, "lastTransitionTime": "2030-01-01T00:00:00Z"}
        patch = {"status": {"conditions": [ready]}}
        await farm.lab.client.patch(NODE, "n1", patch=patch, style="merge", subresource="status")

    await report("True")
    farm.drain("a", drained)
    await farm.until(lambda: drained.status == DELETED)
    await asyncio.sleep(120)
    assert await nodes(farm) == ["n1"]
    await report("Unknown")
    await until_nodes(farm)


async def test_the_node_of_an_instance_that_the_server_forgot_goes(farm: Farm, drained: Instance) -> None:
    farm.drain("a", drained)
    await farm.until(lambda: drained.status == DELETING)
    del farm["a"].state.fleet.instances[drained.id]
    await until_nodes(farm)


async def test_an_operator_that_is_killed_after_the_acknowledgement_still_deletes_the_node(
    farm: Farm, drained: Instance
) -> None:
    farm["a"].state.fleet.pace.delete = 100.0
    farm.drain("a", drained)
    await farm.until(lambda: bool(farm.acknowledgements("a", drained)))
    farm.lab.crash(down=200.0)
    await until_nodes(farm, timeout=400)


async def test_a_node_whose_shard_is_away_stays_until_it_is_back(farm: Farm, drained: Instance) -> None:
    farm["a"].state.fleet.pace.delete = 40.0
    farm.drain("a", drained)
    await farm.until(lambda: bool(farm.acknowledgements("a", drained)))
    farm["a"].faults.network = Network.REFUSED
    farm["a"].reset()
    await asyncio.sleep(300)
    assert await nodes(farm) == ["n1"]
    farm["a"].faults.network = Network.OPEN
    await until_nodes(farm)


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {MachinesLabel.DRAINED_BY: "other--one"}, "annotations": {MachinesAnnotation.INSTANCE: "a/gone"}},
        {"annotations": {MachinesAnnotation.INSTANCE: "a/gone"}},
        {"labels": {MachinesLabel.DRAINED_BY: NAME}},
        {"labels": {MachinesLabel.DRAINED_BY: NAME}, "annotations": {MachinesAnnotation.INSTANCE: "no place"}},
        {"labels": {MachinesLabel.DRAINED_BY: NAME}, "annotations": {MachinesAnnotation.INSTANCE: "z/gone"}},
    ],
    ids=["of another operator", "without the label", "without a place", "with a bad place", "of an unknown shard"],
)
async def test_a_node_that_this_operator_did_not_drain_stays(farm: Farm, metadata: dict[str, Any]) -> None:
    farm.set_static("a", 0)
    await farm.start()
    await farm.lab.client.create(NODE.new("n1", spec={"providerID": "aws:///z/i-1"}, **metadata))
    await asyncio.sleep(120)
    assert await nodes(farm) == ["n1"]
