"""The state of one step of an instance. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from konverge.crds.pools_v1alpha1 import NextcloudInstanceStatus
from konverge.reconcilers.pools.words import StepReason

__all__ = ["StepState", "summary_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepState:
    """One step: done, or why not. `lasting` if it does not heal by itself; `again` is the time until it is reconciled without an event."""

    ready: bool | None
    reason: str
    message: str = ""
    lasting: bool = False
    again: timedelta | None = None
    draft: NextcloudInstanceStatus | None = None
    """The fields of the status that the step sets."""


def summary_of(states: Sequence[StepState]) -> StepState:
    """Return the state of independent parts: the first that is not done, else the first that is wanted.

    >>> summary_of([StepState(ready=True, reason="NotWanted"), StepState(ready=True, reason="BackupsScheduled")]).reason
    'BackupsScheduled'
    """
    wanted = [state for state in states if state.reason != StepReason.NOT_WANTED]
    return next((state for state in wanted if not state.ready), wanted[0] if wanted else states[0])
