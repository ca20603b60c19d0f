"""Converts a pydantic model to the structural schema that the API server accepts.

Guarantees: `structural` inlines every definition, drops keys that Kubernetes does not have, translates keys that it spells differently, and
keeps the order of the fields. A field that a structural schema cannot express raises SchemaError with its path (`.spec.target`), the
problem and the alternative. The same model gives the same schema, key by key.

Mapping: a field without a default is required; `X | None` is the same as X and never null (use `Nullable` for
null); `Literal` and `Enum` become `enum`; the default of a number, a text or a model is written, an empty list or map is not; a docstring
under a class or a field becomes the description.

Source: Kubernetes, "Specifying a structural schema"; k8s.io/apiextensions-apiserver `pkg/apis/apiextensions/validation`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from konverge.crds.markers import ATOMIC, IMMUTABLE, NOT_IN_SCHEMA, RULE_KEYS, VALIDATIONS, Cel
from konverge.crds.pydantic_schema import REFUSED
from konverge.errors import SchemaError

__all__ = ["SchemaPosition", "cel_name", "structural", "written_default"]

_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING = "x-kubernetes-int-or-string"
_EMBEDDED = "x-kubernetes-embedded-resource"
_LIST_TYPE = "x-kubernetes-list-type"
_LIST_KEYS = "x-kubernetes-list-map-keys"
_SCALARS = frozenset({"string", "integer", "number", "boolean"})

# Keys that are copied unchanged from JSON schema, in the order of the output.
_COPIED = (
    *("nullable", "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength"),
    *("pattern", "minItems", "maxItems", "minProperties", "maxProperties"),
)
_HINTS = (_EMBEDDED, _PRESERVE, _INT_OR_STRING, _LIST_TYPE, _LIST_KEYS, "x-kubernetes-map-type", VALIDATIONS)

# The formats that the API server checks (kube-openapi strfmt); an unknown format is only a warning to every client.
_FORMATS = {
    name: name
    for name in (
        *(
            "date-time",
            "date",
            "uri",
            "email",
            "hostname",
            "ipv4",
            "ipv6",
            "cidr",
            "mac",
            "uuid",
            "uuid3",
            "uuid4",
            "uuid5",
        ),
        *("byte", "int32", "int64", "float", "double", "password", "isbn", "hexcolor"),
    )
} | {"base64": "byte"}

_RESERVED = frozenset(
    {
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import"),
        *("let", "loop", "package", "namespace", "return", "var", "void", "while"),
    }
)


class SchemaPosition(msgspec.Struct, frozen=True):
    """The position of the walk: resource and path for messages, the definitions, and the enclosing definitions.

    `correlatable` is False inside lists whose items have no key, because the server cannot match an old item with a new item there.
    """

    what: str
    definitions: Mapping[str, Any]
    path: str = ""
    inside: tuple[str, ...] = ()
    correlatable: bool = True

    def refusal(self, problem: str, instead: str) -> SchemaError:
        """Return the error for the field at this place."""
        return SchemaError(f"{self.what}: {self.path or '.'}: no structural schema can express {problem}; {instead}")

    def below(self, step: str, *, correlatable: bool = True) -> SchemaPosition:
        """Return the place of a part."""
        return replace(self, path=self.path + step, correlatable=self.correlatable and correlatable)


def structural(schema: Mapping[str, Any], place: SchemaPosition) -> dict[str, Any]:
    """Return the structural schema of one JSON schema; raises SchemaError if it cannot be expressed."""
    merged, place = _merge(dict(schema), place)
    if REFUSED in merged:
        raise place.refusal(*merged[REFUSED])
    merged = _as_enum(_check_hints(merged, place), place)
    result: dict[str, Any] = {}
    if description := _plain(merged.get("description", "")):
        result["description"] = description
    if IMMUTABLE in merged:
        result[IMMUTABLE] = merged[IMMUTABLE]
    result |= _body(merged, place)
    result |= {key: merged[key] for key in _COPIED if key in merged}
    result |= {key: merged[key] for key in _HINTS if key in merged and key not in result}
    default = written_default(merged.get("default"), result)
    if default is not None:
        result["default"] = default
    if rules := result.get(VALIDATIONS):
        result[VALIDATIONS] = [{key: rule[key] for key in RULE_KEYS if key in rule} for rule in rules]
    return _bounds(result)


def cel_name(name: str) -> str:
    """Write a field's name as CEL wants it after `self.`.

    >>> cel_name("replicas"), cel_name("namespace"), cel_name("a-b")
    ('replicas', '__namespace__', 'a__dash__b')
    """
    if name in _RESERVED:
        return f"__{name}__"
    written = name.replace("__", "__underscores__")
    return written.replace(".", "__dot__").replace("-", "__dash__").replace("/", "__slash__")


def _merge(schema: dict[str, Any], place: SchemaPosition) -> tuple[dict[str, Any], SchemaPosition]:
    """Resolve references and `X | None` until only one schema is left; an outer key wins over an inner key."""
    optional = False
    while True:
        if reference := schema.pop("$ref", ""):
            name = str(reference).rpartition("/")[2]
            if name in place.inside:
                raise place.refusal(
                    f"a model that contains itself ({name})",
                    "use Annotated[dict[str, Any], PreserveUnknown()] where it nests",
                )
            place = replace(place, inside=(*place.inside, name))
            schema = _over(place.definitions[name], schema)
            continue
        variants = schema.get("anyOf") or schema.get("oneOf")
        if variants is None:
            break
        values = [variant for variant in variants if variant.get("type") != "null"]
        optional = optional or len(values) < len(variants)
        outside = {key: value for key, value in schema.items() if key not in {"anyOf", "oneOf", "discriminator"}}
        schema = _over(values[0], outside) if len(values) == 1 else _union(values, outside, place)
    if schema.get("nullable") and not optional:
        raise place.refusal("Nullable on a field that is never None", "write X | None, or drop the marker")
    return schema, place


def _over(inside: Mapping[str, Any], outside: Mapping[str, Any]) -> dict[str, Any]:
    rules = [*inside.get(VALIDATIONS, ()), *outside.get(VALIDATIONS, ())]
    merged = {**inside, **outside}
    return {**merged, VALIDATIONS: rules} if rules else merged


def _union(variants: list[dict[str, Any]], outside: dict[str, Any], place: SchemaPosition) -> dict[str, Any]:
    """Return what several variants have in common: number or text if marked so, or the union of their legal values."""
    types = {variant.get("type") for variant in variants}
    if outside.get(_INT_OR_STRING):
        if types != {"integer", "string"}:
            raise place.refusal("IntOrString on anything but int | str", "write Annotated[int | str, IntOrString()]")
        return outside
    if len(types) == 1 and all("enum" in variant or "const" in variant for variant in variants):
        legal = [value for variant in variants for value in variant.get("enum", [variant.get("const")])]
        return {"type": types.pop(), "enum": legal, **outside}
    raise place.refusal(
        "a union of types",
        "write one model with an optional field for each, and @Cel(...) that exactly one is set; for int | str there is "
        "Annotated[int | str, IntOrString()]",
    )


def _as_enum(schema: dict[str, Any], place: SchemaPosition) -> dict[str, Any]:
    """Write a constant as an enum; None among the values means `X | None`."""
    if "const" in schema:
        schema = {**schema, "enum": [schema["const"]]}
    if "enum" not in schema:
        return schema
    legal = [value for value in schema["enum"] if value is not None]
    kinds = {_json_type(value) for value in legal}
    if len(kinds) != 1:
        raise place.refusal("values of several types", "use values of one type, all text or all numbers")
    return {**schema, "type": kinds.pop(), "enum": legal}


def _json_type(value: Any) -> str:
    return {bool: "boolean", int: "integer", float: "number", str: "string"}.get(type(value), "object")


def _body(schema: dict[str, Any], place: SchemaPosition) -> dict[str, Any]:
    """Return what depends on the type: itself, its parts, its format and its legal values."""
    kind = schema.get("type")
    if kind == "object" or (kind is None and "properties" in schema):
        return _object(schema, place)
    if kind == "array":
        return _array(schema, place)
    if kind in _SCALARS:
        return _scalar(schema, place)
    if schema.get(_INT_OR_STRING) or (kind is None and schema.get(_PRESERVE)):
        return {"type": "object"} if schema.get(_EMBEDDED) else {}
    if kind == "null":
        raise place.refusal("a field that is only ever None", "drop it")
    raise place.refusal(
        "a value of any type",
        "name the type, or keep what the API server cannot check: Annotated[dict[str, Any], PreserveUnknown()]",
    )


def _scalar(schema: dict[str, Any], place: SchemaPosition) -> dict[str, Any]:
    if schema.get("writeOnly"):
        raise place.refusal(
            "a SecretStr, which would be stored as asterisks",
            "refer to a Secret by name and key; for a text that must stay out of logs use Annotated[str, Field(repr=False)]",
        )
    if schema.get("format") == "binary":
        raise place.refusal("bytes", "use str, or pydantic's Base64Bytes")
    if "contentMediaType" in schema:
        raise place.refusal("JSON inside a text", "use the model itself")
    result: dict[str, Any] = {"type": schema["type"]}
    if known := _FORMATS.get(schema.get("format", "")):
        result["format"] = known
    if "enum" in schema:
        result["enum"] = schema["enum"]
    return result


def _array(schema: dict[str, Any], place: SchemaPosition) -> dict[str, Any]:
    keyed = schema.get(_LIST_TYPE) == "map"
    items = _member(schema.get("items", {}), place.below("[]", correlatable=keyed))
    if keyed:
        _check_keys(schema[_LIST_KEYS], items, place)
    if schema.get(_LIST_TYPE) == "set" and items.get("type") not in _SCALARS:
        raise place.refusal("ListSet of anything but scalars", "use ListMap with the field that identifies an item")
    return {"type": "array", "items": items}


def _member(schema: Mapping[str, Any], place: SchemaPosition) -> dict[str, Any]:
    """Return the schema of the members of a list or map; members may be removed, even immutable members."""
    return {key: value for key, value in structural(schema, place).items() if key != IMMUTABLE}


def _check_keys(keys: list[str], items: Mapping[str, Any], place: SchemaPosition) -> None:
    for key in keys:
        field = items.get("properties", {}).get(key)
        if field is None or field.get("type") not in _SCALARS:
            known = ", ".join(items.get("properties", {})) or "none"
            raise place.refusal(
                f"ListMap by {key!r}", f"a key is a scalar field of the items in the API's spelling (fields: {known})"
            )
        if key not in items.get("required", ()) and "default" not in field:
            raise place.refusal(
                f"ListMap by {key!r}, which may be absent", "make that field required or give it a default"
            )


def _object(schema: dict[str, Any], place: SchemaPosition) -> dict[str, Any]:
    if "patternProperties" in schema or "propertyNames" in schema:
        raise place.refusal("rules about the keys of a map", "use dict[str, ...] with a Cel rule: self.all(key, ...)")
    more = schema.get("additionalProperties")
    if isinstance(more, Mapping) and more and "properties" not in schema:
        return {"type": "object", "additionalProperties": _member(more, place.below(".*"))}
    result: dict[str, Any] = {"type": "object"}
    if schema.get(_PRESERVE) or (more is True and "properties" in schema):
        result[_PRESERVE] = True
    elif "properties" not in schema and more is not False:
        raise place.refusal(
            "a map of values of any type",
            "name the type, dict[str, str] for instance, or keep what the API server cannot check: PreserveUnknown()",
        )
    properties = {
        name: structural(part, place.below(f".{name}"))
        for name, part in schema.get("properties", {}).items()
        if NOT_IN_SCHEMA not in part
    }
    required = [name for name in schema.get("required", ()) if name in properties]
    kept = _kept_once_set(properties, required)
    if properties:
        result["properties"] = properties
    if required:
        result["required"] = required
    if kept:
        result[VALIDATIONS] = [*schema.get(VALIDATIONS, ()), *(rule.entry() for rule in kept)]
    return result


def _kept_once_set(properties: dict[str, dict[str, Any]], required: list[str]) -> list[Cel]:
    """Return the rules that immutable fields need on the object with the fields: a field's own rule does not see its removal."""
    rules = []
    for name, field in properties.items():
        if field.pop(IMMUTABLE, None) is None or name in required or "default" in field:
            continue
        named = cel_name(name)
        rules.append(Cel(f"!has(oldSelf.{named}) || has(self.{named})", f"{name} cannot be removed once it is set"))
    return rules


