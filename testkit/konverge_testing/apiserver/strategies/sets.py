"""StatefulSet and DaemonSet.

Source: `pkg/apis/apps/v1/defaults.go`, `pkg/apis/apps/validation/validation.go`, `pkg/registry/apps/{statefulset,daemonset}/strategy.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from konverge_testing.apiserver import names
from konverge_testing.apiserver.golang import Struct
from konverge_testing.apiserver.strategies.base import (
    Data,
    Errors,
    forbidden,
    invalid,
    not_negative,
    not_supported,
    required,
    selector_errors,
    selects,
    shown_selector,
    text_errors,
    unreadable,
)
from konverge_testing.apiserver.strategies.claim_specs import claim_spec_errors
from konverge_testing.apiserver.strategies.pods.checks import template_errors
from konverge_testing.apiserver.strategies.pods.defaults import default_claim
from konverge_testing.apiserver.strategies.workloads import (
    UNMATCHED,
    Workload,
    always_errors,
    at_most_all,
    count_or_percent,
    counted,
    matched_errors,
    same_selector,
    selected_errors,
    shown_strategy,
)

__all__ = ["DaemonSet", "StatefulSet"]

_RETAINED: Final = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', "
    "'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
_CHANGEABLE: Final = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)


class StatefulSet(Workload):
    """Pods with names and volumes of their own."""

    empty_status: Mapping[str, Any] = {"replicas": 0, "availableReplicas": 0}

    name_rule = "label"
    counters = (
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
    )
    within_replicas = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
    ready_text = "cannot be greater than status.readyReplicas"

    def _default_rollout(self, spec: Data) -> None:
        if not spec.get("podManagementPolicy"):
            spec["podManagementPolicy"] = "OrderedReady"
        strategy = spec.setdefault("updateStrategy", {})
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
            strategy.setdefault("rollingUpdate", {})
        if strategy["type"] == "RollingUpdate" and strategy.get("rollingUpdate") is not None:
            strategy["rollingUpdate"].setdefault("partition", 0)
        kept = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
        for name in ("whenDeleted", "whenScaled"):
            kept[name] = kept.get(name) or "Retain"
        spec.setdefault("revisionHistoryLimit", 10)
        for claim in spec.get("volumeClaimTemplates") or ():
            claim.setdefault("apiVersion", "v1")
            claim.setdefault("kind", "PersistentVolumeClaim")
            default_claim(claim)
            claim["status"] = {"phase": "Pending", **(claim.get("status") or {})}

    def _errors(self, new: Data, old: Data | None) -> Errors:
        spec = new.get("spec") or {}
        errors = _stateful_rollout(spec)
        claims = spec.get("volumeClaimTemplates") or []
        if old is None:
            for index, claim in enumerate(claims):
                errors += claim_spec_errors(claim.get("spec") or {}, f"spec.volumeClaimTemplates[{index}].spec")
        errors += not_negative(spec, "spec", "replicas", "minReadySeconds")
        if spec.get("ordinals"):
            errors += not_negative(spec["ordinals"], "spec.ordinals", "start")
        if old is None and spec.get("serviceName"):
            errors += text_errors("spec.serviceName", spec["serviceName"], names.dns1123_label)
        errors += selected_errors(spec, "statefulset")
        errors += matched_errors(_with_volumes(spec, claims), "StatefulSet")
        if old is not None:
            before = old.get("spec") or {}
            kept = [name for name in {*spec, *before} if name not in _CHANGEABLE]
            if any(spec.get(name) != before.get(name) for name in kept):
                errors.append(forbidden("spec", _RETAINED))
        return errors


def _with_volumes(spec: Data, claims: list[Data]) -> Data:
    """Return the spec with the volumes that its claims will be, as templates are checked with them."""
    template = spec.get("template") or {}
    pod = template.get("spec") or {}
    added = [(claim.get("metadata") or {}).get("name", "") for claim in claims]
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in added]
    volumes += [each for each in pod.get("volumes") or () if each.get("name") not in added]
    rest = {name: value for name, value in pod.items() if name not in ("hostname", "subdomain")}
    return {**spec, "template": {**template, "spec": {**rest, "volumes": volumes}}}


def _stateful_rollout(spec: Data) -> Errors:
    errors: Errors = []
    policy, strategy = spec.get("podManagementPolicy", ""), spec.get("updateStrategy") or {}
    if policy not in ("OrderedReady", "Parallel"):
        errors.append(invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'"))
    kind, rolling, path = strategy.get("type", ""), strategy.get("rollingUpdate"), "spec.updateStrategy"
    if kind == "RollingUpdate":
        if rolling is not None:
            errors += not_negative(rolling, f"{path}.rollingUpdate", "partition")
            if "maxUnavailable" in rolling:
                here = f"{path}.rollingUpdate.maxUnavailable"
                errors += count_or_percent(rolling["maxUnavailable"], here)
                if not counted(rolling["maxUnavailable"]):
                    errors.append(invalid(here, rolling["maxUnavailable"], "cannot be 0"))
                errors += at_most_all(rolling["maxUnavailable"], here)
    elif kind == "OnDelete":
        if rolling is not None:
            shown = Struct(Partition=rolling.get("partition", 0), MaxUnavailable=rolling.get("maxUnavailable"))
            errors.append(invalid(f"{path}.rollingUpdate", shown, "only allowed for updateStrategy 'RollingUpdate'"))
    else:
        shown = shown_strategy(kind, rolling, "partition", "maxUnavailable")
        errors.append(invalid(path, shown, "must be 'RollingUpdate' or 'OnDelete'"))
    kept = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    for name in ("whenDeleted", "whenScaled"):
        if kept.get(name) not in ("Retain", "Delete"):
            where = f"spec.persistentVolumeClaimRetentionPolicy.{name}"
            errors.append(not_supported(where, kept.get(name, ""), ("Retain", "Delete")))
    return errors


class DaemonSet(Workload):
    """A pod on every node."""

    empty_status: Mapping[str, Any] = {
        "currentNumberScheduled": 0,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 0,
        "numberReady": 0,
    }

    replicated = False
    counters = (
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
    )
    within_replicas = ()

    def _default_rollout(self, spec: Data) -> None:
        strategy = spec.setdefault("updateStrategy", {})
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", 1)
            rolling.setdefault("maxSurge", 0)
        spec.setdefault("revisionHistoryLimit", 10)

    def _default(self, new: Data) -> None:
        super()._default(new)
        if _GENERATION not in (new["metadata"].get("annotations") or {}):
            _template_generation(new, 0)

    def _status(self, new: Data, old: Data) -> None:
        super()._status(new, old)
        _template_generation(new, int((old["metadata"].get("annotations") or {}).get(_GENERATION, "0")))

    def _create(self, new: Data) -> None:
        super()._create(new)
        _template_generation(new, 1)

    def _update(self, new: Data, old: Data) -> None:
        super()._update(new, old)
        before = int((old["metadata"].get("annotations") or {}).get(_GENERATION, "0"))
        changed = (new.get("spec") or {}).get("template") != (old.get("spec") or {}).get("template")
        _template_generation(new, before + changed)

    def _errors(self, new: Data, old: Data | None) -> Errors:
        spec = new.get("spec") or {}
        selector, template = spec.get("selector"), spec.get("template") or {}
        errors: Errors = []
        if old is not None:
            errors += same_selector(spec, old)
        errors += selector_errors(selector, "spec.selector")
        labels = (template.get("metadata") or {}).get("labels")
        if not selects(selector, labels) and not unreadable(selector):
            errors.append(invalid("spec.template.metadata.labels", labels, UNMATCHED))
        if selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions"):
            errors.append(invalid("spec.selector", shown_selector(selector), "empty selector is invalid for daemonset"))
        errors += template_errors(template, "spec.template") + always_errors(spec, "DaemonSet")
        errors += not_negative(spec, "spec", "minReadySeconds") + _daemon_strategy(spec.get("updateStrategy") or {})
        return errors + not_negative(spec, "spec", "revisionHistoryLimit")


_GENERATION: Final = "deprecated.daemonset.template.generation"


def _template_generation(new: Data, number: int) -> None:
    """Count changes of the template, as the first version of the API did; apps/v1 keeps the number in an annotation."""
    annotations = new["metadata"].get("annotations") or {}
    new["metadata"]["annotations"] = {**annotations, _GENERATION: str(number)}


def _daemon_strategy(strategy: Data) -> Errors:
    kind, rolling, path = strategy.get("type", ""), strategy.get("rollingUpdate"), "spec.updateStrategy"
    if kind == "OnDelete":
        return []
    if kind != "RollingUpdate":
        return [
            not_supported(
                path, shown_strategy(kind, rolling, "maxUnavailable", "maxSurge"), ("RollingUpdate", "OnDelete")
            )
        ]
    if rolling is None:
        return [required(f"{path}.rollingUpdate")]
    path = f"{path}.rollingUpdate"
    errors: Errors = []
    pair = [(name, rolling.get(name, 0)) for name in ("maxUnavailable", "maxSurge")]
    for name, value in pair:
        errors += count_or_percent(value, f"{path}.{name}")
    for name, value in pair:
        errors += at_most_all(value, f"{path}.{name}")
    unavailable, surge = (bool(counted(value)) for _, value in pair)
    if unavailable and surge:
        errors.append(invalid(f"{path}.maxSurge", pair[1][1], "may not be set when maxUnavailable is non-zero"))
    elif not unavailable and not surge:
        errors.append(required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return errors
