"""Deployment and ReplicaSet, and the common rules of all kinds with pod templates.

Source: `pkg/apis/apps/v1/defaults.go`, `pkg/apis/apps/validation/validation.go`, `pkg/registry/apps/*/strategy.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from konverge_testing.apiserver.golang import Struct
from konverge_testing.apiserver.strategies import texts
from konverge_testing.apiserver.strategies.base import BuiltInStrategy, restore, value_at
from konverge_testing.apiserver.strategies.defaulting import Tree
from konverge_testing.apiserver.strategies.errors import (
    NOT_NEGATIVE,
    Data,
    Errors,
    forbidden,
    immutable,
    invalid,
    not_supported,
    required,
)
from konverge_testing.apiserver.strategies.labels import selector_errors, selects, shown_selector, unreadable
from konverge_testing.apiserver.strategies.pods.checks import template_errors
from konverge_testing.apiserver.strategies.pods.defaults import default_template
from konverge_testing.apiserver.strategies.pods.warnings import pod_warnings
from konverge_testing.apiserver.strategies.rules import Rule, not_negative, text

__all__ = [
    "UNMATCHED",
    "Deployment",
    "ReplicaSet",
    "Workload",
    "always_errors",
    "at_most_all",
    "count_or_percent",
    "counted",
    "matched_errors",
    "not_empty",
    "same_selector",
    "selected_errors",
    "shown_strategy",
]

_ROLLING: Final = Tree([("rollingUpdate.maxUnavailable", "25%"), ("rollingUpdate.maxSurge", "25%")])
UNMATCHED: Final = "`selector` does not match template `labels`"


class Workload(BuiltInStrategy):
    """The kinds that run pods from a template."""

    generation = True
    has_status = True
    counters = "replicas readyReplicas availableReplicas observedGeneration"
    within_replicas: tuple[str, ...] = ("readyReplicas", "availableReplicas")
    ready_text = "cannot be greater than readyReplicas"

    def _default(self, new: Data) -> None:
        default_template(new.setdefault("spec", {}).setdefault("template", {}))
        super()._default(new)

    def _status_errors(self, new: Data, old: Data) -> Errors:
        status, before = new.get("status") or {}, old.get("status") or {}
        errors = not_negative(f"{self.counters} collisionCount")(status, "status")
        total, available = status.get("replicas", 0), status.get("availableReplicas", 0)
        for name in self.within_replicas:
            if (count := status.get(name, 0)) > total:
                errors.append(invalid(f"status.{name}", count, "cannot be greater than status.replicas"))
        if self.within_replicas and available > status.get("readyReplicas", 0):
            errors.append(invalid("status.availableReplicas", available, self.ready_text))
        if "collisionCount" in before and (status.get("collisionCount") or 0) < before["collisionCount"]:
            errors.append(invalid("status.collisionCount", status.get("collisionCount") or 0, "cannot be decremented"))
        return errors

    def _warnings(self, new: Data, old: Data | None) -> list[str]:
        if old is not None and new.get("spec") == old.get("spec"):
            return []
        return super()._warnings(new, old) + pod_warnings(value_at(new, "spec.template.spec") or {}, "spec.template")


def not_empty(selector: Data | None, kind: str) -> Errors:
    """Check that a selector is not empty."""
    if selector is None or selector.get("matchLabels") or selector.get("matchExpressions"):
        return []
    return [invalid("spec.selector", shown_selector(selector), f"empty selector is invalid for {kind}")]


def selected_errors(spec: Data, kind: str) -> Errors:
    """Check that a workload has a selector, and that the selector is not empty."""
    selector = spec.get("selector")
    if selector is None:
        return [required("spec.selector")]
    return selector_errors(selector, "spec.selector") + not_empty(selector, kind)


def same_selector(spec: Data, old: Data) -> Errors:
    """Check that the selector did not change."""
    now, before = (shown_selector(each.get("selector")) for each in (spec, old.get("spec") or {}))
    return immutable("spec.selector", now, before)


def always_errors(spec: Data, kind: str) -> Errors:
    """Check that the pods of a workload always restart and have no deadline."""
    pod, path = value_at(spec, "template.spec") or {}, "spec.template.spec"
    errors: Errors = []
    if pod.get("restartPolicy") != "Always":
        errors.append(not_supported(f"{path}.restartPolicy", pod.get("restartPolicy", ""), ("Always",)))
    if pod.get("activeDeadlineSeconds") is not None:
        words = f"activeDeadlineSeconds in {kind} is not Supported"
        errors.append(forbidden(f"{path}.activeDeadlineSeconds", words))
    return errors


def matched_errors(spec: Data, kind: str) -> Errors:
    """Check a template against its selector, and by itself."""
    template, selector = spec.get("template") or {}, spec.get("selector")
    labels = (template.get("metadata") or {}).get("labels")
    if unreadable(selector):
        return [invalid("spec.selector", shown_selector(selector), "invalid label selector")]
    errors = [] if selects(selector, labels) else [invalid("spec.template.metadata.labels", labels, UNMATCHED)]
    return errors + template_errors(template, "spec.template") + always_errors(spec, kind)


def count_or_percent(value: Any, path: str) -> Errors:
    """Check a number of pods or a percentage of them."""
    if isinstance(value, str):
        return text(texts.percent)(value, path)
    return [invalid(path, value, NOT_NEGATIVE)] if (value or 0) < 0 else []


def at_most_all(value: Any, path: str) -> Errors:
    """Check that a percentage is not above 100."""
    above = isinstance(value, str) and not texts.percent(value) and int(value[:-1]) > 100
    return [invalid(path, value, "must not be greater than 100%")] if above else []


def counted(value: Any) -> int:
    """Return the number of a count or a percentage."""
    if isinstance(value, str):
        return int(value.rstrip("%")) if value.rstrip("%").isdecimal() else 0
    return value or 0


def shown_strategy(kind: str, rolling: Data | None, *fields: str) -> Struct:
    """Return a strategy as an error shows it: the internal struct, whose fields have no JSON names."""
    inner = None if rolling is None else Struct({name[0].upper() + name[1:]: rolling.get(name) for name in fields})
    return Struct(Type=kind, RollingUpdate=inner)


class Deployment(Workload):
    """Deployment: pods that are replaced a few at a time, through ReplicaSets."""

    named_label = True
    counters = "observedGeneration replicas updatedReplicas readyReplicas availableReplicas unavailableReplicas terminatingReplicas"
    within_replicas = ("updatedReplicas", "readyReplicas", "availableReplicas")
    reset_fields: Mapping[str, tuple[tuple[str, ...], ...]] = {
        "": (("status",),),
        "status": (("spec",), ("metadata", "labels")),
    }
    defaults = (
        ("spec.replicas", 1),
        ("spec.strategy.type+", "RollingUpdate"),
        ("spec.revisionHistoryLimit", 10),
        ("spec.progressDeadlineSeconds", 600),
    )

    def _intent_changed(self, new: Data, old: Data) -> bool:
        annotated = (new["metadata"].get("annotations") or {}) != (old["metadata"].get("annotations") or {})
        return annotated or super()._intent_changed(new, old)

    def _default(self, new: Data) -> None:
        super()._default(new)
        if new["spec"]["strategy"]["type"] == "RollingUpdate":
            _ROLLING.fill(new["spec"]["strategy"])

    def _status(self, new: Data, old: Data) -> None:
        super()._status(new, old)
        restore(new["metadata"], old["metadata"], "labels")

    def _errors(self, new: Data, old: Data | None) -> Errors:
        spec = new.get("spec") or {}
        errors = _replicas(spec, "spec") + selected_errors(spec, "deployment") + matched_errors(spec, "ReplicaSet")
        errors += _deployment_strategy(spec.get("strategy") or {}, "spec.strategy") + _limits(spec, "spec")
        deadline = spec.get("progressDeadlineSeconds")
        if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
            errors.append(invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"))
        return errors if old is None else errors + same_selector(spec, old)


_set_limits: Final[Rule] = not_negative("replicas minReadySeconds")
_replicas: Final[Rule] = not_negative("replicas")
_limits: Final[Rule] = not_negative("minReadySeconds revisionHistoryLimit progressDeadlineSeconds")


def _deployment_strategy(strategy: Data, path: str) -> Errors:
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    if kind == "Recreate":
        words = "may not be specified when strategy `type` is 'Recreate'"
        return [forbidden(f"{path}.rollingUpdate", words)] if rolling is not None else []
    if kind != "RollingUpdate":
        shown = shown_strategy(kind, rolling, "maxUnavailable", "maxSurge")
        return [not_supported(path, shown, ("Recreate", "RollingUpdate"))]
    unavailable, surge = ((rolling or {}).get(name, 0) for name in ("maxUnavailable", "maxSurge"))
    here = f"{path}.rollingUpdate.maxUnavailable"
    errors = count_or_percent(unavailable, here) + count_or_percent(surge, f"{path}.rollingUpdate.maxSurge")
    if not counted(unavailable) and not counted(surge):
        errors.append(invalid(here, unavailable, "may not be 0 when `maxSurge` is 0"))
    return errors + at_most_all(unavailable, here)


class ReplicaSet(Workload):
    """ReplicaSet: a number of pods of a template."""

    named_label = True
    empty_status: Mapping[str, Any] = {"replicas": 0}
    selectable: Mapping[str, Any] = {"status.replicas": 0}
    counters = "replicas fullyLabeledReplicas readyReplicas availableReplicas observedGeneration terminatingReplicas"
    within_replicas = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
    defaults = (("spec.replicas", 1),)

    def _errors(self, new: Data, old: Data | None) -> Errors:
        spec = new.get("spec") or {}
        errors = _set_limits(spec, "spec") + selected_errors(spec, "deployment")
        errors += matched_errors(spec, "ReplicaSet")
        return errors if old is None else errors + same_selector(spec, old)
