from __future__ import annotations

import datetime
import decimal
import enum
import ipaddress
import uuid
from collections.abc import Callable
from typing import Annotated, Any, Literal

import pytest
from pydantic import (
    AnyUrl,
    AwareDatetime,
    Base64Bytes,
    BaseModel,
    ConfigDict,
    Field,
    Json,
    JsonValue,
    SecretStr,
    create_model,
)

from konverge.crds import (
    Atomic,
    Cel,
    Condition,
    CustomResource,
    Duration,
    EmbeddedResource,
    Immutable,
    IntOrString,
    ListMap,
    ListSet,
    Model,
    NotInSchema,
    Nullable,
    PreserveUnknown,
    Status,
    resource,
    schema_of,
)
from konverge.crds.markers import VALIDATIONS
from konverge.crds.schema import cel_name
from konverge.errors import SchemaError

REQUIRED: Any = ...
LITERAL_WITH_NONE: Any = Literal["a", None]  # noqa: PYI061 - what people write, and pydantic does not normalise it
UNION_OF_LITERALS: Any = Literal["a"] | Literal["b"]  # noqa: PYI030 - so is this


def schema_of_field(annotation: Any, default: Any = None) -> dict[str, Any]:
    """The schema of a field `field` of a spec; a SchemaError names it `.spec.field`."""
    spec = create_model("Spec", __base__=Model, field=(annotation, default))
    made = type("Sample", (CustomResource[spec, Status],), {"__module__": __name__})
    declared: type[CustomResource[Any, Any]] = resource("example.com/v1")(made)
    found: dict[str, Any] = schema_of(declared)["properties"]["spec"]["properties"]["field"]
    return found


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Mixed(enum.Enum):
    A = "a"
    B = 1


class Part(Model):
    """A part.

    It has two paragraphs, of which
    the second has two lines.

    >>> Part(name="a").name
    'a'
    """

    name: str
    """Which part."""
    port_number: Annotated[int, Field(gt=0, description="Where it listens.")] = 80
    note: str | None = None


class Filled(Model):
    a: int = 1
    b: str | None = None
    tags: tuple[str, ...] = ()
    deep: Part = Part(name="x", port_number=8080)


class Timed(Model):
    every: Duration = datetime.timedelta(minutes=90)


class Open(Model):
    model_config = ConfigDict(extra="allow")
    a: int = 1


class Closed(Model):
    model_config = ConfigDict(extra="forbid")
    a: int = 1


class Empty(Model):
    pass


@Cel("self.a <= 3", "a is above 3")
class Ruled(Model):
    a: int = 1


@Cel("self.a >= 0", "a is below 0")
@Cel("self.a != 2", "a is 2")
class RuledTwice(Ruled):
    pass


class Held(Model):
    must: Annotated[str, Immutable("stays")]
    may: Annotated[str, Immutable()] | None = None
    namespace: Annotated[str | None, Immutable()] = None
    filled: Annotated[str, Immutable()] = "a"


PART = {
    "description": "A part.\n\nIt has two paragraphs, of which the second has two lines.",
    "type": "object",
    "properties": {
        "name": {"description": "Which part.", "type": "string"},
        "portNumber": {
            "description": "Where it listens.",
            "type": "integer",
            "minimum": 0,
            "exclusiveMinimum": True,
            "default": 80,
        },
        "note": {"type": "string"},
    },
    "required": ["name"],
}
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

