"""Operations on a broken target: they repair it, and no Operation damages it further."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio
from apps.lab import OCI_CHART, READY, WITH_OPERATIONS, Apps, says
from apps.operations import COMMAND, Operations, has_object, phase, shows

from konverge.clock import wall_clock
from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.crds.ops_v1alpha1 import Operation
from konverge.reconcilers.apps.operations.waiting.approval import claim_for, spec_digest
from konverge.reconcilers.apps.operations.words import OpAnnotation
from konverge_testing import Lab, install_crds
from konverge_testing.volsync import volsync_crds

VERBS = {"upgrade": "helm", "restore": "volsync", "runcommand": "job", "migration": "job"}
OFFERS = {f"{OpAnnotation.CAPABILITY}{verb}": engine for verb, engine in VERBS.items()}
REPAIRS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "upgrade": ("Upgrade", "helm", {"targetVersion": "1.0.0"}),
    "restore": ("Restore", "volsync", {"pvc": "data", "repository": {"secretName": "repo"}}),
    "command": ("RunCommand", "job", COMMAND),
}


@pytest_asyncio.fixture
async def apps(lab: Lab) -> AsyncIterator[Apps]:
    async with AsyncExitStack() as stack:
        apps = await Apps(lab, stack).start(WITH_OPERATIONS)
        await install_crds(lab.client, volsync_crds())
        await Operations(lab).create_account()
        yield apps


async def operate(apps: Apps, name: str, type_: str, engine: str, parameters: dict[str, Any]) -> Operation:
    target = {"apiVersion": "apps.vworkspace.io/v1alpha1", "kind": "ApplicationInstance", "name": "shop"}
    given = {"targetRef": target, "type": type_, "engine": engine, "parameters": parameters}
    return await apps.lab.create(Operation.decode({"metadata": {"name": name}, "spec": given}))


async def repair(apps: Apps, name: str) -> None:
    """Create the repair, approve it if that is needed, and wait until it has begun."""
    made = await operate(apps, name, *REPAIRS[name])
    if name == "restore":
        waits = await apps.lab.until(Operation, name, shows("Blocked", "True", "AwaitingApproval"))
        assert spec_digest(made) in waits.condition("Blocked").message
        claim = claim_for(made, cluster="", expires=wall_clock() + timedelta(days=1))
        await apps.lab.patch(Operation, name, {"spec": {"approvals": {"claim": claim}}})
    await apps.lab.until(Operation, name, has_object, timeout=60)


async def broken_by(apps: Apps, fault: str) -> None:
    """Leave the target in a permanent failure."""
    lab = apps.lab
    charts: dict[str, Any] = {"chart": OCI_CHART} if fault == "no such tag" else {}
    await apps.create(**charts)
    await lab.patch(ApplicationInstance, "shop", {"metadata": {"annotations": OFFERS}})
    await apps.until(READY)
    if fault == "helm fails":
        await operate(apps, "bad", "Upgrade", "helm", {"targetVersion": "1.2.0"})
        await lab.until(Operation, "bad", phase("Failed"))
    elif fault == "no such tag":
        apps.world.versions = {"1.0.0"}
        await operate(apps, "bad", "Upgrade", "helm", {"targetVersion": "9.9.9"})
        await apps.until(says("Ready", "False", "ChartUnreachable"))
        await lab.patch(Operation, "bad", {"spec": {"cancel": True}})
        await lab.until(Operation, "bad", phase("Cancelled"), timeout=120)
    elif fault == "refused spec":
        await apps.change(values={"source": "inline", "inline": {"db": {"password": "hunter2"}}})
        await apps.until(says("Blocked", "True", "ValidationFailed"))
    else:
        assert fault == "suspended"
        await apps.edit_release({"suspend": True})
        await apps.change(chart={"version": "1.1.0"})
        await apps.until(says("Suspended", "True"))


STARTS = [
    *(("helm fails", by) for by in REPAIRS),
    ("no such tag", "upgrade"),
    ("refused spec", "restore"),
    ("suspended", "restore"),
]


@pytest.mark.parametrize(("fault", "by"), STARTS)
async def test_a_repair_starts_on_a_target_that_has_failed(apps: Apps, fault: str, by: str) -> None:
    await broken_by(apps, fault)
    await repair(apps, by)


async def test_an_upgrade_back_ends_and_the_target_is_ready_again(apps: Apps) -> None:
    await broken_by(apps, "helm fails")
    await repair(apps, "upgrade")
    await apps.lab.until(Operation, "upgrade", phase("Succeeded"))
    await apps.until(READY)


async def test_a_patch_that_removes_what_is_refused_mends_the_target(apps: Apps) -> None:
    await broken_by(apps, "refused spec")
    await operate(apps, "up", "Upgrade", "helm", {"valuesPatch": {"db": None}})
    await apps.lab.until(Operation, "up", phase("Succeeded"))
    await apps.until(READY)


EDITS: dict[str, tuple[dict[str, Any], str]] = {
    "a secret": ({"valuesPatch": {"db": {"password": "hunter2"}}}, "spec.values.inline.db.password"),
    "a private key": ({"valuesPatch": {"tls": {"any": "-----BEGIN PRIVATE KEY-----hunter2"}}}, "spec.values.inline.tls.any"),
    "too many values": ({"valuesPatch": {"list": [0] * 5_001}}, "more than 5,000 values"),
    "a forbidden version": ({"targetVersion": "6.6.6"}, "version 6.6.6 of chart shop is forbidden"),
    "a secret beside a version": ({"targetVersion": "1.1.0", "valuesPatch": {"apiKey": "hunter2"}}, "spec.values.inline.apiKey"),
}  # fmt: skip


async def test_an_edit_that_the_target_would_refuse_is_never_written(lab: Lab) -> None:
    forbidden = WITH_OPERATIONS.model_validate(
        {**WITH_OPERATIONS.model_dump(), "forbidden_versions": [{"chart": "shop", "versions": ">=6.0.0"}]}
    )
    async with AsyncExitStack() as stack:
        apps = await Apps(lab, stack).start(forbidden)
        await apps.create()
        await lab.patch(ApplicationInstance, "shop", {"metadata": {"annotations": OFFERS}})
        before = await apps.until(READY)
        for number, (case, (parameters, word)) in enumerate(EDITS.items()):
            await operate(apps, f"bad-{number}", "Upgrade", "helm", parameters)
            found = await lab.until(Operation, f"bad-{number}", phase("Failed"))
            assert shows("Accepted", "False", "ValidationFailed")(found), case
            message = found.condition("Failed").message
            assert word in message
            assert "nothing was edited" in message
            assert "hunter2" not in message
        assert (await lab.get(ApplicationInstance, "shop")).generation == before.generation
        await operate(apps, "next", "Upgrade", "helm", {"targetVersion": "1.1.0"})
        await lab.until(Operation, "next", phase("Succeeded"))


async def test_a_stalled_upgrade_ends_with_the_reason_and_message_of_stalled(lab: Lab) -> None:
    """Flux is stopped, so no controller rolls out the new version."""
    async with AsyncExitStack() as flux:
        apps = await Apps(lab, flux).start(WITH_OPERATIONS)
        await apps.create()
        await lab.patch(ApplicationInstance, "shop", {"metadata": {"annotations": OFFERS}})
        await apps.until(READY)
    await operate(apps, "up", "Upgrade", "helm", {"targetVersion": "1.1.0"})
    await lab.until(Operation, "up", has_object)
    await asyncio.sleep(WITH_OPERATIONS.stuck_after.total_seconds())
    found = await lab.until(Operation, "up", phase("Failed"), timeout=60)
    stalled = (await lab.get(ApplicationInstance, "shop")).condition("Stalled")
    end = found.condition("Failed")
    assert (end.reason, end.message) == (stalled.reason, stalled.message)
    assert end.reason == "ProgressDeadlineExceeded"
