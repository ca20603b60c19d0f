"""The life of Machines, Nodes and shards under the lab's faults, with the double of Cluster API's core: `make lab` runs every plan."""

from collections.abc import Callable
from typing import Any

import pytest
from machines_lab import NAME, Farm, is_true

from konverge.crds.machines_v1beta1 import NstanceControlPlane, NstanceMachine, NstanceMachinePool
from konverge.reconcilers.machines.kinds import CLUSTER, MACHINE, MACHINE_POOL, NODE
from konverge.reconcilers.machines.words import MachinesAnnotation, MachinesLabel
from konverge_testing import Lab

ONE_INFRASTRUCTURE = "a Machine outlives its infrastructure, and Cluster API makes no second one"
RANDOM = {
    "spec": ("providerID", "providerIDList"),
    "status": (
        "providerID",
        "providerIDs",
        "providerIDList",
        "instanceID",
        "lastSyncTime",
        "nodeRefs",
        "addresses",
        "observedOwnerGeneration",
    ),
}


def forget(data: dict[str, Any]) -> None:
    """Remove random values, values from uids, and times."""
    if data["kind"] in ("Secret", "ConfigMap"):
        data.pop("data", None)
    for part, names in RANDOM.items():
        for name in names:
            (data.get(part) or {}).pop(name, None)
    (data["metadata"].get("annotations") or {}).pop(MachinesAnnotation.INSTANCE, None)


def forget_generations(data: dict[str, Any]) -> None:
    for one in (data.get("status") or {}).get("conditions", ()):
        one.pop("observedGeneration", None)


def forget_owner(data: dict[str, Any]) -> None:
    data["metadata"].pop("labels", None)
    data["metadata"].pop("ownerReferences", None)


def forget_places(data: dict[str, Any]) -> None:
    """Also remove what depends on uids: the shards of instances, and the volume of the token in a pod."""
    forget(data)
    for label in (MachinesLabel.POD_UID, MachinesLabel.SHARD):
        (data["metadata"].get("labels") or {}).pop(label, None)
    for part, name in (("spec", "failureDomain"), ("status", "failureDomain"), ("status", "shard")):
        (data.get(part) or {}).pop(name, None)
    if data["kind"] == "Pod":
        data.pop("spec", None)


async def guarded(
    lab: Lab, forgetting: Callable[[dict[str, Any]], None] = forget, *, deletes_pools: bool = False
) -> Farm:
    farm = await lab.enter(Farm(lab))
    lab.may_differ(None, forgetting, why="keys and ids are random")
    lab.may_differ(
        CLUSTER, forget_generations, why="the double of the core writes a condition only if it is about something new"
    )
    lab.skip_plans("the namespace is deleted *", why="it takes the document of shards and the authority")
    lab.skip_plans("secrets*: * by hand *", why="the nonce is used once, and no program brings a kubeconfig back")
    lab.skip_plans("the CRD of *", why="nothing brings back the objects of a user")
    if not deletes_pools:
        lab.skip_plans("machinepools*: delete by hand *", why="a MachinePool that a user deleted is not made again")
    return farm


@pytest.mark.scenario(quick=6)
async def test_a_machine_gets_an_instance_and_a_node_and_is_deleted(lab: Lab) -> None:
    farm = await guarded(lab)
    lab.skip_plans("nstancemachines*: * by hand *", why=ONE_INFRASTRUCTURE)
    for name in farm.world.shards:
        farm.set_static(name, 0)
    await farm.start()
    await farm.start_core()
    await farm.create_machine("m1", failure_domain="b")
    bare = (await farm.machine("m1", timeout=400)).status.provider_id
    await farm.add_node("n1", f"aws:///us-west-2a/{bare}")
    await lab.until(MACHINE, "m1", lambda one: one.status.get("nodeRef") == {"name": "n1"}, timeout=400)
    await lab.delete(MACHINE, "m1")
    await lab.until_gone(NstanceMachine, "m1", timeout=400)
    await lab.until_gone(MACHINE, "m1", timeout=400)
    assert len(farm.on_demand()) == 1
    assert set(farm.on_demand().values()) <= {"deleting", "deleted"}


