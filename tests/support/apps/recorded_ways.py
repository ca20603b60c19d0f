"""The recorded ways of Operations: one table for the translations of the engines and for the whole reconciler.

A row has a recording, each object of an Operation in it (`#1`: the second of its name), and the states of that Operation.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from apps.engine_replay import EngineReplay, request_of
from recordings import Line, lines

from konverge.reconcilers.apps.operations.engines.engine import Engine
from konverge.reconcilers.apps.operations.engines.velero import VeleroEngine
from konverge.reconcilers.apps.operations.engines.volsync import VolSyncEngine
from konverge.reconcilers.apps.operations.engines.workflow import WorkflowEngine

Ways: TypeAlias = Mapping[str, Mapping[str, list[str]]]

WAITS, RUNS, STOPS = "Accepted/EngineNotStarted", "Running/EngineStarted", "Running/Stopping"
ERRS, PAUSED = "Running/RunningWithErrors", "Running/Suspended AwaitingResume"
SUCCEEDED = [WAITS, RUNS, "Succeeded/EngineCompleted"]
PARTIAL = [WAITS, RUNS, ERRS, "Failed/PartiallyFailed"]
INVALID = [WAITS, "Failed/ValidationFailed"]
FAILED = [WAITS, RUNS, "Failed/EngineFailed"]
FAILED_AT_ONCE = [WAITS, "Failed/EngineFailed"]
LOST_WAITING = [WAITS, "Failed/EngineObjectLost"]
CANCELLED = [WAITS, RUNS, STOPS, "Cancelled/UserCancelled"]
TOO_LATE = [WAITS, RUNS, STOPS, "Succeeded/EngineCompleted"]
UNSEEN_END = [WAITS, RUNS, "Running/EngineError"]
SOURCE, DESTINATION = "ReplicationSource/data", "ReplicationDestination/data"

VELERO: Ways = {
    "backup-completes": {"Backup/shop-1": SUCCEEDED},
    "backup-with-ttl": {"Backup/ttl-72h": SUCCEEDED, "Backup/ttl-720h": SUCCEEDED},
    "backup-unknown-field": {"Backup/unknown-field": SUCCEEDED},
    "backup-namespace-missing": {"Backup/nowhere": PARTIAL},
    "backup-failed-validation": {
        f"Backup/{name}": INVALID
        for name in ("bad-location", "two-selectors", "bad-snapshot-location", "bad-resources", "bad-policy")
    },
    "backup-name-in-bucket": {"Backup/twice": SUCCEEDED, "Backup/twice#1": FAILED},
    "backup-deleted-and-synced-back": {"Backup/synced": SUCCEEDED},
    "backup-partially-failed-item": {"Backup/item-fails": PARTIAL},
    "backup-partially-failed-hook": {"Backup/hook-fails": PARTIAL, "Backup/hook-fails-continue": PARTIAL},
    "backup-plugin-operation": {"Backup/async-ok": SUCCEEDED},
    "backup-plugin-operation-fails": {"Backup/async-fails": PARTIAL},
    "backup-plugin-operation-times-out": {"Backup/async-timeout": PARTIAL},
    "backup-plugin-operation-and-failed-item": {"Backup/async-partial": PARTIAL},
    "backup-queue": {
        "Backup/queue-a": SUCCEEDED,
        "Backup/queue-b": LOST_WAITING,
        "Backup/queue-c": SUCCEEDED,
        "Backup/queue-d": SUCCEEDED,
    },
    "backup-deleted-while-in-progress": {
        "Backup/del-mid": [WAITS, RUNS, "Failed/EngineObjectLost"],
        "Backup/after-del": SUCCEEDED,
    },
    "backup-expires": {"Backup/short": SUCCEEDED},
    "backup-ttl-30d": {
        "Backup/ttl-30d": LOST_WAITING,
        "Backup/good-1": SUCCEEDED,
        "Restore/while-ttl-30d": SUCCEEDED,
    },
    "backup-ttl-30d-at-server-start": {"Backup/ttl-30d-b": LOST_WAITING, "Backup/good-2": SUCCEEDED},
    "backup-location-down-before": {"Backup/down-before": INVALID, "Restore/down-before": INVALID},
    "backup-location-down-unnoticed": {"Backup/down-unnoticed": FAILED, "Restore/down-unnoticed": FAILED},
    "backup-location-down-during": {"Backup/down-during": FAILED},
    "backupstoragelocation": {
        "Backup/into-no-bucket": INVALID,
        "Backup/into-ro": INVALID,
        "Backup/into-fresh": SUCCEEDED,
    },
    "backupstoragelocation-shared-bucket": {
        "Backup/into-no-bucket": INVALID,
        "Backup/into-ro": INVALID,
        "Backup/into-fresh": SUCCEEDED,
    },
    "restore-completes": {"Restore/restore-1": SUCCEEDED},
    "restore-namespace-mapping": {"Restore/restore-map": SUCCEEDED},
    "restore-plugin-operation": {
        "Backup/rst-async": SUCCEEDED,
        "Restore/restore-async": SUCCEEDED,
        "Restore/restore-async-again": SUCCEEDED,
    },
    "restore-of-partially-failed": {"Restore/restore-partial": SUCCEEDED},
    "restore-existing": {"Restore/restore-skip": SUCCEEDED, "Restore/restore-update": SUCCEEDED},
    "restore-partially-failed": {"Backup/rst-fails": SUCCEEDED, "Restore/restore-item-fails": PARTIAL},
    "restore-backup-missing": {
        f"Restore/restore-{name}": INVALID for name in ("ghost", "none", "bad-policy", "of-invalid")
    },
    "restore-of-running-backup": {"Backup/still-running": SUCCEEDED, "Restore/too-early": FAILED},
    "restore-deleted-while-in-progress": {
        "Backup/rst-slow": SUCCEEDED,
        "Restore/restore-slow": SUCCEEDED,
        "Restore/restore-after": SUCCEEDED,
    },
    "deletebackuprequest": {"Backup/doomed": SUCCEEDED, "Restore/from-doomed": SUCCEEDED},
    "deletebackuprequest-in-progress": {"Backup/busy": SUCCEEDED},
    "server-killed-backup": {
        "Backup/killed": FAILED,
        "Backup/killed-queued": SUCCEEDED,
        "Backup/killed-third": SUCCEEDED,
    },
    "server-killed-plugin-operation": {"Backup/killed-async": SUCCEEDED},
    "server-killed-restore": {"Backup/rst-slow-20": SUCCEEDED, "Restore/restore-killed": FAILED},
    "server-down": {
        "Backup/waits": SUCCEEDED,
        "Restore/waits": LOST_WAITING,
        "Restore/restore-1": ["Succeeded/EngineCompleted"],
    },
}
ARGO: Ways = {
    "succeeded": {"Workflow/op-1": SUCCEEDED},
    "failed": {"Workflow/op-1": FAILED},
    "retry": {"Workflow/op-1": SUCCEEDED},
    "error-pod-refused": {"Workflow/op-1": FAILED_AT_ONCE},
    "pod-deleted-before-seen-running": {"Workflow/op-1": SUCCEEDED},
    "template-missing": {"Workflow/op-1": FAILED_AT_ONCE},
    "invalid": {"Workflow/op-1": FAILED_AT_ONCE, "Workflow/op-2": FAILED_AT_ONCE, "Workflow/op-3": FAILED_AT_ONCE},
    "template-changed-mid-run": {"Workflow/op-1": SUCCEEDED},
    "suspend-node": {"Workflow/op-1": [WAITS, RUNS, PAUSED, RUNS, "Succeeded/EngineCompleted"]},
    "suspend-node-with-duration": {"Workflow/op-1": SUCCEEDED},
    "suspend-spec": {"Workflow/op-1": [WAITS, PAUSED, RUNS, PAUSED, RUNS, "Succeeded/EngineCompleted"]},
    "shutdown-stop": {"Workflow/op-1": CANCELLED},
    "shutdown-terminate": {"Workflow/op-1": CANCELLED},
    "shutdown-stop-kill-not-delivered": {"Workflow/op-1": TOO_LATE},
    "shutdown-terminate-kill-not-delivered": {"Workflow/op-1": TOO_LATE},
    "shutdown-at-suspend-node": {"Workflow/op-1": [WAITS, PAUSED, STOPS, "Cancelled/UserCancelled"]},
    "shutdown-pod-pending": {"Workflow/op-1": CANCELLED},
    "shutdown-while-suspended": {"Workflow/op-1": [WAITS, PAUSED, STOPS, "Cancelled/UserCancelled"]},
    "pending-mutex": {"Workflow/op-1": SUCCEEDED, "Workflow/op-2": SUCCEEDED},
    "pending-mutex-shutdown": {"Workflow/op-1": [WAITS, RUNS], "Workflow/op-2": [WAITS, "Cancelled/UserCancelled"]},
    "pending-parallelism": {"Workflow/op-1": SUCCEEDED, "Workflow/op-2": SUCCEEDED},
    "active-deadline": {"Workflow/op-1": FAILED},
    "ttl": {"Workflow/op-1": SUCCEEDED},
    "deleted": {"Workflow/op-1": [WAITS, RUNS, "Failed/EngineObjectLost"]},
    "other-instance-id": {"Workflow/op-1": [WAITS]},
    "controller-down": {"Workflow/op-1": SUCCEEDED},
    "task-result-missing": {"Workflow/op-1": SUCCEEDED},
    "task-result-incomplete": {"Workflow/op-1": SUCCEEDED},
}
VOLSYNC: Ways = {
    "source-completes": {SOURCE: SUCCEEDED},
    "source-token-changed-mid-run": {SOURCE: UNSEEN_END},
    "source-mover-fails": {SOURCE: [WAITS, RUNS, "Running/MoverRetrying", "Succeeded/EngineCompleted"]},
    "source-restic-job-fails-once": {SOURCE: SUCCEEDED},
    "source-pvc-missing": {
        SOURCE: [
            WAITS,
            RUNS,
            "Running/EngineError DependencyMissing",
            RUNS,
            "Succeeded/EngineCompleted",
        ]
    },
    "source-secret-missing": {SOURCE: SUCCEEDED},
    "source-no-mover": {SOURCE: [WAITS], "ReplicationSource/two": [WAITS]},
    "source-no-copymethod": {SOURCE: [WAITS, RUNS]},
    "source-paused": {SOURCE: UNSEEN_END},
    "source-created-paused": {SOURCE: SUCCEEDED},
    "source-no-trigger": {SOURCE: ["Running/EngineError", "Failed/EngineObjectLost"]},
    "source-manual-and-schedule": {SOURCE: SUCCEEDED},
    "source-deleted-mid-run": {SOURCE: [WAITS, RUNS, "Failed/EngineObjectLost"]},
    "source-copymethod-snapshot": {SOURCE: SUCCEEDED},
    "destination-completes": {DESTINATION: SUCCEEDED, "ReplicationDestination/snap": SUCCEEDED},
}

WAYS: Mapping[str, Ways] = {"velero": VELERO, "argo": ARGO, "volsync": VOLSYNC}
"""The ways by the folder of the recordings."""

_ENGINES: Mapping[str, Engine] = {"velero": VeleroEngine(), "argo": WorkflowEngine(), "volsync": VolSyncEngine()}
VOLUME = {"pvc": "data", "repository": {"secretName": "repo"}}


@dataclass(frozen=True)
class Recorded:
    """A recorded object that has an Operation."""

    engine: str
    """The folder of the recordings."""
    recording: str
    which: str
    """`Kind/name`, with `#1` for the second object of the name."""

    def __str__(self) -> str:
        return f"{self.engine}/{self.recording}: {self.which}"

    @property
    def way(self) -> list[str]:
        """The states of its Operation."""
        return WAYS[self.engine][self.recording][self.which]

    @property
    def cancel_at(self) -> str:
        """The step that cancels its Operation, "" for none: the patch of `spec.shutdown` of a Workflow, out of two."""
        stops = any("patch spec.shutdown" in line.step for line in lines(self.engine, self.recording))
        other = "mutex" in self.recording and self.which != "Workflow/op-2"
        return "patch spec.shutdown" if stops and not other else ""

    @property
    def name(self) -> str:
        """`Kind/name`."""
        return self.which.partition("#")[0]

    @property
    def nth(self) -> int:
        """The place among the objects of the name."""
        return int(self.which.partition("#")[2] or 0)

    @property
    def kind(self) -> str:
        return self.which.partition("/")[0]

    @property
    def id(self) -> str:
        """The name of its Operation in a lab."""
        return f"{self.recording}-{self.name.partition('/')[2]}-{self.kind[:3].lower()}-{self.nth}"

    @property
    def type(self) -> str:
        """The type of its Operation."""
        types = {"ReplicationSource": "Backup", "ReplicationDestination": "Restore", "Workflow": "Runbook"}
        return types.get(self.kind, self.kind)

    @property
    def translation(self) -> Engine:
        return _ENGINES[self.engine]

    def lines(self) -> list[Line]:
        """Return the events of the object, and the step of the cancel, without repeated states."""
        recorded = lines(self.engine, self.recording)
        uids = list(dict.fromkeys(line.object["metadata"]["uid"] for line in recorded if line.is_of(self.name)))
        own: list[Line] = []
        last: Any = None
        for line in recorded:
            if self.cancel_at and self.cancel_at in line.step:
                own.append(line)
            if line.is_of(self.name) and line.object["metadata"]["uid"] == uids[self.nth]:
                state = (line.type == "DELETED", json.dumps([line.object.get("status"), line.object["spec"]]))
                if state != last:
                    own.append(line)
                last = state
        return own

    def played(self, *, uid: str = "t1", cancel_at: str = "", **parameters: Any) -> EngineReplay:
        """Return its replay through the translation of its engine."""
        asked = request_of(self.type, uid=uid, **{**(VOLUME if self.engine == "volsync" else {}), **parameters})
        return EngineReplay(self.translation, self.recording, self.name, self.nth, cancel_at, asked)


RECORDED = [
    Recorded(engine, recording, which)
    for engine, ways in WAYS.items()
    for recording, objects in ways.items()
    for which in objects
]
