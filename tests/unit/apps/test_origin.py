"""The running content is from the current URL, or Ready has a warning."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from konverge.objects import Object
from konverge.reconcilers.apps.origin import ChartOrigin, OriginReport, origin_of, with_origin
from konverge.reconcilers.shared.helm_release.facts import ConditionValue, Translation

OLD, NEW = "sha256:" + "a" * 64, "sha256:" + "b" * 64
CHART_DIGEST = "vworkspace.io/applied-chart-digest"
UNFETCHED, UNDEPLOYED = "has not fetched the chart again", "has not deployed it"


@dataclass(frozen=True)
class Flux:
    """Flux's objects at rest, with a chart that was fetched at second 10 from the first URL."""

    kind: str = "HelmRepository"
    url: str = "https://first.example.com"
    index: str = "sha256:first"
    index_time: int = 5
    content: str | None = OLD
    chart_time: int = 10
    number: int | None = 1
    notes: dict[str, str] = field(default_factory=dict)
    revision: str = ""
    deployed: dict[str, str] = field(default_factory=dict)

    def origin(self) -> OriginReport:
        artifact = {"digest": self.content, "lastUpdateTime": time(self.chart_time), "revision": self.revision}
        index = {"revision": self.index, "lastUpdateTime": time(self.index_time)}
        oci = self.kind == "OCIRepository"
        release = flux_object(
            "HelmRelease", {"history": [{"version": self.number, **self.deployed}]}, annotations=self.notes
        )
        source = flux_object(self.kind, {"artifact": artifact if oci else index}, spec={"url": self.url})
        chart = None if oci or self.content is None else flux_object("HelmChart", {"artifact": artifact})
        return origin_of(release, source, chart, oci=oci, former="https://user:pw@first.example.com?token=t")

    def then(self, **changes: Any) -> Flux:
        """The next state, after konverge has recorded this state."""
        return replace(self, notes={**self.notes, **self.origin().annotations}, **changes)


def time(second: int) -> str:
    return f"2030-01-01T00:00:{second:02}Z"


