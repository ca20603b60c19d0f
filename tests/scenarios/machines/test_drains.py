"""Drains against the double: budgets, restarts, unreachable shards, and the acknowledgement, which is always sent and never early."""

import asyncio

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from machines_lab import BUDGET, Farm

from konverge.kinds import kind
from konverge.reconcilers.machines.kinds import NODE, POD
from konverge.reconcilers.machines.wire.operator_pb2 import InstanceEvent
from konverge_testing.apiserver.faults.rules import Match, Refuse, Rule
from konverge_testing.nstance import CallFault, Network
from konverge_testing.nstance.instances import DELETED, DELETING, Instance

DAEMON = kind("apps/v1", "DaemonSet", namespaced=True, plural="daemonsets")


@pytest.fixture
async def drained(farm: Farm) -> Instance:
    """Start the operator, with an instance on shard a, its Node n1, and a pod on it."""
    farm.set_static("a", 1)
    await farm.start()
    return await farm.add_instance("a", node="n1")


def seconds_left(farm: Farm, one: Instance, when: float) -> float:
    return farm.gives_up(one) - when


async def test_a_node_is_cordoned_emptied_and_then_acknowledged(farm: Farm, drained: Instance) -> None:
    await farm.add_pod("web", "n1")
    labels = {"app": "d"}
    container = {"name": "main", "image": "busybox"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    made = await farm.lab.create(DAEMON.new("d", spec={"selector": {"matchLabels": labels}, "template": template}))
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": made.metadata.uid, "controller": True}
    await farm.add_pod("daemon", "n1", labels=labels, ownerReferences=[owner])
    await farm.add_pod("elsewhere", "n2")
    farm.drain("a", drained)
    await farm.until(lambda: drained.status in (DELETING, DELETED))
    assert (await farm.lab.get(NODE, "n1")).spec["unschedulable"] is True
    assert await farm.lab.find(POD, "web") is None
    assert await farm.lab.find(POD, "daemon") is not None
    assert await farm.lab.find(POD, "elsewhere") is not None
    assert len(farm.acknowledgements("a", drained)) == 1
    assert seconds_left(farm, drained, farm.acknowledgements("a", drained)[0]) > 200, "it does not wait without need"


async def test_an_instance_without_a_node_is_acknowledged_at_once(farm: Farm) -> None:
    farm.set_static("a", 1)
    await farm.start()
    one = await farm.add_instance("a")
    farm.drain("a", one)
    began = asyncio.get_running_loop().time()
    await farm.until(lambda: bool(farm.acknowledgements("a", one)))
    assert farm.acknowledgements("a", one)[0] - began < 1


async def test_a_pod_that_ends_slowly_is_waited_for(farm: Farm, drained: Instance) -> None:
    await farm.add_pod("web", "n1", grace=90)
    farm.drain("a", drained)
    await farm.lab.until(POD, "web", lambda pod: pod.metadata.deleting)
    await asyncio.sleep(60)
    assert farm.acknowledgements("a", drained) == []
    await farm.lab.client.raw(
        "DELETE", f"/api/v1/namespaces/{farm.lab.namespace}/pods/web", body={"gracePeriodSeconds": 0}
    )
    await farm.until(lambda: bool(farm.acknowledgements("a", drained)))


async def test_blocking_budget_is_reported_retried_and_delays_no_other_drain(farm: Farm, drained: Instance) -> None:
    """The original drains in the stream's reader, and tries each eviction once."""
    farm.set_static("b", 1)
    other = await farm.add_instance("b", node="n2")
    await farm.add_pod("web", "n1", labels={"app": "web"})
    await farm.add_pod("free", "n2")
    await farm.add_budget("web", allowed=0, app="web")
    farm.drain("a", drained)
    farm.drain("b", other)
    await farm.until(lambda: bool(farm.acknowledgements("b", other)), timeout=20)
    assert farm.acknowledgements("a", drained) == []
    assert await farm.lab.find(POD, "web") is not None
    await farm.allow("web", 1)
    await farm.until(lambda: bool(farm.acknowledgements("a", drained)), timeout=20)
    assert await farm.lab.find(POD, "web") is None


async def test_a_budget_that_never_yields_is_given_up_shortly_before_the_deletion(
    farm: Farm, drained: Instance
) -> None:
    await farm.add_pod("web", "n1", labels={"app": "web"})
    await farm.add_budget("web", allowed=0, app="web")
    farm.drain("a", drained)
    await farm.until(lambda: drained.status in (DELETING, DELETED), timeout=400)
    assert len(farm.acknowledgements("a", drained)) == 1
    assert -15 <= seconds_left(farm, drained, farm.acknowledgements("a", drained)[0]) <= 0.02
    assert await farm.lab.find(POD, "web") is not None


async def test_two_budgets_for_one_pod_are_tried_again(farm: Farm, drained: Instance) -> None:
    await farm.add_pod("web", "n1", labels={"app": "web"})
    await farm.add_budget("one", allowed=1, app="web")
    await farm.add_budget("two", allowed=1, app="web")
    farm.drain("a", drained)
    await asyncio.sleep(30)
    assert farm.acknowledgements("a", drained) == []
    await farm.lab.delete(BUDGET, "two")
    await farm.until(lambda: bool(farm.acknowledgements("a", drained)), timeout=20)


@pytest.mark.parametrize("status", [400, 403, 422, 500])
async def test_eviction_refused_without_a_budget_blocks_no_other_pods_eviction(
    farm: Farm, drained: Instance, status: int
) -> None:
    """An admission webhook may reject a pod, and a right may be missing in a namespace."""
    await farm.add_pod("a-held", "n1")
    await farm.add_pod("free", "n1")
    refused = Rule(Match(verbs=("create",), resources=("pods",), name="a-held", subresource="eviction"), Refuse(status))
    farm.lab.server.faults.add(refused)
    farm.drain("a", drained)
    await farm.lab.until_gone(POD, "free")
    await asyncio.sleep(20)
    assert farm.acknowledgements("a", drained) == []
    farm.lab.server.faults.remove(refused)
    await farm.until(lambda: bool(farm.acknowledgements("a", drained)), timeout=60)


@pytest.mark.parametrize("fault", list(CallFault))
async def test_an_acknowledgement_is_repeated_until_the_server_has_it(
    farm: Farm, drained: Instance, fault: CallFault
) -> None:
    farm["a"].faults.add("AcknowledgeDrained", fault, times=2)
    farm.drain("a", drained)
    await farm.until(lambda: drained.status in (DELETING, DELETED), timeout=280)


async def test_a_drain_goes_on_while_its_shard_is_away(farm: Farm, drained: Instance) -> None:
    await farm.add_pod("web", "n1", labels={"app": "web"})
    await farm.add_budget("web", allowed=0, app="web")
    farm.drain("a", drained)
    await asyncio.sleep(12)
    farm["a"].faults.network = Network.REFUSED
    farm["a"].reset()
    await farm.allow("web", 1)
    await farm.lab.until_gone(POD, "web")
    await asyncio.sleep(40)
    assert farm.acknowledgements("a", drained) == []
    farm["a"].faults.network = Network.OPEN
    await farm.until(lambda: drained.status in (DELETING, DELETED), timeout=60)


async def test_a_server_that_restarts_in_a_drain_is_acknowledged(farm: Farm, drained: Instance) -> None:
    await farm.add_pod("web", "n1", labels={"app": "web"})
    await farm.add_budget("web", allowed=0, app="web")
    farm.drain("a", drained)
    await asyncio.sleep(12)
    await farm["a"].restart()
    await asyncio.sleep(45)
    assert farm.acknowledgements("a", drained) == []
    await farm.allow("web", 1)
    await farm.until(lambda: drained.status in (DELETING, DELETED), timeout=60)


async def test_an_operator_that_is_killed_in_a_drain_begins_it_anew(farm: Farm, drained: Instance) -> None:
    await farm.add_pod("web", "n1", labels={"app": "web"})
    await farm.add_budget("web", allowed=0, app="web")
    farm.drain("a", drained)
    await asyncio.sleep(12)
    farm.lab.crash(down=20)
    await asyncio.sleep(60)
    assert farm.acknowledgements("a", drained) == []
    await farm.allow("web", 1)
    await farm.until(lambda: drained.status in (DELETING, DELETED), timeout=60)


async def test_events_that_come_twice_begin_one_drain(farm: Farm, drained: Instance) -> None:
    farm["a"].state.instance_events.copies = 3
    await farm.add_pod("web", "n1", labels={"app": "web"})
    await farm.add_budget("web", allowed=0, app="web")
    farm.drain("a", drained)
    await asyncio.sleep(7)
    await farm.allow("web", 1)
    await farm.until(lambda: drained.status == DELETED, timeout=60)
    assert len(farm.acknowledgements("a", drained)) == 1


async def test_provider_id_of_two_nodes_drains_neither_and_times_out(farm: Farm, drained: Instance) -> None:
    """Names of instances repeat in the zones of GCE: a guess would drain the Node of another instance."""
    await farm.add_node("n2", f"gce://other/zone/{drained.provider_id}")
    await farm.add_pod("web", "n2")
    farm.drain("a", drained)
    await farm.until(lambda: drained.status in (DELETING, DELETED), timeout=400)
    assert await farm.lab.find(POD, "web") is not None
    assert "unschedulable" not in (await farm.lab.get(NODE, "n1")).spec
    assert seconds_left(farm, drained, farm.acknowledgements("a", drained)[0]) <= 0.02


async def test_open_drains_and_their_results_are_metrics(farm: Farm, drained: Instance) -> None:
    sample = farm.lab.metrics.registry.get_sample_value
    await farm.add_pod("web", "n1", labels={"app": "web"})
    await farm.add_budget("web", allowed=0, app="web")
    assert sample("konverge_nstance_drains_open", {"shard": "a"}) == 0
    farm.drain("a", drained)
    await asyncio.sleep(7)
    assert sample("konverge_nstance_drains_open", {"shard": "a"}) == 1
    await farm.allow("web", 1)
    await farm.until(lambda: drained.status == DELETED, timeout=60)
    assert sample("konverge_nstance_drains_open", {"shard": "a"}) == 0
    assert sample("konverge_nstance_drains_total", {"shard": "a", "result": "drained"}) == 1


async def test_poisoned_event_of_a_shard_does_not_affect_other_shards_drains(farm: Farm, drained: Instance) -> None:
    farm.set_static("b", 1)
    other = await farm.add_instance("b", node="n2")
    await farm.add_pod("web", "n2", labels={"app": "web"})
    await farm.add_budget("web", allowed=0, app="web")
    farm.drain("b", other)
    await asyncio.sleep(12)
    event = InstanceEvent(
        instance_id=drained.id,
        provider_instance_id=drained.provider_id,
        group="workers",
        status="pending_deletion",
        delete_at=Timestamp(seconds=10**15),
    )
    farm["a"].state.instance_events.send(farm.world.tenant, event)
    await farm.until(lambda: bool(farm.acknowledgements("a", drained)), timeout=20)
    assert farm["b"].called("WatchInstances") == 1
    await farm.allow("web", 1)
    await farm.until(lambda: bool(farm.acknowledgements("b", other)), timeout=20)


async def test_each_of_several_drains_is_acknowledged_before_its_deletion(farm: Farm, drained: Instance) -> None:
    """The predicates of the farm check the acknowledgements after each write."""
    for name in ("b", "c"):
        farm.set_static(name, 1)
    others = {name: await farm.add_instance(name, node=f"n-{name}") for name in ("b", "c")}
    await farm.add_pod("web", "n1", labels={"app": "web"})
    await farm.add_budget("web", allowed=0, app="web")
    await farm.add_pod("slow", "n-b", grace=3600)
    await farm.add_node("n-twice", f"gce://other/zone/{others['c'].provider_id}")
    for name, one in {"a": drained, **others}.items():
        farm.drain(name, one)
    await asyncio.sleep(360)
    await farm.add_node("late", "gce://other/zone/late")  # a write, which the predicates are checked after
    assert sorted(farm.drains.acknowledged) == sorted(
        f"{name}/{one.id}" for name, one in {"a": drained, **others}.items()
    )
