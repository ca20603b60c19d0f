"""Pools over shards: import, distribution, scaling, static groups, provider ids, duplicates, deletion, pause."""

import asyncio
from typing import Any

import pytest
from machines_lab import NAME, Farm

from konverge.crds.machines_v1beta1 import NstanceCluster, NstanceMachine, NstanceMachinePool, NstanceShardGroup
from konverge.errors import Invalid
from konverge.kinds import kind
from konverge.reconcilers.machines.kinds import CLUSTER, MACHINE_POOL, NODE
from konverge.runtime.http.health import checks_of
from konverge_testing.nstance import CallFault, GroupSpec, Network

EVENT = kind("events.k8s.io/v1", "Event", namespaced=True, plural="events")


async def test_groups_of_the_servers_become_pools_with_the_sum_of_their_sizes(farm: Farm) -> None:
    farm.set_static("a", 3)
    farm.set_static("b", 2, vars={"zone": "b"})
    farm["c"].groups.dynamic["gpu"] = GroupSpec("std", 1, "p5", "private")
    await farm.start()
    workers, gpu = await farm.pool("workers"), await farm.pool("gpu")
    assert (workers.spec.shards, workers.spec.template, workers.spec.vars) == (("a", "b"), None, {"zone": "b"})
    assert (gpu.spec.shards, gpu.spec.template, gpu.spec.instance_type) == (("c",), "std", "p5")
    assert (workers.status.is_static, gpu.status.is_static) == (True, False)
    assert workers.status.template == "std"
    machine_pool = await farm.lab.get(MACHINE_POOL, "workers")
    assert machine_pool.spec["replicas"] == 5
    assert machine_pool.spec["template"]["spec"]["infrastructureRef"]["name"] == "workers"
    assert farm.sizes() == {"a": 3, "b": 2}
    cluster = await farm.lab.get(CLUSTER, NAME)
    assert cluster.spec["infrastructureRef"]["name"] == NAME


async def test_replicas_are_spread_over_shards_scaled_and_shown(farm: Farm) -> None:
    await farm.start()
    await farm.create_pool(replicas=5)
    pool = await farm.pool()
    assert farm.sizes() == {"a": 2, "b": 2, "c": 1}
    assert pool.status.observed_owner_generation == 1
    await farm.scale("workers", 7)
    await farm.until(lambda: farm.sizes() == {"a": 3, "b": 2, "c": 2})
    await farm.scale("workers", 1)
    await farm.until(lambda: farm.sizes() == {"a": 1, "b": 0, "c": 0})
    pool = await farm.pool(test=lambda one: one.status.replicas == 1 and len(one.spec.provider_id_list) == 1)
    assert pool.status.ready is True


def silent(cluster: NstanceCluster) -> bool:
    condition = cluster.find_condition("ShardsReachable")
    return condition is not None and "no response" in condition.message


async def test_nothing_is_imported_before_every_shard_has_listed_its_groups(farm: Farm) -> None:
    """The original stops its sync for good if a shard is unreachable at the start, and looks healthy."""
    farm.set_static("a", 2)
    farm["b"].faults.network = Network.SILENT
    await farm.start(wait=False)
    cluster = await farm.cluster(silent)
    assert cluster.condition("ShardsReachable").reason == "ShardUnreachable"
    assert cluster.condition("Ready").is_true
    assert await farm.lab.find(NstanceMachinePool, "workers") is None
    farm.set_static("b", 1)
    farm["b"].faults.network = Network.OPEN
    await farm.pool()
    assert (await farm.lab.get(MACHINE_POOL, "workers")).spec["replicas"] == 3


async def test_static_group_of_a_deleted_pool_is_imported_after_every_shard_relisted(farm: Farm) -> None:
    for name in farm.world.shards:
        farm.set_static(name, 2)
    await farm.start()
    await farm.pool()
    await farm.lab.delete(MACHINE_POOL, "workers")
    await farm.lab.delete(NstanceMachinePool, "workers")
    await farm.lab.until_gone(NstanceMachinePool, "workers")
    farm["b"].faults.network = Network.REFUSED
    farm["b"].reset()
    await asyncio.sleep(300)
    assert await farm.lab.find(NstanceMachinePool, "workers") is None
    farm["b"].faults.network = Network.OPEN
    again = await farm.pool()
    assert again.spec.shards == ("a", "b", "c")
    assert (await farm.lab.get(MACHINE_POOL, "workers")).spec["replicas"] == 6


