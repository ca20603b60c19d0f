"""Velero's recordings through the translation, by the table of their README: the whole way of each object, state by state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from apps.engine_replay import MADE, RECORDINGS, EngineReplay, lines

from konverge.reconcilers.apps.operations.engines.engine import EngineRequest, EngineState
from konverge.reconcilers.apps.operations.engines.velero import VeleroEngine

Replays = Callable[..., EngineReplay]
Requests = Callable[..., EngineRequest]

WAITS, RUNS, ERRS = "Accepted/EngineNotStarted", "Running/EngineStarted", "Running/RunningWithErrors"
SUCCEEDED = [WAITS, RUNS, "Succeeded/EngineCompleted"]
PARTIAL = [WAITS, RUNS, ERRS, "Failed/PartiallyFailed"]
INVALID = [WAITS, "Failed/ValidationFailed"]
FAILED = [WAITS, RUNS, "Failed/EngineFailed"]
LOST_WAITING = [WAITS, "Failed/EngineObjectLost"]

WAYS: dict[str, dict[str, list[str]]] = {
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
"""Each recording, each object of an Operation in it (`#1`: the second of its name), and the states of that Operation."""


def played(replay: Replays, request_of: Requests, recording: str, which: str, **more: Any) -> EngineReplay:
    name, _, nth = which.partition("#")
    made = request_of(name.partition("/")[0], **more.pop("parameters", {}))
    return replay(VeleroEngine(), recording, name, int(nth or 0), request=made, **more)


def test_every_recording_has_its_row() -> None:
    assert {path.stem for path in (RECORDINGS / "velero").glob("*.jsonl")} == WAYS.keys()


@pytest.mark.parametrize("which", [f"{recording}: {which}" for recording, ways in WAYS.items() for which in ways])
def test_an_operation_goes_the_recorded_way(replay: Replays, request_of: Requests, which: str) -> None:
    recording, _, name = which.partition(": ")
    assert played(replay, request_of, recording, name).states() == WAYS[recording][name]


def test_a_backup_of_which_all_items_are_stored_still_runs(replay: Replays, request_of: Requests) -> None:
    seen = played(replay, request_of, "backup-completes", "Backup/shop-1").until_end()
    complete = [entry for entry in seen if "5 of 5 items" in entry.observation.message]
    assert len(complete) >= 3
    assert {entry.observation.state for entry in complete} == {EngineState.RUNNING}


def test_plain_waiting_for_plugin_operations_promises_no_success(replay: Replays, request_of: Requests) -> None:
    for name, which in (
        ("backup-plugin-operation-fails", "Backup/async-fails"),
        ("backup-plugin-operation-times-out", "Backup/async-timeout"),
    ):
        seen = played(replay, request_of, name, which).until_end()
        plain = [entry for entry in seen if entry.observation.message.startswith("WaitingForPluginOperations,")]
        assert [str(entry) for entry in plain] == [RUNS]


def test_all_validation_errors_are_in_the_message(replay: Replays, request_of: Requests) -> None:
    end = played(replay, request_of, "backup-failed-validation", "Backup/two-selectors").end
    assert "labelSelector as well as orLabelSelectors" in end.message


def test_a_refused_backup_ends_without_a_completion_timestamp(replay: Replays, request_of: Requests) -> None:
    last = [line for line in lines("velero", "backup-failed-validation") if line.is_of("Backup/bad-policy")][-1]
    assert "completionTimestamp" not in last.object["status"]
    assert played(replay, request_of, "backup-failed-validation", "Backup/bad-policy").end.state is EngineState.FAILED


def test_a_backup_that_is_down_with_its_location_ends_without_a_completion_timestamp(
    replay: Replays, request_of: Requests
) -> None:
    last = [line for line in lines("velero", "backup-location-down-during") if line.is_of("Backup/down-during")][-1]
    assert "completionTimestamp" not in last.object["status"]
    end = played(replay, request_of, "backup-location-down-during", "Backup/down-during").end
    assert "error putting object" in end.message


def test_request_ids_that_differ_from_try_to_try_are_not_in_a_message(replay: Replays, request_of: Requests) -> None:
    end = played(replay, request_of, "restore-of-running-backup", "Restore/too-early").end
    assert "NoSuchKey" in end.message
    assert "RequestID" not in end.message
    assert "HostID" not in end.message


def test_a_second_backup_of_a_name_is_not_taken_for_the_first(replay: Replays, request_of: Requests) -> None:
    first = played(replay, request_of, "backup-name-in-bucket", "Backup/twice")
    second = played(replay, request_of, "backup-name-in-bucket", "Backup/twice#1")
    assert first.end.state is EngineState.SUCCEEDED
    assert "already exists in object storage" in second.end.message


def test_a_backup_that_was_synced_back_is_another_object_with_the_same_labels() -> None:
    made = [
        line.object
        for line in lines("velero", "backup-deleted-and-synced-back")
        if line.is_of("Backup/synced") and line.type == "ADDED"
    ]
    before, after = (entry["metadata"] for entry in made)
    assert before["uid"] != after["uid"]
    assert before["labels"].items() <= after["labels"].items()
    assert before["ownerReferences"] == after["ownerReferences"]


def test_a_queued_backup_tells_its_place_and_does_not_run(replay: Replays, request_of: Requests) -> None:
    seen = played(replay, request_of, "backup-queue", "Backup/queue-d").until_end()
    queued = [entry for entry in seen if "position" in entry.observation.message]
    assert [entry.observation.message for entry in queued] == [
        "Queued at position 3 of Velero's queue",
        "Queued at position 1 of Velero's queue",
    ]
    waited = next(entry.at for entry in seen if str(entry) == RUNS) - queued[-1].at
    assert waited > 33, "with nothing running"


def test_a_queued_backup_that_was_deleted_for_a_cancel_is_cancelled(replay: Replays, request_of: Requests) -> None:
    way = played(replay, request_of, "backup-queue", "Backup/queue-b", cancel_at="delete queue-b").states()
    assert way == [WAITS, "Cancelled/UserCancelled"]


def test_a_running_backup_that_was_deleted_for_a_cancel_is_cancelled(replay: Replays, request_of: Requests) -> None:
    played_ = played(
        replay,
        request_of,
        "backup-deleted-while-in-progress",
        "Backup/del-mid",
        cancel_at="delete the Backup object in the middle",
    )
    assert played_.states() == [WAITS, RUNS, "Cancelled/UserCancelled"]


def test_a_deleted_restore_runs_on_and_is_not_cancelled_before_it_is_gone(
    replay: Replays, request_of: Requests
) -> None:
    played_ = played(
        replay,
        request_of,
        "restore-deleted-while-in-progress",
        "Restore/restore-slow",
        cancel_at="delete the Restore object",
    )
    assert played_.states() == SUCCEEDED
    assert "before it was cancelled" in played_.end.message


def test_a_restore_that_never_began_is_gone_at_once(replay: Replays, request_of: Requests) -> None:
    way = played(
        replay, request_of, "server-down", "Restore/waits", cancel_at="delete the Restore while the server is down"
    ).states()
    assert way == [WAITS, "Cancelled/UserCancelled"]


def test_an_expired_backup_is_deleted_after_it_was_completed(replay: Replays, request_of: Requests) -> None:
    seen = played(replay, request_of, "backup-expires", "Backup/short").seen()
    after = [str(entry) for entry in seen][-2:]
    assert after == ["Failed/BackupDeleted", "Failed/EngineObjectLost"], (
        "which is why the end of an Operation is never judged again"
    )


def test_the_restores_of_a_deleted_backup_vanish_after_their_end(replay: Replays, request_of: Requests) -> None:
    seen = played(replay, request_of, "deletebackuprequest", "Restore/from-doomed").seen()
    assert [str(entry) for entry in seen][-1] == "Failed/EngineObjectLost"
    assert played(replay, request_of, "deletebackuprequest", "Restore/from-doomed").end.state is EngineState.SUCCEEDED


def test_warnings_do_not_fail_a_restore_and_are_among_its_outputs(replay: Replays, request_of: Requests) -> None:
    skipped = played(replay, request_of, "restore-existing", "Restore/restore-skip").end
    updated = played(replay, request_of, "restore-existing", "Restore/restore-update").end
    assert (skipped.outputs["warnings"], updated.outputs.get("warnings")) == ("2", None)


def test_a_backup_beside_one_with_days_in_its_ttl_waits_and_says_why(replay: Replays, request_of: Requests) -> None:
    stuck = next(line for line in lines("velero", "backup-ttl-30d") if line.is_of("Backup/good-1"))
    seen = played(replay, request_of, "backup-ttl-30d", "Backup/good-1").until_end()
    assert seen[0].observation.state is EngineState.ACCEPTED
    assert seen[1].at - stuck.at > 55
    assert "Go duration" not in seen[0].observation.message


def test_nothing_changes_while_the_server_is_down_and_what_ran_has_failed_after_it(
    replay: Replays, request_of: Requests
) -> None:
    recorded = lines("velero", "server-killed-backup")
    killed, started = (next(line.at for line in recorded if word in line.step) for word in ("kill -9", "start the"))
    between = [line for line in recorded if killed < line.at < started and line.type == "MODIFIED"]
    assert between == []
    assert (
        "during the server starting" in played(replay, request_of, "server-killed-backup", "Backup/killed").end.message
    )


def test_a_tolerated_partial_failure_is_a_success_with_its_errors(replay: Replays, request_of: Requests) -> None:
    end = played(
        replay,
        request_of,
        "backup-partially-failed-hook",
        "Backup/hook-fails",
        parameters={"toleratePartialFailure": True},
    ).end
    assert (end.state, end.outputs["errors"]) == (EngineState.SUCCEEDED, "2")


def test_the_status_write_of_a_crd_without_subresource_moves_the_generation() -> None:
    found = [
        line.object["metadata"]["generation"]
        for line in lines("velero", "backup-completes")
        if line.is_of("Backup/shop-1")
    ]
    assert found == list(range(1, 10))


def test_outputs_of_a_backup_name_it_and_count_its_items(replay: Replays, request_of: Requests) -> None:
    end = played(replay, request_of, "backup-completes", "Backup/shop-1").end
    assert end.outputs == {"backupName": "shop-1", "itemCount": "5", "expiration": "2026-12-23T02:41:01Z"}


def test_a_backup_that_no_server_looks_at_is_explained_after_two_minutes(request_of: Requests) -> None:
    child = {"kind": "Backup", "metadata": {"name": "op-1"}}
    for waited, hint in ((0, False), (119, False), (120, True)):
        found = VeleroEngine().observe(
            request_of(), child, asked_to_cancel=False, started=MADE, now=MADE + timedelta(seconds=waited)
        )
        assert ("Go duration" in found.message) is hint
        assert (found.recheck_after is None) is hint


def test_an_end_of_a_cancelled_operation_is_the_real_one(replay: Replays, request_of: Requests) -> None:
    played_ = replace(played(replay, request_of, "backup-completes", "Backup/shop-1"), cancel_at="create Backup shop-1")
    assert played_.states() == SUCCEEDED
    failed = replace(
        played(replay, request_of, "server-killed-backup", "Backup/killed"), cancel_at="kill -9 the server"
    )
    assert failed.end.state is EngineState.FAILED


def test_a_phase_that_this_version_does_not_know_does_not_count_as_an_end(request_of: Requests) -> None:
    found = VeleroEngine().observe(
        request_of(), {"status": {"phase": "Verifying"}}, asked_to_cancel=False, started=MADE, now=MADE
    )
    assert (found.state, found.message) == (EngineState.RUNNING, "Verifying")
