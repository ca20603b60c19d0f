"""Bad input is reported on the object concerned, nothing is lost, and the others work."""

import asyncio
from datetime import timedelta
from random import Random

import pytest
from machines_lab import NAME, Farm

from konverge.crds.machines_v1beta1 import NstanceCluster, NstanceMachinePool, NstanceShardGroup
from konverge.errors import Invalid
from konverge.kinds import kind
from konverge.reconcilers.machines.kinds import CLUSTER, CONFIG_MAP, MACHINE_POOL
from konverge.runtime import ManagerSettings
from konverge_testing.apiserver.faults.rules import Match, Refuse, Rule
from konverge_testing.nstance import CallFault, GroupSpec, NstanceWorld

EVENT = kind("events.k8s.io/v1", "Event", namespaced=True, plural="events")


async def notes(farm: Farm, reason: str) -> list[str]:
    """Return the texts of the events with this reason."""
    await asyncio.sleep(5)
    events = (await farm.lab.client.list(EVENT, farm.lab.namespace)).items
    return [str(one.get("note")) for one in events if one.get("reason") == reason]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"a": "10.0.0.1"}, "shard a: '10.0.0.1' has no port: write host:port or [IPv6]:port"),
        ({"A": "10.0.0.1:8993"}, "the shard 'A' is not an identifier"),
        ({"config.yaml": "shards: ["}, "config.yaml is neither YAML nor JSON"),
        ({"a": "a.nstance:8993", "b": "a.nstance:8993"}, "the shards a and b have one address, a.nstance:8993"),
        ({"config.yaml": "{a: 'a.nstance:1', a: 'b.nstance:1'}"}, "config.yaml: the key 'a' stands 2 times"),
        (
            {
                "config.yaml": "{cluster_id: other, tenant: blue, shards: {a: {operator_addr: 'a:1', registration_addr: 'a:2'}}}"
            },
            "its cluster_id is 'other', the settings say 'acme'",
        ),
    ],
)
async def test_an_invalid_document_is_reported_and_the_shards_in_use_stay(
    farm: Farm, data: dict[str, str], words: str
) -> None:
    await farm.start()
    await farm.create_pool(replicas=3)
    await farm.pool()
    before = await farm.lab.get(CONFIG_MAP, "nstance-shards")
    await farm.lab.client.delete(CONFIG_MAP, "nstance-shards", farm.lab.namespace, uid=before.metadata.uid)
    await farm.write_document(data=data)
    found = await farm.cluster(lambda one: one.condition("ShardsReachable").reason == "InvalidShardMap")
    message = found.condition("ShardsReachable").message
    assert words in message
    assert message.endswith("; the shards in use stay")
    await farm.scale("workers", 6)
    await farm.until(lambda: farm.sizes() == {"a": 2, "b": 2, "c": 2})


async def test_a_missing_document_is_reported_with_the_remedy(farm: Farm) -> None:
    await farm.prepare()
    await farm.lab.start(farm.build, settings=ManagerSettings(strict=True))
    found = await farm.cluster(lambda one: one.find_condition("ShardsReachable") is not None)
    assert found.condition("ShardsReachable").message.startswith("there is no ConfigMap nstance-shards: create it")
    assert found.status.initialization is not None
    assert found.status.initialization.provisioned
    await farm.write_document()
    await farm.cluster(lambda one: one.condition("ShardsReachable").is_true)


async def test_pool_with_unknown_shard_or_bad_name_is_invalid_and_not_sent(farm: Farm) -> None:
    await farm.start()
    await farm.create_pool("lost", shards=["a", "nowhere"])
    await farm.create_pool("named", group="Not_A_Group")
    await farm.create_pool("workers")
    lost = await farm.pool("lost", lambda one: one.find_condition("Ready") is not None)
    assert lost.condition("Ready").message == "the document of shards does not name nowhere"
    named = await farm.pool("named", lambda one: one.find_condition("Ready") is not None)
    assert (named.condition("Ready").reason, "is not an identifier" in named.condition("Ready").message) == (
        "Invalid",
        True,
    )
    await farm.pool()
    assert farm.sizes("lost") == {}
    await farm.lab.delete(NstanceMachinePool, "named")
    await farm.lab.until_gone(NstanceMachinePool, "named")


async def test_group_of_a_pool_is_immutable_even_while_no_webhook_runs(farm: Farm) -> None:
    await farm.start()
    await farm.create_pool("workers", group="workers")
    with pytest.raises(Invalid, match=r"spec\.group.*another group is another pool: create one, and delete this one"):
        await farm.lab.patch(NstanceMachinePool, "workers", {"spec": {"group": "other"}})
    await farm.lab.patch(NstanceMachinePool, "workers", {"spec": {"instanceType": "c7.large"}})


async def test_group_with_an_impossible_name_is_reported_once_and_others_are_imported(farm: Farm) -> None:
    farm["a"].groups.dynamic["Not_A_Group"] = GroupSpec("std", 1, subnet_pool="private")
    farm.set_static("a", 1)
    await farm.start()
    await farm.pool()
    (note,) = await notes(farm, "NotImported")
    assert note == "group 'Not_A_Group' is not imported: it is not an identifier, so no object can have its name"


