"""Velero's recordings through the translation: messages, outputs, and cancels at any step."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from apps.engine_replay import MADE, EngineReplay, request_of
from apps.recorded_ways import RUNS, SUCCEEDED, WAITS, Recorded
from recordings import lines

from konverge.reconcilers.apps.operations.engines.engine import EngineState
from konverge.reconcilers.apps.operations.engines.velero import VeleroEngine


def played(recording: str, which: str, cancel_at: str = "", **parameters: Any) -> EngineReplay:
    return Recorded("velero", recording, which).played(cancel_at=cancel_at, **parameters)


def test_a_backup_of_which_all_items_are_stored_still_runs() -> None:
    seen = played("backup-completes", "Backup/shop-1").until_end()
    complete = [entry for entry in seen if "5 of 5 items" in entry.observation.message]
    assert len(complete) >= 3
    assert {entry.observation.state for entry in complete} == {EngineState.RUNNING}


def test_plain_waiting_for_plugin_operations_promises_no_success() -> None:
    for name, which in (
        ("backup-plugin-operation-fails", "Backup/async-fails"),
        ("backup-plugin-operation-times-out", "Backup/async-timeout"),
    ):
        seen = played(name, which).until_end()
        plain = [entry for entry in seen if entry.observation.message.startswith("WaitingForPluginOperations,")]
        assert [str(entry) for entry in plain] == [RUNS]


def test_all_validation_errors_are_in_the_message() -> None:
    end = played("backup-failed-validation", "Backup/two-selectors").end
    assert "labelSelector as well as orLabelSelectors" in end.message


def test_a_refused_backup_ends_without_a_completion_timestamp() -> None:
    last = [line for line in lines("velero", "backup-failed-validation") if line.is_of("Backup/bad-policy")][-1]
    assert "completionTimestamp" not in last.object["status"]
    assert played("backup-failed-validation", "Backup/bad-policy").end.state is EngineState.FAILED


def test_backup_that_fails_with_its_location_has_no_completion_timestamp() -> None:
    last = [line for line in lines("velero", "backup-location-down-during") if line.is_of("Backup/down-during")][-1]
    assert "completionTimestamp" not in last.object["status"]
    end = played("backup-location-down-during", "Backup/down-during").end
    assert "error putting object" in end.message


def test_request_ids_that_differ_between_attempts_are_not_in_a_message() -> None:
    end = played("restore-of-running-backup", "Restore/too-early").end
    assert "NoSuchKey" in end.message
    assert "RequestID" not in end.message
    assert "HostID" not in end.message


def test_a_second_backup_of_a_name_is_not_taken_for_the_first() -> None:
    first = played("backup-name-in-bucket", "Backup/twice")
    second = played("backup-name-in-bucket", "Backup/twice#1")
    assert first.end.state is EngineState.SUCCEEDED
    assert "already exists in object storage" in second.end.message


def test_backup_that_was_synced_back_is_another_object_with_equal_labels() -> None:
    made = [
        line.object
        for line in lines("velero", "backup-deleted-and-synced-back")
        if line.is_of("Backup/synced") and line.type == "ADDED"
    ]
    before, after = (entry["metadata"] for entry in made)
    assert before["uid"] != after["uid"]
    assert before["labels"].items() <= after["labels"].items()
    assert before["ownerReferences"] == after["ownerReferences"]


def test_a_queued_backup_tells_its_place_and_does_not_run() -> None:
    seen = played("backup-queue", "Backup/queue-d").until_end()
    queued = [entry for entry in seen if "position" in entry.observation.message]
    assert [entry.observation.message for entry in queued] == [
        "Queued at position 3 of Velero's queue",
        "Queued at position 1 of Velero's queue",
    ]
    waited = next(entry.at for entry in seen if str(entry) == RUNS) - queued[-1].at
    assert waited > 33, "with nothing running"


def test_a_queued_backup_that_was_deleted_for_a_cancel_is_cancelled() -> None:
    way = played("backup-queue", "Backup/queue-b", cancel_at="delete queue-b").states()
    assert way == [WAITS, "Cancelled/UserCancelled"]


def test_a_running_backup_that_was_deleted_for_a_cancel_is_cancelled() -> None:
    played_ = played(
        "backup-deleted-while-in-progress",
        "Backup/del-mid",
        cancel_at="delete the Backup object in the middle",
    )
    assert played_.states() == [WAITS, RUNS, "Cancelled/UserCancelled"]


def test_deleted_restore_continues_and_is_not_cancelled_before_its_removal() -> None:
    played_ = played(
        "restore-deleted-while-in-progress",
        "Restore/restore-slow",
        cancel_at="delete the Restore object",
    )
    assert played_.states() == SUCCEEDED
    assert "before it was cancelled" in played_.end.message


def test_a_restore_that_never_began_is_gone_at_once() -> None:
    way = played("server-down", "Restore/waits", cancel_at="delete the Restore while the server is down").states()
    assert way == [WAITS, "Cancelled/UserCancelled"]


def test_an_expired_backup_is_deleted_after_it_was_completed() -> None:
    seen = played("backup-expires", "Backup/short").seen()
    after = [str(entry) for entry in seen][-2:]
    assert after == ["Failed/BackupDeleted", "Failed/EngineObjectLost"], (
        "which is why the end of an Operation is never judged again"
    )


def test_the_restores_of_a_deleted_backup_vanish_after_their_end() -> None:
    seen = played("deletebackuprequest", "Restore/from-doomed").seen()
    assert [str(entry) for entry in seen][-1] == "Failed/EngineObjectLost"
    assert played("deletebackuprequest", "Restore/from-doomed").end.state is EngineState.SUCCEEDED


def test_warnings_do_not_fail_a_restore_and_are_among_its_outputs() -> None:
    skipped = played("restore-existing", "Restore/restore-skip").end
    updated = played("restore-existing", "Restore/restore-update").end
    assert (skipped.outputs["warnings"], updated.outputs.get("warnings")) == ("2", None)


def test_backup_beside_a_backup_with_days_in_its_ttl_waits_with_reason() -> None:
    stuck = next(line for line in lines("velero", "backup-ttl-30d") if line.is_of("Backup/good-1"))
    seen = played("backup-ttl-30d", "Backup/good-1").until_end()
    assert seen[0].observation.state is EngineState.ACCEPTED
    assert seen[1].at - stuck.at > 55
    assert "Go duration" not in seen[0].observation.message


def test_nothing_changes_while_the_server_is_down_and_running_backups_fail_afterwards() -> None:
    recorded = lines("velero", "server-killed-backup")
    killed, started = (next(line.at for line in recorded if word in line.step) for word in ("kill -9", "start the"))
    between = [line for line in recorded if killed < line.at < started and line.type == "MODIFIED"]
    assert between == []
    assert "during the server starting" in played("server-killed-backup", "Backup/killed").end.message


def test_a_tolerated_partial_failure_is_a_success_with_its_errors() -> None:
    end = played(
        "backup-partially-failed-hook",
        "Backup/hook-fails",
        toleratePartialFailure=True,
    ).end
    assert (end.state, end.outputs["errors"]) == (EngineState.SUCCEEDED, "2")


def test_the_status_write_of_a_crd_without_subresource_moves_the_generation() -> None:
    found = [
        line.object["metadata"]["generation"]
        for line in lines("velero", "backup-completes")
        if line.is_of("Backup/shop-1")
    ]
    assert found == list(range(1, 10))


def test_outputs_of_a_backup_name_it_and_count_its_items() -> None:
    end = played("backup-completes", "Backup/shop-1").end
    assert end.outputs == {"backupName": "shop-1", "itemCount": "5", "expiration": "2026-12-23T02:41:01Z"}


def test_a_backup_that_no_server_looks_at_is_explained_after_two_minutes() -> None:
    child = {"kind": "Backup", "metadata": {"name": "op-1"}}
    for waited, hint in ((0, False), (119, False), (120, True)):
        found = VeleroEngine().observe(
            request_of(), child, asked_to_cancel=False, started=MADE, now=MADE + timedelta(seconds=waited)
        )
        assert ("Go duration" in found.message) is hint
        assert (found.recheck_after is None) is hint


def test_an_end_of_a_cancelled_operation_is_the_real_one() -> None:
    played_ = replace(played("backup-completes", "Backup/shop-1"), cancel_at="create Backup shop-1")
    assert played_.states() == SUCCEEDED
    failed = replace(played("server-killed-backup", "Backup/killed"), cancel_at="kill -9 the server")
    assert failed.end.state is EngineState.FAILED


def test_phase_unknown_to_this_version_does_not_count_as_an_end() -> None:
    found = VeleroEngine().observe(
        request_of(), {"status": {"phase": "Verifying"}}, asked_to_cancel=False, started=MADE, now=MADE
    )
    assert (found.state, found.message) == (EngineState.RUNNING, "Verifying")
