"""NstanceMachines with the doubles of Nstance and of Cluster API: creation, crashes, failures, the end of an instance, deletion."""

import asyncio

import pytest
from machines_lab import Farm

from konverge.crds.machines_v1beta1 import NstanceMachine
from konverge.reconcilers.machines.kinds import MACHINE, NODE
from konverge.reconcilers.machines.words import MachinesAnnotation
from konverge_testing.nstance import CallFault, Network


def reason_of(machine: NstanceMachine) -> str:
    ready = machine.find_condition("Ready")
    return "" if ready is None else ready.reason


@pytest.fixture
async def running(farm: Farm) -> Farm:
    for name in farm.world.shards:
        farm.set_static(name, 0)
    await farm.start()
    await farm.start_core()
    return farm


async def test_a_machine_gets_an_instance_and_the_fields_that_cluster_api_reads(running: Farm) -> None:
    """The original sets neither spec.providerID nor initialization.provisioned, and never checks again after CreateInstance."""
    await running.create_machine("m1", instanceType="c7.large", vars={"zone": "a"})
    made = await running.machine("m1")
    assert list(running.on_demand().values()) == ["running"]
    assert made.metadata.annotation(MachinesAnnotation.INSTANCE) == next(iter(running.on_demand()))
    assert made.status.shard == made.spec.failure_domain == made.status.failure_domain
    assert made.status.initialization is not None
    assert made.status.initialization.provisioned is True
    assert made.spec.provider_id == made.status.provider_id != ""
    owner = await running.lab.until(MACHINE, "m1", lambda one: one.status.get("phase") == "Provisioned", timeout=100)
    assert owner.spec["providerID"] == made.spec.provider_id
    assert owner.spec["failureDomain"] == made.status.shard
    sent = [
        call.request
        for shard in running.world.shards.values()
        for call in shard.calls
        if call.method == "CreateInstance"
    ]
    assert [(one.config.group, one.config.instance_type, dict(one.config.vars)) for one in sent] == [  # type: ignore[attr-defined]  # the message of this method
        ("workers", "c7.large", {"zone": "a"})
    ]


def shown(machine: NstanceMachine) -> dict[str, str]:
    return {one.type: one.address for one in machine.status.addresses}


async def report_and_await(farm: Farm, **addresses: str) -> None:
    """Let the kubelet of n1 report addresses, and wait until NstanceMachine and Machine show them."""
    await farm.show_addresses("n1", **addresses)
    await farm.machine("m1", lambda one: shown(one) == addresses, timeout=5)
    listed = [{"type": type_, "address": address} for type_, address in addresses.items()]
    await farm.lab.until(MACHINE, "m1", lambda one: one.status.get("addresses") == listed, timeout=5)


async def test_addresses_that_a_node_reports_late_or_changes_are_shown_at_once(running: Farm) -> None:
    await running.create_machine("m1")
    full = f"aws:///us-west-2a/{(await running.machine('m1')).status.provider_id}"
    await running.add_node("n1", full)
    found = await running.machine("m1", lambda one: one.spec.provider_id == full)
    await asyncio.sleep(100)
    assert shown(found) == {}
    for address in ("10.0.0.2", "10.0.0.3"):
        await report_and_await(running, InternalIP=address, Hostname="n1")


async def test_provider_id_of_the_node_replaces_the_bare_id_with_addresses(running: Farm) -> None:
    await running.create_machine("m1")
    bare = (await running.machine("m1")).status.provider_id
    full = f"aws:///us-west-2a/{bare}"
    await running.add_node("n1", full, InternalIP="10.0.0.2", Hostname="n1")
    found = await running.machine("m1", lambda one: one.spec.provider_id == full and bool(one.status.addresses))
    assert found.status.provider_id == bare
    assert shown(found) == {"InternalIP": "10.0.0.2", "Hostname": "n1"}
    await running.lab.until(MACHINE, "m1", lambda one: one.spec.get("providerID") == full, timeout=100)
    await running.lab.until(MACHINE, "m1", lambda one: one.status.get("nodeRef") == {"name": "n1"}, timeout=100)


@pytest.fixture
async def unconnected(farm: Farm) -> Farm:
    """The core of Cluster API has no connection to the cluster of the Nodes, so it pairs no Node."""
    for name in farm.world.shards:
        farm.set_static(name, 0)
    await farm.start()
    await farm.start_core(kubeconfig=False)
    return farm


