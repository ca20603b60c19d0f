"""Backups, workflows and copies on the stand-ins, under the lab's faults: `make test` quickly, `make lab` with every plan.

After every write: no two objects of Operations that exclude each other run for a target, whatever their engines; an Operation has never
created two objects; a terminal phase never changes.
"""

from collections.abc import Callable
from typing import Any

import pytest
from apps.engine_shop import ALL, KINDS
from apps.operation_safety import Safety
from apps.operations import Operations, phase, shows

from konverge.crds import crd
from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.crds.ops_v1alpha1 import Operation
from konverge.reconcilers.apps.operations.install import controller
from konverge.reconcilers.apps.operations.settings import OperationSettings
from konverge_testing import Lab, install_crds
from konverge_testing.argo import ArgoWorld, Step, WorkflowController, argo_crds
from konverge_testing.velero import VeleroServer, velero_crds
from konverge_testing.volsync import VolSyncController, VolSyncWorld, volsync_crds

FEW = 12
"""Plans of each scenario in quick mode: with three stand-ins beside it a run is dear. `make lab` runs all plans."""


def forget_uids(data: dict[str, Any]) -> None:
    """Remove what depends on the UID of an Operation or its object, or on the time of a reconcile."""
    status = data.get("status") or {}
    for name in ("engineRef", "outputs", "logsRef", "startedAt", "finishedAt"):
        status.pop(name, None)
    (data["spec"].get("parameters") or {}).pop("backupName", None)
    for condition in status.get("conditions", ()):
        condition.pop("message", None)


async def start(lab: Lab) -> tuple[Operations, ArgoWorld, VolSyncWorld]:
    Safety(lab)
    lab.may_differ(
        Operation, forget_uids, why="names of objects depend on UIDs, times on how long the process was down"
    )
    for kind in ("Backup", "Restore", "Workflow", "ReplicationSource", "ReplicationDestination"):
        lab.may_differ(KINDS[kind], why="an Operation that was made anew has another object, and Velero's stay")
    await install_crds(
        lab.client, [*velero_crds(), *argo_crds(), *volsync_crds(), crd(Operation), crd(ApplicationInstance)]
    )
    argo, volsync = ArgoWorld(), VolSyncWorld()
    await lab.enter(VeleroServer(lab.config, namespace=lab.namespace, random=lab.rng()))
    await lab.enter(WorkflowController(lab.config, world=argo, namespace=lab.namespace, random=lab.rng()))
    await lab.enter(VolSyncController(lab.config, world=volsync, namespace=lab.namespace, random=lab.rng()))
    await lab.create(KINDS["BackupStorageLocation"].new("default", spec={"provider": "aws"}))
    await lab.create(KINDS["WorkflowTemplate"].new("runbook", spec={}))
    settings = OperationSettings(approval_types=frozenset(), velero_namespace=lab.namespace)
    await lab.start(lambda manager: manager.add(controller(settings)), name="konverge")
    ops = Operations(lab)
    await ops.target(offers=ALL)
    return ops, argo, volsync


def or_never_made(test: Callable[[Operation], bool]) -> Callable[[Operation], bool]:
    """A process that is down for hours after it has named the object cannot know whether the object was created and deleted since."""
    lost = shows("Failed", "True", "EngineObjectLost")
    return lambda found: test(found) or lost(found)


async def all_deleted(lab: Lab, *names: str) -> None:
    """Delete these Operations, whatever they have created: a lost Operation would differ from the reference run's."""
    for name in names:
        await lab.delete(Operation, name)
    for name in names:
        await lab.until_gone(Operation, name)


@pytest.mark.scenario(quick=FEW)
async def test_a_backup_is_made_and_its_operation_is_deleted(lab: Lab) -> None:
    ops, _, _ = await start(lab)
    await ops.create("nightly", "Backup", "velero", parameters={"retention": "30d"})
    await lab.until(Operation, "nightly", or_never_made(phase("Succeeded")), timeout=180)
    await lab.delete(Operation, "nightly")
    await lab.until_gone(Operation, "nightly")


@pytest.mark.scenario(quick=FEW)
async def test_workflow_is_cancelled_during_a_manual_step_and_its_operation_deleted(lab: Lab) -> None:
    ops, argo, _ = await start(lab)
    argo.steps["runbook"] = (Step("approve", suspend=True),)
    await ops.create("ask", "Runbook", "workflow", parameters={"workflowTemplate": "runbook"})
    await lab.until(Operation, "ask", or_never_made(shows("Blocked", "True", "AwaitingResume")), timeout=60)
    await lab.patch(Operation, "ask", {"spec": {"cancel": True}})
    await lab.until(Operation, "ask", or_never_made(phase("Cancelled")), timeout=60)
    await lab.delete(Operation, "ask")
    await lab.until_gone(Operation, "ask")


@pytest.mark.scenario(quick=FEW)
async def test_copy_with_a_failing_mover_times_out_and_its_operation_is_deleted(lab: Lab) -> None:
    ops, _, volsync = await start(lab)
    volsync.failing["data"] = "Fatal"
    given = {"pvc": "data", "repository": {"secretName": "repo"}, "retrySeconds": 5}
    await ops.create("copy", "Backup", "volsync", parameters=given)
    await lab.until(Operation, "copy", phase("Failed"), timeout=120)
    await lab.delete(Operation, "copy")
    await lab.until_gone(Operation, "copy")


@pytest.mark.scenario(quick=FEW)
async def test_a_restore_follows_the_backup_that_it_takes(lab: Lab) -> None:
    ops, _, _ = await start(lab)
    await ops.create("nightly", "Backup", "velero", parameters={})
    made = await lab.until(Operation, "nightly", or_never_made(phase("Succeeded")), timeout=180)
    if made.status.phase == "Succeeded":
        await ops.create("back", "Restore", "velero", parameters={"backupName": made.status.outputs["backupName"]})
        await lab.until(Operation, "back", or_never_made(phase("Succeeded")), timeout=180)
    await all_deleted(lab, "nightly", "back")


@pytest.mark.scenario(quick=FEW)
async def test_restore_waits_for_another_engines_backup_and_blocks_the_next_backup(lab: Lab) -> None:
    ops, _, _ = await start(lab)
    given = {"pvc": "data", "repository": {"secretName": "repo"}}
    await ops.create("nightly", "Backup", "velero", parameters={})
    await ops.until("nightly", lambda found: found.status.started_at is not None)
    await ops.create("back", "Restore", "volsync", parameters=given)
    await ops.until("back", lambda found: found.find_condition("Blocked") is not None)
    await ops.create("copy", "Backup", "volsync", parameters=given)
    for name in ("nightly", "back", "copy"):
        await lab.until(Operation, name, or_never_made(phase("Succeeded")), timeout=300)
    await all_deleted(lab, "nightly", "back", "copy")