def flux_object(kind: str, status: dict[str, Any], **parts: Any) -> Object:
    metadata = {"name": "shop", "namespace": "team", "annotations": parts.get("annotations", {})}
    data = {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": parts.get("spec", {}), "status": status}
    return Object(data)


HELM = Flux()
AT_1 = Flux(revision="1.0.0", deployed={"chartVersion": "1.0.0"})
OCI_AT_1 = Flux(
    kind="OCIRepository",
    url="oci://first.example.com/shop",
    revision="latest@sha256:aa",
    deployed={"chartVersion": "1.0.0+aa", "ociDigest": "sha256:aa"},
)
OCI = Flux(kind="OCIRepository", url="oci://first.example.com/shop")
MOVED: dict[str, Any] = {"url": "https://second.example.com", "index": "sha256:second", "index_time": 20}
TO_OCI: dict[str, Any] = {"kind": "OCIRepository", "url": "oci://first.example.com/shop"}


@pytest.mark.parametrize(
    ("flux", "warning"),
    [
        (HELM, ""),
        (HELM.then(index="sha256:newer", index_time=20), ""),
        (HELM.then(chart_time=30), ""),
        (HELM.then(**MOVED), UNFETCHED),
        (HELM.then(**MOVED).then(), UNFETCHED),
        (HELM.then(**MOVED).then(index="sha256:newer", index_time=40), UNFETCHED),
        (HELM.then(**{**MOVED, "index_time": 10}), UNFETCHED),
        (HELM.then(**MOVED, number=2), UNFETCHED),
        (HELM.then(**MOVED).then(content=None), UNFETCHED),
        (HELM.then(**MOVED).then(url=HELM.url), ""),
        (HELM.then(**MOVED).then(chart_time=30), ""),
        (HELM.then(url=MOVED["url"]), ""),
        (replace(HELM, index_time=10).then(url=MOVED["url"]), ""),
        (HELM.then(**MOVED, content=NEW, chart_time=21, number=2), ""),
        (HELM.then(**MOVED, content=NEW, chart_time=21), UNDEPLOYED),
        (HELM.then(**MOVED, content=NEW, chart_time=21).then(number=2), ""),
        (HELM.then(**MOVED, number=2).then(content=NEW, chart_time=30), UNDEPLOYED),
        (HELM.then(**MOVED, content=NEW, chart_time=21, number=2).then(index="sha256:newer", index_time=50), ""),
        (HELM.then(content=NEW, chart_time=30), UNDEPLOYED),
        (HELM.then(**TO_OCI, content=NEW, number=2), ""),
        (HELM.then(**TO_OCI), ""),
        (OCI, ""),
        (OCI.then(url="oci://second.example.com/shop"), ""),
        (OCI.then(url="oci://second.example.com/shop", content=NEW, number=2), ""),
        (OCI.then(url="oci://second.example.com/shop", content=NEW), UNDEPLOYED),
        (OCI.then(content=NEW, number=2), ""),
        (OCI.then(kind="HelmRepository", url=HELM.url, number=2, index_time=10), ""),
    ],
    ids=[
        "helm: first rollout",
        "helm: new index of the same URL",
        "helm: same content pulled again",
        "helm: another URL",
        "helm: another URL, reconciled twice",
        "helm: another URL, and a newer index there",
        "helm: another URL within the second of the fetch",
        "helm: another URL and other values",
        "helm: another URL, and the chart is lost",
        "helm: another URL and back",
        "helm: another URL, same content pulled again",
        "helm: a mirror with the same index",
        "helm: a mirror with the same index, fetched within the second of the chart",
        "helm: another URL and version",
        "helm: another URL, other content in store",
        "helm: another URL, other content deployed",
        "helm: another URL, other values, then other content in store",
        "helm: another URL and version, then a newer index",
        "helm: same URL, other content in store",
        "helm to oci: other content",
        "helm to oci: same content",
        "oci: first rollout",
        "oci: a mirror",
        "oci: another URL, deployed",
        "oci: another URL, digests are not tracked",
        "oci: other content under the tag, deployed",
        "oci to helm: same content, pulled anew",
    ],
)
def test_a_warning_shows_that_the_content_is_not_from_the_url(flux: Flux, warning: str) -> None:
    message = flux.origin().warning
    assert (warning in message) if warning else not message


def test_warning_names_the_remedy_and_no_secret_of_the_former_url() -> None:
    message = HELM.then(**MOVED).origin().warning
    assert "what runs is from https://first.example.com:" in message
    assert "another version" in message
    assert "delete the HelmChart team-shop" in message
    assert "pw" not in message
    assert "token" not in message
    assert "flux reconcile helmrelease shop --force" in HELM.then(content=NEW).origin().warning


def test_a_state_at_rest_is_recorded_once() -> None:
    for flux in (HELM, OCI, HELM.then(**MOVED), HELM.then(content=NEW)):
        settled = flux.then(index="sha256:newer", index_time=40)
        assert settled.origin().annotations.items() <= settled.notes.items()


@pytest.mark.parametrize(
    "note",
    [
        *("", "x", "////", "a/b/c/1", "a/b/c//i", "a/b/c/-1/i", "a/b/c/1.5/i", "a/b/c/²/i", "a/b//1/i", "a/b/c/1/i/j"),
        f"a/b/c/{'9' * 5_000}/i",
    ],
    ids=lambda note: note[:20] or "absent",
)
def test_a_malformed_record_reads_as_absent(note: str) -> None:
    assert ChartOrigin.read(note) is None
    assert not replace(HELM, **MOVED, notes={CHART_DIGEST: note}).origin().warning


@pytest.mark.parametrize(
    ("flux", "deployed", "revision"),
    [
        (AT_1, {"chartVersion": "1.1.0"}, "1.1.0"),
        (AT_1, {"chartVersion": "1.1.0+build.2"}, "1.1.0+build.2"),
        (OCI_AT_1, {"chartVersion": "1.1.0+bb", "ociDigest": "sha256:bb"}, "latest@sha256:bb"),
    ],
    ids=["a version", "build metadata", "OCI"],
)
def test_a_stale_chart_beside_a_new_release_is_not_recorded(
    flux: Flux, deployed: dict[str, str], revision: str
) -> None:
    stale = flux.then(number=2, deployed=deployed)
    assert stale.origin().annotations == flux.origin().annotations
    current = stale.then(revision=revision, content="sha256:new")
    assert not current.origin().warning
    assert not current.then().origin().warning


@pytest.mark.parametrize(("second", "warning"), [(29, UNDEPLOYED), (30, UNDEPLOYED), (31, "")])
def test_a_release_that_is_younger_than_the_chart_has_the_chart(second: int, warning: str) -> None:
    stale = AT_1.then(number=2, deployed={"chartVersion": "1.0.0", "lastDeployed": time(second)})
    shown = stale.then(content=NEW, chart_time=30).origin().warning
    assert warning in shown
    assert bool(shown) == bool(warning)


@pytest.mark.parametrize("change", [{"content": None}, {"content": ""}, {"number": None}], ids=str)
def test_a_chart_without_a_digest_or_a_release_is_not_recorded(change: dict[str, Any]) -> None:
    assert replace(HELM, **change).origin() == OriginReport()


@pytest.mark.parametrize("status", [None, False])
def test_the_warning_does_not_hide_another_state_than_ready(status: bool | None) -> None:
    translation = Translation(row="row", ready=ConditionValue(status, "Upgrading", "text"))
    assert with_origin(translation, OriginReport(warning="warning")) == translation
