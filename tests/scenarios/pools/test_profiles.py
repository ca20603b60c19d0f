"""A pool with its template and its profile, and its instances if the profile is changed, replaced, or missing."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from pools.lab import Clouds

from konverge.crds.pools_v1alpha1 import Nextcloud, NextcloudPool, NextcloudProfile
from konverge.reconcilers.pools import PoolSettings
from konverge.reconcilers.pools.kinds import INSTANCE
from konverge.reconcilers.pools.words import PoolsLabel

NAMED: dict[str, Any] = {"profileRef": {"name": "base"}}
ROLLS: dict[str, Any] = {**NAMED, "lifecycle": {"recreateOnProfileChange": True}}


def says(type_: str, status: str, reason: str) -> Callable[[NextcloudPool], bool]:
    def holds(pool: NextcloudPool) -> bool:
        said = pool.find_condition(type_)
        return said is not None and (said.status, said.reason) == (status, reason)

    return holds


async def versions(here: Clouds) -> dict[str, Any]:
    """Return the version in the spec of each instance, by the name of the instance."""
    return {one.name: one.spec.get("version") for one in await here.instances()}


async def edit(here: Clouds, name: str = "base", **defaults: Any) -> None:
    await here.patch(NextcloudProfile, name, {"spec": {"defaults": defaults}}, "")


async def test_template_overrides_the_profile_and_family_labels_cannot_be_changed(clouds: Clouds) -> None:
    here = await clouds.start(settings=PoolSettings(namespaces=("*",)))
    elsewhere = await here.lab.namespace_also("elsewhere")
    await here.profile(version="32", replicas=2, s3={"enabled": False, "region": "profile"}, apps=["calendar"])
    labels = {
        "tier": "small",
        PoolsLabel.ASSIGNED: PoolsLabel.TRUE,
        PoolsLabel.POOL: "other",
        PoolsLabel.CLAIM_UID: "forged",
    }
    template = {"replicas": 1, "s3": {"region": "template"}, "apps": ["mail"]}
    await here.pool(replicas=1, labels=labels, template=template, instanceNamespace=elsewhere, **NAMED)
    await here.filled()
    [made] = await here.instances()
    assert made.namespace == elsewhere
    assert made.spec == {
        "version": "32",
        "replicas": 1,
        "s3": {"enabled": False, "region": "template"},
        "apps": ["mail"],
        "profile": "base",
        "reclaimPolicy": "Delete",
    }
    assert made.metadata.labels == {"tier": "small", PoolsLabel.ASSIGNED: PoolsLabel.FALSE, PoolsLabel.POOL: "small"}
    await here.claim()
    served = await here.assigned()
    assert served.status.instance_ref is not None
    assert (served.status.instance_ref.namespace, served.status.instance_ref.name) == (elsewhere, made.name)
    await here.lab.delete(Nextcloud, "main")
    await here.lab.until_gone(Nextcloud, "main")
    assert made.name not in await versions(here)


async def test_a_changed_template_concerns_new_instances_alone(clouds: Clouds) -> None:
    here = await clouds.start()
    await here.pool(replicas=2, template={"version": "32"}, lifecycle={"recreateOnProfileChange": True})
    await here.filled()
    old = await versions(here)
    await here.patch(NextcloudPool, "small", {"spec": {"template": {"spec": {"version": "33"}}}}, "")
    await asyncio.sleep(600)
    assert await versions(here) == old
    await here.claim()
    await here.assigned()
    await here.filled()
    assert sorted((await versions(here)).values()) == ["32", "32", "33"]


async def test_without_the_flag_only_new_instances_follow_a_changed_profile(clouds: Clouds) -> None:
    here = await clouds.start()
    await here.profile(version="32")
    await here.pool(replicas=2, **NAMED)
    before = (await here.filled()).status.observed_profile
    old = await versions(here)
    await edit(here, version="33")
    after = (
        await here.pool_until("small", lambda pool: pool.status.observed_profile != before, 60)
    ).status.observed_profile
    assert before is not None
    assert after is not None
    assert (before.name, after.name) == ("base", "base")
    assert before.digest != after.digest
    await asyncio.sleep(600)
    assert await versions(here) == old
    await here.claim()
    await here.assigned()
    await here.filled()
    assert sorted((await versions(here)).values()) == ["32", "32", "33"]
    # With the flag the remaining instances of the former profile are replaced, and the assigned instance stays.
    await here.patch(NextcloudPool, "small", {"spec": {"lifecycle": {"recreateOnProfileChange": True}}}, "")
    await asyncio.sleep(120)
    assert sorted((await versions(here)).values()) == ["32", "33", "33"]


async def test_a_swap_of_the_profile_by_name_replaces_unassigned_instances_at_once(clouds: Clouds) -> None:
    here = await clouds.start()
    await here.profile(version="32")
    await here.profile("other", version="32")
    await here.pool(replicas=2, **ROLLS)
    await here.filled()
    await here.claim()
    taken = (await here.assigned()).status.instance_ref
    assert taken is not None
    await here.filled()
    old = set(await versions(here))
    await here.patch(NextcloudPool, "small", {"spec": {"profileRef": {"name": "other"}}}, "")
    await asyncio.sleep(5)
    assert len(old - set(await versions(here))) >= 1
    await asyncio.sleep(60)
    assert old & set(await versions(here)) == {taken.name}
    pool = await here.filled()
    assert pool.status.observed_profile is not None
    assert pool.status.observed_profile.name == "other"


@pytest.mark.parametrize("replicas", [0, 1, 4])
async def test_pool_neither_creates_nor_deletes_while_its_profile_is_missing(clouds: Clouds, replicas: int) -> None:
    here = await clouds.start()
    await here.pool(replicas=2, **ROLLS)
    await here.pool_until("small", says("ProfileResolved", "False", "ProfileNotFound"))
    await asyncio.sleep(600)
    assert await here.instances() == []
    await here.profile(version="32")
    await here.filled()
    kept = await versions(here)
    await here.lab.client.delete(NextcloudProfile, "base")
    await here.pool_until("small", says("ProfileResolved", "False", "ProfileNotFound"))
    await here.patch(NextcloudPool, "small", {"spec": {"replicas": replicas}}, "")
    [one, _] = kept
    await here.patch(INSTANCE, one, {"metadata": {"annotations": {"example.com/seen": "yes"}}})
    await asyncio.sleep(600)
    assert await versions(here) == kept
    await here.profile(version="32")
    await here.filled()
    found = await versions(here)
    assert found.keys() >= kept.keys() if replicas >= 2 else found.keys() <= kept.keys()
    assert says("ProfileResolved", "True", "Resolved")(await here.lab.client.get(NextcloudPool, "small"))
