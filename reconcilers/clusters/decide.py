"""The status of a Cluster, from the observed state. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from konverge.clock import from_rfc3339, rfc3339
from konverge.conditions import find_condition
from konverge.crds.ops_v1alpha1 import Cluster, ClusterPhase, ClusterStatus, CredentialStatus, SecretReference
from konverge.outcome import RequeueAfter
from konverge.reconcilers.clusters.agent_state import AgentState, Step
from konverge.reconcilers.clusters.secrets import AgentCredentials
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

__all__ = ["ObservedCluster", "ClusterProblem", "endpoint_problem", "plan_status"]

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterProblem:
    """Why no agent can run: a reason of Authenticated, and the remedy."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedCluster:
    """The input of a Cluster's status."""

    cluster: Cluster
    namespace: str
    """The namespace of the operator."""
    credentials: AgentCredentials | None = None
    """The stored credential."""
    token_digest: str = ""
    """The digest of the spec's token; empty: none."""
    problem: ClusterProblem | None = None
    state: AgentState = field(default_factory=AgentState)
    overflowed: bool = False
    missing: tuple[str, ...] = ()
    """Controllers that the cluster lacks."""
    degraded: tuple[str, ...] = ()
    """Controllers of this operator that do not work."""


def endpoint_problem(endpoint: str, settings: Settings) -> ClusterProblem | None:
    """Return why an endpoint is not used."""
    try:
        parts = urlsplit(endpoint)
    except ValueError:  # for instance https://[::1
        return ClusterProblem(
            reason=Authenticated.VALIDATION_FAILED,
            message="controlPlaneEndpoint is no URL: write https://, a host, and a port or path if it has one",
        )
    if parts.scheme == "http" and not settings.plain_http and parts.hostname not in _LOOPBACK:
        return ClusterProblem(
            reason=Authenticated.VALIDATION_FAILED,
            message="controlPlaneEndpoint is http://, over which the credential would travel in the clear: write https://, "
            "or set clusters.plain_http",
        )
    return None


def plan_status(observed: ObservedCluster, settings: Settings, now: datetime) -> Plan[ClusterStatus]:
    """Return the conditions, the phase and the heartbeat; requeued at the next heartbeat."""
    before = observed.cluster.status
    heartbeat = _heartbeat(observed, settings, now)
    last = _moment(heartbeat)
    latest = max((moment for moment in (observed.state.last_round_trip, last) if moment is not None), default=None)
    silent = latest is None or now - latest >= settings.silence
    connected = observed.problem is None and observed.state.step is Step.CONNECTED and not silent
    conditions = [
        ConditionUpdate(ClusterCondition.CONNECTED, True, Connected.ROUND_TRIP_OK, _asked_to_wait(observed))
        if connected
        else ConditionUpdate(
            ClusterCondition.CONNECTED, False, Connected.CONTROL_PLANE_UNREACHABLE, _why_not(observed)
        ),
        ConditionUpdate(
            ClusterCondition.DISCONNECTED,
            True,
            Disconnected.NO_RECENT_ROUND_TRIP,
            "the control plane never responded" if heartbeat is None else f"the last response came at {heartbeat}",
        )
        if silent and not connected
        else ConditionUpdate(ClusterCondition.DISCONNECTED, False, Disconnected.CONNECTED, ""),
        *_authenticated(observed, connected=connected),
        _healthy(observed),
        ConditionUpdate(
            ClusterCondition.BUFFER_OVERFLOW,
            True,
            BufferOverflow.EVENT_BUFFER_FULL,
            "events were dropped; the present status is sent again when the control plane responds",
        )
        if observed.overflowed
        else ConditionUpdate(ClusterCondition.BUFFER_OVERFLOW, False, BufferOverflow.BUFFER_DRAINED, ""),
    ]
    stored = observed.credentials
    status = ClusterStatus(phase=_phase(observed, before.phase, connected=connected))
    if heartbeat is not None:
        status.last_heartbeat = heartbeat
    if stored is not None:
        used = bool(stored.token_digest) and observed.token_digest in ("", stored.token_digest)
        status.credential_status = CredentialStatus(
            secret_name=settings.credentials_secret,
            secret_namespace=observed.namespace,
            registered_at=stored.registered_at or None,
            registration_token_consumed=used,
        )
        status.credentials_secret_ref = SecretReference(name=settings.credentials_secret, namespace=observed.namespace)
        if stored.token_digest:
            status.observed_token = stored.token_digest
    return Plan(set_conditions=tuple(conditions), draft=status, outcome=RequeueAfter(settings.heartbeat))


