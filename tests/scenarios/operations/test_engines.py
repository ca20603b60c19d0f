"""Velero, Argo and VolSync through the whole reconciler, on their stand-ins."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from apps.engine_shop import KINDS, SNAPSHOTS, EngineShop, in_phase
from apps.operations import phase, shows

from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.crds.ops_v1alpha1 import Operation
from konverge.errors import Invalid
from konverge.kinds import kind
from konverge.objects import Object
from konverge_testing import Lab, install_crds
from konverge_testing.argo import Step

NAMESPACE = kind("v1", "Namespace", namespaced=False, plural="namespaces")
SUCCEEDED, FAILED, CANCELLED = phase("Succeeded"), phase("Failed"), phase("Cancelled")
RUNS = phase("Running")


@pytest.fixture
async def shop(lab: Lab) -> AsyncIterator[EngineShop]:
    async with AsyncExitStack() as stack:
        yield EngineShop(lab, stack)


# --- Velero --------------------------------------------------------------------------------------------------------------------


async def test_a_backup_is_made_and_restored(shop: EngineShop) -> None:
    await shop.open()
    made = await shop.backup(retention="30d")
    done = await shop.until("backup", SUCCEEDED)
    name = f"op-{made.metadata.uid}"
    assert done.status.outputs["backupName"] == name
    assert done.status.outputs["itemCount"] == "5"
    stored = await shop.lab.get(KINDS["Backup"], name)
    assert stored.get("spec", "ttl") == "720h"
    assert stored.metadata.annotation("ops.vworkspace.io/operation-name") == f"{shop.lab.namespace}/backup"
    await shop.restore(name)
    restored = await shop.until("restore", SUCCEEDED)
    assert (restored.status.outputs["backupName"], restored.status.outputs["warnings"]) == (name, "1")


async def test_x4_a_backup_outlives_the_operation_that_made_it(shop: EngineShop) -> None:
    await shop.open()
    made = await shop.backup()
    await shop.until("backup", SUCCEEDED)
    await shop.lab.delete(Operation, "backup")
    await shop.lab.until_gone(Operation, "backup")
    await shop.lab.settled()
    assert (await shop.lab.get(KINDS["Backup"], f"op-{made.metadata.uid}")).get("status", "phase") == "Completed"


async def test_x4_a_backup_outlives_an_operation_whose_time_to_live_has_passed(shop: EngineShop) -> None:
    await shop.open()
    made = await shop.create("backup", "Backup", "velero", parameters={}, ttlSecondsAfterFinished=1)
    await shop.lab.until_gone(Operation, "backup")
    await shop.lab.settled()
    assert (await shop.lab.get(KINDS["Backup"], f"op-{made.metadata.uid}")).get("status", "phase") == "Completed"


async def test_x5_two_namespaces_with_one_operation_name_have_two_backups(shop: EngineShop) -> None:
    await shop.open(everywhere=True)
    await shop.lab.namespace_also("other")
    await shop.backup("nightly")
    first = await shop.until("nightly", SUCCEEDED)
    there = ApplicationInstance.decode((await shop.lab.get(ApplicationInstance, "shop")).to_dict())
    twin = there.to_dict()
    twin["metadata"] = {"name": "shop", "namespace": "other", "annotations": twin["metadata"]["annotations"]}
    await shop.lab.client.create(ApplicationInstance.decode(twin))
    operation = first.to_dict()
    operation["metadata"] = {"name": "nightly", "namespace": "other"}
    operation.pop("status")
    second = await shop.lab.client.create(Operation.decode(operation))
    backups = KINDS["Backup"]
    await shop.lab.until(backups, f"op-{second.metadata.uid}", in_phase("Completed"))
    one, two = [await shop.lab.get(backups, f"op-{made.metadata.uid}") for made in (first, second)]
    assert [made.get("spec", "includedNamespaces") for made in (one, two)] == [[shop.lab.namespace], ["other"]]
    assert one.metadata.uid != two.metadata.uid


@pytest.mark.parametrize(
    "theirs",
    [
        {"annotations": {"ops.vworkspace.io/operation-name": "other/nightly"}},
        {"annotations": {}},
        {"namespaces": ["other"]},
    ],
)
async def test_x6_a_restore_of_another_tenants_backup_is_refused(shop: EngineShop, theirs: dict[str, Any]) -> None:
    await shop.open()
    own = f"{shop.lab.namespace}/nightly"
    annotations = theirs.get("annotations", {"ops.vworkspace.io/operation-name": own})
    included = theirs.get("namespaces", [shop.lab.namespace])
    made = KINDS["Backup"].new("theirs", annotations=annotations, spec={"includedNamespaces": included})
    await shop.lab.create(made)
    await shop.lab.until(KINDS["Backup"], "theirs", in_phase("Completed"))
    await shop.restore("theirs")
    refused = await shop.until("restore", FAILED, shows("Accepted", "False", "ValidationFailed"))
    assert "was not made by an Operation of namespace" in refused.condition("Accepted").message
    assert (await shop.lab.client.list(KINDS["Restore"], shop.lab.namespace)).items == []


async def operate(shop: EngineShop, namespace: str, name: str, type_: str, parameters: dict[str, Any]) -> Operation:
    """Perform an Operation with Velero in another namespace than the lab's; returns it at its end."""
    ref = {"apiVersion": "apps.vworkspace.io/v1alpha1", "kind": "ApplicationInstance", "name": "shop"}
    spec = {"targetRef": ref, "type": type_, "engine": "velero", "parameters": parameters}
    metadata = {"name": name, "namespace": namespace}
    await shop.lab.client.create(Operation.decode({"metadata": metadata, "spec": spec}))
    async with asyncio.timeout(120):
        while not (found := await shop.lab.get(Operation, name, namespace)).finished:
            await asyncio.sleep(0.1)
    return found


