"""The objects of the family against the contract of Cluster API and the original's definitions: finalizers, labels, references,
conditions and reasons, as literal text and not by our own constants.
"""

import asyncio
from typing import Any

import pytest
from machines_lab import NAME, Farm, is_true

from konverge.crds import CustomResource
from konverge.crds.machines_v1beta1 import NstanceCluster, NstanceMachine, NstanceMachinePool, NstanceShardGroup
from konverge.kinds import kind
from konverge.reconcilers.machines.kinds import CLUSTER, MACHINE, MACHINE_POOL
from konverge_testing.nstance import GroupSpec, Network

EVENT = kind("events.k8s.io/v1", "Event", namespaced=True, plural="events")
GROUP = "infrastructure.cluster.x-k8s.io"


def states(made: CustomResource[Any, Any], *types: str) -> dict[str, tuple[str, str]]:
    """Return status and reason of these conditions."""
    found = {one.type: (str(one.status), one.reason) for one in made.status.conditions}
    return {name: found[name] for name in types}


async def told(farm: Farm, name: str) -> set[str]:
    """Return the reasons of the Events about the objects of this name."""
    found = (await farm.lab.client.list(EVENT, farm.lab.namespace)).items
    return {one.get("reason") for one in found if one.get("regarding", "name") == name}


async def test_cluster_is_provisioned_with_its_shards_as_failure_domains(farm: Farm) -> None:
    farm.settings = farm.settings.model_copy(update={"control_plane_endpoint": "api.example.com:6443"})
    await farm.start()
    await farm.start_core()
    made = await farm.cluster(lambda one: one.status.initialization is not None)
    assert states(made, "Ready", "Paused") == {"Ready": ("True", "Provisioned"), "Paused": ("False", "NotPaused")}
    shown = (await farm.lab.get(NstanceCluster, NAME)).to_dict()
    assert shown["status"]["initialization"] == {"provisioned": True}
    assert shown["status"]["failureDomains"] == [{"name": "a"}, {"name": "b"}, {"name": "c"}]
    assert shown["spec"]["controlPlaneEndpoint"] == {"host": "api.example.com", "port": 6443}
    cluster = await farm.lab.until(CLUSTER, NAME, lambda one: one.status.get("phase") == "Provisioned")
    assert cluster.spec["controlPlaneEndpoint"] == {"host": "api.example.com", "port": 6443}
    assert cluster.spec["infrastructureRef"] == {"apiGroup": GROUP, "kind": "NstanceCluster", "name": NAME}


async def test_imported_pool_and_its_machine_pool_follow_the_cluster_api_contract(farm: Farm) -> None:
    farm["c"].groups.dynamic["gpu"] = GroupSpec("std", 2, "p5", "private")
    await farm.start()
    await farm.start_core()
    pool = await farm.pool("gpu", lambda one: one.status.replicas == 2 and is_true(one.find_condition("Ready")))
    assert pool.metadata.finalizers == ("nstancemachinepool.infrastructure.cluster.x-k8s.io/finalizer",)
    assert pool.metadata.annotation("nstance.dev/managed-by") == "nstance-operator"
    assert states(pool, "Ready", "Paused") == {"Ready": ("True", "Reconciled"), "Paused": ("False", "NotPaused")}
    shown = pool.to_dict()
    status = {name: shown["status"].get(name) for name in ("ready", "initialization", "replicas", "isStatic")}
    assert status == {"ready": True, "initialization": {"provisioned": True}, "replicas": 2, "isStatic": False}
    assert (shown["status"]["template"], shown["status"]["subnets"]) == ("std", ["private"])
    assert shown["status"]["observedGeneration"] == pool.metadata.generation
    assert "infrastructureMachineKind" not in shown["status"]
    assert len(shown["spec"]["providerIDList"]) == 2
    machine_pool = await farm.lab.get(MACHINE_POOL, "gpu")
    assert machine_pool.metadata.annotation("nstance.dev/managed-by") == "nstance-operator"
    await farm.pool("gpu", lambda one: one.status.observed_owner_generation == machine_pool.metadata.generation)
    assert machine_pool.spec["clusterName"] == NAME
    assert machine_pool.spec["template"]["spec"] == {
        "clusterName": NAME,
        "bootstrap": {"dataSecretName": ""},
        "infrastructureRef": {"apiGroup": GROUP, "kind": "NstanceMachinePool", "name": "gpu"},
    }
    owners = [(one.kind, one.name, one.controller) for one in pool.metadata.owner_references]
    assert owners == [("MachinePool", "gpu", True)]


