"""The conditions of a claim, and whether a credential is due. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from konverge.crds.workspaces_v1alpha1 import KubeConfigSecret, WorkspaceClaimStatus
from konverge.outcome import RequeueAfter
from konverge.reconcilers.workspaces.observe import ObservedWorkspace
from konverge.reconcilers.workspaces.provider import WorkspacePhase, WorkspaceState
from konverge.reconcilers.workspaces.secrets import secret_name
from konverge.reconcilers.workspaces.settings import WorkspaceSettings
from konverge.reconcilers.workspaces.words import WorkspaceCondition, WorkspacePhaseWord, WorkspaceReason
from konverge.runtime import ConditionUpdate, Plan

__all__ = ["credential_due", "plan_deleting", "plan_status"]

_PART_LEFT: Final = 3
"""A credential is renewed when a third of its lifetime is left."""
_AT_LEAST: Final = timedelta(minutes=1)
"""Between two credentials: kcp may grant a short lifetime, or its clock may be behind."""


def credential_due(observed: ObservedWorkspace, now: datetime) -> bool:
    """Tell whether the workspace is ready and its Secret is missing, is for another URL, or expires soon."""
    state, secret = observed.state, observed.secret
    if observed.problem is not None or state is None or state.phase is not WorkspacePhase.READY:
        return False
    if secret is None or secret.times is None or (secret.url, secret.identity) != (state.url, state.identity):
        return True
    return _renewal(*secret.times) <= now


def _renewal(issued: datetime, expires: datetime) -> datetime:
    """Return when a credential is renewed, by the times of its issue and expiry.

    >>> from datetime import UTC
    >>> _renewal(datetime(2030, 1, 1, 0, tzinfo=UTC), datetime(2030, 1, 1, 3, tzinfo=UTC)).hour
    2
    """
    return max(expires - (expires - issued) / _PART_LEFT, issued + _AT_LEAST)


def plan_status(observed: ObservedWorkspace, settings: WorkspaceSettings, now: datetime) -> Plan[WorkspaceClaimStatus]:
    """Return conditions and status of a claim that is not being deleted."""
    state, problem, claim = observed.state, observed.problem, observed.claim
    if problem is not None:
        known = problem.reason == WorkspaceReason.PROVIDER_UNAVAILABLE
        before = claim.status.find_condition(WorkspaceCondition.AVAILABLE)
        # While the provider is unreachable, the state of a workspace that was ready is unknown: it may well work.
        available = None if known and before is not None and before.status != "False" else False
        # Other problems need manual action that is not watched, in kcp or in a namespace; each check is a write.
        wait = settings.retry if known else settings.recheck
        return _plan(available, None if known else False, problem.reason, problem.message, degraded=True, wait=wait)
    assert state is not None, "without a problem the provider has responded"
    if state.phase is WorkspacePhase.READY:
        draft = WorkspaceClaimStatus(
            phase=WorkspacePhaseWord.READY,
            cluster_url=state.url,
            kube_config_secret=KubeConfigSecret(name=secret_name(claim.workspace), namespace=observed.namespace),
        )
        wait = settings.recheck
        if observed.secret is not None and observed.secret.times is not None:
            left = (_renewal(*observed.secret.times) - now).total_seconds()
            wait = max(1.0, min(wait, left))
        message = "the workspace is ready"
        return Plan(
            set_conditions=(
                ConditionUpdate(WorkspaceCondition.AVAILABLE, True, WorkspaceReason.RECONCILED, message),
                ConditionUpdate(WorkspaceCondition.PROGRESSING, False, WorkspaceReason.RECONCILED, message),
                ConditionUpdate(WorkspaceCondition.DEGRADED, False, WorkspaceReason.RECONCILED, message),
            ),
            draft=draft,
            outcome=RequeueAfter(wait),
        )
    reason = WorkspaceReason.PREPARING
    if state.phase is WorkspacePhase.UNAVAILABLE:
        reason = WorkspaceReason.UNAVAILABLE
    elif state.phase is WorkspacePhase.DELETING:
        reason = WorkspaceReason.DELETING
    text = state.message or f"the workspace is {state.phase.value}"
    return _plan(
        False,
        True,
        reason,
        text,
        degraded=state.phase is not WorkspacePhase.PREPARING,
        wait=settings.poll,
        draft=WorkspaceClaimStatus(phase=WorkspacePhaseWord.INITIALIZING),
    )


def plan_deleting(state: WorkspaceState, settings: WorkspaceSettings) -> Plan[WorkspaceClaimStatus]:
    """Return conditions and status of a claim whose workspace is being deleted."""
    text = state.message or "the workspace is being deleted"
    return _plan(
        False,
        True,
        WorkspaceReason.DELETING,
        text,
        degraded=False,
        wait=settings.poll,
        draft=WorkspaceClaimStatus(phase=WorkspacePhaseWord.DELETING),
    )


def _plan(
    available: bool | None,
    progressing: bool | None,
    reason: str,
    message: str,
    *,
    degraded: bool,
    wait: float,
    draft: WorkspaceClaimStatus | None = None,
) -> Plan[WorkspaceClaimStatus]:
    return Plan(
        set_conditions=(
            ConditionUpdate(WorkspaceCondition.AVAILABLE, available, reason, message),
            ConditionUpdate(WorkspaceCondition.PROGRESSING, progressing, reason, message),
            ConditionUpdate(WorkspaceCondition.DEGRADED, degraded, reason, message),
        ),
        draft=draft,
        outcome=RequeueAfter(wait),
    )
