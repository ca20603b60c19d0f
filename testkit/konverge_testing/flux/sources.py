"""The stand-in for source-controller: HelmRepository, OCIRepository and HelmChart, as recorded.

A `World` provides the artifacts. A transient failure is retried (Reconciling/ProgressingWithRetry); a missing chart version is not
(Stalled/InvalidChartReference). An old artifact stays while no new artifact can be fetched.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from konverge.clock import rfc3339
from konverge_testing.flux.state import (
    FINALIZER,
    ClusterView,
    Conditions,
    Effects,
    Finalizer,
    Object_,
    Retry,
    Status,
    World,
    digest,
)

__all__ = ["FIRST_RETRY", "reconcile_source"]

_LOOKED_IN = "observedSourceArtifactRevision"

FIRST_RETRY = 1.0
"""Seconds before a failed fetch is retried, doubled with each failure in a row. source-controller starts with 0.75 s:
https://fluxcd.io/flux/components/source/options/ (--min-retry-delay)"""


@dataclass(frozen=True, slots=True)
class _Fetched:
    """The outcome of a fetch: a revision, or the reason why it failed; `final` if a retry cannot succeed.

    `looked_in` is, for a chart, the revision of the searched repository. `content` is what was fetched.
    """

    revision: str = ""
    content: str = ""
    message: str = ""
    reason: str = ""
    final: bool = False
    looked_in: str = ""


def _fetch_helm_repository(spec: Object_, world: World, _: Callable[[str], Object_ | None]) -> _Fetched:
    url = spec.get("url", "")
    if not world.answers(url):
        text = (
            f'failed to fetch Helm repository index: failed to cache index to temporary file: Get "{url}/index.yaml": '
        )
        return _Fetched(reason="Failed", message=text + "dial tcp: connect: connection refused")
    revision = digest(world.content(url))
    return _Fetched(
        revision=revision, content=revision, reason="Succeeded", message=f"stored artifact: revision '{revision}'"
    )


def _fetch_oci_repository(spec: Object_, world: World, _: Callable[[str], Object_ | None]) -> _Fetched:
    url, tag = spec.get("url", ""), (spec.get("ref") or {}).get("tag", "latest")
    registry = url.removeprefix("oci://")
    path = f"GET https://{registry.partition('/')[0]}/v2/{registry.partition('/')[2]}/manifests/{tag}"
    if not world.answers(url):
        text = f"failed to determine artifact digest: {path}: dial tcp: connect: connection refused"
        return _Fetched(reason="OCIArtifactPullFailed", message=text)
    if not world.exists(tag.replace("_", "+")):
        text = f"failed to determine artifact digest: {path}: MANIFEST_UNKNOWN: Unknown manifest"
        return _Fetched(reason="OCIArtifactPullFailed", message=text)
    revision = f"{tag}@{digest(f'{world.content(url)}:{tag}')}"
    return _Fetched(
        revision=revision, content=revision, reason="Succeeded", message=f"stored artifact for digest '{revision}'"
    )


def _fetch_helm_chart(spec: Object_, world: World, find: Callable[[str], Object_ | None]) -> _Fetched:
    name, chart, version = spec["sourceRef"]["name"], spec["chart"], spec.get("version", "*")
    repository = find(name)
    if repository is None:
        text = f'failed to get source: HelmRepository.source.toolkit.fluxcd.io "{name}" not found'
        return _Fetched(reason="SourceUnavailable", message=text)
    if "artifact" not in (repository.get("status") or {}):
        return _Fetched(reason="NoSourceArtifact", message=f"no artifact available for HelmRepository source '{name}'")
    looked_in = repository["status"]["artifact"]["revision"]
    if not world.exists(version):
        text = "invalid chart reference: failed to get chart version for remote reference: "
        text += f"no '{chart}' chart with version matching '{version}' found"
        return _Fetched(reason="InvalidChartReference", message=text, final=True, looked_in=looked_in)
    message = f"pulled '{chart}' chart with version '{version}'"
    content = f"{world.content(repository['spec'].get('url', ''))}:{chart}:{version}"
    return _Fetched(
        revision=version, content=content, reason="ChartPullSucceeded", message=message, looked_in=looked_in
    )


_FETCHERS = {
    "HelmRepository": (_fetch_helm_repository, ""),
    "OCIRepository": (_fetch_oci_repository, "NewRevision"),
    "HelmChart": (_fetch_helm_chart, "NewChart"),
}


