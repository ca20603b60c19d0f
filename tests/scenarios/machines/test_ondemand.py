"""Pods on demand with the doubles of Nstance and of Cluster API: their Machines, names, ends, and a stopped operator."""

import asyncio
import re
from pathlib import Path

import pytest
import yaml
from machines_lab import NAME, Farm

from konverge.crds.machines_v1beta1 import NstanceMachine
from konverge.kinds import kind
from konverge.objects import Object
from konverge.reconcilers.machines.kinds import CLUSTER, MACHINE, POD
from konverge.reconcilers.machines.words import MachinesAnnotation, MachinesLabel
from konverge_testing.apiserver.faults.rules import Drop, Match, Rule, Stale

GUIDE = Path(__file__).parents[3] / "docs" / "guide" / "machines.md"
EVENT = kind("events.k8s.io/v1", "Event", namespaced=True, plural="events")


@pytest.fixture
async def running(farm: Farm) -> Farm:
    for name in farm.world.shards:
        farm.set_static(name, 0)
    await farm.start()
    await farm.start_core()
    await farm.lab.namespace_also("web")
    return farm


async def events_about(farm: Farm, pod: Object) -> list[str]:
    found = (await farm.lab.client.list(EVENT, pod.namespace)).items
    return [str(one.get("reason")) for one in found if one.get("regarding", "uid") == pod.metadata.uid]


async def gone(farm: Farm, name: str) -> None:
    """Wait until a Machine is deleted, with its NstanceMachine and the instance."""
    await farm.lab.until_gone(MACHINE, name, timeout=400)
    await farm.lab.until_gone(NstanceMachine, name, timeout=400)
    await farm.until(lambda: set(farm.on_demand().values()) <= {"deleting", "deleted"})


async def test_a_pod_of_another_namespace_gets_a_machine_that_cluster_api_takes(running: Farm) -> None:
    """The original leaves out clusterName, bootstrap and apiGroup, creates the Machine beside the Pod, and lets the Pod own it."""
    kind_of_type = MachinesAnnotation.ON_DEMAND_TYPES[0]
    pod = await running.demand("job", "web", **{kind_of_type: "g5"})
    below = await running.machine("on-demand-job")
    machine = await running.lab.until(
        MACHINE, "on-demand-job", lambda one: one.status.get("phase") == "Provisioned", timeout=100
    )
    assert (machine.spec["clusterName"], machine.spec["bootstrap"]) == (NAME, {"dataSecretName": ""})
    assert machine.metadata.label(MachinesLabel.POD_UID) == pod.metadata.uid
    assert machine.metadata.annotation(MachinesAnnotation.POD) == "web/job"
    assert (below.spec.group, below.spec.instance_type) == ("workers", "g5")
    owners = [(one.kind, one.name) for one in (*machine.metadata.owner_references, *below.metadata.owner_references)]
    assert ("Machine", "on-demand-job") in owners
    assert "Pod" not in {owner for owner, _ in owners}
    stored = await running.lab.get(POD, "job", "web")
    assert stored.metadata.finalizers == ()
    assert list(running.on_demand().values()) == ["running"]
    assert await events_about(running, pod) == ["OnDemandMachineCreated"]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_a_pod_that_finished_gives_its_instance_back(running: Farm, phase: str) -> None:
    """The original keeps the instance of a finished Pod until the Pod is deleted."""
    pod = await running.demand("job")
    await running.machine("on-demand-job")
    await running.finish(pod, phase)
    await gone(running, "on-demand-job")
    await asyncio.sleep(120)
    assert await running.machines_of(pod) == [], "a finished pod gets no other"
    assert len(running.on_demand()) == 1
    assert set(await events_about(running, pod)) == {"OnDemandMachineCreated", "OnDemandMachineDeleted"}


async def test_a_pod_that_is_deleted_gives_its_instance_back(running: Farm) -> None:
    pod = await running.demand("job", "web")
    await running.machine("on-demand-job")
    await running.end(pod)
    await gone(running, "on-demand-job")


