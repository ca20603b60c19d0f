"""Checks lists and maps in the schema of a CRD: list and map types have everything that merging needs.

Guarantees: pure. Source: apiextensions `pkg/apis/apiextensions/validation/validation.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from konverge_testing.apiserver.golang import Struct
from konverge_testing.apiserver.schemas.crd.internal import shown_schema
from konverge_testing.apiserver.statuses import FieldError

__all__ = ["list_schema_errors"]

Schema = Mapping[str, Any]


def list_schema_errors(schema: Schema, path: str) -> list[FieldError]:
    """Return the errors of x-kubernetes-{map-type,list-type,list-map-keys} at one place."""
    errors = _map_type(schema, path)
    kind, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys") or []
    items = schema.get("items")
    if kind is not None and schema.get("type") != "array":
        errors.append(_must_be(schema, path, "must be array if x-kubernetes-list-type is specified"))
    elif kind == "set" and isinstance(items, Mapping):
        errors += _set_items(items, path)
    if kind not in (None, "atomic", "set", "map"):
        words = 'supported values: "atomic", "set", "map"'
        errors.append(FieldError("NotSupported", f"{path}.x-kubernetes-list-type", kind, words))
    if keys and kind != "map":
        words = "must be map if x-kubernetes-list-map-keys is non-empty"
        errors.append(
            FieldError("Required" if kind is None else "Invalid", f"{path}.x-kubernetes-list-type", kind, words)
        )
    if kind == "map":
        errors += _keyed(items, keys, path)
    if kind in ("set", "map") and isinstance(items, Mapping):
        errors += _key_presence(items, keys, kind, path)
    return errors


def _must_be(schema: Schema, path: str, words: str) -> FieldError:
    kind = schema.get("type") or ""
    return FieldError("Invalid" if kind else "Required", f"{path}.type", kind, words)


def _map_type(schema: Schema, path: str) -> list[FieldError]:
    kind = schema.get("x-kubernetes-map-type")
    errors: list[FieldError] = []
    if kind is not None and schema.get("type") != "object":
        errors.append(_must_be(schema, path, "must be object if x-kubernetes-map-type is specified"))
    if kind not in (None, "atomic", "granular"):
        words = 'supported values: "atomic", "granular"'
        errors.append(FieldError("NotSupported", f"{path}.x-kubernetes-map-type", kind, words))
    return errors


def _set_items(items: Schema, path: str) -> list[FieldError]:
    words = "must be atomic as item of a list with x-kubernetes-list-type=set"
    kind = items.get("x-kubernetes-list-type")
    if items.get("type") == "array" and kind not in (None, "atomic"):
        return [FieldError("Invalid", f"{path}.items.x-kubernetes-list-type", kind, words)]
    if items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
        return [FieldError("Invalid", f"{path}.items.x-kubernetes-map-type", kind, words)]
    return []


def _keyed(items: Any, keys: list[str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if not keys:
        words = "must not be empty if x-kubernetes-list-type is map"
        errors.append(FieldError("Required", f"{path}.x-kubernetes-list-map-keys", "", words))
    if items is None:
        errors.append(
            FieldError("Required", f"{path}.items", "", "must have a schema if x-kubernetes-list-type is map")
        )
        return errors
    if not isinstance(items, Mapping):
        shown = Struct(Schema=None, JSONSchemas=[shown_schema(one) for one in items])
        words = "must only have a single schema if x-kubernetes-list-type is map"
        return [*errors, FieldError("Invalid", f"{path}.items", shown, words)]
    if items.get("type") != "object":
        words = "must be object if parent array's x-kubernetes-list-type is map"
        return [*errors, FieldError("Invalid", f"{path}.items.type", items.get("type") or "", words)]
    fields = items.get("properties") or {}
    for index, key in enumerate(keys):
        here = f"{path}.x-kubernetes-list-map-keys"
        if key not in fields:
            errors.append(FieldError("Invalid", here, keys, "entries must all be names of item properties"))
        elif fields[key].get("type") in ("array", "object"):
            words = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            errors.append(FieldError("Invalid", f"{path}.items.properties[{key}].type", "object", words))
        if key in keys[:index]:
            errors.append(FieldError("Invalid", here, keys, "must not contain duplicate entries"))
    return errors


def _key_presence(items: Schema, keys: list[str], kind: str, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if items.get("nullable"):
        words = f"cannot be nullable when x-kubernetes-list-type is {kind}"
        errors.append(FieldError("Forbidden", f"{path}.items.nullable", "", words))
    if kind != "map":
        return errors
    fields, required = items.get("properties") or {}, items.get("required") or ()
    for key in keys:
        if key not in fields:
            continue
        here = f"{path}.items.properties[{key}]"
        if key not in required and fields[key].get("default") is None:
            words = (
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
            )
            errors.append(FieldError("Required", f"{here}.default", "", words))
        if fields[key].get("nullable"):
            words = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
            errors.append(FieldError("Forbidden", f"{here}.nullable", "", words))
    return errors