async def test_shard_group_belongs_to_its_pool_and_shows_merged_server_settings(farm: Farm) -> None:
    await farm.start()
    await farm.create_pool(replicas=3, instanceType="c7.large", vars={"zone": "a"}, subnets=["private"])
    pool = await farm.pool(test=lambda one: one.status.replicas == 3)
    group = await farm.lab.get(NstanceShardGroup, "workers--a")
    labels = {name: group.metadata.label(name) for name in ("nstance.dev/group", "nstance.dev/shard")}
    assert labels == {"nstance.dev/group": "workers", "nstance.dev/shard": "a"}
    assert group.metadata.finalizers == ("nstanceshardgroup.infrastructure.cluster.x-k8s.io/finalizer",)
    assert [(one.kind, one.uid, one.controller) for one in group.metadata.owner_references] == [
        ("NstanceMachinePool", pool.uid, True)
    ]
    assert states(group, "Ready", "ShardReachable", "ConfigValid") == {
        "Ready": ("True", "SyncSucceeded"),
        "ShardReachable": ("True", "Connected"),
        "ConfigValid": ("True", "Valid"),
    }
    shown = group.to_dict()
    settings = {"template": "std", "subnets": ["private"], "instanceType": "c7.large", "vars": {"zone": "a"}}
    assert shown["spec"] == {"group": "workers", "shard": "a", "size": 1, **settings}
    assert shown["status"]["config"] == settings
    assert (shown["status"]["replicas"], shown["status"]["isStatic"]) == (1, False)
    assert len(shown["status"]["providerIDs"]) == 1
    assert shown["status"]["lastSyncTime"]
    assert shown["status"]["observedGeneration"] == group.metadata.generation


async def test_the_events_of_a_shard_group_have_the_reasons_of_the_original(farm: Farm) -> None:
    await farm.start()
    await farm.create_pool(replicas=3)
    await farm.pool()
    assert "SyncSucceeded" in await told(farm, "workers--a")
    farm["a"].faults.network = Network.SILENT
    await farm.lab.until(
        NstanceShardGroup, "workers--a", lambda one: not is_true(one.find_condition("ShardReachable")), timeout=100
    )
    assert "ShardUnreachable" in await told(farm, "workers--a")
    farm["a"].faults.network = Network.OPEN
    await farm.pool()
    farm["b"].state.report_error("blue", "no capacity", group="workers")
    await asyncio.sleep(5)
    assert "ProviderError" in await told(farm, "workers--b")
    await farm.lab.patch(NstanceMachinePool, "workers", {"spec": {"template": "none"}})
    refused = await farm.lab.until(
        NstanceShardGroup, "workers--b", lambda one: not is_true(one.find_condition("ConfigValid")), timeout=100
    )
    assert states(refused, "Ready", "ConfigValid") == {
        "Ready": ("False", "ProviderError"),
        "ConfigValid": ("False", "ConfigValidationFailed"),
    }
    assert "ConfigValidationFailed" in await told(farm, "workers--b")
    await farm.write_document("a", "b")
    await farm.lab.delete(MACHINE_POOL, "workers")
    await farm.lab.delete(NstanceMachinePool, "workers")
    await farm.lab.until_gone(NstanceMachinePool, "workers", timeout=100)
    assert "DeleteSucceeded" in await told(farm, "workers--a")
    assert "DeleteFailed" in await told(farm, "workers--c"), "its shard left the document"


@pytest.fixture
async def machined(farm: Farm) -> Farm:
    for name in farm.world.shards:
        farm.set_static(name, 0)
    await farm.start()
    await farm.start_core()
    return farm


@pytest.mark.parametrize(
    ("said", "reason"), [("spot interruption", "SpotInterruption"), ("Preempted", "Preempted"), ("", "ServerDeleted")]
)
async def test_an_instance_that_the_server_deleted_is_shown_with_its_reason(
    machined: Farm, said: str, reason: str
) -> None:
    await machined.create_machine("m1")
    made = await machined.machine("m1")
    assert made.metadata.finalizers == ("nstancemachine.infrastructure.cluster.x-k8s.io/finalizer",)
    held = {"metadata": {"finalizers": [*made.metadata.finalizers, "example.com/hold"]}}
    await machined.lab.patch(NstanceMachine, "m1", held)
    assert made.status.shard is not None
    fleet = machined[made.status.shard].state.fleet
    fleet.delete(fleet.instances[made.status.instance_id or ""], said)
    await machined.lab.until(MACHINE, "m1", lambda one: one.metadata.deleting, timeout=300)
    gone = await machined.machine("m1", lambda one: is_true(one.find_condition("ServerDeleted")))
    assert states(gone, "ServerDeleted") == {"ServerDeleted": ("True", reason)}
    assert gone.status.ready is False
    await machined.lab.patch(NstanceMachine, "m1", {"metadata": {"finalizers": None}})
    await machined.lab.until_gone(MACHINE, "m1", timeout=100)


async def test_a_machine_set_that_owns_it_first_is_not_its_machine(machined: Farm) -> None:
    """As recorded in machineset-clones: the MachineSet owns the clone until the Machine does."""
    owner = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet", "name": "m1", "uid": "0-0"}
    metadata = {"name": "m1", "ownerReferences": [owner]}
    await machined.lab.create(NstanceMachine.decode({"metadata": metadata, "spec": {"groupRef": "workers"}}))
    waiting = await machined.machine("m1", lambda one: one.find_condition("Ready") is not None)
    assert states(waiting, "Ready") == {"Ready": ("False", "WaitingForMachine")}
    await asyncio.sleep(120)
    assert machined.on_demand() == {}
    await machined.create_owner("m1")
    await machined.machine("m1")
