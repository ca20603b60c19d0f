"""StatefulSet and DaemonSet.

Source: `pkg/apis/apps/v1/defaults.go`, `pkg/apis/apps/validation/validation.go`, `pkg/registry/apps/{statefulset,daemonset}/strategy.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from konverge_testing.apiserver import names
from konverge_testing.apiserver.golang import Struct
from konverge_testing.apiserver.strategies.base import value_at
from konverge_testing.apiserver.strategies.claim_specs import claim_spec_errors
from konverge_testing.apiserver.strategies.defaulting import Tree
from konverge_testing.apiserver.strategies.errors import Data, Errors, forbidden, invalid, not_supported, required
from konverge_testing.apiserver.strategies.labels import selector_errors, selects, unreadable
from konverge_testing.apiserver.strategies.pods.checks import template_errors
from konverge_testing.apiserver.strategies.rules import among, at, each, filled, not_negative, struct, text
from konverge_testing.apiserver.strategies.workloads import (
    UNMATCHED,
    Workload,
    always_errors,
    at_most_all,
    count_or_percent,
    counted,
    matched_errors,
    not_empty,
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
_PARTITION: Final = Tree([("rollingUpdate?.partition", 0)])
_ROLLING: Final = Tree([("rollingUpdate.maxUnavailable", 1), ("rollingUpdate.maxSurge", 0)])


class StatefulSet(Workload):
    """StatefulSet: pods with names and volumes of their own."""

    name_rule = "label"
    empty_status: Mapping[str, Any] = {"replicas": 0, "availableReplicas": 0}
    counters = "replicas readyReplicas currentReplicas updatedReplicas availableReplicas observedGeneration"
    within_replicas = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
    ready_text = "cannot be greater than status.readyReplicas"
    defaults = (
        ("spec.replicas", 1),
        ("spec.podManagementPolicy+", "OrderedReady"),
        ("spec.persistentVolumeClaimRetentionPolicy.whenDeleted+", "Retain"),
        ("spec.persistentVolumeClaimRetentionPolicy.whenScaled+", "Retain"),
        ("spec.revisionHistoryLimit", 10),
        ("spec.volumeClaimTemplates[].apiVersion", "v1"),
        ("spec.volumeClaimTemplates[].kind", "PersistentVolumeClaim"),
        ("spec.volumeClaimTemplates[].spec.volumeMode", "Filesystem"),
        ("spec.volumeClaimTemplates[].status.phase", "Pending"),
    )

    def _default(self, new: Data) -> None:
        super()._default(new)
        strategy = new["spec"].setdefault("updateStrategy", {})
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
            strategy.setdefault("rollingUpdate", {})
        if strategy["type"] == "RollingUpdate":
            _PARTITION.fill(strategy)

    def _errors(self, new: Data, old: Data | None) -> Errors:
        spec = new.get("spec") or {}
        claims = spec.get("volumeClaimTemplates") or []
        errors = _stateful_rollout(spec, "spec") + _retention(spec, "spec")
        if old is None:
            errors += at("volumeClaimTemplates", each(at("spec", claim_spec_errors)))(spec, "spec")
        errors += _stateful_numbers(spec, "spec")
        if old is None:
            errors += filled("serviceName", text(names.dns1123_label))(spec, "spec")
        errors += selected_errors(spec, "statefulset") + matched_errors(_with_volumes(spec, claims), "StatefulSet")
        if old is not None:
            kept, before = (
                {name: each_[name] for name in each_ if name not in _CHANGEABLE}
                for each_ in (spec, old.get("spec") or {})
            )
            errors += [] if kept == before else [forbidden("spec", _RETAINED)]
        return errors


_stateful_numbers: Final = struct(not_negative("replicas minReadySeconds"), at("ordinals", not_negative("start")))
_retention: Final = at("persistentVolumeClaimRetentionPolicy", at("whenDeleted whenScaled", among("Retain", "Delete")))


def _with_volumes(spec: Data, claims: list[Data]) -> Data:
    """Return the spec with a volume for each claim template, since the check of the pod template needs them."""
    template = spec.get("template") or {}
    pod = template.get("spec") or {}
    added = [(claim.get("metadata") or {}).get("name", "") for claim in claims]
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in added]
    volumes += [each for each in pod.get("volumes") or () if each.get("name") not in added]
    rest = {name: value for name, value in pod.items() if name not in ("hostname", "subdomain")}
    return {**spec, "template": {**template, "spec": {**rest, "volumes": volumes}}}


def _stateful_rollout(spec: Data, where: str) -> Errors:
    errors: Errors = []
    policy, strategy = spec.get("podManagementPolicy", ""), spec.get("updateStrategy") or {}
    if policy not in ("OrderedReady", "Parallel"):
        errors.append(invalid(f"{where}.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'"))
    kind, rolling, path = strategy.get("type", ""), strategy.get("rollingUpdate"), f"{where}.updateStrategy"
    if kind not in ("RollingUpdate", "OnDelete"):
        shown = shown_strategy(kind, rolling, "partition", "maxUnavailable")
        errors.append(invalid(path, shown, "must be 'RollingUpdate' or 'OnDelete'"))
    elif rolling is not None and kind == "OnDelete":
        shown = Struct(Partition=rolling.get("partition", 0), MaxUnavailable=rolling.get("maxUnavailable"))
        errors.append(invalid(f"{path}.rollingUpdate", shown, "only allowed for updateStrategy 'RollingUpdate'"))
    elif rolling is not None:
        errors += not_negative("partition")(rolling, f"{path}.rollingUpdate")
        if "maxUnavailable" in rolling:
            most, here = rolling["maxUnavailable"], f"{path}.rollingUpdate.maxUnavailable"
            errors += count_or_percent(most, here)
            errors += ([] if counted(most) else [invalid(here, most, "cannot be 0")]) + at_most_all(most, here)
    return errors


class DaemonSet(Workload):
    """DaemonSet: a pod on each node."""

    empty_status: Mapping[str, Any] = dict.fromkeys(
        ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"), 0
    )
    counters = (
        "currentNumberScheduled numberMisscheduled desiredNumberScheduled numberReady observedGeneration updatedNumberScheduled "
        "numberAvailable numberUnavailable"
    )
    within_replicas = ()
    defaults = (("spec.updateStrategy.type+", "RollingUpdate"), ("spec.revisionHistoryLimit", 10))

    def _default(self, new: Data) -> None:
        super()._default(new)
        strategy = new["spec"]["updateStrategy"]
        if strategy["type"] == "RollingUpdate":
            _ROLLING.fill(strategy)
        if _GENERATION not in (new["metadata"].get("annotations") or {}):
            _template_generation(new, 0)

    def _status(self, new: Data, old: Data) -> None:
        super()._status(new, old)
        _template_generation(new, _generation_of(old))

    def _create(self, new: Data) -> None:
        super()._create(new)
        _template_generation(new, 1)

    def _update(self, new: Data, old: Data) -> None:
        super()._update(new, old)
        changed = value_at(new, "spec.template") != value_at(old, "spec.template")
        _template_generation(new, _generation_of(old) + changed)

    def _errors(self, new: Data, old: Data | None) -> Errors:
        spec = new.get("spec") or {}
        selector, labels = spec.get("selector"), value_at(spec, "template.metadata.labels")
        errors = [] if old is None else same_selector(spec, old)
        errors += selector_errors(selector, "spec.selector")
        if not selects(selector, labels) and not unreadable(selector):
            errors.append(invalid("spec.template.metadata.labels", labels, UNMATCHED))
        errors += not_empty(selector, "daemonset")
        errors += template_errors(spec.get("template") or {}, "spec.template") + always_errors(spec, "DaemonSet")
        errors += not_negative("minReadySeconds")(spec, "spec")
        errors += _daemon_strategy(spec.get("updateStrategy") or {}, "spec.updateStrategy")
        return errors + not_negative("revisionHistoryLimit")(spec, "spec")


_GENERATION: Final = "deprecated.daemonset.template.generation"


def _generation_of(old: Data) -> int:
    return int((old["metadata"].get("annotations") or {}).get(_GENERATION, "0"))


def _template_generation(new: Data, number: int) -> None:
    """Count changes of the template, as the first version of the API did; apps/v1 keeps the number in an annotation."""
    annotations = new["metadata"].get("annotations") or {}
    new["metadata"]["annotations"] = {**annotations, _GENERATION: str(number)}


def _daemon_strategy(strategy: Data, path: str) -> Errors:
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    if kind == "OnDelete":
        return []
    if kind != "RollingUpdate":
        shown = shown_strategy(kind, rolling, "maxUnavailable", "maxSurge")
        return [not_supported(path, shown, ("RollingUpdate", "OnDelete"))]
    path = f"{path}.rollingUpdate"
    if rolling is None:
        return [required(path)]
    values = {f"{path}.{name}": rolling.get(name, 0) for name in ("maxUnavailable", "maxSurge")}
    errors = [
        error
        for check in (count_or_percent, at_most_all)
        for here, value in values.items()
        for error in check(value, here)
    ]
    unavailable, surge = (bool(counted(value)) for value in values.values())
    if unavailable and surge:
        words = "may not be set when maxUnavailable is non-zero"
        errors.append(invalid(f"{path}.maxSurge", rolling.get("maxSurge", 0), words))
    elif not unavailable and not surge:
        errors.append(required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return errors
