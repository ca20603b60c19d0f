"""PodDisruptionBudget, ResourceQuota, LimitRange and PriorityClass.

Source: `pkg/apis/{policy,core,scheduling}/validation/validation.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from konverge.quantities import ONE, PRECISE, THOUSANDTH, WHOLE, Quantity, read
from konverge_testing.apiserver import names
from konverge_testing.apiserver.golang import Struct
from konverge_testing.apiserver.strategies.amounts import (
    amount_errors,
    container_resource,
    may_overcommit,
    quota_resource,
    resource_name,
)
from konverge_testing.apiserver.strategies.base import BuiltInStrategy
from konverge_testing.apiserver.strategies.errors import (
    IMMUTABLE,
    Data,
    Errors,
    duplicate,
    forbidden,
    invalid,
    required,
)
from konverge_testing.apiserver.strategies.labels import selector_errors, shown_selector
from konverge_testing.apiserver.strategies.rules import among, at, given, not_negative, struct, text
from konverge_testing.apiserver.strategies.workloads import at_most_all, count_or_percent

__all__ = ["LimitRange", "PodDisruptionBudget", "PriorityClass", "ResourceQuota"]

_BUDGET_COUNTS: Final = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
_POD_SCOPES: Final = frozenset(
    {"Terminating", "NotTerminating", "NotBestEffort", "PriorityClass", "CrossNamespacePodAffinity"}
)
_SCOPES: Final = _POD_SCOPES | {"BestEffort", "VolumeAttributesClass"}
_COMPUTED: Final = frozenset(
    {"pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"}
)
_EXISTING: Final = ("BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity")
_MUST_EXIST: Final = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "
    "ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)
_HIGHEST: Final = 1_000_000_000
_SYSTEM: Final = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}


def _either_bound(spec: Data, path: str) -> Errors:
    both = "minAvailable" in spec and "maxUnavailable" in spec
    words = "minAvailable and maxUnavailable cannot be both set"
    return [invalid(path, _shown_budget(spec), words)] if both else []


class PodDisruptionBudget(BuiltInStrategy):
    """PodDisruptionBudget: the number of pods of a set that may be missing."""

    generation = True
    name_rule = "path"
    has_status = True
    unconditional_update = False
    empty_status: Mapping[str, Any] = dict.fromkeys(_BUDGET_COUNTS, 0)
    rules = struct(
        at(
            "spec",
            _either_bound,
            given("minAvailable maxUnavailable", count_or_percent, at_most_all),
            given("selector", selector_errors),
            given("unhealthyPodEvictionPolicy", among("AlwaysAllow", "IfHealthyBudget")),
        )
    )
    status_rules = struct(at("status", not_negative(" ".join(_BUDGET_COUNTS))))


def _shown_budget(spec: Data) -> Struct:
    order = ("minAvailable", "selector", "maxUnavailable", "unhealthyPodEvictionPolicy")
    return Struct(
        {
            name[0].upper() + name[1:]: shown_selector(spec.get(name)) if name == "selector" else spec.get(name)
            for name in order
        }
    )


def _hard(amounts: Data, path: str) -> Errors:
    errors: Errors = []
    for name, value in amounts.items():
        errors += quota_resource(name, f"{path}[{name}]") + amount_errors(name, value, f"{path}[{name}]")
    return errors


class ResourceQuota(BuiltInStrategy):
    """ResourceQuota: the limits of a namespace."""

    has_status = True
    status_rules = struct(at("status", at("hard used", _hard)))

    def _errors(self, new: Data, old: Data | None) -> Errors:
        spec = new.get("spec") or {}
        errors = at("hard", _hard)(spec, "spec") + _scope_errors(spec) + _selector_scope_errors(spec)
        if old is not None and set(spec.get("scopes") or ()) != set((old.get("spec") or {}).get("scopes") or ()):
            errors.append(invalid("spec.scopes", spec.get("scopes"), IMMUTABLE))
        return errors

    def _warnings(self, new: Data, old: Data | None) -> list[str]:
        hard = (new.get("spec") or {}).get("hard") or {}
        texts = []
        for name in ("cpu", "memory", "ephemeral-storage", "storage") if old is None else ():
            asked = f"requests.{name}" if f"requests.{name}" in hard else name
            if asked == name and name not in ("cpu", "memory"):
                continue
            limit = f"limits.{name}"
            if asked in hard and limit in hard and Quantity.parse(hard[limit]) < Quantity.parse(hard[asked]):
                texts.append(f"ResourceQuota {asked} ({hard[asked]}) should be less than {limit} ({hard[limit]})")
        return texts


def _misapplied(scope: str, resource: str) -> bool:
    if quota_resource(resource, ""):
        return False
    if "/" in resource:
        return False
    if scope in _POD_SCOPES:
        return resource not in _COMPUTED
    if scope == "BestEffort":
        return resource != "pods"
    return scope == "VolumeAttributesClass" and resource not in ("persistentvolumeclaims", "requests.storage")


def _conflicting(scopes: set[str]) -> int:
    return sum(pair <= scopes for pair in ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"}))


def _scope_errors(spec: Data) -> Errors:
    scopes, path = spec.get("scopes") or [], "spec.scopes"
    errors: Errors = []
    for scope in scopes:
        if scope not in _SCOPES:
            errors.append(invalid(path, scopes, "unsupported scope"))
        misapplied = sum(_misapplied(scope, name) for name in spec.get("hard") or ())
        errors += [invalid(path, scopes, "unsupported scope applied to resource")] * misapplied
    return errors + [invalid(path, scopes, "conflicting scopes")] * _conflicting(set(scopes))


def _selector_scope_errors(spec: Data) -> Errors:
    selector, path = spec.get("scopeSelector"), "spec.scopeSelector.matchExpressions"
    errors: Errors = []
    scopes: set[str] = set()
    for each in (selector or {}).get("matchExpressions") or ():
        scope, operator, values = each.get("scopeName", ""), each.get("operator", ""), each.get("values") or []
        scopes.add(scope)
        if scope not in _SCOPES:
            errors.append(invalid(f"{path}.scopeName", scope, "unsupported scope"))
        misapplied = sum(_misapplied(scope, name) for name in spec.get("hard") or ())
        errors += [invalid(path, _shown_selector(selector), "unsupported scope applied to resource")] * misapplied
        if scope in _EXISTING and operator != "Exists":
            errors.append(invalid(f"{path}.operator", operator, _MUST_EXIST))
        errors += _values_errors(operator, values, path)
    return errors + [invalid(path, spec.get("scopes"), "conflicting scopes")] * _conflicting(scopes)


def _shown_selector(selector: Any) -> Data:
    shown = [
        Struct(ScopeName=each.get("scopeName", ""), Operator=each.get("operator", ""), Values=each.get("values"))
        for each in (selector or {}).get("matchExpressions") or ()
    ]
    return Struct(MatchExpressions=shown)


def _values_errors(operator: str, values: list[str], path: str) -> Errors:
    if operator in ("In", "NotIn"):
        text = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
        return [] if values else [required(f"{path}.values", text)]
    if operator in ("Exists", "DoesNotExist"):
        text = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
        return [invalid(f"{path}.values", values, text)] if values else []
    return [invalid(f"{path}.operator", operator, "not a valid selector operator")]


class LimitRange(BuiltInStrategy):
    """LimitRange: bounds and defaults for the requests of pods, containers and claims."""

    allow_create_on_update = True

    def _default(self, new: Data) -> None:
        for item in (new.get("spec") or {}).get("limits") or ():
            if item.get("type") != "Container":
                continue
            limits = {**(item.get("max") or {}), **(item.get("default") or {})}
            requests = {**(item.get("min") or {}), **limits, **(item.get("defaultRequest") or {})}
            item.update({name: value for name, value in (("default", limits), ("defaultRequest", requests)) if value})

    def _errors(self, new: Data, _old: Data | None) -> Errors:
        errors: Errors = []
        seen: set[str] = set()
        for index, item in enumerate((new.get("spec") or {}).get("limits") or ()):
            path, kind = f"spec.limits[{index}]", item.get("type", "")
            errors += _limit_kind(kind, f"{path}.type")
            errors += [duplicate(f"{path}.type", kind)] if kind in seen else []
            seen.add(kind)
            errors += _limit_names(item, kind, path) + _limit_amounts(item, kind, path)
        return errors


def _limit_kind(kind: str, path: str) -> Errors:
    errors = text(names.label_key)(kind, path)
    if not errors and "/" not in kind and kind not in ("Pod", "Container", "PersistentVolumeClaim"):
        errors.append(invalid(path, kind, "must be a standard limit type or fully qualified"))
    return errors


def _limit_names(item: Data, kind: str, path: str) -> Errors:
    check = container_resource if kind in ("Pod", "Container") else resource_name
    errors: Errors = []
    for field in ("max", "min"):
        errors += [error for name in item.get(field) or () for error in check(name, f"{path}.{field}[{name}]")]
    for field in ("default", "defaultRequest"):
        if kind == "Pod" and item.get(field):
            errors.append(forbidden(f"{path}.{field}", "may not be specified when `type` is 'Pod'"))
        elif kind != "Pod":
            errors += [error for name in item.get(field) or () for error in check(name, f"{path}.{field}[{name}]")]
    if kind == "PersistentVolumeClaim" and not any("storage" in (item.get(field) or {}) for field in ("min", "max")):
        text = "either minimum or maximum storage value is required, but neither was provided"
        errors.append(required(f"{path}.limits", text))
    field = "maxLimitRequestRatio"
    return errors + [error for name in item.get(field) or () for error in check(name, f"{path}.{field}[{name}]")]


def _limit_amounts(item: Data, kind: str, path: str) -> Errors:
    low, high, ratios = (read(item.get(field)) for field in ("min", "max", "maxLimitRequestRatio"))
    given, asked = ({}, {}) if kind == "Pod" else (read(item.get("default")), read(item.get("defaultRequest")))
    errors: Errors = []

    def ordered(
        lesser: Mapping[str, Quantity], greater: Mapping[str, Quantity], name: str, field: str, shown: Any, words: str
    ) -> None:
        if name in lesser and name in greater and greater[name] < lesser[name]:
            less, more = words.split("|")
            text = f"{less} value {lesser[name]} is greater than {more} value {greater[name]}"
            errors.append(invalid(f"{path}.{field}[{name}]", str(shown[name]), text))

    for name in dict.fromkeys([*high, *low, *given, *asked, *ratios]):
        ordered(low, high, name, "min", low, "min|max")
        ordered(low, asked, name, "defaultRequest", asked, "min|default request")
        ordered(asked, high, name, "defaultRequest", asked, "default request|max")
        ordered(asked, given, name, "defaultRequest", asked, "default request|default limit")
        ordered(low, given, name, "default", low, "min|default")
        ordered(given, high, name, "default", high, "default|max")
        errors += _ratio_errors(name, ratios.get(name), low.get(name), high.get(name), path)
        if not may_overcommit(name) and name in given and name in asked and given[name] != asked[name]:
            text = f"default value {given[name]} must equal to defaultRequest value {asked[name]} in {name}"
            errors.append(invalid(f"{path}.defaultRequest[{name}]", str(asked[name]), text))
    return errors


def _ratio_errors(name: str, ratio: Quantity | None, low: Quantity | None, high: Quantity | None, path: str) -> Errors:
    if ratio is None:
        return []
    where = f"{path}.maxLimitRequestRatio[{name}]"
    errors = [invalid(where, str(ratio), f"ratio {ratio} is less than 1")] if ratio < ONE else []
    if low and high is not None:
        whole = any(amount.count(WHOLE) >= PRECISE for amount in (ratio, low, high))
        unit, value = (WHOLE, float(ratio.count(WHOLE))) if whole else (THOUSANDTH, ratio.count(THOUSANDTH) / 1000)
        most = float(high.count(unit)) / float(low.count(unit))
        if value > most:
            errors.append(invalid(where, str(ratio), f"ratio {ratio} is greater than max/min = {most:f}"))
    return errors


_policy: Final = at("preemptionPolicy", among("PreemptLowerPriority", "Never"))


class PriorityClass(BuiltInStrategy):
    """PriorityClass: a name for a priority of pods."""

    generation = True
    frozen = ("preemptionPolicy",)
    defaults = (("preemptionPolicy", "PreemptLowerPriority"),)

    def _intent_changed(self, _new: Data, _old: Data) -> bool:
        return False

    def _errors(self, new: Data, old: Data | None) -> Errors:
        value = new.get("value", 0)
        if old is None:
            errors = _value_errors(new["metadata"].get("name", ""), value, bool(new.get("globalDefault")))
            return errors + _policy(new, "")
        errors = [] if value == old.get("value", 0) else [forbidden("value", "may not be changed in an update.")]
        return errors + self._frozen(new, old)


def _value_errors(name: str, value: int, is_default: bool) -> Errors:
    if not name.startswith("system-"):
        text = f"maximum allowed value of a user defined priority is {_HIGHEST}"
        return [forbidden("value", text)] if value > _HIGHEST else []
    if name not in _SYSTEM:
        why = f"{name} is not a known system priority class"
    elif value != _SYSTEM[name]:
        why = f"value of {name} PriorityClass must be {_SYSTEM[name]}"
    elif is_default:
        why = f"globalDefault of {name} PriorityClass must be false"
    else:
        return []
    text = f"priority class names with 'system-' prefix are reserved for system use only. error: {why}"
    return [forbidden("metadata.name", text)]
