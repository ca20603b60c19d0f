"""Lives of pools, claims and namespaces; `pytest --lab=quick` repeats each with every fault.

After every write, also of other programs, nothing is held twice (`HeldByTheRule`).
"""

import asyncio
from collections import defaultdict
from typing import Literal

import pytest
from quota.lab import CPU, POD, HeldByTheRule, Quotas, without_uids

from konverge.crds.quota_v1beta2 import ResourcePool, ResourcePoolClaim
from konverge.reconcilers.quota.kinds import RESOURCE_QUOTA
from konverge_testing import Lab
from konverge_testing.lab import Plan
from konverge_testing.lab.planning import plans_of
from konverge_testing.lab.plans import MOST_DOWN
from konverge_testing.lab.runs import run

FEW = 18
"""Plans of each scenario in quick mode: the scenarios of a file take turns with the kinds of fault. `make lab` runs all plans."""


def guarded(lab: Lab) -> Quotas:
    lab.may_differ(None, without_uids, why="uids that a status repeats differ from run to run")
    lab.always.append(HeldByTheRule(lab))
    return Quotas(lab)


@pytest.mark.scenario(quick=FEW)
async def test_a_claim_is_queued_released_and_claimed_again(lab: Lab) -> None:
    here = await guarded(lab).start("a", "b")
    await here.pool(defaultsZero=True)
    await here.claim("a", "c", cpu=3)
    await here.bound("a", "c")
    await here.grants("a", {CPU: 3})
    await here.pod("a", "runs", "2")
    await here.claim("b", "waits", cpu=3)
    await here.says("b", "waits", "PoolExhausted")
    await here.delete("a", "c")
    await here.grants("a", {CPU: 0})
    await lab.client.delete(POD, "runs", here.ns("a"))
    await here.bound("b", "waits")
    await here.claim("a", "again", cpu=1)
    await here.bound("a", "again")
    await here.grants("a", {CPU: 1})
    await here.grants("b", {CPU: 3})


async def is_released_made_smaller_and_moved(lab: Lab) -> None:
    here = await guarded(lab).start("a", "b")
    await here.pool()
    await here.pool("q", {CPU: 2})
    await here.claim("a", "c", cpu=4)
    await here.bound("a", "c")
    await here.claim("b", "ahead", cpu=3)
    await here.release("a", "c")
    await here.bound("b", "ahead")
    await here.says("a", "c", "Released")
    await here.patch("a", "c", {"spec": {"pool": "q", "claim": {CPU: 2}}})
    await here.bound("a", "c")
    await here.grants("a", {CPU: 2}, pool="q")
    await here.grants("a", {})
    await here.spent({CPU: 3})


async def test_a_released_claim_is_made_smaller_and_moves(lab: Lab) -> None:
    await is_released_made_smaller_and_moved(lab)


@pytest.mark.lab_on("memory")
def test_x27_crash_at_any_write_of_release_or_move_allocates_nothing_twice() -> None:
    # A plan that recreates the claim changes which claim is served. Not all of these plans have the same end, but these plans do.
    reference = run(is_released_made_smaller_and_moved, Plan(name="reference"))
    assert reference.problems == []
    at_writes = defaultdict[int, list[Plan]](list)
    for plan in plans_of(reference, process="konverge").plans:
        if plan.name.startswith("crash after write"):
            at_writes[plan.crashes[0].write].append(plan)
    assert len(at_writes) >= 12
    # At each write the process starts again at once. In turn it also reads a server that lags, or stays down for minutes or hours.
    further = [others[place % len(others)] for place, (_, *others) in enumerate(at_writes.values())]
    assert {crash.down for plan in further for crash in plan.crashes} >= {600.0, MOST_DOWN}
    for plan in [*(at_once for at_once, *_ in at_writes.values()), *further]:
        assert run(is_released_made_smaller_and_moved, plan).problems == [], plan.name


@pytest.mark.scenario(quick=FEW)
async def test_a_waiting_claim_is_made_smaller_and_another_moves(lab: Lab) -> None:
    """If a plan recreates objects either claim may be served first, but in the end there is room for both."""
    here = await guarded(lab).start("a", "b")
    await here.pool()
    await here.pool("q", {CPU: 2})
    await here.claim("a", "c", cpu=3)
    await here.bound("a", "c")
    await here.claim("b", "waits", cpu=3)
    await here.ask_for("b", "waits", {CPU: 1})
    await here.bound("b", "waits")
    await here.release("a", "c")
    await here.ask_for("a", "c", {CPU: 2}, pool="q")
    await here.bound("a", "c")
    await here.bound("b", "waits")
    await here.grants("a", {CPU: 2}, pool="q")
    await here.grants("a", {})
    await here.grants("b", {CPU: 1})
    await here.spent({CPU: 1})


@pytest.mark.scenario(quick=FEW)
async def test_a_pool_shrinks_to_what_is_claimed_and_grows_again(lab: Lab) -> None:
    here = await guarded(lab).start("a", "b")
    await here.pool(hard={CPU: 6})
    await here.claim("a", "c", cpu=3)
    await here.bound("a", "c")
    await lab.client.patch(ResourcePool, "p", patch={"spec": {"quota": {"hard": {CPU: 4}}}}, style="merge")
    await here.claim("b", "waits", cpu=2)
    await asyncio.sleep(2)
    await lab.client.patch(ResourcePool, "p", patch={"spec": {"quota": {"hard": {CPU: 5}}}}, style="merge")
    await here.bound("a", "c")
    await here.bound("b", "waits")
    await here.spent({CPU: 5})