async def test_pod_deleted_while_operator_is_down_is_known_by_machine_labels(running: Farm) -> None:
    """The original has a finalizer on each Pod, so no such Pod can be deleted while the original is down."""
    pod, stays = await running.demand("job", "web"), await running.demand("stays")
    for name in ("on-demand-job", "on-demand-stays"):
        await running.machine(name)
    await running.lab.stop()
    await running.end(pod)
    assert [one.name for one in (await running.lab.client.list(POD)).items] == ["stays"], "nothing held the pod"
    await running.operate()
    await running.lab.until_gone(MACHINE, "on-demand-job", timeout=400)
    await asyncio.sleep(60)
    assert len(await running.machines_of(stays)) == 1


async def test_pods_that_finished_or_appeared_while_operator_was_down_are_processed(running: Farm) -> None:
    ended = await running.demand("job", "web")
    await running.machine("on-demand-job")
    await running.lab.stop()
    await running.finish(ended)
    came = await running.demand("late", "web")
    await running.operate()
    await running.lab.until_gone(MACHINE, "on-demand-job", timeout=400)
    await running.machine("on-demand-late", timeout=400)
    assert len(await running.machines_of(came)) == 1


async def restarted_with_old_news(farm: Farm, version: int, *resources: str) -> Rule:
    """Restart the operator with caches of these resources as of an old version; its live reads are current."""
    await farm.lab.stop()
    old = farm.lab.server.faults.add(Rule(Match(verbs=("watch",), resources=resources), Stale(version=version)))
    await farm.operate()
    await asyncio.sleep(60)
    assert old.hits, "the caches were filled by watches"
    return old


async def test_a_pod_that_the_cache_does_not_show_yet_keeps_its_machine(running: Farm) -> None:
    before = running.lab.server.store.version
    pod = await running.demand("job", "web")
    first = await running.machine("on-demand-job")
    running.lab.server.faults.remove(await restarted_with_old_news(running, before, "pods"))
    assert [one.metadata.deleting for one in await running.machines_of(pod)] == [False]
    assert (await running.machine("on-demand-job")).uid == first.uid


async def test_machines_that_the_cache_does_not_show_yet_are_not_made_again(running: Farm) -> None:
    before = running.lab.server.store.version
    other, pod = await running.demand("job"), await running.demand("job", "web")
    await running.until(lambda: list(running.on_demand().values()) == ["running"] * 2)
    [plain], [hashed] = await running.machines_of(other), await running.machines_of(pod)
    assert (plain.name, hashed.name != plain.name) == ("on-demand-job", True)
    await running.end(other)
    await running.lab.until_gone(MACHINE, "on-demand-job", timeout=400)
    old = await restarted_with_old_news(running, before, "machines.*", "nstancemachines.*")
    assert [one.name for one in await running.machines_of(pod)] == [hashed.name], "its first name is free now"
    running.lab.server.faults.remove(old)


async def test_a_machine_whose_infrastructure_the_cache_does_not_show_is_kept(running: Farm) -> None:
    watches = Match(verbs=("watch",), resources=("nstancemachines.*",), user_agent="lab *")
    cut = running.lab.server.faults.add(Rule(watches, Drop(watches=True)))
    pod = await running.demand("job", "web")
    await running.lab.until(MACHINE, "on-demand-job", bool)
    [first] = await running.machines_of(pod)
    for number in range(6):
        await asyncio.sleep(10)  # longer in total than a reconcile waits for a lagging cache
        await running.lab.patch(MACHINE, "on-demand-job", {"metadata": {"labels": {"touched": str(number)}}})
    assert [(one.metadata.uid, one.metadata.deleting) for one in await running.machines_of(pod)] == [
        (first.metadata.uid, False)
    ]
    running.lab.server.faults.remove(cut)
    await running.machine("on-demand-job", timeout=400)
    assert [one.metadata.uid for one in await running.machines_of(pod)] == [first.metadata.uid]


