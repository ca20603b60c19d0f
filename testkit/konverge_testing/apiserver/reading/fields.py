"""Field selectors: the grammar, the selectable fields of a kind, and the server's errors.

A field is known if the kind's strategy or the CRD's `selectableFields` name it. Kinds with fields of their own (and all custom kinds)
refuse other fields with one message, other kinds with a different message. Source: k8s.io/apimachinery `pkg/fields/selector.go`,
`pkg/runtime/converter.go` (the default), and each kind's conversion; the texts were recorded from a server of 1.36.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from konverge_testing.apiserver.reading.labels import SelectorError
from konverge_testing.apiserver.resources import Resource

__all__ = ["NAME", "NAMESPACE", "FieldClause", "check_fields", "field_values", "parse_fields"]

NAME: Final = "metadata.name"
NAMESPACE: Final = "metadata.namespace"

_ESCAPED: Final = frozenset({"\\", ",", "="})


@dataclass(frozen=True, slots=True)
class FieldClause:
    """`field=value` (also `==`), or with `equal` false `field!=value`."""

    field: str
    equal: bool
    value: str


@lru_cache(maxsize=512)
def parse_fields(text: str) -> tuple[FieldClause, ...]:
    """Parse a selector. Raises SelectorError."""
    clauses = []
    for term in _terms(text):
        if not term:
            continue
        found = _split(term)
        if found is None:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{term}'")
        field, operator, value = found
        clauses.append(FieldClause(field, operator != "!=", _unescaped(value)))
    return tuple(clauses)


def check_fields(clauses: tuple[FieldClause, ...], resource: Resource, version: str) -> None:
    """Raise SelectorError if a clause names a field that the resource does not have in this served version."""
    own = _own_fields(resource, version)
    known = {NAME, *own}
    # The namespace is unknown to cluster-scoped kinds with fields of their own; the default of all other kinds knows it.
    if resource.namespaced or not (resource.custom or own):
        known.add(NAMESPACE)
    for clause in clauses:
        if clause.field in known:
            continue
        if resource.id == ("batch", "jobs"):
            raise SelectorError(f'field label "{clause.field}" not supported for Job')
        if (resource.custom or own) and resource.id != ("apps", "replicasets"):
            raise SelectorError(f"field label not supported: {clause.field}")
        raise SelectorError(f'"{clause.field}" is not a known field selector: only "{NAME}", "{NAMESPACE}"')


def field_values(resource: Resource, version: str, obj: dict[str, Any]) -> Mapping[str, str]:
    """Return the values of the fields beyond name and namespace in an object of this served version."""
    found = resource.version(version)
    paths = () if found is None else found.selectable
    values = {path.removeprefix("."): _text(obj, path) for path in paths}
    return {**values, **resource.strategy.field_labels(obj)}


def _own_fields(resource: Resource, version: str) -> frozenset[str]:
    # A strategy returns all its fields for any object, so an empty object yields the names of all fields.
    return frozenset(field_values(resource, version, {"metadata": {}, "spec": {}, "status": {}})) - {NAME, NAMESPACE}


def _text(obj: dict[str, Any], path: str) -> str:
    value: Any = obj
    for step in path.removeprefix(".").split("."):
        value = value.get(step) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _terms(text: str) -> list[str]:
    """Split at commas that no backslash precedes."""
    terms, start, escaped = [], 0, False
    for position, character in enumerate(text):
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif character == ",":
            terms.append(text[start:position])
            start = position + 1
    return [*terms, text[start:]]


def _split(term: str) -> tuple[str, str, str] | None:
    for position in range(len(term)):
        for operator in ("!=", "==", "="):
            if term.startswith(operator, position):
                return term[:position], operator, term[position + len(operator) :]
    return None


def _unescaped(value: str) -> str:
    found, escaped = "", False
    for character in value:
        if escaped:
            if character not in _ESCAPED:
                raise SelectorError(f"invalid field selector: invalid escape sequence: \\{character}")
            found, escaped = found + character, False
        elif character == "\\":
            escaped = True
        elif character in _ESCAPED:
            raise SelectorError(f"invalid field selector: unescaped character in value: {ord(character)}")
        else:
            found += character
    if escaped:
        raise SelectorError("invalid field selector: invalid escape sequence: \\")
    return found
