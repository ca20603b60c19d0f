"""The engine `volsync`: one run of a ReplicationSource or ReplicationDestination (docs/reference/volsync.md).

The run has a token, the UID of the Operation, in `spec.trigger.manual`. Only `status.lastManualSync` shows that this very run is over:
conditions and `latestMoverStatus` survive from the run before, and Synchronizing is False/Error for seconds in healthy runs.

VolSync never gives up: it recreates a failed mover for ever. So a run whose mover failed ends as Failed after `retrySeconds`, and the
object is deleted then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, model_validator

from konverge.clock import from_rfc3339
from konverge.kinds import Kind, kind
from konverge.objects import Object
from konverge.reconcilers.apps.operations.engines.engine import (
    CancelAction,
    DeleteChild,
    EngineBlocked,
    EngineRequest,
    EngineState,
    ObjectKey,
    ObjectRef,
    Observation,
    Refused,
    Rendered,
    object_lost,
)
from konverge.reconcilers.apps.operations.engines.silence import silence
from konverge.reconcilers.apps.operations.engines.texts import excerpt
from konverge.reconcilers.apps.operations.engines.typed_parameters import (
    EngineParameters,
    ObjectName,
    ParameterGroup,
    read_parameters,
)
from konverge.reconcilers.apps.operations.words import BlockedReason, FailedReason, RunningReason, SucceededReason

__all__ = ["REPLICATION_DESTINATION", "REPLICATION_SOURCE", "VolSyncEngine", "VolSyncParameters"]

REPLICATION_SOURCE: Final = kind(
    "volsync.backube/v1alpha1", "ReplicationSource", namespaced=True, plural="replicationsources"
)
REPLICATION_DESTINATION: Final = kind(
    "volsync.backube/v1alpha1", "ReplicationDestination", namespaced=True, plural="replicationdestinations"
)

_ERROR_GRACE: Final = timedelta(seconds=10)
"""How long Synchronizing=False/Error means nothing; up to 4.5 s were recorded in healthy runs."""
_LOG_LINES: Final = 3

Text = Annotated[str, Field(min_length=1, max_length=253)]


class VolSyncRepository(ParameterGroup):
    """Where the data are stored."""

    secret_name: ObjectName
    """A Secret beside the Operation, as the mover reads it."""
    type: Literal["restic", "rclone"] = "restic"
    config_section: Text | None = None
    """rclone: the section of its configuration."""
    path: Text | None = None
    """rclone: the path at the destination."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.type == "rclone" and not (self.config_section and self.path):
            raise ValueError("rclone needs configSection and path")
        return self

    def mover(self) -> dict[str, Any]:
        """Return the fields of the mover that name the repository."""
        if self.type == "restic":
            return {"repository": self.secret_name}
        return {
            "rcloneConfig": self.secret_name,
            "rcloneConfigSection": self.config_section,
            "rcloneDestPath": self.path,
        }


class Retention(ParameterGroup):
    """The snapshots that restic keeps."""

    hourly: Annotated[int, Field(ge=0)] | None = None
    daily: Annotated[int, Field(ge=0)] | None = None
    weekly: Annotated[int, Field(ge=0)] | None = None
    monthly: Annotated[int, Field(ge=0)] | None = None
    yearly: Annotated[int, Field(ge=0)] | None = None
    last: Annotated[int, Field(ge=0)] | None = None
    within: str | None = None

    def wire(self) -> dict[str, Any]:
        """Return the field `retain`; its `last` is a text."""
        fields = self.model_dump(by_alias=True, exclude_none=True)
        return {name: str(value) if name == "last" else value for name, value in fields.items()}


