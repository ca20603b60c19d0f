"""Lives of pools and claims; `pytest --lab=quick` plays each again under every fault.

After every write, also of other programs, `OneTenant` holds.
"""

from __future__ import annotations

import asyncio

import pytest
from pools.lab import Clouds, guarded

from konverge.crds.pools_v1alpha1 import Nextcloud, NextcloudInstance, NextcloudPool, NextcloudProfile
from konverge.testing import Lab

_HOUR = 3600


async def the_end(here: Clouds, *, ready: int, assigned: int) -> None:
    """Wait until the pool is full, and so many instances are taken."""

    def is_so(pool: NextcloudPool) -> bool:
        status = pool.status
        return (status.ready, status.unassigned, status.assigned) == (ready, ready, assigned)

    await here.pool_until("small", is_so, 5 * _HOUR)


@pytest.mark.scenario(quick=30)
async def test_a_pool_fills_up_and_a_claim_is_served_and_released(lab: Lab) -> None:
    here = await guarded(lab).start()
    await here.pool(replicas=1)
    await here.claim("a", replicas=3)
    await here.assigned("a")
    await here.lab.delete(Nextcloud, "a")
    await here.lab.until_gone(Nextcloud, "a")
    await the_end(here, ready=1, assigned=0)


async def test_a_changed_profile_replaces_what_is_not_assigned(lab: Lab) -> None:
    here = await guarded(lab).start()
    await here.profile(version="32")
    await here.pool(replicas=2, profileRef={"name": "base"}, lifecycle={"recreateOnProfileChange": True})
    await here.claim("a")
    served = await here.assigned("a")
    assert served.status.instance_ref is not None
    await the_end(here, ready=2, assigned=1)
    await here.patch(NextcloudProfile, "base", {"spec": {"defaults": {"version": "33"}}}, "")
    async with asyncio.timeout(5 * _HOUR * here.lab.patience):
        while any(one.spec.get("version") != "33" for one in await here.instances() if not one.spec.get("claimRef")):
            await asyncio.sleep(1)
    kept = await here.lab.get(NextcloudInstance, served.status.instance_ref.name)
    assert kept.spec.version == "32"
    await the_end(here, ready=2, assigned=1)


@pytest.mark.scenario(quick=30)
async def test_a_nextcloud_with_a_profile_is_created_once_and_goes_with_its_instance(lab: Lab) -> None:
    here = await guarded(lab).start()
    await here.profile(version="32")
    await here.claim("a", tier=None, profile="base", replicas=2)
    await here.says("a", "True", "Created")
    await here.lab.delete(Nextcloud, "a")
    await here.lab.until_gone(Nextcloud, "a")
    assert await here.instances() == []
