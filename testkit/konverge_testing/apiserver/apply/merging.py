"""An applied configuration merged into an object, and items taken out of one.

Guarantees: pure; results share unchanged parts with the arguments, and if nothing changed the result is the argument itself. Facts:
structured-merge-diff v6 `typed/merge.go`, `typed/remove.go`, `fieldpath/set.go`, `typed/reconcile_schema.go`.
"""

from __future__ import annotations

from typing import Any, Final

from konverge_testing.apiserver.apply.fieldset import Fields, below, member
from konverge_testing.apiserver.apply.shapes import ListShape, MapShape, Shape
from konverge_testing.apiserver.apply.typed import Misfit, element_of, same

__all__ = ["merge", "reconcile", "remove", "with_parents"]


def merge(shape: Shape, live: Any, config: Any) -> Any:
    """Return the live value with everything that the configuration sets."""
    if isinstance(config, dict):
        inside = shape.map
        if shape.plain and live == config:
            return live
        if inside is None or inside.atomic or not isinstance(live, dict):
            return live if same(live, config) else config
        return _merge_maps(inside, live, config) if live else config
    if isinstance(config, list):
        items = shape.list
        if shape.plain and live == config:
            return live
        if items is None or not items.associative or not isinstance(live, list):
            return live if same(live, config) else config
        return _merge_lists(items, live, config) if live else config
    if config is None:
        return _cleared(shape, live)
    return live if same(live, config) else config


def _cleared(shape: Shape, live: Any) -> Any:
    """A null does not change a value that is owned item by item; any other value becomes null."""
    if isinstance(live, dict) and live and shape.map is not None and not shape.map.atomic:
        return live
    if isinstance(live, list) and live and shape.list is not None and shape.list.associative and shape.map is None:
        return live
    return None


