"""Stories of applications: an application moves to a repository that does not respond, to another, and on while Flux is stopped; two
applications name one Helm release."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

from story_words import gone, meddled_with, seen

from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.reconcilers import apps
from konverge.reconcilers.apps import Settings
from konverge_testing import Lab, install_crds
from konverge_testing.flux import HelmController, World, flux_crds

QUICK = Settings(source_grace=timedelta(seconds=1), stuck_after=timedelta(seconds=5))
HOME, DEAD, NEW = (f"https://{name}.example.com" for name in ("home", "dead", "new"))
NOTES = (
    *("vworkspace.io/applied-source", "vworkspace.io/applied-chart-digest"),
    *("vworkspace.io/last-applied-generation", "reconcile.fluxcd.io/requestedAt"),
)
PLANTED = "hunter2-Tr0ub4dor"
REFUSAL = f'Service "shop" is invalid: spec.ports[0].name: Invalid value: "{PLANTED}": must be short'


def says(type_: str, reason: str, status: str = "True") -> Callable[[ApplicationInstance], bool]:
    def test(application_instance: ApplicationInstance) -> bool:
        condition = application_instance.find_condition(type_)
        if condition is None or application_instance.status.observed_generation != application_instance.generation:
            return False
        return (condition.status, condition.reason) == (status, reason)

    test.__qualname__ = f"{type_}={status}/{reason}"
    return test


READY = says("Ready", "HelmReleaseReady")


def forget(data: dict[str, Any]) -> None:
    """Remove what differs from run to run: Flux's reports of the past, and annotations with uids and times."""
    if data["apiVersion"].partition("/")[0] in ("helm.toolkit.fluxcd.io", "source.toolkit.fluxcd.io"):
        data.pop("status", None)
        for name in NOTES:
            (data["metadata"].get("annotations") or {}).pop(name, None)


async def mover(lab: Lab) -> None:
    """The status is checked when the application is at rest in between."""
    world = World(unreachable={DEAD}, refused={"1.2.0": REFUSAL})
    lab.may_differ(None, forget, why="what Flux reports of the past of a release depends on the faults")
    await install_crds(lab.client, flux_crds())
    await lab.start(lambda manager: apps.install(manager, QUICK))
    await lab.create(_named(lab, "shop"))
    if meddled_with(lab):  # the states on the way are not certain then, only the end state
        await lab.enter(_flux(lab, World()))
        await _change(lab, url=NEW, version="1.1.0")
        return
    async with AsyncExitStack() as flux:
        await flux.enter_async_context(_flux(lab, world))
        await seen(lab, ApplicationInstance, "shop", READY)
        try:
            await _change(lab, url=DEAD)
            dead = await seen(lab, ApplicationInstance, "shop", says("Ready", "ChartUnreachable", "False"))
            assert dead.status.last_applied_chart is not None
            assert dead.status.last_applied_chart.url == HOME, "what runs came from there"
        finally:
            world.unreachable.clear()
        await _change(lab, url=NEW)
        moved = await seen(lab, ApplicationInstance, "shop", says("Ready", "HelmReleaseReadyWithWarnings"))
        assert moved.status.last_applied_chart is not None
        assert moved.status.last_applied_chart.url == HOME, "Flux keeps the chart that it has"
        await _change(lab, version="1.2.0")
        failed = await seen(lab, ApplicationInstance, "shop", says("Degraded", "HelmReleaseFailed"))
        assert PLANTED not in str(failed.to_dict()["status"]), "a refused value is in the status"
    await _change(lab, version="1.1.0")
    stuck = await seen(lab, ApplicationInstance, "shop", says("Stalled", "ProgressDeadlineExceeded"))
    assert says("Reconciling", "Stable", "False")(stuck), "Stalled and Reconciling are both True"
    await lab.enter(_flux(lab, world))
    await seen(lab, ApplicationInstance, "shop", READY)


def _flux(lab: Lab, world: World) -> HelmController:
    return HelmController(lab.config, world=world, namespace=lab.namespace, random=lab.rng())


async def _change(lab: Lab, **chart: str) -> None:
    await lab.patch(ApplicationInstance, "shop", {"spec": {"chart": chart}})


async def namesakes(lab: Lab) -> None:
    """Of two instances with one release name the younger waits, and continues when the elder is deleted."""
    lab.may_differ(None, forget, why="what Flux reports of the past of a release depends on the faults")
    await install_crds(lab.client, flux_crds())
    await lab.start(lambda manager: apps.install(manager, QUICK))
    await lab.enter(_flux(lab, World()))
    await lab.create(_named(lab, "elder"))
    await seen(lab, ApplicationInstance, "elder", READY)
    await lab.create(_named(lab, "a-younger"))
    if not meddled_with(lab):
        blocked = await seen(lab, ApplicationInstance, "a-younger", says("Blocked", "PolicyDenied"))
        assert "belongs to ApplicationInstance elder," in str(blocked.to_dict()["status"])
        await asyncio.sleep(1)
        assert READY(await lab.get(ApplicationInstance, "elder")), "the elder is disturbed by the younger"
    await lab.delete(ApplicationInstance, "elder")
    await gone(lab, ApplicationInstance, "elder")
    await seen(lab, ApplicationInstance, "a-younger", READY)


def _named(lab: Lab, name: str) -> ApplicationInstance:
    spec = {
        "appRef": {"catalogId": "shop"},
        "chart": {"sourceType": "helm", "url": HOME, "name": "shop", "version": "1.0.0"},
        "release": {"name": "shop", "namespace": lab.namespace},
        "values": {"source": "inline", "inline": {"replicas": 1}},
    }
    return ApplicationInstance.decode({"metadata": {"name": name}, "spec": spec})
