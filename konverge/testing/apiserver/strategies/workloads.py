"""Deployment, ReplicaSet, StatefulSet, DaemonSet, ReplicationController and ControllerRevision.

Source: `pkg/apis/apps/v1/defaults.go`, `pkg/apis/apps/validation/validation.go`, `pkg/registry/apps/*/strategy.go`,
`pkg/registry/core/replicationcontroller/strategy.go`.
"""

from __future__ import annotations

from typing import Any, Final

from konverge.testing.apiserver.schemas import names
from konverge.testing.apiserver.strategies import texts
from konverge.testing.apiserver.strategies.claims import claim_spec_errors
from konverge.testing.apiserver.strategies.kit import (
    NOT_NEGATIVE,
    Data,
    Errors,
    Kind,
    forbidden,
    immutable,
    invalid,
    not_negative,
    not_supported,
    required,
    restore,
    selector_errors,
    selects,
    text_errors,
)
from konverge.testing.apiserver.strategies.pod_checks import template_errors
from konverge.testing.apiserver.strategies.pod_defaults import default_claim, default_template
from konverge.testing.apiserver.strategies.pod_warnings import pod_warnings

__all__ = ["ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "ReplicationController", "StatefulSet"]

_UNMATCHED: Final = "`selector` does not match template `labels`"
_PERCENT: Final = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%', or '93%', regex used for validation is '[0-9]+%')"
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


class Workload(Kind):
    """What runs pods from a template."""

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
        self.default_rollout(spec)

    def default_rollout(self, spec: Data) -> None:
        """Fill in how pods are replaced."""

    def _status_errors(self, new: Data, old: Data) -> Errors:
        status, before = new.get("status") or {}, old.get("status") or {}
        errors = not_negative(status, "status", *self.counters, "collisionCount")
        total = status.get("replicas", 0)
        for name in self.within_replicas:
            if status.get(name, 0) > total:
                errors.append(invalid(f"status.{name}", status[name], "cannot be greater than status.replicas"))
        if self.within_replicas and status.get("availableReplicas", 0) > status.get("readyReplicas", 0):
            errors.append(invalid("status.availableReplicas", status["availableReplicas"], self.ready_text))
        if (status.get("collisionCount") or 0) < (before.get("collisionCount") or 0):
            errors.append(invalid("status.collisionCount", status.get("collisionCount") or 0, "cannot be decremented"))
        return errors

    def _warnings(self, new: Data, old: Data | None) -> list[str]:
        if old is not None and new.get("spec") == old.get("spec"):
            return []
        template = (new.get("spec") or {}).get("template") or {}
        return super()._warnings(new, old) + pod_warnings(template.get("spec") or {}, "spec.template")


def _selected(spec: Data, kind: str, empty: str) -> Errors:
    """Check that there is a selector, and that it selects the template's pods."""
    selector = spec.get("selector")
    if selector is None:
        return [required("spec.selector")]
    errors = selector_errors(selector, "spec.selector")
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        errors.append(invalid("spec.selector", selector, f"empty selector is invalid for {empty}"))
    return errors


def _always(spec: Data, kind: str) -> Errors:
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


def _template(spec: Data, kind: str, *, matched: bool | None = None) -> Errors:
    """Check a template against its selector, and by itself."""
    template, selector = spec.get("template") or {}, spec.get("selector")
    labels = (template.get("metadata") or {}).get("labels")
    broken = selector is not None and selector_operators(selector)
    if broken:
        return [invalid("spec.selector", selector, "invalid label selector")]
    fits = selects(selector, labels) if matched is None else matched
    errors = [] if fits else [invalid("spec.template.metadata.labels", labels, _UNMATCHED)]
    return errors + template_errors(template, "spec.template") + _always(spec, kind)


def selector_operators(selector: Data) -> bool:
    """Tell whether a selector cannot even be evaluated."""
    return any(
        each.get("operator") not in ("In", "NotIn", "Exists", "DoesNotExist")
        for each in selector.get("matchExpressions") or ()
    )


def count_or_percent(value: Any, path: str) -> Errors:
    """Check a number of pods or a percentage of them."""
    if isinstance(value, str):
        return [] if texts.is_percent(value) else [invalid(path, value, _PERCENT)]
    return [invalid(path, value, NOT_NEGATIVE)] if (value or 0) < 0 else []


def at_most_all(value: Any, path: str) -> Errors:
    """Check that a percentage is not above 100."""
    above = isinstance(value, str) and texts.is_percent(value) and int(value[:-1]) > 100
    return [invalid(path, value, "must not be greater than 100%")] if above else []


def _amount(value: Any) -> int:
    if isinstance(value, str):
        return int(value.rstrip("%")) if value.rstrip("%").isdigit() else 0
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
    reset_fields = {"": (("status",),), "status": (("spec",), ("metadata", "labels"))}

    def _intent_changed(self, new: Data, old: Data) -> bool:
        annotated = (new["metadata"].get("annotations") or {}) != (old["metadata"].get("annotations") or {})
        return annotated or super()._intent_changed(new, old)

    def default_rollout(self, spec: Data) -> None:
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
        errors += _selected(spec, "Deployment", "deployment") + _template(
            spec, "ReplicaSet", matched=_empty_or_fits(spec)
        )
        errors += _deployment_strategy(spec.get("strategy") or {})
        errors += not_negative(spec, "spec", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
        deadline = spec.get("progressDeadlineSeconds")
        if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
            errors.append(invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"))
        if old is not None:
            errors += immutable("spec.selector", spec.get("selector"), (old.get("spec") or {}).get("selector"))
        return errors


def _empty_or_fits(spec: Data) -> bool:
    """Tell whether a selector selects everything, or the template's pods."""
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    return selects(spec.get("selector"), labels)


def _deployment_strategy(strategy: Data) -> Errors:
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    path = "spec.strategy"
    if kind == "Recreate":
        text = "may not be specified when strategy `type` is 'Recreate'"
        return [forbidden(f"{path}.rollingUpdate", text)] if rolling is not None else []
    if kind != "RollingUpdate":
        shown = {
            "Type": kind,
            "RollingUpdate": rolling and {name[0].upper() + name[1:]: value for name, value in rolling.items()},
        }
        return [not_supported(path, shown, ("Recreate", "RollingUpdate"))]
    rolling = rolling or {}
    path = f"{path}.rollingUpdate"
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    errors = count_or_percent(unavailable, f"{path}.maxUnavailable") + count_or_percent(surge, f"{path}.maxSurge")
    if not _amount(unavailable) and not _amount(surge):
        errors.append(invalid(f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0"))
    return errors + at_most_all(unavailable, f"{path}.maxUnavailable")


class ReplicaSet(Workload):
    """So many pods of a template."""

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
        errors += _selected(spec, "ReplicaSet", "deployment") + _template(spec, "ReplicaSet")
        if old is not None:
            errors += immutable("spec.selector", spec.get("selector"), (old.get("spec") or {}).get("selector"))
        return errors

    def _labels(self, object_: Data) -> dict[str, str]:
        return {"status.replicas": str((object_.get("status") or {}).get("replicas", 0))}


class StatefulSet(Workload):
    """Pods with names and volumes of their own."""

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

    def default_rollout(self, spec: Data) -> None:
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
        errors += _selected(spec, "StatefulSet", "statefulset")
        errors += _template(_with_volumes(spec, claims), "StatefulSet")
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
                if not _amount(rolling["maxUnavailable"]):
                    errors.append(invalid(here, rolling["maxUnavailable"], "cannot be 0"))
                errors += at_most_all(rolling["maxUnavailable"], here)
    elif kind == "OnDelete":
        if rolling is not None:
            shown = {
                name[0].upper() + name[1:]: value
                for name, value in {"partition": 0, "maxUnavailable": None, **rolling}.items()
            }
            errors.append(invalid(f"{path}.rollingUpdate", shown, "only allowed for updateStrategy 'RollingUpdate'"))
    else:
        errors.append(invalid(path, {"Type": kind, "RollingUpdate": rolling}, "must be 'RollingUpdate' or 'OnDelete'"))
    kept = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    for name in ("whenDeleted", "whenScaled"):
        if kept.get(name) not in ("Retain", "Delete"):
            where = f"spec.persistentVolumeClaimRetentionPolicy.{name}"
            errors.append(not_supported(where, kept.get(name, ""), ("Retain", "Delete")))
    return errors


class DaemonSet(Workload):
    """A pod on every node."""

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

    def default_rollout(self, spec: Data) -> None:
        strategy = spec.setdefault("updateStrategy", {})
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", 1)
            rolling.setdefault("maxSurge", 0)
        spec.setdefault("revisionHistoryLimit", 10)

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
            errors += immutable("spec.selector", selector, (old.get("spec") or {}).get("selector"))
        errors += selector_errors(selector, "spec.selector")
        labels = (template.get("metadata") or {}).get("labels")
        if not selects(selector, labels) and not selector_operators(selector or {}):
            errors.append(invalid("spec.template.metadata.labels", labels, _UNMATCHED))
        if selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions"):
            errors.append(invalid("spec.selector", selector, "empty selector is invalid for daemonset"))
        errors += template_errors(template, "spec.template") + _always(spec, "DaemonSet")
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
        return [not_supported(path, {"Type": kind, "RollingUpdate": rolling}, ("RollingUpdate", "OnDelete"))]
    if rolling is None:
        return [required(f"{path}.rollingUpdate")]
    path = f"{path}.rollingUpdate"
    errors: Errors = []
    pair = [(name, rolling.get(name, 0)) for name in ("maxUnavailable", "maxSurge")]
    for name, value in pair:
        errors += count_or_percent(value, f"{path}.{name}")
    for name, value in pair:
        errors += at_most_all(value, f"{path}.{name}")
    unavailable, surge = (bool(_amount(value)) for _, value in pair)
    if unavailable and surge:
        errors.append(invalid(f"{path}.maxSurge", pair[1][1], "may not be set when maxUnavailable is non-zero"))
    elif not unavailable and not surge:
        errors.append(required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return errors


class ReplicationController(Workload):
    """What ReplicaSet was before."""

    named_label = True
    counters = ReplicaSet.counters[:-1]
    within_replicas = ReplicaSet.within_replicas

    def _default(self, new: Data) -> None:
        spec = new.setdefault("spec", {})
        spec.setdefault("replicas", 1)
        if spec.get("template") is None:
            return
        default_template(spec["template"])
        labels = spec["template"]["metadata"].get("labels")
        if labels:
            spec["selector"] = spec.get("selector") or dict(labels)
            new["metadata"]["labels"] = new["metadata"].get("labels") or dict(labels)

    def _errors(self, new: Data, old: Data | None) -> Errors:
        spec = new.get("spec") or {}
        selector = spec.get("selector") or {}
        errors = not_negative(spec, "spec", "minReadySeconds") + ([] if selector else [required("spec.selector")])
        errors += not_negative(spec, "spec", "replicas")
        if spec.get("template") is None:
            return [*errors, required("spec.template")]
        labels = (spec["template"].get("metadata") or {}).get("labels")
        if not selects({"matchLabels": selector}, labels):
            errors.append(invalid("spec.template.metadata.labels", labels, _UNMATCHED))
        return errors + template_errors(spec["template"], "spec.template") + _always(spec, "ReplicationController")

    def _labels(self, object_: Data) -> dict[str, str]:
        return {"status.replicas": str((object_.get("status") or {}).get("replicas", 0))}


class ControllerRevision(Kind):
    """A state that a workload was in; it never changes."""

    def _errors(self, new: Data, old: Data | None) -> Errors:
        data = new.get("data")
        if old is not None:
            return not_negative(new, "", "revision") + immutable("data", data, old.get("data"))
        errors = [invalid("revision", new["revision"], NOT_NEGATIVE)] if new.get("revision", 0) < 0 else []
        if data is None:
            errors.append(required("data", "data is mandatory"))
        elif not isinstance(data, dict):
            errors.append(required("data", "data must be a valid JSON object"))
        return errors
