"""The rules of how a pod selects its node: affinity, tolerations, spread and gates.

Source: `pkg/apis/core/validation/validation.go` (validateAffinity, ValidateTolerations, validateTopologySpreadConstraints).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from konverge_testing.apiserver import names
from konverge_testing.apiserver.strategies.errors import (
    Data,
    Errors,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from konverge_testing.apiserver.strategies.labels import operator_errors, requirement, selector_errors
from konverge_testing.apiserver.strategies.rules import (
    among,
    at,
    between,
    each,
    filled,
    given,
    must,
    need,
    struct,
    text,
    unique,
)

__all__ = [
    "PREFERRED",
    "REQUIRED",
    "affinity",
    "gates",
    "node_selector",
    "spread_errors",
    "taint_effect",
    "tolerations",
]

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_NO_KEY: Final = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
_BOTH: Final = "exists in both matchLabelKeys and"
_GREATER: Final = "must be greater than zero"

taint_effect: Final = among("NoSchedule", "PreferNoSchedule", "NoExecute")
_key: Final = text(names.label_key)


def _operator(toleration: Data, path: str) -> Errors:
    operator, value, effect = (toleration.get(name, "") for name in ("operator", "value", "effect"))
    where = f"{path}.operator"
    errors: Errors = []
    if not toleration.get("key") and operator != "Exists":
        errors.append(invalid(where, operator, _NO_KEY))
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        errors.append(invalid(f"{path}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"))
    if operator in ("", "Equal"):
        problems = names.label_value(value)
        return errors + ([invalid(where, value, ";".join(problems))] if problems else [])
    if operator == "Exists":
        words = "value must be empty when `operator` is 'Exists'"
        return errors + ([invalid(where, value, words)] if value else [])
    allowed = ("Equal", "Exists", "Lt", "Gt") if operator in ("Lt", "Gt") else ("Equal", "Exists")
    return [*errors, not_supported(where, operator, allowed)]


tolerations: Final = each(filled("key", _key), _operator, filled("effect", taint_effect))
gates: Final = each(lambda gate, path: _key(gate.get("name"), path), unique("name", of_item=True, empties=False))


def _domains(constraint: Data, path: str) -> Errors:
    count, action = constraint.get("minDomains"), constraint.get("whenUnsatisfiable", "")
    if count is None:
        return []
    errors = must(lambda value: value > 0, _GREATER)(count, f"{path}.minDomains")
    if action != "DoNotSchedule":
        words = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        errors.append(invalid(f"{path}.minDomains", count, words))
    return errors


_constraint: Final = struct(
    lambda data, path: must(lambda skew: skew > 0, _GREATER)(data.get("maxSkew", 0), f"{path}.maxSkew"),
    need("topologyKey", detail="can not be empty"),
    at("whenUnsatisfiable", among("DoNotSchedule", "ScheduleAnyway")),
)


def spread_errors(constraints: list[Data] | None, path: str) -> Errors:
    """Check how the pods are spread over the nodes."""
    errors: Errors = []
    keys = [(each_.get("topologyKey", ""), each_.get("whenUnsatisfiable", "")) for each_ in constraints or ()]
    for index, constraint in enumerate(constraints or ()):
        here, (key, action) = f"{path}[{index}]", keys[index]
        errors += _constraint(constraint, here)
        if keys[index] in keys[index + 1 :]:
            errors.append(duplicate(f"{here}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}"))
        errors += _domains(constraint, here)
        errors += given("nodeAffinityPolicy nodeTaintsPolicy", among("Honor", "Ignore"))(constraint, here)
        selector = constraint.get("labelSelector")
        errors += _label_keys(here, constraint.get("matchLabelKeys") or [], [], selector)
        errors += selector_errors(selector, f"{here}.labelSelector")
    return errors


def _label_keys(path: str, match: list[str], mismatch: list[str], selector: Mapping[str, Any] | None) -> Errors:
    """Check the keys of labels whose values the server adds to a selector."""
    errors: Errors = []
    for name, keys in (("matchLabelKeys", match), ("mismatchLabelKeys", mismatch)):
        if keys and selector is None:
            errors.append(forbidden(f"{path}.{name}", "must not be specified when labelSelector is not set"))
        else:
            errors += each(_key)(keys, f"{path}.{name}")
    seen = set((selector or {}).get("matchLabels") or ())
    places = {key: index for index, key in enumerate(match)}
    for expression in (selector or {}).get("matchExpressions") or ():
        key = expression.get("key", "")
        if key in places and key in seen:
            errors.append(invalid(f"{path}[{places[key]}]", key, f"{_BOTH} labelSelector"))
        seen.add(key)
    both = [(index, key) for index, key in enumerate(match) if key in mismatch]
    return errors + [
        invalid(f"{path}.matchLabelKeys[{index}]", key, f"{_BOTH} mismatchLabelKeys") for index, key in both
    ]


def _node_operator(expression: Data, path: str) -> Errors:
    if expression.get("operator") not in ("Gt", "Lt"):
        return operator_errors(expression, path)
    words = "must be specified single value when `operator` is 'Lt' or 'Gt'"
    return [] if len(expression.get("values") or ()) == 1 else [required(f"{path}.values", words)]


def _node_field(field: Data, path: str) -> Errors:
    operator, values = field.get("operator", ""), field.get("values") or []
    if operator not in ("In", "NotIn"):
        return [invalid(f"{path}.operator", operator, "not a valid selector operator")]
    words = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
    return [] if len(values) == 1 else [required(f"{path}.values", words)]


def _field_key(field: Data, path: str) -> Errors:
    key = field.get("key", "")
    if key != "metadata.name":
        return [invalid(f"{path}.key", key, "not a valid field selector key")]
    return each(text(names.dns1123_subdomain))(field.get("values"), f"{path}.values")


_fields: Final = at("matchFields", each(_node_field, _field_key))
_term: Final = struct(at("matchExpressions", each(requirement(_node_operator))), _fields)
_preference: Final = struct(at("matchExpressions", each(requirement(_node_operator, values=False))), _fields)
_weight: Final = at("weight", between(1, 100, "must be in the range 1-100"))
node_selector: Final = need("nodeSelectorTerms", each(_term), detail="must have at least one node selector term")


def _pod_keys(term: Data, path: str) -> Errors:
    namespace = text(names.dns1123_label)
    errors = [error for name in term.get("namespaces") or () for error in namespace(name, f"{path}.namespace")]
    match, mismatch = term.get("matchLabelKeys") or [], term.get("mismatchLabelKeys") or []
    return errors + _label_keys(path, match, mismatch, term.get("labelSelector"))


_pod_term: Final = struct(
    at("labelSelector namespaceSelector", selector_errors),
    _pod_keys,
    need("topologyKey", detail="can not be empty"),
    at("topologyKey", _key),
)
affinity: Final = struct(
    given(
        "nodeAffinity",
        given(REQUIRED, node_selector),
        at(PREFERRED, each(_weight, at("preference", _preference))),
    ),
    given(
        "podAffinity podAntiAffinity",
        at(REQUIRED, each(_pod_term)),
        at(PREFERRED, each(_weight, at("podAffinityTerm", _pod_term))),
    ),
)
"""The rules of node affinity, pod affinity and pod anti-affinity."""
