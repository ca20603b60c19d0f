"""Upgrades of a real ApplicationInstance over the stand-in for Flux: both reconcilers run, and never undo each other."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
import pytest_asyncio
from apps.lab import OCI_CHART, READY, SECRET_VALUES, WITH_OPERATIONS, Apps
from apps.operations import has_object, phase, shows

from konverge.clock import rfc3339, wall_clock
from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.crds.ops_v1alpha1 import Operation
from konverge.errors import Conflict
from konverge.objects import Object
from konverge.reconcilers.apps.kinds import HELM_RELEASE
from konverge.reconcilers.apps.operations.settings import OperationSettings
from konverge_testing import Lab, install_crds
from konverge_testing.apiserver.faults.rules import Match, Refuse, Rule
from konverge_testing.flux import HelmController
from konverge_testing.volsync import volsync_crds

AT_ONCE = WITH_OPERATIONS.model_copy(
    update={"operations": OperationSettings(settled_types=frozenset(), approval_types=frozenset())}
)
"""A Restore waits for nothing but its turn."""
NO_SUCH = "9.9.9"
OFFERS = {"ops.vworkspace.io/upgrade": "helm", "ops.vworkspace.io/restore": "volsync"}


async def ready(apps: Apps, **spec: Any) -> Apps:
    await apps.create(**spec)
    await apps.lab.patch(ApplicationInstance, "shop", {"metadata": {"annotations": OFFERS}})
    await apps.until(READY)
    return apps


@pytest_asyncio.fixture
async def apps(lab: Lab) -> AsyncIterator[Apps]:
    async with AsyncExitStack() as stack:
        yield await ready(await Apps(lab, stack).start(WITH_OPERATIONS))


async def create(apps: Apps, name: str, type_: str, engine: str, parameters: dict[str, Any], **spec: Any) -> Operation:
    target = {"apiVersion": "apps.vworkspace.io/v1alpha1", "kind": "ApplicationInstance", "name": "shop"}
    given = {"targetRef": target, "type": type_, "engine": engine, "parameters": parameters, **spec}
    return await apps.lab.create(Operation.decode({"metadata": {"name": name}, "spec": given}))


async def upgrade(apps: Apps, name: str = "up", **parameters: Any) -> Operation:
    return await create(apps, name, "Upgrade", "helm", parameters)


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


async def test_second_upgrade_waits_and_starts_from_the_first_upgrades_result(apps: Apps) -> None:
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


BEFORE = {"a": {"b": 1, "c": 2}, "on": True, "old": True, "list": [1, 2]}
PATCH = {"a": {"c": 3}, "on": False, "old": None, "list": [2], "new": {"x": None, "y": {}}}
AFTER = {"a": {"b": 1, "c": 3}, "on": False, "list": [2], "new": {"y": {}}}


@pytest.mark.parametrize(
    "inline",
    [
        BEFORE,
        {**AFTER, "a": {"b": 1, "c": 2}},
        {**AFTER, "a": {"b": 1}},
        {**AFTER, "a": 3},
        {**AFTER, "on": 0},
        {**AFTER, "old": True},
        {**AFTER, "list": [1, 2]},
        {**AFTER, "new": {}},
        {**AFTER, "new": {"x": 1, "y": {}}},
    ],
    ids=lambda inline: ",".join(sorted(key for key in {*inline, *AFTER} if inline.get(key) != AFTER.get(key))),
)
async def test_values_that_another_writer_undoes_end_the_upgrade(apps: Apps, inline: dict[str, Any]) -> None:
    await suspended_upgrade_of_values(apps)
    await replace_values(apps, inline)
    found = await apps.lab.until(Operation, "up", phase("Failed"))
    assert found.condition("Failed").reason == "SpecChanged"
    assert "spec.values" in found.condition("Failed").message


async def test_values_that_become_those_of_a_secret_end_the_upgrade(apps: Apps) -> None:
    await apps.secret("a: 1")
    await suspended_upgrade_of_values(apps)
    await apps.change(values={**SECRET_VALUES, "inline": None})
    found = await apps.lab.until(Operation, "up", phase("Failed"))
    assert found.condition("Failed").reason == "SpecChanged"


async def test_values_beside_the_patch_may_be_changed_before_the_release_reaches_it(apps: Apps) -> None:
    await suspended_upgrade_of_values(apps)
    wanted = {**AFTER, "a": {"b": 7, "c": 3}, "beside": 1}
    await apps.change(values={"inline": {"a": {"b": 7}, "beside": 1}})
    await apps.lab.settled()
    await apps.edit_release({"suspend": False})
    await apps.lab.until(Operation, "up", phase("Succeeded"))
    assert (await apps.release()).spec["values"] == wanted


async def suspended_upgrade_of_values(apps: Apps) -> None:
    """Let an Upgrade edit the values of a suspended release."""
    await replace_values(apps, BEFORE)
    await apps.until(READY)
    await apps.edit_release({"suspend": True})
    await upgrade(apps, valuesPatch=PATCH)
    await apps.lab.until(Operation, "up", has_object)
    await apps.lab.settled()
    assert (await apps.release()).spec["values"] == AFTER
    assert not (await apps.lab.get(Operation, "up")).finished


async def replace_values(apps: Apps, inline: dict[str, Any]) -> None:
    """Write all inline values, as if an author applied a manifest."""
    while True:
        instance = Object((await apps.lab.get(ApplicationInstance, "shop")).to_dict())
        data = instance.to_dict()
        data["spec"]["values"] = {"source": "inline", "inline": inline}
        try:
            await apps.lab.client.replace(Object(data))
        except Conflict:
            continue
        return


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


async def waiting_restore(apps: Apps) -> None:
    """Create a Restore behind the Upgrade that runs."""
    given = {"pvc": "data", "repository": {"secretName": "repo"}}
    await create(apps, "restore", "Restore", "volsync", given)
    await apps.lab.until(Operation, "restore", shows("Blocked", "True", "ConflictingOperation"))


ENDS = {"timeout": ("Failed", "Timeout"), "cancel": ("Cancelled", "UserCancelled"), "delete": ("", "")}


@pytest.mark.parametrize("why", ["no such tag", "suspended"])
@pytest.mark.parametrize("by", ENDS)
async def test_upgrade_that_never_settles_ends_and_the_waiting_restore_starts(lab: Lab, by: str, why: str) -> None:
    """A version that the OCI registry does not have, with endless retries of Flux, and a release that was suspended by hand."""
    given: dict[str, Any] = {"targetVersion": NO_SUCH, **({"valuesPatch": {"a": 1}} if why == "suspended" else {})}
    async with AsyncExitStack() as stack:
        apps = await Apps(lab, stack).start(AT_ONCE)
        await ready(apps, **({"chart": OCI_CHART} if why == "no such tag" else {}))
        await install_crds(lab.client, volsync_crds())
        if why == "no such tag":
            apps.world.versions = {"1.0.0"}
        else:
            await apps.edit_release({"suspend": True})
        await create(apps, "up", "Upgrade", "helm", given, **({"timeoutSeconds": 600} if by == "timeout" else {}))
        await lab.until(Operation, "up", has_object)
        await waiting_restore(apps)
        await asyncio.sleep(500)
        assert not (await lab.get(Operation, "up")).finished, "it waits for its release until it is ended"
        if by == "cancel":
            await lab.patch(Operation, "up", {"spec": {"cancel": True}})
        elif by == "delete":
            await lab.delete(Operation, "up")
            await lab.until_gone(Operation, "up")
        if by != "delete":
            wanted, reason = ENDS[by]
            found = await lab.until(Operation, "up", phase(wanted), timeout=120)
            end = found.condition(wanted)
            assert end.reason == reason
            assert "ApplicationInstance shop keeps the edit" in end.message
            assert "spec.chart.version back to 1.0.0" in end.message
            assert ("parameters.valuesPatch" in end.message) == ("valuesPatch" in given)
            assert ("ChartUnreachable" if why == "no such tag" else "suspended") in end.message
        await lab.until(Operation, "restore", has_object, timeout=60)
        instance = await lab.get(ApplicationInstance, "shop")
        assert instance.spec.chart is not None
        assert instance.spec.chart.version == NO_SUCH


ACTS = "Running 'upgrade' action with timeout of 5m0s"


async def acting(lab: Lab, stack: AsyncExitStack) -> None:
    """Cancel an Upgrade while Helm acts, as helm-controller reports it; Flux is stopped at this time."""
    async with AsyncExitStack() as flux:
        apps = await Apps(lab, stack).start(WITH_OPERATIONS, flux=False)
        await flux.enter_async_context(HelmController(lab.config, namespace=lab.namespace, world=apps.world))
        await ready(apps)
    await upgrade(apps, targetVersion="1.1.0")
    await lab.until(Operation, "up", has_object)
    await lab.until(HELM_RELEASE, "shop", lambda one: one.spec["chart"]["spec"]["version"] == "1.1.0")
    await release_shows(lab, Reconciling=("True", ACTS), Ready=("Unknown", ACTS))
    await lab.patch(Operation, "up", {"spec": {"cancel": True}})
    await lab.until(Operation, "up", shows("Running", "True", "Stopping"))


async def release_shows(lab: Lab, *, history: bool = False, **conditions: tuple[str, str]) -> None:
    """Write helm-controller's status for the current generation: conditions, and with `history` the end of the upgrade."""
    release = await lab.get(HELM_RELEASE, "shop")
    generation, now = release.metadata.generation, rfc3339(wall_clock())
    status: dict[str, Any] = {
        "observedGeneration": generation,
        "lastAttemptedGeneration": generation,
        "lastAttemptedRevision": "1.1.0",
        "conditions": [
            {
                "type": type_,
                "status": value,
                "reason": "Progressing" if text == ACTS else "UpgradeSucceeded",
                "message": text,
                "observedGeneration": generation,
                "lastTransitionTime": now,
            }
            for type_, (value, text) in conditions.items()
        ],
    }
    if history:
        done = {"version": 2, "chartVersion": "1.1.0", "status": "deployed"}
        status["history"] = [{**release.status["history"][0], **done}]
    await lab.patch(HELM_RELEASE, "shop", {"status": status}, subresource="status")
    await lab.settled()


