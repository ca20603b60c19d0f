"""Objects of built-in kinds in the form that decoding into Go structs and encoding again gives them.

Guarantees: `normalise` changes the object in place: nulls and empty or zero values are removed where Go's `omitempty` drops them, and
stay (or appear) in other places; unknown fields are dropped; quantities, times and base64 get their one spelling. It expects an object in
which `decode_errors` found nothing. Storage is protobuf, so an empty list and no list are the same.

Caveats: not for custom resources, which are stored as they are sent.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import WeakKeyDictionary

from konverge.quantities import Quantity
from konverge_testing.apiserver.base64s import canonical_base64
from konverge_testing.apiserver.nodes import MISSING, Node
from konverge_testing.apiserver.strategies.gotypes import Mark, marks
from konverge_testing.apiserver.strategies.times import BadTime, canonical_time

__all__ = ["normalise", "special"]

_UNMARKED: Final = Mark()
_MILLI: Final = 10**6
_SPECIAL: Final = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "time",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": "microtime",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "intstr",
    "io.k8s.apimachinery.pkg.runtime.RawExtension": "any",
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": "any",
}
_ZEROS: Final[dict[str, Any]] = {"string": "", "integer": 0, "number": 0, "boolean": False}


def special(node: Node) -> str:
    """Return the special type of a place beyond OpenAPI's: quantity, time, microtime, intstr, base64, any; "" if it has none."""
    kind = _SPECIAL.get(node.reference, "")
    return "base64" if not kind and node.schema.get("format") == "byte" else kind


@dataclass(slots=True)
class _Field:
    node: Node
    kind: str
    zero: Any
    """The value that is dropped, or MISSING if every value is kept."""
    empty: Any
    """The value that Go writes for an absent field, or MISSING if it writes none."""


@dataclass(slots=True)
class _Struct:
    fields: dict[str, _Field]
    filled: list[tuple[str, Any, Node]] = field(default_factory=list)
    """Fields that appear by themselves."""


_structs: WeakKeyDictionary[Node, _Struct] = WeakKeyDictionary()


def normalise(node: Node, data: dict[str, Any]) -> None:
    """Convert an object, in place, to the form that the server stores."""
    api_version, kind = data.get("apiVersion"), data.get("kind")
    _struct(node, data)
    data.update({key: value for key, value in (("apiVersion", api_version), ("kind", kind)) if value is not None})


def _struct(node: Node, data: dict[str, Any]) -> None:
    plan = _structs.get(node)
    if plan is None:
        plan = _structs[node] = _plan(node)
    for name in list(data):
        field_ = plan.fields.get(name)
        value = data[name]
        if field_ is None or value is None:
            del data[name]
            continue
        value = _value(field_.node, field_.kind, value)
        if field_.zero is not MISSING and value == field_.zero:
            del data[name]
        else:
            data[name] = value
    for name, empty, inner in plan.filled:
        if name not in data:
            data[name] = value = copy.deepcopy(empty)
            if isinstance(value, dict):
                _struct(inner, value)


def _value(node: Node, kind: str, value: Any) -> Any:
    if kind == "object":
        _struct(node, value)
        return value
    if kind == "array":
        item = node.items
        assert item is not None, "an array has items"
        inner = _kind(item)
        return [_element(item, inner, each) for each in value]
    if kind in ("map", "resources"):
        item = node.additional
        assert item is not None, "a map has values"
        inner = "milli" if kind == "resources" else _kind(item)
        return {key: _element(item, inner, each) for key, each in value.items()}
    return _scalar(kind, value)


def _scalar(kind: str, value: Any) -> Any:
    if kind in ("quantity", "milli"):
        quantity = Quantity.parse(value)
        if kind == "milli" and quantity.billionths % _MILLI:
            quantity = Quantity(-(-quantity.billionths // _MILLI) * _MILLI, quantity.format)
        return str(quantity)
    if kind in ("time", "microtime"):
        try:
            return canonical_time(value, micro=kind == "microtime")
        except BadTime:  # read and written before, in a year that has not four digits
            return value
    return canonical_base64(value) if kind == "base64" else value


def _element(node: Node, kind: str, value: Any) -> Any:
    if value is not None:
        return _value(node, kind, value)
    if kind == "object":
        empty: dict[str, Any] = {}
        _struct(node, empty)
        return empty
    return "0" if kind in ("quantity", "milli") else _ZEROS.get(kind)


def _kind(node: Node, mark: Mark = _UNMARKED) -> str:
    if kind := special(node):
        return kind
    if node.type == "object" and not node.properties:
        if mark.type.endswith("ResourceList"):
            return "resources"
        return "map" if node.additional is not None else "object" if node.reference else "any"
    return node.type or "any"


def _plan(node: Node) -> _Struct:
    marked, required = marks(node), set(node.schema.get("required") or ())
    plan = _Struct({})
    for name, child in node.properties.items():
        field_ = _field(child, marked.get(name, _UNMARKED), name in required)
        plan.fields[name] = field_
        if field_.empty is not MISSING:
            plan.filled.append((name, field_.empty, child))
    return plan


def _field(node: Node, mark: Mark, required: bool) -> _Field:
    kind = _kind(node, mark)
    if kind in ("array", "map", "resources", "base64"):
        kept = mark.kept or (required and not mark.omitted)
        nothing: Any = [] if kind == "array" else "" if kind == "base64" else {}
        return _Field(node, kind, nothing, None if kept else MISSING)
    default = node.default
    if kind in _ZEROS:
        kept = mark.kept or (default is not MISSING and not mark.omitted and not mark.pointer)
        if mark.pointer or kept:
            return _Field(node, kind, MISSING, _ZEROS[kind] if mark.kept else default)
        return _Field(node, kind, _ZEROS[kind], MISSING if default in (MISSING, "", 0, False) else default)
    if kind in ("time", "microtime"):
        return _Field(node, kind, MISSING, None if mark.kept else MISSING)
    if kind == "quantity" and mark.kept:
        return _Field(node, kind, MISSING, "0")
    return _Field(node, kind, MISSING, default)