async def settle_in(shop: EngineShop, namespace: str) -> None:
    """Create a namespace with a target like the lab's."""
    await shop.lab.namespace_also(namespace)
    data = (await shop.lab.get(ApplicationInstance, "shop")).to_dict()
    data["metadata"] = {"name": "shop", "namespace": namespace, "annotations": data["metadata"]["annotations"]}
    status = data.pop("status")
    made = (await shop.lab.client.create(ApplicationInstance.decode(data))).to_dict()
    await shop.lab.client.replace(ApplicationInstance.decode({**made, "status": status}), subresource="status")


async def test_x6_recreated_namespace_does_not_restore_the_former_tenants_backup(shop: EngineShop) -> None:
    await shop.open(everywhere=True)
    lab = shop.lab
    await settle_in(shop, "tenant")
    name = (await operate(shop, "tenant", "nightly", "Backup", {})).status.outputs["backupName"]
    assert SUCCEEDED(await operate(shop, "tenant", "own", "Restore", {"backupName": name}))
    await lab.client.delete(NAMESPACE, "tenant")
    await lab.until_gone(NAMESPACE, "tenant")
    await settle_in(shop, "tenant")
    restores = len((await lab.client.list(KINDS["Restore"], lab.namespace)).items)
    refused = await operate(shop, "tenant", "theirs", "Restore", {"backupName": name})
    assert shows("Accepted", "False", "ValidationFailed")(refused)
    message = refused.condition("Accepted").message
    assert "holds another namespace tenant, which was deleted" in message
    assert len((await lab.client.list(KINDS["Restore"], lab.namespace)).items) == restores
    told = re.search(r"(ops\.vworkspace\.io/namespace-uid)=(\S+),", message)
    assert told is not None
    meant = {"metadata": {"annotations": {told[1]: told[2]}}}
    await lab.client.patch(KINDS["Backup"], name, lab.namespace, patch=meant, style="merge")
    assert SUCCEEDED(await operate(shop, "tenant", "meant", "Restore", {"backupName": name}))


async def test_a_restore_waits_for_its_backup_and_starts_when_that_is_completed(shop: EngineShop) -> None:
    await shop.open()
    await shop.restore("later")
    await shop.until("restore", phase("Pending"), shows("Blocked", "True", "DependencyMissing"))
    namespace = await shop.lab.get(NAMESPACE, shop.lab.namespace)
    own = {
        "ops.vworkspace.io/operation-name": f"{shop.lab.namespace}/nightly",
        "ops.vworkspace.io/namespace-uid": namespace.metadata.uid,
    }
    spec = {"includedNamespaces": [shop.lab.namespace], "storageLocation": "default"}
    await shop.lab.create(KINDS["Backup"].new("later", annotations=own, spec=spec))
    await shop.until("restore", SUCCEEDED)


async def test_a_backup_waits_for_its_location_and_starts_when_that_is_available(shop: EngineShop) -> None:
    await shop.open()
    await shop.backup(storageLocation="cold")
    waits = await shop.until("backup", phase("Pending"), shows("Blocked", "True", "DependencyMissing"))
    assert "cold does not exist" in waits.condition("Blocked").message
    await shop.location("cold")
    await shop.until("backup", SUCCEEDED)