def _merge_maps(shape: MapShape, live: dict[str, Any], config: dict[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] | None = None
    for name, value in config.items():
        if name in live:
            before = live[name]
            if before is value or (isinstance(value, str) and before == value):
                continue
            child = shape.fields.get(name) or shape.element
            if child is None:
                raise Misfit
            merged = merge(child, before, value)
            if merged is before:
                continue
        else:
            merged = value
        if out is None:
            out = dict(live)
        out[name] = merged
    return live if out is None else out


def _merge_lists(shape: ListShape, live: list[Any], config: list[Any]) -> list[Any]:
    """Merge item by item: the configuration's items are in its order, and the other items keep their places among their neighbours."""
    left = [element_of(shape, item) for item in live]
    right = [element_of(shape, item) for item in config]
    ours: dict[str, Any] = {}
    for element, item in zip(left, live, strict=True):
        ours[element] = None if element in ours else item
    theirs = dict(zip(right, config, strict=True))
    child = shape.element
    if left == right and len(ours) == len(left):
        out = [merge(child, one, two) for one, two in zip(live, config, strict=True)]
    else:
        out = _interleave(child, list(zip(left, live, strict=True)), right, ours, theirs)
    changed = len(out) != len(live) or any(one is not two for one, two in zip(out, live, strict=True))
    return out if changed else live


def _interleave(
    child: Shape, left: list[tuple[str, Any]], right: list[str], ours: dict[str, Any], theirs: dict[str, Any]
) -> list[Any]:
    """Walk both lists at once. A live item that the configuration has too waits until the walk reaches it in the configuration."""

    def both(element: str) -> Any:
        return merge(child, ours[element], theirs[element]) if element in ours else theirs[element]

    out: list[Any] = []
    shared = [element for element in right if element in ours]
    awaited = 0
    taken: set[str] = set()
    i = j = 0
    while i < len(left) or j < len(right):
        if i < len(left) and j < len(right):
            element = left[i][0]
            if element == right[j]:
                taken.add(element)
                out.append(both(element))
                i, j, awaited = i + 1, j + 1, awaited + 1
                continue
            if element in theirs and awaited < len(shared) and shared[awaited] != element:
                i += 1
                continue
        if i < len(left):
            element, item = left[i]
            if element not in theirs:
                out.append(item)
                i += 1
                continue
            if element in taken:
                i += 1
        if j < len(right):
            element = right[j]
            taken.add(element)
            out.append(both(element))
            j += 1
            if awaited < len(shared) and shared[awaited] == element:
                awaited += 1
    return out


# --- taking items out -----------------------------------------------------------------------------------------------


def remove(shape: Shape, value: Any, fields: Fields) -> Any:
    """Return the value without the places of a set; a list or map that loses its last item becomes null, as on the server."""
    if isinstance(value, dict):
        inside = shape.map
        if inside is None or not value or inside.atomic:
            return None
        return _without(inside, value, fields) or None
    if isinstance(value, list):
        items = shape.list
        if items is None or not value or not items.associative:
            return None
        return _without_items(items, value, fields) or None
    return value


def _without(shape: MapShape, value: dict[str, Any], fields: Fields) -> dict[str, Any]:
    out: dict[str, Any] = {}
    changed = False
    for name, item in value.items():
        node = fields.get(f"f:{name}")
        if node is None:
            out[name] = item
            continue
        if member(node):
            changed = True
            continue
        child = shape.fields.get(name) or shape.element
        out[name] = rest = item if child is None else remove(child, item, node)
        changed = changed or rest is not item
    return out if changed else value


def _without_items(shape: ListShape, value: list[Any], fields: Fields) -> list[Any]:
    out: list[Any] = []
    changed = False
    for item in value:
        node = fields.get(element_of(shape, item))
        if node is None:
            out.append(item)
            continue
        if member(node):
            changed = True
            continue
        rest = remove(shape.element, item, node)
        out.append(rest)
        changed = changed or rest is not item
    return out if changed else value


def with_parents(shape: Shape | None, fields: Fields) -> Fields:
    """Return the set plus the named fields above its places: owning `spec.a` then counts as owning `spec`; keys of maps are not added."""
    out: Fields = {}
    inside = shape.map if shape is not None else None
    items = shape.list if shape is not None else None
    for element, node in fields.items():
        if element == ".":
            continue
        children = below(node)
        if not children:
            out[element] = node
            continue
        child, own = None, member(node)
        if element.startswith("f:") and inside is not None:
            child = inside.fields.get(element[2:])
            own = own or child is not None
            child = child or inside.element
        elif element.startswith("k:") and items is not None:
            child = items.element
        inner = with_parents(child, children)
        out[element] = {".": {}, **inner} if own else inner
    return out


# --- sets that were written under another schema --------------------------------------------------------------------

_OWNED: Final[Fields] = {}


def reconcile(shape: Shape, fields: Fields) -> Fields:
    """Return the set under this schema: a place that is atomic now is owned as a whole. The argument itself if nothing changes."""
    inside = shape.map
    if inside is None:
        return fields
    return fields if inside.deduced else _below_map(inside, fields)


def _settle(shape: Shape, node: Fields) -> Fields:
    if not node:
        return node
    inside = shape.map
    if inside is not None:
        if inside.deduced:
            return node
        return _OWNED if inside.atomic else _below_map(inside, node)
    if shape.scalar or shape.list is None:
        return node
    if not shape.list.associative:
        return _OWNED
    return _each(node, {element: shape.list.element for element in node if element != "."})


def _below_map(shape: MapShape, node: Fields) -> Fields:
    children = {}
    for element in node:
        if element == ".":
            continue
        child = shape.fields.get(element[2:]) if element.startswith("f:") else None
        if (child := child or shape.element) is not None:
            children[element] = child
    return _each(node, children)


def _each(node: Fields, children: dict[str, Shape]) -> Fields:
    out: Fields | None = None
    for element, child in children.items():
        before = node[element]
        after = _settle(child, before)
        if after is not before:
            out = dict(node) if out is None else out
            out[element] = after
    return node if out is None else out