async def test_the_node_is_written_into_the_machine_and_outlives_it(unconnected: Farm) -> None:
    """As in the recording machine-noderef-by-provider: phase Running without a connection, and the Node stays."""
    lab = unconnected.lab
    await unconnected.create_machine("m1")
    bare = (await unconnected.machine("m1")).status.provider_id
    assert "nodeRef" not in (await lab.get(MACHINE, "m1")).status
    await unconnected.add_node("n1", f"aws:///us-west-2a/{bare}")
    owner = await lab.until(MACHINE, "m1", lambda one: one.status.get("phase") == "Running", timeout=30)
    assert owner.status["nodeRef"] == {"name": "n1"}
    await lab.delete(MACHINE, "m1")
    await lab.until_gone(MACHINE, "m1", timeout=100)
    assert (await lab.client.get(NODE, "n1")).name == "n1"


@pytest.mark.parametrize("before", ["a nodeRef", "two nodes", "a node that goes"])
async def test_no_node_is_written_that_may_be_another_one(unconnected: Farm, before: str) -> None:
    lab = unconnected.lab
    await unconnected.create_machine("m1")
    bare = (await unconnected.machine("m1")).status.provider_id
    full, expected = f"aws:///us-west-2a/{bare}", None
    await unconnected.pause(True)
    await unconnected.machine("m1", lambda one: one.condition("Paused").is_true)
    if before == "a nodeRef":
        await lab.patch(MACHINE, "m1", {"status": {"nodeRef": {"name": "by-hand"}}}, subresource="status")
        expected = {"name": "by-hand"}
    if before == "two nodes":
        await unconnected.add_node("n2", full)
    if before == "a node that goes":
        held = {"name": "n1", "finalizers": ["tests.konverge.dev/held"]}
        await lab.client.create(NODE.decode({"metadata": held, "spec": {"providerID": full}}))
        await lab.client.delete(NODE, "n1")
    else:
        await unconnected.add_node("n1", full)
    await unconnected.pause(False)
    await asyncio.sleep(150)
    assert (await lab.get(MACHINE, "m1")).status.get("nodeRef") == expected


async def test_the_failure_domain_of_the_machine_is_the_shard(running: Farm) -> None:
    for name in ("a", "b", "c"):
        await running.create_machine(f"on-{name}", failure_domain=name)
    for name in ("a", "b", "c"):
        assert (await running.machine(f"on-{name}")).status.shard == name
    await running.create_machine("lost", failure_domain="nowhere")
    lost = await running.machine("lost", lambda one: reason_of(one) == "Invalid")
    assert (lost.condition("Ready").reason, "nowhere" in lost.condition("Ready").message) == ("Invalid", True)


async def test_nothing_is_created_before_the_machine_owns_it(running: Farm) -> None:
    await running.lab.create(
        NstanceMachine.decode({"metadata": {"name": "m1"}, "spec": {"groupRef": {"name": "workers"}}})
    )
    waiting = await running.machine("m1", lambda one: one.find_condition("Ready") is not None)
    assert waiting.condition("Ready").reason == "WaitingForMachine"
    await asyncio.sleep(120)
    assert running.on_demand() == {}
    await running.create_owner("m1")
    await running.machine("m1")


@pytest.mark.parametrize("fault", list(CallFault))
async def test_creation_with_a_lost_response_ends_in_one_instance(running: Farm, fault: CallFault) -> None:
    for shard in running.world.shards.values():
        shard.faults.add("CreateInstance", fault, times=2)
    await running.create_machine("m1")
    await running.machine("m1", timeout=400)
    assert list(running.on_demand().values()) == ["running"]


@pytest.mark.parametrize("fault", list(CallFault))
async def test_a_deletion_whose_response_is_lost_in_any_way_leaves_no_instance(running: Farm, fault: CallFault) -> None:
    await running.create_machine("m1")
    await running.machine("m1")
    for shard in running.world.shards.values():
        shard.faults.add("DeleteInstance", fault, times=2)
    await running.lab.delete(MACHINE, "m1")
    await running.lab.until_gone(NstanceMachine, "m1", timeout=400)
    assert set(running.on_demand().values()) <= {"deleting", "deleted"}
    await running.lab.until_gone(MACHINE, "m1", timeout=100)


async def test_an_instance_stays_on_its_shard_though_the_shard_is_away(running: Farm) -> None:
    await running.create_machine("m1", failure_domain="b")
    await running.machine("m1")
    running["b"].faults.network = Network.REFUSED
    running["b"].reset()
    away = await running.machine("m1", lambda one: one.condition("Ready").reason == "ShardUnreachable", timeout=200)
    assert away.status.initialization is not None
    assert away.status.initialization.provisioned, "it stays provisioned"
    await running.lab.delete(MACHINE, "m1")
    await asyncio.sleep(60)
    assert await running.lab.find(NstanceMachine, "m1") is not None
    running["b"].faults.network = Network.OPEN
    await running.lab.until_gone(NstanceMachine, "m1", timeout=100)
    assert len(running.on_demand()) <= 1


