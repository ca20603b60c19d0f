"""Upgrades of a real ApplicationInstance over the stand-in for Flux: both reconcilers run, and never undo each other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
import pytest_asyncio
from apps.lab import READY, WITH_OPERATIONS, Apps
from apps.operations import phase, shows

from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.crds.ops_v1alpha1 import Operation
from konverge.testing import Lab


@pytest_asyncio.fixture
async def apps(lab: Lab) -> AsyncIterator[Apps]:
    async with AsyncExitStack() as stack:
        apps = await Apps(lab, stack).start(WITH_OPERATIONS)
        await apps.create()
        await lab.patch(
            ApplicationInstance, "shop", {"metadata": {"annotations": {"ops.vworkspace.io/upgrade": "helm"}}}
        )
        await apps.until(READY)
        yield apps


async def upgrade(apps: Apps, name: str = "up", **parameters: Any) -> Operation:
    return await apps.lab.create(
        Operation.decode(
            {
                "metadata": {"name": name},
                "spec": {
                    "targetRef": {
                        "apiVersion": "apps.vworkspace.io/v1alpha1",
                        "kind": "ApplicationInstance",
                        "name": "shop",
                    },
                    "type": "Upgrade",
                    "engine": "helm",
                    "parameters": parameters,
                },
            }
        )
    )


async def version(apps: Apps) -> Any:
    return (await apps.release()).get("spec", "chart", "spec", "version")


async def test_x7_an_upgrade_ends_and_the_version_stays(apps: Apps) -> None:
    await upgrade(apps, targetVersion="1.1.0")
    found = await apps.lab.until(Operation, "up", phase("Succeeded"))
    assert found.status.outputs == {"fromVersion": "1.0.0", "toVersion": "1.1.0", "revision": "2"}
    assert await version(apps) == "1.1.0"
    for _ in range(3):
        apps.lab.manager.runner("applicationinstance").resync_now()
        apps.lab.manager.runner("operation").resync_now()
        await apps.lab.settled()
    assert await version(apps) == "1.1.0"
    instance = await apps.until(READY)
    assert instance.spec.chart is not None
    assert instance.spec.chart.version == "1.1.0"
    assert (await apps.lab.get(Operation, "up")).metadata.resource_version == found.metadata.resource_version


async def test_values_are_merged_deeply_and_null_removes_a_key(apps: Apps) -> None:
    await apps.change(values={"source": "inline", "inline": {"a": {"b": 1, "c": 2}, "old": True}})
    await apps.until(READY)
    await upgrade(apps, valuesPatch={"a": {"c": 3}, "old": None})
    await apps.lab.until(Operation, "up", phase("Succeeded"))
    assert (await apps.release()).spec["values"] == {"a": {"b": 1, "c": 3}, "replicas": 1}


async def test_an_upgrade_that_fails_in_helm_fails_with_its_reason(apps: Apps) -> None:
    await upgrade(apps, targetVersion="1.2.0")
    found = await apps.lab.until(Operation, "up", phase("Failed"))
    assert found.condition("Failed").reason == "HelmReleaseFailed"


async def test_of_two_upgrades_the_second_waits_and_starts_from_the_result_of_the_first(apps: Apps) -> None:
    await upgrade(apps, "first", targetVersion="1.1.0")
    await apps.lab.until(Operation, "first", lambda found: found.status.started_at is not None)
    await upgrade(apps, "second", targetVersion="1.3.0")
    found = await apps.lab.until(Operation, "second", phase("Succeeded"))
    assert found.status.outputs["fromVersion"] == "1.1.0"
    assert (await apps.lab.get(Operation, "first")).status.phase == "Succeeded"


async def test_a_spec_that_its_author_changes_back_ends_the_upgrade(apps: Apps) -> None:
    await apps.edit_release({"suspend": True})
    await upgrade(apps, targetVersion="1.4.0")
    await apps.lab.until(Operation, "up", lambda found: found.status.started_at is not None)
    await apps.lab.until(
        ApplicationInstance, "shop", lambda found: found.spec.chart is not None and found.spec.chart.version == "1.4.0"
    )
    await apps.lab.settled()
    assert phase("Succeeded")(await apps.lab.get(Operation, "up")) is False
    await apps.change(chart={"version": "1.0.0"})
    found = await apps.lab.until(Operation, "up", phase("Failed"))
    assert found.condition("Failed").reason == "SpecChanged"
    assert await version(apps) == "1.0.0"


@pytest.mark.parametrize(
    ("parameters", "word"),
    [
        ({}, "targetVersion"),
        ({"targetVersion": "^1.0"}, "exact version"),
        ({"targetVersion": "1.1.0", "wait": True}, "parameters.wait"),
        ({"valuesPatch": ["a"]}, "not a map"),
    ],
)
async def test_parameters_that_can_never_work_change_nothing(apps: Apps, parameters: dict[str, Any], word: str) -> None:
    await upgrade(apps, **parameters)
    found = await apps.lab.until(Operation, "up", phase("Failed"), timeout=30)
    assert shows("Accepted", "False", "ValidationFailed")(found)
    assert word in found.condition("Failed").message
    assert await version(apps) == "1.0.0"
