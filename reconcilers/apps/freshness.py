"""What a HelmRelease and its sources say, and which part of it is news of the present spec.

Promises: pure reading; a status that somebody mangled reads as absent, never as a crash. The rules (docs/reference/flux.md#freshness): a
condition other than Reconciling counts only if its observedGeneration is the object's generation. The generation alone proves nothing:
Flux stamps it on a suspended release too, and editing `OCIRepository.spec.ref` or a Secret with values changes no generation at all. So a
release is `current` only if the attempt was of this generation, for OCI also of this version, and if no request of ours for new values is
still open. Nor does another URL of the source change the release: whether Flux has fetched from it is seen on the source alone
(`Source.fetched`), and for OCI by the digest of what was attempted and deployed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from konverge.clock import from_rfc3339
from konverge.conditions import Condition, find_condition
from konverge.objects import Object
from konverge.reconcilers.apps.versions import same
from konverge.reconcilers.apps.words import Annotation, Flux

__all__ = ["Release", "Source", "Wanted", "since", "time_of"]

_SANE: Final = (1970, 9000)
"""Years of a status that others can write; durations are added to its times."""
_OF_A_DIGEST: Final = re.compile(r"[0-9a-f]{12}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the instance asks for: the chart version, where it comes from, and the digest of the whole intent.

    `source` is the digest of where the chart comes from alone. `token` is the state of the Secret or ConfigMap with the values, "" where
    the values are inline.
    """

    version: str
    oci: bool
    intent: str
    source: str = ""
    token: str = ""

    def is_version(self, reported: str) -> bool:
        """Tell whether a chart version that Flux reports is the wanted one."""
        return same(reported, self.version, ignore_build=self.oci)

    def is_noted_on(self, release: Object) -> bool:
        """Tell whether this very intent was rolled out once, and nothing else since."""
        return release.metadata.annotation(Annotation.INTENT_HASH) == self.intent


def since(condition: Condition | None) -> datetime | None:
    """Return when the condition last changed, None where nobody can tell."""
    return None if condition is None else time_of(condition.last_transition_time)


def time_of(text: str | None) -> datetime | None:
    """Return the moment that a status names, None where it names none, or one with which no time can be reckoned."""
    if text is None:
        return None
    try:
        moment = from_rfc3339(text)
    except (ValueError, OverflowError):
        return None
    return moment if _SANE[0] <= moment.year < _SANE[1] else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _build(version: str) -> str:
    """Return the build metadata of a chart version where it is one that Flux made of a digest, else ""."""
    build = version.partition("+")[2]
    return build if _OF_A_DIGEST.fullmatch(build) else ""


def _is_of(digest: str, evidence: str) -> bool:
    """Tell whether what Flux reports of a chart is of this digest; no evidence speaks against it."""
    if not digest or not evidence:
        return True
    return evidence == digest if ":" in evidence else digest.partition(":")[2].startswith(evidence)


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
    settled_source: str
    attempted_digest: str
    latest_version: str
    latest_status: str
    latest_digest: str
    ready_before: Condition | None
    """Flux's Ready, of whatever generation: what a suspended release was when Flux last looked."""
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
            settled_source=metadata.annotation(Annotation.APPLIED_SOURCE),
            attempted_digest=_text(release.get("status", "lastAttemptedRevisionDigest")),
            latest_version=_text(latest.get("chartVersion")),
            latest_status=_text(latest.get("status")),
            latest_digest=_text(latest.get("ociDigest")),
            ready_before=find_condition(release.conditions, Flux.READY),
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

    def tried(self, wanted: Wanted, digest: str = "") -> bool:
        """Tell whether Flux's last attempt was of the wanted version; only OCI sources can change it without a generation.

        `digest` is what that version came to in the registry, "" where that does not matter or is not known.
        """
        return not wanted.oci or (
            wanted.is_version(self.attempted_version)
            and _is_of(digest, self.attempted_digest or _build(self.attempted_version))
        )

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

    def deployed(self, wanted: Wanted, digest: str = "") -> bool:
        """Tell whether the newest entry of the release history is the wanted version, and deployed."""
        return (
            self.latest_status == Flux.DEPLOYED
            and wanted.is_version(self.latest_version)
            and _is_of(digest, self.latest_digest or _build(self.latest_version))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A HelmChart, HelmRepository or OCIRepository as it matters to us."""

    kind: str
    name: str
    uid: str
    generation: int
    observed: int | None
    """The generation of the last fetch that succeeded, or of which Flux gave up."""
    revision: str
    """Revision of the artifact in store, which may be an older one's; "" where there is none."""
    made_of: str
    """Of a HelmChart: the revision of the repository that it was last looked for in."""
    failed: Condition | None
    """Why there is no artifact of this generation, None where nothing failed."""
    stalled: Condition | None

    @property
    def fetched(self) -> bool:
        """Whether the artifact in store was fetched as the present spec says, from the present URL."""
        return self.observed == self.generation and bool(self.revision) and self.stalled is None

    @property
    def mark(self) -> str:
        """Which fetch the artifact in store is of: notes on a release name it."""
        return f"{self.uid}/{self.observed}"

    @property
    def digest(self) -> str:
        """Of an OCIRepository: the digest in the revision `tag@sha256:digest`."""
        return self.revision.rpartition("@")[2] if "@" in self.revision else ""

    @classmethod
    def of(cls, source: Object) -> Source:
        """Read a source."""
        conditions = _counting(source, always="")
        failures = (conditions.get(type_) for type_ in (Flux.FETCH_FAILED, Flux.BUILD_FAILED, Flux.STORAGE_FAILED))
        stalled = conditions.get(Flux.STALLED)
        return cls(
            kind=source.kind_name,
            name=source.name,
            uid=source.metadata.uid,
            generation=source.metadata.generation,
            observed=_number(source.get("status", "observedGeneration")),
            revision=_text(source.get("status", "artifact", "revision")),
            made_of=_text(source.get("status", "observedSourceArtifactRevision")),
            failed=next((failure for failure in failures if failure is not None and failure.is_true), None),
            stalled=stalled if stalled is not None and stalled.is_true else None,
        )
