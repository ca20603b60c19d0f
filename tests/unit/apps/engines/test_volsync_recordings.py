"""VolSync's recordings through the translation: tokens, errors, outputs and ends of runs."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from apps.engine_replay import MADE, EngineReplay, request_of
from apps.recorded_ways import DESTINATION, RUNS, SOURCE, SUCCEEDED, VOLSYNC, WAITS, Recorded
from recordings import Json, lines

from konverge.clock import from_rfc3339, rfc3339
from konverge.reconcilers.apps.operations.engines.engine import DeleteChild, EngineState, Observation
from konverge.reconcilers.apps.operations.engines.volsync import VolSyncEngine


def played(recording: str, which: str = SOURCE, token: str = "t1", cancel_at: str = "") -> EngineReplay:
    """Return the replay of an Operation with this token as its UID."""
    return Recorded("volsync", recording, which).played(uid=token, cancel_at=cancel_at)


def after(recording: str, token: str, step: str) -> list[str]:
    """The states of an Operation whose token is set by a step: only the observations after this step."""
    since = next(line.at for line in lines("volsync", recording) if step in line.step)
    seen = [entry for entry in played(recording, token=token).seen() if entry.at > since]
    return [str(entry) for place, entry in enumerate(seen) if place == 0 or str(entry) != str(seen[place - 1])]


def test_leftovers_of_the_previous_run_do_not_complete_a_run() -> None:
    assert after("source-completes", "t2", "set trigger.manual t2")[:3] == SUCCEEDED
    left = [line.object for line in lines("volsync", "source-completes") if line.is_of(SOURCE)]
    stale = next(made for made in left if made["spec"]["trigger"]["manual"] == "t2")
    assert stale["status"]["latestMoverStatus"]["result"] == "Successful"
    assert stale["status"]["conditions"][0]["reason"] == "WaitingForManual"


def test_a_token_that_was_used_before_runs_again() -> None:
    again = [
        line.object
        for line in lines("volsync", "source-completes")
        if line.is_of(SOURCE) and line.object["metadata"]["generation"] == 3
    ]
    assert [observed(made, MADE).state for made in (again[0], again[-1])] == [
        EngineState.ACCEPTED,
        EngineState.SUCCEEDED,
    ]


def observed(child: Json, now: Any, **parameters: Any) -> Observation:
    made = request_of(uid="t1", pvc="data", repository={"secretName": "repo"}, **parameters)
    return VolSyncEngine().observe(made, child, asked_to_cancel=False, started=MADE, now=now)


def test_a_run_is_credited_to_the_token_of_its_end_alone() -> None:
    found = played("source-token-changed-mid-run")
    assert "will not report the end" in found.end.message
    assert after("source-token-changed-mid-run", "t2", "set trigger.manual t2") == [
        RUNS,
        "Succeeded/EngineCompleted",
    ]


def test_success_of_the_first_run_does_not_complete_the_second() -> None:
    assert after("source-mover-fails", "t2", "set trigger.manual t2") == [WAITS, RUNS]


def test_an_error_that_ends_within_the_grace_time_changes_nothing() -> None:
    flickering = [
        recording
        for recording in VOLSYNC
        if any(
            "Operation cannot be fulfilled" in str(line.object.get("status", {}).get("conditions"))
            for line in lines("volsync", recording)
            if line.object.get("kind") == "ReplicationSource"
        )
    ]
    assert len({*flickering}) >= 7
    for recording in {*flickering} - {"source-no-trigger", "source-token-changed-mid-run", "source-paused"}:
        seen = played(recording).until_end()
        assert not [entry for entry in seen if entry.observation.reason == "EngineError"], recording


def test_an_error_that_lasts_is_shown_with_the_missing_object() -> None:
    seen = played("source-pvc-missing").until_end()
    error = next(entry for entry in seen if entry.observation.blocked)
    began = next(
        line.at for line in lines("volsync", "source-pvc-missing") if "not found" in str(line.object.get("status"))
    )
    assert error.observation.message == 'PersistentVolumeClaim "data" not found'
    assert 9 <= error.at - began <= 11.5


@pytest.mark.parametrize(
    ("recording", "which", "words"),
    [
        ("source-no-mover", SOURCE, "a replication method must be specified"),
        ("source-no-mover", "ReplicationSource/two", "a replication method must be specified"),
        ("source-no-copymethod", SOURCE, "unsupported copyMethod"),
        ("source-secret-missing", SOURCE, 'Secret "repo" not found'),
    ],
)
def test_a_lasting_error_is_the_message(recording: str, which: str, words: str) -> None:
    states = [line.object for line in lines("volsync", recording) if line.is_of(which)]
    child = next(
        made for made in states if (made.get("status", {}).get("conditions") or [{}])[0].get("reason") == "Error"
    )
    since = child["status"]["conditions"][0]["lastTransitionTime"]
    found = observed(child, from_rfc3339(since) + timedelta(seconds=10))
    assert (found.reason, words in found.message) == ("EngineError", True)
    blocked = found.blocked.reason if found.blocked else ""
    assert blocked == ("MissingSecret" if "Secret" in words else "")


def test_a_pause_is_neither_an_error_nor_a_cancel() -> None:
    for recording in ("source-paused", "source-created-paused"):
        paused = [
            line.object
            for line in lines("volsync", recording)
            if line.is_of(SOURCE) and line.object["spec"].get("paused")
        ]
        assert paused
        for child in paused:
            token = child["spec"]["trigger"]["manual"]
            child = {**child, "spec": {**child["spec"], "trigger": {"manual": "t1"}}}
            found = observed(child, MADE)
            assert found.state in (EngineState.ACCEPTED, EngineState.RUNNING), token
            assert found.blocked is None


def test_a_run_without_a_trigger_never_counts_as_done() -> None:
    seen = played("source-no-trigger").seen()
    assert EngineState.SUCCEEDED not in {entry.observation.state for entry in seen}


def test_a_destination_is_not_done_while_its_snapshot_is_made() -> None:
    which = "ReplicationDestination/snap"
    seen = played("destination-completes", which).until_end()
    early = next(
        line.at
        for line in lines("volsync", "destination-completes")
        if line.is_of(which) and line.object.get("status", {}).get("latestMoverStatus", {}).get("result")
    )
    assert next(str(entry) for entry in seen if entry.at == early) == RUNS
    assert seen[-1].at - early > 4
    assert seen[-1].observation.outputs["snapshotName"] == "volsync-snap-dest-20261123031434"


def test_outputs_name_the_replication_and_its_image() -> None:
    end = played("destination-completes", DESTINATION).end
    assert end.outputs == {
        "replicationName": "data",
        "lastSyncTime": "2026-11-23T03:14:23Z",
        "latestImage": "PersistentVolumeClaim/data",
    }


def test_a_run_whose_mover_fails_is_given_up_and_stopped() -> None:
    begun = rfc3339(MADE)
    child = {
        "metadata": {"name": "op-t1"},
        "spec": {"trigger": {"manual": "t1"}},
        "status": {
            "lastSyncStartTime": begun,
            "latestMoverStatus": {"result": "Failed", "logs": "a\nb\nunable to open\nhttps://me:pw@s3/x is gone"},
        },
    }
    for ran, given_up in ((0, False), (1799, False), (1800, True)):
        found = observed(child, MADE + timedelta(seconds=ran))
        assert (found.state is EngineState.FAILED, found.stop is not None) == (given_up, given_up)
        assert found.message == "the mover failed: b | unable to open | https://s3/x is gone"
        assert found.recheck_after == (None if given_up else timedelta(seconds=1800 - ran))
    assert observed(child, MADE, retrySeconds=0).state is EngineState.FAILED


def test_run_that_begins_in_the_future_times_out_since_operation_start() -> None:
    """The clock of the process is behind that of VolSync."""
    child = {
        "metadata": {"name": "op-t1"},
        "spec": {"trigger": {"manual": "t1"}},
        "status": {
            "lastSyncStartTime": rfc3339(MADE + timedelta(days=1)),
            "latestMoverStatus": {"result": "Failed", "logs": "Fatal"},
        },
    }
    for ran, given_up in ((0, False), (1799, False), (1800, True)):
        found = observed(child, MADE + timedelta(seconds=ran))
        assert found.state.final is given_up
        assert found.recheck_after == (None if given_up else timedelta(seconds=1800 - ran))


def test_a_log_that_volsync_could_not_read_is_said_to_be_unknown() -> None:
    child = {
        "spec": {"trigger": {"manual": "t1"}},
        "status": {"lastSyncStartTime": rfc3339(MADE), "latestMoverStatus": {"result": "Failed"}},
    }
    assert observed(child, MADE).message == "the mover failed: its log is not known"


def test_a_run_that_was_deleted_for_a_cancel_is_cancelled() -> None:
    found = played("source-deleted-mid-run", cancel_at="delete the ReplicationSource in the middle")
    assert found.states()[-1] == "Cancelled/UserCancelled"


def test_a_cancel_deletes_the_object_and_so_its_job() -> None:
    assert isinstance(VolSyncEngine().cancel(request_of(), {}), DeleteChild)


def test_a_cancel_after_the_end_of_the_run_is_too_late() -> None:
    found = replace(played("source-completes"), cancel_at="create ReplicationSource")
    assert found.states() == [WAITS, "Running/Stopping", "Succeeded/EngineCompleted"]
