"""Why a chart cannot be had, since when, and whether that has lasted long enough to say so.

Rules (docs/reference/apps.md#translation): the grace time counts from the failure of the source, not from the release's Ready, which
starts again at each retry. The HelmChart is asked before the HelmRepository. A source that is missing altogether fails since the release
complained about it. During the grace time nothing is wrong: at each version change a healthy source flickers for up to half a second.

A new URL changes neither the generation nor the version of a release, so `hold` tells by the sources themselves whether Flux has fetched
from it: their generation, the revision that the HelmChart was made of, the digest that the tag came to. A mirror with the same
content counts as soon as it was fetched, since Flux upgrades nothing then.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from konverge.conditions import Condition
from konverge.reconcilers.apps.causes import without_queries
from konverge.reconcilers.apps.freshness import Release, Source, Wanted, since

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
    why = without_queries(source.failed.message) if source.failed is not None else ""
    return f"{source.kind} {source.name}: {why or 'it does not say why'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The sources of one release: for `helm` a chart and a repository, for `oci` a repository alone."""

    oci: bool
    chart: Source | None = None
    repository: Source | None = None

    def unchanged(self, release: Release, wanted: Wanted) -> bool:
        """Tell whether this very source was rolled out from, and has fetched nothing else since.

        A source that is suspended, unreachable, or was made anew does not make what runs untrue.
        """
        repository, noted = self.repository, release.settled_source
        if repository is None:
            return False
        if not noted:  # by a version of konverge that did not note it
            return release.settled_intent == wanted.intent
        never_fetched = repository.observed in (None, -1)
        source, _, mark = noted.partition("@")
        return source == wanted.source and (never_fetched or mark == repository.mark)

    def hold(self, release: Release, wanted: Wanted) -> bool:
        """Tell whether what Flux has in store was fetched from where the intent says."""
        repository, chart = self.repository, self.chart
        if self.unchanged(release, wanted):
            return True
        if repository is None or not repository.fetched:
            return False
        if self.oci:
            return True
        return chart is not None and chart.fetched and chart.failed is None and chart.made_of == repository.revision

    def digest(self, release: Release, wanted: Wanted) -> str:
        """Return the digest that the wanted version came to; "" where it is not known, or does not matter any more."""
        repository = self.repository
        if not self.oci or repository is None or not repository.fetched or self.unchanged(release, wanted):
            return ""
        return repository.digest

    @property
    def failing(self) -> tuple[Source, ...]:
        """The sources that say that something is wrong."""
        return tuple(
            source for source in (self.chart, self.repository) if source is not None and source.failed is not None
        )

    def trouble(self, release: Release, now: datetime) -> Trouble | None:
        """Return why the chart cannot be had; None where no source says that anything is wrong."""
        failing = self.failing
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
