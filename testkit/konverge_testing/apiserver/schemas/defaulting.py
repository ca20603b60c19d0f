"""Structural defaulting: absent fields get their defaults, and nulls that a schema does not allow are removed or replaced by the default.

Guarantees: works in place; every default is a fresh copy. Source: apiextensions
`pkg/apiserver/schema/defaulting/{algorithm,prunenulls}.go`. Null items of a list stay unless the items have a default, as on the server.
The server drops nulls only when it decodes a body. The result of a server-side apply is not decoded, so it keeps them, and validation
refuses them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import msgspec

from konverge_testing.apiserver.nodes import MISSING, Node
from konverge_testing.apiserver.schemas.copying import copied
from konverge_testing.apiserver.schemas.traits import map_values

__all__ = ["default"]

_SLOT: Final = "_schemas_defaulting"
_KNOWN: Final = ("_schemas_defaulted", "_schemas_defaulted_with_nulls")
"""The attributes that cache values without changes, by whether nulls stay."""
_REMEMBERED: Final = 256
_ENCODE: Final = msgspec.json.Encoder().encode

_Plan = tuple[list[tuple[str, Any, bool]], dict[str, Node], Node | None]
"""Defaults (name, value, whether null is valid), named fields, map values."""


def default(node: Node, data: Any, *, done: Collection[str] | None = None, keep_nulls: bool = False) -> None:
    """Fill in defaults below a place, in place; `done`: the fields of a whole object that are known to need no change.

    `keep_nulls` keeps nulls that have no default.
    """
    if data.__class__ is dict:
        _fill(node, data, done, keep_nulls)
    elif data.__class__ is list and (items := node.items) is not None:
        for index, item in enumerate(data):
            if item is None:
                if not items.nullable and _default_of(items) is not None:
                    data[index] = copied(items.default)
                    default(items, data[index], keep_nulls=keep_nulls)
            elif item.__class__ is dict or item.__class__ is list:
                default(items, item, keep_nulls=keep_nulls)


def _remembered(node: Node, data: Any, keep_nulls: bool) -> None:
    """Default a whole object's field; values without changes are cached, since most fields are written again unchanged."""
    known: set[bytes] = node.__dict__.setdefault(_KNOWN[keep_nulls], set())
    text = _ENCODE(data)
    if text in known:
        return
    default(node, data, keep_nulls=keep_nulls)
    if _ENCODE(data) == text:
        if len(known) >= _REMEMBERED:
            known.clear()
        known.add(text)


def _fill(node: Node, data: dict[str, Any], done: Collection[str] | None, keep_nulls: bool) -> None:
    defaults, fields, values = node.__dict__.get(_SLOT) or _plan(node)
    for name, value, nullable in defaults:
        if name not in data or (data[name] is None and not nullable):
            data[name] = copied(value)
    gone: list[str] = []
    for key, item in data.items():
        child = fields.get(key, values)
        if child is None or (done is not None and key in done):
            continue
        if item is None:
            if not child.nullable:
                if _default_of(child) is not None:
                    data[key] = copied(child.default)
                    default(child, data[key], keep_nulls=keep_nulls)
                elif not keep_nulls:
                    gone.append(key)
        elif item.__class__ is dict or item.__class__ is list:
            if done is not None:
                _remembered(child, item, keep_nulls)
            else:
                default(child, item, keep_nulls=keep_nulls)
    for key in gone:
        del data[key]


def _plan(node: Node) -> _Plan:
    fields = node.properties
    found = [(name, child.default, child.nullable) for name, child in fields.items() if _default_of(child) is not None]
    plan = (found, fields, map_values(node))
    node.__dict__[_SLOT] = plan
    return plan


def _default_of(node: Node) -> Any:
    """Return a default, or None if the schema has none: null is not a default on the server."""
    return None if node.default is MISSING else node.default