class VolSyncParameters(EngineParameters):
    """The parameters of a replication."""

    direction: Literal["source", "destination"] | None = None
    """From or into the volume; by default `destination` for a Restore, else `source`."""
    pvc: ObjectName
    repository: VolSyncRepository
    copy_method: Literal["Snapshot", "Clone", "Direct"] | None = None
    """By default Snapshot for a source, Direct for a destination."""
    retain: Retention | None = None
    schedule: Annotated[str, Field(min_length=1)] | None = None
    retry_seconds: Annotated[int, Field(ge=0)] = 1800
    """The time from the beginning of a run until it fails, if its mover has failed."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.schedule is not None:
            raise ValueError("schedule: an Operation is one run and ends; create a ReplicationSource for a schedule")
        if self.retain is not None and self.repository.type != "restic":
            raise ValueError("retain: only restic has it")
        return self


class VolSyncEngine:
    """Runs of VolSync.

    Guarantees: each Operation has an object of its own, so no run can be credited to another Operation.
    """

    name: Final = "volsync"
    makes: Final = (REPLICATION_SOURCE, REPLICATION_DESTINATION)
    reads: Final[tuple[Kind[Object], ...]] = ()
    """VolSync reports missing volumes and Secrets, and continues by itself once they exist."""
    gets: Final[tuple[Kind[Object], ...]] = ()

    def kind(self, request: EngineRequest) -> Kind[Object]:
        """Return the kind by the direction."""
        return REPLICATION_DESTINATION if _direction(request) == "destination" else REPLICATION_SOURCE

    def place(self, request: EngineRequest) -> ObjectKey:
        """Return the place of the ReplicationSource or ReplicationDestination."""
        return ObjectKey(request.operation.namespace, _name(request))

    def needs(self, request: EngineRequest) -> tuple[ObjectRef, ...]:  # noqa: ARG002  # the interface
        """Return nothing."""
        return ()

    def render(self, request: EngineRequest) -> Rendered | Refused | EngineBlocked:
        """Return the ReplicationSource or ReplicationDestination."""
        parameters = read_parameters(VolSyncParameters, request.parameters)
        if isinstance(parameters, Refused):
            return parameters
        into = _direction(request) == "destination"
        method = parameters.copy_method or ("Direct" if into else "Snapshot")
        if into and method == "Clone":
            return Refused("parameters.copyMethod: a destination takes Direct or Snapshot")
        if into and parameters.retain is not None:
            return Refused("parameters.retain: only a source has it")
        mover = {**parameters.repository.mover(), "copyMethod": method}
        if into:
            mover["destinationPVC"] = parameters.pvc
        if parameters.retain is not None:
            mover["retain"] = parameters.retain.wire()
        spec: dict[str, Any] = {"trigger": {"manual": request.uid}, parameters.repository.type: mover}
        if not into:
            spec["sourcePVC"] = parameters.pvc
        replication = self.kind(request).new(_name(request), request.operation.namespace, spec=spec)
        # The VolumeSnapshot that is the result of such a destination is deleted with it.
        return Rendered(replication, {"replicationName": replication.name}, owned=not (into and method == "Snapshot"))

    def observe(
        self,
        request: EngineRequest,
        child: Mapping[str, Any],
        *,
        asked_to_cancel: bool,
        started: datetime,
        now: datetime,
    ) -> Observation:
        """Translate the status; silence shows that VolSync is down only before the run begins, since a mover may take hours."""
        seen = self._state(request, child, asked_to_cancel=asked_to_cancel, started=started, now=now)
        begun = bool((child.get("status") or {}).get("lastSyncStartTime"))
        return silence(request, f"{self.kind(request).kind} {_name(request)}", now).judge(
            seen,
            child,
            self.cancel(request, child) if asked_to_cancel else None,
            usual=begun,
            advice="it was deleted, and a finalizer holds it",
        )

    def _state(
        self,
        request: EngineRequest,
        child: Mapping[str, Any],
        *,
        asked_to_cancel: bool,
        started: datetime,
        now: datetime,
    ) -> Observation:
        """Translate the status (docs/reference/volsync.md#states)."""
        status: Mapping[str, Any] = child.get("status") or {}
        outputs = {"replicationName": str((child.get("metadata") or {}).get("name", ""))}
        if status.get("lastManualSync") == request.uid:
            late = "the run was over before it was cancelled" if asked_to_cancel else ""
            return Observation(
                EngineState.SUCCEEDED, SucceededReason.ENGINE_COMPLETED, late, {**outputs, **_results(status)}
            )
        begun = status.get("lastSyncStartTime")
        if not _awaits(request, child):
            message = "its spec.trigger.manual was changed, so VolSync will not report the end of this run"
            return Observation(EngineState.RUNNING, RunningReason.ENGINE_ERROR, message, outputs)
        if not begun:
            seen = Observation(EngineState.ACCEPTED, RunningReason.ENGINE_NOT_STARTED, "", outputs)
        elif asked_to_cancel:
            seen = Observation(EngineState.RUNNING, RunningReason.STOPPING, "", outputs)
        elif (status.get("latestMoverStatus") or {}).get("result") == "Failed":
            seen = _mover_failed(request, status, outputs, _ran(from_rfc3339(str(begun)), started, now))
        else:
            seen = Observation(EngineState.RUNNING, RunningReason.ENGINE_STARTED, "", outputs)
        return seen if seen.state.final else _with_error(seen, status, now)

    def lost(self, request: EngineRequest, *, asked_to_cancel: bool) -> Observation:
        """Return the end of an Operation whose object is missing."""
        return object_lost(f"{self.kind(request).kind} {_name(request)}", asked_to_cancel=asked_to_cancel)

    def cancel(self, request: EngineRequest, child: Mapping[str, Any]) -> CancelAction:  # noqa: ARG002  # the interface
        """Delete it: its Job and temporary volumes are deleted with it. `paused` would end the pod but leave the run open."""
        return DeleteChild()


def _name(request: EngineRequest) -> str:
    """Return a short name: VolSync derives the name of its Job from it, and a Job's name has 63 characters at most."""
    return f"op-{request.uid}"


def _direction(request: EngineRequest) -> str:
    given = request.parameters.get("direction")
    return str(given) if given else ("destination" if request.type == "Restore" else "source")


def _results(status: Mapping[str, Any]) -> dict[str, str]:
    """Return the outputs of a run that is over."""
    image = status.get("latestImage") or {}
    outputs = {
        "lastSyncTime": status.get("lastSyncTime"),
        "latestImage": image.get("name") and f"{image.get('kind', '')}/{image['name']}",
        "snapshotName": image.get("name") if image.get("kind") == "VolumeSnapshot" else None,
    }
    return {name: str(value) for name, value in outputs.items() if value}


def _awaits(request: EngineRequest, child: Mapping[str, Any]) -> bool:
    """Tell whether the end of the run will be credited to this Operation: VolSync credits it to the present token."""
    return bool(((child.get("spec") or {}).get("trigger") or {}).get("manual") == request.uid)


def _log_tail(status: Mapping[str, Any]) -> str:
    """Return the last lines of the mover's log, which VolSync leaves out if it cannot read them."""
    lines = str((status.get("latestMoverStatus") or {}).get("logs") or "").strip().splitlines()
    return excerpt(" | ".join(lines[-_LOG_LINES:])) if lines else "its log is not known"


def _ran(begun: datetime, started: datetime, now: datetime) -> timedelta:
    """Return for how long a run has lasted. If it begins in the future, VolSync's clock differs from ours, and our own start counts."""
    return now - (started if begun > now else begun)


def _mover_failed(
    request: EngineRequest, status: Mapping[str, Any], outputs: Mapping[str, str], ran: timedelta
) -> Observation:
    """Return the state of a run whose mover has failed. VolSync recreates the Job without end and never reports a failure."""
    parameters = read_parameters(VolSyncParameters, request.parameters)
    patience = timedelta(seconds=0 if isinstance(parameters, Refused) else parameters.retry_seconds)
    text = f"the mover failed: {_log_tail(status)}"
    if ran >= patience:
        return Observation(EngineState.FAILED, FailedReason.ENGINE_FAILED, text, outputs, stop=DeleteChild())
    return Observation(EngineState.RUNNING, RunningReason.MOVER_RETRYING, text, outputs, recheck_after=patience - ran)


def _with_error(seen: Observation, status: Mapping[str, Any], now: datetime) -> Observation:
    """Add the error of the condition Synchronizing if it has lasted: VolSync shows an error for a moment in most runs."""
    conditions = status.get("conditions") or ()
    error = next((c for c in conditions if c.get("type") == "Synchronizing" and c.get("reason") == "Error"), None)
    if error is None or seen.reason == RunningReason.STOPPING:
        return seen
    lasted = now - from_rfc3339(str(error["lastTransitionTime"]))
    if lasted < _ERROR_GRACE:
        left = _ERROR_GRACE - max(lasted, timedelta(0))
        return replace(seen, recheck_after=min(left, seen.recheck_after or left))
    message = excerpt(error.get("message"))
    blocked = None
    if message.endswith("not found"):
        missing = BlockedReason.MISSING_SECRET if message.startswith("Secret ") else BlockedReason.DEPENDENCY_MISSING
        blocked = EngineBlocked(missing, message)
    return replace(seen, reason=RunningReason.ENGINE_ERROR, message=message, blocked=blocked)
