"""Instances whose Nextcloud was deleted without a release: they are reclaimed after a grace time, and never assigned again."""

import asyncio
from typing import Final

import pytest
from pools.family import whole_family
from pools.lab import Clouds

from konverge.clock import rfc3339, wall_clock
from konverge.crds.pools_v1alpha1 import Nextcloud, NextcloudInstance
from konverge.reconcilers.pools.claims.render import lock_patch
from konverge.reconcilers.pools.kinds import INSTANCE
from konverge.reconcilers.pools.words import PoolsAnnotation, PoolsLabel
from konverge_testing import Lab
from konverge_testing.apiserver.faults.rules import Drop, Expire, Match, Rule

GRACE = 600
NEXTCLOUDS = Match(verbs=("watch",), resources=("nextclouds.k8s.bnerd.com",))


async def assigned(here: Clouds, policy: str = "Delete") -> str:
    """Fill a pool of one, let a Nextcloud take its instance, and return the name of that instance."""
    await here.pool(replicas=1, lifecycle={"reclaimPolicy": policy})
    await here.filled()
    await here.claim()
    taken = (await here.assigned()).status.instance_ref
    assert taken is not None
    await here.filled()
    return taken.name


async def vanish(here: Clouds) -> None:
    """Delete the Nextcloud, with its finalizer removed by hand."""
    await here.patch(Nextcloud, "main", {"metadata": {"finalizers": None}})
    await here.lab.delete(Nextcloud, "main")


def mark(value: str | None) -> dict[str, dict[str, dict[str, str | None]]]:
    return {"metadata": {"annotations": {PoolsAnnotation.ORPHANED_SINCE: value}}}


@pytest.mark.parametrize("policy", ["Delete", "Retain"])
async def test_instance_is_reclaimed_by_policy_if_its_nextcloud_lost_the_finalizer(clouds: Clouds, policy: str) -> None:
    here = await clouds.start()
    taken = await assigned(here, policy)
    await here.lab.stop()
    await vanish(here)
    await here.run()
    await asyncio.sleep(GRACE - 60)
    waits = await here.lab.get(NextcloudInstance, taken)
    assert (waits.deleting, PoolsAnnotation.RELEASED in waits.annotations) == (False, False)
    [event] = await here.events("Orphaned")
    assert event.get("type") == "Warning"
    await asyncio.sleep(120)
    found = {one.name: one for one in await here.instances()}
    assert (taken in found) is (policy == "Retain")
    if policy == "Retain":
        kept = await here.lab.get(NextcloudInstance, taken)
        assert kept.spec.claim_ref is not None
        assert (kept.annotations[PoolsAnnotation.RELEASED], kept.status.phase) == (kept.spec.claim_ref.uid, "Released")
    await here.claim("next")
    other = (await here.assigned("next")).status.instance_ref
    assert other is not None
    assert other.name != taken


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59Z", "soon"])
async def test_edited_mark_delays_the_reclaim_by_at_most_the_grace_time(clouds: Clouds, text: str) -> None:
    here = await clouds.start()
    taken = await assigned(here)
    await here.lab.stop()
    await vanish(here)
    await here.patch(INSTANCE, taken, mark(text))
    await here.run()
    await asyncio.sleep(GRACE - 60)
    assert (await here.lab.get(NextcloudInstance, taken)).deleting is False
    await asyncio.sleep(120)
    assert taken not in {one.name for one in await here.instances()}


async def test_the_mark_of_an_instance_whose_nextcloud_is_there_is_taken_back(clouds: Clouds) -> None:
    here = await clouds.start()
    taken = await assigned(here)
    await here.lab.stop()
    await here.patch(INSTANCE, taken, mark(rfc3339(wall_clock())))
    await here.run()
    await asyncio.sleep(2 * GRACE)
    kept = await here.lab.get(NextcloudInstance, taken)
    assert (kept.deleting, PoolsAnnotation.ORPHANED_SINCE in kept.annotations) == (False, False)
    assert await here.events("Orphaned") == []