async def test_snapshot_class_is_awaited_and_passed_to_velero_by_its_driver(shop: EngineShop) -> None:
    await shop.open()
    await install_crds(shop.lab.client, [SNAPSHOTS])
    await shop.backup(csiSnapshotClassName="fast")
    await shop.until("backup", shows("Blocked", "True", "MissingVolumeSnapshotClass"))
    classes = kind(
        "snapshot.storage.k8s.io/v1", "VolumeSnapshotClass", namespaced=False, plural="volumesnapshotclasses"
    )
    await shop.lab.client.create(classes.new("fast", driver="ebs.csi.aws.com"))
    await shop.until("backup", SUCCEEDED)
    made = await shop.child("Backup", "backup")
    assert made.metadata.annotation("velero.io/csi-volumesnapshot-class_ebs.csi.aws.com") == "fast"


async def test_operations_wait_for_missing_engines_and_start_after_their_installation(shop: EngineShop) -> None:
    await shop.open(engines=False)
    await shop.backup()
    await shop.runbook()
    await shop.replicate()
    for name in ("backup", "runbook", "copy"):
        waits = await shop.until(name, phase("Pending"), shows("Blocked", "True", "DependencyMissing"))
        assert "install the engine" in waits.condition("Blocked").message
    await shop.create("command", parameters={"image": "busybox", "exclusive": True})
    await shop.complete("command")  # only the others are blocked
    await shop.install()
    await shop.lab.until(Operation, "backup", SUCCEEDED, timeout=300)
    await shop.lab.until(Operation, "runbook", SUCCEEDED, timeout=300)
    await shop.lab.until(Operation, "copy", SUCCEEDED, timeout=300)


async def test_partial_failures_fail_the_operation_unless_they_are_tolerated(shop: EngineShop) -> None:
    await shop.open()
    shop.velero.failing[shop.lab.namespace] = 2
    await shop.backup()
    failed = await shop.until("backup", FAILED, shows("Failed", "True", "PartiallyFailed"))
    assert failed.status.outputs["errors"] == "2"
    await shop.backup("lenient", toleratePartialFailure=True)
    tolerated = await shop.until("lenient", SUCCEEDED)
    assert tolerated.status.outputs["errors"] == "2"


async def test_started_backup_ends_in_its_own_way_after_a_cancel(shop: EngineShop) -> None:
    await shop.open()
    await shop.backup()
    await shop.child_is("Backup", "backup", in_phase("InProgress"))
    await shop.cancel("backup")
    stopping = await shop.until("backup", shows("Running", "True", "Stopping"))
    assert "cannot stop it" in stopping.condition("Running").message
    await shop.until("backup", SUCCEEDED)


async def test_a_queued_backup_is_deleted_by_a_cancel_and_leaves_nothing(shop: EngineShop) -> None:
    await shop.open()
    shop.velero.seconds[shop.lab.namespace] = 10
    await shop.backup("first")
    await shop.child_is("Backup", "first", in_phase("InProgress"))
    await shop.backup("second")
    queued = await shop.child_is("Backup", "second", in_phase("Queued"))
    await shop.cancel("second")
    await shop.until("second", CANCELLED)
    await shop.lab.until_gone(KINDS["Backup"], queued.name)
    await shop.until("first", SUCCEEDED)
    assert queued.name not in shop.velero.names


async def test_killed_server_fails_the_running_backup_and_keeps_the_queued_backup(shop: EngineShop) -> None:
    await shop.open()
    shop.velero.seconds[shop.lab.namespace] = 10
    await shop.backup("running")
    await shop.child_is("Backup", "running", in_phase("InProgress"))
    await shop.backup("queued")
    await shop.child_is("Backup", "queued", in_phase("Queued"))
    await shop.kill_velero()
    await asyncio.sleep(30)
    assert [(await shop.get(name)).status.phase for name in ("running", "queued")] == ["Running", "Pending"]
    await shop.serve_velero()
    failed = await shop.until("running", FAILED)
    assert "during the server starting" in failed.condition("Failed").message
    await shop.until("queued", SUCCEEDED)


async def test_a_finished_backup_that_vanishes_and_returns_changes_nothing(shop: EngineShop) -> None:
    await shop.open()
    await shop.backup()
    done = await shop.until("backup", SUCCEEDED)
    made = await shop.child("Backup", "backup")
    await shop.lab.delete(KINDS["Backup"], made.name)
    again = await shop.lab.until(
        KINDS["Backup"], made.name, lambda found: found.metadata.uid != made.metadata.uid, timeout=120
    )
    assert again.metadata.label("ops.vworkspace.io/operation") == done.metadata.uid
    await shop.lab.settled()
    assert (await shop.get("backup")).metadata.resource_version == done.metadata.resource_version