def reconcile_source(source: Object_, world: World, view: ClusterView) -> Effects:
    """Reconcile one source."""
    metadata = source["metadata"]
    if metadata.get("deletionTimestamp"):
        yield from _remove(source, view)
        return
    if FINALIZER not in metadata.get("finalizers", ()):
        yield Finalizer(True)
    yield from _fetch(source, world, view)


def _remove(source: Object_, view: ClusterView) -> Effects:
    status = copy.deepcopy(source.get("status") or {})
    conditions = Conditions(status, source["metadata"]["generation"], view.now())
    if conditions.find("Ready") is not None:
        conditions.stamp("Ready")
        yield Status(copy.deepcopy(status))
    yield Finalizer(False)


def _fetch(source: Object_, world: World, view: ClusterView) -> Effects:
    metadata = source["metadata"]
    fetch, outdated = _FETCHERS[source["kind"]]
    status: Object_ = copy.deepcopy(source.get("status") or {})
    conditions = Conditions(status, metadata["generation"], view.now())
    fetched = fetch(source["spec"], world, lambda name: view.find("HelmRepository", metadata["namespace"], name))
    seen, old = status.get("observedGeneration"), status.get("artifact")
    looked_in = status.get(_LOOKED_IN)
    if fetched.looked_in:
        status[_LOOKED_IN] = fetched.looked_in
    settled = seen == metadata["generation"] and conditions.is_("Ready", "True")
    if settled and old is not None and old["revision"] == fetched.revision:
        if status.get(_LOOKED_IN) != looked_in:  # keep the stored chart of the same version: no pull
            yield Status(copy.deepcopy(status))
        return
    if seen != metadata["generation"]:
        yield from _announce(conditions, status, seen, metadata["generation"])
    if fetched.revision or source["kind"] != "OCIRepository":
        conditions.set("Reconciling", "True", "Progressing", "building artifact")
        conditions.set("Ready", "Unknown", "Progressing", "building artifact")
        if fetched.revision and old is not None and outdated:
            conditions.set("ArtifactOutdated", "True", outdated, fetched.message)
        yield Status(copy.deepcopy(status))
    chart_changed = source["kind"] == "HelmChart" and seen != metadata["generation"]
    kept = old is not None and old["revision"] == fetched.revision and not chart_changed
    artifact = None if kept else _artifact(fetched, view)
    yield from (
        _stored(conditions, status, fetched, artifact) if fetched.revision else _failed(conditions, status, fetched)
    )
    if (fetched.revision or fetched.final) and seen != metadata["generation"]:
        status["observedGeneration"] = metadata["generation"]
        yield Status(copy.deepcopy(status))
    if not fetched.revision and not fetched.final:
        yield Retry(None)


def _artifact(fetched: _Fetched, view: ClusterView) -> Object_:
    """The artifact of a fetch; Flux keeps a stored artifact of the same revision, unless the spec of a chart changed."""
    return {
        "revision": fetched.revision,
        "digest": digest(fetched.content),
        "lastUpdateTime": rfc3339(view.now()),
    }


def _announce(conditions: Conditions, status: Object_, seen: Any, generation: int) -> Effects:
    text = f"processing object: new generation {seen} -> {generation}"
    conditions.set("Reconciling", "True", "Progressing", text)
    if conditions.find("Ready") is None:
        conditions.set("Ready", "Unknown", "Progressing", text)
    yield Status(copy.deepcopy(status))


def _stored(conditions: Conditions, status: Object_, fetched: _Fetched, artifact: Object_ | None) -> Effects:
    conditions.drop("Reconciling", "Stalled", "FetchFailed", "ArtifactOutdated")
    conditions.set("Ready", "True", fetched.reason, fetched.message)
    conditions.set("ArtifactInStorage", "True", fetched.reason, fetched.message)
    if artifact is not None:
        status["artifact"] = artifact
    yield Status(copy.deepcopy(status))


def _failed(conditions: Conditions, status: Object_, fetched: _Fetched) -> Effects:
    conditions.drop("ArtifactOutdated")
    if fetched.final:
        conditions.set("Stalled", "True", fetched.reason, fetched.message)
    else:
        conditions.set("Reconciling", "True", "ProgressingWithRetry", "building artifact")
    conditions.set("Ready", "False", fetched.reason, fetched.message)
    conditions.set("FetchFailed", "True", fetched.reason, fetched.message)
    yield Status(copy.deepcopy(status))
