"""The status of a Cluster, from the observed state and the state of its agent. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from konverge.clock import from_rfc3339, rfc3339
from konverge.conditions import find_condition
from konverge.crds.ops_v1alpha1 import ClusterPhase, ClusterStatus, CredentialStatus, SecretReference
from konverge.outcome import RequeueAfter
from konverge.reconcilers.clusters.agent_state import AgentState, Step
from konverge.reconcilers.clusters.observe import ClusterProblem, ObservedCluster
from konverge.reconcilers.clusters.settings import Settings
from konverge.reconcilers.clusters.words import (
    Authenticated,
    BufferOverflow,
    ClusterCondition,
    Connected,
    ControllersHealthy,
    Disconnected,
    PhaseName,
)
from konverge.runtime import ConditionUpdate, Plan

__all__ = ["ClusterView", "plan_status"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """The input of a Cluster's status."""

    observed: ObservedCluster
    problem: ClusterProblem | None = None
    """Why no agent runs."""
    state: AgentState = field(default_factory=AgentState)
    overflowed: bool = False


def plan_status(view: ClusterView, settings: Settings, now: datetime) -> Plan[ClusterStatus]:
    """Return the conditions, the phase and the heartbeat; requeued at the next heartbeat."""
    before = view.observed.cluster.status
    heartbeat = _heartbeat(view, settings, now)
    last = _moment(heartbeat)
    latest = max((moment for moment in (view.state.last_round_trip, last) if moment is not None), default=None)
    silent = latest is None or now - latest >= settings.silence
    connected = view.problem is None and view.state.step is Step.CONNECTED and not silent
    conditions = [
        ConditionUpdate(ClusterCondition.CONNECTED, True, Connected.ROUND_TRIP_OK, _asked_to_wait(view))
        if connected
        else ConditionUpdate(ClusterCondition.CONNECTED, False, Connected.CONTROL_PLANE_UNREACHABLE, _why_not(view)),
        ConditionUpdate(
            ClusterCondition.DISCONNECTED,
            True,
            Disconnected.NO_RECENT_ROUND_TRIP,
            "the control plane never responded" if heartbeat is None else f"the last response came at {heartbeat}",
        )
        if silent and not connected
        else ConditionUpdate(ClusterCondition.DISCONNECTED, False, Disconnected.CONNECTED, ""),
        *_authenticated(view, connected=connected),
        _healthy(view),
        ConditionUpdate(
            ClusterCondition.BUFFER_OVERFLOW,
            True,
            BufferOverflow.EVENT_BUFFER_FULL,
            "events were dropped; the present status is sent again when the control plane responds",
        )
        if view.overflowed
        else ConditionUpdate(ClusterCondition.BUFFER_OVERFLOW, False, BufferOverflow.BUFFER_DRAINED, ""),
    ]
    stored = view.observed.credentials
    status = ClusterStatus(phase=_phase(view, before.phase, connected=connected))
    if heartbeat is not None:
        status.last_heartbeat = heartbeat
    if stored is not None:
        used = bool(stored.token_digest) and view.observed.token_digest in ("", stored.token_digest)
        status.credential_status = CredentialStatus(
            secret_name=settings.credentials_secret,
            secret_namespace=view.observed.namespace,
            registered_at=stored.registered_at or None,
            registration_token_consumed=used,
        )
        status.credentials_secret_ref = SecretReference(
            name=settings.credentials_secret, namespace=view.observed.namespace
        )
        if stored.token_digest:
            status.observed_token = stored.token_digest
    return Plan(set_conditions=tuple(conditions), draft=status, outcome=RequeueAfter(settings.heartbeat))


def _moment(text: str | None) -> datetime | None:
    try:
        return None if text is None else from_rfc3339(text)
    except ValueError:
        return None


def _heartbeat(view: ClusterView, settings: Settings, now: datetime) -> str | None:
    """Return the heartbeat to write: the last response, if the stored heartbeat is old enough."""
    written = view.observed.cluster.status.last_heartbeat
    last, before = view.state.last_round_trip, _moment(written)
    if last is None or (before is not None and now - before < settings.heartbeat - timedelta(seconds=1)):
        return written
    return rfc3339(last)


def _why_not(view: ClusterView) -> str:
    if view.problem is not None:
        return view.problem.message
    why = view.state.message or "no response since the agent was started"
    return "; ".join(filter(None, (why, _asked_to_wait(view))))


def _asked_to_wait(view: ClusterView) -> str:
    until = view.state.waits_until
    return "" if until is None else f"the control plane asked to wait until {rfc3339(until)} (Retry-After)"


def _authenticated(view: ClusterView, *, connected: bool) -> tuple[ConditionUpdate, ...]:
    state, problem = view.state, view.problem
    if problem is not None:
        return (ConditionUpdate(ClusterCondition.AUTHENTICATED, False, problem.reason, problem.message),)
    if state.step is Step.STOPPED:
        return (ConditionUpdate(ClusterCondition.AUTHENTICATED, False, state.reason, state.message),)
    if connected and state.rotation:  # the credential in use is accepted
        return (ConditionUpdate(ClusterCondition.AUTHENTICATED, True, Authenticated.ROTATION_FAILED, state.rotation),)
    if connected:
        return (ConditionUpdate(ClusterCondition.AUTHENTICATED, True, Authenticated.CREDENTIAL_ACCEPTED, ""),)
    return ()  # not known at present, so it stays


def _healthy(view: ClusterView) -> ConditionUpdate:
    if view.observed.missing:
        names = ", ".join(view.observed.missing)
        return ConditionUpdate(
            ClusterCondition.CONTROLLERS_HEALTHY,
            False,
            ControllersHealthy.CONTROLLER_MISSING,
            f"not installed: {names}",
        )
    if view.observed.degraded:
        names = ", ".join(view.observed.degraded)
        return ConditionUpdate(
            ClusterCondition.CONTROLLERS_HEALTHY, False, ControllersHealthy.CONTROLLER_DEGRADED, f"not ready: {names}"
        )
    return ConditionUpdate(ClusterCondition.CONTROLLERS_HEALTHY, True, ControllersHealthy.ALL_CONTROLLERS_READY, "")


def _phase(view: ClusterView, before: ClusterPhase | None, *, connected: bool) -> ClusterPhase:
    if view.problem is not None:
        waits = (Authenticated.CREDENTIAL_MISSING, Authenticated.TOKEN_SECRET_MISSING)
        return PhaseName.PENDING if view.problem.reason in waits else PhaseName.ERROR
    if connected:
        return PhaseName.CONNECTED
    match view.state.step:
        case Step.STOPPED:
            return PhaseName.ERROR
        case Step.REGISTERING:
            return PhaseName.REGISTERING
        case Step.STARTING:
            return before if before in (PhaseName.CONNECTED, PhaseName.DISCONNECTED) else PhaseName.PENDING
    known = find_condition(view.observed.cluster.conditions, ClusterCondition.AUTHENTICATED)
    return (
        PhaseName.DISCONNECTED if known is not None or view.observed.credentials is not None else PhaseName.REGISTERING
    )
