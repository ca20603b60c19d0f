"""Which changes wake which controller of the stand-in for Flux."""

from collections.abc import Iterable
from typing import Any

import pytest

from konverge_testing.flux.wakes import woken_by

Json = dict[str, Any]

RELEASE: Json = {
    "metadata": {"name": "shop", "namespace": "team", "uid": "u", "generation": 1},
    "spec": {"valuesFrom": [{"kind": "Secret", "name": "vals"}], "chartRef": {"kind": "OCIRepository", "name": "shop"}},
}
CHART: Json = {
    "metadata": {
        "name": "team-shop",
        "namespace": "team",
        "uid": "c",
        "generation": 1,
        "labels": {"helm.toolkit.fluxcd.io/name": "shop", "helm.toolkit.fluxcd.io/namespace": "team"},
    },
    "spec": {"sourceRef": {"kind": "HelmRepository", "name": "shop"}},
}


def all_of(kind: str, namespace: str) -> Iterable[Json]:
    return {"HelmRelease": [RELEASE], "HelmChart": [CHART]}.get(kind, [])


def woken(kind: str, before: Json | None, after: Json | None) -> list[tuple[str, str, str]]:
    return list(woken_by(kind, before, after, all_of))


def source(name: str, status: Json, generation: int = 1, labels: Json | None = None) -> Json:
    metadata = {"name": name, "namespace": "team", "uid": "s", "generation": generation, "labels": labels or {}}
    return {"metadata": metadata, "status": status}


@pytest.mark.parametrize(
    ("change", "wakes"),
    [
        ({"generation": 2}, True),
        ({"deletionTimestamp": "2030-01-01T00:00:00Z"}, True),
        ({"annotations": {"reconcile.fluxcd.io/requestedAt": "now"}}, True),
        ({"labels": {"a": "b"}}, False),
        ({"annotations": {"a": "b"}}, False),
        ({"resourceVersion": "9"}, False),
    ],
)
def test_release_is_enqueued_only_by_spec_request_or_deletion(change: Json, wakes: bool) -> None:
    after = {**RELEASE, "metadata": {**RELEASE["metadata"], **change}}
    assert (("HelmRelease", "team", "shop") in woken("HelmRelease", RELEASE, after)) is wakes


def test_a_new_artifact_enqueues_the_releases_that_use_it() -> None:
    old = {"artifact": {"revision": "1"}, "observedGeneration": 1}
    new = {"artifact": {"revision": "2"}, "observedGeneration": 1}
    assert woken("OCIRepository", source("shop", old), source("shop", new)) == [("HelmRelease", "team", "shop")]
    assert woken("HelmRepository", source("shop", old), source("shop", new)) == [("HelmChart", "team", "team-shop")]
    labels = CHART["metadata"]["labels"]
    assert woken("HelmChart", source("team-shop", old, labels=labels), source("team-shop", new, labels=labels)) == [
        ("HelmRelease", "team", "shop")
    ]


def test_a_failing_source_enqueues_no_release() -> None:
    good = {"artifact": {"revision": "1"}, "observedGeneration": 1}
    failing = {**good, "conditions": [{"type": "FetchFailed", "status": "True"}]}
    assert woken("OCIRepository", source("shop", good), source("shop", failing)) == []


@pytest.mark.parametrize(("labels", "wakes"), [({"reconcile.fluxcd.io/watch": "Enabled"}, True), ({}, False)])
def test_a_secret_enqueues_a_release_only_with_fluxs_label(labels: Json, wakes: bool) -> None:
    secret = {"metadata": {"name": "vals", "namespace": "team", "labels": labels}}
    assert (woken("Secret", None, secret) == [("HelmRelease", "team", "shop")]) is wakes


def test_a_deleted_object_enqueues_no_release() -> None:
    assert woken("HelmRelease", RELEASE, None) == []
    assert woken("HelmRelease", None, None) == []
