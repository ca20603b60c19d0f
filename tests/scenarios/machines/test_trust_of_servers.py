"""A server that names instances, groups and events of another shard reaches no Node, pool or Machine of that shard."""

import asyncio
from typing import Any

import pytest
from machines_lab import Farm

from konverge.crds.machines_v1beta1 import NstanceMachine, NstanceMachinePool, NstanceShardGroup
from konverge.kinds import kind
from konverge.reconcilers.machines.kinds import MACHINE, NODE, POD
from konverge.reconcilers.machines.wire.operator_pb2 import GroupStatus, InstanceEvent
from konverge.reconcilers.machines.words import MachinesAnnotation
from konverge_testing.nstance.instances import RUNNING, Instance

EVENT = kind("events.k8s.io/v1", "Event", namespaced=True, plural="events")


@pytest.fixture
async def victim(farm: Farm) -> Instance:
    """Start the operator with an instance and its Node n1 on shard a, and an instance of another pool on the hostile shard c."""
    farm.set_static("a", 1)
    farm.set_static("c", 1, group="gpu")
    for name in ("b", "c"):
        farm.set_static(name, 0, group="solo")
    await farm.start()
    await farm.start_core()
    found = await farm.add_instance("a", node="n1")
    await farm.pool(test=lambda one: bool(one.spec.provider_id_list))
    await farm.add_pod("web", "n1")
    return found


def names(instance: Instance, form: str) -> str:
    return instance.provider_id if form == "bare" else f"aws:///us-west-2a/{instance.provider_id}"


@pytest.mark.parametrize("form", ["bare", "full"])
async def test_a_drain_of_another_shards_instance_touches_no_node(farm: Farm, victim: Instance, form: str) -> None:
    hostile = await farm.add_instance("c", group="gpu")
    hostile.provider_id = names(victim, form)
    farm.drain("c", hostile)
    await farm.until(lambda: bool(farm.acknowledgements("c", hostile)), timeout=400)
    assert "unschedulable" not in (await farm.lab.get(NODE, "n1")).spec
    assert await farm.lab.find(POD, "web") is not None
    assert victim.status == RUNNING
    farm.drain("a", victim)
    await farm.lab.until_gone(POD, "web", timeout=100)


async def test_a_drain_of_another_shards_machine_touches_no_node(farm: Farm, victim: Instance) -> None:
    await farm.create_machine("m1", failure_domain="b", group="solo")
    made = await farm.machine("m1")
    await farm.add_node("n-m1", f"aws:///us-west-2b/{made.status.provider_id}")
    await farm.add_pod("own", "n-m1")
    assert made.status.provider_id is not None
    hostile = await farm.add_instance("c", group="gpu")
    hostile.provider_id = made.status.provider_id
    farm.drain("c", hostile)
    await farm.until(lambda: bool(farm.acknowledgements("c", hostile)), timeout=400)
    assert "unschedulable" not in (await farm.lab.get(NODE, "n-m1")).spec
    assert await farm.lab.find(POD, "own") is not None


async def test_drained_pool_instance_stays_bound_to_the_shards_of_its_pool(farm: Farm, victim: Instance) -> None:
    """The server no longer lists a draining instance, so only its pool's list records it."""
    group = (await farm.lab.get(NstanceShardGroup, "workers--a")).status
    assert victim.provider_id in group.provider_ids
    await farm.lab.patch(POD, "web", {"metadata": {"finalizers": ["example.com/held"]}})
    farm.drain("a", victim)
    await farm.lab.until(
        NstanceShardGroup, "workers--a", lambda one: victim.provider_id not in one.status.provider_ids, timeout=200
    )
    hostile = await farm.add_instance("c", group="gpu")
    hostile.provider_id = victim.provider_id
    farm.drain("c", hostile)
    await asyncio.sleep(30)
    marked = (await farm.lab.get(NODE, "n1")).metadata.annotation(MachinesAnnotation.INSTANCE)
    assert marked == f"a/{victim.id}", "the mark decides which instance the Node goes with"
    await farm.lab.patch(POD, "web", {"metadata": {"finalizers": None}})


@pytest.mark.parametrize("form", ["bare", "full"])
async def test_a_listing_with_another_shards_instance_does_not_reach_a_pool(
    farm: Farm, victim: Instance, form: str
) -> None:
    """Cluster API deletes the Node of an id that a pool no longer lists."""
    hostile = await farm.add_instance("c", group="gpu")
    hostile.provider_id = names(victim, form)
    await farm.scale("gpu", 2)
    gpu = await farm.pool("gpu", lambda one: bool(one.spec.provider_id_list), timeout=400)
    await asyncio.sleep(200)
    gpu = await farm.lab.get(NstanceMachinePool, "gpu")
    assert not [one for one in gpu.spec.provider_id_list if victim.provider_id in one]
    assert len(gpu.spec.provider_id_list) == 1
    shown = (await farm.lab.client.list(EVENT, farm.lab.namespace)).items
    assert [one for one in shown if "recorded for another shard" in str(one.get("note"))]
    assert await farm.lab.find(NODE, "n1") is not None
    assert (await farm.pool()).spec.provider_id_list == (f"aws:///us-west-2a/{victim.provider_id}",)


async def test_a_machine_shows_no_instance_of_another_shard(farm: Farm, victim: Instance) -> None:
    await farm.create_machine("m1", failure_domain="c", group="solo")
    farm["c"].state.fleet.pace.boot = 100.0
    await farm.until(lambda: len(farm.on_demand()) == 1)
    [hostile] = [one for one in farm["c"].state.fleet.instances.values() if not one.managed]
    hostile.provider_id, hostile.status = victim.provider_id, RUNNING
    held = await farm.machine("m1", lambda one: one.condition("Ready").reason == "ProviderError", timeout=200)
    assert victim.provider_id not in (held.spec.provider_id or "")
    assert (await farm.lab.get(MACHINE, "m1")).status.get("nodeRef") is None


async def test_the_end_of_another_shards_instance_ends_no_machine(farm: Farm, victim: Instance) -> None:
    await farm.create_machine("m1", failure_domain="b", group="solo")
    made = await farm.machine("m1")
    assert made.status.instance_id is not None
    event = InstanceEvent(instance_id=made.status.instance_id, group="workers", status="deleted", reason="forged")
    farm["c"].state.instance_events.send(farm.world.tenant, event)
    await asyncio.sleep(120)
    assert (await farm.lab.get(NstanceMachine, "m1")).condition("Ready").is_true


async def test_a_response_about_another_group_is_refused(farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    await farm.start()
    answer: Any = farm["a"].state.upsert_group

    def confused(tenant: str, request: Any) -> GroupStatus:
        answer(tenant, request)
        return GroupStatus(key="other", size=99, etag="x")

    monkeypatch.setattr(farm["a"].state, "upsert_group", confused)
    await farm.create_pool(replicas=3)
    group = await farm.lab.until(
        NstanceShardGroup, "workers--a", lambda one: one.find_condition("Ready") is not None, timeout=100
    )
    assert (group.condition("Ready").is_true, "another group" in group.condition("Ready").message) == (False, True)
    assert group.status.config is None
