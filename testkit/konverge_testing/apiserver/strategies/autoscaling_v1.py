"""HorizontalPodAutoscalers of autoscaling/v1: another form of those of autoscaling/v2, which are stored.

Guarantees: both ways are inverse. The CPU's utilization has fields of its own in v1; every other metric, the behavior and the conditions
stand as JSON in annotations, which only the v1 form has. Source: `pkg/apis/autoscaling/v1/conversion.go`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from konverge_testing.apiserver.strategies.base import Data

__all__ = ["V1", "V2", "set_annotations", "to_v1", "to_v2"]

V1: Final = "autoscaling/v1"
V2: Final = "autoscaling/v2"
_PREFIX: Final = "autoscaling.alpha.kubernetes.io/"
_METRICS: Final = f"{_PREFIX}metrics"
_CURRENT: Final = f"{_PREFIX}current-metrics"
_BEHAVIOR: Final = f"{_PREFIX}behavior"
_CONDITIONS: Final = f"{_PREFIX}conditions"
_SOURCES: Final = ("object", "pods", "resource", "containerResource", "external")
_REFERENCE: Final = ("kind", "name", "apiVersion")
_CPU_TARGET: Final = 80

# Where the fields of v1 stand in v2, in the order of Go's struct; a field with a default is always there in v1.
_Place = tuple[str, ...]
_RESOURCE: Final[Mapping[str, _Place]] = {
    "name": ("name",),
    "targetAverageUtilization": ("target", "averageUtilization"),
    "targetAverageValue": ("target", "averageValue"),
    "container": ("container",),
}
_TARGETS: Final[Mapping[str, Mapping[str, _Place]]] = {
    "object": {
        "target": ("describedObject",),
        "metricName": ("metric", "name"),
        "targetValue": ("target", "value"),
        "selector": ("metric", "selector"),
        "averageValue": ("target", "averageValue"),
    },
    "pods": {
        "metricName": ("metric", "name"),
        "targetAverageValue": ("target", "averageValue"),
        "selector": ("metric", "selector"),
    },
    "resource": _RESOURCE,
    "containerResource": _RESOURCE,
    "external": {
        "metricName": ("metric", "name"),
        "metricSelector": ("metric", "selector"),
        "targetValue": ("target", "value"),
        "targetAverageValue": ("target", "averageValue"),
    },
}
_STATUS_NAMES: Final = {
    "targetAverageUtilization": "currentAverageUtilization",
    "targetAverageValue": "currentAverageValue",
    "targetValue": "currentValue",
}
_STATUSES: Final = {
    source: {
        _STATUS_NAMES.get(name, name): ("current", *place[1:]) if place[0] == "target" else place
        for name, place in fields.items()
    }
    for source, fields in _TARGETS.items()
}
_ALWAYS: Final = {
    "object": ("targetValue", "currentValue"),
    "pods": ("targetAverageValue", "currentAverageValue"),
    "resource": ("currentAverageValue",),
    "containerResource": ("currentAverageValue",),
    "external": ("currentValue",),
}
"""Quantities that Go's struct of v1 cannot leave out."""


def to_v2(data: Data) -> Data:
    """Return the v2 form of a v1 object; parts are shared."""
    metadata, notes = dict(data["metadata"]), dict(data["metadata"].get("annotations") or {})
    spec, status = dict(data.get("spec") or {}), dict(data.get("status") or {})
    metrics = [_from_v1(one, _TARGETS) for one in _noted(notes, _METRICS, [])]
    cpu = spec.pop("targetCPUUtilizationPercentage", None)
    if cpu is None and not metrics:
        cpu = _CPU_TARGET
    if cpu is not None:
        metrics.append(_cpu("target", {"type": "Utilization", "averageUtilization": cpu}))
    spec["metrics"] = metrics
    behavior = _noted(notes, _BEHAVIOR, None)
    if behavior:
        spec["behavior"] = _recased(behavior, str.lower)
    used = status.pop("currentCPUUtilizationPercentage", None)
    current = [_from_v1(one, _STATUSES) for one in _noted(notes, _CURRENT, [])]
    if not current and used is not None:
        current = [_cpu("current", {"averageUtilization": used})]
    status["currentMetrics"] = current or None
    if not status.get("currentReplicas"):
        status.pop("currentReplicas", None)
    if conditions := _noted(notes, _CONDITIONS, []):
        status["conditions"] = conditions
    set_annotations(metadata, {})
    return {**data, "apiVersion": V2, "metadata": metadata, "spec": spec, "status": status}


