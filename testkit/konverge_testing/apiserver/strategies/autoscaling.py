"""HorizontalPodAutoscaler.

The rules are those of v2; an object of v1 is brought into that form for them. Source:
`pkg/apis/autoscaling/{v2/defaults,validation/validation}.go`.
"""

from __future__ import annotations

from typing import Any, Final

from konverge.quantities import Quantity
from konverge_testing.apiserver import names
from konverge_testing.apiserver.strategies.amounts import container_resource
from konverge_testing.apiserver.strategies.autoscaling_v1 import V1, V2, set_annotations, to_v1, to_v2
from konverge_testing.apiserver.strategies.base import (
    BuiltInStrategy,
    Data,
    Errors,
    forbidden,
    invalid,
    not_negative,
    not_supported,
    required,
    text_errors,
)

__all__ = ["HorizontalPodAutoscaler"]

_SOURCES: Final = ("object", "external", "pods", "resource", "containerResource")
_KINDS: Final = ("ContainerResource", "External", "Object", "Pods", "Resource")
_TARGETS: Final = ("Utilization", "Value", "AverageValue")
_SELECTIONS: Final = ("Disabled", "Max", "Min")
_TO_ZERO: Final = "must specify at least one Object or External metric to support scaling to zero replicas"
_UP: Final = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_DOWN: Final = {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}


class HorizontalPodAutoscaler(BuiltInStrategy):
    """HorizontalPodAutoscaler: scales a workload by its usage."""

    has_status = True

    def _default(self, new: Data) -> None:
        if new.get("apiVersion") == V1:
            new.update(to_v1(to_v2(new)))
            new["spec"].setdefault("minReplicas", 1)
            return
        set_annotations(new["metadata"], {})
        spec = new.setdefault("spec", {})
        spec.setdefault("minReplicas", 1)
        if not spec.get("metrics"):
            target = {"type": "Utilization", "averageUtilization": 80}
            spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
        behavior = spec.get("behavior")
        if behavior is not None:
            for name, rules in (("scaleUp", _UP), ("scaleDown", _DOWN)):
                copied: Data = {**rules, "policies": [dict(each) for each in _policies(rules)]}
                behavior[name] = {**copied, **(behavior.get(name) or {})}

    def convert(self, data: Data, api_version: str) -> Data:
        """Return an object in the other version."""
        if data["apiVersion"] == api_version:
            return data
        return to_v1(data) if api_version == V1 else to_v2(data)

    def _create(self, new: Data) -> None:
        new["status"] = {"desiredReplicas": 0, "currentMetrics": None}
        if new["apiVersion"] == V1:
            new["status"] = {"currentReplicas": 0, "desiredReplicas": 0}

    def _errors(self, new: Data, old: Data | None) -> Errors:
        new = self.convert(new, V2)
        spec = new.get("spec") or {}
        low, high = spec.get("minReplicas"), spec.get("maxReplicas", 0)
        errors: Errors = []
        if low is not None and low < 1:
            errors.append(invalid("spec.minReplicas", low, "must be greater than or equal to 1"))
        if not high:
            errors.append(required("spec.maxReplicas", "must be set and greater than 0"))
        elif high < 0:
            errors.append(invalid("spec.maxReplicas", high, "must be greater than or equal to 1"))
        if low is not None and high < low:
            errors.append(invalid("spec.maxReplicas", high, "must be greater than or equal to `minReplicas`"))
        errors += _target_ref_errors(spec.get("scaleTargetRef") or {}, old)
        for index, metric in enumerate(spec.get("metrics") or ()):
            errors += _metric_errors(metric, f"spec.metrics[{index}]")
        if low == 0 and not any(metric.get("type") in ("Object", "External") for metric in spec.get("metrics") or ()):
            errors.append(forbidden("spec.metrics", _TO_ZERO))
        for name in ("scaleUp", "scaleDown"):
            rules = (spec.get("behavior") or {}).get(name)
            if rules is not None:
                errors += _rules_errors(rules, f"spec.behavior.{name}")
        return errors

    def _status_errors(self, new: Data, _old: Data) -> Errors:
        return not_negative(new.get("status") or {}, "status", "currentReplicas", "desiredReplicas")


def _policies(rules: Data) -> list[Data]:
    found: list[Data] = rules["policies"]
    return found


