"""What a HelmRelease and its sources say, and which part of it is news of the present spec.

Promises: pure reading; a status that somebody mangled reads as absent, never as a crash. The rules (downstream.md 1.5): a condition
other than Reconciling counts only if its observedGeneration is the object's generation. The generation alone proves nothing:
Flux stamps it on a suspended release too, and editing `OCIRepository.spec.ref` or a Secret with values changes no generation at all.
So a release is `current` only if the attempt was of this generation, for OCI also of this version, and if no request of ours for new
values is still open.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from konverge.clock import from_rfc3339
from konverge.conditions import Condition
from konverge.objects import Object
from konverge.reconcilers.apps.versions import same
from konverge.reconcilers.apps.words import Annotation, Flux

__all__ = ["Release", "Source", "Wanted", "since"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the instance asks for: the chart version, where it comes from, and the digest of the whole intent.

    `token` is the state of the Secret or ConfigMap with the values, "" where the values are inline.
    """

    version: str
    oci: bool
    intent: str
    token: str = ""

    def is_version(self, reported: str) -> bool:
        """Tell whether a chart version that Flux reports is the wanted one."""
        return same(reported, self.version, ignore_build=self.oci)

    def is_noted_on(self, release: Object) -> bool:
        """Tell whether this very intent was rolled out once, and nothing else since."""
        return release.metadata.annotation(Annotation.INTENT_HASH) == self.intent


def since(condition: Condition | None) -> datetime | None:
    """Return when the condition last changed, None where nobody can tell."""
    if condition is None or condition.last_transition_time is None:
        return None
    try:
        return from_rfc3339(condition.last_transition_time)
    except ValueError:
        return None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _counting(what: Object, *, always: str) -> dict[str, Condition]:
    """Return the conditions that speak for the present generation, by type."""
    generation = what.metadata.generation
    return {
        condition.type: condition
        for condition in what.conditions
        if condition.type == always or condition.observed_generation == generation
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A HelmRelease as it matters to us. `conditions` are those that count."""

    generation: int
    observed: int | None
    attempted: int | None
    attempted_version: str
    suspended: bool
    deleting: bool
    silent: bool
    """Flux has not said anything about the object yet."""
    created: datetime | None
    requested: str
    handled: str
    settled_intent: str
    settled_generation: str
    latest_version: str
    latest_status: str
    conditions: Mapping[str, Condition]

    @classmethod
    def of(cls, release: Object) -> Release:
        """Read a HelmRelease, whoever wrote its status."""
        metadata, latest = release.metadata, release.get("status", "history", 0, default={})
        latest = latest if isinstance(latest, Mapping) else {}
        return cls(
            generation=metadata.generation,
            observed=_number(release.get("status", "observedGeneration")),
            attempted=_number(release.get("status", "lastAttemptedGeneration")),
            attempted_version=_text(release.get("status", "lastAttemptedRevision")),
            suspended=release.get("spec", "suspend") is True,
            deleting=metadata.deleting,
            silent=not release.conditions,
            created=metadata.created,
            requested=metadata.annotation(Flux.REQUESTED_AT),
            handled=_text(release.get("status", "lastHandledReconcileAt")),
            settled_intent=metadata.annotation(Annotation.INTENT_HASH),
            settled_generation=metadata.annotation(Annotation.APPLIED_GENERATION),
            latest_version=_text(latest.get("chartVersion")),
            latest_status=_text(latest.get("status")),
            conditions=_counting(release, always=Flux.RECONCILING),
        )

    def find(self, type_: str) -> Condition | None:
        """Return a condition that counts."""
        return self.conditions.get(type_)

    @property
    def ready(self) -> Condition | None:
        """Flux's Ready for this generation."""
        return self.find(Flux.READY)

    @property
    def reconciling(self) -> bool:
        """Whether Flux says that it is at work."""
        found = self.find(Flux.RECONCILING)
        return found is not None and found.is_true

    def asks_in_vain(self, wanted: Wanted) -> bool:
        """Tell whether new values were asked for and Flux has not come round to them.

        Values that were rolled out once do not get un-rolled by somebody else's later request.
        """
        return (
            bool(wanted.token)
            and self.settled_intent != wanted.intent
            and bool(self.requested)
            and self.handled != self.requested
        )

    def tried(self, wanted: Wanted) -> bool:
        """Tell whether Flux's last attempt was of the wanted version; only OCI sources can change it without a generation."""
        return not wanted.oci or wanted.is_version(self.attempted_version)

    def current(self, wanted: Wanted) -> bool:
        """Tell whether what Flux reports is about the present intent."""
        ready = self.ready
        stamped = self.observed == self.generation or ready is not None
        return (
            not self.suspended
            and self.attempted == self.generation
            and stamped
            and self.tried(wanted)
            and not self.asks_in_vain(wanted)
        )

    def settled(self, wanted: Wanted) -> bool:
        """Tell whether Flux is done with the present intent, well or not."""
        return self.current(wanted) and not self.reconciling

    def deployed(self, wanted: Wanted) -> bool:
        """Tell whether the newest entry of the release history is the wanted version, and deployed."""
        return self.latest_status == Flux.DEPLOYED and wanted.is_version(self.latest_version)

    def outcome(self, type_: str, wanted: Wanted) -> Condition | None:
        """Return a condition that reports how an attempt ended, None where that attempt was of another version."""
        return self.find(type_) if self.tried(wanted) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A HelmChart, HelmRepository or OCIRepository as it matters to us."""

    kind: str
    name: str
    failed: Condition | None
    """Why there is no artifact of this generation, None where nothing failed."""
    stalled: Condition | None

    @classmethod
    def of(cls, source: Object) -> Source:
        """Read a source."""
        conditions = _counting(source, always="")
        failures = (conditions.get(type_) for type_ in (Flux.FETCH_FAILED, Flux.BUILD_FAILED, Flux.STORAGE_FAILED))
        stalled = conditions.get(Flux.STALLED)
        return cls(
            kind=source.kind_name,
            name=source.name,
            failed=next((failure for failure in failures if failure is not None and failure.is_true), None),
            stalled=stalled if stalled is not None and stalled.is_true else None,
        )
