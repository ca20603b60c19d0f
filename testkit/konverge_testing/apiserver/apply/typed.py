"""Values by their schema: whether they fit, which fields they contain, and how two values differ.

Guarantees: pure; arguments are never changed. `field_set` and `compare` raise `Misfit` at the first misfit, `misfits` in
`wording` lists all of them. Facts: structured-merge-diff v6 `typed/validate.go`, `typed/tofieldset.go`, `typed/compare.go`,
`typed/helpers.go`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from konverge_testing.apiserver.apply.elements import key_element, order, value_element
from konverge_testing.apiserver.apply.fieldset import UNTRACKED, Fields, union
from konverge_testing.apiserver.apply.shapes import ListShape, MapShape, Shape

__all__ = ["Change", "Misfit", "compare", "element_of", "field_set", "fits_scalar", "reading_of", "same"]


_REMEMBERED: Final = 4096


class Misfit(Exception):
    """A value does not fit its schema."""


def same(one: Any, two: Any) -> bool:
    """Compare values; 1 equals 1.0, but not true."""
    if one is two:
        return True
    if isinstance(one, bool) or isinstance(two, bool) or one != two:
        return False
    if isinstance(one, dict):
        return all(same(value, two[key]) for key, value in one.items())
    return not isinstance(one, list) or all(map(same, one, two))


def element_of(shape: ListShape, item: Any) -> str:
    """Return the element of an item of an associative list. Raises Misfit with the server's words if it has none."""
    if len(shape.keys) == 1 and isinstance(item, dict):
        value = item.get(shape.keys[0])
        if isinstance(value, str):
            return shape.known.get(value) or _remembered(shape, value)
    return _element_of(shape, item)


def _remembered(shape: ListShape, value: str) -> str:
    if len(shape.known) >= _REMEMBERED:
        shape.known.clear()
    element = shape.known[value] = key_element([(shape.keys[0], value)])
    return element


def _element_of(shape: ListShape, item: Any) -> str:
    if not shape.keys:
        if isinstance(item, dict):
            raise Misfit("associative list without keys has an element that's a map type")
        if isinstance(item, list):
            raise Misfit("not supported: associative list with lists as elements")
        if item is None:
            raise Misfit("associative list without keys has an element that's an explicit null")
        return value_element(item)
    if not isinstance(item, dict):
        which = "a null element" if item is None else "non-map elements"
        raise Misfit(f"associative list with keys may not have {which}")
    pairs = []
    for name in shape.sorted_keys:
        if name in item:
            pairs.append((name, item[name]))
        elif (map_shape := shape.element.map) is None:
            raise Misfit(f"couldn't find default value for {name}: associative list may not have non-map types")
        elif name in map_shape.defaults:
            pairs.append((name, map_shape.defaults[name]))
    if not pairs:
        names = " ".join(f'"{name}"' for name in shape.keys)
        why = "and doesn't have default values for any key fields"
        raise Misfit(f"associative list with keys has an element that omits all key fields [{names}] ({why})")
    return key_element(pairs)


def fits_scalar(kind: str, value: Any) -> bool:
    """Tell whether a value (not null, a list or a map) fits this scalar of the schema."""
    if kind == "string":
        return isinstance(value, str)
    if kind == "untyped":
        return True
    if kind == "numeric":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return kind == "boolean" and isinstance(value, bool)


# --- the fields of a value -------------------------------------------------------------------------------------------


def field_set(shape: Shape, value: Any, *, duplicates: bool = True) -> Fields:
    """Return the fields of an object; equal items of a list count once, or (`duplicates` false) are a misfit."""
    return _named(shape, value, duplicates) or {}


def _named(shape: Shape, value: Any, duplicates: bool) -> Fields | None:
    """Return the node of a place, or None if neither the place nor anything below it is owned separately."""
    if isinstance(value, dict):
        return _named_in_map(shape.map, value, duplicates)
    if isinstance(value, list):
        return _named_in_list(shape.list, value, duplicates)
    if value is None:
        if shape.map is not None:
            return {} if shape.map.atomic else None
        return None if shape.list is not None and shape.list.associative and not shape.scalar else {}
    if not fits_scalar(shape.scalar, value):
        raise Misfit
    return {}


