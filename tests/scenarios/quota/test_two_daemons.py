"""Two daemons without election on one cluster: no pool is exceeded for any order of their requests and any age of their caches."""

import asyncio
from contextlib import suppress
from random import Random

import pytest
from quota.lab import CPU, POD, HeldByTheRule, Quotas, spends

from konverge.crds.quota_v1beta2 import ResourcePool, ResourcePoolClaim
from konverge.errors import ApiError, Contested
from konverge.quantities import Quantity
from konverge.reconcilers.quota.kinds import RESOURCE_QUOTA
from konverge_testing import Lab
from konverge_testing.apiserver.faults.rules import Delay, Drop, Freeze, Match, Moment, Rule

HARD = 6
SPACES = ("a", "b", "c")
FAMILY = "konverge*"
WRITTEN = (
    "resourcequotas",
    "resourcepools.capsule.clastix.io",
    "resourcepoolclaims.capsule.clastix.io",
)
WATCHED = (*WRITTEN, "namespaces")


async def two_daemons(lab: Lab) -> Quotas:
    here = Quotas(lab)
    await here.start(*SPACES)
    await lab.start(here.build, name="konverge", settings=here.settings)
    lab.always.append(HeldByTheRule(lab))
    return here


def disturb(lab: Lab, chance: Random) -> None:
    """Delay a write of the daemons, or let a watch of one of them lag, for parts of a second to some seconds."""
    seconds = chance.choice((0.02, 0.3, 4.0))
    resource = chance.choice(WRITTEN)
    match chance.randrange(4):
        case 0:
            moments: tuple[Moment, ...] = ("before", "after")
            moment = chance.choice(moments)
            delayed = Match(verbs=("write",), resources=(resource,), user_agent=FAMILY)
            lab.server.faults.add(Rule(delayed, Delay(seconds=seconds, moment=moment), count=chance.randint(1, 2)))
        case 1 | 2:
            watches = Match(verbs=("watch",), resources=(resource,), user_agent=FAMILY)
            lab.server.faults.add(Rule(watches, Freeze(seconds=seconds), count=1))
            lab.server.faults.add(Rule(watches, Drop(watches=True), count=0))
        case _:
            pass


async def act(here: Quotas, chance: Random, number: int) -> None:
    """One step of tenants."""
    where = chance.choice(SPACES)
    claims = [claim.name for claim in (await here.lab.client.list(ResourcePoolClaim, here.ns(where))).items]
    pods = [pod.name for pod in (await here.lab.client.list(POD, here.ns(where))).items]
    with suppress(ApiError):  # a pod that the quota rejects, a claim that was deleted
        match chance.randrange(6):
            case 0 | 1:
                await here.claim(where, f"c{number}", cpu=chance.choice((1, 3, 4, HARD)))
            case 2 if claims:
                await here.delete(where, chance.choice(claims))
            case 3 if claims:
                await here.release(where, chance.choice(claims))
            case 4:
                await here.pod(where, f"p{number}", str(chance.choice((1, 2, 4))))
            case 5 if pods:
                await here.lab.client.delete(POD, chance.choice(pods), here.ns(where))


async def pods_use(here: Quotas) -> int:
    used = 0
    for where in SPACES:
        quota = await here.get(RESOURCE_QUOTA, where, "capsule-pool-p")
        used += Quantity.parse((quota.get("status", "used") or {}).get(CPU, 0)).billionths
    return used


@pytest.mark.lab_on("memory")
@pytest.mark.parametrize("seed", [0, 1, 3])
async def test_two_daemons_without_election_never_exceed_a_pool(lab: Lab, seed: int) -> None:
    chance = Random(seed)
    here = await two_daemons(lab)
    await here.pool(hard={CPU: HARD}, defaultsZero=True)
    await here.spent({CPU: 0})
    for number in range(50):
        disturb(lab, chance)
        await act(here, chance, number)
        await asyncio.sleep(chance.choice((0, 0, 0.005, 0.03, 0.3, 2.0)))
        assert await pods_use(here) <= Quantity.of(HARD).billionths
    lab.server.faults.clear()
    await asyncio.sleep(120)
    quotas = [await here.get(RESOURCE_QUOTA, where, "capsule-pool-p") for where in SPACES]
    granted = sum(Quantity.parse(spends(quota).get(CPU, 0)).billionths for quota in quotas)
    pool = await here.get(ResourcePool, "", "p")
    claims = [entry for entries in pool.status.claims.values() for entry in entries]
    listed = sum(Quantity.parse(claim.claims[CPU]).billionths for claim in claims)
    assert granted == listed <= Quantity.of(HARD).billionths


@pytest.mark.lab_on("memory")
@pytest.mark.parametrize(
    ("late", "fight"),
    [
        (Match(verbs=("apply",), resources=("resourcequotas",)), False),
        (Match(verbs=("apply",), resources=("resourcepools.capsule.clastix.io",), subresource="status"), True),
        (Match(verbs=("get",), resources=("resourcepools.capsule.clastix.io",)), False),
        (Match(verbs=("apply",), resources=("resourcepoolclaims.capsule.clastix.io",), subresource="status"), False),
    ],
    ids=["its ResourceQuota", "its list of claims", "its look at the pool", "the status of its claim"],
)
async def test_second_daemon_does_not_grant_an_amount_the_first_is_granting(lab: Lab, late: Match, fight: bool) -> None:
    if fight:  # for 20 s the first daemon treats the claim that it does not see as deleted
        lab.expects(Contested)
    here = await Quotas(lab).start("a", "b")
    lab.always.append(HeldByTheRule(lab))
    await here.pool(defaultsZero=True)
    await here.spent({CPU: 0})
    await lab.settled()
    claims = Match(verbs=("watch",), resources=("resourcepoolclaims.capsule.clastix.io",))
    lab.server.faults.add(Rule(claims, Freeze(lines=1, seconds=20), count=1))
    lab.server.faults.add(Rule(late, Delay(seconds=8), count=1))
    await here.claim("a", "zeta", cpu=4)  # the first daemon sees no other claim
    await asyncio.sleep(0)
    await here.claim("b", "alpha", cpu=4)  # is first by its name
    await lab.start(here.build, name="konverge", settings=here.settings)
    await asyncio.sleep(120)
    reasons = [
        (await here.get(ResourcePoolClaim, where, name)).conditions[0].reason
        for where, name in (("a", "zeta"), ("b", "alpha"))
    ]
    assert sorted(reasons) == ["PoolExhausted", "Succeeded"]