def to_v1(data: Data) -> Data:
    """Return the v1 form of a v2 object; parts are shared."""
    metadata, notes = dict(data["metadata"]), dict[str, str]()
    spec, status = dict(data.get("spec") or {}), dict(data.get("status") or {})
    metrics, current = spec.pop("metrics", None) or [], status.pop("currentMetrics", None) or []
    for one in metrics:
        if (cpu := _cpu_utilization(one, "target")) is not None:
            spec["targetCPUUtilizationPercentage"] = cpu
    for one in current:
        if (cpu := _cpu_utilization(one, "current")) is not None:
            status["currentCPUUtilizationPercentage"] = cpu
    if others := [_to_v1(one, _TARGETS) for one in metrics if _cpu_utilization(one, "target") is None]:
        notes[_METRICS] = _text(others)
    if current:
        notes[_CURRENT] = _text([_to_v1(one, _STATUSES) for one in current])
    if behavior := spec.pop("behavior", None):
        notes[_BEHAVIOR] = _text(_internal_behavior(behavior))
    if conditions := status.pop("conditions", None):
        notes[_CONDITIONS] = _text(conditions)
    set_annotations(metadata, notes)
    status = {"currentReplicas": 0, "desiredReplicas": 0, **status}
    return {**data, "apiVersion": V1, "metadata": metadata, "spec": spec, "status": status}


def set_annotations(metadata: Data, notes: Mapping[str, str]) -> None:
    """Set the annotations of the v1 form, in place, instead of those that there were."""
    forms = (_METRICS, _CURRENT, _BEHAVIOR, _CONDITIONS)
    kept = {key: value for key, value in (metadata.get("annotations") or {}).items() if key not in forms}
    if kept or notes:
        metadata["annotations"] = {**kept, **notes}
    else:
        metadata.pop("annotations", None)


def _noted(notes: Data, name: str, default: Any) -> Any:
    """Return what an annotation says; one that cannot be read says nothing."""
    try:
        return json.loads(notes.get(name) or "null") or default
    except ValueError:
        return default


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _cpu(key: str, amount: Data) -> Data:
    return {"type": "Resource", "resource": {"name": "cpu", key: amount}}


def _cpu_utilization(metric: Data, key: str) -> int | None:
    resource = metric.get("resource") or {}
    if metric.get("type") != "Resource" or resource.get("name") != "cpu":
        return None
    found: int | None = (resource.get(key) or {}).get("averageUtilization")
    return found


def _to_v1(metric: Data, table: Mapping[str, Mapping[str, _Place]]) -> Data:
    out: Data = {"type": metric.get("type", "")}
    for source in _SOURCES:
        if (given := metric.get(source)) is None:
            continue
        found = {name: _at(given, place) for name, place in table[source].items()}
        if source == "object" and found["target"]:
            found["target"] = {key: found["target"][key] for key in _REFERENCE if key in found["target"]}
        out[source] = {
            name: "0" if value is None else value
            for name, value in found.items()
            if value is not None or name in _ALWAYS[source]
        }
    return out


def _from_v1(metric: Data, table: Mapping[str, Mapping[str, _Place]]) -> Data:
    out: Data = {"type": metric.get("type", "")}
    for source in _SOURCES:
        if (given := metric.get(source)) is None:
            continue
        made: Data = {}
        for name, place in table[source].items():
            if name in given:
                _put(made, place, given[name])
        if table is _TARGETS:
            target = made.setdefault("target", {})
            if source == "object" and "averageValue" in target and target.get("value") == "0":
                del target["value"]
            target["type"] = _target_type(source, target)
        elif "averageUtilization" in made.get("current", {}) and made["current"].get("averageValue") == "0":
            del made["current"]["averageValue"]  # the zero that v1 writes where v2 had nothing
        out[source] = made
    return out


def _target_type(source: str, target: Data) -> str:
    if source in ("resource", "containerResource"):
        return "Utilization" if "averageUtilization" in target else "AverageValue"
    if source == "object":
        return "AverageValue" if "averageValue" in target else "Value"
    return "Value" if "value" in target else "AverageValue"


def _at(data: Data, place: _Place) -> Any:
    here: Any = data
    for step in place:
        here = (here or {}).get(step)
    return here


def _put(data: Data, place: _Place, value: Any) -> None:
    for step in place[:-1]:
        data = data.setdefault(step, {})
    data[place[-1]] = value


def _internal_behavior(behavior: Data) -> Data:
    """Return the behavior as Go writes its internal type, whose fields have no JSON names."""
    names = ("stabilizationWindowSeconds", "selectPolicy", "policies", "tolerance")
    whole = {
        name: None if rules is None else {one: rules.get(one) for one in names}
        for name, rules in ((name, behavior.get(name)) for name in ("scaleUp", "scaleDown"))
    }
    found: Data = _recased(whole, str.upper)
    return found


def _recased(value: Any, case: Any) -> Any:
    """Return data whose keys begin in another case; absent fields stay out of what becomes v2."""
    if isinstance(value, dict):
        kept = {key: each for key, each in value.items() if each is not None or case is str.upper}
        return {f"{case(key[:1])}{key[1:]}": _recased(each, case) for key, each in kept.items()}
    return [_recased(each, case) for each in value] if isinstance(value, list) else value