async def test_a_shard_that_is_added_pauses_imports_until_it_was_heard(farm: Farm) -> None:
    await farm.start()
    farm.world.add_shard("d").faults.network = Network.REFUSED
    await farm.write_document("a", "b", "c", "d")
    await farm.cluster(lambda one: [domain.name for domain in one.status.failure_domains] == ["a", "b", "c", "d"])
    farm.set_static("a", 2)
    await asyncio.sleep(90)
    assert await farm.lab.find(NstanceMachinePool, "workers") is None
    farm["d"].faults.network = Network.OPEN
    await farm.pool()


async def test_a_dead_shard_delays_no_other_is_shown_and_catches_up(farm: Farm) -> None:
    """The original calls servers without a deadline, and never resets ShardReachable=False."""
    await farm.start()
    await farm.create_pool(replicas=3)
    await farm.pool()
    farm["b"].faults.network = Network.SILENT
    await farm.lab.until(
        NstanceShardGroup, "workers--b", lambda one: not one.condition("ShardReachable").is_true, timeout=100
    )
    await farm.scale("workers", 9)
    await farm.until(lambda: farm.sizes() == {"a": 3, "b": 1, "c": 3}, timeout=5)
    pool = await farm.pool(test=lambda one: not one.condition("Ready").is_true)
    assert "b: the shard does not have the present settings" in pool.condition("Ready").message
    assert pool.status.ready is True, "once true it stays, or Cluster API takes the pool back"
    farm["b"].faults.network = Network.OPEN
    await farm.pool()
    assert farm.sizes() == {"a": 3, "b": 3, "c": 3}
    group = await farm.lab.get(NstanceShardGroup, "workers--b")
    assert group.condition("ShardReachable").is_true


def readiness(farm: Farm) -> tuple[bool, str]:
    """Return whether the process is ready, and the line of the link to the servers."""
    report = farm.lab.manager.report()
    (line,) = [one.line() for one in checks_of(report) if one.name == "background/nstance"]
    return bool(report), line


async def test_readiness_names_the_shards_that_are_away_and_stays_ready(farm: Farm) -> None:
    await farm.start()
    await farm.lab.manager.wait_ready()
    assert readiness(farm) == (True, "[+]background/nstance ok")
    farm["b"].faults.network = Network.REFUSED
    farm["b"].reset()
    await farm.cluster(lambda one: not one.condition("ShardsReachable").is_true)
    ready, line = readiness(farm)
    assert ready
    assert "[+]background/nstance ok (1 of 3 shards cannot be asked: b: " in line
    farm["b"].faults.network = Network.OPEN
    await farm.cluster(lambda one: one.condition("ShardsReachable").is_true)
    assert readiness(farm) == (True, "[+]background/nstance ok")


async def test_pool_is_not_ready_for_a_change_no_shard_has_accepted(farm: Farm) -> None:
    """The original derives Ready from conditions of the former settings."""
    await farm.start()
    await farm.create_pool(replicas=3)
    await farm.pool()
    for shard in farm.world.shards.values():
        shard.faults.add("UpsertGroup", CallFault.UNAVAILABLE, times=2)
    await farm.lab.patch(NstanceMachinePool, "workers", {"spec": {"instanceType": "c7.large"}})
    pool = await farm.pool(test=lambda one: not one.condition("Ready").is_true)
    assert pool.condition("Ready").reason == "Reconciling"
    await farm.pool()
    assert farm["a"].groups.dynamic["workers"].instance_type == "c7.large"


async def test_a_change_or_deletion_on_the_server_is_undone(farm: Farm) -> None:
    """The original does not notice drift and deletions on the server while the generation is unchanged."""
    await farm.start()
    await farm.create_pool(replicas=3, instanceType="c7.large")
    await farm.pool()
    del farm["a"].groups.dynamic["workers"]
    farm["b"].groups.dynamic["workers"] = GroupSpec("std", 8, "huge", "private")
    await farm.until(lambda: farm.sizes() == {"a": 1, "b": 1, "c": 1}, timeout=40)
    assert farm["b"].groups.dynamic["workers"].instance_type == "c7.large"


