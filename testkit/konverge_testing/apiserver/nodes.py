"""Schemas as the server walks them: one `Node` for each place of an object, from OpenAPI v3 of a CRD or of a built-in kind.

Guarantees: pure; a node never changes. References (`$ref`, `allOf` of one) are followed when a place is first visited,
so recursive schemas (JSONSchemaProps) are supported. `raw` has the rest of the schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal

__all__ = ["ANYTHING", "MISSING", "Definitions", "Node"]

MISSING: Final[Any] = object()
"""Marks the absence of a default (None is a legal default)."""

Definitions = Mapping[str, Mapping[str, Any]]
"""Schemas by name, as `components.schemas` of an OpenAPI v3 document; {} for a CRD."""

_REF: Final = "#/components/schemas/"


@dataclass(eq=False)
class Node:
    """The schema of one place: its type, the schemas below it, and how lists and maps merge.

    >>> node = Node({"type": "object", "properties": {"ports": {"type": "array", "items": {"type": "integer"}}}})
    >>> node.properties["ports"].items.type
    'integer'
    """

    raw: Mapping[str, Any]
    definitions: Definitions = field(default_factory=dict, repr=False)

    @cached_property
    def schema(self) -> Mapping[str, Any]:
        """The schema with its reference followed; siblings of the reference (default, description) win."""
        here: Mapping[str, Any] = self.raw
        while (target := _target(here)) is not None:
            siblings = {key: value for key, value in here.items() if key not in ("$ref", "allOf")}
            here = {**self.definitions[target], **siblings}
        return here

    @cached_property
    def reference(self) -> str:
        """The name of the definition that this place refers to; "" for an inline schema."""
        return _target(self.raw) or ""

    @cached_property
    def type(self) -> str:
        """`object`, `array`, `string`, `integer`, `number`, `boolean`; "" if any type is valid."""
        return str(self.schema.get("type", ""))

    @cached_property
    def properties(self) -> dict[str, Node]:
        """The named fields of an object."""
        found = self.schema.get("properties") or {}
        return {name: Node(schema, self.definitions) for name, schema in found.items()}

    @cached_property
    def additional(self) -> Node | None:
        """The schema of a map's values; None if other names than `properties` are unknown."""
        found = self.schema.get("additionalProperties")
        if isinstance(found, Mapping):
            return Node(found, self.definitions)
        return ANYTHING if found is True else None

    @cached_property
    def items(self) -> Node | None:
        """The schema of a list's items."""
        found = self.schema.get("items")
        return Node(found, self.definitions) if isinstance(found, Mapping) else None

    @cached_property
    def list_type(self) -> Literal["atomic", "map", "set"]:
        """How a list merges; atomic if the schema has no list type."""
        found: Literal["atomic", "map", "set"] = self.schema.get("x-kubernetes-list-type", "atomic")
        return found

    @cached_property
    def list_keys(self) -> tuple[str, ...]:
        """The keys of a list of type map."""
        return tuple(self.schema.get("x-kubernetes-list-map-keys") or ())

    @cached_property
    def atomic(self) -> bool:
        """Whether this place is owned as a whole: scalars, atomic lists, atomic maps and structs."""
        if self.type == "array":
            return self.list_type == "atomic"
        return self.schema.get("x-kubernetes-map-type") == "atomic"

    @cached_property
    def preserves_unknown(self) -> bool:
        """Whether fields outside the schema are kept."""
        return bool(self.schema.get("x-kubernetes-preserve-unknown-fields"))

    @cached_property
    def embedded(self) -> bool:
        """Whether the value is a whole Kubernetes object."""
        return bool(self.schema.get("x-kubernetes-embedded-resource"))

    @cached_property
    def int_or_string(self) -> bool:
        """Whether the value is an integer or a string."""
        return bool(self.schema.get("x-kubernetes-int-or-string")) or self.schema.get("format") == "int-or-string"

    @cached_property
    def nullable(self) -> bool:
        """Whether null is a value of its own."""
        return bool(self.schema.get("nullable"))

    @cached_property
    def default(self) -> Any:
        """The default, or MISSING if there is none."""
        return self.schema.get("default", MISSING)

    @cached_property
    def merge_key(self) -> str:
        """The key of a strategic merge of this list, or "" if it has none."""
        return str(self.schema.get("x-kubernetes-patch-merge-key", ""))

    @cached_property
    def merge_strategy(self) -> tuple[str, ...]:
        """The strategies of a strategic merge: any of `merge`, `replace`, `retainKeys`."""
        return (
            tuple(str(self.schema.get("x-kubernetes-patch-strategy", "")).replace(" ", "").split(","))
            if self.schema.get("x-kubernetes-patch-strategy")
            else ()
        )

    def child(self, name: str) -> Node | None:
        """Return the schema of a field: a property, else the map's values, else None."""
        found = self.properties.get(name)
        return self.additional if found is None else found


def _target(schema: Mapping[str, Any]) -> str | None:
    reference = schema.get("$ref")
    if reference is None:
        several = schema.get("allOf")
        if isinstance(several, list) and len(several) == 1 and "$ref" in several[0]:
            reference = several[0]["$ref"]
    return str(reference).removeprefix(_REF) if reference is not None else None


ANYTHING: Final = Node({"x-kubernetes-preserve-unknown-fields": True})
"""The schema of a place where everything is allowed."""
