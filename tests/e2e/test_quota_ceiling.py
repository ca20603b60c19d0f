"""More claims than the status of a pool can hold, on a real control plane: a condition reports it, and etcd rejects nothing."""

import asyncio

import pytest
from quota.plane import Plane

from konverge.crds.quota_v1beta2 import ResourcePool, ResourcePoolClaim
from konverge.reconcilers.quota import Settings as QuotaSettings

pytestmark = pytest.mark.control_plane

CLAIMS = 400
RESOURCES = [f"requests.{'-'.join(['quota'] * 10)}.{'-'.join(['claim'] * 10)}.example.com/r{n:02}" for n in range(25)]
"""Names as long as this make claims of 3.5 KiB, so that a few hundred of them are more than an object of etcd can be."""
ETCD_LIMIT = 1_572_864


def crowded(pool: ResourcePool) -> bool:
    ready = pool.find_condition("Ready")
    return ready is not None and ready.reason == "TooManyClaims"


async def told(here: Plane) -> list[str]:
    """Return the claims whose status reports that the pool has no room to list them."""
    claims = [claim for where in ("a", "b") for claim in await here.lab.client.list(ResourcePoolClaim, here.ns(where))]
    return [
        claim.name
        for claim in claims
        if claim.status.condition is not None and claim.status.condition.reason == "TooManyClaims"
    ]


async def test_claims_beyond_the_status_limit_wait_and_listed_claims_stay(here: Plane) -> None:
    await here.start("a", "b", settings=QuotaSettings(namespace_share=1))
    await here.pool(hard=dict.fromkeys(RESOURCES, 10 * CLAIMS))
    amounts = dict.fromkeys(RESOURCES, 1)
    for first in range(0, CLAIMS, 20):
        await asyncio.gather(
            *(here.claim("ab"[number % 2], f"c{number:03}", amounts) for number in range(first, first + 20))
        )
    pool = await here.until(ResourcePool, "", "p", crowded)
    await here.lab.settled(quiet=1)
    pool = await here.get(ResourcePool, "", "p")
    left_out = await told(here)
    assert pool.status.claim_count + len(left_out) == CLAIMS
    assert pool.status.claim_count == sum(len(entries) for entries in pool.status.claims.values())
    stored = len((await here.kubectl("get", "--raw", "/apis/capsule.clastix.io/v1beta2/resourcepools/p")).encode())
    assert ETCD_LIMIT / 2 < stored < ETCD_LIMIT
    errors = [
        sample.value
        for family in here.lab.metrics.reconcile_errors.collect()
        for sample in family.samples
        if sample.name.endswith("_total")
    ]
    assert errors
    assert not any(errors)
    listed = {entry.name for entries in pool.status.claims.values() for entry in entries}
    for number in range(10):
        name = sorted(listed)[number]
        await here.delete("ab"[int(name[1:]) % 2], name)
    for name in sorted(left_out)[:5]:  # younger claims move up, oldest first
        await here.bound("ab"[int(name[1:]) % 2], name)
    assert listed - {*sorted(listed)[:10]} <= {
        entry.name for entries in (await here.get(ResourcePool, "", "p")).status.claims.values() for entry in entries
    }