async def test_settings_of_the_server_are_shown_and_never_written_into_a_spec(farm: Farm) -> None:
    """The original copies vars and instance types from servers into specs, which then flap between shards."""
    await farm.start()
    await farm.create_pool(replicas=3, shards=["c", "b", "a"])
    pool = await farm.pool()
    farm.set_static("a", 1, instance_type="c7.small", vars={"zone": "a"})
    farm.set_static("b", 1, instance_type="c7.large", vars={"zone": "b"})
    await asyncio.sleep(120)
    again = await farm.lab.get(NstanceMachinePool, "workers")
    assert again.spec.model_copy(update={"provider_id_list": ()}) == pool.spec.model_copy(
        update={"provider_id_list": ()}
    )
    assert again.spec.shards == ("c", "b", "a"), "the order is the user's: the static webhook compares it"
    assert (again.spec.vars, again.spec.instance_type) == (None, None)
    group = await farm.lab.get(NstanceShardGroup, "workers--b")
    assert group.status.config is not None
    assert (group.status.config.instance_type, group.status.config.vars) == ("c7.large", {"zone": "b"})


def config_valid(group: NstanceShardGroup) -> tuple[bool, str]:
    found = group.find_condition("ConfigValid")
    return (False, "") if found is None else (found.is_true, found.reason)


async def test_removed_var_is_shown_as_kept_by_the_server(farm: Farm) -> None:
    """The original leaves the group on the server without a report."""
    await farm.start()
    await farm.create_pool(replicas=3, vars={"zone": "b", "tier": "x"})
    await farm.pool()
    await farm.lab.patch(NstanceMachinePool, "workers", {"spec": {"vars": {"tier": None}}})
    kept = await farm.lab.until(
        NstanceShardGroup, "workers--a", lambda one: config_valid(one) == (False, "VarsNotRemovable")
    )
    assert "the server keeps the vars tier, which the spec does not name" in kept.condition("ConfigValid").message
    assert (await farm.pool()).condition("Ready").is_true, "all other settings are there"
    await farm.lab.patch(NstanceMachinePool, "workers", {"spec": {"vars": {"tier": ""}}})
    await farm.lab.until(NstanceShardGroup, "workers--a", lambda one: config_valid(one) == (True, "Valid"))


async def test_vars_of_a_static_group_are_not_left_over(farm: Farm) -> None:
    farm.set_static("a", 2, vars={"zone": "a"})
    await farm.start()
    await farm.pool()
    await farm.lab.patch(NstanceMachinePool, "workers", {"spec": {"vars": None}})
    await farm.pool()
    assert config_valid(await farm.lab.get(NstanceShardGroup, "workers--a")) == (True, "Valid")


async def test_settings_that_a_static_group_lacks_are_shown_and_can_be_fixed(farm: Farm) -> None:
    await farm.start()
    await farm.create_pool(replicas=1, shards=["a"], subnets=["private"])
    await farm.pool()
    farm["a"].set_static("workers", GroupSpec("fixed", 1, subnet_pool="private"))
    await farm.pool(test=lambda one: bool(one.status.is_static))
    group = await farm.lab.until(
        NstanceShardGroup, "workers--a", lambda one: config_valid(one) == (False, "StaticSettings"), timeout=100
    )
    assert "template is 'std' here and 'fixed' on the shard" in group.condition("ConfigValid").message
    assert "except for those that ConfigValid names" in group.condition("Ready").message
    with pytest.raises(Invalid, match="the group is static"):
        await farm.lab.patch(NstanceMachinePool, "workers", {"spec": {"template": "arm"}})
    await farm.scale("workers", 4)
    await farm.until(lambda: farm.sizes() == {"a": 4})
    await farm.lab.patch(NstanceMachinePool, "workers", {"spec": {"template": "fixed", "instanceType": "c7.large"}})
    await farm.lab.until(NstanceShardGroup, "workers--a", lambda one: config_valid(one) == (True, "Valid"))


async def test_template_unknown_to_the_server_is_an_invalid_group_setting(farm: Farm) -> None:
    await farm.start()
    await farm.create_pool(replicas=4, shards=["a"], template="other")
    group = await farm.lab.until(
        NstanceShardGroup, "workers--a", lambda one: not one.condition("Ready").is_true, timeout=100
    )
    assert group.condition("ConfigValid").reason == "ConfigValidationFailed"
    assert "failed to upsert group" in group.condition("Ready").message
    await farm.lab.patch(NstanceMachinePool, "workers", {"spec": {"template": "std"}})
    await farm.pool(timeout=400)
    assert farm.sizes() == {"a": 4}


