"""The server's internal form of CustomResourceDefinitions: fields that are equal in all versions are at the top level.

Guarantees: pure; copies only the outer maps. Paths of errors follow this form (`spec.validation.openAPIV3Schema` for one version).
Structures in errors are printed as on the server: Go's internal types, with all their fields. Source: apiextensions
`pkg/apis/apiextensions/v1/conversion.go`, `types.go`, `types_jsonschema.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from konverge_testing.apiserver.golang import Struct

__all__ = ["FIELD_NAMES", "LIFTED", "internal_spec", "shown_rule", "shown_schema", "shown_versions", "subschemas"]

Data = dict[str, Any]

LIFTED: Final = {
    "schema": "validation",
    "subresources": "subresources",
    "additionalPrinterColumns": "additionalPrinterColumns",
    "selectableFields": "selectableFields",
}
"""Fields of versions, and their names at the top level."""


def internal_spec(spec: Data) -> Data:
    """Return a spec whose fields that are equal in all versions are moved to the top level."""
    found = {**spec, "versions": [dict(version) for version in spec.get("versions") or ()]}
    versions = found["versions"]
    if not versions:
        return found
    for name, top in LIFTED.items():
        first = versions[0].get(name)
        if all((version.get(name) or None) == (first or None) for version in versions):
            for version in versions:
                version.pop(name, None)
            if first is not None:
                found[top] = first
    return found


_NESTED: Final = ("not", "items", "additionalProperties")
_LISTS: Final = ("allOf", "anyOf", "oneOf")
_MAPS: Final = ("properties",)


def subschemas(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Walk a schema and its subschemas."""
    yield schema
    for name in _NESTED:
        if isinstance(schema.get(name), Mapping):
            yield from subschemas(schema[name])
    for name in _LISTS:
        for child in schema.get(name) or ():
            yield from subschemas(child)
    for name in _MAPS:
        for child in (schema.get(name) or {}).values():
            yield from subschemas(child)


# --- printing as on the server -------------------------------------------------------------------------------------------------------


def shown_versions(versions: list[Data]) -> list[Struct]:
    """Print versions."""
    return [
        Struct(
            Name=version.get("name") or "",
            Served=bool(version.get("served")),
            Storage=bool(version.get("storage")),
            Deprecated=bool(version.get("deprecated")),
            DeprecationWarning=version.get("deprecationWarning"),
            Schema=_shown_validation(version.get("schema")),
            Subresources=_shown_subresources(version.get("subresources")),
            AdditionalPrinterColumns=_many(version.get("additionalPrinterColumns"), _shown_column),
            SelectableFields=_many(
                version.get("selectableFields"), lambda one: Struct(JSONPath=one.get("jsonPath") or "")
            ),
        )
        for version in versions
    ]


def _many(values: Any, shown: Callable[[Any], Any]) -> list[Any] | None:
    return None if values is None else [shown(value) for value in values]


def _shown_validation(validation: Any) -> Struct | None:
    if validation is None:
        return None
    schema = validation.get("openAPIV3Schema")
    return Struct(OpenAPIV3Schema=None if schema is None else shown_schema(schema))


def _shown_subresources(found: Any) -> Struct | None:
    if found is None:
        return None
    scale = found.get("scale")
    shown = scale and Struct(
        SpecReplicasPath=scale.get("specReplicasPath") or "",
        StatusReplicasPath=scale.get("statusReplicasPath") or "",
        LabelSelectorPath=scale.get("labelSelectorPath"),
    )
    return Struct(Status=None if found.get("status") is None else Struct(), Scale=shown)


def _shown_column(column: Data) -> Struct:
    return Struct(
        Name=column.get("name") or "",
        Type=column.get("type") or "",
        Format=column.get("format") or "",
        Description=column.get("description") or "",
        Priority=column.get("priority") or 0,
        JSONPath=column.get("jsonPath") or "",
    )


