"""Validation of what a pod says about its node: affinity, tolerations, spread and gates.

Guarantees: pure; errors come in the server's order. Source: `pkg/apis/core/validation/validation.go` (validateAffinity,
ValidateTolerations, validateTopologySpreadConstraints).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from konverge_testing.apiserver import names
from konverge_testing.apiserver.strategies.base import (
    Data,
    Errors,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    selector_errors,
    text_errors,
)

__all__ = [
    "affinity_errors",
    "gate_errors",
    "node_selector_errors",
    "spread_errors",
    "taint_effect_errors",
    "toleration_errors",
]

_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_INCLUSION: Final = ("Honor", "Ignore")
_BOTH: Final = "exists in both matchLabelKeys and"


def toleration_errors(tolerations: list[Data], path: str) -> Errors:
    """Check tolerations."""
    errors: Errors = []
    for index, each in enumerate(tolerations):
        here, key, operator, value = (
            f"{path}[{index}]",
            each.get("key", ""),
            each.get("operator", ""),
            each.get("value", ""),
        )
        if key:
            errors += text_errors(f"{here}.key", key, names.label_key)
        elif operator != "Exists":
            text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            errors.append(invalid(f"{here}.operator", operator, text))
        if each.get("tolerationSeconds") is not None and each.get("effect", "") != "NoExecute":
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            errors.append(invalid(f"{here}.effect", each.get("effect", ""), text))
        if operator in ("", "Equal"):
            if found := names.label_value(value):
                errors.append(invalid(f"{here}.operator", value, ";".join(found)))
        elif operator == "Exists":
            if value:
                errors.append(invalid(f"{here}.operator", value, "value must be empty when `operator` is 'Exists'"))
        else:
            allowed = ("Equal", "Exists", "Lt", "Gt") if operator in ("Lt", "Gt") else ("Equal", "Exists")
            errors.append(not_supported(f"{here}.operator", operator, allowed))
        if each.get("effect"):
            errors += taint_effect_errors(each["effect"], f"{here}.effect")
    return errors


def taint_effect_errors(effect: str, path: str) -> Errors:
    """Check the effect of a taint."""
    return [] if effect in _EFFECTS else [not_supported(path, effect, _EFFECTS)]


def gate_errors(gates: list[Data], path: str) -> Errors:
    """Check the gates that keep a pod from being scheduled."""
    errors: Errors = []
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        name = gate.get("name", "")
        errors += text_errors(f"{path}[{index}]", name, names.label_key)
        if name in seen:
            errors.append(duplicate(f"{path}[{index}]", name))
        seen.add(name)
    return errors


def spread_errors(constraints: list[Data], path: str) -> Errors:
    """Check how the pods are spread over the nodes."""
    errors: Errors = []
    for index, each in enumerate(constraints):
        here, action = f"{path}[{index}]", each.get("whenUnsatisfiable", "")
        if each.get("maxSkew", 0) <= 0:
            errors.append(invalid(f"{here}.maxSkew", each.get("maxSkew", 0), "must be greater than zero"))
        if not each.get("topologyKey"):
            errors.append(required(f"{here}.topologyKey", "can not be empty"))
        if action not in ("DoNotSchedule", "ScheduleAnyway"):
            errors.append(not_supported(f"{here}.whenUnsatisfiable", action, ("DoNotSchedule", "ScheduleAnyway")))
        key = each.get("topologyKey", "")
        if any(
            (key, action) == (other.get("topologyKey", ""), other.get("whenUnsatisfiable", ""))
            for other in constraints[index + 1 :]
        ):
            errors.append(duplicate(f"{here}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}"))
        errors += _domains(each, f"{here}.minDomains")
        for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if each.get(name) is not None and each[name] not in _INCLUSION:
                errors.append(not_supported(f"{here}.{name}", each[name], _INCLUSION))
        errors += _label_keys(here, each.get("matchLabelKeys") or [], [], each.get("labelSelector"))
        errors += selector_errors(each.get("labelSelector"), f"{here}.labelSelector")
    return errors


def _domains(constraint: Data, path: str) -> Errors:
    count, action = constraint.get("minDomains"), constraint.get("whenUnsatisfiable", "")
    if count is None:
        return []
    errors = [] if count > 0 else [invalid(path, count, "must be greater than zero")]
    if action != "DoNotSchedule":
        text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        errors.append(invalid(path, count, text))
    return errors


def _label_keys(path: str, match: list[str], mismatch: list[str], selector: Mapping[str, Any] | None) -> Errors:
    """Check the keys of labels whose values the server adds to a selector."""
    errors: Errors = []
    for name, keys in (("matchLabelKeys", match), ("mismatchLabelKeys", mismatch)):
        if keys and selector is None:
            errors.append(forbidden(f"{path}.{name}", "must not be specified when labelSelector is not set"))
            continue
        for index, key in enumerate(keys):
            errors += text_errors(f"{path}.{name}[{index}]", key, names.label_key)
    seen = set((selector or {}).get("matchLabels") or ())
    places = {key: index for index, key in enumerate(match)}
    for each in (selector or {}).get("matchExpressions") or ():
        key = each.get("key", "")
        if key in places and key in seen:
            errors.append(invalid(f"{path}[{places[key]}]", key, f"{_BOTH} labelSelector"))
        seen.add(key)
    return errors + [
        invalid(f"{path}.matchLabelKeys[{index}]", key, f"{_BOTH} mismatchLabelKeys")
        for index, key in enumerate(match)
        if key in mismatch
    ]


def affinity_errors(affinity: Data, path: str) -> Errors:
    """Check nodes and neighbours that a pod is to have, or not to have."""
    errors: Errors = []
    nodes = affinity.get("nodeAffinity") or {}
    if nodes.get(_REQUIRED) is not None:
        errors += node_selector_errors(nodes[_REQUIRED], f"{path}.nodeAffinity.{_REQUIRED}")
    for index, each in enumerate(nodes.get(_PREFERRED) or ()):
        here = f"{path}.nodeAffinity.{_PREFERRED}[{index}]"
        errors += _weight(each, here) + _node_term(each.get("preference") or {}, f"{here}.preference", lenient=True)
    for kind in ("podAffinity", "podAntiAffinity"):
        found = affinity.get(kind) or {}
        for index, term in enumerate(found.get(_REQUIRED) or ()):
            errors += _pod_term(term, f"{path}.{kind}.{_REQUIRED}[{index}]")
        for index, each in enumerate(found.get(_PREFERRED) or ()):
            here = f"{path}.{kind}.{_PREFERRED}[{index}]"
            errors += _weight(each, here) + _pod_term(each.get("podAffinityTerm") or {}, f"{here}.podAffinityTerm")
    return errors


def node_selector_errors(selector: Data, path: str) -> Errors:
    """Check the terms of a selector of nodes."""
    terms = selector.get("nodeSelectorTerms") or []
    if not terms:
        return [required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")]
    return [
        error for index, term in enumerate(terms) for error in _node_term(term, f"{path}.nodeSelectorTerms[{index}]")
    ]


def _weight(each: Data, path: str) -> Errors:
    weight = each.get("weight", 0)
    return [] if 1 <= weight <= 100 else [invalid(f"{path}.weight", weight, "must be in the range 1-100")]


def _node_term(term: Data, path: str, *, lenient: bool = False) -> Errors:
    """Check a term; `lenient`: values may be what no label can be."""
    errors: Errors = []
    for index, each in enumerate(term.get("matchExpressions") or ()):
        here, operator, values = f"{path}.matchExpressions[{index}]", each.get("operator", ""), each.get("values") or []
        if operator in ("In", "NotIn"):
            errors += (
                [] if values else [required(f"{here}.values", "must be specified when `operator` is 'In' or 'NotIn'")]
            )
        elif operator in ("Exists", "DoesNotExist"):
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors += [forbidden(f"{here}.values", text)] if values else []
        elif operator in ("Gt", "Lt"):
            text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            errors += [] if len(values) == 1 else [required(f"{here}.values", text)]
        else:
            errors.append(invalid(f"{here}.operator", operator, "not a valid selector operator"))
        errors += text_errors(f"{here}.key", each.get("key", ""), names.label_key)
        for number, value in enumerate([] if lenient else values):
            errors += text_errors(f"{here}.values[{number}]", value, names.label_value)
    for index, each in enumerate(term.get("matchFields") or ()):
        errors += _node_field(each, f"{path}.matchFields[{index}]")
    return errors


def _node_field(each: Data, path: str) -> Errors:
    operator, values, key = each.get("operator", ""), each.get("values") or [], each.get("key", "")
    errors: Errors = []
    if operator not in ("In", "NotIn"):
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    elif len(values) != 1:
        text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errors.append(required(f"{path}.values", text))
    if key != "metadata.name":
        return [*errors, invalid(f"{path}.key", key, "not a valid field selector key")]
    for index, value in enumerate(values):
        errors += text_errors(f"{path}.values[{index}]", value, names.dns1123_subdomain)
    return errors


def _pod_term(term: Data, path: str) -> Errors:
    errors = selector_errors(term.get("labelSelector"), f"{path}.labelSelector")
    errors += selector_errors(term.get("namespaceSelector"), f"{path}.namespaceSelector")
    for name in term.get("namespaces") or ():
        errors += text_errors(f"{path}.namespace", name, names.dns1123_label)
    match, mismatch = term.get("matchLabelKeys") or [], term.get("mismatchLabelKeys") or []
    errors += _label_keys(path, match, mismatch, term.get("labelSelector"))
    key = term.get("topologyKey", "")
    errors += [] if key else [required(f"{path}.topologyKey", "can not be empty")]
    return errors + text_errors(f"{path}.topologyKey", key, names.label_key)