@pytest.mark.scenario(quick=FEW)
async def test_a_namespace_leaves_and_returns(lab: Lab) -> None:
    here = await guarded(lab).start("a", "b")
    await here.pool()
    await here.claim("a", "c", cpu=3)
    await here.bound("a", "c")
    await here.claim("b", "waits", cpu=2)
    await here.says("b", "waits", "PoolExhausted")
    await here.move("a", "wind")
    await here.bound("b", "waits")
    await here.says("a", "c", "Failed")
    await here.move("a", "solar")
    # Which claim is served depends on whether the plan recreates the pool.
    await here.delete("b", "waits")
    await here.bound("a", "c")
    await here.grants("a", {CPU: 3})
    await here.grants("b", {})


async def is_deleted_and_made_again(lab: Lab, how: Literal["Background", "Foreground", "Orphan"]) -> None:
    here = await guarded(lab).start("a")
    await here.claim("a", "c", cpu=3)
    await here.says("a", "c", "Failed", "not found")
    await here.pool()
    await here.bound("a", "c")
    await lab.client.delete(ResourcePool, "p", propagation=how)
    await here.says("a", "c", "Failed", "not found")
    await here.pool(hard={CPU: 8})
    await here.bound("a", "c")
    await here.grants("a", {CPU: 3})


@pytest.mark.scenario(quick=FEW)
async def test_a_pool_is_deleted_in_the_background_and_made_again(lab: Lab) -> None:
    await is_deleted_and_made_again(lab, "Background")


@pytest.mark.scenario(quick=FEW)
async def test_x24_a_pool_is_deleted_in_the_foreground_and_made_again(lab: Lab) -> None:
    await is_deleted_and_made_again(lab, "Foreground")


@pytest.mark.scenario(quick=FEW)
async def test_x24_a_pool_is_deleted_with_orphans_and_made_again(lab: Lab) -> None:
    await is_deleted_and_made_again(lab, "Orphan")


@pytest.mark.scenario(quick=FEW)
async def test_a_claim_without_a_pool_finds_one(lab: Lab) -> None:
    here = await guarded(lab).start("a")
    await here.claim("a", "c", pool=None, cpu=3)
    await here.says("a", "c", "Unassigned")
    await here.pool(hard={CPU: 2})
    await here.says("a", "c", "PoolExhausted", "available: requests.cpu=2")
    await lab.client.patch(ResourcePool, "p", patch={"spec": {"quota": {"hard": {CPU: 5}}}}, style="merge")
    await here.bound("a", "c")
    await here.spent({CPU: 3})


@pytest.mark.scenario(quick=FEW)
async def test_claim_without_a_pool_binds_in_the_first_pool_with_room(lab: Lab) -> None:
    here = await guarded(lab).start("a", "b")
    lab.always.append(HeldByTheRule(lab, "q"))
    await here.pool("p", {CPU: 4}, orderedQueue=True)
    await here.pool("q", {CPU: 4})
    await here.claim("a", "first", pool="p", cpu=4)
    await here.claim("b", "second", pool="q", cpu=3)
    await here.bound("a", "first")
    await here.bound("b", "second")
    await here.claim("b", "waits", pool=None, cpu=2)
    await here.says("b", "waits", "PoolExhausted", "available: requests.cpu=0")
    await here.delete("b", "second")
    claim = await here.bound("b", "waits")
    assert claim.status.pool is not None
    assert (claim.status.pool.name, claim.status.queue) == ("q", None)
    await here.spent({CPU: 2}, pool="q")


@pytest.mark.scenario(quick=FEW)
async def test_statuses_are_wiped_and_a_quota_loses_its_owner(lab: Lab) -> None:
    here = await guarded(lab).start("a", "b")
    await here.pool(defaultsZero=True)
    await here.claim("a", "c", cpu=3)
    await here.bound("a", "c")
    await here.grants("a", {CPU: 3})
    await here.claim("b", "waits", cpu=3)
    await here.says("b", "waits", "PoolExhausted")
    stripped = {"metadata": {"ownerReferences": None}}
    await lab.client.patch(RESOURCE_QUOTA, "capsule-pool-p", here.ns("a"), patch=stripped, style="merge")
    wiped = {"status": None}
    await lab.client.patch(ResourcePool, "p", patch=wiped, style="merge", subresource="status")
    for where, name in (("a", "c"), ("b", "waits")):
        await lab.client.patch(
            ResourcePoolClaim, name, here.ns(where), patch=wiped, style="merge", subresource="status"
        )
    await here.bound("a", "c")
    await here.says("b", "waits", "PoolExhausted", "available: requests.cpu=1")
    await here.until(RESOURCE_QUOTA, "a", "capsule-pool-p", lambda quota: quota.metadata.controller is not None)
    await here.delete("a", "c")
    await here.bound("b", "waits")
    await here.spent({CPU: 3})
