"""Markers of fields and models that become rules and options of the schema.

Guarantees: each marker is frozen data inside `Annotated[...]`; it changes only the schema, not the validation in Python.
`Cel` also decorates a whole model. The schema is checked when the resource is complete (`konverge.crds.schema`), so a marker in the
wrong place is an error with the field's path, not a refusal by the API server weeks later.

Caveats: CEL rules are not evaluated here; the API server does that.

Source: Kubernetes, "Structural schemas" and "Validation rules" of CustomResourceDefinitions; the merge markers are from
structured-merge-diff.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

import msgspec
from pydantic import BaseModel, GetJsonSchemaHandler
from pydantic_core import CoreSchema

from konverge.errors import UsageError

__all__ = [
    "Atomic",
    "Cel",
    "EmbeddedResource",
    "Immutable",
    "IntOrString",
    "ListMap",
    "ListSet",
    "NotInSchema",
    "Nullable",
    "PreserveUnknown",
    "rules_of",
]

M = TypeVar("M", bound=BaseModel)

VALIDATIONS = "x-kubernetes-validations"
RULE_KEYS = ("rule", "message", "messageExpression", "reason", "fieldPath", "optionalOldSelf")
# Notes to konverge.crds.schema, which replaces them by keys of Kubernetes.
ATOMIC = "x-konverge-atomic"
IMMUTABLE = "x-konverge-immutable"
NOT_IN_SCHEMA = "x-konverge-not-in-schema"

_RULES = "__konverge_rules__"
_MAX_MESSAGE = 2048

CelReason = Literal["FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate"]


class _Marks(Protocol):
    def mark(self, schema: dict[str, Any]) -> dict[str, Any]: ...


class _Marker:
    """Marks the JSON schema of the type that it annotates, by the method `mark` of its subclass."""

    __slots__ = ()

    def __get_pydantic_json_schema__(
        self: _Marks, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return self.mark(handler(core_schema))


@dataclass(frozen=True)
class Cel(_Marker):
    """A validation rule in CEL, on a field or on a whole model; the API server refuses a value that breaks it with `message`.

    `self` is the value, `oldSelf` the stored value; a rule that names `oldSelf` is checked on updates only. `reason` is the
    machine-readable word of the refusal, `field_path` the field that is reported instead of the field with the rule (`.minimum`).
    With `optional_old_self` the rule also runs on creation, and `oldSelf` is an optional value. `message_expression` is a CEL
    expression for the message; if it fails, `message` is used.

    >>> from typing import Annotated
    >>> from konverge.model import Model
    >>> @Cel("has(self.secret) != has(self.value)", "write either secret or value")
    ... class Token(Model):
    ...     secret: Annotated[str, Cel("self.size() > 0", "must not be empty")] | None = None
    ...     value: str | None = None
    >>> [rule.message for rule in rules_of(Token)]
    ['write either secret or value']
    """

    rule: str
    message: str
    reason: CelReason | None = None
    field_path: str = ""
    optional_old_self: bool = False
    message_expression: str = ""

    def __post_init__(self) -> None:
        if not self.rule.strip():
            raise UsageError("Cel: the rule is empty")
        if not self.message.strip() or "\n" in self.message or len(self.message) > _MAX_MESSAGE:
            raise UsageError(
                f"Cel({self.rule!r}): the message is what a user reads; write one line of at most {_MAX_MESSAGE} characters"
            )

    def __call__(self, model: type[M]) -> type[M]:
        """Bind the rule to a whole model, as a decorator; several rules are checked from top to bottom."""
        if not _is_model(model):
            raise UsageError(f"@Cel({self.rule!r}) decorates models; on a field write Annotated[..., Cel(...)]")
        if "__konverge_declaration__" in model.__dict__:
            raise UsageError(
                f"{model.__name__}: rules of a whole resource are an argument: @resource(..., rules=(Cel(...),))"
            )
        setattr(model, _RULES, (self, *model.__dict__.get(_RULES, ())))
        return model

    def entry(self) -> dict[str, Any]:
        """Return the rule as an entry of `x-kubernetes-validations`."""
        optional = {
            "messageExpression": self.message_expression,
            "reason": self.reason,
            "fieldPath": self.field_path,
            "optionalOldSelf": self.optional_old_self,
        }
        return {"rule": self.rule, "message": self.message, **{key: value for key, value in optional.items() if value}}

    def mark(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the schema with the rule after its present rules."""
        return {**schema, VALIDATIONS: [*schema.get(VALIDATIONS, ()), self.entry()]}


