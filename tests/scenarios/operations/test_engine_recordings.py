"""The recordings of Velero, Argo and VolSync through the whole reconciler: how each Operation ends.

The tables of the translation (tests/unit/apps/engines) hold every state on the way; here phase and reason at the end are compared, with the
real status written into the object that the Operation made.
"""

from __future__ import annotations

from contextlib import AsyncExitStack

from apps.engine_recordings import EngineRecordings, Story

from konverge.crds.ops_v1alpha1 import Operation
from konverge.testing import Lab

GOOD, LOST, VOID = "Succeeded/EngineCompleted", "Failed/EngineObjectLost", "Failed/ValidationFailed"
PARTIAL, BAD, GONE = "Failed/PartiallyFailed", "Failed/EngineFailed", "Cancelled/UserCancelled"

VELERO = {
    Story("velero", "backup-completes", "Backup/shop-1"): GOOD,
    Story("velero", "backup-namespace-missing", "Backup/nowhere"): PARTIAL,
    Story("velero", "backup-failed-validation", "Backup/two-selectors"): VOID,
    Story("velero", "backup-name-in-bucket", "Backup/twice", 1): BAD,
    Story("velero", "backup-partially-failed-hook", "Backup/hook-fails"): PARTIAL,
    Story("velero", "backup-plugin-operation", "Backup/async-ok"): GOOD,
    Story("velero", "backup-plugin-operation-fails", "Backup/async-fails"): PARTIAL,
    Story("velero", "backup-queue", "Backup/queue-b"): LOST,
    Story("velero", "backup-queue", "Backup/queue-d"): GOOD,
    Story("velero", "backup-deleted-while-in-progress", "Backup/del-mid"): LOST,
    Story("velero", "backup-expires", "Backup/short"): GOOD,
    Story("velero", "backup-ttl-30d", "Backup/good-1"): GOOD,
    Story("velero", "backup-location-down-during", "Backup/down-during"): BAD,
    Story("velero", "restore-existing", "Restore/restore-skip"): GOOD,
    Story("velero", "restore-partially-failed", "Restore/restore-item-fails"): PARTIAL,
    Story("velero", "restore-deleted-while-in-progress", "Restore/restore-slow"): GOOD,
    Story("velero", "deletebackuprequest", "Restore/from-doomed"): GOOD,
    Story("velero", "server-killed-backup", "Backup/killed"): BAD,
    Story("velero", "server-killed-restore", "Restore/restore-killed"): BAD,
    Story("velero", "server-killed-plugin-operation", "Backup/killed-async"): GOOD,
}
STOPPED = "patch spec.shutdown"
ARGO = {
    Story("argo", "succeeded", "Workflow/op-1"): GOOD,
    Story("argo", "failed", "Workflow/op-1"): BAD,
    Story("argo", "retry", "Workflow/op-1"): GOOD,
    Story("argo", "error-pod-refused", "Workflow/op-1"): BAD,
    Story("argo", "invalid", "Workflow/op-1"): BAD,
    Story("argo", "suspend-node", "Workflow/op-1"): GOOD,
    Story("argo", "suspend-spec", "Workflow/op-1"): GOOD,
    Story("argo", "shutdown-stop", "Workflow/op-1", cancel_at=STOPPED): GONE,
    Story("argo", "shutdown-terminate-kill-not-delivered", "Workflow/op-1", cancel_at=STOPPED): GOOD,
    Story("argo", "shutdown-while-suspended", "Workflow/op-1", cancel_at=STOPPED): GONE,
    Story("argo", "pending-mutex-shutdown", "Workflow/op-2", cancel_at=STOPPED): GONE,
    Story("argo", "ttl", "Workflow/op-1"): GOOD,
    Story("argo", "deleted", "Workflow/op-1"): LOST,
    Story("argo", "other-instance-id", "Workflow/op-1"): "Pending/EngineNotStarted",
}
SOURCE = "ReplicationSource/data"
VOLSYNC = {
    Story("volsync", "source-completes", SOURCE): GOOD,
    Story("volsync", "source-mover-fails", SOURCE): GOOD,
    Story("volsync", "source-pvc-missing", SOURCE): GOOD,
    Story("volsync", "source-created-paused", SOURCE): GOOD,
    Story("volsync", "source-token-changed-mid-run", SOURCE): "Running/EngineError",
    Story("volsync", "source-no-copymethod", SOURCE): "Running/EngineError",
    Story("volsync", "source-deleted-mid-run", SOURCE): LOST,
    Story("volsync", "destination-completes", "ReplicationDestination/data"): GOOD,
}


def end(operation: Operation) -> str:
    """Return phase and reason."""
    phase = operation.status.phase or ""
    condition = operation.find_condition(phase if phase != "Pending" else "Running")
    return f"{phase}/{condition.reason if condition is not None else ''}"


async def ends(lab: Lab, expected: dict[Story, str]) -> dict[str, str]:
    async with AsyncExitStack() as stack:
        recordings = EngineRecordings(lab, stack)
        await recordings.open()
        return {name: end(operation) for name, operation in (await recordings.play(expected)).items()}


async def test_the_recordings_of_velero_end_an_operation_as_their_table_says(lab: Lab) -> None:
    assert await ends(lab, VELERO) == {story.id: how for story, how in VELERO.items()}


async def test_the_recordings_of_argo_end_an_operation_as_their_table_says(lab: Lab) -> None:
    assert await ends(lab, ARGO) == {story.id: how for story, how in ARGO.items()}


async def test_the_recordings_of_volsync_end_an_operation_as_their_table_says(lab: Lab) -> None:
    assert await ends(lab, VOLSYNC) == {story.id: how for story, how in VOLSYNC.items()}
