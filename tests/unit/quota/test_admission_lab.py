"""The webhook beside the controllers: claims are created and edited with it, without it, and after it failed."""

import pytest
from quota.lab import CPU, Quotas

from konverge.crds.quota_v1beta2 import ResourcePool
from konverge.errors import Invalid
from konverge.reconcilers.quota import Settings as QuotaSettings
from konverge_testing import Lab

SERVED = QuotaSettings(assign_at_admission=True)


def asked(lab: Lab) -> float:
    """The number of requests that the webhook has received."""
    name = "controller_runtime_webhook_requests_total"
    families = (family for family in lab.metrics.registry.collect())
    return sum(sample.value for family in families for sample in family.samples if sample.name == name)


async def two_pools(lab: Lab) -> Quotas:
    here = await Quotas(lab).start("a", settings=SERVED)
    await here.pool("zebra", {CPU: 8})
    await here.pool("ant", {CPU: 2})
    for name in ("ant", "zebra"):
        await here.until(ResourcePool, "", name, lambda pool: pool.status.namespaces != ())
    await lab.settled()
    return here


async def test_a_claim_without_a_pool_comes_back_with_one(lab: Lab) -> None:
    here = await two_pools(lab)
    small = await here.claim("a", "small", pool=None, cpu=1)
    large = await here.claim("a", "large", pool=None, cpu=5)
    assert (small.spec.pool, large.spec.pool) == ("ant", "zebra")
    bound = await here.bound("a", "large")
    assert bound.status.pool is not None
    assert bound.status.pool.name == "zebra"


async def test_x16_fifty_claims_without_a_pool_go_to_the_lowest_name(lab: Lab) -> None:
    here = await two_pools(lab)
    given = {(await here.claim("a", f"c{turn}", pool=None, cpu="1m")).spec.pool for turn in range(50)}
    assert given == {"ant"}


async def test_without_its_webhook_the_controller_assigns_in_the_status_alone(lab: Lab) -> None:
    here = await two_pools(lab)
    lab.server.webhooks.clear()  # the API server's requests are rejected
    claim = await here.claim("a", "small", pool=None, cpu=1)
    assert claim.spec.pool is None
    bound = await here.bound("a", "small")
    assert bound.status.pool is not None
    assert (bound.spec.pool, bound.status.pool.name) == (None, "ant")


async def test_the_webhook_is_not_called_for_a_claim_that_names_its_pool(lab: Lab) -> None:
    here = await two_pools(lab)
    before = asked(lab)
    await here.claim("a", "named", pool="zebra", cpu=1)
    await here.bound("a", "named")
    assert asked(lab) == before
    await here.claim("a", "unnamed", pool=None, cpu=1)
    assert asked(lab) == before + 1


async def test_claim_that_fits_nowhere_is_stored_without_a_pool_and_assigned_later(lab: Lab) -> None:
    here = await two_pools(lab)
    assert (await here.claim("a", "huge", pool=None, cpu=9)).spec.pool is None
    await here.says("a", "huge", "Unassigned")
    await here.patch("a", "huge", {"spec": {"claim": {CPU: 7}}})
    assert (await here.bound("a", "huge")).spec.pool == "zebra"


async def test_waiting_claim_without_its_pool_in_the_spec_is_assigned_again(lab: Lab) -> None:
    here = await two_pools(lab)
    await here.claim("a", "c", pool="ant", cpu=5)
    await here.says("a", "c", "PoolExhausted")
    await here.patch("a", "c", {"spec": {"pool": None}})
    assert (await here.bound("a", "c")).spec.pool == "zebra"


async def test_an_allocated_claim_that_the_controller_assigned_can_still_be_written(lab: Lab) -> None:
    here = await two_pools(lab)
    doors = dict(lab.server.webhooks)
    lab.server.webhooks.clear()
    await here.claim("a", "c", pool=None, cpu=2)
    await here.bound("a", "c")
    lab.server.webhooks.update(doors)
    await here.patch("a", "c", {"metadata": {"labels": {"team": "blue"}}})
    stored = await here.bound("a", "c")
    assert (stored.labels["team"], stored.spec.pool) == ("blue", None)


async def test_schema_keeps_the_pool_of_an_allocated_claim_with_a_webhook_too(lab: Lab) -> None:
    here = await two_pools(lab)
    await here.claim("a", "c", pool="zebra", cpu=1)
    await here.bound("a", "c")
    with pytest.raises(Invalid, match="release it first"):
        await here.patch("a", "c", {"spec": {"pool": None}})
