"""Every recorded object of Velero, Argo and VolSync through the whole reconciler: how its Operation ends.

The tables of the translation (tests/unit/apps/engines) hold every state on the way; here phase and reason at the end are compared, with the
real status written into the object that the Operation made. Recordings of the Job controller are in test_job_recordings.py.
"""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest
from apps.engine_recordings import EngineRecordings, Story
from apps.engine_replay import RECORDINGS, lines

from konverge.crds.ops_v1alpha1 import Operation
from konverge_testing import Lab

GOOD, LOST, VOID = "Succeeded/EngineCompleted", "Failed/EngineObjectLost", "Failed/ValidationFailed"
PARTIAL, BAD, GONE = "Failed/PartiallyFailed", "Failed/EngineFailed", "Cancelled/UserCancelled"
WAITS, RUNS = "Pending/EngineNotStarted", "Running/EngineStarted"
UNSEEN, ERRS = "Pending/EngineError", "Running/EngineError"

VELERO: dict[str, dict[str, str]] = {
    "backup-completes": {"Backup/shop-1": GOOD},
    "backup-deleted-and-synced-back": {"Backup/synced": GOOD},
    "backup-deleted-while-in-progress": {"Backup/del-mid": LOST, "Backup/after-del": GOOD},
    "backup-expires": {"Backup/short": GOOD},
    "backup-failed-validation": {
        "Backup/bad-location": VOID,
        "Backup/two-selectors": VOID,
        "Backup/bad-snapshot-location": VOID,
        "Backup/bad-resources": VOID,
        "Backup/bad-policy": VOID,
    },
    "backup-location-down-before": {"Backup/down-before": VOID, "Restore/down-before": VOID},
    "backup-location-down-during": {"Backup/down-during": BAD},
    "backup-location-down-unnoticed": {"Backup/down-unnoticed": BAD, "Restore/down-unnoticed": BAD},
    "backup-name-in-bucket": {"Backup/twice": GOOD, "Backup/twice#1": BAD},
    "backup-namespace-missing": {"Backup/nowhere": PARTIAL},
    "backup-partially-failed-hook": {"Backup/hook-fails": PARTIAL, "Backup/hook-fails-continue": PARTIAL},
    "backup-partially-failed-item": {"Backup/item-fails": PARTIAL},
    "backup-plugin-operation-and-failed-item": {"Backup/async-partial": PARTIAL},
    "backup-plugin-operation-fails": {"Backup/async-fails": PARTIAL},
    "backup-plugin-operation-times-out": {"Backup/async-timeout": PARTIAL},
    "backup-plugin-operation": {"Backup/async-ok": GOOD},
    "backup-queue": {"Backup/queue-a": GOOD, "Backup/queue-b": LOST, "Backup/queue-c": GOOD, "Backup/queue-d": GOOD},
    "backup-ttl-30d-at-server-start": {"Backup/ttl-30d-b": LOST, "Backup/good-2": GOOD},
    "backup-ttl-30d": {"Backup/ttl-30d": LOST, "Backup/good-1": GOOD, "Restore/while-ttl-30d": GOOD},
    "backup-unknown-field": {"Backup/unknown-field": GOOD},
    "backup-with-ttl": {"Backup/ttl-72h": GOOD, "Backup/ttl-720h": GOOD},
    "backupstoragelocation-shared-bucket": {
        "Backup/into-no-bucket": VOID,
        "Backup/into-ro": VOID,
        "Backup/into-fresh": GOOD,
    },
    "backupstoragelocation": {"Backup/into-no-bucket": VOID, "Backup/into-ro": VOID, "Backup/into-fresh": GOOD},
    "deletebackuprequest-in-progress": {"Backup/busy": GOOD},
    "deletebackuprequest": {"Backup/doomed": GOOD, "Restore/from-doomed": GOOD},
    "restore-backup-missing": {
        "Restore/restore-ghost": VOID,
        "Restore/restore-none": VOID,
        "Restore/restore-bad-policy": VOID,
        "Restore/restore-of-invalid": VOID,
    },
    "restore-completes": {"Restore/restore-1": GOOD},
    "restore-deleted-while-in-progress": {
        "Backup/rst-slow": GOOD,
        "Restore/restore-slow": GOOD,
        "Restore/restore-after": GOOD,
    },
    "restore-existing": {"Restore/restore-skip": GOOD, "Restore/restore-update": GOOD},
    "restore-namespace-mapping": {"Restore/restore-map": GOOD},
    "restore-of-partially-failed": {"Restore/restore-partial": GOOD},
    "restore-of-running-backup": {"Backup/still-running": GOOD, "Restore/too-early": BAD},
    "restore-partially-failed": {"Backup/rst-fails": GOOD, "Restore/restore-item-fails": PARTIAL},
    "restore-plugin-operation": {
        "Backup/rst-async": GOOD,
        "Restore/restore-async": GOOD,
        "Restore/restore-async-again": GOOD,
    },
    "server-down": {"Backup/waits": GOOD, "Restore/waits": LOST, "Restore/restore-1": GOOD},
    "server-killed-backup": {"Backup/killed": BAD, "Backup/killed-queued": GOOD, "Backup/killed-third": GOOD},
    "server-killed-plugin-operation": {"Backup/killed-async": GOOD},
    "server-killed-restore": {"Backup/rst-slow-20": GOOD, "Restore/restore-killed": BAD},
}
ARGO: dict[str, dict[str, str]] = {
    "active-deadline": {"Workflow/op-1": BAD},
    "controller-down": {"Workflow/op-1": GOOD},
    "deleted": {"Workflow/op-1": LOST},
    "error-pod-refused": {"Workflow/op-1": BAD},
    "failed": {"Workflow/op-1": BAD},
    "invalid": {"Workflow/op-1": BAD, "Workflow/op-2": BAD, "Workflow/op-3": BAD},
    "other-instance-id": {"Workflow/op-1": WAITS},
    "pending-mutex-shutdown": {"Workflow/op-1": RUNS, "Workflow/op-2": GONE},
    "pending-mutex": {"Workflow/op-1": GOOD, "Workflow/op-2": GOOD},
    "pending-parallelism": {"Workflow/op-1": GOOD, "Workflow/op-2": GOOD},
    "pod-deleted-before-seen-running": {"Workflow/op-1": GOOD},
    "retry": {"Workflow/op-1": GOOD},
    "shutdown-at-suspend-node": {"Workflow/op-1": GONE},
    "shutdown-pod-pending": {"Workflow/op-1": GONE},
    "shutdown-stop-kill-not-delivered": {"Workflow/op-1": GOOD},
    "shutdown-stop": {"Workflow/op-1": GONE},
    "shutdown-terminate-kill-not-delivered": {"Workflow/op-1": GOOD},
    "shutdown-terminate": {"Workflow/op-1": GONE},
    "shutdown-while-suspended": {"Workflow/op-1": GONE},
    "succeeded": {"Workflow/op-1": GOOD},
    "suspend-node-with-duration": {"Workflow/op-1": GOOD},
    "suspend-node": {"Workflow/op-1": GOOD},
    "suspend-spec": {"Workflow/op-1": GOOD},
    "task-result-incomplete": {"Workflow/op-1": GOOD},
    "task-result-missing": {"Workflow/op-1": GOOD},
    "template-changed-mid-run": {"Workflow/op-1": GOOD},
    "template-missing": {"Workflow/op-1": BAD},
    "ttl": {"Workflow/op-1": GOOD},
}
VOLSYNC: dict[str, dict[str, str]] = {
    "destination-completes": {"ReplicationDestination/data": GOOD, "ReplicationDestination/snap": GOOD},
    "source-completes": {"ReplicationSource/data": GOOD},
    "source-copymethod-snapshot": {"ReplicationSource/data": GOOD},
    "source-created-paused": {"ReplicationSource/data": GOOD},
    "source-deleted-mid-run": {"ReplicationSource/data": LOST},
    "source-manual-and-schedule": {"ReplicationSource/data": GOOD},
    "source-mover-fails": {"ReplicationSource/data": GOOD},
    "source-no-copymethod": {"ReplicationSource/data": ERRS},
    "source-no-mover": {"ReplicationSource/data": UNSEEN, "ReplicationSource/two": UNSEEN},
    "source-no-trigger": {"ReplicationSource/data": LOST},
    "source-paused": {"ReplicationSource/data": ERRS},
    "source-pvc-missing": {"ReplicationSource/data": GOOD},
    "source-restic-job-fails-once": {"ReplicationSource/data": GOOD},
    "source-secret-missing": {"ReplicationSource/data": GOOD},
    "source-token-changed-mid-run": {"ReplicationSource/data": ERRS},
}
NOT_PLAYED = {
    (
        "velero",
        "backup-deleted-and-synced-back",
        "Backup/synced#1",
    ): "Velero made it from its bucket; no Operation has made it",
}
"""The recorded objects that are left out, and why."""
KINDS = {"Backup", "Restore", "Workflow", "ReplicationSource", "ReplicationDestination"}
"""The kinds of objects that Operations make."""
STOPPED = "patch spec.shutdown"
"""The step of the recordings of Argo at which the Operation is cancelled."""


