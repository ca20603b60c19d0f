"""Two instances compete for a Helm release, and the objects of the winner stay untouched; a reconciler without the rule is caught."""

import asyncio
from typing import Any

import pytest
from apps.lab import QUICK, READY, Apps, says

from konverge.crds import crd
from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.reconcilers.apps import ApplicationInstanceReconciler, controller
from konverge.reconcilers.apps.kinds import HELM_RELEASE
from konverge.runtime import Manager
from konverge_testing import install_crds
from konverge_testing.flux import flux_crds

BLOCKED = says("Blocked", "True", "PolicyDenied")


class Careless(ApplicationInstanceReconciler):
    """The fault: it does not check which instance owns the Helm release."""

    async def keeper(self, *_: Any) -> str:
        return ""


async def start(
    apps: Apps, reconciler: type[ApplicationInstanceReconciler] = ApplicationInstanceReconciler, *, concurrency: int = 1
) -> None:
    def build(manager: Manager) -> None:
        manager.add(controller(QUICK).with_(concurrency=concurrency).reconciled_by(reconciler(QUICK)))

    await install_crds(apps.lab.client, [*flux_crds(), crd(ApplicationInstance)])
    await apps.start_flux()
    await apps.lab.start(build, name="konverge")


def applied(apps: Apps) -> set[str]:
    """Return the HelmReleases that the family has applied."""
    writes = [write for made in apps.reconciles() for write in made]
    return {write.rpartition("/")[2] for write in writes if write.startswith("apply HelmRelease ")}


async def race(apps: Apps, names: tuple[str, ...]) -> tuple[str, list[str]]:
    """Create instances of one Helm release at once; return the instance that keeps the release, and the others."""
    await asyncio.gather(*(apps.create(name) for name in names))
    await apps.lab.settled()
    found = [await apps.lab.get(ApplicationInstance, name) for name in names]
    ready, blocked = ([one.name for one in found if test(one)] for test in (READY, BLOCKED))
    assert (len(ready), len(blocked)) == (1, len(names) - 1)
    return ready[0], blocked


@pytest.mark.parametrize("names", [("a", "b", "c"), ("c", "a", "b")], ids="".join)
@pytest.mark.parametrize("concurrency", [1, 4])
async def test_of_instances_created_together_one_is_applied_and_the_others_name_it(
    apps: Apps, names: tuple[str, ...], concurrency: int
) -> None:
    await start(apps, concurrency=concurrency)
    keeper, others = await race(apps, names)
    assert applied(apps) == {keeper}
    for name in others:
        blocked = (await apps.lab.get(ApplicationInstance, name)).condition("Blocked")
        assert f"belongs to ApplicationInstance {keeper}," in blocked.message


async def test_rival_created_after_the_first_apply_is_blocked_regardless_of_its_name(apps: Apps) -> None:
    await start(apps)
    await apps.create("b")
    await apps.lab.until(HELM_RELEASE, "b", lambda _: True)
    await apps.create("a")
    await apps.until(BLOCKED, name="a")
    created = [(await apps.lab.get(ApplicationInstance, name)).metadata.creation_timestamp for name in ("a", "b")]
    assert created[0] == created[1]
    assert applied(apps) == {"b"}


async def test_deleting_a_blocked_instance_leaves_the_release_owner_untouched(apps: Apps) -> None:
    await start(apps)
    keeper, (first, second) = await race(apps, ("a", "b", "c"))
    before = await apps.release(keeper)
    await apps.lab.delete(ApplicationInstance, first)
    await apps.lab.until_gone(ApplicationInstance, first)
    await apps.lab.settled()
    assert apps.world.installed == {f"{apps.lab.namespace}/shop": "1.0.0"}
    assert (await apps.release(keeper)).metadata.resource_version == before.metadata.resource_version
    assert BLOCKED(await apps.lab.get(ApplicationInstance, second))


async def test_when_the_keeper_is_deleted_the_next_instance_is_applied_at_once(apps: Apps) -> None:
    await start(apps)
    keeper, others = await race(apps, ("a", "b", "c"))
    began = asyncio.get_running_loop().time()
    await apps.lab.delete(ApplicationInstance, keeper)
    await apps.until(READY, name=min(others))
    assert asyncio.get_running_loop().time() - began < QUICK.refused_retry.total_seconds()
    assert BLOCKED(await apps.lab.get(ApplicationInstance, max(others)))


async def test_older_instance_that_becomes_managed_later_takes_no_running_release(apps: Apps) -> None:
    await start(apps)
    await apps.create("elder", mode="placeholder", chart=None, release=None, values=None)
    await asyncio.sleep(2)
    await apps.create("younger")
    await apps.until(READY, name="younger")
    await apps.lab.patch(ApplicationInstance, "elder", {"spec": apps.spec() | {"mode": "managed"}})
    await apps.until(BLOCKED, name="elder")
    assert await apps.lab.find(HELM_RELEASE, "elder") is None


async def test_two_instances_already_on_one_release_settle_and_keep_the_workload(apps: Apps) -> None:
    """The state that a version without the rule left behind."""
    await start(apps, Careless)
    await apps.create("elder")
    await asyncio.sleep(2)
    await apps.create("younger")
    await apps.until(READY, name="elder")
    await apps.until(READY, name="younger")
    await apps.lab.stop()
    await start(apps)
    await apps.until(BLOCKED, name="younger")
    await apps.lab.until_gone(HELM_RELEASE, "younger")
    await apps.lab.settled()
    assert READY(await apps.lab.get(ApplicationInstance, "elder"))
    assert apps.world.installed == {f"{apps.lab.namespace}/shop": "1.0.0"}


async def test_the_scenario_finds_a_reconciler_without_the_contention_rule(apps: Apps) -> None:
    await start(apps, Careless)
    with pytest.raises(AssertionError):
        await race(apps, ("a", "b"))
    assert applied(apps) == {"a", "b"}