EXPRESSIBLE: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "a text": (str, REQUIRED, {"type": "string"}),
    "a default": (str, "a", {"type": "string", "default": "a"}),
    "a default that is false": (bool, False, {"type": "boolean", "default": False}),
    "a default that is zero": (int, 0, {"type": "integer", "default": 0}),
    "an empty text is a default": (str, "", {"type": "string", "default": ""}),
    "None is absent": (str | None, None, {"type": "string"}),
    "required, though it may be None": (str | None, REQUIRED, {"type": "string"}),
    "nullable where asked": (Annotated[int | None, Nullable()], None, {"type": "integer", "nullable": True}),
    "nullable inside": (Annotated[int | None, Nullable(), Field(ge=1)], None, {"type": "integer", "nullable": True, "minimum": 1}),
    "a number": (float, 1.5, {"type": "number", "default": 1.5}),
    "inclusive bounds": (Annotated[int, Field(ge=1, le=9)], REQUIRED, {"type": "integer", "minimum": 1, "maximum": 9}),
    "exclusive bounds": (
        Annotated[int, Field(gt=1, lt=9)],
        REQUIRED,
        {"type": "integer", "minimum": 1, "exclusiveMinimum": True, "maximum": 9, "exclusiveMaximum": True},
    ),
    "the stricter of two bounds, exclusive": (
        Annotated[int, Field(ge=1, gt=3)],
        REQUIRED,
        {"type": "integer", "minimum": 3, "exclusiveMinimum": True},
    ),
    "the stricter of two bounds, inclusive": (Annotated[int, Field(ge=4, gt=3)], REQUIRED, {"type": "integer", "minimum": 4}),
    "equal bounds of both kinds": (
        Annotated[int, Field(le=3, lt=3)],
        REQUIRED,
        {"type": "integer", "maximum": 3, "exclusiveMaximum": True},
    ),
    "a multiple": (Annotated[int, Field(multiple_of=4)], REQUIRED, {"type": "integer", "multipleOf": 4}),
    "lengths and a pattern": (
        Annotated[str, Field(min_length=1, max_length=5, pattern="^a")],
        REQUIRED,
        {"type": "string", "minLength": 1, "maxLength": 5, "pattern": "^a"},
    ),
    "bounds on an optional field": (Annotated[int, Field(ge=1)] | None, None, {"type": "integer", "minimum": 1}),
    "a literal": (Literal["a", "b"], "a", {"type": "string", "enum": ["a", "b"], "default": "a"}),
    "a single literal": (Literal["a"], REQUIRED, {"type": "string", "enum": ["a"]}),
    "a literal of numbers": (Literal[1, 2], REQUIRED, {"type": "integer", "enum": [1, 2]}),
    "a literal with None": (LITERAL_WITH_NONE, None, {"type": "string", "enum": ["a"]}),
    "a union of literals": (UNION_OF_LITERALS, REQUIRED, {"type": "string", "enum": ["a", "b"]}),
    "an enum": (Colour, Colour.RED, {"type": "string", "enum": ["red", "blue"], "default": "red"}),
    "an enum of numbers": (Level, REQUIRED, {"type": "integer", "enum": [1, 2]}),
    "a moment": (AwareDatetime, REQUIRED, {"type": "string", "format": "date-time"}),
    "a day": (datetime.date, REQUIRED, {"type": "string", "format": "date"}),
    "a duration": (Duration, datetime.timedelta(minutes=5), {"type": "string", "pattern": r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$", "default": "5m"}),
    "a duration inside a default": (
        Timed,
        Timed(),
        {
            "type": "object",
            "properties": {"every": {"type": "string", "pattern": r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$", "default": "1h30m"}},
            "default": {"every": "1h30m"},
        },
    ),
    "a UUID": (uuid.UUID, REQUIRED, {"type": "string", "format": "uuid"}),
    "an address": (ipaddress.IPv4Address, REQUIRED, {"type": "string", "format": "ipv4"}),
    "a URL": (AnyUrl, REQUIRED, {"type": "string", "format": "uri", "minLength": 1}),
    "bytes in base 64": (Base64Bytes, REQUIRED, {"type": "string", "format": "byte"}),
    "a format that the server does not know": (
        Annotated[str, Field(json_schema_extra={"format": "colour"})],
        REQUIRED,
        {"type": "string"},
    ),
    "a number or a text": (Annotated[int | str, IntOrString()], 80, {"x-kubernetes-int-or-string": True, "default": 80}),
    "a number or a text, optional": (Annotated[int | str, IntOrString()] | None, None, {"x-kubernetes-int-or-string": True}),
    "a number or a text, optional inside": (Annotated[int | str | None, IntOrString()], None, {"x-kubernetes-int-or-string": True}),
    "a number or a text that has a form": (
        Annotated[int | str, IntOrString("^[0-9]+%$", max_length=4)],
        REQUIRED,
        {"maxLength": 4, "pattern": "^[0-9]+%$", "x-kubernetes-int-or-string": True},
    ),
    "a list": (list[str], REQUIRED, {"type": "array", "items": {"type": "string"}}),
    "an empty list is absent": (list[str], [], {"type": "array", "items": {"type": "string"}}),
    "a list with a default": (list[str], ["a"], {"type": "array", "items": {"type": "string"}, "default": ["a"]}),
    "a tuple of one type": (tuple[int, ...], (), {"type": "array", "items": {"type": "integer"}}),
    "bounds of a list": (
        Annotated[list[int], Field(min_length=1, max_length=3)],
        REQUIRED,
        {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3},
    ),
    "a list map": (
        Annotated[list[Part], ListMap("name")],
        REQUIRED,
        {"type": "array", "items": PART, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    ),
    "a list map by a key with a default": (
        Annotated[list[Part], ListMap("name", "portNumber")],
        REQUIRED,
        {
            "type": "array",
            "items": PART,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name", "portNumber"],
        },
    ),
    "a list set": (
        Annotated[list[str], ListSet()],
        REQUIRED,
        {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
    ),
    "an atomic list": (
        Annotated[list[str], Atomic()],
        REQUIRED,
        {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"},
    ),
    "a map": (dict[str, int], {}, {"type": "object", "additionalProperties": {"type": "integer"}}),
    "a map with a default": (
        dict[str, int],
        {"a": 1},
        {"type": "object", "additionalProperties": {"type": "integer"}, "default": {"a": 1}},
    ),
    "a map of models": (dict[str, Part], REQUIRED, {"type": "object", "additionalProperties": PART}),
    "bounds of a map": (
        Annotated[dict[str, str], Field(max_length=3)],
        REQUIRED,
        {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 3},
    ),
    "an atomic map": (
        Annotated[dict[str, str], Atomic()],
        REQUIRED,
        {"type": "object", "additionalProperties": {"type": "string"}, "x-kubernetes-map-type": "atomic"},
    ),
    "an atomic model": (Annotated[Part, Atomic()], REQUIRED, {**PART, "x-kubernetes-map-type": "atomic"}),
    "a model": (Part, REQUIRED, PART),
    "an optional model": (Part | None, None, PART),
    "a model described by its field": (Annotated[Part, Field(description="The first.")], REQUIRED, {**PART, "description": "The first."}),
    "an optional model described by its field": (
        Annotated[Part | None, Field(description="The first.")],
        None,
        {**PART, "description": "The first."},
    ),
    "a default that is a model is written out, without what is None or empty": (
        Filled,
        Filled(),
        {
            "type": "object",
            "properties": {
                "a": {"type": "integer", "default": 1},
                "b": {"type": "string"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "deep": {**PART, "default": {"name": "x", "portNumber": 8080}},
            },
            "default": {"a": 1, "deep": {"name": "x", "portNumber": 8080}},
        },
    ),
    "a model without fields": (Empty, REQUIRED, {"type": "object"}),
    "a model that allows others": (Open, REQUIRED, {**ANYTHING, "properties": {"a": {"type": "integer", "default": 1}}}),
    "a model that forbids others": (Closed, REQUIRED, {"type": "object", "properties": {"a": {"type": "integer", "default": 1}}}),
    "anything": (Annotated[dict[str, Any], PreserveUnknown()], REQUIRED, ANYTHING),
    "anything, optional": (Annotated[dict[str, Any], PreserveUnknown()] | None, None, ANYTHING),
    "anything, optional inside": (Annotated[dict[str, Any] | None, PreserveUnknown()], None, ANYTHING),
    "anything at all": (Annotated[Any, PreserveUnknown()], None, {"x-kubernetes-preserve-unknown-fields": True}),
    "a list of anything": (
        list[Annotated[Any, PreserveUnknown()]],
        REQUIRED,
        {"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": True}},
    ),
    "a model that preserves others": (
        Annotated[Empty, PreserveUnknown()],
        REQUIRED,
        ANYTHING,
    ),
    "an object inside": (Annotated[dict[str, Any], EmbeddedResource()], REQUIRED, {**ANYTHING, "x-kubernetes-embedded-resource": True}),
    "an object inside, untyped": (Annotated[Any, EmbeddedResource()], REQUIRED, {**ANYTHING, "x-kubernetes-embedded-resource": True}),
    "a rule": (
        Annotated[str, Cel("self != 'a'", "not a")],
        REQUIRED,
        {"type": "string", VALIDATIONS: [{"rule": "self != 'a'", "message": "not a"}]},
    ),
    "rules in the order in which they are read": (
        Annotated[str, Cel("self != 'a'", "not a"), Cel("self != 'b'", "not b", reason="FieldValueForbidden")],
        REQUIRED,
        {
            "type": "string",
            VALIDATIONS: [
                {"rule": "self != 'a'", "message": "not a"},
                {"rule": "self != 'b'", "message": "not b", "reason": "FieldValueForbidden"},
            ],
        },
    ),
    "a rule with all that it can say": (
        Annotated[
            list[str],
            Cel("oldSelf.hasValue()", "m", field_path="[0]", optional_old_self=True, message_expression="'a'", reason="FieldValueInvalid"),
        ],
        REQUIRED,
        {
            "type": "array",
            "items": {"type": "string"},
            VALIDATIONS: [
                {
                    "rule": "oldSelf.hasValue()",
                    "message": "m",
                    "messageExpression": "'a'",
                    "reason": "FieldValueInvalid",
                    "fieldPath": "[0]",
                    "optionalOldSelf": True,
                }
            ],
        },
    ),
    "the rules of a model and of its field": (
        Annotated[Ruled, Cel("self.a != 0", "a is 0")],
        REQUIRED,
        {
            "type": "object",
            "properties": {"a": {"type": "integer", "default": 1}},
            VALIDATIONS: [{"rule": "self.a <= 3", "message": "a is above 3"}, {"rule": "self.a != 0", "message": "a is 0"}],
        },
    ),
    "the rules of a base come first": (
        RuledTwice,
        REQUIRED,
        {
            "type": "object",
            "properties": {"a": {"type": "integer", "default": 1}},
            VALIDATIONS: [
                {"rule": "self.a <= 3", "message": "a is above 3"},
                {"rule": "self.a >= 0", "message": "a is below 0"},
                {"rule": "self.a != 2", "message": "a is 2"},
            ],
        },
    ),
    "immutable members of a map": (
        dict[str, Annotated[str, Immutable("stays")]],
        REQUIRED,
        {
            "type": "object",
            "additionalProperties": {"type": "string", VALIDATIONS: [{"rule": "self == oldSelf", "message": "stays"}]},
        },
    ),
    "immutable items": (
        Annotated[list[Annotated[Part, Immutable("stays")]], ListMap("name")],
        REQUIRED,
        {
            "type": "array",
            "items": {**PART, VALIDATIONS: [{"rule": "self == oldSelf", "message": "stays"}]},
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
    ),
    "immutable fields": (
        Held,
        REQUIRED,
        {
            "type": "object",
            "properties": {
                "must": {"type": "string", VALIDATIONS: [{"rule": "self == oldSelf", "message": "stays"}]},
                "may": {"type": "string", VALIDATIONS: [{"rule": "self == oldSelf", "message": "cannot be changed"}]},
                "namespace": {"type": "string", VALIDATIONS: [{"rule": "self == oldSelf", "message": "cannot be changed"}]},
                "filled": {
                    "type": "string",
                    "default": "a",
                    VALIDATIONS: [{"rule": "self == oldSelf", "message": "cannot be changed"}],
                },
            },
            "required": ["must"],
            VALIDATIONS: [
                {"rule": "!has(oldSelf.may) || has(self.may)", "message": "may cannot be removed once it is set"},
                {
                    "rule": "!has(oldSelf.__namespace__) || has(self.__namespace__)",
                    "message": "namespace cannot be removed once it is set",
                },
            ],
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize(("annotation", "default", "expected"), EXPRESSIBLE.values(), ids=EXPRESSIBLE)
def test_each_supported_type_has_its_structural_schema(annotation: Any, default: Any, expected: dict[str, Any]) -> None:
    assert schema_of_field(annotation, default) == expected


class Tree(Model):
    name: str
    children: list[Tree] = Field(default_factory=list)


class Left(Model):
    left: str


class Right(Model):
    right: str


class Tagged(Model):
    kind: Literal["a"] = "a"


class TaggedToo(Model):
    kind: Literal["b"] = "b"


class Optionals(Model):
    name: str | None = None


BAD_DEFAULT = create_model("BadDefault", __base__=Model, every=(Duration, "5m"))


class Inside(Model):
    deep: list[dict[str, int | str]] = Field(default_factory=list)


OLD = Cel("self == oldSelf", "stays")

INEXPRESSIBLE: dict[str, tuple[Any, str, str, str]] = {
    "a union": (int | str, ".spec.field", "a union of types", "IntOrString"),
    "a union of models": (Left | Right, ".spec.field", "a union of types", "one model with an optional field for each"),
    "an optional union": (int | str | None, ".spec.field", "a union of types", "IntOrString"),
    "a discriminated union": (Annotated[Tagged | TaggedToo, Field(discriminator="kind")], ".spec.field", "a union of types", "@Cel"),
    "a union deep inside": (Inside, ".spec.field.deep[].*", "a union of types", "IntOrString"),
    "a literal of several types": (Literal["a", 1], ".spec.field", "values of several types", "one type"),
    "an enum of several types": (Mixed, ".spec.field", "values of several types", "one type"),
    "a tuple": (tuple[int, str], ".spec.field", "a tuple", "a model with a name for each member"),
    "a pair": (tuple[int, int], ".spec.field", "a tuple", "list[...]"),
    "a set": (set[str], ".spec.field", "a set", "ListSet()"),
    "a frozen set": (frozenset[str], ".spec.field", "a set", "ListSet()"),
    "keys that are numbers": (dict[int, str], ".spec.field", "keys that are not plain text", "dict[str, ...]"),
    "keys that are an enum": (dict[Colour, str], ".spec.field", "keys that are not plain text", "Cel"),
    "keys that are a literal": (dict[Literal["a", "b"], str], ".spec.field", "keys that are not plain text", "Cel"),
    "keys with a pattern": (dict[Annotated[str, Field(pattern="^a")], str], ".spec.field", "rules about the keys", "Cel"),
    "keys with a length": (dict[Annotated[str, Field(max_length=3)], str], ".spec.field", "rules about the keys", "Cel"),
    "a model that contains itself": (Tree, ".spec.field.children[]", "a model that contains itself (Tree)", "PreserveUnknown()"),
    "anything": (Any, ".spec.field", "a value of any type", "PreserveUnknown()"),
    "an object": (object, ".spec.field", "a value of any type", "PreserveUnknown()"),
    "any JSON": (JsonValue, ".spec.field", "a value of any type", "PreserveUnknown()"),
    "a list of anything": (list[Any], ".spec.field[]", "a value of any type", "PreserveUnknown()"),
    "a map of anything": (dict[str, Any], ".spec.field", "a map of values of any type", "PreserveUnknown()"),
    "a bare map": (dict, ".spec.field", "a map of values of any type", "dict[str, str]"),
    "only None": (None, ".spec.field", "a field that is only ever None", "drop it"),
    "a function": (Callable[[], None], ".spec.field", "this type has no JSON schema", "plain type"),
    "a secret text": (SecretStr, ".spec.field", "a SecretStr", "refer to a Secret by name and key"),
    "a timedelta": (datetime.timedelta, ".spec.field", "a timedelta in ISO form", "Duration"),
    "a decimal": (decimal.Decimal, ".spec.field", "a Decimal", "str"),
    "bytes": (bytes, ".spec.field", "bytes", "Base64Bytes"),
    "JSON inside a text": (Json[int], ".spec.field", "JSON inside a text", "the model itself"),
    "a default of another type": (BAD_DEFAULT, ".spec.field.every", "a default that its own type cannot write", "timedelta(minutes=5)"),
    "nullable without None": (Annotated[int, Nullable()], ".spec.field", "Nullable on a field that is never None", "X | None"),
    "a number or a text of other types": (Annotated[int | bool, IntOrString()], ".spec.field", "IntOrString on anything but int | str", "int | str"),
    "a list map of scalars": (Annotated[list[str], ListMap("name")], ".spec.field", "ListMap by 'name'", "scalar field of the items"),
    "a list map by an unknown key": (Annotated[list[Part], ListMap("port_number")], ".spec.field", "ListMap by 'port_number'", "fields: name, portNumber, note"),
    "a list map by an optional key": (Annotated[list[Optionals], ListMap("name")], ".spec.field", "ListMap by 'name', which may be absent", "required"),
    "a list set of models": (Annotated[list[Part], ListSet()], ".spec.field", "ListSet of anything but scalars", "ListMap"),
    "a list map that is a map": (Annotated[dict[str, str], ListMap("a")], ".spec.field", "ListMap or ListSet on anything but a list", "move the marker"),
    "an atomic scalar": (Annotated[str, Atomic()], ".spec.field", "Atomic on a scalar", "drop the marker"),
    "an atomic set": (Annotated[list[str], ListSet(), Atomic()], ".spec.field", "Atomic together with ListMap or ListSet", "choose one"),
    "an old value in a list": (list[Annotated[str, OLD]], ".spec.field[]", "a rule about the old value inside a list", "ListMap"),
    "an immutable field in a list": (list[Held], ".spec.field[].must", "a rule about the old value inside a list", "ListMap"),
}  # fmt: skip


@pytest.mark.parametrize(("annotation", "path", "problem", "instead"), INEXPRESSIBLE.values(), ids=INEXPRESSIBLE)
def test_type_that_a_schema_cannot_express_is_refused_with_an_alternative(
    annotation: Any, path: str, problem: str, instead: str
) -> None:
    with pytest.raises(SchemaError) as caught:
        schema_of_field(annotation, REQUIRED)
    words = str(caught.value)
    assert words.startswith(f"Sample: {path}: no structural schema can express {problem}")
    assert instead in words.partition(problem)[2]


def test_old_value_may_be_compared_in_a_list_with_keyed_items() -> None:
    class Item(Model):
        name: str
        zone: Annotated[str, OLD] = "a"

    found = schema_of_field(Annotated[list[Item], ListMap("name")], REQUIRED)
    assert found["items"]["properties"]["zone"][VALIDATIONS] == [OLD.entry()]


def test_a_condition_has_the_schema_of_metav1() -> None:
    schema = schema_of_field(Condition, REQUIRED)
    assert schema["required"] == ["lastTransitionTime", "message", "reason", "status", "type"]
    assert schema["properties"]["status"]["enum"] == ["True", "False", "Unknown"]


def test_two_fields_of_one_model_are_both_written_out() -> None:
    class Twins(Model):
        one: Part
        two: Part

    found = schema_of_field(Twins, REQUIRED)["properties"]
    assert found == {"one": PART, "two": PART}


def test_models_that_are_not_ours_are_read_with_their_own_names() -> None:
    class Plain(BaseModel):
        snake_case: int = 1

    assert list(schema_of_field(Plain, REQUIRED)["properties"]) == ["snake_case"]


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("replicas", "replicas"),
        ("namespace", "__namespace__"),
        ("in", "__in__"),
        ("a-b", "a__dash__b"),
        ("a.b/c", "a__dot__b__slash__c"),
        ("a__b", "a__underscores__b"),
    ],
)
def test_names_are_escaped_for_cel(name: str, written: str) -> None:
    assert cel_name(name) == written


class _Inherited(Model):
    kept: str = ""
    gone: Annotated[tuple[str, ...], NotInSchema()] = ()


def test_a_field_that_the_api_does_not_have_stands_in_no_schema() -> None:
    @resource("example.com/v1")
    class Thing(CustomResource[_Inherited, Status]):
        """A thing."""

    assert set(schema_of(Thing)["properties"]["spec"]["properties"]) == {"kept"}
    assert Thing.new("a", "web", spec=_Inherited(kept="x")).to_dict()["spec"] == {"kept": "x"}
