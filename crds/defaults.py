"""Defaults of a structural schema, filled in as the API server does.

Guarantees: pure. A status that is sent with its defaults is stored as it was sent, so that the response holds nothing that its writer did
not send. Source: apiextensions-apiserver `pkg/apiserver/schema/defaulting/algorithm.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

__all__ = ["Defaults", "defaults_in", "filled"]


class Defaults(msgspec.Struct, frozen=True):
    """The defaults inside one schema: of its fields, and nested in its fields, items or values."""

    fields: Mapping[str, bytes]
    below: Mapping[str, Defaults]
    every: Defaults | None = None


def defaults_in(schema: Mapping[str, Any], *, without: tuple[str, ...] = ()) -> Defaults | None:
    """Return the defaults of a schema, `without` those of some of its fields; None if it has none."""
    parts = {name: part for name, part in schema.get("properties", {}).items() if name not in without}
    fields = {name: msgspec.json.encode(part["default"]) for name, part in parts.items() if "default" in part}
    below = {name: inside for name, part in parts.items() if (inside := defaults_in(part)) is not None}
    of_each = schema.get("items") or schema.get("additionalProperties")
    every = defaults_in(of_each) if isinstance(of_each, Mapping) else None
    return Defaults(fields, below, every) if fields or below or every is not None else None


def filled(value: Any, defaults: Defaults) -> Any:
    """Return a value with its defaults; parts without a new default are shared with the argument."""
    if isinstance(value, list):
        return value if defaults.every is None else [filled(item, defaults.every) for item in value]
    if not isinstance(value, dict):
        return value
    if defaults.every is not None:
        return {name: filled(member, defaults.every) for name, member in value.items()}
    result = dict(value)
    for name, default in defaults.fields.items():
        if name not in result:
            result[name] = msgspec.json.decode(default)
    for name, inside in defaults.below.items():
        if name in result:
            result[name] = filled(result[name], inside)
    return result
