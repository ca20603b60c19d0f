"""Sets of fields, kept as the JSON of FieldsV1 itself: nested dicts from path elements to the elements below.

A node is {} if the place itself is in the set and nothing below it; {".": {}, ...} if both are; {...} if only places below are.
The outermost dict has no "." and {} is the empty set. Guarantees: pure; no argument is changed, and unchanged parts are shared between
results. Facts: structured-merge-diff v6 `fieldpath/set.go` and `fieldpath/serialize.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from konverge_testing.apiserver.apply.elements import canonical, order, text

__all__ = [
    "UNTRACKED",
    "Fields",
    "below",
    "decode",
    "difference",
    "from_paths",
    "has",
    "intersection",
    "member",
    "ordered",
    "path_text",
    "paths",
    "recursive_difference",
    "union",
]

Fields = dict[str, Any]
"""FieldsV1: dict[str, Fields]."""

UNTRACKED: Final = frozenset(
    (
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    )
)
"""Fields of metadata that have no owner."""


def member(node: Fields) -> bool:
    """Tell whether the place of a node is in the set itself."""
    return not node or "." in node


def below(node: Fields) -> Fields:
    """Return the part of a node below its own place."""
    return {key: value for key, value in node.items() if key != "."} if "." in node else node


def union(one: Fields, two: Fields) -> Fields:
    """Return the union of two sets. The order of siblings is not kept: see `ordered`."""
    if not one or not two:
        return one or two
    out = dict(one)
    for key, value in two.items():
        out[key] = _union(out[key], value) if key in out else value
    return out


def _union(one: Fields, two: Fields) -> Fields:
    if one is two or (not one and not two):
        return one
    if not one:
        return two if "." in two else {".": {}, **two}
    if not two:
        return one if "." in one else {".": {}, **one}
    return union(one, two)


def difference(one: Fields, two: Fields) -> Fields:
    """Return the difference of two sets, place by place: a parent does not include its children."""
    if not one or not two:
        return one
    out: Fields = {}
    for key, value in one.items():
        if key not in two:
            out[key] = value
        elif (rest := _difference(value, two[key])) is not None:
            out[key] = rest
    return out


def _difference(one: Fields, two: Fields) -> Fields | None:
    rest = difference(below(one), below(two))
    if member(one) and not member(two):
        return {".": {}, **rest} if rest else {}
    return rest or None


def recursive_difference(one: Fields, two: Fields) -> Fields:
    """Return the first set without the places of the second set and everything below them."""
    if not one or not two:
        return one
    out: Fields = {}
    for key, value in one.items():
        other = two.get(key)
        if other is None:
            out[key] = value
        elif not member(other):
            rest = recursive_difference(below(value), other)
            if member(value):
                out[key] = {".": {}, **rest} if rest else {}
            elif rest:
                out[key] = rest
    return out


def intersection(one: Fields, two: Fields) -> Fields:
    """Return the intersection of two sets."""
    out: Fields = {}
    for key, value in one.items():
        other = two.get(key)
        if other is None:
            continue
        both = intersection(below(value), below(other)) if value and other else {}
        if member(value) and member(other):
            out[key] = {".": {}, **both} if both else {}
        elif both:
            out[key] = both
    return out


def has(fields: Fields, path: Sequence[str]) -> bool:
    """Tell whether a place is in the set."""
    for element in path:
        if element not in fields:
            return False
        fields = fields[element]
    return bool(path) and member(fields)


def from_paths(found: Iterable[Sequence[str]]) -> Fields:
    """Create a set of places, each a sequence of elements."""
    out: Fields = {}
    for path in found:
        single: Fields = {}
        for element in reversed(path):
            single = {element: single}
        out = union(out, single)
    return out


def paths(fields: Fields, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the places of a set in the server's order: at each level first the places in the set, then the places below."""
    keys = sorted((key for key in fields if key != "."), key=order)
    for key in keys:
        if member(fields[key]):
            yield (*before, key)
    for key in keys:
        yield from paths(fields[key], (*before, key))


def path_text(path: Sequence[str]) -> str:
    """Show a place in a message: `.spec.list[name="a"].value`."""
    return "".join(map(text, path))


def ordered(fields: Fields) -> Fields:
    """Return the set with siblings in the server's order."""
    if not fields:
        return fields
    keys = sorted(fields)
    if keys[-1][0] not in ".f":
        keys.sort(key=order)
    return {key: ordered(fields[key]) for key in keys}


def decode(raw: Any) -> Fields:
    """Read a client's FieldsV1: elements are spelled as the server does, unknown kinds dropped. Raises ValueError for invalid FieldsV1."""
    out: Fields = {}
    for key, value in _object(raw).items():
        element = None if key == "." else canonical(key)
        if element is not None:
            node = _node(value)
            out[element] = _union(out[element], node) if element in out else node
    return out


def _node(raw: Any) -> Fields:
    found = decode(raw)
    return {".": {}, **found} if found and "." in raw else found


def _object(raw: Any) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise ValueError("not a set of fields")
    return raw
