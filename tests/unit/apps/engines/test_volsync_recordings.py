"""VolSync's recordings through the translation, by the table of their README: the whole way of each run, state by state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from apps.engine_replay import MADE, RECORDINGS, EngineReplay, Json, lines

from konverge.clock import from_rfc3339, rfc3339
from konverge.reconcilers.apps.operations.engines.engine import DeleteChild, EngineRequest, EngineState, Observation
from konverge.reconcilers.apps.operations.engines.volsync import VolSyncEngine

Replays = Callable[..., EngineReplay]
Requests = Callable[..., EngineRequest]

WAITS, RUNS = "Accepted/EngineNotStarted", "Running/EngineStarted"
SUCCEEDED = [WAITS, RUNS, "Succeeded/EngineCompleted"]
UNSEEN_END = [WAITS, RUNS, "Running/EngineError"]
SOURCE, DESTINATION = "ReplicationSource/data", "ReplicationDestination/data"

WAYS: dict[tuple[str, str, str], list[str]] = {
    ("source-completes", SOURCE, "t1"): SUCCEEDED,
    ("source-token-changed-mid-run", SOURCE, "t1"): UNSEEN_END,
    ("source-mover-fails", SOURCE, "t1"): [WAITS, RUNS, "Running/MoverRetrying", "Succeeded/EngineCompleted"],
    ("source-restic-job-fails-once", SOURCE, "t1"): SUCCEEDED,
    ("source-pvc-missing", SOURCE, "t1"): [
        WAITS,
        RUNS,
        "Running/EngineError DependencyMissing",
        RUNS,
        "Succeeded/EngineCompleted",
    ],
    ("source-secret-missing", SOURCE, "t1"): SUCCEEDED,
    ("source-no-mover", SOURCE, "t1"): [WAITS],
    ("source-no-mover", "ReplicationSource/two", "t1"): [WAITS],
    ("source-no-copymethod", SOURCE, "t1"): [WAITS, RUNS],
    ("source-paused", SOURCE, "t1"): UNSEEN_END,
    ("source-created-paused", SOURCE, "t1"): SUCCEEDED,
    ("source-no-trigger", SOURCE, "t1"): ["Running/EngineError", "Failed/EngineObjectLost"],
    ("source-manual-and-schedule", SOURCE, "t1"): SUCCEEDED,
    ("source-deleted-mid-run", SOURCE, "t1"): [WAITS, RUNS, "Failed/EngineObjectLost"],
    ("source-copymethod-snapshot", SOURCE, "t1"): SUCCEEDED,
    ("destination-completes", DESTINATION, "t1"): SUCCEEDED,
    ("destination-completes", "ReplicationDestination/snap", "t1"): SUCCEEDED,
}
"""Each recording, object and token, and the states of the Operation with that token as its UID."""


def played(replay: Replays, request_of: Requests, recording: str, which: str = SOURCE, **more: Any) -> EngineReplay:
    type_ = "Restore" if which.startswith("ReplicationDestination") else "Backup"
    made = request_of(type_, uid=more.pop("token", "t1"), pvc="data", repository={"secretName": "repo"})
    return replay(VolSyncEngine(), recording, which, request=made, **more)


def test_every_recording_has_its_row() -> None:
    assert {path.stem for path in (RECORDINGS / "volsync").glob("*.jsonl")} == {row[0] for row in WAYS}


@pytest.mark.parametrize("row", WAYS, ids=[" ".join(row) for row in WAYS])
def test_an_operation_goes_the_recorded_way(replay: Replays, request_of: Requests, row: tuple[str, str, str]) -> None:
    recording, which, token = row
    assert played(replay, request_of, recording, which, token=token).states() == WAYS[row]


def after(replay: Replays, request_of: Requests, recording: str, token: str, step: str) -> list[str]:
    """The states of an Operation whose token is set by a step: those of the observations from there on."""
    since = next(line.at for line in lines("volsync", recording) if step in line.step)
    seen = [entry for entry in played(replay, request_of, recording, token=token).seen() if entry.at > since]
    return [str(entry) for place, entry in enumerate(seen) if place == 0 or str(entry) != str(seen[place - 1])]


def test_a_run_is_not_taken_for_done_by_what_the_run_before_left(replay: Replays, request_of: Requests) -> None:
    assert after(replay, request_of, "source-completes", "t2", "set trigger.manual t2")[:3] == SUCCEEDED
    left = [line.object for line in lines("volsync", "source-completes") if line.is_of(SOURCE)]
    stale = next(made for made in left if made["spec"]["trigger"]["manual"] == "t2")
    assert stale["status"]["latestMoverStatus"]["result"] == "Successful"
    assert stale["status"]["conditions"][0]["reason"] == "WaitingForManual"


def test_a_token_that_was_used_before_runs_again(replay: Replays, request_of: Requests) -> None:
    again = [
        line.object
        for line in lines("volsync", "source-completes")
        if line.is_of(SOURCE) and line.object["metadata"]["generation"] == 3
    ]
    assert [observed(request_of, made, MADE).state for made in (again[0], again[-1])] == [
        EngineState.ACCEPTED,
        EngineState.SUCCEEDED,
    ]


def observed(request_of: Requests, child: Json, now: Any, **parameters: Any) -> Observation:
    made = request_of(uid="t1", pvc="data", repository={"secretName": "repo"}, **parameters)
    return VolSyncEngine().observe(made, child, asked_to_cancel=False, started=MADE, now=now)


def test_a_run_is_credited_to_the_token_of_its_end_alone(replay: Replays, request_of: Requests) -> None:
    found = played(replay, request_of, "source-token-changed-mid-run")
    assert "will not report the end" in found.end.message
    assert after(replay, request_of, "source-token-changed-mid-run", "t2", "set trigger.manual t2") == [
        RUNS,
        "Succeeded/EngineCompleted",
    ]


def test_the_success_that_the_first_run_left_is_not_that_of_the_second(replay: Replays, request_of: Requests) -> None:
    assert after(replay, request_of, "source-mover-fails", "t2", "set trigger.manual t2") == [WAITS, RUNS]


def test_an_error_that_ends_within_the_grace_time_changes_nothing(replay: Replays, request_of: Requests) -> None:
    flickering = [
        recording
        for recording, _, _ in WAYS
        if any(
            "Operation cannot be fulfilled" in str(line.object.get("status", {}).get("conditions"))
            for line in lines("volsync", recording)
            if line.object.get("kind") == "ReplicationSource"
        )
    ]
    assert len({*flickering}) >= 7
    for recording in {*flickering} - {"source-no-trigger", "source-token-changed-mid-run", "source-paused"}:
        seen = played(replay, request_of, recording).until_end()
        assert not [entry for entry in seen if entry.observation.reason == "EngineError"], recording


def test_an_error_that_lasts_is_shown_with_the_missing_object(replay: Replays, request_of: Requests) -> None:
    seen = played(replay, request_of, "source-pvc-missing").until_end()
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
def test_a_lasting_error_is_the_message(request_of: Requests, recording: str, which: str, words: str) -> None:
    states = [line.object for line in lines("volsync", recording) if line.is_of(which)]
    child = next(
        made for made in states if (made.get("status", {}).get("conditions") or [{}])[0].get("reason") == "Error"
    )
    since = child["status"]["conditions"][0]["lastTransitionTime"]
    found = observed(request_of, child, from_rfc3339(since) + timedelta(seconds=10))
    assert (found.reason, words in found.message) == ("EngineError", True)
    blocked = found.blocked.reason if found.blocked else ""
    assert blocked == ("MissingSecret" if "Secret" in words else "")


def test_a_pause_is_neither_an_error_nor_a_cancel(replay: Replays, request_of: Requests) -> None:
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
            found = observed(request_of, child, MADE)
            assert found.state in (EngineState.ACCEPTED, EngineState.RUNNING), token
            assert found.blocked is None


def test_a_run_without_a_trigger_never_counts_as_done(replay: Replays, request_of: Requests) -> None:
    seen = played(replay, request_of, "source-no-trigger").seen()
    assert EngineState.SUCCEEDED not in {entry.observation.state for entry in seen}


def test_a_destination_is_not_done_while_its_snapshot_is_made(replay: Replays, request_of: Requests) -> None:
    which = "ReplicationDestination/snap"
    seen = played(replay, request_of, "destination-completes", which).until_end()
    early = next(
        line.at
        for line in lines("volsync", "destination-completes")
        if line.is_of(which) and line.object.get("status", {}).get("latestMoverStatus", {}).get("result")
    )
    assert next(str(entry) for entry in seen if entry.at == early) == RUNS
    assert seen[-1].at - early > 4
    assert seen[-1].observation.outputs["snapshotName"] == "volsync-snap-dest-20261123031434"


def test_outputs_name_the_replication_and_its_image(replay: Replays, request_of: Requests) -> None:
    end = played(replay, request_of, "destination-completes", DESTINATION).end
    assert end.outputs == {
        "replicationName": "data",
        "lastSyncTime": "2026-11-23T03:14:23Z",
        "latestImage": "PersistentVolumeClaim/data",
    }


def test_a_run_whose_mover_fails_is_given_up_and_stopped(request_of: Requests) -> None:
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
        found = observed(request_of, child, MADE + timedelta(seconds=ran))
        assert (found.state is EngineState.FAILED, found.stop is not None) == (given_up, given_up)
        assert found.message == "the mover failed: b | unable to open | https://s3/x is gone"
        assert found.recheck_after == (None if given_up else timedelta(seconds=1800 - ran))
    assert observed(request_of, child, MADE, retrySeconds=0).state is EngineState.FAILED


def test_a_run_that_begins_in_the_future_is_given_up_by_the_time_since_its_operation_started(
    request_of: Requests,
) -> None:
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
        found = observed(request_of, child, MADE + timedelta(seconds=ran))
        assert found.state.final is given_up
        assert found.recheck_after == (None if given_up else timedelta(seconds=1800 - ran))


def test_a_log_that_volsync_could_not_read_is_said_to_be_unknown(request_of: Requests) -> None:
    child = {
        "spec": {"trigger": {"manual": "t1"}},
        "status": {"lastSyncStartTime": rfc3339(MADE), "latestMoverStatus": {"result": "Failed"}},
    }
    assert observed(request_of, child, MADE).message == "the mover failed: its log is not known"


def test_a_run_that_was_deleted_for_a_cancel_is_cancelled(replay: Replays, request_of: Requests) -> None:
    found = played(replay, request_of, "source-deleted-mid-run", cancel_at="delete the ReplicationSource in the middle")
    assert found.states()[-1] == "Cancelled/UserCancelled"


def test_a_cancel_deletes_the_object_and_so_its_job(request_of: Requests) -> None:
    assert isinstance(VolSyncEngine().cancel(request_of(), {}), DeleteChild)


def test_a_cancel_after_the_end_of_the_run_is_too_late(replay: Replays, request_of: Requests) -> None:
    found = replace(played(replay, request_of, "source-completes"), cancel_at="create ReplicationSource")
    assert found.states() == [WAITS, "Running/Stopping", "Succeeded/EngineCompleted"]
