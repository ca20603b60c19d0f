"""A body of a built-in kind that Go cannot decode into its struct: the 400 with the words of Go's decoder.

Promises: the first mistake in the order of the body is told, as `json: cannot unmarshal T into Go struct field S.path of type G`, or with the
words of the type's own decoder (quantities, times, base64). Names that are no fields are none of this module's business.
"""

from __future__ import annotations

from typing import Any, Final

from konverge.testing.apiserver.admission.quantity import Quantity
from konverge.testing.apiserver.nodes import Node
from konverge.testing.apiserver.resources import Resource, Version
from konverge.testing.apiserver.statuses import StatusError, bad_request
from konverge.testing.apiserver.strategies.base64s import wrong_base64
from konverge.testing.apiserver.strategies.gotypes import Mark, go_name, marks
from konverge.testing.apiserver.strategies.normalise import special
from konverge.testing.apiserver.strategies.times import canonical_time

__all__ = ["decode_errors"]

_UNMARKED: Final = Mark()
_LIMITS: Final = {"int32": 2**31, "int64": 2**63}


class _Wrong(Exception):
    """Carries the words out of the walk."""


def decode_errors(resource: Resource, version: Version, node: Node, data: Any) -> StatusError | None:
    """Return the refusal of a body that does not fit the kind's Go types, None for one that does."""
    kind = resource.kind
    try:
        _struct(node, data, kind, "")
    except _Wrong as found:
        return bad_request(f'{kind} in version "{version.name}" cannot be handled as a {kind}: {found}')
    return None


def _struct(node: Node, data: dict[str, Any], name: str, path: str) -> None:
    marked = marks(node)
    for key, value in data.items():
        child = node.properties.get(key)
        if child is None or value is None:
            continue
        mark = marked.get(key, _UNMARKED)
        inner = ".".join(part for part in (path, mark.embedded, key) if part)
        _value(child, mark.type or go_type(child), value, name, inner)


def go_type(node: Node) -> str:
    """Return the Go type of a place as reflection prints it, as far as OpenAPI tells."""
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


def _value(node: Node, type_: str, value: Any, struct: str, path: str) -> None:
    kind = special(node)
    if kind:
        _special(kind, value, struct, path)
        return
    if node.type not in ("array", "object"):
        _scalar(node, type_, value, struct, path)
        return
    if not isinstance(value, list if node.type == "array" else dict):
        raise _cannot(value, struct, path, type_)
    if node.type == "array" and node.items is not None:
        element = type_.removeprefix("[]") if type_.startswith("[]") else go_type(node.items)
        for each in value:
            if each is not None:
                _value(node.items, element, each, struct, path)
    elif node.properties:
        _struct(node, value, go_name(node)[2] or struct, path)
    elif node.additional is not None:
        element = type_.partition("]")[2] if type_.startswith("map[") else go_type(node.additional)
        for each in value.values():
            if each is not None:
                _value(node.additional, element, each, struct, path)


def _scalar(node: Node, type_: str, value: Any, struct: str, path: str) -> None:
    fits = {
        "string": isinstance(value, str),
        "boolean": isinstance(value, bool),
        "number": isinstance(value, (int, float)) and not isinstance(value, bool),
        "integer": isinstance(value, int) and not isinstance(value, bool),
    }.get(node.type, True)
    if not fits:
        raise _cannot(value, struct, path, type_, literal=node.type == "integer")
    limit = _LIMITS.get(type_)
    if node.type == "integer" and limit is not None and not -limit <= value < limit:
        raise _cannot(value, struct, path, type_, literal=True)


def _special(kind: str, value: Any, struct: str, path: str) -> None:
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
    except ValueError as found:
        raise _Wrong(str(found)) from None


def _cannot(value: Any, struct: str, path: str, type_: str, *, literal: bool = False) -> _Wrong:
    shown = {bool: "bool", str: "string", list: "array", dict: "object"}.get(type(value), "number")
    if literal and shown == "number":
        shown += f" {value}"
    return _Wrong(f"json: cannot unmarshal {shown} into Go struct field {struct}.{path} of type {type_}")