@pytest.mark.scenario(quick=6)
async def test_cluster_gets_its_control_plane_and_machine_deletion_removes_its_node(lab: Lab) -> None:
    farm = await guarded(lab)
    lab.may_differ(
        NstanceControlPlane,
        forget_owner,
        why="Cluster API adopts one that was made anew with its next look, after ten minutes",
    )
    lab.skip_plans("nstancemachines*: * by hand *", why=ONE_INFRASTRUCTURE)
    # Without the account, since a token is renewed for ever, and the lab waits for an end of writes.
    farm.settings = farm.settings.model_copy(update={"control_plane_stub": True})
    for name in farm.world.shards:
        farm.set_static(name, 0)
    await farm.start()
    await farm.start_core()
    await farm.create_machine("m1", failure_domain="b")
    bare = (await farm.machine("m1", timeout=400)).status.provider_id
    await farm.add_node("n1", f"aws:///us-west-2a/{bare}")
    await lab.until(CLUSTER, NAME, lambda one: is_true(one.find_condition("ControlPlaneInitialized")), timeout=400)
    await lab.until(CLUSTER, NAME, lambda one: is_true(one.find_condition("RemoteConnectionProbe")), timeout=400)
    await lab.until(MACHINE, "m1", lambda one: one.status.get("phase") == "Running", timeout=400)
    await lab.delete(MACHINE, "m1")
    await lab.until_gone(MACHINE, "m1", timeout=400)
    await lab.until_gone(NODE, "n1", timeout=400)
    await lab.until(NstanceControlPlane, NAME, lambda one: is_true(one.find_condition("Available")), timeout=400)


@pytest.mark.scenario(quick=6)
async def test_pool_nodes_are_paired_and_stay_while_shards_change(lab: Lab) -> None:
    farm = await guarded(lab)
    farm.set_static("a", 1)
    await farm.start()
    await farm.start_core()
    pool = await farm.pool("workers", lambda one: len(one.spec.provider_id_list) == 1, timeout=400)
    full = f"aws:///us-west-2a/{pool.spec.provider_id_list[0].rpartition('/')[2]}"
    await farm.add_node("n1", full)
    await farm.pool("workers", lambda one: one.spec.provider_id_list == (full,), timeout=400)
    await lab.until(
        MACHINE_POOL,
        "workers",
        lambda one: [node["name"] for node in one.status.get("nodeRefs", ())] == ["n1"],
        timeout=400,
    )
    farm.world.add_shard("d")
    farm.set_static("d", 2, group="gpu")
    await farm.write_document("a", "b", "c", "d")
    await farm.pool("gpu", timeout=400)
    await farm.write_document("a", "d")
    await farm.cluster(lambda one: [domain.name for domain in one.status.failure_domains] == ["a", "d"], timeout=400)
    await farm.pool("workers", timeout=400)
    assert await lab.find(NODE, "n1") is not None


@pytest.mark.scenario(quick=6)
async def test_the_nodes_of_a_deleted_pool_go_with_their_instances(lab: Lab) -> None:
    farm = await guarded(lab, deletes_pools=True)
    for shard in farm.world.shards.values():
        shard.state.fleet.pace.drain_timeout = 12_000.0  # longer than a plan stops the operator
    await farm.start()
    await farm.start_core()
    await farm.create_pool("gpu", replicas=2, shards=["a", "b"])
    await farm.add_nodes("gpu", 2)
    await lab.delete(MACHINE_POOL, "gpu")
    await lab.until_gone(NstanceMachinePool, "gpu", timeout=400)
    await farm.until(lambda: not list(lab.server.store.list(("", "nodes"))), timeout=400)


@pytest.mark.scenario(quick=6)
async def test_pods_on_demand_get_machines_and_give_them_back_when_they_end(lab: Lab) -> None:
    farm = await guarded(lab, forget_places)
    for name in farm.world.shards:
        farm.set_static(name, 0)
    await farm.start()
    await farm.start_core()
    await lab.namespace_also("web")
    finishes, replaced, stays = [await farm.demand(name, "web") for name in ("finishes", "replaced", "stays")]
    for pod in (finishes, replaced, stays):
        await farm.machine(f"on-demand-{pod.name}", timeout=400)
    await farm.finish(finishes)
    await farm.end(replaced)
    second = await farm.demand("replaced", "web")
    await lab.until_gone(MACHINE, "on-demand-finishes", timeout=400)
    await lab.until_gone(NstanceMachine, "on-demand-finishes", timeout=400)
    await farm.machine(
        "on-demand-replaced",
        lambda one: one.metadata.label(MachinesLabel.POD_UID) == second.metadata.uid and bool(one.status.ready),
        timeout=400,
    )
    assert [len(await farm.machines_of(pod)) for pod in (finishes, replaced, stays)] == [0, 0, 1]
    await farm.until(lambda: sorted(farm.on_demand().values())[-2:] == ["running"] * 2)
