"""The sizes that a schema allows at each place; the costs of rules are estimated from them.

Guarantees: pure. Follows k8s.io/apiserver `pkg/cel/common/schemas.go`: a missing bound is derived from the largest request. Places that
rules cannot read have no size (see `kinds.declared`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from konverge_testing.apiserver.cel.escaping import escape
from konverge_testing.apiserver.cel.kinds import rooted
from konverge_testing.apiserver.nodes import Node

__all__ = ["MAX_REQUEST", "Sized", "sized"]

MAX_REQUEST: Final = 3 << 20
_BYTES_OF_RUNE: Final = 4
_TIMES: Final = {"duration": (32, 3), "date": (12, 12), "date-time": (32, 21)}
"""Of string formats: the maximum length of the text, and its minimum length in JSON."""
_SCALARS: Final = {"boolean": 4, "number": 1, "integer": 1}
"""Of types with a fixed size: the minimum length of the text in JSON."""


@dataclass(frozen=True, slots=True)
class Sized:
    """The maximum number of elements of a value (characters, items, entries; 0 for other values), and the minimum size of its JSON in
    bytes.
    """

    most: int
    least_bytes: int
    fields: Mapping[str, Sized] = field(default_factory=dict)
    items: Sized | None = None
    """Of a list or a map, its values."""
    keys: Sized | None = None

    def at(self, path: tuple[str, ...]) -> Sized | None:
        """Return the size of the value below, or None if the path leaves the schema."""
        here: Sized | None = self
        for step in path:
            if here is None:
                return None
            here = (
                here.items if step in ("@items", "@values") else here.keys if step == "@keys" else here.fields.get(step)
            )
        return here

    def capped(self, most: int) -> Sized:
        """Return these sizes, limited to a maximum for every value."""
        below = {name: one.capped(most) for name, one in self.fields.items()}
        items = None if self.items is None else self.items.capped(most)
        return Sized(min(self.most, most), self.least_bytes, below, items, self.keys)


_KEY: Final = Sized(0, 2)


def sized(node: Node, root: bool = False) -> Sized | None:
    """Return the sizes of a place and below, or None if rules cannot read it."""
    longest = node.schema.get("maxLength")
    if node.int_or_string:
        return Sized(MAX_REQUEST - 2 if longest is None else _positive(longest) * _BYTES_OF_RUNE, 1)
    if root:
        node = rooted(node)
    match node.type:
        case "array":
            item = None if node.items is None else sized(node.items, node.items.embedded)
            if item is None:
                return None
            most = node.schema.get("maxItems")
            found = (MAX_REQUEST - 2) // (item.least_bytes + 1) if most is None else _positive(most)
            return Sized(found, 2, items=item)
        case "object" if isinstance(node.schema.get("additionalProperties"), Mapping):
            return _map(node)
        case "object":
            return _object(node)
        case "string":
            return _string(node.schema)
        case other:
            least = _SCALARS.get(other)
            return None if least is None else Sized(0, least)


def _map(node: Node) -> Sized | None:
    child = node.additional
    assert child is not None
    value = sized(child, child.embedded)
    if value is None:
        return None
    most = node.schema.get("maxProperties")
    found = (MAX_REQUEST - 2) // (value.least_bytes + 6) if most is None else _positive(most)
    return Sized(found, 2, items=value, keys=_KEY)


def _object(node: Node) -> Sized:
    required = node.schema.get("required") or ()
    fields, least = dict[str, Sized](), 2
    for name, child in node.properties.items():
        found = sized(child, child.embedded)
        if found is None:
            continue
        escaped = escape(name)
        if escaped is not None:
            fields[escaped] = found
        if name in required and child.schema.get("default") is None:
            least += len(name) + found.least_bytes + 4
    return Sized(0, least, fields)


def _string(schema: Mapping[str, Any]) -> Sized:
    longest, form = schema.get("maxLength"), str(schema.get("format", ""))
    if form in _TIMES:
        return Sized(*_TIMES[form])
    if longest is not None:
        return Sized(_positive(longest) * (1 if form == "byte" else _BYTES_OF_RUNE), 2)
    texts = [len(one.encode()) for one in schema.get("enum") or () if isinstance(one, str)]
    return Sized(max(texts, default=0) if schema.get("enum") and form != "byte" else MAX_REQUEST - 2, 2)


def _positive(number: Any) -> int:
    return max(int(number), 0)