async def test_cancelled_upgrade_waits_for_the_helm_action_and_reports_its_end(lab: Lab) -> None:
    async with AsyncExitStack() as stack:
        await acting(lab, stack)
        await asyncio.sleep(200)
        assert shows("Running", "True", "Stopping")(await lab.get(Operation, "up"))
        done = ("True", "Helm upgrade succeeded")
        await release_shows(lab, Reconciling=("True", ACTS), Ready=done, Released=done)
        await release_shows(lab, Reconciling=("True", ACTS), Ready=done, Released=done, history=True)
        assert not (await lab.get(Operation, "up")).finished
        await release_shows(lab, Ready=done, Released=done, history=True)
        await lab.until(Operation, "up", phase("Succeeded"))


async def test_cancelled_upgrade_waits_at_most_for_the_helm_action_timeout(lab: Lab) -> None:
    async with AsyncExitStack() as stack:
        await acting(lab, stack)
        found = await lab.until(Operation, "up", phase("Cancelled"), timeout=400)
        assert "keeps the edit" in found.condition("Cancelled").message


async def test_upgrade_without_the_right_to_its_target_waits_and_releases_its_lease(apps: Apps) -> None:
    text = 'applicationinstances "shop" is forbidden: User "konverge" cannot patch resource "applicationinstances" in API group "apps.vworkspace.io"'
    match = Match(verbs=("patch",), resources=("applicationinstances.apps.vworkspace.io",))
    refused = Rule(match, Refuse(status=403, reason="Forbidden", message=text))
    apps.lab.server.faults.add(refused)
    await upgrade(apps, targetVersion="1.1.0")
    await apps.lab.until(Operation, "up", shows("Blocked", "True", "RbacProfileMissing"))
    await asyncio.sleep(900)
    waits = await apps.lab.get(Operation, "up")
    assert (waits.status.phase, waits.status.started_at) == ("Pending", None)
    assert shows("Blocked", "True", "RbacProfileMissing")(waits)
    apps.lab.server.faults.remove(refused)
    await apps.lab.until(Operation, "up", phase("Succeeded"), timeout=120)
