"""Instances, releases and sources for tests of the apps family."""

from datetime import UTC, datetime, timedelta
from typing import Any

from konverge.clock import rfc3339
from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.objects import Object
from konverge.reconcilers.shared.helm_release.facts import ReleaseFacts
from konverge.reconcilers.shared.helm_release.freshness import DesiredRelease, FluxRelease, FluxSource
from konverge.reconcilers.shared.helm_release.sources import FluxSources

GRACE = timedelta(seconds=30)
STUCK = timedelta(minutes=15)
NOW = datetime(2030, 1, 1, 12, 0, 0, tzinfo=UTC)


OWNER = {
    "apiVersion": "apps.vworkspace.io/v1alpha1",
    "kind": "ApplicationInstance",
    "name": "shop",
    "uid": "shop-uid",
    "controller": True,
}


def make_condition(
    type_: str, status: str, reason: str, message: str = "", *, generation: int = 1, ago: float = 0
) -> dict[str, Any]:
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
        "lastTransitionTime": rfc3339(NOW - timedelta(seconds=ago)),
    }


def make_release(*conditions: dict[str, Any], **changes: Any) -> Object:
    """A HelmRelease that runs 1.0.0 at rest, with `changes`."""
    generation = changes.get("generation", 1)
    status: dict[str, Any] = {
        "conditions": list(conditions),
        "observedGeneration": changes.get("observed", generation),
        "lastAttemptedGeneration": changes.get("attempted", generation),
        "lastAttemptedRevision": changes.get("attempted_version", changes.get("version", "1.0.0")),
        "history": [
            {
                "chartVersion": changes.get("version", "1.0.0"),
                "status": changes.get("history", "deployed"),
                "version": 1,
            }
        ],
    }
    if changes.get("history") == "":
        status["history"] = []
    if "handled" in changes:
        status["lastHandledReconcileAt"] = changes["handled"]
    metadata: dict[str, Any] = {
        "name": "shop",
        "namespace": "team",
        "uid": "release-uid",
        "resourceVersion": "7",
        "generation": generation,
        "creationTimestamp": rfc3339(NOW - timedelta(hours=1)),
        "annotations": changes.get("annotations", {}),
        "ownerReferences": [OWNER],
    }
    if "owner" in changes:
        metadata["ownerReferences"] = [changes["owner"]] if changes["owner"] else []
    if "deleted" in changes:
        metadata["deletionTimestamp"] = rfc3339(NOW - timedelta(seconds=changes["deleted"]))
    spec: dict[str, Any] = {"interval": "5m", **changes.get("spec", {})}
    return Object(
        {
            "apiVersion": "helm.toolkit.fluxcd.io/v2",
            "kind": "HelmRelease",
            "metadata": metadata,
            "spec": spec,
            "status": status,
        }
    )


def make_source(
    kind: str,
    *conditions: dict[str, Any],
    generation: int = 1,
    owner_uid: str = "shop-uid",
    deleted: float | None = None,
    fetched: int | None = None,
    revision: str = "sha256:index",
) -> Object:
    """A source whose generation `fetched` was fetched last, by default the current generation."""
    name = "team-shop" if kind == "HelmChart" else "shop"
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "team",
        "uid": f"{kind}-uid",
        "resourceVersion": "3",
        "generation": generation,
    }
    metadata["ownerReferences"] = [{**OWNER, "uid": owner_uid}]
    if deleted is not None:
        metadata["deletionTimestamp"] = rfc3339(NOW - timedelta(seconds=deleted))
    return Object(
        {
            "apiVersion": "source.toolkit.fluxcd.io/v1",
            "kind": kind,
            "metadata": metadata,
            "status": {
                "conditions": list(conditions),
                "observedGeneration": generation if fetched is None else fetched,
                "artifact": {"revision": "1.0.0" if kind == "HelmChart" else revision},
                **({"observedSourceArtifactRevision": revision} if kind == "HelmChart" else {}),
            },
        }
    )


def make_facts(release: Object | None, **changes: Any) -> ReleaseFacts:
    chart, repository = changes.get("chart"), changes.get("repository", make_source("HelmRepository"))
    oci = changes.get("oci", False)
    if "chart" not in changes and not oci:
        chart = make_source("HelmChart")
    return ReleaseFacts(
        release=None if release is None else FluxRelease.of(release),
        sources=FluxSources(
            oci=oci,
            chart=None if chart is None else FluxSource.of(chart),
            repository=None if repository is None else FluxSource.of(repository),
        ),
        desired=DesiredRelease(
            version=changes.get("version", "1.0.0"),
            oci=oci,
            intent=changes.get("intent", "intent"),
            source=changes.get("source", "source"),
            token=changes.get("token", ""),
        ),
        values=changes.get("values"),
        first=changes.get("first", False),
        held=changes.get("held", False),
        waiting_since=changes.get("waiting_since"),
        now=changes.get("now", NOW),
        grace=GRACE,
        stuck_after=STUCK,
    )


def make_instance(**changes: Any) -> ApplicationInstance:
    """A managed instance of chart shop 1.0.0 from a Helm repository, with `changes`."""
    spec: dict[str, Any] = {
        "appRef": {"catalogId": "shop"},
        "chart": {"sourceType": "helm", "url": "https://charts.example.com", "name": "shop", "version": "1.0.0"},
        "release": {"name": "shop", "namespace": "team"},
        "values": {"source": "inline", "inline": {"replicas": 1}},
    }
    for part, fields in changes.get("spec", {}).items():
        spec[part] = {**spec.get(part, {}), **fields} if isinstance(fields, dict) and part != "values" else fields
    spec = {part: value for part, value in spec.items() if value is not None}
    metadata = {
        "name": changes.get("name", "shop"),
        "namespace": "team",
        "uid": "shop-uid",
        "generation": changes.get("generation", 1),
        "labels": changes.get("labels", {}),
        "annotations": changes.get("annotations", {}),
        "finalizers": ["apps.vworkspace.io/finalizer"],
    }
    return ApplicationInstance.decode(
        {
            "apiVersion": "apps.vworkspace.io/v1alpha1",
            "kind": "ApplicationInstance",
            "metadata": metadata,
            "spec": spec,
            "status": changes.get("status", {}),
        }
    )


class Make:
    """The builders above, under one name."""

    now = NOW
    condition = staticmethod(make_condition)
    release = staticmethod(make_release)
    source = staticmethod(make_source)
    facts = staticmethod(make_facts)
    instance = staticmethod(make_instance)
