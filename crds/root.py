"""The schema of a whole resource, and the nulls that it allows in writes.

Guarantees: `root_schema` has apiVersion, kind and metadata as every object, then the fields of the class; `spec` is required
if one of its fields is, and otherwise defaults to an object with all its defaults, so that it is never absent; rules about the whole
object are at the root.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from konverge.crds.declaration import Declaration
from konverge.crds.markers import VALIDATIONS
from konverge.crds.pydantic_schema import model_schema
from konverge.crds.schema import SchemaPosition, structural, written_default
from konverge.crds.status import Status
from konverge.errors import SchemaError

__all__ = ["root_schema", "status_model", "without_plain_nulls"]

_HEAD = {
    "apiVersion": {"type": "string", "description": "The version of the schema that this object is written in."},
    "kind": {"type": "string", "description": "The kind of this object."},
    "metadata": {"type": "object"},
}


def root_schema(cls: type[BaseModel], declaration: Declaration, *, described: bool = False) -> dict[str, Any]:
    """Return the structural schema of a complete resource class; raises SchemaError if it cannot be expressed.

    `described` reads the sources and adds the docstrings under the fields.
    """
    schema = model_schema(cls, described=described)
    root = structural(schema, SchemaPosition(cls.__name__, schema.get("$defs", {})))
    properties = {name: part for name, part in root["properties"].items() if name not in _HEAD}
    if properties["spec"].get("type") != "object":
        raise SchemaError(f"{cls.__name__}: .spec: write a model, class {cls.__name__}Spec(Model)")
    _check_status(cls, properties["status"])
    properties["spec"] = _with_default(cls, properties["spec"])
    root["properties"] = _HEAD | properties
    required = [*root.get("required", ()), *(["spec"] if properties["spec"].get("required") else [])]
    if required:
        root["required"] = required
    for path in declaration.selectable:
        _check_selectable(cls, path, root)
    rules = [*root.pop(VALIDATIONS, ()), *(rule.entry() for rule in declaration.rules)]
    return {**root, VALIDATIONS: rules} if rules else root


_SELECTABLE = ("string", "integer", "boolean")


def _check_selectable(cls: type[BaseModel], path: str, root: Mapping[str, Any]) -> None:
    """Raise SchemaError unless the API server accepts this path of a selectable field."""
    part: Mapping[str, Any] = root
    names = path.removeprefix(".").split(".") if path.startswith((".spec.", ".status.")) else [""]
    for name in names:
        part = (part.get("properties") or {}).get(name) or {}
    if part.get("type") not in _SELECTABLE:
        raise SchemaError(
            f"{cls.__name__}: selectable {path!r}: write the JSON path of a field of type string, integer or boolean, as in '.spec.node'"
        )


def _with_default(cls: type[BaseModel], schema: dict[str, Any]) -> dict[str, Any]:
    """Add the model's default to an optional spec, because nested defaults do not apply to an absent spec."""
    model = cls.model_fields["spec"].annotation
    if schema.get("required") or not (isinstance(model, type) and issubclass(model, BaseModel)):
        return schema
    try:
        filled = model.model_validate({}).model_dump(mode="json", by_alias=True)
    except ValidationError:
        return schema
    default = written_default(filled, schema)
    return {**schema, "default": default} if default else schema


def status_model(cls: type[BaseModel]) -> type[Status]:
    """Return the status model of a resource class; raises SchemaError if it is not a subclass of Status."""
    model = cls.model_fields["status"].annotation
    if not (isinstance(model, type) and issubclass(model, Status)):
        raise SchemaError(f"{cls.__name__}: .status: write a model, class {cls.__name__}Status(Status)")
    return model


def _check_status(cls: type[BaseModel], schema: Mapping[str, Any]) -> None:
    model = status_model(cls)
    for name in schema.get("required", ()):
        raise SchemaError(
            f"{cls.__name__}: .status.{name}: a status is empty until a controller has written it; give the field a default"
        )
    try:
        model.model_validate({})
    except ValidationError:
        refused = True
    else:
        refused = False
    if refused:
        raise SchemaError(
            f"{cls.__name__}: .status: a status is empty until a controller has written it, but a validator of "
            f"{model.__name__} refuses an empty one"
        )


def without_plain_nulls(value: Any, schema: Mapping[str, Any]) -> Any:
    """Return a copy without null members that the schema does not allow; fields that it does not name stay as they are."""
    if isinstance(value, Mapping):
        known, more = schema.get("properties", {}), schema.get("additionalProperties", {})
        return {
            name: without_plain_nulls(member, known.get(name, more))
            for name, member in value.items()
            if member is not None or not _drops_null(known.get(name, more))
        }
    if isinstance(value, list):
        items = schema.get("items", {})
        # A list of thousands of strings, as some statuses have, costs no call for each string.
        return [without_plain_nulls(member, items) if type(member) is not str else member for member in value]
    return value


def _drops_null(schema: Mapping[str, Any]) -> bool:
    return (
        bool(schema)
        and not schema.get("nullable")
        and not (schema.get("x-kubernetes-preserve-unknown-fields") and "type" not in schema)
    )