@pytest.mark.parametrize("process", ["runs on", "restarts behind the lock"])
async def test_recreated_nextcloud_gets_its_own_instance_and_the_former_is_reclaimed(
    clouds: Clouds, process: str
) -> None:
    here = await clouds.start()
    if process == "runs on":
        taken = await assigned(here)
        # The watch is interrupted, and then expired: the next list has another Nextcloud under the name.
        cut = here.lab.server.faults.add(Rule(NEXTCLOUDS, Drop(watches=True)))
        await vanish(here)
        new = await here.claim()
        here.lab.server.faults.remove(cut)
        here.lab.server.faults.add(Rule(NEXTCLOUDS, Expire(), count=1))
    else:
        await here.pool(replicas=1)
        await here.filled()
        await here.lab.stop()
        former = await here.claim()
        [spare] = await here.instances()
        taken = spare.name
        await here.patch(INSTANCE, taken, lock_patch(former, spare.metadata, "Delete"))
        await here.lab.delete(Nextcloud, "main")
        new = await here.claim()
        await here.run()
    served = await here.assigned()
    assert served.uid == new.uid
    assert served.status.instance_ref is not None
    assert served.status.instance_ref.name != taken
    await asyncio.sleep(GRACE - 60)
    assert (await here.lab.get(NextcloudInstance, taken)).deleting is False
    await asyncio.sleep(120)
    assert taken not in {one.name for one in await here.instances()}
    assert (await here.assigned()).status.instance_ref == served.status.instance_ref


ORDERS: Final = ("deleted first", "deleted while the grace time runs", "both while the process is down")


@pytest.mark.parametrize("policy", ["Delete", "Retain"])
@pytest.mark.parametrize("order", ORDERS)
async def test_an_orphan_whose_deletion_was_refused_goes_after_the_grace_time(
    lab: Lab, order: str, policy: str
) -> None:
    here = await whole_family(lab).start()
    await here.pool(replicas=1, lifecycle={"reclaimPolicy": policy})
    await here.claim()
    taken = await here.ready()
    if order == "both while the process is down":
        await lab.stop()
    if order != "deleted while the grace time runs":
        await lab.delete(NextcloudInstance, taken)
        await asyncio.sleep(30)
    await vanish(here)
    if order == "both while the process is down":
        await here.run()
    await asyncio.sleep(30)
    if order == "deleted while the grace time runs":
        await lab.delete(NextcloudInstance, taken)
    await asyncio.sleep(GRACE - 120)
    waits = await lab.get(NextcloudInstance, taken)
    ready = waits.condition("Ready")
    assert (ready.reason, PoolsAnnotation.ORPHANED_SINCE in waits.annotations) == ("DeletionRefused", True)
    assert f"Nextcloud {lab.namespace}/main has been missing since 20" in ready.message
    events = [
        (event.get("reason"), event.get("regarding", "kind"), event.get("type"))
        for event in await here.events("Orphaned", "DeletionRefused")
    ]
    shown = [("DeletionRefused", "Nextcloud", "Warning")] if order == "deleted first" else []
    about = [("DeletionRefused", "NextcloudInstance", "Warning"), ("Orphaned", "NextcloudInstance", "Warning")]
    assert sorted(events) == sorted(shown + about)
    await lab.until_gone(NextcloudInstance, taken, timeout=300)
    assert (await here.parts(taken) == set()) is (policy == "Delete")


async def test_a_forced_deletion_of_an_orphan_waits_for_nothing(lab: Lab) -> None:
    here = await whole_family(lab).start()
    await here.pool(replicas=1)
    await here.claim()
    taken = await here.ready()
    await lab.stop()
    await here.patch(NextcloudInstance, taken, {"metadata": {"labels": {PoolsLabel.FORCE_DELETE: PoolsLabel.TRUE}}})
    await lab.delete(NextcloudInstance, taken)
    await vanish(here)
    await here.run()
    await lab.until_gone(NextcloudInstance, taken, timeout=60)
    assert await here.events("Orphaned", "DeletionRefused") == []
