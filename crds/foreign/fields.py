"""The schema of a field -> its annotation and its default.

| Schema | Annotation |
|---|---|
| an enum of texts | its values or any other text: a newer API server may add a value |
| `date-time` | `AwareDatetime`; a `MicroTime` is a text, because the API server wants its six decimals |
| int-or-string; a quantity | `int | str`; `int | float | str` |
| a list, a map | `list[...]`, `dict[str, ...]` |
| declared fields | a class |
| anything else | `Any`, or `dict[str, Any]` for an object |

A required field has no default, a field with a scalar default has that default, and any other field may be None. Kubernetes publishes
`default: {}` for a struct that is always present (k8s.io/kube-openapi `pkg/generators`: a field without a pointer). Such a field is an
empty object by default, and so are `spec` and `status` of every kind, unless the object has required fields. Then a `spec` or `template`
that is always present is required; any other object may be None, because a program creates objects without a status.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from konverge.crds.foreign.collecting import Classes, ModelKey, Node, items_of
from konverge.crds.foreign.documents import Schema
from konverge.crds.foreign.naming import attribute_name
from konverge.crds.foreign.schemas import is_int_or_string, resolved
from konverge.model import camel_case

__all__ = ["ModelField", "fields_of", "quoted"]

_SCALARS: Final = {"integer": ("int",), "number": ("int", "float"), "string": ("str",), "boolean": ("bool",)}
_EMPTY_OBJECTS: Final = frozenset({"spec", "status"})
_SPECIFICATIONS: Final = frozenset({"spec", "template"})
_NONE: Final = "None"


@dataclass(frozen=True, slots=True)
class ModelField:
    """A field of a class as source text: `members` are the members of its union, `default` is "" for a required field."""

    name: str
    alias: str
    members: tuple[str, ...]
    default: str
    description: str


def fields_of(classes: Classes, key: ModelKey) -> list[ModelField]:
    """Return the fields of a class; `alias` is the field's name in the API, "" if the models derive it from `name`."""
    node = classes.nodes[key]
    fields: list[ModelField] = []
    for name, schema in node.properties():
        attribute = attribute_name(name, {field.name for field in fields}, of_resource=node.is_root)
        members = annotation(classes, node, schema, (*key, name))
        default = _Defaults(classes, set()).default(key, name, members)
        optional = (*members, _NONE) if default == _NONE and not {_NONE, "Any"} & {*members} else members
        description = schema.get("description") or resolved(schema, node.kind.definitions).schema.get("description", "")
        alias = "" if camel_case(attribute) == name else name
        fields.append(ModelField(attribute, alias, optional, default, description))
    return fields


def annotation(classes: Classes, node: Node, schema: Schema, place: ModelKey) -> tuple[str, ...]:
    """Return the members of the union that a schema describes."""
    component, target = resolved(schema, node.kind.definitions)
    members = _members(classes, node, component, target, schema, place)
    nullable = schema.get("nullable") or target.get("nullable")
    return (*members, _NONE) if nullable and members != ("Any",) else members


def _members(
    classes: Classes, node: Node, component: str, target: Schema, schema: Schema, place: ModelKey
) -> tuple[str, ...]:
    model = classes.key_of(schema, place, node.kind)
    if model is not None:
        return (classes.nodes[model].name,)
    if is_int_or_string(target):
        return ("int", "str")
    match target.get("type"):
        case "array":
            return (f"list[{_inner(classes, node, target, place)}]",)
        case "object":
            return (f"dict[str, {_inner(classes, node, target, place)}]",)
        case "string":
            return _of_text(component, target)
        case str(scalar) if scalar in _SCALARS:
            return _SCALARS[scalar]
    types = {part.get("type") for part in (*(target.get("oneOf") or ()), *(target.get("anyOf") or ()))}
    if types and types <= _SCALARS.keys():
        return tuple(
            dict.fromkeys(member for type_, members in _SCALARS.items() if type_ in types for member in members)
        )
    return ("Any",)


def _inner(classes: Classes, node: Node, target: Schema, place: ModelKey) -> str:
    inner = items_of(target)
    return " | ".join(annotation(classes, node, inner, place)) if inner else "Any"


def _of_text(component: str, target: Schema) -> tuple[str, ...]:
    values = [value for value in target.get("enum") or () if isinstance(value, str)]
    if values:
        return (f"Literal[{', '.join(quoted(value) for value in values)}]", "str")
    if target.get("format") == "date-time" and not component.endswith(".MicroTime"):
        return ("AwareDatetime",)
    return ("str",)


def quoted(value: str) -> str:
    r"""Return a text as a literal of Python with double quotes, as the formatter writes it.

    >>> print(quoted('a "b"'))
    "a \"b\""
    """
    return json.dumps(value, ensure_ascii=False)


@dataclass(slots=True)
class _Defaults:
    """Finds defaults; `_open` are the classes on the way, because a class in a recursion cannot be its own default."""

    classes: Classes
    _open: set[ModelKey]

    def default(self, key: ModelKey, name: str, members: Sequence[str]) -> str:
        """Return the source text of a default, "" for a required field."""
        node = self.classes.nodes[key]
        schema: Schema = node.schema["properties"][name]
        if name in (node.schema.get("required") or ()):
            return ""
        model = self.classes.key_of(schema, (*key, name), node.kind)
        if model is not None:
            return self._of_model(node, name, schema, model)
        _, target = resolved(schema, node.kind.definitions)
        default = schema.get("default", target.get("default"))
        if target.get("type") in ("array", "object"):
            is_empty = default in ([], {}) or (node.is_root and name in _EMPTY_OBJECTS and target["type"] == "object")
            return f"Field(default_factory={members[0]})" if is_empty and len(members) == 1 else _NONE
        if _NONE in members or not _is_of(default, members):
            return _NONE
        return quoted(default) if isinstance(default, str) else repr(default)

    def _of_model(self, node: Node, name: str, schema: Schema, model: ModelKey) -> str:
        by_convention = node.is_root and name in _EMPTY_OBJECTS
        is_present = schema.get("default") == {}
        if not (is_present or by_convention) or model in self._open:
            return _NONE
        if self._has_required(model):
            return "" if is_present and name in _SPECIFICATIONS else _NONE
        return f"Field(default_factory={self.classes.nodes[model].name})"

    def _has_required(self, key: ModelKey) -> bool:
        self._open.add(key)
        node = self.classes.nodes[key]
        required = any(not self.default(key, name, ("Any",)) for name, _ in node.properties())
        self._open.discard(key)
        return required


def _is_of(default: Any, members: Sequence[str]) -> bool:
    """Return whether a scalar default has a type of a union."""
    return type(default).__name__ in members