async def test_an_unknown_group_is_reported_and_heals_when_the_group_is_there(running: Farm) -> None:
    await running.create_machine("m1", group="gpu")
    failed = await running.machine("m1", lambda one: reason_of(one) == "ProviderError")
    assert 'group "gpu" not found' in failed.condition("Ready").message
    for name in running.world.shards:
        running.set_static(name, 0, group="gpu")
    await running.machine("m1", timeout=400)


@pytest.mark.parametrize("sends", [True, False])
async def test_an_instance_that_the_server_deletes_takes_its_machine_along(running: Farm, sends: bool) -> None:
    for shard in running.world.shards.values():
        shard.state.sends_deleted = sends
    await running.create_machine("m1")
    made = await running.machine("m1")
    assert made.status.shard is not None
    fleet = running[made.status.shard].state.fleet
    assert made.status.instance_id is not None
    fleet.delete(fleet.instances[made.status.instance_id], "spot interruption")
    await running.lab.until_gone(MACHINE, "m1", timeout=300)
    assert await running.lab.find(NstanceMachine, "m1") is None
    assert sum(shard.called("CreateInstance") for shard in running.world.shards.values()) == 1, "it is not replaced"
    assert sum(shard.called("DeleteInstance") for shard in running.world.shards.values()) == 0


async def test_a_copied_object_shares_no_instance_with_the_first(running: Farm) -> None:
    await running.create_machine("m1")
    place = (await running.machine("m1")).metadata.annotation(MachinesAnnotation.INSTANCE)
    copy = {
        "metadata": {"name": "m2", "annotations": {MachinesAnnotation.INSTANCE: place}},
        "spec": {"groupRef": "workers"},
    }
    await running.lab.create(NstanceMachine.decode(copy))
    await running.create_owner("m2")
    second = await running.machine("m2")
    assert second.metadata.annotation(MachinesAnnotation.INSTANCE) != place
    assert len(running.on_demand()) == 2


async def test_an_annotation_that_is_removed_by_hand_makes_no_second_instance(running: Farm) -> None:
    await running.create_machine("m1")
    await running.machine("m1")
    await running.lab.patch(NstanceMachine, "m1", {"metadata": {"annotations": {MachinesAnnotation.INSTANCE: None}}})
    await asyncio.sleep(100)
    assert len(running.on_demand()) == 1


async def test_a_paused_cluster_creates_nothing_and_shows_it(running: Farm) -> None:
    await running.pause(True)
    await running.create_machine("m1")
    paused = await running.machine("m1", lambda one: one.find_condition("Paused") is not None)
    assert paused.condition("Paused").is_true
    await asyncio.sleep(100)
    assert running.on_demand() == {}
    await running.pause(False)
    assert not (await running.machine("m1")).condition("Paused").is_true


async def test_machine_deleted_in_a_paused_cluster_keeps_its_instance_until_resumed(running: Farm) -> None:
    """`clusterctl move` deletes the paused copies of the source."""
    await running.create_machine("m1")
    await running.machine("m1")
    instances = running.on_demand()
    assert instances
    await running.pause(True)
    await running.machine("m1", lambda one: one.condition("Paused").is_true)
    await running.lab.client.delete(NstanceMachine, "m1", running.lab.namespace)
    await asyncio.sleep(120)
    assert running.on_demand() == instances
    assert sum(shard.called("DeleteInstance") for shard in running.world.shards.values()) == 0
    await running.pause(False)
    await running.lab.until_gone(NstanceMachine, "m1", timeout=300)
    assert set(running.on_demand().values()) <= {"deleting"}


async def test_machine_of_a_shard_outside_the_document_waits_with_the_remedy(running: Farm) -> None:
    await running.create_machine("m1", failure_domain="c")
    await running.machine("m1")
    await running.write_document("a", "b")
    await asyncio.sleep(20)
    await running.lab.delete(MACHINE, "m1")
    waiting = await running.machine("m1", lambda one: one.condition("Ready").reason == "DeleteFailed", timeout=100)
    assert "is not in the document of shards: add it" in waiting.condition("Ready").message
    await running.write_document("a", "b", "c")
    await running.lab.until_gone(NstanceMachine, "m1", timeout=200)


async def test_an_instance_that_the_server_forgot_is_not_replaced(running: Farm) -> None:
    await running.create_machine("m1")
    made = await running.machine("m1")
    assert made.status.shard is not None
    assert made.status.instance_id is not None
    del running[made.status.shard].state.fleet.instances[made.status.instance_id]
    await running.lab.until_gone(MACHINE, "m1", timeout=300)
    assert sum(shard.called("CreateInstance") for shard in running.world.shards.values()) == 1
    assert running.on_demand() == {}