def _reference_errors(reference: Data, path: str) -> Errors:
    errors: Errors = []
    for name in ("kind", "name"):
        value, where = reference.get(name, ""), f"{path}.{name}"
        errors += text_errors(where, value, names.path_segment) if value else [required(where)]
    version = reference.get("apiVersion", "")
    if version.count("/") > 1:
        errors.append(invalid(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}"))
    return errors


def _target_ref_errors(reference: Data, old: Data | None) -> Errors:
    errors, version = _reference_errors(reference, "spec.scaleTargetRef"), reference.get("apiVersion", "")
    before = ((old or {}).get("spec") or {}).get("scaleTargetRef") or {}
    same = old is not None and all(before.get(name) == reference.get(name) for name in ("apiVersion", "kind"))
    if "/" not in version and reference.get("kind") != "ReplicationController" and not same:
        errors.append(invalid("spec.scaleTargetRef.apiVersion", version, "apiVersion must specify API group"))
    return errors


def _metric_errors(metric: Data, path: str) -> Errors:
    kind, given = metric.get("type", ""), [name for name in _SOURCES if metric.get(name) is not None]
    errors: Errors = [] if kind else [required(f"{path}.type", "must specify a metric source type")]
    if kind not in _KINDS:
        errors.append(not_supported(f"{path}.type", kind, _KINDS))
    if given:
        errors += _source_errors(given[0], metric[given[0]], f"{path}.{given[0]}")
    wanted = kind[:1].lower() + kind[1:]
    if kind not in _KINDS:
        errors.append(not_supported(f"{path}.type", kind, _KINDS))
    elif wanted not in given:
        errors.append(required(f"{path}.{wanted}", "must populate information for the given metric source"))
    if len(given) != 1:
        others = [name for name in given if name != wanted]
        errors += [forbidden(f"{path}.{name}", "must populate the given metric source only") for name in others]
    return errors


def _source_errors(name: str, source: Data, path: str) -> Errors:
    target = source.get("target") or {}
    errors: Errors = []
    if name in ("resource", "containerResource"):
        resource = source.get("name", "")
        errors += [] if resource else [required(f"{path}.name", "must specify a resource name")]
        if name == "containerResource":
            errors += container_resource(resource, f"{path}.name") if resource else []
            container, where = source.get("container", ""), f"{path}.container"
            text = "must specify a container"
            errors += text_errors(where, container, names.dns1123_label) if container else [required(where, text)]
        errors += _target_errors(target, f"{path}.target")
        return errors + _raw_or_utilization(target, f"{path}.target")
    if name == "object":
        errors += _reference_errors(source.get("describedObject") or {}, f"{path}.describedObject")
    metric, where = (source.get("metric") or {}).get("name", ""), f"{path}.metric.name"
    errors += (
        text_errors(where, metric, names.path_segment) if metric else [required(where, "must specify a metric name")]
    )
    errors += _target_errors(target, f"{path}.target")
    return errors + _value_or_average(name, target, f"{path}.target")


def _raw_or_utilization(target: Data, path: str) -> Errors:
    utilization, average = target.get("averageUtilization"), target.get("averageValue")
    if utilization is None and average is None:
        return [required(f"{path}.averageUtilization", "must set either a target raw value or a target utilization")]
    if utilization is not None and average is not None:
        return [forbidden(f"{path}.averageValue", "may not set both a target raw value and a target utilization")]
    return []


def _value_or_average(name: str, target: Data, path: str) -> Errors:
    value, average, where = target.get("value"), target.get("averageValue"), f"{path}.averageValue"
    if name == "pods":
        return [] if average is not None else [required(where, "must specify a positive target averageValue")]
    if value is None and average is None:
        text = "or averageValue" if name == "object" else "for metric or a per-pod target"
        return [required(where, f"must set either a target value {text}")]
    if name == "external" and value is not None and average is not None:
        return [forbidden(f"{path}.value", "may not set both a target value for metric and a per-pod target")]
    return []


def _target_errors(target: Data, path: str) -> Errors:
    kind = target.get("type", "")
    errors: Errors = [] if kind else [required(f"{path}.type", "must specify a metric target type")]
    if kind not in _TARGETS:
        errors.append(invalid(f"{path}.type", kind, "must be either Utilization, Value, or AverageValue"))
    for name in ("value", "averageValue"):
        amount: Any = target.get(name)
        if amount is not None and Quantity.parse(amount).billionths <= 0:
            errors.append(invalid(f"{path}.{name}", amount, "must be positive"))
    utilization = target.get("averageUtilization")
    if utilization is not None and utilization < 1:
        errors.append(invalid(f"{path}.averageUtilization", utilization, "must be greater than 0"))
    return errors


def _rules_errors(rules: Data, path: str) -> Errors:
    window, selection = rules.get("stabilizationWindowSeconds"), rules.get("selectPolicy")
    errors: Errors = []
    if window is not None and window < 0:
        errors.append(invalid(f"{path}.stabilizationWindowSeconds", window, "must be greater than or equal to zero"))
    if window is not None and window > 3600:
        errors.append(invalid(f"{path}.stabilizationWindowSeconds", window, "must be less than or equal to 3600"))
    if selection is not None and selection not in _SELECTIONS:
        errors.append(not_supported(f"{path}.selectPolicy", selection, _SELECTIONS))
    policies = rules.get("policies") or []
    if not policies:
        errors.append(required(f"{path}.policies", "must specify at least one Policy"))
    for index, policy in enumerate(policies):
        here, seconds = f"{path}.policies[{index}]", policy.get("periodSeconds", 0)
        if policy.get("type") not in ("Percent", "Pods"):
            errors.append(not_supported(f"{here}.type", policy.get("type", ""), ("Percent", "Pods")))
        for name in ("value", "periodSeconds"):
            if policy.get(name, 0) <= 0:
                errors.append(invalid(f"{here}.{name}", policy.get(name, 0), "must be greater than zero"))
        if seconds > 1800:
            errors.append(invalid(f"{here}.periodSeconds", seconds, "must be less than or equal to 1800"))
    return errors
