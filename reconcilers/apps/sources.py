"""Why a chart cannot be had, since when, and whether that has lasted long enough to say so.

Rules (downstream.md 1.7): the grace time counts from the failure of the source, not from the release's Ready, which starts again at
each retry. The HelmChart is asked before the HelmRepository. A source that is missing altogether fails since the release
complained about it. During the grace time nothing is wrong: at each version change a healthy source flickers for up to half a second.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from konverge.conditions import Condition
from konverge.reconcilers.apps.freshness import Release, Source, since

__all__ = ["Sources", "Trouble"]


@dataclass(frozen=True, slots=True)
class Trouble:
    """A chart that cannot be had: since when, why, and Flux's own Stalled where it gave up."""

    since: datetime
    message: str
    stalled: Condition | None = None

    def lasted(self, now: datetime, grace: timedelta) -> bool:
        """Tell whether the grace time is over."""
        return now - self.since >= grace

    def rest(self, now: datetime, grace: timedelta) -> timedelta:
        """Return how much of the grace time is left."""
        return max(self.since + grace - now, timedelta(0))


def _said(source: Source) -> str:
    why = source.failed.message if source.failed is not None else ""
    return f"{source.kind} {source.name}: {why or 'it does not say why'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The sources of one release: for `helm` a chart and a repository, for `oci` a repository alone."""

    oci: bool
    chart: Source | None = None
    repository: Source | None = None

    def trouble(self, release: Release, now: datetime) -> Trouble | None:
        """Return why the chart cannot be had; None where no source says that anything is wrong."""
        failing = [
            source for source in (self.chart, self.repository) if source is not None and source.failed is not None
        ]
        if failing:
            first = failing[0]
            return Trouble(
                since=since(first.failed) or now,
                message="; ".join(_said(source) for source in failing),
                stalled=next((source.stalled for source in failing if source.stalled is not None), None),
            )
        missing = self._missing()
        if missing:
            return Trouble(since=since(release.ready) or now, message=f"{missing} does not exist")
        return None

    def _missing(self) -> str:
        if self.repository is None:
            return "the OCIRepository" if self.oci else "the HelmRepository"
        if self.chart is None and not self.oci:
            return "the HelmChart that Flux makes for the release"
        return ""
