"""Argo's recordings through the translation, by the table of their README: the whole way of each Workflow, state by state."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from apps.engine_replay import MADE, RECORDINGS, EngineReplay, Json, lines, request

from konverge.reconcilers.apps.operations.engines.engine import (
    DeleteChild,
    EngineRequest,
    EngineState,
    Observation,
    PatchChild,
    WaitForEnd,
)
from konverge.reconcilers.apps.operations.engines.workflow import WorkflowEngine

Replays = Callable[..., EngineReplay]
Requests = Callable[..., EngineRequest]

WAITS, RUNS, STOPS = "Accepted/EngineNotStarted", "Running/EngineStarted", "Running/Stopping"
PAUSED = "Running/Suspended AwaitingResume"
SUCCEEDED = [WAITS, RUNS, "Succeeded/EngineCompleted"]
FAILED = [WAITS, RUNS, "Failed/EngineFailed"]
FAILED_AT_ONCE = [WAITS, "Failed/EngineFailed"]
CANCELLED = [WAITS, RUNS, STOPS, "Cancelled/UserCancelled"]
TOO_LATE = [WAITS, RUNS, STOPS, "Succeeded/EngineCompleted"]

WAYS: dict[str, list[str] | dict[str, list[str]]] = {
    "succeeded": SUCCEEDED,
    "failed": FAILED,
    "retry": SUCCEEDED,
    "error-pod-refused": FAILED_AT_ONCE,
    "pod-deleted-before-seen-running": SUCCEEDED,
    "template-missing": FAILED_AT_ONCE,
    "invalid": {"op-1": FAILED_AT_ONCE, "op-2": FAILED_AT_ONCE, "op-3": FAILED_AT_ONCE},
    "template-changed-mid-run": SUCCEEDED,
    "suspend-node": [WAITS, RUNS, PAUSED, RUNS, "Succeeded/EngineCompleted"],
    "suspend-node-with-duration": SUCCEEDED,
    "suspend-spec": [WAITS, PAUSED, RUNS, PAUSED, RUNS, "Succeeded/EngineCompleted"],
    "shutdown-stop": CANCELLED,
    "shutdown-terminate": CANCELLED,
    "shutdown-stop-kill-not-delivered": TOO_LATE,
    "shutdown-terminate-kill-not-delivered": TOO_LATE,
    "shutdown-at-suspend-node": [WAITS, PAUSED, STOPS, "Cancelled/UserCancelled"],
    "shutdown-pod-pending": CANCELLED,
    "shutdown-while-suspended": [WAITS, PAUSED, STOPS, "Cancelled/UserCancelled"],
    "pending-mutex": {"op-1": SUCCEEDED, "op-2": SUCCEEDED},
    "pending-mutex-shutdown": {"op-1": [WAITS, RUNS], "op-2": [WAITS, "Cancelled/UserCancelled"]},
    "pending-parallelism": {"op-1": SUCCEEDED, "op-2": SUCCEEDED},
    "active-deadline": FAILED,
    "ttl": SUCCEEDED,
    "deleted": [WAITS, RUNS, "Failed/EngineObjectLost"],
    "other-instance-id": [WAITS],
    "controller-down": SUCCEEDED,
    "task-result-missing": SUCCEEDED,
    "task-result-incomplete": SUCCEEDED,
}
"""Each recording and the states of the Operation; by the name of the Workflow if there are several."""

ROWS = [
    (recording, name, way)
    for recording, ways in WAYS.items()
    for name, way in (ways.items() if isinstance(ways, dict) else (("op-1", ways),))
]


def played(replay: Replays, recording: str, name: str = "op-1", cancel_at: str = "") -> EngineReplay:
    return replay(WorkflowEngine(), recording, f"Workflow/{name}", cancel_at=cancel_at)


def cancel_of(recording: str, name: str) -> str:
    """The step with which the Operation is cancelled: the patch of `spec.shutdown`."""
    steps = [line.step for line in lines("argo", recording) if "patch spec.shutdown" in line.step]
    return steps[0] if steps and (name == "op-2" or "mutex" not in recording) else ""


def test_every_recording_has_its_row() -> None:
    assert {path.stem for path in (RECORDINGS / "argo").glob("*.jsonl")} == WAYS.keys()


@pytest.mark.parametrize(("recording", "name", "way"), ROWS, ids=[f"{row[0]}: {row[1]}" for row in ROWS])
def test_an_operation_goes_the_recorded_way(replay: Replays, recording: str, name: str, way: list[str]) -> None:
    assert played(replay, recording, name, cancel_of(recording, name)).states() == way


def test_outputs_come_with_the_last_write_and_not_before(replay: Replays) -> None:
    seen = played(replay, "succeeded").until_end()
    assert [("version" in entry.observation.outputs) for entry in seen] == [False] * (len(seen) - 1) + [True]
    assert seen[-1].observation.outputs == {
        "workflowName": "op-1",
        "runId": "80b4a01b-6bc1-4d7a-b34f-969fe82b9dea",
        "version": "1.2.3",
        "new-version": "1.2.3",
    }


@pytest.mark.parametrize(
    ("recording", "message"),
    [
        ("failed", "step upgrade: main: Error (exit code 3)"),
        ("active-deadline", "step check: Step exceeded its deadline"),
        ("template-missing", 'workflowtemplates.argoproj.io "nosuch" not found'),
        ("invalid", "invalid spec: template reference runbook.nosuch not found"),
    ],
)
def test_a_failure_is_explained_by_the_step_if_the_workflow_names_only_a_node(
    replay: Replays, recording: str, message: str
) -> None:
    assert played(replay, recording).end.message == message


def test_a_refused_pod_does_not_bring_the_refused_value_into_the_status(replay: Replays) -> None:
    end = played(replay, "error-pod-refused").end
    assert "is invalid: spec.nodeSelector" in end.message
    assert "bad key" not in end.message


def test_a_failed_node_does_not_end_a_workflow_that_runs(replay: Replays) -> None:
    for recording in ("retry", "shutdown-stop", "shutdown-stop-kill-not-delivered"):
        failed_nodes = [
            line
            for line in lines("argo", recording)
            if line.object
            and line.object.get("status", {}).get("phase") == "Running"
            and any(node["phase"] == "Failed" for node in line.object["status"].get("nodes", {}).values())
        ]
        assert failed_nodes
        for line in failed_nodes:
            assert observed(line.object).state is EngineState.RUNNING


def observed(child: Json, *, cancelled: bool = False) -> Observation:
    return WorkflowEngine().observe(request(), child, asked_to_cancel=cancelled, started=MADE, now=MADE)


def test_a_cancel_is_not_over_before_the_phase_is_final(replay: Replays) -> None:
    seen = played(replay, "shutdown-stop", cancel_at="patch spec.shutdown").until_end()
    stopping = [entry.at for entry in seen if str(entry) == STOPS]
    assert seen[-1].at - stopping[0] > 20


def test_a_workflow_that_succeeds_in_spite_of_a_shutdown_has_succeeded(replay: Replays) -> None:
    end = played(replay, "shutdown-terminate-kill-not-delivered", cancel_at="patch spec.shutdown").end
    assert (end.state, end.message) == (EngineState.SUCCEEDED, "it succeeded before the cancel reached it")


def test_a_shutdown_by_another_client_is_a_failure(replay: Replays) -> None:
    end = played(replay, "shutdown-stop").end
    assert (end.state, end.message) == (EngineState.FAILED, "Stopped with strategy 'Stop'")


def test_a_pending_workflow_says_what_it_waits_for(replay: Replays) -> None:
    for recording, word in (("pending-mutex", "Mutex/target-a lock"), ("pending-parallelism", "too many workflows")):
        seen = played(replay, recording, "op-2").until_end()
        assert any(word in entry.observation.message and str(entry) == WAITS for entry in seen)


def test_a_wait_with_a_duration_asks_for_no_person(replay: Replays) -> None:
    seen = played(replay, "suspend-node-with-duration").until_end()
    assert {entry.observation.blocked for entry in seen} == {None}


def test_the_status_names_the_step_at_which_a_workflow_waits(replay: Replays) -> None:
    blocked = [e.observation.blocked for e in played(replay, "suspend-node").until_end() if e.observation.blocked]
    assert "step approve" in blocked[0].message


def test_an_expired_workflow_is_gone_after_its_end_was_readable(replay: Replays) -> None:
    seen = played(replay, "ttl").seen()
    assert [str(entry) for entry in seen][-2:] == ["Succeeded/EngineCompleted", "Failed/EngineObjectLost"]
    assert seen[-1].at - seen[-2].at > 3


def test_a_workflow_that_was_deleted_for_a_cancel_is_cancelled(replay: Replays) -> None:
    assert played(replay, "deleted", cancel_at="delete the Workflow").states()[-1] == "Cancelled/UserCancelled"


def test_a_workflow_that_no_controller_sees_is_explained_after_two_minutes(replay: Replays) -> None:
    for waited, hint in ((0, False), (119, False), (120, True)):
        found = WorkflowEngine().observe(
            request(), {"spec": {}}, asked_to_cancel=False, started=MADE, now=MADE + timedelta(seconds=waited)
        )
        assert ("instance id" in found.message) is hint
        assert (found.recheck_after is None) is hint


# --- cancel --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("parameters", "strategy"), [({}, "Stop"), ({"cancelStrategy": "Terminate"}, "Terminate")])
def test_a_cancel_shuts_down_and_resumes_in_one_patch(request_of: Requests, parameters: Json, strategy: str) -> None:
    child = {"spec": {"suspend": True}, "status": {"phase": "Running"}}
    action = WorkflowEngine().cancel(request_of(workflowTemplate="x", **parameters), child)
    assert action == PatchChild({"spec": {"shutdown": strategy, "suspend": None}})


@pytest.mark.parametrize(
    ("spec", "phase", "action"),
    [
        ({}, "", DeleteChild),
        ({}, "Pending", PatchChild),
        ({"shutdown": "Stop"}, "Running", WaitForEnd),
        ({"shutdown": "Stop", "suspend": True}, "Running", PatchChild),
        ({}, "Succeeded", WaitForEnd),
    ],
)
def test_a_cancel_patches_once_and_deletes_what_no_controller_has_seen(
    request_of: Requests, spec: Json, phase: str, action: type
) -> None:
    child = {"spec": spec, "status": {"phase": phase} if phase else {}}
    assert isinstance(WorkflowEngine().cancel(request_of(workflowTemplate="x"), child), action)
