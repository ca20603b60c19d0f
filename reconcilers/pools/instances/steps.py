"""The state of one step of an instance, and the phase that is derived from all steps. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from konverge.crds.pools_v1alpha1 import Phase
from konverge.outcome import Done, Outcome, RequeueAfter
from konverge.reconcilers.pools.instances.words import DatabaseReason, ReleaseReason
from konverge.reconcilers.pools.words import InstancePhase, StepReason

__all__ = ["StepState", "outcome_of", "phase_of", "summary_of"]

_STALLED = frozenset({DatabaseReason.STALLED, DatabaseReason.FAILED, ReleaseReason.STALLED})


@dataclass(frozen=True, slots=True, kw_only=True)
class StepState:
    """One step: done, or why not. `lasting` if it does not heal by itself; `again` is the time until it is reconciled without an event."""

    ready: bool | None
    reason: str
    message: str = ""
    lasting: bool = False
    again: timedelta | None = None


def summary_of(states: Sequence[StepState]) -> StepState:
    """Return the state of independent parts: the first that is not done, else the first that is wanted.

    >>> summary_of([StepState(ready=True, reason="NotWanted"), StepState(ready=True, reason="BackupsScheduled")]).reason
    'BackupsScheduled'
    """
    wanted = [one for one in states if one.reason != StepReason.NOT_WANTED]
    return next((one for one in wanted if not one.ready), wanted[0] if wanted else states[0])


def phase_of(last: StepState, *, was_ready: bool) -> Phase:
    """Return the phase from the last step that was taken.

    >>> phase_of(StepState(ready=False, reason="DatabaseProvisioning"), was_ready=False)
    'Provisioning'
    """
    if last.ready:
        return InstancePhase.READY
    if was_ready:
        return InstancePhase.DEGRADED
    return InstancePhase.FAILED if last.lasting or last.reason in _STALLED else InstancePhase.PROVISIONING


def outcome_of(last: StepState, now: datetime, recheck: datetime | None) -> Outcome:
    """Return when to reconcile the instance without an event."""
    waits = [last.again] if last.again is not None else []
    if recheck is not None:
        waits.append(max(recheck - now, timedelta(seconds=1)))
    return RequeueAfter(min(waits)) if waits else Done()
