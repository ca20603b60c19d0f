"""The features that a schema has anywhere below a place, searched once for each node: most schemas have no embedded objects, keyed lists or
rules.

Guarantees: pure; the result is cached on the node. Recursive definitions are visited once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from konverge_testing.apiserver.nodes import ANYTHING, Node

__all__ = ["below", "has_embedded", "has_list_types", "has_rules", "map_values"]

_SLOT: Final = "_schemas_traits"


def map_values(node: Node) -> Node | None:
    """Return the schema of a map's values, or None if it has none (`additionalProperties: true` too)."""
    found = node.additional
    return None if found is ANYTHING else found


def below(node: Node, name: str, wanted: Callable[[Mapping[str, Any]], bool]) -> bool:
    """Tell whether this place or any place below it matches; `name` is the cache key of the result."""
    kept: dict[str, bool] = node.__dict__.setdefault(_SLOT, {})
    if name not in kept:
        kept[name] = any(wanted(place.schema) for place in _places(node, set()))
    return kept[name]


def _places(node: Node, seen: set[str]) -> Iterator[Node]:
    if node.reference:
        if node.reference in seen:
            return
        seen.add(node.reference)
    yield node
    for child in node.properties.values():
        yield from _places(child, seen)
    for one in (map_values(node), node.items):
        if one is not None:
            yield from _places(one, seen)


def has_embedded(node: Node) -> bool:
    """Tell whether any place below is a whole object."""
    return below(node, "embedded", lambda schema: bool(schema.get("x-kubernetes-embedded-resource")))


def has_list_types(node: Node) -> bool:
    """Tell whether any place below is a list of type set or map."""
    return below(node, "lists", lambda schema: schema.get("x-kubernetes-list-type") in ("set", "map"))


def has_rules(node: Node) -> bool:
    """Tell whether any place below has CEL rules."""
    return below(node, "rules", lambda schema: bool(schema.get("x-kubernetes-validations")))
