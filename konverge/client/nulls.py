"""Which nulls of an intent are values, by the schema that the server publishes.

A program writes None for a field that it leaves out, and a few fields have null as a value of their own. Null is a value if the
schema of the field has `nullable: true`, and in a part whose fields the schema does not name, such as the values of a HelmRelease. Any
other null is left out: the API server refuses it in an apply to a custom resource, and in a built-in kind the null claims the field.

Guarantees: pure. `places_in` keeps only the paths to the places where null is a value, so most kinds need no memory.
A schema that contains itself is followed once.

https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#defaulting-and-nullable
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from konverge.client.shapes import resolved, schema_in, schemas_in
from konverge.fields import without_nulls
from konverge.kinds import Kind

__all__ = ["ANYWHERE", "NOWHERE", "NullPlaces", "places_in", "settled"]

_UNKNOWN = "x-kubernetes-preserve-unknown-fields"
_FREE = ("type", "properties", "additionalProperties", "items", "allOf", "oneOf", "anyOf", "$ref")


class NullPlaces(msgspec.Struct, frozen=True):
    """The places at and below one part of an object where null is a value."""

    nullable: bool = False
    """Whether the part itself may be null."""
    unknown: bool = False
    """Whether members that the schema does not name keep their nulls."""
    fields: Mapping[str, NullPlaces] = msgspec.field(default_factory=dict)
    """The named fields; NOWHERE for a field without such a place."""
    members: NullPlaces | None = None
    """The items of a list, or the values of a map."""


NOWHERE = NullPlaces()
ANYWHERE = NullPlaces(nullable=True, unknown=True)
"""The places of a kind whose schema is not published yet."""


def places_in(document: Any, kind: Kind[Any]) -> NullPlaces:
    """Return the places of a kind from its OpenAPI document. Raises LookupError if the document lacks the kind."""
    return _Reader(schemas_in(document)).places(schema_in(document, kind))


class _Reader:
    def __init__(self, schemas: Mapping[str, Any]) -> None:
        self._schemas = schemas
        self._known: dict[str, NullPlaces] = {}

    def places(self, schema: Any) -> NullPlaces:
        if not isinstance(schema, Mapping):
            return NOWHERE
        whole, name = resolved(schema, self._schemas), _reference(schema)
        places = self._known.get(name) if name else None
        if places is None:
            if name:
                self._known[name] = NOWHERE  # for a schema that contains itself
            places = self._read(whole)
            if name:
                self._known[name] = places
        nullable = bool(whole.get("nullable"))
        return places if places.nullable == nullable else replace(places, nullable=nullable)

    def _read(self, schema: Mapping[str, Any]) -> NullPlaces:
        nullable = bool(schema.get("nullable"))
        if not any(name in schema for name in _FREE):
            return NullPlaces(nullable, unknown=True)
        unknown = bool(schema.get(_UNKNOWN))
        properties = schema.get("properties") or {}
        fields = {name: self.places(part) for name, part in properties.items() if name != "metadata"}
        more = schema.get("items") or schema.get("additionalProperties")
        members = self.places(more) if isinstance(more, Mapping) else None
        if nullable or unknown or members not in (None, NOWHERE) or any(part != NOWHERE for part in fields.values()):
            return NullPlaces(nullable, unknown, fields, members)
        return NOWHERE


def _reference(schema: Mapping[str, Any]) -> str:
    parts = (schema, *(schema.get("allOf") or ()))
    references = [str(part["$ref"]) for part in parts if isinstance(part, Mapping) and "$ref" in part]
    return references[0].rpartition("/")[2] if len(references) == 1 else ""


def settled(value: Any, places: NullPlaces) -> Any:
    """Return a copy without the nulls that the schema does not allow.

    >>> values = NullPlaces(fields={"values": NullPlaces(unknown=True), "interval": NOWHERE})
    >>> settled({"values": {"probe": None}, "interval": None}, values)
    {'values': {'probe': None}}
    """
    if places is NOWHERE:
        return without_nulls(value)
    if isinstance(value, (list, tuple)):
        return [settled(item, places.members or NOWHERE) for item in value]
    if not isinstance(value, Mapping):
        return value
    kept: dict[str, Any] = {}
    for name, member in value.items():
        part = places.fields.get(name, places.members)
        if part is None and places.unknown:
            kept[name] = member
        elif member is not None:
            kept[name] = settled(member, part or NOWHERE)
        elif part is not None and part.nullable:
            kept[name] = None
    return kept