async def test_deleted_operation_waits_for_its_running_backup_and_keeps_the_backup(shop: EngineShop) -> None:
    await shop.open()
    await shop.backup()
    made = await shop.child_is("Backup", "backup", in_phase("InProgress"))
    await shop.lab.delete(Operation, "backup")
    await shop.lab.until_gone(Operation, "backup", timeout=120)
    assert (await shop.lab.get(KINDS["Backup"], made.name)).get("status", "phase") in ("Finalizing", "Completed")


# --- Argo ----------------------------------------------------------------------------------------------------------------------


async def test_a_runbook_succeeds_with_the_outputs_of_its_workflow(shop: EngineShop) -> None:
    await shop.open()
    shop.argo.outputs["runbook"] = {"version": "1.2.3"}
    await shop.runbook(workflowTemplateParameters={"level": 3})
    done = await shop.until("runbook", SUCCEEDED)
    made = await shop.child("Workflow", "runbook")
    assert done.status.outputs["version"] == "1.2.3"
    assert done.status.outputs["runId"] == made.metadata.uid
    assert made.get("spec", "arguments", "parameters") == [{"name": "level", "value": "3"}]
    assert [owner.uid for owner in made.metadata.owner_references] == [done.metadata.uid]


async def test_workflow_that_waits_for_a_person_blocks_its_operation_until_resumed(shop: EngineShop) -> None:
    await shop.open()
    shop.argo.steps["runbook"] = (Step("check"), Step("approve", suspend=True), Step("upgrade"))
    await shop.runbook()
    waits = await shop.until("runbook", RUNS, shows("Blocked", "True", "AwaitingResume"))
    assert "step approve" in waits.condition("Blocked").message
    made = await shop.child("Workflow", "runbook")
    node = next(name for name, found in made.get("status", "nodes").items() if found["type"] == "Suspend")
    await shop.lab.patch(KINDS["Workflow"], made.name, {"status": {"nodes": {node: {"phase": "Succeeded"}}}})
    done = await shop.until("runbook", SUCCEEDED)
    assert done.condition("Blocked").is_false


@pytest.mark.parametrize("suspended", [False, True])
async def test_a_cancelled_workflow_is_shut_down_also_if_it_is_suspended(shop: EngineShop, suspended: bool) -> None:
    await shop.open()
    shop.argo.steps["runbook"] = (Step("check", seconds=600),)
    await shop.runbook()
    made = await shop.child_is("Workflow", "runbook", in_phase("Running"))
    if suspended:
        await shop.lab.patch(KINDS["Workflow"], made.name, {"spec": {"suspend": True}})
        await shop.until("runbook", shows("Blocked", "True", "AwaitingResume"))
    await shop.cancel("runbook")
    await shop.lab.until(Operation, "runbook", CANCELLED, timeout=120)
    spec = (await shop.lab.get(KINDS["Workflow"], made.name)).get("spec")
    assert (spec["shutdown"], "suspend" in spec) == ("Stop", False)


async def test_workflow_that_succeeds_despite_its_shutdown_ends_its_operation_in_success(shop: EngineShop) -> None:
    await shop.open()
    shop.argo.kill_lost = True
    shop.argo.steps["runbook"] = (Step("check", seconds=10),)
    await shop.runbook()
    await shop.child_is("Workflow", "runbook", in_phase("Running"))
    await shop.cancel("runbook")
    done = await shop.lab.until(Operation, "runbook", SUCCEEDED, timeout=120)
    assert "before the cancel" in done.condition("Succeeded").message


async def test_a_migration_is_performed_by_a_workflow(shop: EngineShop) -> None:
    await shop.open()
    await shop.create("migrate", "Migration", "workflow", parameters={"workflowTemplate": "runbook"})
    done = await shop.until("migrate", SUCCEEDED)
    workflow = await shop.child("Workflow", "migrate")
    assert done.status.outputs["workflowName"] == workflow.name
    assert workflow.get("status", "phase") == "Succeeded"


async def test_a_template_that_is_missing_is_waited_for(shop: EngineShop) -> None:
    await shop.open()
    await shop.create("later", "Runbook", "workflow", parameters={"template": "nosuch"})
    await shop.until("later", phase("Pending"), shows("Blocked", "True", "DependencyMissing"))
    await shop.lab.create(KINDS["WorkflowTemplate"].new("nosuch", spec={}))
    await shop.until("later", SUCCEEDED)


