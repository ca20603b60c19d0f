"""From the status of a Job to the state of its Operation; shared by the engines that create Jobs.

Each step of an end is a write of its own: SuccessCriteriaMet or FailureTarget are set first, and the pods may still run; only Complete and
Failed are ends. Suspension lags behind `spec.suspend` in both directions, so both are read. A startTime without active pods is a Job
between two attempts, or a Job whose pods a quota refuses. Conditions also count in a Job that is being deleted.

Guarantees: pure. Source: docs/reference/job.md#translation.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from konverge.crds.ops_v1alpha1 import LogsRef
from konverge.kinds import Kind, kind
from konverge.objects import Object
from konverge.reconcilers.apps.operations.engines.engine import (
    CancelAction,
    EngineRequest,
    EngineState,
    ObjectKey,
    Observation,
    PatchChild,
    child_name,
    child_place,
    object_lost,
)
from konverge.reconcilers.apps.operations.words import CancelledReason, FailedReason, RunningReason, SucceededReason

__all__ = ["JOB", "RunsOneJob", "observe_job", "stop_job"]

JOB: Final = kind("batch/v1", "Job", namespaced=True, plural="jobs")

_SUSPENDED: Final = PatchChild({"spec": {"suspend": True}})


def observe_job(job: Mapping[str, Any], *, asked_to_cancel: bool) -> Observation:
    """Return the state that a Job shows."""
    metadata, status = job.get("metadata") or {}, job.get("status") or {}
    conditions = {
        condition["type"]: condition
        for condition in status.get("conditions") or ()
        if condition.get("status") == "True"
    }
    name, namespace = str(metadata.get("name", "")), str(metadata.get("namespace", ""))
    outputs, logs = {"jobName": name}, LogsRef(kind="Job", name=name, namespace=namespace)

    def seen(state: EngineState, reason: str, message: str, *, awaits_pods: bool = False) -> Observation:
        return Observation(state, reason, message, outputs=outputs, logs=logs, awaits_pods=awaits_pods)

    def text(condition: Mapping[str, Any]) -> str:
        return str(condition.get("message") or condition.get("reason") or "")

    if "Complete" in conditions:
        return seen(EngineState.SUCCEEDED, SucceededReason.ENGINE_COMPLETED, text(conditions["Complete"]))
    if "Failed" in conditions:
        failed = conditions["Failed"]
        return seen(EngineState.FAILED, str(failed.get("reason") or FailedReason.ENGINE_FAILED), text(failed))
    if "SuccessCriteriaMet" in conditions:
        return seen(EngineState.RUNNING, RunningReason.COMPLETING, text(conditions["SuccessCriteriaMet"]))
    if "FailureTarget" in conditions:
        return seen(EngineState.RUNNING, RunningReason.FAILING, text(conditions["FailureTarget"]))
    suspend = bool((job.get("spec") or {}).get("suspend"))
    at_work = bool(status.get("active") or status.get("terminating"))
    if suspend and "Suspended" in conditions and not at_work:
        if asked_to_cancel:
            return seen(
                EngineState.CANCELLED, CancelledReason.USER_CANCELLED, f"Job {name} is suspended, its pods ended"
            )
        return seen(
            EngineState.ACCEPTED, RunningReason.SUSPENDED, f"Job {name} is suspended, by its creator or a queue"
        )
    if asked_to_cancel and (suspend or metadata.get("deletionTimestamp")):
        return seen(EngineState.RUNNING, RunningReason.STOPPING, f"Job {name} stops its pods")
    awaits_pods = not status.get("ready") and not suspend
    if status.get("startTime") or at_work:
        return seen(EngineState.RUNNING, RunningReason.ENGINE_STARTED, f"Job {name} runs", awaits_pods=awaits_pods)
    message = f"Job {name} was created"
    return seen(EngineState.ACCEPTED, RunningReason.ENGINE_NOT_STARTED, message, awaits_pods=awaits_pods)


def stop_job(_job: Mapping[str, Any]) -> CancelAction:
    """Return how to stop a Job: a suspended Job ends its pods, and its status shows when none is left."""
    return _SUSPENDED


class RunsOneJob:
    """The part of an engine that is the same for every engine whose object is one Job: all but `needs` and `render`."""

    makes: tuple[Kind[Object], ...] = (JOB,)

    def kind(self, _request: EngineRequest) -> Kind[Object]:
        """Return Job."""
        return JOB

    def place(self, request: EngineRequest) -> ObjectKey:
        """Return the place of the Job."""
        return child_place(request)

    def observe(
        self,
        _request: EngineRequest,
        child: Mapping[str, Any],
        *,
        asked_to_cancel: bool,
        started: datetime,  # noqa: ARG002  # of the interface; a Job needs no time
        now: datetime,  # noqa: ARG002  # of the interface; a Job needs no time
    ) -> Observation:
        """Return the state of the Job."""
        return observe_job(child, asked_to_cancel=asked_to_cancel)

    def lost(self, request: EngineRequest, *, asked_to_cancel: bool) -> Observation:
        """Return the end of an Operation whose Job was deleted."""
        return object_lost(f"Job {request.operation.namespace}/{child_name(request)}", asked_to_cancel=asked_to_cancel)

    def cancel(self, _request: EngineRequest, child: Mapping[str, Any]) -> CancelAction:
        """Suspend the Job."""
        return stop_job(child)
