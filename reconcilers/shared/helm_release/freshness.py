"""The status of a HelmRelease and its sources, and the part of it that concerns the present spec.

Guarantees: pure; a malformed field of a status reads as absent. The rules (docs/reference/flux.md#freshness): a condition other than
Reconciling counts only if its observedGeneration is the object's generation. The generation is not enough: Flux writes it on a suspended
release too, and editing `OCIRepository.spec.ref` or a Secret with values changes no generation at all. So a release is `current` only if
the attempt was of this generation, for OCI also of this version, and if Flux has handled the family's last request for new values. Another
URL of the source does not change the release either: only the source shows whether Flux has fetched from it (`FluxSource.fetched`), and for
OCI the digests of the attempted and the deployed chart.
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
from konverge.reconcilers.shared.helm_release.versions import same
from konverge.reconcilers.shared.helm_release.words import Flux, ReleaseAnnotation

__all__ = ["FluxRelease", "FluxSource", "DesiredRelease", "since", "time_of"]

_SANE: Final = (1970, 9000)
"""Accepted years of times in a status that other programs write: durations are added to them."""
_OF_A_DIGEST: Final = re.compile(r"[0-9a-f]{12}")


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredRelease:
    """The desired state of a release: its chart version, its kind of source, and the digest of the whole intent.

    `source` is only the digest of the source. `token` is the state of the Secret or ConfigMap with the values, "" for inline values.
    """

    version: str
    oci: bool
    intent: str
    source: str = ""
    token: str = ""

    def is_version(self, reported: str) -> bool:
        """Tell whether a chart version that Flux reports is the desired version."""
        return same(reported, self.version, ignore_build=self.oci)

    def is_rolled_out_on(self, release: Object) -> bool:
        """Tell whether this intent was the last that was rolled out."""
        return release.metadata.annotation(ReleaseAnnotation.INTENT_HASH) == self.intent


def since(condition: Condition | None) -> datetime | None:
    """Return when the condition last changed, None if unknown."""
    return None if condition is None else time_of(condition.last_transition_time)


def time_of(text: str | None) -> datetime | None:
    """Parse a time of a status; None if absent, malformed, or out of the accepted years."""
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
    """Return the build metadata of a chart version if Flux derived it from a digest, else ""."""
    build = version.partition("+")[2]
    return build if _OF_A_DIGEST.fullmatch(build) else ""


def _is_of(digest: str, evidence: str) -> bool:
    """Tell whether the digest that Flux reports of a chart can equal this digest; True if either is unknown."""
    if not digest or not evidence:
        return True
    return evidence == digest if ":" in evidence else digest.partition(":")[2].startswith(evidence)


def _current_conditions(what: Object, *, always: str) -> dict[str, Condition]:
    """Return the conditions of the present generation, by type."""
    generation = what.metadata.generation
    return {
        condition.type: condition
        for condition in what.conditions
        if condition.type == always or condition.observed_generation == generation
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class FluxRelease:
    """The fields of a HelmRelease that the translation uses. `conditions` are the conditions of the present generation."""

    generation: int
    observed: int | None
    attempted: int | None
    attempted_version: str
    suspended: bool
    deleting: bool
    unreported: bool
    """Flux has not set any condition yet."""
    created: datetime | None
    requested: str
    handled: str
    rolled_out_intent: str
    rolled_out_generation: str
    rolled_out_source: str
    attempted_digest: str
    latest_version: str
    latest_status: str
    latest_digest: str
    last_ready: Condition | None
    """Flux's Ready of any generation: the state of a suspended release when Flux last reconciled it."""
    conditions: Mapping[str, Condition]

    @classmethod
    def of(cls, release: Object) -> FluxRelease:
        """Read a HelmRelease; malformed fields of its status read as absent."""
        metadata, latest = release.metadata, release.get("status", "history", 0, default={})
        latest = latest if isinstance(latest, Mapping) else {}
        return cls(
            generation=metadata.generation,
            observed=_number(release.get("status", "observedGeneration")),
            attempted=_number(release.get("status", "lastAttemptedGeneration")),
            attempted_version=_text(release.get("status", "lastAttemptedRevision")),
            suspended=release.get("spec", "suspend") is True,
            deleting=metadata.deleting,
            unreported=not release.conditions,
            created=metadata.created,
            requested=metadata.annotation(Flux.REQUESTED_AT),
            handled=_text(release.get("status", "lastHandledReconcileAt")),
            rolled_out_intent=metadata.annotation(ReleaseAnnotation.INTENT_HASH),
            rolled_out_generation=metadata.annotation(ReleaseAnnotation.APPLIED_GENERATION),
            rolled_out_source=metadata.annotation(ReleaseAnnotation.APPLIED_SOURCE),
            attempted_digest=_text(release.get("status", "lastAttemptedRevisionDigest")),
            latest_version=_text(latest.get("chartVersion")),
            latest_status=_text(latest.get("status")),
            latest_digest=_text(latest.get("ociDigest")),
            last_ready=find_condition(release.conditions, Flux.READY),
            conditions=_current_conditions(release, always=Flux.RECONCILING),
        )

    def find(self, type_: str) -> Condition | None:
        """Return a condition of the present generation."""
        return self.conditions.get(type_)

    @property
    def ready(self) -> Condition | None:
        """Flux's Ready for this generation."""
        return self.find(Flux.READY)

    @property
    def reconciling(self) -> bool:
        """Whether Flux reports Reconciling=True."""
        condition = self.find(Flux.RECONCILING)
        return condition is not None and condition.is_true

    def request_pending(self, desired: DesiredRelease) -> bool:
        """Tell whether a request for new values is still unhandled.

        A later request of another program does not make values outdated that were rolled out.
        """
        return (
            bool(desired.token)
            and self.rolled_out_intent != desired.intent
            and bool(self.requested)
            and self.handled != self.requested
        )

    def has_attempted(self, desired: DesiredRelease, digest: str = "") -> bool:
        """Tell whether Flux's last attempt was of the desired version; only OCI sources can change it without a generation.

        `digest` is the digest of the version in the registry, "" if unknown or irrelevant.
        """
        return not desired.oci or (
            desired.is_version(self.attempted_version)
            and _is_of(digest, self.attempted_digest or _build(self.attempted_version))
        )

    def current(self, desired: DesiredRelease) -> bool:
        """Tell whether Flux's status is about the present intent."""
        ready = self.ready
        stamped = self.observed == self.generation or ready is not None
        return (
            not self.suspended
            and self.attempted == self.generation
            and stamped
            and self.has_attempted(desired)
            and not self.request_pending(desired)
        )

    def settled(self, desired: DesiredRelease) -> bool:
        """Tell whether Flux has finished the present intent, successfully or not."""
        return self.current(desired) and not self.reconciling

    def deployed(self, desired: DesiredRelease, digest: str = "") -> bool:
        """Tell whether the newest entry of the release history is the desired version, and deployed."""
        return (
            self.latest_status == Flux.DEPLOYED
            and desired.is_version(self.latest_version)
            and _is_of(digest, self.latest_digest or _build(self.latest_version))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FluxSource:
    """The fields of a HelmChart, HelmRepository or OCIRepository that the translation uses."""

    kind: str
    name: str
    uid: str
    generation: int
    observed: int | None
    """The generation of the last fetch that succeeded, or that Flux gave up on."""
    revision: str
    """Revision of the stored artifact, possibly of an older generation; "" without an artifact."""
    repository_revision: str
    """Of a HelmChart: the repository revision of the last look-up."""
    failed: Condition | None
    """Why the artifact of this generation is missing, None without a failure."""
    stalled: Condition | None

    @property
    def fetched(self) -> bool:
        """Whether the stored artifact was fetched for the present spec, from the present URL."""
        return self.observed == self.generation and bool(self.revision) and self.stalled is None

    @property
    def fetch_id(self) -> str:
        """The identity of the fetch of the stored artifact, as annotations on a release name it."""
        return f"{self.uid}/{self.observed}"

    @property
    def digest(self) -> str:
        """Of an OCIRepository: the digest in the revision `tag@sha256:digest`."""
        return self.revision.rpartition("@")[2] if "@" in self.revision else ""

    @classmethod
    def of(cls, source: Object) -> FluxSource:
        """Read a source."""
        conditions = _current_conditions(source, always="")
        failures = (conditions.get(type_) for type_ in (Flux.FETCH_FAILED, Flux.BUILD_FAILED, Flux.STORAGE_FAILED))
        stalled = conditions.get(Flux.STALLED)
        return cls(
            kind=source.kind_name,
            name=source.name,
            uid=source.metadata.uid,
            generation=source.metadata.generation,
            observed=_number(source.get("status", "observedGeneration")),
            revision=_text(source.get("status", "artifact", "revision")),
            repository_revision=_text(source.get("status", "observedSourceArtifactRevision")),
            failed=next((failure for failure in failures if failure is not None and failure.is_true), None),
            stalled=stalled if stalled is not None and stalled.is_true else None,
        )
