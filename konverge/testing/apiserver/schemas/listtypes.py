"""Lists that are sets or maps hold no two items of one value or key.

Promises: pure. Source: apiextensions `pkg/apiserver/schema/listtype/validation.go`. From the third on, equal items are not reported again.
"""

from __future__ import annotations

from typing import Any, Final

from konverge.testing.apiserver.nodes import Node
from konverge.testing.apiserver.schemas.golang import compact
from konverge.testing.apiserver.schemas.traits import has_list_types, map_values
from konverge.testing.apiserver.statuses import FieldError

__all__ = ["list_errors"]

_UNSET: Final = object()


def list_errors(node: Node, value: Any, path: str = "") -> list[FieldError]:
    """Return the duplicates in sets and keyed lists below a place."""
    found: list[FieldError] = []
    if not has_list_types(node):
        return found
    if isinstance(value, list):
        kind = node.schema.get("x-kubernetes-list-type")
        if kind == "set":
            found += [FieldError("Duplicate", f"{path}[{index}]", value[index]) for index in _repeated(value)]
        elif kind == "map":
            found += _keyed(node, value, path)
        if node.items is not None and has_list_types(node.items):
            for index, item in enumerate(value):
                found += list_errors(node.items, item, f"{path}[{index}]")
    elif isinstance(value, dict):
        values = map_values(node)
        for key, item in value.items():
            if values is not None:
                found += list_errors(values, item, f"{path}[{key}]")
            child = node.properties.get(key)
            if child is not None:
                found += list_errors(child, item, f"{path}.{key}" if path else key)
    return found


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