async def test_no_machine_is_created_during_cluster_deletion_but_for_the_next_cluster(running: Farm) -> None:
    created: set[str] = set()

    def record() -> None:
        entries = running.lab.server.store.list(("cluster.x-k8s.io", "machines"))
        created.update(entry.uid for entry in entries if entry.name == "on-demand-job")

    running.lab.always.append(record)
    pod = await running.demand("job", "web")
    await running.machine("on-demand-job")
    [first] = await running.machines_of(pod)
    cluster = await running.lab.get(CLUSTER, NAME)
    finalizers = [*cluster.metadata.finalizers, "example.com/slow"]
    await running.lab.patch(CLUSTER, NAME, {"metadata": {"finalizers": finalizers}})
    await running.lab.delete(CLUSTER, NAME)
    await asyncio.sleep(120)
    assert created == {first.metadata.uid}, "none while the Cluster is being deleted"
    await running.lab.patch(CLUSTER, NAME, {"metadata": {"finalizers": []}})
    await running.lab.until(CLUSTER, NAME, lambda one: one.metadata.uid != cluster.metadata.uid, timeout=100)
    await running.machine("on-demand-job", timeout=400)
    [second] = await running.machines_of(pod)
    assert created == {first.metadata.uid, second.metadata.uid}, "one Machine of each Cluster"
    assert len(running.on_demand()) == 2, "one instance of each Cluster"


async def test_pod_that_replaces_a_pod_waits_for_the_old_objects_deletion(running: Farm) -> None:
    first = await running.demand("job", "web")
    await running.machine("on-demand-job")
    await running.end(first)
    second = await running.demand("job", "web")
    await running.lab.until(
        NstanceMachine,
        "on-demand-job",
        lambda one: one.metadata.label(MachinesLabel.POD_UID) == second.metadata.uid,
        timeout=400,
    )
    await running.machine("on-demand-job", timeout=400)
    assert await running.machines_of(first) == []
    assert len(await running.machines_of(second)) == 1
    assert max(running.on_demand().values()) == "running"


async def test_pods_of_one_name_in_two_namespaces_get_an_instance_each(running: Farm) -> None:
    pods = [await running.demand("job", "web"), await running.demand("job")]
    await running.until(lambda: list(running.on_demand().values()) == ["running"] * 2)
    names = [[one.name for one in await running.machines_of(pod)] for pod in pods]
    assert sorted(map(len, names)) == [1, 1]
    assert "on-demand-job" in {name for found in names for name in found}
    await running.end(pods[0])
    await running.lab.until_gone(MACHINE, names[0][0], timeout=400)
    await asyncio.sleep(60)
    assert [one.name for one in await running.machines_of(pods[1])] == names[1]


async def test_long_names_are_cut_and_still_find_their_pods(running: Farm) -> None:
    pods = [await running.demand("x" * 100 + end, "web") for end in ("a", "b")]
    await running.until(lambda: list(running.on_demand().values()) == ["running"] * 2)
    names = [[one.name for one in await running.machines_of(pod)] for pod in pods]
    assert [len(one) for found in names for one in found] == [63, 63]
    await running.end(pods[0])
    await running.lab.until_gone(MACHINE, names[0][0], timeout=400)
    await asyncio.sleep(60)
    assert [one.name for one in await running.machines_of(pods[1])] == names[1]


