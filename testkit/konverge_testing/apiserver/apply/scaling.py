"""Owners of `replicas` converted for the scale subresource, and back: a write through `/scale` is tracked on a Scale, not on its parent.

Guarantees: pure. Facts: apimachinery `pkg/util/managedfields/scalehandler.go`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from konverge_testing.apiserver.apply import owners as entries
from konverge_testing.apiserver.apply.fieldset import difference, from_paths, has
from konverge_testing.apiserver.apply.owners import Owner, Owners

__all__ = ["from_scale", "to_scale"]

Data = dict[str, Any]

Places = Mapping[str, Sequence[str]]
"""By apiVersion of the parent: the path of its replicas, such as {"apps/v1": ("spec", "replicas")}; () for a version without scale."""

_VERSION: Final = "autoscaling/v1"
_IN_SCALE: Final = ("f:spec", "f:replicas")


def _path(place: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"f:{name}" for name in place)


def to_scale(parent: list[Data] | None, places: Places) -> list[Data] | None:
    """Return managedFields for the Scale: the parent's owners of replicas, under the same names."""
    found: Owners = {}
    for key, owner in (entries.read(parent) or {}).items():
        place = places.get(owner.version)
        if place and has(owner.fields, _path(place)):
            found[key] = Owner(from_paths([_IN_SCALE]), _VERSION, owner.time)
    return entries.write(found)


def from_scale(
    parent: list[Data] | None, scale: list[Data] | None, api_version: str, places: Places
) -> list[Data] | None:
    """Return managedFields for the parent after a write of its Scale: owners that lost replicas there lose them here, new owners are added.

    New owners have no time that the parent knew, so (as on the server) their entries have none.
    """
    left = entries.read(scale) or {}
    out: Owners = {}
    before = entries.read(parent) or {}
    for key, owner in before.items():
        place = places.get(owner.version)
        if place is None:
            continue
        if not place or not has(owner.fields, _path(place)):
            out[key] = owner
        elif key in left:
            out[key] = owner
            del left[key]
        elif rest := difference(owner.fields, from_paths([_path(place)])):
            out[key] = Owner(rest, owner.version, owner.time)
    for key, owner in left.items():
        if has(owner.fields, _IN_SCALE):
            time = before[key].time if key in before else None
            out[key] = Owner(from_paths([_path(places[api_version])]), api_version, time)
    return entries.write(out)
