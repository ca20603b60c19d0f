"""Claims that leave spec.pool empty, in the queue of a pool: the scheduling rows of Capsule's own suite, whose claims name no pool."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from prometheus_client import generate_latest
from quota.lab import Quotas

from konverge.crds.quota_v1beta2 import ResourcePool, ResourcePoolClaim
from konverge.quantities import read
from konverge_testing import Lab

HARD = {"limits.cpu": "2", "limits.memory": "2Gi", "requests.cpu": "2", "requests.memory": "2Gi"}


@dataclass(frozen=True)
class Asks:
    """A claim to create, and its expected reason afterwards, "" for bound."""

    where: str
    name: str
    amounts: dict[str, str]
    message: str = ""
    reason: str = "PoolExhausted"


@dataclass(frozen=True)
class Grows:
    """hard of the pool becomes this."""

    hard: dict[str, str]


@dataclass(frozen=True)
class Says:
    """The expected reason of an earlier claim, "" for bound."""

    where: str
    name: str
    message: str = ""
    reason: str = "PoolExhausted"


@dataclass(frozen=True)
class Shares:
    """The current allocation of the pool and the grant of each namespace."""

    used: dict[str, str]
    grants: dict[str, dict[str, str]]


ROWS: dict[bool, list[Asks | Grows | Says | Shares]] = {
    False: [
        Asks("ns-1", "simple-1", {"limits.memory": "128Mi"}),
        Shares({"limits.memory": "128Mi"}, {"ns-1": {"limits.memory": "128Mi"}}),
        Asks("ns-1", "simple-2", {"requests.cpu": "4"}, "requested: requests.cpu=4, available: requests.cpu=2"),
        Asks("ns-2", "simple-3", {"requests.memory": "1Gi"}),
        Asks("ns-2", "simple-4", {"requests.cpu": "2"}),
        Shares(
            {"limits.memory": "128Mi", "requests.memory": "1Gi", "requests.cpu": "2"},
            {"ns-1": {"limits.memory": "128Mi"}, "ns-2": {"requests.memory": "1Gi", "requests.cpu": "2"}},
        ),
        Says("ns-1", "simple-2", "requested: requests.cpu=4, available: requests.cpu=0"),
    ],
    True: [
        Asks("ns-1", "simple-1", {"limits.memory": "512Mi"}),
        Asks("ns-2", "simple-1", {"requests.memory": "750Mi"}),
        Asks("ns-2", "simple-2", {"requests.cpu": "4"}, "requested: requests.cpu=4, available: requests.cpu=2"),
        Asks("ns-1", "simple-3", {"limits.cpu": "4"}, "requested: limits.cpu=4, available: limits.cpu=2"),
        Asks(
            "ns-2",
            "simple-4",
            {"limits.cpu": "2", "requests.cpu": "2"},
            "requested: limits.cpu=2, queued: limits.cpu=4; requested: requests.cpu=2, queued: requests.cpu=4",
            "QueueExhausted",
        ),
        Shares(
            {"limits.memory": "512Mi", "requests.memory": "750Mi"},
            {"ns-1": {"limits.memory": "512Mi"}, "ns-2": {"requests.memory": "750Mi"}},
        ),
        Grows({**HARD, "limits.cpu": "4", "requests.cpu": "4"}),
        Says("ns-2", "simple-2"),
        Says("ns-1", "simple-3"),
        Shares(
            {"limits.memory": "512Mi", "requests.memory": "750Mi", "limits.cpu": "4", "requests.cpu": "4"},
            {
                "ns-1": {"limits.memory": "512Mi", "limits.cpu": "4"},
                "ns-2": {"requests.memory": "750Mi", "requests.cpu": "4"},
            },
        ),
        Says(
            "ns-2",
            "simple-4",
            "requested: limits.cpu=2, available: limits.cpu=0; requested: requests.cpu=2, available: requests.cpu=0",
        ),
    ],
}


@pytest.mark.parametrize("ordered", ROWS, ids=("unordered", "ordered"))
async def test_capsules_own_scheduling_rows_whose_claims_name_no_pool(lab: Lab, ordered: bool) -> None:
    here = await Quotas(lab).start("ns-1", "ns-2")
    await here.pool("scheduling", HARD, orderedQueue=ordered)
    for row in ROWS[ordered]:
        match row:
            case Grows(hard):
                patch = {"spec": {"quota": {"hard": hard}}}
                await lab.client.patch(ResourcePool, "scheduling", patch=patch, style="merge")
            case Shares(used, grants):
                await here.spent({**dict.fromkeys(HARD, 0), **used}, pool="scheduling")
                for where, hard in grants.items():
                    await here.grants(where, hard, pool="scheduling")
            case Asks() | Says():
                if isinstance(row, Asks):
                    await here.claim(row.where, row.name, row.amounts, pool=None)
                    await asyncio.sleep(1)  # creation times are in whole seconds
                await _said(here, row)


async def _said(here: Quotas, row: Asks | Says) -> None:
    if not row.message:
        claim = await here.bound(row.where, row.name)
        assert claim.status.pool is not None
        assert claim.status.pool.name == "scheduling"
        return
    claim = await here.says(row.where, row.name, row.reason, row.message)
    [said] = claim.conditions
    assert (said.type, said.status, said.message) == ("Bound", "False", row.message)


async def test_older_claim_without_a_pool_keeps_its_place_in_ordered_queues(lab: Lab) -> None:
    here = await Quotas(lab).start("a", "b")
    await here.pool(hard={"requests.cpu": 4}, orderedQueue=True)
    await here.claim("a", "first", cpu=3)
    await here.bound("a", "first")
    await here.claim("a", "older", pool=None, cpu=3)
    older = await here.says("a", "older", "PoolExhausted", "available: requests.cpu=1")
    assert older.status.pool is None
    assert older.status.queue is not None
    assert older.status.queue.name == "p"
    await here.claim("b", "younger", cpu=1)
    await here.says("b", "younger", "QueueExhausted", "queued: requests.cpu=3")
    pool = await here.get(ResourcePool, "", "p")
    assert {name: read({name: waits.requesting}) for name, waits in pool.status.exhaustions.items()} == {
        "requests.cpu": read({"requests.cpu": 3})
    }
    assert pool.condition("Exhausted").reason == "PoolExhausted"
    shown = generate_latest(lab.metrics.registry).decode()
    assert 'capsule_pool_exhaustion{pool="p",resource="requests.cpu"} 3.0' in shown
    assert 'condition="Bound",name="older",pool="p",reason="PoolExhausted"' in shown
    await here.delete("a", "first")
    await here.bound("a", "older")
    await here.bound("b", "younger")


async def test_a_queue_follows_the_pools_that_there_are(lab: Lab) -> None:
    """The pool of a queued claim is deleted; later the next pool's hard is too small."""
    here = await Quotas(lab).start("a")
    for name in ("ant", "bee", "cow"):
        await here.pool(name, {"requests.cpu": 4})
        await here.claim("a", name, pool=name, cpu=3)
        await here.bound("a", name)
    await here.claim("a", "waits", pool=None, cpu=2)

    async def queue_is(name: str) -> None:
        def holds(claim: ResourcePoolClaim) -> bool:
            queue = claim.status.queue
            said: Any = claim.status.condition
            return queue is not None and queue.name == name and said.reason == "PoolExhausted"

        await here.until(ResourcePoolClaim, "a", "waits", holds)

    await queue_is("ant")
    await lab.client.delete(ResourcePool, "ant")
    await queue_is("bee")
    await here.ask_for("a", "waits", {"requests.cpu": 4}, pool="")
    await queue_is("bee")
    await here.delete("a", "bee")
    claim = await here.bound("a", "waits")
    assert claim.status.pool is not None
    assert claim.status.pool.name == "bee"
