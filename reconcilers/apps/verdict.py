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

    `first` is True until the instance was ready once; `held` while fields of ours are others' and nothing is sent. `waiting_since` is the
    moment since which the instance has said the same about a rollout that goes on, now where it goes on only now.
    """

    release: Release | None
    sources: Sources
    wanted: Wanted
    values: ValuesFrom | None = None
    first: bool = True
    held: bool = False
    waiting_since: datetime | None = None
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
        return self.release.find(type_) if self.release is not None and self.tried else None

    def outcome_is(self, type_: str, status: str, *reasons: str) -> bool:
        """Tell whether that condition has this status, and one of these reasons where any is given."""
        found = self.outcome(type_)
        return found is not None and found.status == status and (not reasons or found.reason in reasons)

    @property
    def held_back(self) -> bool:
        """Whether the present intent was not sent, because fields of ours are others', and never ran before."""
        return self.held and self.release is not None and self.release.settled_intent != self.wanted.intent

    @property
    def digest(self) -> str:
        """What the wanted version of an OCI chart came to, "" where that is not known or does not matter."""
        return "" if self.release is None else self.sources.digest(self.release, self.wanted)

    @property
    def tried(self) -> bool:
        """Whether Flux's last attempt was of what the source holds of the wanted version."""
        return self.release is not None and self.release.tried(self.wanted, self.digest)

    @property
    def deployed(self) -> bool:
        """Whether what the source holds of the wanted version is deployed."""
        return self.release is not None and self.release.deployed(self.wanted, self.digest)

    @property
    def reported(self) -> bool:
        """Whether Flux reports on the release as it stands, wherever its chart came from."""
        return self.release is not None and self.release.current(self.wanted) and self.tried

    @property
    def source_behind(self) -> bool:
        """Whether the release is done but for its source: Flux has not fetched from where the intent says."""
        release = self.release
        return release is not None and self.reported and not self.sources.hold(release, self.wanted)

    @property
    def current(self) -> bool:
        """Whether Flux reports on the present intent, its source included. Of what was not sent it does not."""
        return self.reported and not self.held_back and not self.source_behind

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
        """What is wrong with the source, where that matters: the release waits for it, or runs another chart meanwhile unaware of it."""
        release = self.release
        if release is None:
            return None
        elsewhere = self.source_behind or (self.sources.oci and not self.deployed)
        unseen = bool(self.sources.failing) and elsewhere
        return self.sources.trouble(release, self.now) if self.waits_for_source or unseen else None

    @property
    def failure(self) -> Condition | None:
        """The condition that says why the release failed: Released where it failed, else what Ready says."""
        released = self.outcome(Flux.RELEASED)
        return released if released is not None and released.is_false else self.ready
