"""The origin of the chart that runs: the URL that Flux fetched it from, and whether Flux deployed the content that it fetched last.

source-controller does not pull a chart of a Helm repository again if name and version are unchanged (`generateBuildResult` in
internal/helm/chart/builder_remote.go), and helm-controller upgrades only if the chart's metadata differ (`VerifyRelease` in
internal/release/digest.go). So after a change of the URL the former content can run although every object of Flux is Ready. The digest of
the stored chart, the times of both artifacts, and the number of the Helm release show it; an annotation on the HelmRelease keeps them.
An OCI chart has no such gap: Flux resolves the digest of the tag at each URL.

Guarantees: pure. An artifact without a digest is not recorded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Self

from konverge.fields import digest
from konverge.objects import Object
from konverge.reconcilers.apps import messages
from konverge.reconcilers.apps.words import Annotation, Ready
from konverge.reconcilers.shared.helm_release.facts import ConditionValue, Translation
from konverge.reconcilers.shared.helm_release.freshness import time_of

__all__ = ["ChartOrigin", "OriginReport", "origin_of", "with_origin"]

_PARTS: Final = 5
_NUMBER: Final = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class ChartOrigin:
    """The chart of a rollout: its source, a digest of the URL, the digest of the content, the number of the Helm release, the index.

    >>> ChartOrigin.read(str(ChartOrigin("HelmRepository", "url", "sha256:ab", 3, "sha256:cd")))
    ChartOrigin(kind='HelmRepository', location='url', content='sha256:ab', number=3, index='sha256:cd')
    """

    kind: str
    location: str
    content: str
    number: int
    index: str
    """The revision of the repository's index at the record, "" for an OCI chart. Later indexes of the same URL are not recorded."""

    def __str__(self) -> str:
        return f"{self.kind}/{self.location}/{self.content}/{self.number}/{self.index}"

    @classmethod
    def read(cls, text: str) -> Self | None:
        """Parse the annotation; None if it is absent or malformed."""
        parts = text.split("/")
        if len(parts) != _PARTS or not parts[2] or not _NUMBER.fullmatch(parts[3]):
            return None
        return cls(parts[0], parts[1], parts[2], int(parts[3]), parts[4])


@dataclass(frozen=True, slots=True)
class OriginReport:
    """The record of a rollout, and the warning for Ready: "" if the content that runs was fetched from the present URL."""

    record: ChartOrigin | None = None
    warning: str = ""

    @property
    def annotations(self) -> Mapping[str, str]:
        """The annotation that records the chart."""
        return {} if self.record is None else {Annotation.CHART_DIGEST: str(self.record)}


def origin_of(
    release: Object | None, source: Object | None, chart: Object | None, *, oci: bool, former: str = ""
) -> OriginReport:
    """Return the origin of the chart that runs; `former` is the URL that the last rollout was fetched from."""
    if release is None or source is None:
        return OriginReport()
    noted = ChartOrigin.read(release.metadata.annotation(Annotation.CHART_DIGEST))
    location = digest(source.spec.get("url"))
    present = _chart_in_store(release, source, source if oci else chart, location)
    if noted is None:
        return OriginReport(present)
    if present is not None and noted.content != present.content:
        deployed = noted.number != present.number or _deployed_after(release, source if oci else chart)
        return OriginReport(present) if deployed else OriginReport(noted, messages.not_deployed_again(release.name))
    if (noted.kind, noted.location) == (source.kind_name, location):
        return OriginReport(noted if present is None else replace(present, index=noted.index))
    if oci or noted.kind != source.kind_name or _index_of(source) == noted.index or _fetched_after(chart, source):
        return OriginReport(present)
    kept = noted if present is None else replace(noted, number=present.number)
    return OriginReport(kept, messages.not_fetched_again(former, f"{release.namespace}-{release.name}"))


def _chart_in_store(release: Object, source: Object, artifact: Object | None, location: str) -> ChartOrigin | None:
    """Return the chart that Flux has in store; None without an artifact, before the first release, or if it is not the release's chart.

    The caches of chart and release are not from the same moment: a former chart beside a new release would be recorded as its content.
    """
    content = None if artifact is None else artifact.get("status", "artifact", "digest")
    number = release.get("status", "history", 0, "version")
    if artifact is None or not isinstance(content, str) or not content or not isinstance(number, int):
        return None
    if not _is_of_release(artifact, release, oci=artifact is source):
        return None
    return ChartOrigin(source.kind_name, location, content, number, "" if artifact is source else _index_of(source))


def _is_of_release(artifact: Object, release: Object, *, oci: bool) -> bool:
    """Whether the revision of an artifact can be the last release's revision; True if Flux names none of them."""
    revision = artifact.get("status", "artifact", "revision")
    wanted = release.get("status", "history", 0, "ociDigest" if oci else "chartVersion")
    if not isinstance(revision, str) or not revision or not isinstance(wanted, str) or not wanted:
        return True
    return revision.rpartition("@")[2] == wanted if oci else revision == wanted


def _deployed_after(release: Object, artifact: Object | None) -> bool:
    """Whether Flux deployed the last release after it had stored an artifact, and so with this artifact."""
    text = release.get("status", "history", 0, "lastDeployed")
    deployed, stored = time_of(text) if isinstance(text, str) else None, _fetch_time(artifact)
    return deployed is not None and stored is not None and deployed > stored


def _index_of(repository: Object) -> str:
    revision = repository.get("status", "artifact", "revision")
    return revision if isinstance(revision, str) else ""


def _fetched_after(chart: Object | None, repository: Object) -> bool:
    """Tell whether the chart was fetched after the repository's index, which Flux stores only if it differs from the former index.

    Times of one second do not show the order.
    """
    times = _fetch_time(chart), _fetch_time(repository)
    return times[0] is not None and times[1] is not None and times[0] > times[1]


def _fetch_time(source: Object | None) -> datetime | None:
    text = None if source is None else source.get("status", "artifact", "lastUpdateTime")
    return time_of(text) if isinstance(text, str) else None


def with_origin(translation: Translation, origin: OriginReport) -> Translation:
    """Add the warning to a Ready that is True: the release works, but its content may not be what the URL offers."""
    ready = translation.ready
    if not origin.warning or ready is None or ready.status is not True:
        return translation
    message = f"{ready.message}, but {origin.warning}"
    return replace(translation, ready=ConditionValue(True, Ready.HELM_RELEASE_READY_WITH_WARNINGS, message))
