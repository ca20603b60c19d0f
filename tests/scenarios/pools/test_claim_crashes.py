"""The process dies at every single write of a claim and of its release, in each mode: before the write, and after it.

`--lab=quick` draws some of these plans; this runs all plans that the lab does not prune: a crash before a write leaves the same state
as a crash after the previous write, if nothing was stored between them.
"""

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import pytest
from pools.lab import Clouds, guarded

from konverge.crds.pools_v1alpha1 import Nextcloud, NextcloudInstance
from konverge_testing import Lab
from konverge_testing.apiserver.faults.rules import Moment
from konverge_testing.lab import Crash, Plan, explore
from konverge_testing.lab.planning import plans_of
from konverge_testing.lab.runs import run

_HOUR: Final = 3600

Mode: TypeAlias = Callable[[Clouds], Awaitable[None]]

MOMENTS: Final[tuple[Moment, ...]] = ("before", "after")
OF_A_CLAIM: Final = {
    "patch nextclouds.k8s.bnerd.com",  # the finalizer
    "apply nextclouds.k8s.bnerd.com/status",
    "patch nextcloudinstances.k8s.bnerd.com",  # the lock, and the mark of the release
    "apply nextcloudinstances.k8s.bnerd.com",
    "delete nextcloudinstances.k8s.bnerd.com",
}


async def ready(here: Clouds, name: str) -> None:
    await here.lab.until(NextcloudInstance, name, lambda one: one.status.phase == "Ready", timeout=_HOUR)


async def from_a_pool(here: Clouds) -> None:
    await here.pool(replicas=2)  # one to take, and a second that a process without memory could take too
    await here.pool_until("small", lambda pool: pool.status.ready == 2, _HOUR)
    await here.claim("a", replicas=3)


async def by_reference(here: Clouds) -> None:
    await here.instance("one")
    await ready(here, "one")
    await here.claim("a", tier=None, instanceRef={"name": "one"}, replicas=3)


async def with_a_profile(here: Clouds) -> None:
    await here.profile(version="32")
    await here.claim("a", tier=None, profile="base", replicas=3)


async def bare(here: Clouds) -> None:
    await here.claim("a", tier=None, replicas=3)


@pytest.mark.parametrize("mode", [from_a_pool, by_reference, with_a_profile, bare])
def test_claim_is_served_and_released_once_despite_crashes_at_any_write(mode: Mode) -> None:
    async def life(lab: Lab) -> None:
        here = await guarded(lab).start()
        await mode(here)
        served = await here.assigned("a")
        assert served.status.instance_ref is not None
        name = served.status.instance_ref.name
        await lab.until(NextcloudInstance, name, lambda one: one.spec.replicas == 3, timeout=_HOUR)
        taken = [one.name for one in await here.instances() if one.spec.get("claimRef")]
        assert taken == [name]
        await lab.delete(Nextcloud, "a")
        await lab.until_gone(Nextcloud, "a", timeout=_HOUR)

    reference = run(life, Plan(name="reference"))
    assert not reference.problems
    made = reference.timeline.writes()
    first = next(place for place, write in enumerate(made) if write.text.startswith("patch nextclouds."))
    writes = made[first:]
    assert {write.text.rpartition(" lab/")[0] for write in writes} >= OF_A_CLAIM
    deaths = {(Crash(write=write.number, moment=moment),) for write in writes for moment in MOMENTS}
    planned = plans_of(reference, process="konverge", foreign=False)
    pruned = [one.plan for one in planned.pruned if one.plan.crashes in deaths]
    plans = [plan for plan in planned.plans if plan.crashes in deaths]
    assert len(plans) + len(pruned) == len(deaths) == len(MOMENTS) * len(writes)
    assert len(plans) > len(writes), "at each write there is a death"
    report = explore(life, only=plans)
    assert report.passed, report.text()
    assert report.ran == len(plans)