async def test_a_failed_step_is_named_by_the_operation(shop: EngineShop) -> None:
    await shop.open()
    shop.argo.steps["runbook"] = (Step("check"), Step("upgrade", exit_code=3))
    await shop.runbook()
    failed = await shop.until("runbook", FAILED)
    assert failed.condition("Failed").message == "step upgrade: main: Error (exit code 3)"


# --- VolSync -------------------------------------------------------------------------------------------------------------------


async def test_volume_is_copied_and_its_transient_errors_are_not_shown(shop: EngineShop) -> None:
    await shop.open()
    await shop.replicate()
    done = await shop.until("copy", SUCCEEDED)
    made = await shop.child("ReplicationSource", "copy")
    assert made.get("status", "lastManualSync") == done.metadata.uid
    assert done.status.outputs["replicationName"] == made.name
    assert done.find_condition("Blocked") is None or done.condition("Blocked").is_false


async def test_a_copy_is_restored_into_the_volume(shop: EngineShop) -> None:
    await shop.open()
    await shop.replicate("back", "Restore")
    done = await shop.until("back", SUCCEEDED)
    assert done.status.outputs["latestImage"] == "PersistentVolumeClaim/data"


async def test_the_engine_snapshot_is_refused_and_volsync_makes_the_snapshot(shop: EngineShop) -> None:
    """The original documents an engine `snapshot`, but its schema rejects it."""
    await shop.open()
    with pytest.raises(Invalid, match="Unsupported value"):
        await shop.lab.create(
            Object(
                {
                    "apiVersion": "ops.vworkspace.io/v1alpha1",
                    "kind": "Operation",
                    "metadata": {"name": "snapshot"},
                    "spec": {
                        "targetRef": {
                            "apiVersion": "apps.vworkspace.io/v1alpha1",
                            "kind": "ApplicationInstance",
                            "name": "shop",
                        },
                        "type": "Backup",
                        "engine": "snapshot",
                    },
                }
            )
        )
    await shop.replicate("back", "Restore", copyMethod="Snapshot")
    done = await shop.until("back", SUCCEEDED)
    assert done.status.outputs["latestImage"] == f"VolumeSnapshot/{done.status.outputs['snapshotName']}"


async def test_a_mover_that_keeps_failing_is_given_up_and_stopped(shop: EngineShop) -> None:
    await shop.open()
    shop.volsync.failing["data"] = "Fatal: unable to open the repository"
    await shop.replicate(retrySeconds=12)
    retrying = await shop.until("copy", shows("Running", "True", "MoverRetrying"))
    assert "unable to open the repository" in retrying.condition("Running").message
    made = await shop.child("ReplicationSource", "copy")
    failed = await shop.until("copy", FAILED)
    assert "unable to open the repository" in failed.condition("Failed").message
    await shop.lab.until_gone(KINDS["ReplicationSource"], made.name)


async def test_a_mover_that_heals_in_time_makes_the_operation_succeed(shop: EngineShop) -> None:
    await shop.open()
    shop.volsync.failing["data"] = "Fatal"
    await shop.replicate(retrySeconds=600)
    await shop.until("copy", shows("Running", "True", "MoverRetrying"))
    shop.volsync.failing.clear()
    await shop.until("copy", SUCCEEDED)


async def test_missing_volume_is_named_and_the_run_continues_once_it_exists(shop: EngineShop) -> None:
    await shop.open()
    shop.volsync.missing_volumes.add("data")
    await shop.replicate()
    waits = await shop.until("copy", RUNS, shows("Blocked", "True", "DependencyMissing"))
    assert waits.condition("Blocked").message == 'PersistentVolumeClaim "data" not found'
    shop.volsync.missing_volumes.clear()
    await shop.until("copy", SUCCEEDED)


async def test_a_cancelled_replication_is_deleted(shop: EngineShop) -> None:
    await shop.open()
    shop.volsync.seconds = 600
    await shop.replicate()
    await shop.until("copy", RUNS)
    made = await shop.child("ReplicationSource", "copy")
    await shop.cancel("copy")
    await shop.until("copy", CANCELLED)
    await shop.lab.until_gone(KINDS["ReplicationSource"], made.name)


async def test_a_deadline_stops_a_replication(shop: EngineShop) -> None:
    await shop.open()
    shop.volsync.seconds = 600
    given = {"pvc": "data", "repository": {"secretName": "repo"}}
    await shop.create("copy", "Backup", "volsync", parameters=given, timeoutSeconds=5)
    failed = await shop.until("copy", FAILED, shows("Failed", "True", "Timeout"))
    assert failed.status.engine_ref is not None
    await shop.lab.until_gone(KINDS["ReplicationSource"], failed.status.engine_ref.name)
