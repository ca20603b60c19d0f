"""A body of a built-in kind that Go cannot decode into its struct: the 400 with the words of Go's decoder.

Guarantees: the first mistake in the order of the body is reported, as `json: cannot unmarshal T into Go struct field S.path of type G`, or
with the words of the type's own decoder (quantities, times, base64). This module ignores unknown fields.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any, Final
from weakref import WeakKeyDictionary

from konverge.quantities import Quantity
from konverge_testing.apiserver.base64s import wrong_base64
from konverge_testing.apiserver.nodes import Node
from konverge_testing.apiserver.statuses import StatusError, bad_request
from konverge_testing.apiserver.strategies.gotypes import Mark, go_name, marks
from konverge_testing.apiserver.strategies.normalise import special
from konverge_testing.apiserver.strategies.times import canonical_time

__all__ = ["decode_errors"]

_UNMARKED: Final = Mark()
_QUICK: Final = {"string": str, "boolean": bool, "any": dict}
_JSON_TYPES: Final = frozenset({"string", "boolean", "number", "integer"})
_LIMITS: Final = {"int32": 2**31, "int64": 2**63}


class _Wrong(Exception):
    """Ends the walk with the decoder's message."""


class _Place:
    """A place of the schema with its Go type, created when it is first visited."""

    def __init__(self, node: Node, type_: str = "", embedded: str = "") -> None:
        self.node = node
        self.type = type_ or go_type(node)
        self.embedded = embedded
        self.kind = special(node) or node.type
        self.quick = _QUICK.get(self.kind)
        """The Python type of values that need no further check."""
        self.struct = go_name(node)[2]

    @cached_property
    def fields(self) -> dict[str, _Place]:
        """The places below a struct."""
        marked = marks(self.node)
        children = ((name, child, marked.get(name, _UNMARKED)) for name, child in self.node.properties.items())
        return {name: _Place(child, mark.type, mark.embedded) for name, child, mark in children}

    @cached_property
    def element(self) -> _Place | None:
        """The place of the items of a list or the values of a map."""
        if self.node.type == "array" and self.node.items is not None:
            return _Place(self.node.items, self.type.removeprefix("[]") if self.type.startswith("[]") else "")
        if self.node.type == "object" and not self.node.properties and self.node.additional is not None:
            return _Place(self.node.additional, self.type.partition("]")[2] if self.type.startswith("map[") else "")
        return None


_places: WeakKeyDictionary[Node, _Place] = WeakKeyDictionary()

Path = tuple[str, ...]


def decode_errors(kind: str, version: str, node: Node, data: Any) -> StatusError | None:
    """Return the refusal of a body that does not fit the kind's Go types, None if it fits."""
    place = _places.get(node)
    if place is None:
        place = _places[node] = _Place(node)
    try:
        _struct(place, data, kind, ())
    except _Wrong as error:
        return bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {error}')
    return None


def _struct(place: _Place, data: dict[str, Any], name: str, path: Path) -> None:
    fields = place.fields
    for key, value in data.items():
        child = fields.get(key)
        if child is None or value is None or type(value) is child.quick:
            continue
        _value(child, value, name, (*path, child.embedded, key) if child.embedded else (*path, key))


def go_type(node: Node) -> str:
    """Return the Go type of a place as reflection prints it, as far as OpenAPI has it."""
    if node.schema.get("format") == "byte":
        return "[]uint8"
    if node.type == "array" and node.items is not None:
        return f"[]{go_type(node.items)}"
    if node.type == "object" and not node.properties and node.additional is not None:
        return f"map[string]{go_type(node.additional)}"
    if node.reference:
        return ".".join(go_name(node)[1:])
    if node.type == "integer":
        return str(node.schema.get("format", "int32"))
    return {"boolean": "bool", "number": "float64"}.get(node.type, node.type or "string")


def _value(place: _Place, value: Any, struct: str, path: Path) -> None:
    if place.kind == "array":
        if not isinstance(value, list):
            raise _cannot(value, struct, path, place.type)
        _elements(place, value, struct, path)
    elif place.kind == "object":
        if not isinstance(value, dict):
            raise _cannot(value, struct, path, place.type)
        if place.node.properties:
            _struct(place, value, place.struct or struct, path)
        else:
            _elements(place, value.values(), struct, path)
    elif place.kind in _JSON_TYPES:
        _scalar(place, value, struct, path)
    else:
        _special(place.kind, value, struct, path)


def _elements(place: _Place, values: Iterable[Any], struct: str, path: Path) -> None:
    element = place.element
    for each in values if element is not None else ():
        if element is not None and each is not None and type(each) is not element.quick:
            _value(element, each, struct, path)


def _scalar(place: _Place, value: Any, struct: str, path: Path) -> None:
    fits = {
        "string": isinstance(value, str),
        "boolean": isinstance(value, bool),
        "number": isinstance(value, (int, float)) and not isinstance(value, bool),
        "integer": isinstance(value, int) and not isinstance(value, bool),
    }[place.kind]
    limit = _LIMITS.get(place.type)
    if not fits or (place.kind == "integer" and limit is not None and not -limit <= value < limit):
        raise _cannot(value, struct, path, place.type, literal=place.kind == "integer")


def _special(kind: str, value: Any, struct: str, path: Path) -> None:
    try:
        if kind == "quantity":
            Quantity.parse(str(value).lower() if isinstance(value, bool) else value)
        elif kind in ("time", "microtime"):
            if not isinstance(value, str):
                raise _cannot(value, struct, path, "string")
            canonical_time(value, micro=kind == "microtime")
        elif (
            kind == "intstr" and not isinstance(value, str) and (isinstance(value, bool) or not isinstance(value, int))
        ):
            raise _cannot(value, struct, path, "int32", literal=True)
        elif kind == "base64":
            if not isinstance(value, str):
                raise _cannot(value, struct, path, "[]uint8")
            if wrong := wrong_base64(value):
                raise _Wrong(wrong)
    except ValueError as error:
        raise _Wrong(str(error)) from None


def _cannot(value: Any, struct: str, path: Path, type_: str, *, literal: bool = False) -> _Wrong:
    shown = {bool: "bool", str: "string", list: "array", dict: "object"}.get(type(value), "number")
    if literal and shown == "number":
        shown += f" {value}"
    return _Wrong(f"json: cannot unmarshal {shown} into Go struct field {struct}.{'.'.join(path)} of type {type_}")
