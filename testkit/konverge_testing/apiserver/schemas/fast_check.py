"""Whether a value needs no further check, by a single walk in C: a schema compiled to a msgspec type that accepts only such values.

Guarantees: pure; `fits` is never true by mistake. An object that fits has nothing to prune, lacks no default, has no invalid null,
and is valid: this saves three walks in Python, since most written objects fit. An object that does not fit may be valid too: schemas that
a type cannot express (junctors, embedded objects, most formats) have no type, and then no object fits. List types and rules are not
checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Annotated, Any, Final, Literal

import msgspec

from konverge_testing.apiserver.golang import MAX_INT64, MIN_INT64
from konverge_testing.apiserver.nodes import MISSING, Node
from konverge_testing.apiserver.schemas.formats import effective
from konverge_testing.apiserver.schemas.patterns import compiled

__all__ = ["fits", "in_order"]

_SLOT: Final = "_schemas_fit"
_AFTER: Final = 4
"""A type takes as long to create as several dozen walks, so it is created only for schemas of repeated writes."""
_ODD: Final = frozenset(
    {"allOf", "anyOf", "oneOf", "not", "multipleOf", "uniqueItems", "x-kubernetes-embedded-resource", "$ref"}
)
_INT64: Final = Annotated[int, msgspec.Meta(ge=MIN_INT64, le=MAX_INT64)]
_INT32: Final = (-(2**31), 2**31 - 1)
_DATE: Final = (
    r"[0-9]{4}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
    r"T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
)
_DATE_TIME: Final = rf"^{_DATE}(?:\.[0-9]{{1,9}})?Z\Z"
"""Times that need no second check; other times may be valid too."""


class _Unfit(Exception):
    """A type cannot express the schema."""


def fits(node: Node, value: Any) -> bool:
    """Tell whether a value needs no further check; see the module."""
    found = node.__dict__.get(_SLOT, 0)
    if found.__class__ is int:
        node.__dict__[_SLOT] = _type(node) if found >= _AFTER else found + 1
        return False
    if found is None:
        return False
    try:
        msgspec.convert(value, found)
    except (msgspec.ValidationError, OverflowError, RecursionError):
        return False
    return True


def in_order(node: Node, data: Mapping[str, Any], like: Mapping[str, Any] | None = None) -> set[str]:
    """Return the fields of a whole object, except metadata, that fit, or that are the same object in memory as the field of `like`."""
    done = set()
    for name, value in data.items():
        if (value.__class__ is not dict and value.__class__ is not list) or name == "metadata":
            continue
        child = node.properties.get(name)
        if (like is not None and like.get(name) is value) or (child is not None and fits(child, value)):
            done.add(name)
    return done


def _type(node: Node) -> Any:
    try:
        return _type_of(node.schema, count())
    except _Unfit:
        return None


def _type_of(schema: Mapping[str, Any], numbers: Iterator[int]) -> Any:
    """Return the type of a place. Raises _Unfit."""
    if schema.get("x-kubernetes-int-or-string"):
        if set(schema) - {"x-kubernetes-int-or-string", "anyOf", "description", "default", "nullable"}:
            raise _Unfit
        found: Any = _INT64 | str
    elif not _ODD.isdisjoint(schema):
        raise _Unfit
    else:
        kind = schema.get("type", "")
        if kind not in _MAKERS:
            raise _Unfit
        found = _MAKERS[kind](schema, numbers)
    return found | None if schema.get("nullable") else found


def _string(schema: Mapping[str, Any], _: Iterator[int]) -> Any:
    bounds = {"min_length": schema.get("minLength") or None, "max_length": schema.get("maxLength")}
    pattern, form = schema.get("pattern"), effective(schema)
    if (values := schema.get("enum")) is not None:
        if (
            pattern
            or form
            or any(one is not None for one in bounds.values())
            or schema.get("nullable")
            or not all(isinstance(one, str) for one in values)
        ):
            raise _Unfit
        return Literal[tuple(values)]
    if form:
        if form.replace("-", "") != "datetime" or pattern:
            raise _Unfit
        bounds["pattern"] = _DATE_TIME
    elif pattern:
        known = compiled(pattern)
        bounds["pattern"] = f"(?a:{known.pattern})" if known.pattern.isascii() else known.pattern
    return Annotated[str, msgspec.Meta(**bounds)] if any(one is not None for one in bounds.values()) else str


def _integer(schema: Mapping[str, Any], _: Iterator[int]) -> Any:
    if "enum" in schema or schema.get("exclusiveMinimum") or schema.get("exclusiveMaximum"):
        raise _Unfit
    low, high = _INT32 if effective(schema) == "int32" else (MIN_INT64, MAX_INT64)
    least, most = schema.get("minimum", low), schema.get("maximum", high)
    if not all(isinstance(one, int) and low <= one <= high for one in (least, most)):
        raise _Unfit
    return Annotated[int, msgspec.Meta(ge=least, le=most)]


def _number(schema: Mapping[str, Any], _: Iterator[int]) -> Any:
    if not {"enum", "minimum", "maximum"}.isdisjoint(schema) or effective(schema) == "float":
        raise _Unfit
    return float


def _boolean(schema: Mapping[str, Any], _: Iterator[int]) -> Any:
    if "enum" in schema:
        raise _Unfit
    return bool


def _array(schema: Mapping[str, Any], numbers: Iterator[int]) -> Any:
    items = schema.get("items")
    if "enum" in schema or not isinstance(items, Mapping) or items.get("default") is not None:
        raise _Unfit
    bounds = {"min_length": schema.get("minItems") or None, "max_length": schema.get("maxItems")}
    found: Any = list[_type_of(items, numbers)]  # type: ignore[misc]  # types made at run time
    return Annotated[found, msgspec.Meta(**bounds)] if any(one is not None for one in bounds.values()) else found


def _object(schema: Mapping[str, Any], numbers: Iterator[int]) -> Any:
    if not {"enum", "minProperties", "maxProperties"}.isdisjoint(schema):
        raise _Unfit
    properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
    loose = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    if loose and not properties and not schema.get("required"):
        if additional is not None:
            raise _Unfit
        return dict[str, Any]
    if additional is not None:
        if loose or properties or schema.get("required") or not isinstance(additional, Mapping):
            raise _Unfit
        return dict[str, _type_of(additional, numbers)]  # type: ignore[misc]  # types made at run time
    required = set(schema.get("required") or ())
    if not required <= properties.keys():
        raise _Unfit
    fields, names = [], {}
    for name, below in properties.items():
        own = f"f{next(numbers)}"
        names[own] = name
        needed = name in required or below.get("default", MISSING) not in (MISSING, None)
        fields.append((own, _type_of(below, numbers), *(() if needed else (None,))))
    fields.sort(key=len)
    return msgspec.defstruct(f"Object{next(numbers)}", fields, rename=names, forbid_unknown_fields=not loose, gc=False)


def _anything(schema: Mapping[str, Any], _: Iterator[int]) -> Any:
    """Return the type of a place without a type, where any value is kept."""
    if not schema.get("x-kubernetes-preserve-unknown-fields") or schema.keys() - _LOOSE:
        raise _Unfit
    return bool | int | float | str | list[Any] | dict[str, Any]


_LOOSE: Final = frozenset({"x-kubernetes-preserve-unknown-fields", "description", "default", "nullable"})
_MAKERS: Final = {
    "": _anything,
    "array": _array,
    "boolean": _boolean,
    "integer": _integer,
    "number": _number,
    "object": _object,
    "string": _string,
}
