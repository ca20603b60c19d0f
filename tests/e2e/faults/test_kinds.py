"""Kinds whose definitions are missing at the start, installed, deleted and installed again: the controllers that need them report it, and
no other controller is affected.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio
from patience import PATIENCE
from widgets import CONFIG_MAP, By, Widget, widget

import konverge as kv
from konverge.client import Client, ClientConfig
from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.errors import NotFound
from konverge.reconcilers import apps
from konverge_testing import ControlPlane, ControlPlaneConfig, Lab, install_crds
from konverge_testing.flux import HelmController, flux_crds
from konverge_testing.lab import CRD

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(180)]

READY = ("Ready", "True", "HelmReleaseReady")
BLOCKED = ("Blocked", "True", "MissingDependencies")


async def make_part(w: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    await ctx.own(CONFIG_MAP.new(f"of-{w.name}"))
    ctx.status.set_condition("Ready", True, "Made")
    return kv.Done()


def build(manager: kv.Manager) -> None:
    apps.install(manager)
    manager.add(kv.Controller.of(Widget).owns(CONFIG_MAP).reconciled_by(By(make_part)))


def says(type_: str, status: str, reason: str) -> Callable[[ApplicationInstance], bool]:
    def test(found: ApplicationInstance) -> bool:
        condition = found.find_condition(type_)
        return condition is not None and (condition.status, condition.reason) == (status, reason)

    return test


@pytest_asyncio.fixture
async def bare() -> AsyncIterator[Lab]:
    """A lab on a plane without Flux's kinds."""
    async with ControlPlane(ControlPlaneConfig()) as plane:
        config = await ClientConfig.from_kubeconfig(plane.kubeconfig)
        async with Client(config, name="lab-user") as client, Lab(client, config, "default", patience=PATIENCE) as lab:
            yield lab


async def remove_flux(lab: Lab) -> None:
    """Delete the definitions of Flux's kinds, and with them every object of theirs."""
    names = [definition["metadata"]["name"] for definition in flux_crds()]
    for name in names:
        await lab.client.delete(CRD, name)
    async with asyncio.timeout(60):
        for name in names:
            while await exists(lab, name):
                await asyncio.sleep(0.05)


async def exists(lab: Lab, name: str) -> bool:
    try:
        await lab.client.get(CRD, name)
    except NotFound:
        return False
    return True


async def neighbour_works(lab: Lab, name: str) -> None:
    await lab.create(widget(name))
    await lab.until(Widget, name, kv.is_true("Ready"))
    assert lab.manager.report().of("widget").ready


async def test_the_kinds_of_flux_come_go_and_come_back(bare: Lab) -> None:
    lab = bare
    spec: dict[str, Any] = {
        "appRef": {"catalogId": "shop"},
        "chart": {"sourceType": "helm", "url": "https://charts.example.com", "name": "shop", "version": "1.0.0"},
        "release": {"name": "shop", "namespace": lab.namespace},
        "values": {"source": "inline", "inline": {"replicas": 1}},
    }
    await lab.start(build, name="konverge")
    await lab.create(ApplicationInstance.decode({"metadata": {"name": "shop"}, "spec": spec}))
    await lab.until(ApplicationInstance, "shop", says(*BLOCKED))
    await neighbour_works(lab, "at-the-start")
    await install_crds(lab.client, flux_crds())
    async with HelmController(lab.config, namespace=lab.namespace):
        await lab.until(ApplicationInstance, "shop", says(*READY), timeout=40)
        await remove_flux(lab)
        await lab.until(ApplicationInstance, "shop", says(*BLOCKED), timeout=40)
        await neighbour_works(lab, "meanwhile")
        await install_crds(lab.client, flux_crds())
        await lab.until(ApplicationInstance, "shop", says(*READY), timeout=60)
    await neighbour_works(lab, "at-the-end")
    assert lab.manager.report().ready
    await lab.settled()
    failed = [record for record in lab.manager.runner("widget").history.recent() if record.error]
    assert not failed
