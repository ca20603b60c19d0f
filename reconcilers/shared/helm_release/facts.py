"""The input of the translation, `ReleaseFacts`, and its result, `Translation`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from konverge.conditions import Condition
from konverge.reconcilers.shared.helm_release.freshness import DesiredRelease, FluxRelease
from konverge.reconcilers.shared.helm_release.sources import FluxSources, SourceFailure
from konverge.reconcilers.shared.helm_release.values import ValuesFrom
from konverge.reconcilers.shared.helm_release.words import Flux, Ready, Reconciling

__all__ = ["ReleaseFacts", "ConditionValue", "Translation"]

_SOURCE_REASONS = frozenset({Flux.SOURCE_NOT_READY, Flux.ARTIFACT_FAILED})


@dataclass(frozen=True, slots=True)
class ConditionValue:
    """One condition's new value; `status` None is Unknown."""

    status: bool | None
    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """New values of the conditions. None keeps Ready, Reconciling or Degraded; None removes Stalled.

    `rolled_out` is True if the present intent runs; `recheck` is when the translation can change without an event.
    """

    row: str
    ready: ConditionValue | None = None
    reconciling: ConditionValue | None = None
    degraded: ConditionValue | None = None
    stalled: ConditionValue | None = None
    suspended: ConditionValue | None = None
    rolled_out: bool = False
    recheck: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseFacts:
    """The input of the rows: status of the Flux objects, the desired release, the time, and the deadlines.

    `first` is True until the instance was ready once; `held` while other managers own fields of a child, so that its apply is held.
    `waiting_since` is the last change of the conditions of a running rollout; for a new rollout it is `now`.
    """

    release: FluxRelease | None
    sources: FluxSources
    desired: DesiredRelease
    values: ValuesFrom | None = None
    first: bool = True
    held: bool = False
    waiting_since: datetime | None = None
    now: datetime
    grace: timedelta
    stuck_after: timedelta

    @property
    def ready_reason(self) -> str:
        """Reason of Ready while a version is rolled out."""
        return Ready.INSTALLING if self.first else Ready.UPGRADING

    @property
    def reconciling_reason(self) -> str:
        """Reason of Reconciling while a version is rolled out."""
        return Reconciling.HELM_RELEASE_INSTALLING if self.first else Reconciling.HELM_RELEASE_UPGRADING

    @property
    def ready(self) -> Condition | None:
        """Flux's Ready for this generation."""
        return None if self.release is None else self.release.ready

    def ready_is(self, status: str, *reasons: str) -> bool:
        """Tell whether Flux's Ready has this status, and one of these reasons if any is given."""
        ready = self.ready
        return ready is not None and ready.status == status and (not reasons or ready.reason in reasons)

    def outcome(self, type_: str) -> Condition | None:
        """Return a condition of Flux about the result of the last attempt; None if that was not of the desired version."""
        return self.release.find(type_) if self.release is not None and self.has_attempted else None

    def outcome_is(self, type_: str, status: str, *reasons: str) -> bool:
        """Tell whether that condition has this status, and one of these reasons if any is given."""
        condition = self.outcome(type_)
        return condition is not None and condition.status == status and (not reasons or condition.reason in reasons)

    @property
    def held_back(self) -> bool:
        """Whether the apply of the present intent was held for a field conflict, and the intent never ran before."""
        return self.held and self.release is not None and self.release.rolled_out_intent != self.desired.intent

    @property
    def digest(self) -> str:
        """Digest of the desired version of an OCI chart in the registry; "" if unknown or irrelevant."""
        return "" if self.release is None else self.sources.digest(self.release, self.desired)

    @property
    def has_attempted(self) -> bool:
        """Whether Flux's last attempt was of the desired version as the source holds it."""
        return self.release is not None and self.release.has_attempted(self.desired, self.digest)

    @property
    def deployed(self) -> bool:
        """Whether the desired version is deployed as the source holds it."""
        return self.release is not None and self.release.deployed(self.desired, self.digest)

    @property
    def reported(self) -> bool:
        """Whether Flux's status is about the present spec of the release, whatever the source of its chart."""
        return self.release is not None and self.release.current(self.desired) and self.has_attempted

    @property
    def source_behind(self) -> bool:
        """Whether only the source is outstanding: Flux has not fetched from the URL of the intent."""
        release = self.release
        return release is not None and self.reported and not self.sources.fetched_desired(release, self.desired)

    @property
    def current(self) -> bool:
        """Whether Flux's status is about the present intent, its source included; never for an intent that was held."""
        return self.reported and not self.held_back and not self.source_behind

    @property
    def reconciling(self) -> bool:
        """Whether Flux reports Reconciling=True."""
        return self.release is not None and self.release.reconciling

    @property
    def waits_for_source(self) -> bool:
        """Whether the release reports that its chart is not available."""
        return self.ready_is("False", *_SOURCE_REASONS)

    @property
    def source_failure(self) -> SourceFailure | None:
        """The failure of the source, if the release waits for it, or runs another chart without reporting the failure."""
        release = self.release
        if release is None:
            return None
        elsewhere = self.source_behind or (self.sources.oci and not self.deployed)
        unseen = bool(self.sources.failing) and elsewhere
        return self.sources.source_failure(release, self.now) if self.waits_for_source or unseen else None

    @property
    def failure(self) -> Condition | None:
        """The condition with the cause of a failed release: Released if it is False, else Ready."""
        released = self.outcome(Flux.RELEASED)
        return released if released is not None and released.is_false else self.ready