def _check_hints(schema: dict[str, Any], place: SchemaPosition) -> dict[str, Any]:
    """Check that each marker fits its type, and translate Atomic by that type."""
    kind = schema.get("type")
    if _LIST_TYPE in schema and kind != "array":
        raise place.refusal(
            "ListMap or ListSet on anything but a list", "move the marker to the list: Annotated[list[...], ...]"
        )
    if any(re.search(r"\boldSelf\b", rule["rule"]) for rule in schema.get(VALIDATIONS, ())) and not place.correlatable:
        raise place.refusal(
            "a rule about the old value inside a list whose items have no key",
            "mark the list with ListMap, or put the rule on the list",
        )
    if not schema.get(ATOMIC):
        return schema
    if kind not in {"array", "object"}:
        raise place.refusal("Atomic on a scalar", "scalars are atomic already; drop the marker")
    if _LIST_TYPE in schema:
        raise place.refusal("Atomic together with ListMap or ListSet", "choose one")
    return {**schema, _LIST_TYPE if kind == "array" else "x-kubernetes-map-type": "atomic"}


def written_default(value: Any, schema: Mapping[str, Any]) -> Any:
    """Return a default that has an effect, else None.

    The default of a model is written out: the API server judges it by the rules of the schema before it fills in anything.
    """
    if value is None or value == [] or (value == {} and "properties" not in schema):
        return None
    if isinstance(value, Mapping) and (properties := schema.get("properties")):
        members = {name: written_default(member, properties.get(name, {})) for name, member in value.items()}
        return {name: member for name, member in members.items() if member is not None}
    if isinstance(value, list):
        return [written_default(member, schema.get("items", {})) for member in value]
    return value


def _bounds(schema: dict[str, Any]) -> dict[str, Any]:
    """Write exclusive bounds as Kubernetes does: the bound and a flag. If both kinds are present, the stricter bound counts."""
    for bound, exclusive, stricter in (("minimum", "exclusiveMinimum", max), ("maximum", "exclusiveMaximum", min)):
        limit = schema.pop(exclusive, None)
        if limit is None:
            continue
        inclusive = schema.get(bound)
        if inclusive is None or stricter(limit, inclusive) == limit:
            schema[bound] = limit
            schema[exclusive] = True
    return schema


def _plain(text: str) -> str:
    """Return a docstring as a description: paragraphs of one line each, without its examples."""
    paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n", text.strip())]
    return "\n\n".join(part for part in paragraphs if part and not part.startswith(">>>"))