class Immutable(Cel):
    """The field cannot be changed, and cannot be removed once it is set; members of a list or map cannot be changed.

    The rule holds while the object that contains the field exists: if an optional object is removed, its fields may change.

    >>> Immutable().message
    'cannot be changed'
    """

    def __init__(self, message: str = "cannot be changed") -> None:
        super().__init__("self == oldSelf", message)

    def mark(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the schema with the rule; the object with the field adds a rule against the field's removal."""
        return {**super().mark(schema), IMMUTABLE: self.message}


@dataclass(frozen=True, init=False)
class ListMap(_Marker):
    """A list of objects that is merged by key: each manager owns its own items (server-side apply).

    The keys are given in the API's spelling; each must be required or have a default.

    >>> ListMap("name").mark({})
    {'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['name']}
    """

    names: tuple[str, ...]

    def __init__(self, key: str, *more: str) -> None:
        object.__setattr__(self, "names", (key, *more))

    def mark(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the schema with the marker on it."""
        return {**schema, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(self.names)}


class ListSet(msgspec.Struct, _Marker, frozen=True):
    """A list of scalars without duplicates, merged value by value (server-side apply).

    >>> ListSet().mark({})
    {'x-kubernetes-list-type': 'set'}
    """

    def mark(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the schema with the marker on it."""
        return {**schema, "x-kubernetes-list-type": "set"}


class Atomic(msgspec.Struct, _Marker, frozen=True):
    """A list, a map or an object that has one owner and is replaced as a whole (server-side apply).

    Lists without a marker are atomic already; maps and objects are not.

    >>> Atomic().mark({})
    {'x-konverge-atomic': True}
    """

    def mark(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the schema with the marker on it; the type of the field decides which key it becomes."""
        return {**schema, ATOMIC: True}


class PreserveUnknown(msgspec.Struct, _Marker, frozen=True):
    """Any content is allowed: the API server neither checks nor prunes fields that the schema does not name.

    >>> PreserveUnknown().mark({})
    {'x-kubernetes-preserve-unknown-fields': True}
    """

    def mark(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the schema with the marker on it."""
        return {**schema, "x-kubernetes-preserve-unknown-fields": True}


class IntOrString(msgspec.Struct, _Marker, frozen=True):
    """A number or a text, for instance `8080` or `"25%"`; on `int | str`.

    The API server checks `pattern` and `max_length` of a text. Python reads any text, so that an object that was stored before they
    were declared still decodes. CEL rules about the value need a `max_length`: without one the API server estimates their cost with 3 MiB.

    >>> IntOrString("^[0-9]+%$", max_length=4).mark({})
    {'x-kubernetes-int-or-string': True, 'maxLength': 4, 'pattern': '^[0-9]+%$'}
    """

    pattern: str = ""
    max_length: int | None = None

    def mark(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the schema with the marker on it."""
        asked = {"maxLength": self.max_length, "pattern": self.pattern}
        return {**schema, "x-kubernetes-int-or-string": True, **{key: value for key, value in asked.items() if value}}


class NotInSchema(msgspec.Struct, _Marker, frozen=True):
    """A field that the model inherits and the API does not have: the schema omits it, so the API server prunes it.

    For instance on `conditions` of a status that has one condition in a field of its own.

    >>> NotInSchema().mark({})
    {'x-konverge-not-in-schema': True}
    """

    def mark(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the schema with the marker on it; the object with the field leaves it out."""
        return {**schema, NOT_IN_SCHEMA: True}


class EmbeddedResource(msgspec.Struct, _Marker, frozen=True):
    """A whole Kubernetes object inside another object: the API server checks its apiVersion, kind and metadata.

    >>> EmbeddedResource().mark({})
    {'x-kubernetes-embedded-resource': True, 'x-kubernetes-preserve-unknown-fields': True}
    """

    def mark(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the schema with the marker on it."""
        return {**schema, "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}


class Nullable(msgspec.Struct, _Marker, frozen=True):
    """`None` is a value of its own that is stored as null; without this marker an optional field is either set or absent.

    >>> Nullable().mark({})
    {'nullable': True}
    """

    def mark(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the schema with the marker on it."""
        return {**schema, "nullable": True}


def _is_model(what: object) -> bool:
    return isinstance(what, type) and issubclass(what, BaseModel)


def rules_of(model: type[BaseModel]) -> tuple[Cel, ...]:
    """Return the rules that decorate a model, after the rules of its bases."""
    rules: list[Cel] = []
    for base in reversed(model.__mro__):
        rules.extend(base.__dict__.get(_RULES, ()))
    return tuple(rules)
