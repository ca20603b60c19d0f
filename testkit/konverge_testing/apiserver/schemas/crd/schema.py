"""The schema of a CustomResourceDefinition: the subset of OpenAPI for CRDs, lists and maps, rules; with structure and defaults.

Guarantees: pure. Source: apiextensions `pkg/apis/apiextensions/validation/{validation,cel_validation}.go`
(ValidateCustomResourceDefinitionOpenAPISchema; the estimated costs of rules and their limits).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

import msgspec

from konverge_testing.apiserver.cel import compile_message, compile_rule, rule_cost, uses_old_self
from konverge_testing.apiserver.nodes import Node
from konverge_testing.apiserver.schemas.crd.defaults import default_errors
from konverge_testing.apiserver.schemas.crd.internal import FIELD_NAMES, shown_rule, shown_schema
from konverge_testing.apiserver.schemas.crd.lists import list_schema_errors
from konverge_testing.apiserver.schemas.crd.structural import structural_errors, unstructurable
from konverge_testing.apiserver.schemas.fieldpath import find
from konverge_testing.apiserver.statuses import FieldError

__all__ = ["schema_errors"]

Schema = Mapping[str, Any]

_ENCODE: Final = msgspec.json.Encoder().encode
_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_META: Final = frozenset({"apiVersion", "kind", "metadata"})
_REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_AT_ROOT: Final = (
    "Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems "
    "UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations"
)
_MOST_OF_RULE: Final = 10_000_000
_MOST_OF_SCHEMA: Final = 100_000_000
_MOST_SHOWN: Final = 4
_HINT: Final = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
_UNSUPPORTED: Final = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")


@dataclass(slots=True)
class _Costs:
    """The estimated costs of the rules of one schema."""

    single: bool
    """Whether the limit of a single rule is checked: not if the stored definition has the same schema."""
    total: int = 0
    largest: list[tuple[str, int]] = field(default_factory=list)
    """The places and costs of the most expensive rules."""

    def observe(self, path: str, cost: int, shown: str) -> list[FieldError]:
        """Count the cost of a rule; returns the error if the rule exceeds its limit."""
        self.total += cost
        if cost >= _MOST_OF_SCHEMA // 100:
            self.largest = sorted([*self.largest, (path, cost)], key=lambda one: -one[1])[:_MOST_SHOWN]
        if not self.single or cost <= _MOST_OF_RULE:
            return []
        return [FieldError("Forbidden", path, "", _excess(f"estimated {shown} cost", cost, _MOST_OF_RULE))]

    def errors(self, path: str) -> list[FieldError]:
        """Return the error of the total cost."""
        if self.total <= _MOST_OF_SCHEMA:
            return []
        words = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        shown = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        errors = [FieldError("Forbidden", place, "", words) for place, _ in self.largest]
        return [*errors, FieldError("Forbidden", path, "", _excess(shown, self.total, _MOST_OF_SCHEMA))]


def _excess(name: str, cost: int, limit: int) -> str:
    factor = cost / limit
    shown = "more than 100x" if factor > 100 else f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    return f"{name} exceeds budget by factor of {shown} {_HINT}"


@dataclass(frozen=True, slots=True)
class _Place:
    """The position in a schema: the fields above it decide what is allowed."""

    path: str
    costs: _Costs
    root: bool = False
    no_defaults: str = ""
    """The reason why defaults are forbidden, or "" if they are allowed."""
    in_meta: bool = False
    uncorrelated: str = ""
    """The outermost place whose values cannot be correlated with old values, or "" if all can."""
    rules: bool = True
    """Whether rules are compiled at this position."""
    cardinality: int | None = 1
    """The maximum number of values at this position in an object, or None if it is unlimited."""


def schema_errors(schema: Schema, path: str, *, has_status: bool, unchanged: bool = False) -> list[FieldError]:
    """Return the errors of a version's schema; `path` is the path of openAPIV3Schema, `unchanged`: it equals the stored schema."""
    return list(_known_errors(_ENCODE(schema), path, has_status, unchanged))


@lru_cache(maxsize=256)
def _known_errors(text: bytes, path: str, has_status: bool, unchanged: bool) -> tuple[FieldError, ...]:
    """Check each schema once a process: tests define the same kinds again and again, and every rule must be compiled."""
    return tuple(_errors(msgspec.json.decode(text), path, _Costs(not unchanged), has_status=has_status))