def _named_in_map(shape: MapShape | None, value: dict[str, Any], duplicates: bool) -> Fields | None:
    if shape is None:
        raise Misfit
    out: Fields = {}
    fields = shape.fields
    for name in sorted(value):
        item = value[name]
        below = fields.get(name)
        if below is not None and isinstance(item, str) and below.takes_text:
            out[f"f:{name}"] = {}
            continue
        own = item is None or item == {}
        if below is None:
            below = shape.element
            own = True
            if below is None:
                raise Misfit
        found = _named(below, item, duplicates)
        if found is not None:
            out[f"f:{name}"] = {".": {}, **found} if own and found and "." not in found else found
        elif own:
            out[f"f:{name}"] = {}
    return {} if shape.atomic else out or None


def _named_in_list(shape: ListShape | None, value: list[Any], duplicates: bool) -> Fields | None:
    if shape is None:
        raise Misfit
    if not shape.associative:
        for item in value:
            _named(shape.element, item, duplicates)
        return {}
    out: Fields = {}
    twice: set[str] = set()
    for item in value:
        element = element_of(shape, item)
        found = _named(shape.element, item, duplicates)
        if element in out:
            if not duplicates:
                raise Misfit
            twice.add(element)
        out[element] = {".": {}, **found} if found else {}
    for element in twice:
        out[element] = {}
    if len(out) > 1:
        out = {element: out[element] for element in sorted(out, key=order)}
    return out or None


# --- differences ----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Change:
    """The difference of two objects: sets of the fields that were added, modified and removed."""

    added: Fields
    modified: Fields
    removed: Fields

    @property
    def touched(self) -> Fields:
        """The fields that were added or modified."""
        return union(self.added, self.modified) if self.added and self.modified else self.added or self.modified


_Difference = tuple[Fields | None, Fields | None, Fields | None]
_MODIFIED: Final[_Difference] = (None, {}, None)
_NOTHING: Final[dict[str, Any]] = {}
_NONE: Final[list[Any]] = []


def compare(shape: Shape, old: dict[str, Any], new: dict[str, Any]) -> Change:
    """Compare two whole objects, without the metadata that has no owner."""
    root = shape.map
    if root is None:
        raise Misfit
    out: tuple[Fields, Fields, Fields] = ({}, {}, {})
    if (metadata := root.fields.get("metadata")) is not None and metadata.map is not None:
        inner: tuple[Fields, Fields, Fields] = ({}, {}, {})
        before, after = old.get("metadata"), new.get("metadata")
        _maps(metadata.map, before or _NOTHING, after or _NOTHING, inner, UNTRACKED)
        for fields, found in zip(out, inner, strict=True):
            if found:
                fields["f:metadata"] = found
    _maps(root, old, new, out, frozenset(("apiVersion", "kind", "metadata")))
    return Change(*out)


def _maps(
    shape: MapShape,
    old: dict[str, Any],
    new: dict[str, Any],
    out: tuple[Fields, Fields, Fields],
    skip: frozenset[str] = frozenset(),
) -> None:
    fields = shape.fields
    for name, value in new.items():
        if name in old:
            before = old[name]
            if before is value or (isinstance(value, str) and value == before) or name in skip:
                continue
            found = _compare(_child(shape, name), before, value)
            if found is not None:
                _put(out, f"f:{name}", found)
        elif name not in skip:
            out[0][f"f:{name}"] = _whole(_child(shape, name), value)
    for name, value in old.items():
        if name not in new and name not in skip:
            below = fields.get(name) or shape.element
            out[2][f"f:{name}"] = {} if below is None else _whole(below, value)


def _child(shape: MapShape, name: str) -> Shape:
    found = shape.fields.get(name) or shape.element
    if found is None:
        raise Misfit
    return found


def _put(out: tuple[Fields, Fields, Fields], element: str, found: _Difference) -> None:
    for fields, node in zip(out, found, strict=True):
        if node is not None:
            fields[element] = node


def _whole(shape: Shape, value: Any) -> Fields:
    """Return the node of a place that only one side has: the place and everything below it."""
    if isinstance(value, dict):
        if (inside := shape.map) is None:
            raise Misfit
        out = {f"f:{name}": _whole(_child(inside, name), item) for name, item in value.items()}
        return {} if inside.atomic or not out else {".": {}, **out}
    if isinstance(value, list):
        if (items := shape.list) is None:
            raise Misfit
        if not items.associative or not value:
            return {}
        out = {}
        for item in value:
            element = element_of(items, item)
            out[element] = {} if element in out else _whole(items.element, item)
        return {".": {}, **out}
    if value is not None and not fits_scalar(shape.scalar, value):
        raise Misfit
    return {}