def end_of(operation: Operation) -> str:
    """Return phase and reason."""
    phase = operation.status.phase or ""
    condition = operation.find_condition(phase if phase != "Pending" else "Running")
    return f"{phase}/{condition.reason if condition is not None else ''}"


def recorded(engine: str) -> set[tuple[str, str, str]]:
    """Return every object in the recordings of an engine that an Operation could have made: engine, recording, `Kind/name#nth`."""
    found: set[tuple[str, str, str]] = set()
    for path in (RECORDINGS / engine).glob("*.jsonl"):
        uids: dict[str, list[str]] = {}
        for line in lines(engine, path.stem):
            if line.object and line.object["kind"] in KINDS:
                metadata = line.object["metadata"]
                known = uids.setdefault(f"{line.object['kind']}/{metadata['name']}", [])
                if metadata["uid"] not in known:
                    known.append(metadata["uid"])
        found |= {
            (engine, path.stem, f"{which}#{nth}" if nth else which)
            for which, all_ in uids.items()
            for nth in range(len(all_))
        }
    return found


def story(engine: str, recording: str, which: str) -> Story:
    name, _, nth = which.partition("#")
    stops = any(STOPPED in line.step for line in lines(engine, recording))
    other = recording == "pending-mutex-shutdown" and name != "Workflow/op-2"  # only one of the two is cancelled
    return Story(engine, recording, name, int(nth or 0), STOPPED if stops and not other else "")


TABLES = {"velero": VELERO, "argo": ARGO, "volsync": VOLSYNC}


@pytest.mark.parametrize("engine", TABLES)
def test_every_recorded_object_is_played_or_listed_with_the_reason_why_not(engine: str) -> None:
    played = {(engine, recording, which) for recording, ends in TABLES[engine].items() for which in ends}
    left_out = {one for one in NOT_PLAYED if one[0] == engine}
    assert not played & left_out
    assert played | left_out == recorded(engine)


@pytest.mark.parametrize("engine", TABLES)
async def test_the_recordings_of_an_engine_end_an_operation_as_their_table_says(lab: Lab, engine: str) -> None:
    expected = {
        story(engine, recording, which).id: end
        for recording, ends in TABLES[engine].items()
        for which, end in ends.items()
    }
    told = [story(engine, recording, which) for recording, ends in TABLES[engine].items() for which in ends]
    assert len(expected) == len(told)
    async with AsyncExitStack() as stack:
        recordings = EngineRecordings(lab, stack)
        await recordings.open()
        assert {name: end_of(operation) for name, operation in (await recordings.play(told)).items()} == expected