def _errors(schema: Schema, path: str, costs: _Costs, *, has_status: bool) -> list[FieldError]:
    errors = _status_errors(schema, path) if has_status else []
    if schema.get("nullable"):
        errors.append(FieldError("Forbidden", f"{path}.nullable", "", "nullable cannot be true at the root"))
    unreadable = unstructurable(schema)
    sound = False
    if not unreadable:
        found = structural_errors(schema, path) or default_errors(Node(schema), path)
        sound = not found
        errors += found
    own, rules = _openapi(schema, _Place(path, costs, root=True, rules=sound))
    errors += own + rules
    if unreadable and not errors:
        errors.append(FieldError("Invalid", path, "", unreadable))
    return errors + costs.errors(path)


def _status_errors(schema: Schema, path: str) -> list[FieldError]:
    allowed = frozenset(_AT_ROOT.split())
    for wire, name in FIELD_NAMES.items():
        value = schema.get(wire)
        if value is None or value in ("", False):
            continue
        if name == "Type":
            if value != "object":
                words = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
                return [FieldError("Invalid", f"{path}.type", value, words)]
        elif name not in allowed:
            words = (
                f"only [{_AT_ROOT}] fields are allowed at the root of the schema if the status subresource is enabled"
            )
            return [FieldError("Invalid", path, shown_schema(schema), words)]
    return []


def _openapi(schema: Any, place: _Place) -> tuple[list[FieldError], list[FieldError]]:
    """Check a schema and its subschemas; return errors of the schema, and errors of its rules."""
    if not isinstance(schema, Mapping):
        return [], []
    own, rules = _standard(schema, place), list[FieldError]()
    if schema.get("uniqueItems"):
        words = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        own.append(FieldError("Forbidden", f"{place.path}.uniqueItems", "", words))
    additional = schema.get("additionalProperties")
    if schema.get("properties") and (additional is False or isinstance(additional, Mapping)):
        words = "additionalProperties and properties are mutual exclusive"
        own.append(FieldError("Forbidden", f"{place.path}.additionalProperties", "", words))
    for child, there in _children(schema, place):
        found, ruled = _openapi(child, there)
        own, rules = own + found, rules + ruled
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        here = f"{place.path}.x-kubernetes-preserve-unknown-fields"
        own.append(FieldError("Invalid", here, False, "must be true or undefined"))
    own += list_schema_errors(schema, place.path)
    if several := schema.get("x-kubernetes-validations"):
        for index, rule in enumerate(several):
            own += _rule_form(schema, rule, f"{place.path}.x-kubernetes-validations[{index}]")
        if not own and place.rules:
            for index, rule in enumerate(several):
                rules += _rule_errors(schema, rule, f"{place.path}.x-kubernetes-validations[{index}]", place)
    return own, rules


def _children(schema: Schema, place: _Place) -> list[tuple[Any, _Place]]:
    below = replace(place, root=False, cardinality=_cardinality(schema, place.cardinality))
    path = place.path
    found: list[tuple[Any, _Place]] = []
    reason = "inside additionalProperties applying to object metadata" if place.in_meta else place.no_defaults
    found.append(
        (schema.get("additionalProperties"), replace(below, path=f"{path}.additionalProperties", no_defaults=reason))
    )
    for name, child in (schema.get("properties") or {}).items():
        there = replace(below, path=f"{path}.properties[{name}]")
        if name in _META and (place.root or schema.get("x-kubernetes-embedded-resource")):
            there = replace(there, in_meta=True)
            if place.root:
                there = replace(there, no_defaults=f"in top-level {name}")
        found.append((child, there))
    validation = replace(below, rules=False)
    found.append((schema.get("not"), replace(validation, path=f"{path}.not")))
    for name in ("allOf", "oneOf", "anyOf"):
        for index, child in enumerate(schema.get(name) or ()):
            found.append((child, replace(validation, path=f"{path}.{name}[{index}]")))
    listed = below if schema.get("x-kubernetes-list-type") == "map" else _uncorrelated(below, path)
    items = schema.get("items")
    if isinstance(items, list):
        found += [(child, replace(listed, path=f"{path}.items[{index}]")) for index, child in enumerate(items)]
    else:
        found.append((items, replace(listed, path=f"{path}.items")))
    return found


def _cardinality(schema: Schema, here: int | None) -> int | None:
    """Return the maximum number of values below a place that has this number."""
    limit: int | None = 1
    if schema.get("type") == "array":
        limit = schema.get("maxItems")
    elif schema.get("type") == "object" and schema.get("additionalProperties") is not None:
        limit = schema.get("maxProperties")
    return None if here is None or limit is None else here * max(limit, 0)


def _uncorrelated(place: _Place, path: str) -> _Place:
    return place if place.uncorrelated else replace(place, uncorrelated=path)


