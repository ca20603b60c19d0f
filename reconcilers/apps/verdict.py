"""What a row of the translation says, and what it says it about."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from konverge.conditions import Condition
from konverge.reconcilers.apps.freshness import Release, Wanted
from konverge.reconcilers.apps.sources import Sources, Trouble
from konverge.reconcilers.apps.values import ValuesFrom
from konverge.reconcilers.apps.words import Flux, Ready, Reconciling

__all__ = ["Facts", "Say", "Verdict"]

_SOURCE_REASONS = frozenset({Flux.SOURCE_NOT_READY, Flux.ARTIFACT_FAILED})


@dataclass(frozen=True, slots=True)
class Say:
    """One condition's new value; `status` None is Unknown."""

    status: bool | None
    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the conditions become. None keeps Ready, Reconciling or Degraded as they are; Stalled None removes it.

    `rolled_out` tells that the present intent runs; `recheck` when time alone can change the verdict.
    """

    row: str
    ready: Say | None = None
    reconciling: Say | None = None
    degraded: Say | None = None
    stalled: Say | None = None
    suspended: Say | None = None
    rolled_out: bool = False
    recheck: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything that the rows may look at: what Flux says, what is wanted, the time, and the times allowed.

    `first` is True until the instance was ready once; `held` while fields of ours are others' and nothing is sent.
    """

    release: Release | None
    sources: Sources
    wanted: Wanted
    values: ValuesFrom | None = None
    first: bool = True
    held: bool = False
    now: datetime
    grace: timedelta
    stuck_after: timedelta

    @property
    def phase(self) -> str:
        """Reason of Ready while a version is rolled out."""
        return Ready.INSTALLING if self.first else Ready.UPGRADING

    @property
    def motion(self) -> str:
        """Reason of Reconciling while a version is rolled out."""
        return Reconciling.HELM_RELEASE_INSTALLING if self.first else Reconciling.HELM_RELEASE_UPGRADING

    @property
    def ready(self) -> Condition | None:
        """Flux's Ready for this generation."""
        return None if self.release is None else self.release.ready

    def ready_is(self, status: str, *reasons: str) -> bool:
        """Tell whether Flux's Ready has this status, and one of these reasons where any is given."""
        ready = self.ready
        return ready is not None and ready.status == status and (not reasons or ready.reason in reasons)

    def outcome(self, type_: str) -> Condition | None:
        """Return the condition in which Flux reports how an attempt at the wanted version ended."""
        return None if self.release is None else self.release.outcome(type_, self.wanted)

    def outcome_is(self, type_: str, status: str, *reasons: str) -> bool:
        """Tell whether that condition has this status, and one of these reasons where any is given."""
        found = self.outcome(type_)
        return found is not None and found.status == status and (not reasons or found.reason in reasons)

    @property
    def current(self) -> bool:
        """Whether Flux reports on the present intent. A held intent that never ran was not sent: nobody reports on it."""
        release = self.release
        if release is None or (self.held and release.settled_intent != self.wanted.intent):
            return False
        return release.current(self.wanted)

    @property
    def reconciling(self) -> bool:
        """Whether Flux says that it is at work."""
        return self.release is not None and self.release.reconciling

    @property
    def waits_for_source(self) -> bool:
        """Whether the release says that its chart is not there."""
        return self.ready_is("False", *_SOURCE_REASONS)

    @property
    def trouble(self) -> Trouble | None:
        """What is wrong with the source, where that matters: the release waits for it, or (oci) runs another version meanwhile."""
        release, repository = self.release, self.sources.repository
        if release is None:
            return None
        unseen = (
            self.sources.oci
            and repository is not None
            and repository.failed is not None
            and not release.deployed(self.wanted)
        )
        return self.sources.trouble(release, self.now) if self.waits_for_source or unseen else None

    @property
    def failure(self) -> Condition | None:
        """The condition that says why the release failed: Released where it failed, else what Ready says."""
        released = self.outcome(Flux.RELEASED)
        return released if released is not None and released.is_false else self.ready