def shown_rule(rule: Mapping[str, Any]) -> Struct:
    """Print a validation rule."""
    return Struct(
        Rule=rule.get("rule") or "",
        Message=rule.get("message") or "",
        MessageExpression=rule.get("messageExpression") or "",
        Reason=rule.get("reason"),
        FieldPath=rule.get("fieldPath") or "",
        OptionalOldSelf=rule.get("optionalOldSelf"),
    )


_Shown = Callable[[Any], Any]


def _text(value: Any) -> Any:
    return value or ""


def _flag(value: Any) -> Any:
    return bool(value)


def _as_is(value: Any) -> Any:
    return value


def _schemas(value: Any) -> Any:
    return _many(value, shown_schema)


def _schema_map(value: Any) -> Any:
    return None if value is None else {name: shown_schema(child) for name, child in value.items()}


def _schema_or_array(value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, list):
        return Struct(Schema=None, JSONSchemas=[shown_schema(child) for child in value])
    return Struct(Schema=shown_schema(value), JSONSchemas=None)


def _schema_or_bool(value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, bool):
        return Struct(Allows=value, Schema=None)
    return Struct(Allows=True, Schema=shown_schema(value))


def _schema(value: Any) -> Any:
    return None if value is None else shown_schema(value)


def _docs(value: Any) -> Any:
    return None if value is None else Struct(Description=value.get("description") or "", URL=value.get("url") or "")


def _rules(value: Any) -> Any:
    return _many(value, shown_rule)


_FIELDS: Final[tuple[tuple[str, str, _Shown], ...]] = (
    ("ID", "id", _text),
    ("Schema", "$schema", _text),
    ("Ref", "$ref", _as_is),
    ("Description", "description", _text),
    ("Type", "type", _text),
    ("Nullable", "nullable", _flag),
    ("Format", "format", _text),
    ("Title", "title", _text),
    ("Default", "default", _as_is),
    ("Maximum", "maximum", _as_is),
    ("ExclusiveMaximum", "exclusiveMaximum", _flag),
    ("Minimum", "minimum", _as_is),
    ("ExclusiveMinimum", "exclusiveMinimum", _flag),
    ("MaxLength", "maxLength", _as_is),
    ("MinLength", "minLength", _as_is),
    ("Pattern", "pattern", _text),
    ("MaxItems", "maxItems", _as_is),
    ("MinItems", "minItems", _as_is),
    ("UniqueItems", "uniqueItems", _flag),
    ("MultipleOf", "multipleOf", _as_is),
    ("Enum", "enum", _as_is),
    ("MaxProperties", "maxProperties", _as_is),
    ("MinProperties", "minProperties", _as_is),
    ("Required", "required", _as_is),
    ("Items", "items", _schema_or_array),
    ("AllOf", "allOf", _schemas),
    ("OneOf", "oneOf", _schemas),
    ("AnyOf", "anyOf", _schemas),
    ("Not", "not", _schema),
    ("Properties", "properties", _schema_map),
    ("AdditionalProperties", "additionalProperties", _schema_or_bool),
    ("PatternProperties", "patternProperties", _schema_map),
    ("Dependencies", "dependencies", _as_is),
    ("AdditionalItems", "additionalItems", _schema_or_bool),
    ("Definitions", "definitions", _schema_map),
    ("ExternalDocs", "externalDocs", _docs),
    ("Example", "example", _as_is),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", _as_is),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", _flag),
    ("XIntOrString", "x-kubernetes-int-or-string", _flag),
    ("XListMapKeys", "x-kubernetes-list-map-keys", _as_is),
    ("XListType", "x-kubernetes-list-type", _as_is),
    ("XMapType", "x-kubernetes-map-type", _as_is),
    ("XValidations", "x-kubernetes-validations", _rules),
)
FIELD_NAMES: Final = {wire: go for go, wire, _ in _FIELDS}
"""JSON names of the fields of schemas, and their names in Go."""


def shown_schema(schema: Mapping[str, Any]) -> Struct:
    """Print a schema."""
    return Struct({go: shown(schema.get(wire)) for go, wire, shown in _FIELDS})
