"""The shape of a kind's conditions, read from the OpenAPI document that the server publishes.

The library writes conditions as metav1.Condition. Built-in kinds and other people's CRDs have other fields (a Job's condition has no
observedGeneration, and an apply with a field that is not declared is refused), and some declare their conditions as an atomic list (an
apply replaces all of it).

Guarantees: pure. A schema that does not describe its conditions gives None, which means metav1.Condition in a list by type.

List types: https://kubernetes.io/docs/reference/using-api/server-side-apply/#merge-strategy
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from konverge.kinds import Kind

__all__ = ["ConditionShape", "document_path", "resolved", "schema_in", "schemas_in", "shape_in"]

_REFERENCE = "#/components/schemas/"


class ConditionShape(msgspec.Struct, frozen=True):
    """The fields that a condition of a kind has, and whether the server merges conditions by their type."""

    fields: frozenset[str]
    by_type: bool


def document_path(kind: Kind[Any]) -> str:
    """Return the path of the OpenAPI document of a kind's group and version."""
    return f"/openapi/v3/apis/{kind.api_version}" if kind.group else f"/openapi/v3/api/{kind.api_version}"


def shape_in(document: Any, kind: Kind[Any]) -> ConditionShape | None:
    """Return the shape of a kind's conditions; None if any field is allowed in them. Raises LookupError if the document lacks the kind."""
    schema, schemas = schema_in(document, kind), schemas_in(document)
    conditions = _field(_field(schema, "status", schemas), "conditions", schemas)
    entry = resolved(conditions.get("items"), schemas)
    fields = _mapping(entry.get("properties"))
    if not fields or entry.get("x-kubernetes-preserve-unknown-fields"):
        return None
    by_type = conditions.get("x-kubernetes-list-type") == "map" and conditions.get("x-kubernetes-list-map-keys") == [
        "type"
    ]
    return ConditionShape(frozenset(fields), by_type)


def schemas_in(document: Any) -> Mapping[str, Any]:
    """Return the schemas of a document by name."""
    return _mapping(_mapping(_mapping(document).get("components")).get("schemas"))


def schema_in(document: Any, kind: Kind[Any]) -> Mapping[str, Any]:
    """Return the schema of a kind. Raises LookupError if the document lacks the kind."""
    wanted = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    for schema in schemas_in(document).values():
        if wanted in (_mapping(schema).get("x-kubernetes-group-version-kind") or ()):
            return _mapping(schema)
    raise LookupError(f"the document has no schema of {kind.group_kind}")


def _field(schema: Any, name: str, schemas: Mapping[str, Any]) -> Mapping[str, Any]:
    return resolved(_mapping(_mapping(schema).get("properties")).get(name), schemas)


def resolved(schema: Any, schemas: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema with its references resolved, also those in allOf; its own keys win over the referenced keys."""
    own = _mapping(schema)
    merged: dict[str, Any] = {}
    for part in (own, *(own.get("allOf") or ())):
        reference = str(_mapping(part).get("$ref", ""))
        if reference.startswith(_REFERENCE):
            merged |= _mapping(schemas.get(reference.removeprefix(_REFERENCE)))
    return {**merged, **own}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
