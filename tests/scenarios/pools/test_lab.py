"""Lives of pools and claims; `pytest --lab=quick` plays each again under every fault.

After every write, also of other programs, `OneTenant` holds.
"""

import asyncio
from datetime import timedelta

import pytest
from pools.lab import Clouds, guarded

from konverge.clock import wall_clock
from konverge.crds.pools_v1alpha1 import Nextcloud, NextcloudInstance, NextcloudPool, NextcloudProfile
from konverge.reconcilers.pools.members import is_taken, member_of
from konverge.reconcilers.pools.pool.decide import age_limits
from konverge.reconcilers.pools.settings import PoolSettings
from konverge_testing import Lab
from konverge_testing.apiserver.faults.rules import Delay, Match, Rule

_HOUR = 3600


async def the_end(here: Clouds, *, ready: int, assigned: int) -> None:
    """Wait until the pool is full, and so many instances are taken."""

    def is_so(pool: NextcloudPool) -> bool:
        status = pool.status
        return (status.ready, status.unassigned, status.assigned) == (ready, ready, assigned)

    await here.pool_until("small", is_so, 5 * _HOUR)


@pytest.mark.scenario(quick=14)
async def test_a_pool_fills_up_and_a_claim_is_served_and_released(lab: Lab) -> None:
    here = await guarded(lab).start()
    await here.pool(replicas=1)
    await here.claim("a", replicas=3)
    await here.assigned("a")
    await here.lab.delete(Nextcloud, "a")
    await here.lab.until_gone(Nextcloud, "a")
    await the_end(here, ready=1, assigned=0)


@pytest.mark.scenario(foreign=False, quick=12)
async def test_pool_never_creates_more_than_its_cap_in_a_minute(lab: Lab) -> None:
    here = await guarded(lab, creates=2).start(settings=PoolSettings(creates_per_window=2))
    await here.pool(replicas=3)
    for name in ("a", "b"):
        await here.claim(name, replicas=3)
        await here.assigned(name)
    await the_end(here, ready=3, assigned=2)


@pytest.mark.scenario(quick=14)
async def test_a_changed_profile_replaces_what_is_not_assigned(lab: Lab) -> None:
    here = await guarded(lab).start()
    await here.profile(version="32")
    await here.pool(replicas=2, profileRef={"name": "base"}, lifecycle={"recreateOnProfileChange": True})
    await here.claim("a")
    served = await here.assigned("a")
    assert served.status.instance_ref is not None
    await the_end(here, ready=2, assigned=1)
    await here.patch(NextcloudProfile, "base", {"spec": {"defaults": {"version": "33"}}}, "")

    async def is_rolled() -> bool:
        return all(one.spec.get("version") == "33" for one in await here.instances() if not one.spec.get("claimRef"))

    await here.wait(is_rolled, 5 * _HOUR)
    kept = await here.lab.get(NextcloudInstance, served.status.instance_ref.name)
    assert kept.spec.version == "32"
    await the_end(here, ready=2, assigned=1)


@pytest.mark.scenario(quick=14)
async def test_nextcloud_with_a_profile_is_created_once_and_deleted_with_its_instance(lab: Lab) -> None:
    here = await guarded(lab, successors=["nextcloudinstances"]).start()
    await here.profile(version="32")
    await here.claim("a", tier=None, profile="base", replicas=2)
    await here.says("a", "True", "Created")
    await here.lab.delete(Nextcloud, "a")
    await here.lab.until_gone(Nextcloud, "a")
    assert await here.instances() == []


class NothingTakenGoes:
    """The safety predicate of a pool at work: an instance with a claim is never deleted: only pools delete instances here."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab

    def __call__(self) -> None:
        for entry in self._lab.server.store.list(("k8s.bnerd.com", "nextcloudinstances")):
            instance = entry.object()
            taken = (instance.get("spec") or {}).get("claimRef")
            assert not (taken and "deletionTimestamp" in instance["metadata"]), f"{instance['metadata']['name']} goes"


@pytest.mark.scenario(foreign=False, quick=12)
async def test_two_claims_race_the_end_of_the_instances_that_are_too_old(lab: Lab) -> None:
    here = await guarded(lab).start()
    lab.always.append(NothingTakenGoes(lab))
    await here.pool(replicas=2, lifecycle={"maxUnassignedAge": "1h"})
    await the_end(here, ready=2, assigned=0)
    members = [member_of(one, wall_clock()) for one in await here.instances()]
    first = min(
        one.created + limit for one, limit in zip(members, age_limits(members, timedelta(hours=1)), strict=True)
    )
    # The pool has listed its members and deletes the first; the claims take both before the request arrives.
    slow = Match(verbs=("delete",), resources=("nextcloudinstances.k8s.bnerd.com",))
    lab.server.faults.add(Rule(slow, Delay(seconds=3), count=1))
    await asyncio.sleep(max(0.0, (first - wall_clock()).total_seconds()) + 1)
    await asyncio.gather(here.claim("a", replicas=3), here.claim("b", replicas=4))
    taken = [(await here.assigned(name)).status.instance_ref for name in ("a", "b")]
    assert len({one.name for one in taken if one is not None}) == 2
    old = {one.uid for one in members}

    async def are_replaced() -> bool:
        return not old & {one.metadata.uid for one in await here.instances() if not is_taken(one)}

    await here.wait(are_replaced, 9 * _HOUR)
    await here.patch(NextcloudPool, "small", {"spec": {"lifecycle": {"maxUnassignedAge": "0s"}}}, "")
    await the_end(here, ready=2, assigned=2)


class AtMostAQuarter:
    """The safety predicate of a roll: once the pool is full, all but a quarter of its instances (or one) are ready at every moment."""

    def __init__(self, lab: Lab, replicas: int) -> None:
        self._lab = lab
        self._least = replicas - max(1, replicas // 4)
        self._replicas = replicas
        self._full = False

    def __call__(self) -> None:
        found = [entry.object() for entry in self._lab.server.store.list(("k8s.bnerd.com", "nextcloudinstances"))]
        ready = sum(
            (one.get("status") or {}).get("phase") == "Ready" and "deletionTimestamp" not in one["metadata"]
            for one in found
        )
        self._full |= ready == self._replicas
        assert ready >= self._least or not self._full, f"{ready} are ready, {self._least} must be"


@pytest.mark.scenario(foreign=False, quick=12)
async def test_profile_rollout_never_leaves_more_than_a_quarter_of_instances_missing(lab: Lab) -> None:
    here = await guarded(lab).start()
    lab.always.append(AtMostAQuarter(lab, 5))
    await here.profile(version="32")
    await here.pool(replicas=5, profileRef={"name": "base"}, lifecycle={"recreateOnProfileChange": True})
    await the_end(here, ready=5, assigned=0)
    await here.patch(NextcloudProfile, "base", {"spec": {"defaults": {"version": "33"}}}, "")

    async def is_rolled() -> bool:
        return {one.spec.get("version") for one in await here.instances()} == {"33"}

    await here.wait(is_rolled, 9 * _HOUR)
    await the_end(here, ready=5, assigned=0)