@pytest.mark.parametrize("status", [400, 422])
async def test_a_refused_import_is_tried_again(farm: Farm, status: int) -> None:
    refused = Rule(Match(verbs=("create",), resources=("nstancemachinepools.*",)), Refuse(status), count=1)
    farm.lab.server.faults.add(refused)
    farm.set_static("a", 1)
    await farm.start()
    assert (await farm.pool()).spec.group == "workers"
    assert len(await notes(farm, "NotImported")) == 1


async def test_name_used_by_a_pool_of_another_group_is_reported_and_kept(farm: Farm) -> None:
    await farm.start()
    await farm.create_pool("workers", group="other")
    await farm.pool()
    farm.set_static("a", 1)
    (note,) = await notes(farm, "NotImported")
    assert note == "group 'workers' is not imported: the name is taken by a pool of another group"
    assert (await farm.pool()).spec.group == "other"


async def test_a_machine_pool_of_other_infrastructure_keeps_its_name(farm: Farm) -> None:
    await farm.start()
    await farm.create_machine_pool("workers", 3, pool="elsewhere")
    await farm.create_pool(replicas=None)
    pool = await farm.pool(test=lambda one: one.find_condition("Ready") is not None)
    assert "MachinePool workers refers to other infrastructure" in pool.condition("Ready").message
    assert (await farm.lab.get(MACHINE_POOL, "workers")).spec["replicas"] == 3


@pytest.mark.parametrize("fault", list(CallFault))
async def test_group_change_whose_call_fails_arrives_once_the_call_succeeds(farm: Farm, fault: CallFault) -> None:
    await farm.start()
    for shard in farm.world.shards.values():
        shard.faults.add("UpsertGroup", fault, times=2)
    await farm.create_pool(replicas=3)
    await farm.pool(timeout=400)
    assert farm.sizes() == {"a": 1, "b": 1, "c": 1}


async def test_an_error_of_the_provider_becomes_an_event_of_the_shard_group(farm: Farm) -> None:
    await farm.start()
    await farm.create_pool(replicas=3)
    await farm.pool()
    farm["b"].state.report_error("blue", "no capacity", group="workers", instance_id="knc1")
    farm["b"].state.report_error("blue", "an error of no group")
    assert await notes(farm, "ProviderError") == ["no capacity (instance knc1)"]


async def test_errors_of_one_group_are_shown_for_each_of_its_shards(farm: Farm) -> None:
    await farm.start()
    await farm.create_pool(replicas=3)
    await farm.pool()
    for name in ("b", "c"):
        farm[name].state.report_error("blue", f"no capacity on {name}", group="workers")
    assert sorted(await notes(farm, "ProviderError")) == ["no capacity on b", "no capacity on c"]


async def test_errors_of_two_instances_of_a_group_at_once_are_both_told(farm: Farm) -> None:
    await farm.start()
    await farm.create_pool(replicas=3)
    await farm.pool()
    for number in range(3):
        farm["b"].state.report_error("blue", "no capacity", group="workers", instance_id=f"knc{number}")
    farm["b"].state.report_error("blue", "no capacity", group="workers", instance_id="knc0")
    told = [note for said in await notes(farm, "ProviderError") for note in said.split("; ")]
    assert sorted(told) == [f"no capacity (instance knc{number})" for number in range(3)]


async def test_expired_certificate_shows_every_shard_unreachable_until_a_new_nonce(farm: Farm) -> None:
    farm.world.registrar.first_life = timedelta(minutes=4)
    await farm.start()
    await farm.create_pool(replicas=3)
    await farm.pool()
    farm.world.registrar.leader = "nowhere"
    found = await farm.cluster(lambda one: one.condition("ShardsReachable").reason == "NoCertificate", timeout=400)
    assert "certificate" in found.condition("ShardsReachable").message
    assert "nstance: certificate: " in str(farm.lab.manager.report())
    for name in "abc":
        group = await farm.lab.until(
            NstanceShardGroup, f"workers--{name}", lambda one: not one.condition("ShardReachable").is_true
        )
        assert "which has expired" in group.condition("ShardReachable").message
    farm.world.registrar.leader = "b"
    await farm.give_nonce()
    await farm.cluster(lambda one: one.condition("ShardsReachable").is_true, timeout=200)
    for name in "abc":
        await farm.lab.until(NstanceShardGroup, f"workers--{name}", lambda one: one.condition("ShardReachable").is_true)


async def write_authority(farm: Farm, authority: bytes) -> None:
    name = farm.settings.identity_names.ca_configmap
    patch = {"data": {"ca.crt": authority.decode()}}
    await farm.lab.client.patch(CONFIG_MAP, name, farm.lab.namespace, patch=patch, style="merge")


async def watched(farm: Farm, times: int) -> None:
    """Wait until each shard was connected this many times."""
    await farm.until(lambda: [farm[name].called("WatchGroups") for name in "abc"] == [times] * 3, timeout=40)


