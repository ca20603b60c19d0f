"""Deployment and ReplicaSet, and what all that runs pods from templates has in common.

Source: `pkg/apis/apps/v1/defaults.go`, `pkg/apis/apps/validation/validation.go`, `pkg/registry/apps/*/strategy.go`,
`pkg/registry/core/replicationcontroller/strategy.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from konverge_testing.apiserver.golang import Struct
from konverge_testing.apiserver.strategies import texts
from konverge_testing.apiserver.strategies.base import (
    NOT_NEGATIVE,
    BuiltInStrategy,
    Data,
    Errors,
    forbidden,
    immutable,
    invalid,
    not_negative,
    not_supported,
    required,
    restore,
    selector_errors,
    selects,
    shown_selector,
    text_errors,
    unreadable,
)
from konverge_testing.apiserver.strategies.pods.checks import template_errors
from konverge_testing.apiserver.strategies.pods.defaults import default_template
from konverge_testing.apiserver.strategies.pods.warnings import pod_warnings

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
    "same_selector",
    "selected_errors",
    "shown_strategy",
]

UNMATCHED: Final = "`selector` does not match template `labels`"


class Workload(BuiltInStrategy):
    """The kinds that run pods from a template."""

    generation = True
    has_status = True
    replicated = True
    counters: tuple[str, ...] = ("replicas", "readyReplicas", "availableReplicas", "observedGeneration")
    within_replicas: tuple[str, ...] = ("readyReplicas", "availableReplicas")
    ready_text = "cannot be greater than readyReplicas"

    def _default(self, new: Data) -> None:
        spec = new.setdefault("spec", {})
        default_template(spec.setdefault("template", {}))
        if self.replicated:
            spec.setdefault("replicas", 1)
        self._default_rollout(spec)

    def _default_rollout(self, spec: Data) -> None:
        """Fill in how pods are replaced."""

    def _status_errors(self, new: Data, old: Data) -> Errors:
        status, before = new.get("status") or {}, old.get("status") or {}
        errors = not_negative(status, "status", *self.counters, "collisionCount")
        total = status.get("replicas", 0)
        for name in self.within_replicas:
            if (found := status.get(name, 0)) > total:
                errors.append(invalid(f"status.{name}", found, "cannot be greater than status.replicas"))
        available = status.get("availableReplicas", 0)
        if self.within_replicas and available > status.get("readyReplicas", 0):
            errors.append(invalid("status.availableReplicas", available, self.ready_text))
        if "collisionCount" in before and (status.get("collisionCount") or 0) < before["collisionCount"]:
            errors.append(invalid("status.collisionCount", status.get("collisionCount") or 0, "cannot be decremented"))
        return errors

    def _warnings(self, new: Data, old: Data | None) -> list[str]:
        if old is not None and new.get("spec") == old.get("spec"):
            return []
        template = (new.get("spec") or {}).get("template") or {}
        return super()._warnings(new, old) + pod_warnings(template.get("spec") or {}, "spec.template")


def selected_errors(spec: Data, empty: str) -> Errors:
    """Check that there is a selector, and that it selects the template's pods."""
    selector = spec.get("selector")
    if selector is None:
        return [required("spec.selector")]
    errors = selector_errors(selector, "spec.selector")
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        errors.append(invalid("spec.selector", shown_selector(selector), f"empty selector is invalid for {empty}"))
    return errors


def same_selector(spec: Data, old: Data) -> Errors:
    """Check that the selector did not change."""
    return immutable(
        "spec.selector", shown_selector(spec.get("selector")), shown_selector((old.get("spec") or {}).get("selector"))
    )


def always_errors(spec: Data, kind: str) -> Errors:
    """Check what the pods of a workload may not say of their own end."""
    pod = (spec.get("template") or {}).get("spec") or {}
    errors: Errors = []
    if pod.get("restartPolicy") != "Always":
        path = "spec.template.spec.restartPolicy"
        errors.append(not_supported(path, pod.get("restartPolicy", ""), ("Always",)))
    if pod.get("activeDeadlineSeconds") is not None:
        path = "spec.template.spec.activeDeadlineSeconds"
        errors.append(forbidden(path, f"activeDeadlineSeconds in {kind} is not Supported"))
    return errors


