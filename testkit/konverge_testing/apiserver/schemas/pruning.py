"""Pruning: drops fields that the schema does not name, and unknown or wrongly typed metadata.

Guarantees: works in place; returns the dropped fields with the server's messages, metadata first, then sorted. A wrong type in metadata
raises StatusError 400. Sources: apiextensions `pkg/apiserver/schema/{pruning,objectmeta}/algorithm.go`, `customresource_handler.go`.

A schema with definitions is a built-in kind's: there, an object without named fields is free-form (RawExtension), and nothing is embedded.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import msgspec

from konverge_testing.apiserver.nodes import Node
from konverge_testing.apiserver.schemas.objectmeta import Malformed, coerce_metadata
from konverge_testing.apiserver.schemas.traits import has_embedded, map_values
from konverge_testing.apiserver.statuses import FieldError, StatusError, bad_request

__all__ = ["coerce_embedded", "prune", "prune_value", "refused"]

_META: Final = frozenset({"apiVersion", "kind", "metadata"})
_SLOT: Final = "_schemas_pruning"
_KNOWN: Final = "_schemas_pruned"
_REMEMBERED: Final = 256
_ENCODE: Final = msgspec.json.Encoder().encode

_Plan = tuple[dict[str, Node], Node | None, bool, bool, bool]
"""Named fields, map values, whether other names are kept, whether the value is a whole object, whether map values are emptied."""


def prune(node: Node, data: Any, *, top: bool = True, done: Collection[str] = ()) -> list[str]:
    """Drop fields that the schema does not have, in place; return `unknown field "path"` for each.

    `top`: data is a whole object, whose metadata is typed. `done` are its fields that are known to need no pruning.
    """
    if not top:
        return [f'unknown field "{path}"' for path in sorted(prune_value(node, data))]
    unknown: list[str] = []
    try:
        if "metadata" in data:
            metadata = coerce_metadata(data["metadata"], unknown)
            data["metadata"] = {} if metadata is None else metadata
        unknown += sorted(_prune_object(node, data, True, False, done))
        if not node.definitions and has_embedded(node):
            unknown += sorted(coerce_embedded(node, data))
    except Malformed as error:
        raise refused(data, str(error)) from None
    return [f'unknown field "{path}"' for path in unknown]


def refused(data: Any, words: str) -> StatusError:
    """Return the refusal of an object that cannot be decoded into its kind."""
    kind, version = data.get("kind") or "", str(data.get("apiVersion") or "").rpartition("/")[2]
    return bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {words}')


def _plan(node: Node) -> _Plan:
    shape = _schema_of_schemas(node)
    fields, values = shape.properties, map_values(shape)
    bare = isinstance(node.schema.get("additionalProperties"), bool) and not node.definitions
    free = bool(node.definitions) and not fields and values is None
    plan = (fields, values, node.preserves_unknown or free, node.embedded, bare)
    node.__dict__[_SLOT] = plan
    return plan


def _schema_of_schemas(node: Node) -> Node:
    """Return the schema for JSONSchemaPropsOrArray and JSONSchemaPropsOrBool, whose published definitions are empty."""
    name, dot, last = node.reference.rpartition(".")
    if last not in ("JSONSchemaPropsOrArray", "JSONSchemaPropsOrBool"):
        return node
    return Node({"$ref": f"#/components/schemas/{name}{dot}JSONSchemaProps"}, node.definitions)


def prune_value(node: Node, value: Any, *, top: bool = False, keep: bool = False) -> list[str]:
    """Drop unknown fields below a place, in place; return their paths. `keep`: unknown fields of the value itself stay."""
    if value.__class__ is dict:
        return _prune_object(node, value, top, keep)
    found: list[str] = []
    if value.__class__ is list:
        items, kept = node.items, node.preserves_unknown or keep
        if items is None and kept:
            return found
        for index, item in enumerate(value):
            if item.__class__ is dict or item.__class__ is list:
                lost = _strip(item) if items is None else prune_value(items, item, keep=kept)
                if lost:
                    found += _under(f"[{index}]", lost)
    return found


def _prune_object(node: Node, value: dict[str, Any], top: bool, keep: bool, done: Collection[str] = ()) -> list[str]:
    fields, values, kept, embedded, bare = node.__dict__.get(_SLOT) or _plan(node)
    found: list[str] = []
    gone: list[str] = []
    for key, item in value.items():
        child = fields.get(key, values)
        kind = item.__class__
        nested = kind is dict or kind is list
        if child is not None and not nested:
            continue
        if key in done or (key in _META and (embedded or top)):
            continue
        if child is not None or bare:
            lost = _lost(child, item, top) if child is not None else _strip(item)
            if lost:
                found += _under(key, lost)
        elif not kept and not keep:
            gone.append(key)
    for key in gone:
        del value[key]
    return found + gone if gone else found


def _lost(node: Node, value: Any, top: bool) -> list[str]:
    """Prune a field; a whole object's fields without losses are cached, since most fields are written again unchanged."""
    if not top:
        return prune_value(node, value)
    known: set[bytes] = node.__dict__.setdefault(_KNOWN, set())
    text = _ENCODE(value)
    if text in known:
        return []
    lost = prune_value(node, value)
    if not lost:
        if len(known) >= _REMEMBERED:
            known.clear()
        known.add(text)
    return lost


def _under(key: str, paths: list[str]) -> list[str]:
    return [f"{key}{path}" if path[:1] == "[" else f"{key}.{path}" for path in paths]


def _strip(value: Any) -> list[str]:
    """Empty objects that have no schema; scalars stay."""
    if isinstance(value, dict):
        found = list(value)
        value.clear()
        return found
    if isinstance(value, list):
        return [path for index, item in enumerate(value) for path in _under(f"[{index}]", _strip(item))]
    return []


def coerce_embedded(node: Node, value: Any, path: str = "") -> list[str]:
    """Convert apiVersion, kind and metadata of embedded objects to the typed form; return unknown metadata fields. Raises Malformed."""
    found: list[str] = []
    if isinstance(value, dict):
        if node.embedded:
            found += _coerce(value, path)
        fields, values = node.properties, map_values(node)
        for key, item in value.items():
            child, here = fields.get(key), f"{path}.{key}" if path else key
            if child is None:
                child, here = values, f"{path}[{key}]"
            if child is not None and has_embedded(child):
                found += coerce_embedded(child, item, here)
    elif isinstance(value, list) and node.items is not None and has_embedded(node.items):
        for index, item in enumerate(value):
            found += coerce_embedded(node.items, item, f"{path}[{index}]")
    return found


def _coerce(value: dict[str, Any], path: str) -> list[str]:
    for name in ("apiVersion", "kind"):
        if name in value and not isinstance(value[name], str):
            raise _misplaced(f"{path}.{name}", value[name], "must be a string")
    unknown: list[str] = []
    if "metadata" in value:
        try:
            metadata = coerce_metadata(value["metadata"], unknown, f"{path}.metadata")
        except Malformed as error:
            raise _misplaced(f"{path}.metadata", value["metadata"], str(error)) from None
        value["metadata"] = {} if metadata is None else metadata
    return unknown


def _misplaced(path: str, value: Any, words: str) -> Malformed:
    error = FieldError("Invalid", path, value, words)
    return Malformed(str(error), error)
