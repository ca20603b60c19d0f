"""X30: beside a running Capsule the family does not start and other families do, on a real control plane."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio
from quota.lab import CPU
from quota.plane import Plane, open_plane

from konverge.client import Client
from konverge.clock import rfc3339_micro, wall_clock
from konverge.conditions import is_true
from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.reconcilers import apps, quota
from konverge.reconcilers.quota.capsule_check import HAND_OVER, capsule_serves
from konverge.reconcilers.quota.kinds import LEASE, MUTATING, RESOURCE_QUOTA, VALIDATING
from konverge.runtime import Manager, ManagerSettings
from konverge_testing import ControlPlane, Lab, install_crds
from konverge_testing.flux import flux_crds

pytestmark = pytest.mark.control_plane

HOOKS = "capsule-webhooks"
LEADER = "42c733ea.clastix.capsule.io"
ASKED_AGAIN = 30.0
"""Seconds until a controller that could not start repeats its check."""


def hooks(what: Any, path: str, **more: Any) -> Any:
    """Return a webhook configuration like that of Capsule's chart, without a server behind it."""
    rule = {
        "apiGroups": ["capsule.clastix.io"],
        "apiVersions": ["v1beta2"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["resourcepools"],
    }
    webhook = {
        "name": "pools.resourcepools.projectcapsule.dev",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "clientConfig": {"service": {"name": "capsule", "namespace": "capsule-system", "path": path}},
        "rules": [rule],
        **more,
    }
    return what.new(HOOKS, webhooks=[webhook])


def lease(namespace: str, *, age: float = 0.0) -> Any:
    """Return the lease of Capsule's leader, renewed so many seconds ago."""
    renewed = rfc3339_micro(wall_clock() - timedelta(seconds=age))
    spec = {"holderIdentity": "capsule-0", "leaseDurationSeconds": 15, "renewTime": renewed}
    return LEASE.new(LEADER, namespace, spec=spec)


@pytest_asyncio.fixture
async def here(lab: Lab, control_plane: ControlPlane) -> AsyncIterator[Plane]:
    async with open_plane(lab, control_plane) as plane:
        try:
            yield plane
        finally:
            for what in (VALIDATING, MUTATING):
                await lab.client.delete(what, HOOKS)


@pytest.mark.parametrize(
    ("what", "path"),
    [(VALIDATING, "/resourcepool/validating"), (MUTATING, "/resourcepools/claim/mutating")],
    ids=["a validating webhook of 0.10", "a mutating webhook of 0.13"],
)
async def test_x30_a_webhook_configuration_of_capsule_is_seen(here: Plane, what: Any, path: str) -> None:
    client: Client = here.lab.client
    assert await capsule_serves(client) == ""
    await client.create(hooks(what, path))
    said = await capsule_serves(client)
    assert HOOKS in said
    assert HAND_OVER in said


async def test_x30_lease_of_capsule_counts_while_it_is_renewed(here: Plane) -> None:
    client: Client = here.lab.client
    await client.create(lease(here.lab.namespace, age=600))
    assert await capsule_serves(client) == ""
    await client.apply(LEASE, lease(here.lab.namespace).to_dict(), force=True)
    assert f"lease {here.lab.namespace}/{LEADER}" in await capsule_serves(client)


async def test_x30_the_family_waits_for_capsule_to_go_while_another_family_works(here: Plane) -> None:
    lab = here.lab
    await install_crds(lab.client, flux_crds())
    await here.namespace("a")

    def build(manager: Manager) -> None:
        quota.install(manager)
        apps.install(manager)

    await lab.client.create(lease(lab.namespace))
    settings = ManagerSettings(namespace=None, strict=True)
    manager = await lab.start(build, name="konverge", settings=settings, wait=False)
    gated = ("resourcepool", "resourcepoolclaim")
    async with asyncio.timeout(90):
        while not all("Capsule" in manager.report().of(name).why for name in gated):
            await asyncio.sleep(0.1)
    for name in gated:
        report = manager.report().of(name)
        assert not report.ready
        assert LEADER in report.why
        assert HAND_OVER in report.why
    await here.pool(defaultsZero=True)
    await here.claim("a", "c", cpu=1)
    spec = {"appRef": {"catalogId": "shop"}, "mode": "placeholder"}
    await lab.create(ApplicationInstance.decode({"metadata": {"name": "shop"}, "spec": spec}))
    await lab.until(ApplicationInstance, "shop", is_true("Ready"))
    await lab.client.delete(ApplicationInstance, "shop", lab.namespace)
    assert (await lab.client.list(RESOURCE_QUOTA, here.ns("a"))).items == []
    passed = here.passed()
    assert passed["applicationinstance"] > 0
    assert passed.get("resourcepool", 0) == passed.get("resourcepoolclaim", 0) == 0
    await lab.client.delete(LEASE, LEADER, lab.namespace)
    await here.until(RESOURCE_QUOTA, "a", "capsule-pool-p", lambda _: True, seconds=ASKED_AGAIN + 30)
    await here.bound("a", "c")
    await here.grants("a", {CPU: 1})
    assert await manager.ready(timeout=60)
