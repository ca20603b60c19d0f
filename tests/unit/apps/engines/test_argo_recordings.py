"""Argo's recordings through the translation: outputs, messages and cancels."""

from datetime import timedelta

import pytest
from apps.engine_replay import MADE, EngineReplay, request_of
from apps.recorded_ways import STOPS, WAITS, Recorded
from recordings import Json, lines

from konverge.reconcilers.apps.operations.engines.engine import (
    DeleteChild,
    EngineState,
    Observation,
    PatchChild,
    WaitForEnd,
)
from konverge.reconcilers.apps.operations.engines.workflow import WorkflowEngine


def played(recording: str, name: str = "op-1", cancel_at: str = "") -> EngineReplay:
    return Recorded("argo", recording, f"Workflow/{name}").played(cancel_at=cancel_at)


def test_outputs_come_with_the_last_write_and_not_before() -> None:
    seen = played("succeeded").until_end()
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
def test_step_explains_a_failure_if_the_workflow_names_only_a_node(recording: str, message: str) -> None:
    assert played(recording).end.message == message


def test_a_refused_pod_does_not_bring_the_refused_value_into_the_status() -> None:
    end = played("error-pod-refused").end
    assert "is invalid: spec.nodeSelector" in end.message
    assert "bad key" not in end.message


def test_a_failed_node_does_not_end_a_workflow_that_runs() -> None:
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
    return WorkflowEngine().observe(request_of(), child, asked_to_cancel=cancelled, started=MADE, now=MADE)


def test_a_cancel_is_not_over_before_the_phase_is_final() -> None:
    seen = played("shutdown-stop", cancel_at="patch spec.shutdown").until_end()
    stopping = [entry.at for entry in seen if str(entry) == STOPS]
    assert seen[-1].at - stopping[0] > 20


def test_a_workflow_that_succeeds_in_spite_of_a_shutdown_has_succeeded() -> None:
    end = played("shutdown-terminate-kill-not-delivered", cancel_at="patch spec.shutdown").end
    assert (end.state, end.message) == (EngineState.SUCCEEDED, "it succeeded before the cancel reached it")


def test_a_shutdown_by_another_client_is_a_failure() -> None:
    end = played("shutdown-stop").end
    assert (end.state, end.message) == (EngineState.FAILED, "Stopped with strategy 'Stop'")


def test_a_pending_workflow_says_what_it_waits_for() -> None:
    for recording, word in (("pending-mutex", "Mutex/target-a lock"), ("pending-parallelism", "too many workflows")):
        seen = played(recording, "op-2").until_end()
        assert any(word in entry.observation.message and str(entry) == WAITS for entry in seen)


def test_a_wait_with_a_duration_asks_for_no_person() -> None:
    seen = played("suspend-node-with-duration").until_end()
    assert {entry.observation.blocked for entry in seen} == {None}


def test_the_status_names_the_step_at_which_a_workflow_waits() -> None:
    blocked = [e.observation.blocked for e in played("suspend-node").until_end() if e.observation.blocked]
    assert "step approve" in blocked[0].message


def test_an_expired_workflow_is_gone_after_its_end_was_readable() -> None:
    seen = played("ttl").seen()
    assert [str(entry) for entry in seen][-2:] == ["Succeeded/EngineCompleted", "Failed/EngineObjectLost"]
    assert seen[-1].at - seen[-2].at > 3


def test_a_workflow_that_was_deleted_for_a_cancel_is_cancelled() -> None:
    assert played("deleted", cancel_at="delete the Workflow").states()[-1] == "Cancelled/UserCancelled"


def test_a_workflow_that_no_controller_sees_is_explained_after_two_minutes() -> None:
    for waited, hint in ((0, False), (119, False), (120, True)):
        found = WorkflowEngine().observe(
            request_of(), {"spec": {}}, asked_to_cancel=False, started=MADE, now=MADE + timedelta(seconds=waited)
        )
        assert ("instance id" in found.message) is hint
        assert (found.recheck_after is None) is hint


# --- cancel --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("parameters", "strategy"), [({}, "Stop"), ({"cancelStrategy": "Terminate"}, "Terminate")])
def test_a_cancel_shuts_down_and_resumes_in_one_patch(parameters: Json, strategy: str) -> None:
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
def test_a_cancel_patches_once_and_deletes_what_no_controller_has_seen(spec: Json, phase: str, action: type) -> None:
    child = {"spec": spec, "status": {"phase": phase} if phase else {}}
    assert isinstance(WorkflowEngine().cancel(request_of(workflowTemplate="x"), child), action)