async def test_full_provider_ids_are_published_and_stay_when_their_node_goes(farm: Farm) -> None:
    """The original lists bare ids, which Cluster API pairs with no Node; a return to bare ids would delete live Nodes."""
    await farm.start()
    await farm.create_pool(replicas=1, shards=["a"])
    pool = await farm.pool(test=lambda one: len(one.spec.provider_id_list) == 1)
    (bare,) = pool.spec.provider_id_list
    await farm.add_node("node-1", f"aws:///us-west-2a/{bare}")
    await farm.add_node("node-2", "dev:///other")
    await farm.pool(test=lambda one: one.spec.provider_id_list == (f"aws:///us-west-2a/{bare}",), timeout=5)
    await farm.lab.client.delete(NODE, "node-1")
    await farm.scale("workers", 2)
    pool = await farm.pool(test=lambda one: len(one.spec.provider_id_list) == 2)
    assert f"aws:///us-west-2a/{bare}" in pool.spec.provider_id_list


async def test_younger_pool_of_a_shared_group_is_a_duplicate_without_server_calls(farm: Farm) -> None:
    """The original marks both duplicates, and the deletion of the duplicate deletes the group of the other pool."""
    await farm.start()
    await farm.create_pool(replicas=3)
    await farm.pool()
    await farm.lab.create(
        NstanceMachinePool.new("twin", spec=(await farm.pool()).spec.model_copy(update={"provider_id_list": ()}))
    )
    await farm.create_machine_pool("twin", 9)
    twin = await farm.pool("twin", lambda one: one.find_condition("Ready") is not None)
    assert twin.condition("Ready").reason == "DuplicateGroup"
    assert (await farm.pool()).condition("Ready").is_true
    await farm.lab.delete(NstanceMachinePool, "twin")
    await farm.lab.until_gone(NstanceMachinePool, "twin")
    await asyncio.sleep(60)
    assert farm.sizes() == {"a": 1, "b": 1, "c": 1}
    assert sum(shard.called("DeleteGroup") for shard in farm.world.shards.values()) == 0


async def test_a_duplicate_takes_over_when_the_other_pool_is_gone(farm: Farm) -> None:
    await farm.start()
    await farm.create_pool(replicas=3)
    await farm.pool()
    await farm.lab.create(NstanceMachinePool.new("twin", spec=(await farm.pool()).spec))
    await farm.create_machine_pool("twin", 6)
    await farm.pool("twin", lambda one: one.find_condition("Ready") is not None)
    await farm.lab.delete(MACHINE_POOL, "workers")
    await farm.lab.delete(NstanceMachinePool, "workers")
    await farm.lab.until_gone(NstanceMachinePool, "workers", timeout=60)
    await farm.pool("twin")
    assert farm.sizes() == {"a": 2, "b": 2, "c": 2}


async def test_deleted_pool_deletes_its_group_once_on_each_shard_for_good(farm: Farm) -> None:
    """In the original both the pool and its shard groups delete the group."""
    await farm.start()
    await farm.create_pool(replicas=3)
    await farm.pool()
    farm["c"].faults.network = Network.REFUSED
    farm["c"].reset()
    await farm.lab.delete(MACHINE_POOL, "workers")
    await farm.lab.delete(NstanceMachinePool, "workers")
    await farm.lab.until_gone(NstanceShardGroup, "workers--b")
    await asyncio.sleep(60)
    assert farm.sizes() == {"c": 1}
    assert (await farm.lab.get(NstanceMachinePool, "workers")).condition("Ready").message == "waits for workers--c"
    farm["c"].faults.network = Network.OPEN
    await farm.lab.until_gone(NstanceMachinePool, "workers", timeout=100)
    await asyncio.sleep(60)
    assert farm.sizes() == {}
    assert [shard.called("DeleteGroup") for shard in farm.world.shards.values()] == [1, 1, 1]
    assert await farm.lab.find(NstanceMachinePool, "workers") is None


