"""The texts of InstanceAssigned, its events, and the delays of requeued Nextclouds: upper bounds, since watches wake them earlier."""

import asyncio
from typing import Any, Final

import pytest
from pools.lab import Clouds

from konverge.crds.pools_v1alpha1 import Nextcloud, NextcloudInstance
from konverge.reconcilers.pools.words import PoolsAnnotation, PoolsController, PoolsLabel

FREE: Final = {PoolsLabel.ASSIGNED: PoolsLabel.FALSE, "tier": "small"}
NAMED: Final[dict[str, Any]] = {"instanceRef": {"name": "one"}}


def reconciles(here: Clouds, controller: str = PoolsController.NEXTCLOUD) -> float:
    registry = here.lab.manager.metrics.registry
    results = ("success", "error", "requeue", "requeue_after")
    return sum(
        registry.get_sample_value("controller_runtime_reconcile_total", {"controller": controller, "result": result})
        or 0.0
        for result in results
    )


BLOCKED: Final[dict[str, tuple[str | None, dict[str, Any], str]]] = {
    "from a pool, without its profile": ("small", {"profile": "base"}, "ProfileNotFound"),
    "by reference, without its profile": (None, {**NAMED, "profile": "base"}, "ProfileNotFound"),
    "from a profile that is missing": (None, {"profile": "base"}, "ProfileNotFound"),
    "from an empty pool": ("small", {}, "PoolExhausted"),
    "by a name that nothing has": (None, {"instanceRef": {"name": "none"}}, "InstanceNotFound"),
    "by the name of another's": (None, NAMED, "InstanceTaken"),
}


@pytest.mark.parametrize("case", BLOCKED)
async def test_blocked_nextcloud_emits_one_warning_and_retries_within_a_minute(clouds: Clouds, case: str) -> None:
    tier, spec, reason = BLOCKED[case]
    here = await clouds.start()
    await here.instance("one")
    await here.claim("first", tier=None, **NAMED)
    await here.says("first", "True", "Bound")
    await here.claim(tier=tier, **spec)
    await here.says("main", "False", reason)
    for _ in range(3):
        before = reconciles(here)
        await asyncio.sleep(61)
        assert before < reconciles(here) <= before + 2
    [event] = await here.events(reason)
    assert (event.get("type"), event.get("regarding", "name")) == ("Warning", "main")


SERVED: Final[dict[str, tuple[str | None, dict[str, Any], str, tuple[str, ...]]]] = {
    "from a pool": ("small", {}, "Assigned", ()),
    "by reference": (None, {"instanceRef": {"name": "free"}}, "Bound", ()),
    "from a profile": (None, {"profile": "base"}, "Created", ()),
    "bare": (None, {}, "Created", ("BareFreshCreation",)),
}


@pytest.mark.parametrize("case", SERVED)
async def test_served_nextcloud_emits_a_normal_event_and_is_not_requeued(clouds: Clouds, case: str) -> None:
    tier, spec, reason, more = SERVED[case]
    here = await clouds.start()
    await here.profile(replicas=1)
    await here.member("free", FREE)
    await here.lab.until(NextcloudInstance, "free", lambda one: one.status.phase == "Ready")
    await here.claim(tier=tier, **spec)
    await here.says("main", "True", reason)
    await here.lab.settled()
    before = reconciles(here)
    await asyncio.sleep(600)
    assert reconciles(here) == before
    for said in (reason, *more):
        [event] = [one for one in await here.events(said) if one.get("regarding", "name") == "main"]
        assert event.get("type") == "Normal"
    assert bool(await here.events("BareFreshCreation")) is bool(more)


RECOVERED: Final[dict[str, tuple[dict[str, Any], str, dict[str, Any], str]]] = {
    "another selector": (
        {"poolSelector": {"matchLabels": {"tier": "smal"}}},
        "PoolExhausted",
        {"poolSelector": {"matchLabels": {"tier": "small"}}},
        "Assigned",
    ),
    "another profile": ({"profile": "bas"}, "ProfileNotFound", {"profile": "base"}, "Created"),
    "another instance": (
        {"instanceRef": {"name": "fre"}},
        "InstanceNotFound",
        {"instanceRef": {"name": "free"}},
        "Bound",
    ),
    "another mode": ({"instanceRef": {"name": "fre"}}, "InstanceNotFound", {"instanceRef": None}, "Created"),
}


@pytest.mark.parametrize("case", RECOVERED)
async def test_an_edit_of_a_blocked_nextcloud_is_tried_at_once(clouds: Clouds, case: str) -> None:
    wrong, reason, right, how = RECOVERED[case]
    here = await clouds.start()
    await here.profile(replicas=1)
    await here.member("free", FREE)
    await here.claim(tier=None, **wrong)
    await here.says("main", "False", reason)
    await asyncio.sleep(20)
    await here.patch(Nextcloud, "main", {"spec": right})
    await asyncio.sleep(5)
    served = await here.lab.get(Nextcloud, "main")
    assert (served.condition("InstanceAssigned").status, served.condition("InstanceAssigned").reason) == ("True", how)


async def test_nextcloud_without_its_profile_blocks_no_others_and_keeps_its_place(clouds: Clouds) -> None:
    here = await clouds.start()
    await here.claim("old")
    await here.says("old", "False", "PoolExhausted")
    await here.claim("young")
    await here.says("young", "False", "PoolExhausted")
    # The older Nextcloud may be unservable: while it waits for a profile it leaves the queue, and afterwards it is first again.
    await here.patch(Nextcloud, "old", {"spec": {"profile": "none"}})
    await here.says("old", "False", "ProfileNotFound")
    await here.member("one", FREE)
    await asyncio.sleep(5)
    await here.says("young", "True", "Assigned")
    await here.profile("none")
    await here.says("old", "False", "PoolExhausted")
    await here.claim("last")
    await here.member("two", FREE)
    await asyncio.sleep(5)
    await here.says("old", "True", "Assigned")
    await here.says("last", "False", "PoolExhausted")


@pytest.mark.parametrize("controller", [PoolsController.NEXTCLOUD, "stand-in"])
async def test_only_a_new_value_of_the_annotation_causes_a_reconcile(clouds: Clouds, controller: str) -> None:
    here = await clouds.start()
    await here.member("free", FREE)
    await here.claim(tier="small")
    await here.assigned()
    what, name = (Nextcloud, "main") if controller == PoolsController.NEXTCLOUD else (NextcloudInstance, "free")
    for value in ("1", "2"):
        mark = {"metadata": {"annotations": {PoolsAnnotation.RECONCILE: value}}}
        await here.lab.settled()
        before = reconciles(here, controller)
        await here.patch(what, name, mark)
        await here.lab.settled()
        assert reconciles(here, controller) > before
        before = reconciles(here, controller)
        await here.patch(what, name, mark)
        await here.lab.settled()
        assert reconciles(here, controller) == before
