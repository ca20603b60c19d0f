"""The triggers of the Flux stand-in's controllers. Pure.

As upstream: a new spec, request or deletion enqueues the object itself, a new status never does. A new artifact enqueues its users. A
source that fails enqueues nothing, so a release does not see a missing OCI tag. Secrets and ConfigMaps enqueue a release only if they have
the label `reconcile.fluxcd.io/watch: Enabled`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from konverge_testing.flux.state import Object_
from konverge_testing.flux.work import REQUESTED_AT

__all__ = ["woken_by"]

Woken: TypeAlias = tuple[str, str, str]
"""Kind, namespace and name."""

WATCH_LABEL = "reconcile.fluxcd.io/watch"


def _at(thing: Object_ | None, *path: str) -> Any:
    here: Any = thing
    for step in path:
        here = here.get(step) if isinstance(here, dict) else None
    return here


def _own_trigger(thing: Object_ | None) -> tuple[Any, ...]:
    """The fields whose change enqueues the object itself."""
    return (
        _at(thing, "metadata", "uid"),
        _at(thing, "metadata", "generation"),
        _at(thing, "metadata", "annotations", REQUESTED_AT),
        _at(thing, "metadata", "deletionTimestamp"),
    )


def _artifact_trigger(thing: Object_ | None) -> tuple[Any, ...]:
    """The fields whose change enqueues the users of a source."""
    return (_at(thing, "status", "artifact", "revision"), _at(thing, "status", "observedGeneration"))


def woken_by(
    kind: str, before: Object_ | None, after: Object_ | None, all_of: Callable[[str, str], Iterable[Object_]]
) -> Iterator[Woken]:
    """Yield the keys that a change enqueues; `all_of` lists the objects of a kind in a namespace."""
    thing = after or before
    if thing is None:
        return
    namespace, name = thing["metadata"]["namespace"], thing["metadata"]["name"]
    if kind in ("Secret", "ConfigMap"):
        if _at(thing, "metadata", "labels", WATCH_LABEL) == "Enabled":
            yield from _users_of_values(kind, namespace, name, all_of)
        return
    if after is not None and _own_trigger(before) != _own_trigger(after):
        yield kind, namespace, name
    if (
        after is not None
        and _artifact_trigger(after)[0] is not None
        and _artifact_trigger(before) != _artifact_trigger(after)
    ):
        yield from _users_of_source(kind, thing, all_of)


def _users_of_values(
    kind: str, namespace: str, name: str, all_of: Callable[[str, str], Iterable[Object_]]
) -> Iterator[Woken]:
    for release in all_of("HelmRelease", namespace):
        references = _at(release, "spec", "valuesFrom") or ()
        if any((reference["kind"], reference["name"]) == (kind, name) for reference in references):
            yield "HelmRelease", namespace, release["metadata"]["name"]


def _users_of_source(kind: str, source: Object_, all_of: Callable[[str, str], Iterable[Object_]]) -> Iterator[Woken]:
    namespace, name = source["metadata"]["namespace"], source["metadata"]["name"]
    if kind == "HelmRepository":
        for chart in all_of("HelmChart", namespace):
            if _at(chart, "spec", "sourceRef", "name") == name:
                yield "HelmChart", namespace, chart["metadata"]["name"]
    elif kind == "HelmChart":
        labels = source["metadata"].get("labels") or {}
        if "helm.toolkit.fluxcd.io/name" in labels:
            yield "HelmRelease", labels["helm.toolkit.fluxcd.io/namespace"], labels["helm.toolkit.fluxcd.io/name"]
    elif kind == "OCIRepository":
        for release in all_of("HelmRelease", namespace):
            if _at(release, "spec", "chartRef", "name") == name:
                yield "HelmRelease", namespace, release["metadata"]["name"]