async def test_authority_replaced_step_by_step_is_followed_without_a_restart(farm: Farm) -> None:
    """First the ConfigMap has both authorities, then the servers use the new authority's certificates, then the old authority leaves the
    ConfigMap, and at last nothing accepts it.
    """
    await farm.start()
    await farm.create_pool(replicas=3)
    await farm.pool()
    authority = farm.world.authority
    authority.rotate()
    await write_authority(farm, authority.trusted)
    await watched(farm, 2)
    for name in "abc":
        farm[name].reset()
    await watched(farm, 3)
    assert farm.world.registrar.issued == 1, "the certificate of the old authority goes on"
    await write_authority(farm, authority.certificate)
    await watched(farm, 4)
    assert farm.world.registrar.issued == 2
    authority.forget_older()
    for name in "abc":
        farm[name].reset()
    await watched(farm, 5)
    await farm.scale("workers", 6)
    await farm.until(lambda: farm.sizes() == dict.fromkeys("abc", 2), timeout=10)
    await farm.cluster(lambda one: one.condition("ShardsReachable").is_true)


OTHER = NstanceWorld(random=Random(9)).authority.certificate


@pytest.mark.parametrize(
    ("authority", "words"),
    [
        (
            OTHER,
            "the authority in the ConfigMap did not sign the certificate: put a new nonce into Secret nstance-operator-nonce",
        ),
        (OTHER, "no shard renewed the certificate: the authority in the ConfigMap did not sign the certificate"),
        (b"-----BEGIN CERTIFICATE-----", "nstance-cluster-ca has changed and is not used yet: it is not PEM"),
        (b"", "there is no authority: put the cluster's into ConfigMap nstance-cluster-ca, key ca.crt"),
    ],
    ids=["another", "another, renewed", "no PEM", "none"],
)
async def test_authority_that_does_not_fit_is_reported_and_connections_stay(
    farm: Farm, authority: bytes, words: str
) -> None:
    await farm.start()
    await farm.create_pool(replicas=3)
    await farm.pool()
    await write_authority(farm, authority)
    found = await farm.cluster(lambda one: one.condition("ShardsReachable").reason == "NoCertificate", timeout=30)
    assert words in found.condition("ShardsReachable").message
    await farm.scale("workers", 6)
    await farm.until(lambda: farm.sizes() == dict.fromkeys("abc", 2), timeout=10)
    assert [farm[name].called("WatchGroups") for name in "abc"] == [1, 1, 1], "the sessions go on"
    await write_authority(farm, farm.world.authority.certificate)
    await farm.cluster(lambda one: one.condition("ShardsReachable").is_true, timeout=30)


async def test_a_nonce_heals_an_authority_that_was_replaced_at_once(farm: Farm) -> None:
    await farm.start()
    await farm.create_pool(replicas=3)
    await farm.pool()
    farm.world.authority.rotate()
    farm.world.authority.forget_older()
    for name in "abc":
        farm[name].reset()
    said = "check the authority in the ConfigMap"
    await farm.cluster(lambda one: said in one.condition("ShardsReachable").message, timeout=30)
    sample = farm.lab.metrics.registry.get_sample_value
    assert sample("konverge_nstance_shard_disconnects_total", {"shard": "a"}) == 1
    await write_authority(farm, farm.world.authority.certificate)
    await farm.cluster(lambda one: one.condition("ShardsReachable").reason == "NoCertificate", timeout=60)
    await farm.give_nonce()
    await farm.cluster(lambda one: one.condition("ShardsReachable").is_true, timeout=120)


async def test_a_cluster_or_its_infrastructure_that_is_deleted_is_made_again(farm: Farm) -> None:
    await farm.start()
    for what in (NstanceCluster, CLUSTER):
        await farm.lab.delete(what, NAME)
        await asyncio.sleep(40)
        assert await farm.lab.find(what, NAME) is not None
    await farm.cluster(lambda one: one.status.initialization is not None)


async def test_an_nstance_cluster_that_another_program_manages_is_not_provisioned(farm: Farm) -> None:
    await farm.start()
    other = NstanceCluster.new("other", annotations={"cluster.x-k8s.io/managed-by": "them"})
    await farm.lab.create(other)
    found = await farm.lab.until(NstanceCluster, "other", lambda one: one.find_condition("Paused") is not None)
    assert found.status.initialization is None
    assert found.find_condition("ShardsReachable") is None


async def test_shard_group_of_a_user_does_not_delete_the_pools_group(farm: Farm) -> None:
    await farm.start()
    await farm.create_pool(replicas=3)
    await farm.pool()
    found = await farm.lab.get(NstanceShardGroup, "workers--a")
    await farm.lab.create(NstanceShardGroup.new("mine", spec=found.spec))
    await farm.lab.until(NstanceShardGroup, "mine", lambda one: one.find_condition("Ready") is not None)
    await farm.lab.delete(NstanceShardGroup, "mine")
    await farm.lab.until_gone(NstanceShardGroup, "mine")
    assert farm["a"].called("DeleteGroup") == 0
