"""Whether a schema is structural: types everywhere outside value validation, and only validation inside it.

Guarantees: pure; errors are sorted as the server sorts them. Sources: apiextensions
`pkg/apiserver/schema/{validation,complete,convert}.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from konverge_testing.apiserver.schemas.patterns import PatternError, compiled
from konverge_testing.apiserver.statuses import FieldError

__all__ = ["structural_errors", "unstructurable"]

Schema = Mapping[str, Any]

_UNSUPPORTED: Final = (
    ("id", "id"),
    ("$schema", "schema"),
    ("$ref", "$ref"),
    ("patternProperties", "patternProperties"),
    ("dependencies", "dependencies"),
    ("additionalItems", "additionalItems"),
    ("definitions", "definitions"),
)
_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
_LEVELS: Final = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}
_FORBIDDEN: Final = (
    ("type", "must be empty to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
)


def unstructurable(schema: Schema) -> str:
    """Return why a schema cannot be converted to a structural schema, or "" if it can."""
    for wire, name in _UNSUPPORTED:
        if schema.get(wire) or (wire == "additionalItems" and schema.get(wire) is not None):
            return f"OpenAPIV3Schema '{name}' is not supported"
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        return "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined"
    if isinstance(schema.get("items"), list):
        return "OpenAPIV3Schema 'items' must be a schema, but is an array"
    children = [schema.get("not"), schema.get("items"), schema.get("additionalProperties")]
    children += [child for name in ("allOf", "anyOf", "oneOf") for child in schema.get(name) or ()]
    children += list((schema.get("properties") or {}).values())
    for child in children:
        if isinstance(child, Mapping) and (words := unstructurable(child)):
            return words
    return ""


def structural_errors(schema: Schema, path: str) -> list[FieldError]:
    """Return the errors that keep a schema from being structural."""
    errors = _invariants(schema, "root", path) + _complete(schema, schema, path, path)
    return sorted(errors, key=str)


def _invariants(schema: Schema, level: str, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    kind, items, additional = schema.get("type") or "", schema.get("items"), schema.get("additionalProperties")
    if kind == "array" and items is None:
        errors.append(FieldError("Required", f"{path}.items", "", "must be specified"))
    if isinstance(items, Mapping):
        errors += _invariants(items, "item", f"{path}.items")
    for name, child in (schema.get("properties") or {}).items():
        errors += _invariants(child, "field", f"{path}.properties[{name}]")
    if additional is not None:
        if level == "root":
            errors.append(FieldError("Forbidden", f"{path}.additionalProperties", "", "must not be used at the root"))
        if isinstance(additional, Mapping):
            errors += _invariants(additional, "field", f"{path}.additionalProperties")
    errors += _extensions(schema, path)
    errors += _validation(schema, path, _is_int_or_string(schema), first_all_of=_has_int_or_string(schema))
    return errors + _type_errors(schema, kind, level, path) + _meta_errors(schema, level, path)


def _is_int_or_string(schema: Schema) -> bool:
    return schema.get("anyOf") == _INT_OR_STRING


def _has_int_or_string(schema: Schema) -> bool:
    several = schema.get("allOf")
    return bool(several) and _is_int_or_string(several[0]) if several else False


def _extensions(schema: Schema, path: str) -> list[FieldError]:
    if not schema.get("x-kubernetes-int-or-string"):
        return []
    names = ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource")
    words = "must be false if x-kubernetes-int-or-string is true"
    return [FieldError("Invalid", f"{path}.{name}", True, words) for name in names if schema.get(name)]


def _type_errors(schema: Schema, kind: str, level: str, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    keeps = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    if embedded and kind != "object":
        words = "must be object if x-kubernetes-embedded-resource is true"
        errors.append(FieldError("Invalid" if kind else "Required", f"{path}.type", kind, words))
    elif not kind and not schema.get("x-kubernetes-int-or-string") and not keeps:
        errors.append(FieldError("Required", f"{path}.type", "", _LEVELS[level]))
    if embedded and schema.get("additionalProperties") is not None:
        words = "must not be used if x-kubernetes-embedded-resource is set"
        errors.append(FieldError("Forbidden", f"{path}.additionalProperties", "", words))
    if level == "root" and kind and kind != "object":
        errors.append(FieldError("Invalid", f"{path}.type", kind, "must be object at the root"))
    if embedded and not keeps and not schema.get("properties"):
        words = (
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        )
        errors.append(FieldError("Required", f"{path}.properties", "", words))
    return errors


def _meta_errors(schema: Schema, level: str, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    fields = schema.get("properties") or {}
    checked = level == "root" or bool(schema.get("x-kubernetes-embedded-resource"))
    untyped = [
        name
        for name in ("kind", "apiVersion")
        if checked and fields.get(name, {"type": "string"}).get("type") != "string"
    ]
    errors += [
        FieldError("Invalid", f"{path}.properties[{name}].type", fields[name].get("type") or "", "must be string")
        for name in untyped
    ]
    if "metadata" not in fields:
        return errors
    metadata, here = fields["metadata"], f"{path}.properties[metadata]"
    if checked and metadata.get("type") != "object":
        errors.append(FieldError("Invalid", f"{here}.type", metadata.get("type") or "", "must be object"))
    if level == "root":
        named = set(metadata.get("properties") or ()) <= {"name", "generateName"}
        rest = [
            name
            for name, value in metadata.items()
            if name not in ("type", "default", "properties") and value not in (None, False, "")
        ]
        if rest or not named:
            words = "must not specify anything other than name and generateName, but metadata is implicitly specified"
            errors.append(FieldError("Forbidden", here, "", words))
    return errors


def _validation(schema: Schema, path: str, any_of: bool, *, first_all_of: bool = False) -> list[FieldError]:
    """Check value validation; `any_of`, `first_all_of`: the branches that may declare int-or-string."""
    errors: list[FieldError] = []
    if not any_of:
        for index, child in enumerate(schema.get("anyOf") or ()):
            errors += _nested(child, f"{path}.anyOf[{index}]")
    for index, child in enumerate(schema.get("allOf") or ()):
        errors += _nested(child, f"{path}.allOf[{index}]", any_of=first_all_of and index == 0)
    for index, child in enumerate(schema.get("oneOf") or ()):
        errors += _nested(child, f"{path}.oneOf[{index}]")
    if (none := schema.get("not")) is not None:
        errors += _nested(none, f"{path}.not")
    if pattern := schema.get("pattern"):
        try:
            compiled(pattern)
        except PatternError as error:
            words = f"must be a valid regular expression, but isn't: {error}"
            errors.append(FieldError("Invalid", f"{path}.pattern", pattern, words))
    return errors


def _nested(schema: Schema, path: str, *, any_of: bool = False) -> list[FieldError]:
    errors = _validation(schema, path, any_of)
    items, additional = schema.get("items"), schema.get("additionalProperties")
    if isinstance(items, Mapping):
        errors += _nested(items, f"{path}.items")
    for name, child in (schema.get("properties") or {}).items():
        errors += _nested(child, f"{path}.properties[{name}]")
    if additional is True or isinstance(additional, Mapping):
        errors.append(FieldError("Forbidden", f"{path}.additionalProperties", "", "must be undefined to be structural"))
    for name, words in _FORBIDDEN:
        value = schema.get(name)
        if value is not None and (name == "default" or value not in ("", False, [])):
            errors.append(FieldError("Forbidden", f"{path}.{name}", "", words))
    if "metadata" in (schema.get("properties") or {}):
        errors.append(
            FieldError("Forbidden", f"{path}.properties[metadata]", "", "must not be specified in a nested context")
        )
    return errors


def _complete(validation: Schema, schema: Schema, path: str, where: str) -> list[FieldError]:
    """Check that the structural part has the fields of value validation."""
    errors: list[FieldError] = []
    if (none := validation.get("not")) is not None:
        errors += _nested_complete(none, schema, path, f"{where}.not")
    for name in ("allOf", "anyOf", "oneOf"):
        for index, child in enumerate(validation.get(name) or ()):
            errors += _nested_complete(child, schema, path, f"{where}.{name}[{index}]")
    return errors


def _nested_complete(validation: Schema, schema: Schema | None, path: str, where: str) -> list[FieldError]:
    if schema is None:
        return [FieldError("Required", path, "", f"because it is defined in {where}")]
    errors = _complete(validation, schema, path, where)
    if isinstance(items := validation.get("items"), Mapping):
        own = schema.get("items")
        errors += _nested_complete(items, own if isinstance(own, Mapping) else None, f"{path}.items", f"{where}.items")
    fields = schema.get("properties") or {}
    for name, child in (validation.get("properties") or {}).items():
        here, there = f"{path}.properties[{name}]", f"{where}.properties[{name}]"
        errors += _nested_complete(child, fields.get(name), here, there)
    return errors
