"""The parts of a schema in the words of Kubernetes: references, lists with keys, objects with declared fields.

Guarantees: pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from konverge.crds.foreign.documents import Schema
from konverge.errors import UsageError

__all__ = ["Resolved", "is_int_or_string", "is_model", "resolved"]


class Resolved(NamedTuple):
    """A schema without its reference; `component` is the name of the definition, "" for a schema in place."""

    component: str
    schema: Schema


def resolved(schema: Schema, definitions: Mapping[str, Schema]) -> Resolved:
    """Follow the reference of a schema, which OpenAPI v3 of Kubernetes writes as `allOf` with one member.

    Raises UsageError if the document does not have the definition.
    """
    reference: Any = schema.get("$ref")
    parts: Any = schema.get("allOf") or ()
    if reference is None and len(parts) == 1 and "type" not in schema:
        reference = parts[0].get("$ref")
    if reference is None:
        return Resolved("", schema)
    name = str(reference).rpartition("/")[2]
    if name not in definitions:
        raise UsageError(
            f"the document refers to {name} and does not define it; take a whole document of the API server"
        )
    return Resolved(name, definitions[name])


def is_model(schema: Schema) -> bool:
    """Return whether a schema declares fields; an embedded resource may be of any kind, so it has none."""
    return bool(schema.get("properties")) and not schema.get("x-kubernetes-embedded-resource")


def is_int_or_string(schema: Schema) -> bool:
    """Return whether a value is a number or a text; OpenAPI v2 and built-in kinds have a format, CRDs a mark."""
    return schema.get("format") == "int-or-string" or bool(schema.get("x-kubernetes-int-or-string"))