async def test_a_shard_that_left_the_document_blocks_no_deletion(farm: Farm) -> None:
    """The original waits for the shard for ever."""
    await farm.start()
    await farm.create_pool(replicas=3)
    await farm.pool()
    await farm.write_document("a", "b")
    pool = await farm.pool(test=lambda one: not one.condition("Ready").is_true)
    assert (pool.condition("Ready").reason, pool.condition("Ready").message) == (
        "Invalid",
        "the document of shards does not name c",
    )
    assert farm.sizes() == {"a": 1, "b": 1, "c": 1}
    await farm.lab.delete(MACHINE_POOL, "workers")
    await farm.lab.delete(NstanceMachinePool, "workers")
    await farm.lab.until_gone(NstanceMachinePool, "workers", timeout=60)
    assert farm.sizes() == {"c": 1}


async def test_a_shard_that_a_pool_no_longer_names_loses_its_group(farm: Farm) -> None:
    await farm.start()
    await farm.create_pool(replicas=6)
    await farm.pool()
    await farm.lab.patch(NstanceMachinePool, "workers", {"spec": {"shards": ["a", "b"]}})
    await farm.lab.until_gone(NstanceShardGroup, "workers--c")
    await farm.pool()
    assert farm.sizes() == {"a": 3, "b": 3}