async def test_a_pod_that_has_a_node_gets_no_instance(running: Farm) -> None:
    await running.add_pod("placed", "n1", annotations={MachinesAnnotation.ON_DEMAND_GROUPS[0]: "workers"})
    await running.lab.create(
        POD.decode({"metadata": {"name": "plain"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    )
    await asyncio.sleep(120)
    assert running.on_demand() == {}


async def test_the_annotation_of_the_original_code_counts_and_may_be_set_later(running: Farm) -> None:
    await running.lab.create(
        POD.decode({"metadata": {"name": "job"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    )
    await asyncio.sleep(10)
    await running.lab.patch(POD, "job", {"metadata": {"annotations": {"nstance.dev/on-demand-group": "workers"}}})
    assert (await running.machine("on-demand-job")).spec.group == "workers"


async def test_a_paused_cluster_makes_and_deletes_no_machine(running: Farm) -> None:
    ended = await running.demand("ended")
    await running.machine("on-demand-ended")
    await running.pause(True)
    waits = await running.demand("waits")
    await running.end(ended)
    await asyncio.sleep(120)
    assert await running.machines_of(waits) == []
    assert [one.metadata.deleting for one in await running.machines_of(ended)] == [False]
    await running.pause(False)
    await running.machine("on-demand-waits")
    await running.lab.until_gone(MACHINE, "on-demand-ended", timeout=400)


async def test_impossible_group_is_reported_once_and_delays_no_other_pod(running: Farm) -> None:
    bad = await running.demand("bad", group="No Group")
    await running.demand("good")
    await running.machine("on-demand-good")
    await asyncio.sleep(60)
    assert await running.machines_of(bad) == []
    assert await events_about(running, bad) == ["OnDemandRefused"]


async def test_a_machine_of_a_user_with_the_name_stays_as_it_is(running: Farm) -> None:
    await running.create_machine("on-demand-job")
    await running.machine("on-demand-job")
    pod = await running.demand("job")
    await running.until(lambda: list(running.on_demand().values()) == ["running"] * 2)
    [made] = await running.machines_of(pod)
    assert made.name != "on-demand-job"
    await running.end(pod)
    await running.lab.until_gone(MACHINE, made.name, timeout=400)
    await asyncio.sleep(60)
    assert await running.lab.find(MACHINE, "on-demand-job") is not None


async def test_instance_deleted_by_the_server_is_recreated_while_its_pod_waits(running: Farm) -> None:
    pod = await running.demand("job")
    first = await running.machine("on-demand-job")
    assert first.status.shard is not None
    assert first.status.instance_id is not None
    fleet = running[first.status.shard].state.fleet
    fleet.delete(fleet.instances[first.status.instance_id], "spot interruption")
    await running.machine("on-demand-job", lambda one: one.uid != first.uid, timeout=400)
    await running.machine("on-demand-job", timeout=400)
    assert len(await running.machines_of(pod)) == 1


async def test_a_machine_whose_infrastructure_a_user_deleted_is_made_anew_with_it(running: Farm) -> None:
    pod = await running.demand("job")
    first = await running.machine("on-demand-job")
    await running.lab.delete(NstanceMachine, "on-demand-job")
    await running.machine("on-demand-job", lambda one: one.uid != first.uid, timeout=400)
    [machine] = await running.machines_of(pod)
    await running.machine("on-demand-job", timeout=400)
    assert not machine.metadata.deleting


async def test_without_the_setting_pods_are_not_watched(farm: Farm) -> None:
    farm.settings = farm.settings.model_copy(update={"on_demand_pods": False})
    for name in farm.world.shards:
        farm.set_static(name, 0)
    await farm.start()
    pod = await farm.demand("job")
    await asyncio.sleep(60)
    assert await farm.machines_of(pod) == []


TENANTS = {
    "another namespace": ("other", {}),
    "another group": ("web", {"group": "control-plane"}),
    "another type": ("web", {MachinesAnnotation.ON_DEMAND_TYPES[0]: "p5"}),
    "an endless type": ("web", {MachinesAnnotation.ON_DEMAND_TYPES[1]: "x" * 5000}),
    "an endless group": ("web", {"group": "x" * 5000}),
}


@pytest.mark.parametrize("case", TENANTS)
async def test_a_pod_without_an_allowance_gets_an_event_and_no_instance(running: Farm, case: str) -> None:
    namespace, asks = TENANTS[case]
    await running.lab.namespace_also(namespace)
    for name in running.world.shards:
        running.set_static(name, 0, group="control-plane")
    refused = await running.demand("job", namespace, **asks)
    await running.demand("good", "web")
    await running.machine("on-demand-good")
    await asyncio.sleep(120)
    assert await running.machines_of(refused) == []
    assert await events_about(running, refused) == ["OnDemandRefused"]
    assert len(running.on_demand()) == 1


async def test_pods_beyond_the_limit_of_their_namespace_wait_until_another_ends(running: Farm) -> None:
    await running.lab.stop()
    [allowance] = running.settings.on_demand_allowances
    limited = (allowance.model_copy(update={"machines": 2}),)
    running.settings = running.settings.model_copy(update={"on_demand_allowances": limited})
    await running.operate()
    pods = [await running.demand(f"job-{number}", "web") for number in range(4)]
    await running.until(lambda: list(running.on_demand().values()) == ["running"] * 2)
    await asyncio.sleep(120)
    served = [pod for pod in pods if await running.machines_of(pod)]
    assert len(served) == 2
    for pod in pods:
        expected = "OnDemandMachineCreated" if pod in served else "OnDemandRefused"
        assert await events_about(running, pod) == [expected]
    await running.end(served[0])
    waiting = [pod for pod in pods if pod not in served]
    await running.until(lambda: len(running.on_demand()) == 3, timeout=400)
    assert sum([len(await running.machines_of(pod)) for pod in waiting]) == 1


async def test_a_machine_stays_when_the_allowance_of_its_pod_is_withdrawn(running: Farm) -> None:
    pod = await running.demand("job", "web")
    await running.machine("on-demand-job")
    await running.lab.stop()
    running.settings = running.settings.model_copy(update={"on_demand_allowances": ()})
    await running.operate()
    await asyncio.sleep(120)
    assert len(await running.machines_of(pod)) == 1
    await running.end(pod)
    await gone(running, "on-demand-job")


@pytest.mark.skipif(not GUIDE.exists(), reason="docs/ is not part of the wheel")
async def test_guide_example_gets_an_instance_of_its_group_and_type(running: Farm) -> None:
    blocks = re.findall(r"^```yaml\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    [example] = [one for one in map(yaml.safe_load, blocks) if one["kind"] == "Pod"]
    for name in running.world.shards:
        running.set_static(name, 0, group="gpu")
    pod = await running.lab.create(POD.decode(example))
    made = await running.machine("on-demand-training", timeout=400)
    assert (made.spec.group, made.spec.instance_type) == ("gpu", "g5.xlarge")
    await running.finish(pod)
    await gone(running, "on-demand-training")


async def test_pod_of_an_unknown_group_is_refused_until_a_shard_has_it(running: Farm) -> None:
    pod = await running.demand("job", group="gpu")
    await asyncio.sleep(120)
    assert (await running.machines_of(pod), running.on_demand()) == ([], {})
    assert await events_about(running, pod) == ["OnDemandRefused"]
    last = max(running.world.shards)
    running.set_static(last, 0, group="gpu")
    below = await running.machine("on-demand-job", timeout=300)
    assert below.status.shard == last, "the other shards do not have the group"
    assert await events_about(running, pod) == ["OnDemandRefused", "OnDemandMachineCreated"]


async def test_a_pod_hears_that_the_server_refused_its_instance(running: Farm) -> None:
    """The groups of an unreachable shard are unknown, so the request for the instance is sent to the server."""
    await running.write_document(*running.document, "unreached")
    await running.cluster(lambda found: "unreached" in found.condition("ShardsReachable").message)
    pod = await running.demand("job", group="gpu")
    refused = await running.machine("on-demand-job", lambda found: found.condition("Ready").reason == "ProviderError")
    assert "not found" in refused.condition("Ready").message
    await asyncio.sleep(60)
    assert await events_about(running, pod) == ["OnDemandMachineCreated", "OnDemandRefused"]