def _moment(text: str | None) -> datetime | None:
    try:
        return None if text is None else from_rfc3339(text)
    except ValueError:
        return None


def _heartbeat(observed: ObservedCluster, settings: Settings, now: datetime) -> str | None:
    """Return the heartbeat to write: the last response, if the stored heartbeat is old enough."""
    written = observed.cluster.status.last_heartbeat
    last, before = observed.state.last_round_trip, _moment(written)
    if last is None or (before is not None and now - before < settings.heartbeat - timedelta(seconds=1)):
        return written
    return rfc3339(last)


def _why_not(observed: ObservedCluster) -> str:
    if observed.problem is not None:
        return observed.problem.message
    why = observed.state.message or "no response since the agent was started"
    return "; ".join(filter(None, (why, _asked_to_wait(observed))))


def _asked_to_wait(observed: ObservedCluster) -> str:
    until = observed.state.waits_until
    return "" if until is None else f"the control plane asked to wait until {rfc3339(until)} (Retry-After)"


def _authenticated(observed: ObservedCluster, *, connected: bool) -> tuple[ConditionUpdate, ...]:
    state, problem = observed.state, observed.problem
    if problem is not None:
        return (ConditionUpdate(ClusterCondition.AUTHENTICATED, False, problem.reason, problem.message),)
    if state.step is Step.STOPPED:
        return (ConditionUpdate(ClusterCondition.AUTHENTICATED, False, state.reason, state.message),)
    if connected and state.rotation:  # the credential in use is accepted
        return (ConditionUpdate(ClusterCondition.AUTHENTICATED, True, Authenticated.ROTATION_FAILED, state.rotation),)
    if connected:
        return (ConditionUpdate(ClusterCondition.AUTHENTICATED, True, Authenticated.CREDENTIAL_ACCEPTED, ""),)
    return ()  # not known at present, so it stays


def _healthy(observed: ObservedCluster) -> ConditionUpdate:
    if observed.missing:
        names = ", ".join(observed.missing)
        return ConditionUpdate(
            ClusterCondition.CONTROLLERS_HEALTHY,
            False,
            ControllersHealthy.CONTROLLER_MISSING,
            f"not installed: {names}",
        )
    if observed.degraded:
        names = ", ".join(observed.degraded)
        return ConditionUpdate(
            ClusterCondition.CONTROLLERS_HEALTHY, False, ControllersHealthy.CONTROLLER_DEGRADED, f"not ready: {names}"
        )
    return ConditionUpdate(ClusterCondition.CONTROLLERS_HEALTHY, True, ControllersHealthy.ALL_CONTROLLERS_READY, "")


def _phase(observed: ObservedCluster, before: ClusterPhase | None, *, connected: bool) -> ClusterPhase:
    if observed.problem is not None:
        waits = (Authenticated.CREDENTIAL_MISSING, Authenticated.TOKEN_SECRET_MISSING)
        return PhaseName.PENDING if observed.problem.reason in waits else PhaseName.ERROR
    if connected:
        return PhaseName.CONNECTED
    match observed.state.step:
        case Step.STOPPED:
            return PhaseName.ERROR
        case Step.REGISTERING:
            return PhaseName.REGISTERING
        case Step.STARTING:
            return before if before in (PhaseName.CONNECTED, PhaseName.DISCONNECTED) else PhaseName.PENDING
    known = find_condition(observed.cluster.conditions, ClusterCondition.AUTHENTICATED)
    return PhaseName.DISCONNECTED if known is not None or observed.credentials is not None else PhaseName.REGISTERING
