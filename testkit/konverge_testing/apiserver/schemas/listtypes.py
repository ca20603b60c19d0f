"""Checks that lists of type set or map have no two items with the same value or key.

Guarantees: pure. Source: apiextensions `pkg/apiserver/schema/listtype/validation.go`. From the third on, equal items are not reported
again.
"""

from __future__ import annotations

from typing import Any, Final

from konverge_testing.apiserver.golang import compact
from konverge_testing.apiserver.nodes import Node
from konverge_testing.apiserver.schemas.traits import has_list_types, map_values
from konverge_testing.apiserver.statuses import FieldError

__all__ = ["list_errors"]

_UNSET: Final = object()
_SLOT: Final = "_schemas_lists"

_Plan = tuple[str, list[tuple[str, Node]], Node | None, Node | None]
"""The list type of a place, and its fields, map values and items with such lists below."""


def list_errors(node: Node, value: Any, path: str = "") -> list[FieldError]:
    """Return the duplicates in sets and keyed lists below a place."""
    kind, fields, values, items = node.__dict__.get(_SLOT) or _plan(node)
    found: list[FieldError] = []
    if value.__class__ is list:
        if kind == "set":
            found += [FieldError("Duplicate", f"{path}[{index}]", value[index]) for index in _repeated(value)]
        elif kind == "map":
            found += _keyed(node, value, path)
        if items is not None:
            for index, item in enumerate(value):
                found += list_errors(items, item, f"{path}[{index}]")
    elif value.__class__ is dict:
        if values is not None:
            for key, item in value.items():
                found += list_errors(values, item, f"{path}[{key}]")
        for key, child in fields:
            if key in value:
                found += list_errors(child, value[key], f"{path}.{key}" if path else key)
    return found


def _plan(node: Node) -> _Plan:
    fields = [(name, child) for name, child in node.properties.items() if has_list_types(child)]
    values, items = map_values(node), node.items
    plan = (
        str(node.schema.get("x-kubernetes-list-type") or ""),
        fields,
        values if values is not None and has_list_types(values) else None,
        items if items is not None and has_list_types(items) else None,
    )
    node.__dict__[_SLOT] = plan
    return plan


def _repeated(values: list[Any]) -> list[int]:
    seen: dict[Any, int] = {}
    found = []
    for index, value in enumerate(values):
        key = compact(value) if isinstance(value, (dict, list)) else value
        times = seen[value.__class__, key] = seen.get((value.__class__, key), 0) + 1
        if times == 2:
            found.append(index)
    return found


def _keyed(node: Node, value: list[Any], path: str) -> list[FieldError]:
    for index, item in enumerate(value):
        if item is not None and not isinstance(item, dict):
            words = "must be an object for an array of list-type map"
            return [FieldError("Invalid", f"{path}[{index}]", item, words)]
    if len(value) <= 1:
        return []
    names = node.list_keys
    if len(names) == 1:
        single = [(item or {}).get(names[0], _UNSET) for item in value]
        repeated = _repeated(single)
        return [
            FieldError("Duplicate", f"{path}[{index}]", {} if single[index] is _UNSET else {names[0]: single[index]})
            for index in repeated
        ]
    keys = [{name: item[name] for name in names if name in item} if item else {} for item in value]
    return [FieldError("Duplicate", f"{path}[{index}]", keys[index]) for index in _repeated(keys)]