def matched_errors(spec: Data, kind: str, *, matched: bool | None = None) -> Errors:
    """Check a template against its selector, and by itself."""
    template, selector = spec.get("template") or {}, spec.get("selector")
    labels = (template.get("metadata") or {}).get("labels")
    broken = unreadable(selector)
    if broken:
        return [invalid("spec.selector", shown_selector(selector), "invalid label selector")]
    fits = selects(selector, labels) if matched is None else matched
    errors = [] if fits else [invalid("spec.template.metadata.labels", labels, UNMATCHED)]
    return errors + template_errors(template, "spec.template") + always_errors(spec, kind)


def count_or_percent(value: Any, path: str) -> Errors:
    """Check a number of pods or a percentage of them."""
    if isinstance(value, str):
        return text_errors(path, value, texts.percent)
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


class Deployment(Workload):
    """Pods that are replaced a few at a time, by way of ReplicaSets."""

    named_label = True
    counters = (
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
    )
    within_replicas = ("updatedReplicas", "readyReplicas", "availableReplicas")
    reset_fields: Mapping[str, tuple[tuple[str, ...], ...]] = {
        "": (("status",),),
        "status": (("spec",), ("metadata", "labels")),
    }

    def _intent_changed(self, new: Data, old: Data) -> bool:
        annotated = (new["metadata"].get("annotations") or {}) != (old["metadata"].get("annotations") or {})
        return annotated or super()._intent_changed(new, old)

    def _default_rollout(self, spec: Data) -> None:
        strategy = spec.setdefault("strategy", {})
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", "25%")
            rolling.setdefault("maxSurge", "25%")
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("progressDeadlineSeconds", 600)

    def _status(self, new: Data, old: Data) -> None:
        super()._status(new, old)
        restore(new["metadata"], old["metadata"], "labels")

    def _errors(self, new: Data, old: Data | None) -> Errors:
        spec = new.get("spec") or {}
        errors = not_negative(spec, "spec", "replicas")
        errors += selected_errors(spec, "deployment") + matched_errors(spec, "ReplicaSet", matched=_empty_or_fits(spec))
        errors += _deployment_strategy(spec.get("strategy") or {})
        errors += not_negative(spec, "spec", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
        deadline = spec.get("progressDeadlineSeconds")
        if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
            errors.append(invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"))
        if old is not None:
            errors += same_selector(spec, old)
        return errors


def _empty_or_fits(spec: Data) -> bool:
    """Tell whether a selector selects everything, or the template's pods."""
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    return selects(spec.get("selector"), labels)


def shown_strategy(kind: str, rolling: Data | None, *fields: str) -> Struct:
    """Return a strategy as an error shows it: the internal struct, whose fields have no JSON names."""
    inner = None if rolling is None else Struct({name[0].upper() + name[1:]: rolling.get(name) for name in fields})
    return Struct(Type=kind, RollingUpdate=inner)


def _deployment_strategy(strategy: Data) -> Errors:
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    path = "spec.strategy"
    if kind == "Recreate":
        text = "may not be specified when strategy `type` is 'Recreate'"
        return [forbidden(f"{path}.rollingUpdate", text)] if rolling is not None else []
    if kind != "RollingUpdate":
        shown = shown_strategy(kind, rolling, "maxUnavailable", "maxSurge")
        return [not_supported(path, shown, ("Recreate", "RollingUpdate"))]
    rolling = rolling or {}
    path = f"{path}.rollingUpdate"
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    errors = count_or_percent(unavailable, f"{path}.maxUnavailable") + count_or_percent(surge, f"{path}.maxSurge")
    if not counted(unavailable) and not counted(surge):
        errors.append(invalid(f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0"))
    return errors + at_most_all(unavailable, f"{path}.maxUnavailable")


class ReplicaSet(Workload):
    """So many pods of a template."""

    empty_status: Mapping[str, Any] = {"replicas": 0}

    named_label = True
    counters = (
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    )
    within_replicas = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")

    def _errors(self, new: Data, old: Data | None) -> Errors:
        spec = new.get("spec") or {}
        errors = not_negative(spec, "spec", "replicas", "minReadySeconds")
        errors += selected_errors(spec, "deployment") + matched_errors(spec, "ReplicaSet")
        if old is not None:
            errors += same_selector(spec, old)
        return errors

    def _labels(self, object_: Data) -> dict[str, str]:
        return {"status.replicas": str((object_.get("status") or {}).get("replicas", 0))}