def _compare(shape: Shape, old: Any, new: Any) -> _Difference | None:
    if isinstance(new, dict) and isinstance(old, dict):
        return None if shape.plain and old == new else _compare_maps(shape.map, old, new)
    if isinstance(new, list) and isinstance(old, list):
        return None if shape.plain and old == new else _compare_lists(shape.list, old, new)
    if not isinstance(new, (dict, list)) and not isinstance(old, (dict, list)) and new is not None and old is not None:
        if not fits_scalar(shape.scalar, new):
            raise Misfit
        return None if same(old, new) else _MODIFIED
    return None if old is None and new is None else _compare_kinds(shape, old, new)


def _compare_maps(shape: MapShape | None, old: dict[str, Any], new: dict[str, Any]) -> _Difference | None:
    if shape is None:
        raise Misfit
    if shape.atomic or (not old and not new):
        return None if same(old, new) else _MODIFIED
    out: tuple[Fields, Fields, Fields] = ({}, {}, {})
    _maps(shape, old, new, out)
    return _difference(out)


def _difference(out: tuple[Fields, Fields, Fields]) -> _Difference | None:
    added, modified, removed = out
    return (added or None, modified or None, removed or None) if added or modified or removed else None


def _compare_lists(shape: ListShape | None, old: list[Any], new: list[Any]) -> _Difference | None:
    if shape is None:
        raise Misfit
    if not shape.associative or (not old and not new):
        return None if same(old, new) else _MODIFIED
    out: tuple[Fields, Fields, Fields] = ({}, {}, {})
    before, after = _by_element(shape, old), _by_element(shape, new)
    for element in {**before, **after}:
        one, two = before.get(element, _NONE), after.get(element, _NONE)
        if len(one) == 1 and len(two) == 1:
            if one[0] is two[0]:
                continue
            found = _compare(shape.element, one[0], two[0])
            if found is not None:
                _put(out, element, found)
        elif len(one) >= 2 and len(two) >= 2:
            if not same(one, two):
                out[1][element] = {}
        else:
            _count_changed(shape.element, element, one, two, out)
    return _difference(out)


def _count_changed(
    shape: Shape, element: str, old: list[Any], new: list[Any], out: tuple[Fields, Fields, Fields]
) -> None:
    """Record an item that was added, removed, or duplicated on one side only; several equal items are owned as one place."""
    if new:
        out[0][element] = {} if len(new) >= 2 else _whole(shape, new[0])
    if old:
        out[2][element] = {} if len(old) >= 2 else _whole(shape, old[0])


def _by_element(shape: ListShape, items: list[Any]) -> dict[str, list[Any]]:
    out: dict[str, list[Any]] = {}
    for item in items:
        out.setdefault(element_of(shape, item), []).append(item)
    return out


def _compare_kinds(shape: Shape, old: Any, new: Any) -> _Difference | None:
    """Compare values of two kinds, or null with another value: once in the reading of each, where the other value counts if it has that
    kind.
    """
    out: tuple[Fields, Fields, Fields] = ({}, {}, {})
    leaf = False
    after = reading_of(shape, new)
    scalar = new is not None and not isinstance(new, (dict, list))
    if new is not None and (not fits_scalar(shape.scalar, new) if scalar else not isinstance(new, after)):
        raise Misfit
    for reading in {reading_of(shape, old), after}:
        one, two = _as(reading, old), _as(reading, new)
        inside = shape.map if reading is dict else shape.list if reading is list else None
        atomic = inside is None or (inside.atomic if isinstance(inside, MapShape) else not inside.associative)
        if atomic or (not one and not two):
            leaf = True
        elif isinstance(inside, MapShape):
            _maps(inside, one or {}, two or {}, out)
        elif inside is not None:
            for side, items in ((2, one), (0, two)):
                out[side].update(_whole_list(inside, items))
    found = _difference(out)
    if not leaf:
        return found
    added, _, removed = found or (None, None, None)
    return (added, {}, removed)


def _whole_list(shape: ListShape, items: list[Any] | None) -> Fields:
    out: Fields = {}
    for element, found in _by_element(shape, items or []).items():
        out[element] = {} if len(found) > 1 else _whole(shape.element, found[0])
    return out


def reading_of(shape: Shape, value: Any) -> type:
    """Return the reading of a value: its own kind, or if the schema has no such reading (or the value is null), the schema's first."""
    kind = dict if isinstance(value, dict) else list if isinstance(value, list) else None if value is None else str
    has: dict[type, bool] = {dict: shape.map is not None, str: bool(shape.scalar), list: shape.list is not None}
    if kind is not None and has[kind]:
        return kind
    return next(reading for reading, present in has.items() if present)


def _as(reading: type, value: Any) -> Any:
    if reading is str:
        return value
    return value if isinstance(value, reading) else None
