"""Checks embedded objects: they need a kind, an apiVersion, and valid metadata.

Guarantees: pure; data has passed `prune`. Source: apiextensions `pkg/apiserver/schema/objectmeta/validation.go`.
"""

from __future__ import annotations

from typing import Any

from konverge_testing.apiserver.names import dns1035_label, name_errors
from konverge_testing.apiserver.nodes import Node
from konverge_testing.apiserver.schemas.metadata import common_errors
from konverge_testing.apiserver.schemas.traits import has_embedded, map_values
from konverge_testing.apiserver.statuses import FieldError

__all__ = ["embedded_errors"]


def embedded_errors(node: Node, value: Any, path: str = "") -> list[FieldError]:
    """Return the errors of the embedded objects at or below a place."""
    found: list[FieldError] = []
    if not has_embedded(node):
        return found
    if isinstance(value, dict):
        if node.embedded:
            found += _object_errors(value, path)
        values = map_values(node)
        for key, item in value.items():
            child = node.properties.get(key)
            if child is not None:
                found += embedded_errors(child, item, _join(path, key))
            elif values is not None:
                found += embedded_errors(values, item, f"{path}[{key}]")
    elif isinstance(value, list) and node.items is not None:
        for index, item in enumerate(value):
            found += embedded_errors(node.items, item, f"{path}[{index}]")
    return found


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _object_errors(value: dict[str, Any], path: str) -> list[FieldError]:
    found = [FieldError("Required", _join(path, name)) for name in ("apiVersion", "kind") if name not in value]
    for key, item in value.items():
        here = _join(path, key)
        if key in ("apiVersion", "kind"):
            words = "must be a string" if not isinstance(item, str) else _type_words(key, item)
            if words:
                found.append(FieldError("Invalid", here, item, words))
        elif key == "metadata" and isinstance(item, dict):
            found += _metadata_errors(item, here)
    return found


def _type_words(key: str, text: str) -> str:
    if not text:
        return "must not be empty"
    if key == "apiVersion":
        return f"unexpected GroupVersion string: {text}" if text.count("/") > 1 else ""
    wrong = dns1035_label(text.lower())
    return f"may have mixed case, but should otherwise match: {','.join(wrong)}" if wrong else ""


def _metadata_errors(metadata: dict[str, Any], path: str) -> list[FieldError]:
    prefix, name = metadata.get("generateName") or "", metadata.get("name") or "fakename"
    found = [
        FieldError("Invalid", f"{path}.generateName", prefix, words)
        for words in name_errors("path", prefix, prefix=True)
    ]
    found += [FieldError("Invalid", f"{path}.name", name, words) for words in name_errors("path", name)]
    return found + common_errors(metadata, path, namespaced=bool(metadata.get("namespace")))
