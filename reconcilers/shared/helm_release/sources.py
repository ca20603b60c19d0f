"""The sources of a release: why a chart cannot be fetched, since when, and whether the grace time has passed.

Rules (docs/reference/apps.md#translation): the grace time counts from the failure of the source, not from the release's Ready, whose
time restarts at each retry. The HelmChart has precedence over the HelmRepository. A missing source fails since the release reported it. A
failure within the grace time is not reported: at each version change a healthy source fails for up to half a second.

A new URL changes neither the generation nor the version of a release, so `fetched_desired` decides by the sources whether Flux has
fetched from it: their generation, the repository revision of the HelmChart, the digest of the tag. A mirror with the same content counts
as soon as it is fetched, since Flux upgrades nothing then.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from konverge.conditions import Condition
from konverge.reconcilers.shared.helm_release.freshness import DesiredRelease, FluxRelease, FluxSource, since
from konverge.reconcilers.shared.helm_release.redaction import without_queries

__all__ = ["FluxSources", "SourceFailure"]


@dataclass(frozen=True, slots=True)
class SourceFailure:
    """Why a chart cannot be fetched, since when, and Flux's Stalled if it gave up."""

    since: datetime
    message: str
    stalled: Condition | None = None

    def outlasted(self, now: datetime, grace: timedelta) -> bool:
        """Tell whether the grace time has passed."""
        return self._lasts(now) >= grace

    def grace_left(self, now: datetime, grace: timedelta) -> timedelta:
        """Return the rest of the grace time."""
        return max(grace - self._lasts(now), timedelta(0))

    def _lasts(self, now: datetime) -> timedelta:
        """Return the time since the failure; if it is ahead of us, clocks differ by that time, and to wait for it could take days."""
        return abs(now - self.since)


def _failure_message(source: FluxSource) -> str:
    why = without_queries(source.failed.message) if source.failed is not None else ""
    return f"{source.kind} {source.name}: {why or 'it does not say why'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FluxSources:
    """The sources of one release: for `helm` a chart and a repository, for `oci` only a repository."""

    oci: bool
    chart: FluxSource | None = None
    repository: FluxSource | None = None

    def unchanged(self, release: FluxRelease, desired: DesiredRelease) -> bool:
        """Tell whether the last rollout was from this fetch of this source.

        After a rollout, a suspended, unreachable or recreated source leaves the rollout current.
        """
        repository, noted = self.repository, release.rolled_out_source
        if repository is None:
            return False
        if not noted:  # rolled out by a version of konverge without this annotation
            return release.rolled_out_intent == desired.intent
        never_fetched = repository.observed in (None, -1)
        source, _, fetch_id = noted.partition("@")
        return source == desired.source and (never_fetched or fetch_id == repository.fetch_id)

    def fetched_desired(self, release: FluxRelease, desired: DesiredRelease) -> bool:
        """Tell whether Flux's artifact was fetched from the source of the intent."""
        repository, chart = self.repository, self.chart
        if self.unchanged(release, desired):
            return True
        if repository is None or not repository.fetched:
            return False
        if self.oci:
            return True
        return (
            chart is not None
            and chart.fetched
            and chart.failed is None
            and chart.repository_revision == repository.revision
        )

    def digest(self, release: FluxRelease, desired: DesiredRelease) -> str:
        """Return the digest of the desired version in the registry; "" if unknown or irrelevant."""
        repository = self.repository
        if not self.oci or repository is None or not repository.fetched or self.unchanged(release, desired):
            return ""
        return repository.digest

    @property
    def failing(self) -> tuple[FluxSource, ...]:
        """The sources that report a failure."""
        return tuple(
            source for source in (self.chart, self.repository) if source is not None and source.failed is not None
        )

    def source_failure(self, release: FluxRelease, now: datetime) -> SourceFailure | None:
        """Return why the chart cannot be fetched; None if no source reports a failure."""
        failing = self.failing
        if failing:
            first = failing[0]
            return SourceFailure(
                since=since(first.failed) or now,
                message="; ".join(_failure_message(source) for source in failing),
                stalled=next((source.stalled for source in failing if source.stalled is not None), None),
            )
        missing = self._missing()
        if missing:
            return SourceFailure(since=since(release.ready) or now, message=f"{missing} does not exist")
        return None

    def _missing(self) -> str:
        if self.repository is None:
            return "the OCIRepository" if self.oci else "the HelmRepository"
        if self.chart is None and not self.oci:
            return "the HelmChart that Flux makes for the release"
        return ""
