"""Pydantic's JSON schema of a model, with a note at each type that a structural schema cannot express.

Guarantees: `model_schema(cls)` is pydantic's JSON schema of the model as it is read (`mode="validation"`, the API's spelling). Every type
that Kubernetes cannot express has the key REFUSED in it: a pair of the problem and the alternative. `konverge.crds.schema`, which walks
over the schema and knows the path, raises the error. With `described=True` the docstrings under the fields become the descriptions, except
for fields with `Field(description=...)`.

Invariant: nothing here raises for a type that pydantic accepts.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError, core_schema

from konverge.conditions import MAX_MESSAGE, Condition
from konverge.crds.docstrings import Docstrings
from konverge.crds.markers import rules_of

__all__ = ["REFUSED", "model_schema", "refused"]

REFUSED = "x-konverge-refused"

_TEXT_KEYS = frozenset({"str", "any"})

_CONDITION = {
    "type": "object",
    "description": "One aspect of the state of an object.",
    "properties": {
        "type": {
            "type": "string",
            "description": "Which aspect, in CamelCase.",
            "maxLength": 316,
            "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
            r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
        },
        "status": {"type": "string", "description": "Whether it holds.", "enum": ["True", "False", "Unknown"]},
        "observedGeneration": {
            "type": "integer",
            "format": "int64",
            "minimum": 0,
            "description": "The metadata.generation that was judged.",
        },
        "lastTransitionTime": {
            "type": "string",
            "format": "date-time",
            "description": "When the status last changed.",
        },
        "reason": {
            "type": "string",
            "description": "Why, as one word for programs.",
            "minLength": 1,
            "maxLength": 1024,
            "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        },
        "message": {"type": "string", "description": "Why, in words for people.", "maxLength": MAX_MESSAGE},
    },
    "required": ["lastTransitionTime", "message", "reason", "status", "type"],
}
"""metav1.Condition. The model is laxer, because it also reads the conditions of other programs."""


def refused(problem: str, instead: str) -> dict[str, Any]:
    """Return the placeholder of a type that Kubernetes cannot express."""
    return {REFUSED: (problem, instead)}


class _Generator(GenerateJsonSchema):
    """Pydantic's generator; it marks types that JSON schema loses. The names and arguments of its methods are pydantic's."""

    def handle_invalid_for_json_schema(self, schema: core_schema.CoreSchema, error_info: str) -> dict[str, Any]:  # noqa: ARG002 - pydantic calls it so
        return refused(
            "this type has no JSON schema", "use a plain type, or give it one with Annotated[..., WithJsonSchema(...)]"
        )

    def model_schema(self, schema: core_schema.ModelSchema) -> dict[str, Any]:
        cls = schema["cls"]
        if cls is Condition:
            return dict(_CONDITION)
        json_schema = super().model_schema(schema)
        for name, part in json_schema.get("properties", {}).items():
            if "default" in part:
                part |= _default(cls, name)
        for rule in rules_of(cls):
            json_schema = rule.mark(json_schema)
        return json_schema

    def dict_schema(self, schema: core_schema.DictSchema) -> dict[str, Any]:
        keys = schema.get("keys_schema")
        if keys is not None and keys["type"] not in _TEXT_KEYS:
            return refused(
                "keys that are not plain text", "use dict[str, ...], and a Cel rule where not every key is legal"
            )
        return super().dict_schema(schema)

    def tuple_schema(self, schema: core_schema.TupleSchema) -> dict[str, Any]:
        if len(schema["items_schema"]) != 1 or schema.get("variadic_item_index") != 0:
            return refused("a tuple", "use a model with a name for each member, or list[...] of one type")
        return super().tuple_schema(schema)

    def timedelta_schema(self, schema: core_schema.TimedeltaSchema) -> dict[str, Any]:  # noqa: ARG002 - pydantic calls it so
        return refused("a timedelta in ISO form", "use konverge.crds.Duration, which is written as in 5m or 1h30m")

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> dict[str, Any]:  # noqa: ARG002 - pydantic calls it so
        return refused("a Decimal, which is a number or a text", "use str, or float")

    def set_schema(self, schema: core_schema.SetSchema) -> dict[str, Any]:  # noqa: ARG002 - pydantic calls it so
        return _no_set()

    def frozenset_schema(self, schema: core_schema.FrozenSetSchema) -> dict[str, Any]:  # noqa: ARG002 - pydantic calls it so
        return _no_set()


class _Described(_Generator):
    """As `_Generator`, with the docstrings under the fields, which `Field(description=...)` overrides."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._sources = Docstrings()
        self._inside: list[type[BaseModel]] = []
        self._descriptions: dict[int, str] = {}

    def model_schema(self, schema: core_schema.ModelSchema) -> dict[str, Any]:
        self._inside.append(schema["cls"])
        try:
            return super().model_schema(schema)
        finally:
            self._inside.pop()

    def model_fields_schema(self, schema: core_schema.ModelFieldsSchema) -> dict[str, Any]:
        written = self._sources.of(self._inside[-1])
        self._descriptions |= {id(part): written[name] for name, part in schema["fields"].items() if name in written}
        return super().model_fields_schema(schema)

    def model_field_schema(self, schema: core_schema.ModelField) -> dict[str, Any]:
        json_schema = super().model_field_schema(schema)
        text = self._descriptions.get(id(schema))
        return json_schema if text is None else {**json_schema, "description": text}


def _default(cls: type[BaseModel], name: str) -> dict[str, Any]:
    """Return a field's default as the model itself writes it; pydantic's generator writes it without the field's serializer."""
    model = cls.model_construct()
    field = next(key for key, info in cls.model_fields.items() if name in (info.serialization_alias, info.alias, key))
    try:
        written = model.model_dump(mode="json", by_alias=True, include={field}, warnings=False)
    except PydanticSerializationError:
        return refused(
            "a default that its own type cannot write",
            "give a value of the type: timedelta(minutes=5), not '5m'",
        )
    return {"default": next(iter(written.values()))}


def _no_set() -> dict[str, Any]:
    return refused("a set, which has no order to be stored in", "use Annotated[list[...], ListSet()]")


def model_schema(model: type[BaseModel], *, described: bool = False) -> dict[str, Any]:
    """Return the JSON schema of a complete model, with its definitions under `$defs`; `described` reads the sources."""
    generator = _Described if described else _Generator
    return model.model_json_schema(by_alias=True, mode="validation", schema_generator=generator)
