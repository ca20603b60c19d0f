"""ApplicationInstance on a real API server, with the stand-in for Flux: created, rejected, changed and deleted. tests/scenarios/apps has
the rest, in memory.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
import pytest_asyncio
from apps.lab import READY, SECRET_VALUES, Apps, rolled_out_since, says

from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.errors import Invalid
from konverge.objects import Object
from konverge.reconcilers.apps.kinds import HELM_RELEASE, HELM_REPOSITORY
from konverge_testing import Lab

pytestmark = pytest.mark.control_plane


@pytest_asyncio.fixture
async def apps(lab: Lab) -> AsyncIterator[Apps]:
    async with AsyncExitStack() as stack:
        yield Apps(lab, stack)


async def test_an_instance_becomes_a_release_that_it_owns(apps: Apps) -> None:
    await apps.start()
    made = await apps.create()
    instance = await apps.until(READY, says("Reconciling", "False", "Stable"), says("Degraded", "False", "Recovered"))
    assert instance.status.helm_release_ref is not None
    assert instance.status.last_applied_chart is not None
    assert instance.status.last_applied_chart.version == "1.0.0"
    release, repository = await apps.release(), await apps.lab.get(HELM_REPOSITORY, "shop")
    for child in (release, repository):
        assert child.metadata.controller is not None
        assert child.metadata.controller.uid == made.uid
        assert child.metadata.label("app.vworkspace.io/application-instance") == "shop"
        assert child.metadata.label("app.vworkspace.io/managed-by") == "control-plane"
        managers = {entry["manager"] for entry in child.data["metadata"]["managedFields"]}
        assert managers <= {"konverge", "helm-controller"}
    assert release.spec["chart"]["spec"]["version"] == "1.0.0"
    assert release.spec["driftDetection"] == {"mode": "enabled"}
    assert release.get("spec", "suspend") is None


async def test_deletion_uninstalls_before_the_instance_goes(apps: Apps) -> None:
    await apps.start()
    await apps.create()
    await apps.until(READY)
    await apps.lab.delete(ApplicationInstance, "shop")
    await apps.lab.until_gone(ApplicationInstance, "shop")
    assert apps.world.installed == {}
    for what in (HELM_RELEASE, HELM_REPOSITORY):
        assert await apps.lab.find(what, "shop") is None


async def test_a_changed_secret_is_rolled_out(apps: Apps) -> None:
    await apps.start()
    await apps.secret("replicas: 1")
    await apps.create(values=SECRET_VALUES)
    await apps.until(READY)
    before = (await apps.release()).get("status", "history", 0, "configDigest")
    await apps.secret("replicas: 2")
    release = await apps.lab.until(HELM_RELEASE, "shop", rolled_out_since(before))
    await apps.until(READY)
    assert "replicas" not in str(release.spec)


@pytest.mark.parametrize(
    "parts",
    [
        {"chart": {"version": "^1.0"}},
        {"chart": {"url": "oci://registry.example.com"}},
        {"values": {"source": "inline", "inline": {}, "secretRef": {"name": "a", "key": "b"}}},
        {"values": None},
    ],
    ids=["a range", "oci for helm", "two sources of values", "no values"],
)
async def test_values_that_the_schema_forbids_are_refused_at_admission(apps: Apps, parts: dict[str, Any]) -> None:
    await apps.start(flux=False)
    with pytest.raises(Invalid):
        await apps.lab.client.create(
            Object(
                {
                    "apiVersion": "apps.vworkspace.io/v1alpha1",
                    "kind": "ApplicationInstance",
                    "metadata": {"name": "shop", "namespace": apps.lab.namespace},
                    "spec": apps.spec(**parts),
                }
            )
        )
