"""The state of the release of an instance, from Flux's status by the shared translation. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from konverge.clock import from_rfc3339
from konverge.conditions import Condition
from konverge.objects import Object
from konverge.reconcilers.pools.instances.settings import MaterialSettings
from konverge.reconcilers.pools.instances.steps import StepState
from konverge.reconcilers.pools.instances.words import ReleaseReason
from konverge.reconcilers.shared.helm_release.facts import ReleaseFacts, Translation
from konverge.reconcilers.shared.helm_release.freshness import DesiredRelease, FluxRelease, FluxSource
from konverge.reconcilers.shared.helm_release.sources import FluxSources
from konverge.reconcilers.shared.helm_release.translate import translate

__all__ = ["ReleaseStatus", "release_status"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseStatus:
    """The step, and the input and result of the translation, for the record of a finished rollout."""

    state: StepState
    facts: ReleaseFacts
    translation: Translation


def release_status(
    release: Object,
    source: Object,
    chart: Object | None,
    desired: DesiredRelease,
    before: Condition | None,
    settings: MaterialSettings,
    now: datetime,
    *,
    first: bool,
) -> ReleaseStatus:
    """Return the status of the release; `before` is the last ReleaseReady, `first` is True until the instance was ready once."""
    facts = ReleaseFacts(
        release=FluxRelease.of(release),
        sources=FluxSources(
            oci=desired.oci,
            chart=None if chart is None else FluxSource.of(chart),
            repository=FluxSource.of(source),
        ),
        desired=desired,
        first=first,
        waiting_since=_since(before, now),
        now=now,
        grace=timedelta(seconds=settings.source_grace),
        stuck_after=timedelta(seconds=settings.stuck_after),
    )
    translation = translate(facts)
    return ReleaseStatus(state=_state(translation, before, now), facts=facts, translation=translation)


def _since(before: Condition | None, now: datetime) -> datetime:
    """Return since when the release has not been ready, as the condition has it."""
    if before is None or before.is_true or not before.last_transition_time:
        return now
    try:
        return min(from_rfc3339(before.last_transition_time), now)
    except ValueError:
        return now


def _state(translation: Translation, before: Condition | None, now: datetime) -> StepState:
    again = None if translation.recheck is None else max(translation.recheck - now, timedelta(seconds=1))
    if translation.stalled is not None:
        message = translation.stalled.message or (translation.ready.message if translation.ready else "")
        return StepState(ready=False, reason=ReleaseReason.STALLED, message=message, lasting=True, again=again)
    ready = translation.ready
    if ready is None:  # Flux reconciles again, and the last state stays
        if before is not None:
            return StepState(ready=before.is_true, reason=before.reason, message=before.message, again=again)
        return StepState(ready=False, reason=ReleaseReason.STARTING, again=again)
    return StepState(ready=ready.status, reason=ready.reason, message=ready.message, again=again)