def _standard(schema: Schema, place: _Place) -> list[FieldError]:
    errors: list[FieldError] = []
    kind, path = schema.get("type") or "", place.path
    if kind and kind not in _TYPES:
        supported = ", ".join(f'"{one}"' for one in _TYPES)
        errors.append(FieldError("NotSupported", f"{path}.type", kind, f"supported values: {supported}"))
    if schema.get("default") is not None and place.no_defaults:
        errors.append(FieldError("Forbidden", f"{path}.default", "", f"must not be set {place.no_defaults}"))
    for name in _UNSUPPORTED:
        value = schema.get(name)
        if value or (value is not None and name in ("additionalItems", "dependencies", "$ref")):
            errors.append(FieldError("Forbidden", f"{path}.{name}", "", f"{name} is not supported"))
    if kind == "null":
        words = "type cannot be set to null, use nullable as an alternative"
        errors.append(FieldError("Forbidden", f"{path}.type", "", words))
    if isinstance(schema.get("items"), list) and schema["items"]:
        errors.append(FieldError("Forbidden", f"{path}.items", "", "items must be a schema object and not an array"))
    if place.in_meta and schema.get("x-kubernetes-embedded-resource"):
        words = "must not be used inside of resource meta"
        errors.append(FieldError("Forbidden", f"{path}.x-kubernetes-embedded-resource", "", words))
    return errors


# --- rules -------------------------------------------------------------------------------------------------------------------------


def _has_newline(text: str) -> bool:
    return re.search(r"[\n\r]", text) is not None


def _rule_form(schema: Schema, rule: Schema, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    text, message = rule.get("rule") or "", rule.get("message") or ""
    if not text.strip():
        errors.append(FieldError("Required", f"{path}.rule", "", "rule is not specified"))
    elif message and not message.strip():
        errors.append(FieldError("Invalid", f"{path}.message", message, "must be non-empty if specified"))
    elif _has_newline(message.strip()):
        errors.append(FieldError("Invalid", f"{path}.message", message, "must not contain line breaks"))
    elif _has_newline(text.strip()) and not message.strip():
        errors.append(
            FieldError("Required", f"{path}.message", "", "message must be specified if rule contains line breaks")
        )
    expression = rule.get("messageExpression") or ""
    if expression and not expression.strip():
        words = "messageExpression must be non-empty if specified"
        errors.append(FieldError("Required", f"{path}.messageExpression", "", words))
    reason, field = rule.get("reason"), rule.get("fieldPath") or ""
    if reason is not None and reason not in _REASONS:
        supported = ", ".join(f'"{one}"' for one in _REASONS)
        errors.append(FieldError("NotSupported", f"{path}.reason", reason, f"supported values: {supported}"))
    if field and not field.strip():
        errors.append(FieldError("Invalid", f"{path}.fieldPath", field, "must be non-empty if specified"))
    if _has_newline(field):
        errors.append(FieldError("Invalid", f"{path}.fieldPath", field, "must not contain line breaks"))
    if field and find(field, schema).wrong:
        errors.append(FieldError("Invalid", f"{path}.fieldPath", field, "must be a valid path"))
    return errors


def _rule_errors(schema: Schema, rule: Schema, path: str, place: _Place) -> list[FieldError]:
    errors: list[FieldError] = []
    node, text, optional = Node(schema), rule["rule"], rule.get("optionalOldSelf")
    wrong = compile_rule(node, text, root=place.root, optional_old=bool(optional))
    if wrong is not None:
        errors.append(FieldError("Invalid", f"{path}.rule", shown_rule(rule), wrong))
    else:
        cost = rule_cost(node, text, root=place.root, optional_old=bool(optional), cardinality=place.cardinality)
        errors += place.costs.observe(f"{path}.rule", cost, "rule")
    if expression := rule.get("messageExpression"):
        here = f"{path}.messageExpression"
        wrong_message = compile_message(node, expression, root=place.root, optional_old=bool(optional))
        if wrong_message is not None:
            errors.append(FieldError("Invalid", here, shown_rule(rule), wrong_message))
        else:
            cost = rule_cost(node, expression, root=place.root, optional_old=bool(optional))
            errors += place.costs.observe(here, cost, "messageExpression")
    if wrong is None and uses_old_self(node, text, root=place.root):
        if place.uncorrelated:
            words = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {place.uncorrelated}"
            errors.append(FieldError("Invalid", f"{path}.rule", text, words))
    elif optional is not None:
        words = "may not be set if oldSelf is not used in rule"
        errors.append(FieldError("Invalid", f"{path}.optionalOldSelf", optional, words))
    return errors