async def test_a_paused_cluster_or_pool_is_left_alone(farm: Farm) -> None:
    """The original knows no pause."""
    await farm.start()
    await farm.create_pool(replicas=3)
    await farm.pool()
    await farm.pause(True)
    await farm.pool(test=lambda one: one.condition("Paused").is_true)
    await farm.cluster(lambda one: one.condition("Paused").is_true)
    farm.set_static("a", 5, group="other")
    await farm.scale("workers", 9)
    farm["a"].groups.dynamic["workers"] = GroupSpec("std", 2, subnet_pool="private")
    await asyncio.sleep(120)
    assert farm.sizes() == {"a": 2, "b": 1, "c": 1}
    assert await farm.lab.find(NstanceMachinePool, "other") is None
    await farm.pause(False)
    await farm.until(lambda: farm.sizes() == {"a": 3, "b": 3, "c": 3})
    await farm.pool("other")
    annotation = {"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}}
    await farm.lab.patch(NstanceMachinePool, "workers", annotation)
    await farm.pool(test=lambda one: one.condition("Paused").is_true)
    await farm.scale("workers", 3)
    await asyncio.sleep(60)
    assert farm.sizes() == {"a": 3, "b": 3, "c": 3}


async def test_paused_shard_group_is_skipped_while_its_pool_is_reconciled(farm: Farm) -> None:
    await farm.start()
    await farm.create_pool(replicas=3)
    await farm.pool()
    paused = {"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}}
    await farm.lab.patch(NstanceShardGroup, "workers--a", paused)
    await farm.scale("workers", 9)
    await farm.until(lambda: farm.sizes() == {"a": 1, "b": 3, "c": 3}, timeout=20)
    await asyncio.sleep(60)
    assert farm.sizes() == {"a": 1, "b": 3, "c": 3}
    await farm.lab.delete(NstanceMachinePool, "workers")
    await farm.lab.until_gone(NstanceShardGroup, "workers--b")
    await asyncio.sleep(60)
    assert farm.sizes() == {"a": 1}
    await farm.lab.patch(
        NstanceShardGroup, "workers--a", {"metadata": {"annotations": {"cluster.x-k8s.io/paused": None}}}
    )
    await farm.lab.until_gone(NstanceMachinePool, "workers", timeout=60)
    assert farm.sizes() == {}


async def test_pool_deleted_in_a_paused_cluster_keeps_its_groups_until_resumed(farm: Farm) -> None:
    await farm.start()
    await farm.create_pool(replicas=3)
    await farm.pool()
    await farm.until(lambda: sum(farm.sizes().values()) == 3)
    sizes = farm.sizes()
    await farm.pause(True)
    await farm.pool(test=lambda one: one.condition("Paused").is_true)
    groups = await farm.lab.client.list(NstanceShardGroup, farm.lab.namespace)
    await farm.lab.client.delete(NstanceMachinePool, "workers", farm.lab.namespace)
    await farm.lab.client.delete(NstanceShardGroup, groups.items[0].name, farm.lab.namespace)
    await asyncio.sleep(120)
    assert farm.sizes() == sizes
    assert sum(shard.called("DeleteGroup") for shard in farm.world.shards.values()) == 0
    await farm.pause(False)
    await farm.lab.until_gone(NstanceMachinePool, "workers", timeout=300)
    assert sum(farm.sizes().values()) == 0


@pytest.mark.parametrize(
    "wrong", [{"template": "t" * 600}, {"vars": {"user-data": "x" * 5000}}], ids=["a long template", "a long variable"]
)
async def test_group_that_no_pool_can_hold_blocks_no_other_import(farm: Farm, wrong: dict[str, Any]) -> None:
    given: dict[str, Any] = {"template": "std", "vars": {}, **wrong}
    farm["a"].groups.dynamic["aaa"] = GroupSpec(given["template"], 2, vars=given["vars"])
    farm["a"].groups.dynamic["bbb"] = GroupSpec("std", 2, subnet_pool="private")
    await farm.start()
    await farm.pool("bbb")
    assert await farm.lab.find(NstanceMachinePool, "aaa") is None
    events = await farm.lab.client.list(EVENT, farm.lab.namespace)
    said = [one.get("note") for one in events if one.get("reason") == "NotImported"]
    assert len(said) == 1
    assert "'aaa' is not imported" in str(said[0])


async def test_a_machine_pool_that_was_deleted_is_not_made_again(farm: Farm) -> None:
    await farm.start()
    await farm.create_pool(replicas=3)
    await farm.pool()
    await farm.lab.delete(MACHINE_POOL, "workers")
    pool = await farm.pool(test=lambda one: not one.condition("Ready").is_true)
    assert pool.condition("Ready").message.startswith("its MachinePool is gone: ")
    await asyncio.sleep(60)
    assert await farm.lab.find(MACHINE_POOL, "workers") is None
    assert farm.sizes() == {"a": 1, "b": 1, "c": 1}


async def test_a_pool_without_machine_pool_gets_one_that_scales_nothing(farm: Farm) -> None:
    farm["a"].groups.dynamic["workers"] = GroupSpec("std", 4, subnet_pool="private")
    farm.world.shards["b"].faults.network = Network.REFUSED
    await farm.start(wait=False)
    await farm.create_pool(replicas=None, shards=["a"])
    pool = await farm.pool(test=lambda one: one.find_condition("Ready") is not None)
    assert pool.condition("Ready").reason == "Reconciling"
    await asyncio.sleep(60)
    assert await farm.lab.find(MACHINE_POOL, "workers") is None, "the size of the group is not known yet"
    farm["b"].faults.network = Network.OPEN
    await farm.pool()
    assert (await farm.lab.get(MACHINE_POOL, "workers")).spec["replicas"] == 4
    assert farm.sizes() == {"a": 4}


async def test_node_keeps_its_id_in_the_pool_until_its_drain_ends(farm: Farm) -> None:
    """Cluster API deletes the Node of a removed id: its pods would be lost before the drain."""
    for shard in farm.world.shards.values():
        shard.state.fleet.pace.drain_timeout = 120
        shard.faults.add("AcknowledgeDrained", CallFault.UNAVAILABLE, times=1000)  # so the drain lasts until its end
    await farm.start()
    await farm.start_core()
    await farm.create_pool(replicas=2, shards=["a"])
    pool = await farm.pool(test=lambda one: len(one.spec.provider_id_list) == 2)
    full = sorted(f"aws:///us-west-2a/{one.rpartition('/')[2]}" for one in pool.spec.provider_id_list)
    for number, one in enumerate(full):
        await farm.add_node(f"n{number}", one)
    await farm.pool(test=lambda one: list(one.spec.provider_id_list) == full)
    await farm.lab.until(MACHINE_POOL, "workers", lambda one: len(one.status.get("nodeRefs", ())) == 2, timeout=100)
    await farm.scale("workers", 1)
    await farm.until(lambda: farm.sizes() == {"a": 1})
    await asyncio.sleep(60)
    assert list((await farm.lab.get(NstanceMachinePool, "workers")).spec.provider_id_list) == full
    await farm.pool(test=lambda one: len(one.spec.provider_id_list) == 1, timeout=200)
    await farm.lab.until(MACHINE_POOL, "workers", lambda one: len(one.status.get("nodeRefs", ())) == 1, timeout=100)
    assert len((await farm.lab.client.list(NODE)).items) == 1


async def test_node_that_registers_after_its_instance_gets_its_full_id_at_once(farm: Farm) -> None:
    """The Node's kubelet may also register it first, and learn the provider id later."""
    await farm.start()
    await farm.create_pool(replicas=2, shards=["a"])
    pool = await farm.pool(test=lambda one: len(one.spec.provider_id_list) == 2)
    first, second = pool.spec.provider_id_list
    await farm.add_node("n1", f"aws:///us-west-2a/{first}")
    await farm.pool(test=lambda one: f"aws:///us-west-2a/{first}" in one.spec.provider_id_list, timeout=1)
    await farm.lab.client.create(NODE.new("n2"))
    await asyncio.sleep(5)
    patch = {"spec": {"providerID": f"aws:///us-west-2a/{second}"}}
    await farm.lab.client.patch(NODE, "n2", patch=patch, style="merge")
    full = sorted(f"aws:///us-west-2a/{one}" for one in (first, second))
    await farm.pool(test=lambda one: list(one.spec.provider_id_list) == full, timeout=1)


async def test_returning_node_is_paired_in_a_cluster_that_is_not_initialized(farm: Farm) -> None:
    """Cluster API does not watch the Nodes of such a Cluster, and the pool already has the id: a change of the status wakes Cluster API."""
    await farm.start()
    await farm.start_core()
    await farm.create_pool(replicas=1, shards=["a"])
    pool = await farm.pool(test=lambda one: len(one.spec.provider_id_list) == 1)
    full = f"aws:///us-west-2a/{pool.spec.provider_id_list[0]}"

    async def paired(*names: str) -> None:
        await farm.lab.until(
            MACHINE_POOL,
            "workers",
            lambda one: [node["name"] for node in one.status.get("nodeRefs", ())] == list(names),
            timeout=25,
        )

    await farm.add_node("n1", full)
    await paired("n1")
    await farm.pool(test=lambda one: one.status.nodes == 1)
    await farm.lab.client.delete(NODE, "n1")
    await paired()
    await asyncio.sleep(100)
    await farm.add_node("n2", full)
    await paired("n2")


FILTER = {"cluster.x-k8s.io/watch-filter": "blue"}


async def test_filter_restricts_reconciles_to_labelled_objects_and_labels_created_objects(farm: Farm) -> None:
    """Like --watch-filter of Cluster API's providers: another instance of the operator reconciles the others."""
    farm.settings = farm.settings.model_copy(update={"watch_filter": "blue"})
    farm.set_static("a", 2)
    await farm.start()
    imported = await farm.pool()
    await farm.create_pool("other", replicas=3)
    await farm.create_machine("m1")
    await asyncio.sleep(60)
    other = await farm.lab.get(NstanceMachinePool, "other")
    assert (other.metadata.finalizers, other.find_condition("Paused")) == ((), None)
    assert (await farm.lab.get(NstanceMachine, "m1")).metadata.finalizers == ()
    assert farm.sizes("other") == {}
    made: list[Any] = [
        imported,
        await farm.lab.get(NstanceShardGroup, "workers--a"),
        await farm.lab.get(MACHINE_POOL, "workers"),
        await farm.lab.get(NstanceCluster, NAME),
        await farm.lab.get(CLUSTER, NAME),
    ]
    assert [one.metadata.label("cluster.x-k8s.io/watch-filter") for one in made] == ["blue"] * 5
    await farm.lab.patch(NstanceMachinePool, "other", {"metadata": {"labels": FILTER}})
    await farm.pool("other")
    assert farm.sizes("other") == {"a": 1, "b": 1, "c": 1}
    await farm.lab.patch(NstanceMachinePool, "other", {"metadata": {"labels": {next(iter(FILTER)): "green"}}})
    await asyncio.sleep(5)
    await farm.scale("other", 9)
    await asyncio.sleep(60)
    assert farm.sizes("other") == {"a": 1, "b": 1, "c": 1}


async def test_older_cluster_without_the_filter_label_is_named_in_the_log(
    farm: Farm, caplog: pytest.LogCaptureFixture
) -> None:
    await farm.start()
    await farm.lab.stop()
    farm.settings = farm.settings.model_copy(update={"watch_filter": "blue"})
    await farm.operate()
    said = f"NstanceCluster {NAME} is left alone without the label cluster.x-k8s.io/watch-filter=blue: add it"
    await farm.until(lambda: said in caplog.text, timeout=60)
    await farm.lab.patch(NstanceCluster, NAME, {"metadata": {"labels": FILTER}})
    await farm.create_pool("other", replicas=3)
    await farm.lab.patch(NstanceMachinePool, "other", {"metadata": {"labels": FILTER}})
    await farm.pool("other")
