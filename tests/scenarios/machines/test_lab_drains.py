"""Drains and unreachable shards under the lab's faults: `make test` with some plans, `make lab` with all.

Its plans also change the leader, and kill it before and after each write, always in the middle of the drain.
"""

import asyncio
from typing import Any

import pytest
from machines_lab import Farm

from konverge.crds.machines_v1beta1 import NstanceMachinePool, NstanceShardGroup
from konverge.reconcilers.machines.kinds import NODE, POD
from konverge_testing import Lab
from konverge_testing.nstance import Network
from konverge_testing.nstance.instances import DELETED, DELETING


def forget(data: dict[str, Any]) -> None:
    """Remove random values and times: keys, certificates, provider ids, and the time of the last sync."""
    if data["kind"] in ("Secret", "ConfigMap"):
        data.pop("data", None)
    names = (("spec", "providerIDList"), ("spec", "providerID"), ("status", "providerIDs"), ("status", "lastSyncTime"))
    for part, name in names:
        (data.get(part) or {}).pop(name, None)


def ids(pool: NstanceMachinePool) -> set[str]:
    """Return the cloud's ids of the instances of a pool."""
    return {one.rpartition("/")[2] for one in pool.spec.provider_id_list}


async def guarded(lab: Lab) -> Farm:
    farm = await lab.enter(Farm(lab))
    lab.may_differ(None, forget, why="keys and ids are random")
    lab.skip_plans("the namespace is deleted *", why="it takes the document of shards and the authority")
    lab.skip_plans("secrets*: * by hand *", why="the nonce is used once")
    lab.skip_plans("machinepools*: * by hand *", why="a MachinePool that a user deleted is not made again")
    lab.skip_plans("the CRD of *", why="nothing brings back the objects of a user")
    return farm


@pytest.mark.scenario(quick=4)
async def test_a_node_is_drained_whose_budget_blocks_while_its_server_restarts(lab: Lab) -> None:
    farm = await guarded(lab)
    fleet = farm["a"].state.fleet
    fleet.pace.drain_timeout = 12_000.0  # longer than a plan stops the operator
    for what in (NstanceMachinePool, NstanceShardGroup):
        lab.may_differ(what, "status.replicas", why="a size that is sent again replaces the instance")
    farm.set_static("a", 1)
    await farm.start()
    one = await farm.add_instance("a", node="n1")
    await farm.pool("workers", timeout=400)  # a size that is sent later would replace the instance
    await farm.add_pod("web", "n1", labels={"app": "web"})
    await farm.add_pod("free", "n1")
    await farm.add_budget("web", allowed=0, app="web")
    farm.drain("a", one)
    await lab.until_gone(POD, "free", timeout=400)
    await farm["a"].restart()
    await asyncio.sleep(60)
    assert farm.acknowledgements("a", one) == []
    assert await lab.find(POD, "web") is not None
    await farm.allow("web", 1)
    await farm.until(lambda: one.status in (DELETING, DELETED), timeout=800)
    assert await lab.find(POD, "web") is None
    assert (await lab.get(NODE, "n1")).spec["unschedulable"] is True
    assert farm.acknowledgements("a", one)
    await farm.pool("workers", lambda pool: one.provider_id not in ids(pool), timeout=800)


@pytest.mark.scenario(quick=4)
async def test_a_shard_is_lost_while_its_pool_is_scaled_and_comes_back(lab: Lab) -> None:
    farm = await guarded(lab)
    lab.skip_plans("nstancemachinepools*: * by hand *", why="a deleted pool waits for the shard, which is away here")
    farm.set_static("a", 1)
    farm.set_static("b", 1)
    await farm.start()
    await farm.pool("workers", timeout=400)
    farm["a"].faults.network = Network.REFUSED
    farm["a"].reset()
    await farm.scale("workers", 6)
    await farm.until(lambda: farm.sizes() == {"a": 1, "b": 3}, timeout=400)
    await farm.pool("workers", lambda one: not one.condition("Ready").is_true, timeout=400)
    await farm.cluster(lambda one: not one.condition("ShardsReachable").is_true, timeout=400)
    assert farm.sizes() == {"a": 1, "b": 3}
    farm["a"].faults.network = Network.OPEN
    await farm.until(lambda: farm.sizes() == {"a": 3, "b": 3}, timeout=400)
    await farm.pool("workers", timeout=400)
    await farm.cluster(lambda one: one.condition("ShardsReachable").is_true, timeout=400)
