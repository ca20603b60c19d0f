"""The usage of an object in a ResourceQuota, and the quotas that cover it.

Guarantees: pure. Pods with requests and limits (init containers, sidecars, overhead, pod-level resources, resized containers), Services
with node ports and load balancers, PersistentVolumeClaims with storage by class, and the plain count of everything else. The rules are
those of Kubernetes' `pkg/quota/v1/evaluator/core`, of k8s.io/apiserver `pkg/quota/v1/generic` and of k8s.io/component-helpers
`resource/helpers.go`.

Caveats: without device classes of ResourceClaims (`<class>.deviceclass.resource.k8s.io/devices`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias

from konverge.clock import from_rfc3339
from konverge.quantities import ONE, ZERO, Amounts, Quantity, added
from konverge_testing.apiserver.admission.pods import pod_limits, pod_requests, quality, sets_pod_resources
from konverge_testing.apiserver.statuses import qualified

__all__ = ["Evaluator", "evaluator_for", "evaluators_for", "scopes_of"]

Data: TypeAlias = dict[str, Any]
Scope: TypeAlias = Mapping[str, Any]

_ALIASES: Final = frozenset({"configmaps", "replicationcontrollers", "resourcequotas", "secrets"})
_COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
_DEMANDED: Final = frozenset({"cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"})
_CLASS: Final = ".storageclass.storage.k8s.io/"
_LEGACY_CLASS: Final = "volume.beta.kubernetes.io/storage-class"


class Evaluator:
    """How one resource counts; this base class counts objects and nothing else."""

    def __init__(self, group: str, plural: str) -> None:
        self.id = (group, plural)
        self._names = {f"count/{qualified(group, plural)}"}
        if not group and plural in _ALIASES:
            self._names.add(plural)

    def handles(self, operation: str, subresource: str, new: Data | None, old: Data | None) -> bool:  # noqa: ARG002  # read by some
        """Tell whether a write may change the usage."""
        return operation == "CREATE" and not subresource

    def matching(self, names: Iterable[str]) -> list[str]:
        """Return the names of a quota that this resource counts for."""
        return sorted(name for name in set(names) if self.counts(name))

    def counts(self, name: str) -> bool:
        """Tell whether this evaluator counts a resource name of a quota."""
        return name in self._names

    def usage(self, found: Data, now: datetime) -> dict[str, Quantity]:  # noqa: ARG002  # all of one kind count alike
        """Return the usage of an object."""
        return dict.fromkeys(self._names, ONE)

    def demand(self, names: Sequence[str], new: Data) -> str:  # noqa: ARG002  # only pods are measured
        """Return the fields that an object must set before these names can be measured, or ""."""
        return ""

    def in_scope(self, scope: Scope, found: Data) -> bool:  # noqa: ARG002  # most have no scopes
        """Tell whether an object is within one scope of a quota."""
        return False

    def in_scopes(self, quota: Data, found: Data) -> bool:
        """Tell whether an object is within all scopes of a quota."""
        return all(self.in_scope(scope, found) for scope in scopes_of(quota))


def scopes_of(quota: Data) -> list[Scope]:
    """Return the scopes of a quota, with short forms expanded."""
    spec = quota.get("spec") or {}
    short = [{"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or ()]
    return [*short, *((spec.get("scopeSelector") or {}).get("matchExpressions") or ())]


def evaluator_for(group: str, plural: str) -> Evaluator:
    """Return the evaluator of a resource."""
    special = {"pods": _Pods, "services": _Services, "persistentvolumeclaims": _Claims}
    return special.get(plural, Evaluator)(group, plural) if not group else Evaluator(group, plural)


def evaluators_for(names: Iterable[str]) -> list[Evaluator]:
    """Return the evaluators that a quota with these names needs."""
    ids = {("", "pods"), ("", "services"), ("", "persistentvolumeclaims")} | {("", alias) for alias in _ALIASES}
    for name in names:
        if name.startswith("count/"):
            plural, _, group = name.removeprefix("count/").partition(".")
            ids.add((group, plural))
    return [each for each in (evaluator_for(*id_) for id_ in sorted(ids)) if each.matching(names)]


def _selected(scope: Scope, value: str) -> bool:
    """Tell whether a scope's operator accepts an object's value; "" means that the object lacks it."""
    values = scope.get("values") or ()
    match scope.get("operator"):
        case "In":
            return bool(value) and value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return bool(value)
        case "DoesNotExist":
            return not value
    return False


# -- pods -------------------------------------------------------------------------------------------------------------


class _Pods(Evaluator):
    def __init__(self, group: str, plural: str) -> None:
        super().__init__(group, plural)
        limits = {f"limits.{name}" for name in _COMPUTE}
        self._names |= {"pods", *_COMPUTE, *(f"requests.{name}" for name in _COMPUTE), *limits}

    def handles(self, operation: str, subresource: str, new: Data | None, old: Data | None) -> bool:
        if subresource == "resize":
            return operation == "UPDATE"
        if subresource:
            return False
        if operation == "UPDATE":
            return new is not None and old is not None and _has_deadline(new) != _has_deadline(old)
        return operation == "CREATE"

    def counts(self, name: str) -> bool:
        if name in self._names or name.startswith(("hugepages-", "requests.hugepages-")):
            return True
        return name.startswith("requests.") and _is_extended(name.removeprefix("requests."))

    def usage(self, found: Data, now: datetime) -> dict[str, Quantity]:
        counted = {"count/pods": ONE}
        if not _is_live(found, now):
            return counted
        return {**counted, **_amounts(pod_requests(found), pod_limits(found))}

    def demand(self, names: Sequence[str], new: Data) -> str:
        if sets_pod_resources(new):
            return ""
        lacking: dict[str, set[str]] = {}
        spec = new.get("spec") or {}
        for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
            resources = container.get("resources") or {}
            given = _amounts(
                dict.fromkeys(resources.get("requests") or (), ZERO), dict.fromkeys(resources.get("limits") or (), ZERO)
            )
            for name in _DEMANDED.intersection(names).difference(given):
                lacking.setdefault(name, set()).add(str(container["name"]))
        words = [f"{name} for: {','.join(sorted(lacking[name]))}" for name in sorted(lacking)]
        return f"must specify {'; '.join(words)}" if words else ""

    def in_scope(self, scope: Scope, found: Data) -> bool:
        match scope["scopeName"]:
            case "Terminating":
                return _has_deadline(found)
            case "NotTerminating":
                return not _has_deadline(found)
            case "BestEffort":
                return quality(found) == "BestEffort"
            case "NotBestEffort":
                return quality(found) != "BestEffort"
            case "PriorityClass":
                return _selected(scope, str((found.get("spec") or {}).get("priorityClassName", "")))
            case "CrossNamespacePodAffinity":
                return _crosses_namespaces(found)
        return False


def _amounts(requests: Amounts, limits: Amounts) -> dict[str, Quantity]:
    amounts = {"pods": ONE}
    for name in _COMPUTE:
        if name in requests:
            amounts[name] = amounts[f"requests.{name}"] = requests[name]
        if name in limits:
            amounts[f"limits.{name}"] = limits[name]
    for name, amount in requests.items():
        if name.startswith("hugepages-"):
            amounts[name] = amount
        if name.startswith("hugepages-") or _is_extended(name):
            amounts[f"requests.{name}"] = amount
    return amounts


def _is_extended(name: str) -> bool:
    """Tell whether a resource is an extended resource: its name has a domain other than Kubernetes'."""
    return "/" in name and "kubernetes.io/" not in name


def _has_deadline(pod: Data) -> bool:
    deadline = (pod.get("spec") or {}).get("activeDeadlineSeconds")
    return deadline is not None and deadline >= 0


def _is_live(pod: Data, now: datetime) -> bool:
    """Tell whether a pod counts: not if it has ended, nor if its deletion is overdue."""
    if (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded"):
        return False
    metadata = pod.get("metadata") or {}
    marked, grace = metadata.get("deletionTimestamp"), metadata.get("deletionGracePeriodSeconds")
    return marked is None or grace is None or now <= from_rfc3339(marked) + timedelta(seconds=grace)


def _crosses_namespaces(pod: Data) -> bool:
    affinity = (pod.get("spec") or {}).get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind) or {}
        terms = list(rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
        weighted = rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms.extend(each.get("podAffinityTerm") or {} for each in weighted)
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False


# -- services and claims ----------------------------------------------------------------------------------------------


class _Services(Evaluator):
    def __init__(self, group: str, plural: str) -> None:
        super().__init__(group, plural)
        self._names |= {"services", "services.loadbalancers", "services.nodeports"}

    def handles(self, operation: str, subresource: str, new: Data | None, old: Data | None) -> bool:  # noqa: ARG002  # every write may
        return operation in ("CREATE", "UPDATE") and not subresource

    def usage(self, found: Data, now: datetime) -> dict[str, Quantity]:  # noqa: ARG002  # a service has no end
        spec = found.get("spec") or {}
        ports = spec.get("ports") or []
        balanced = spec.get("type") == "LoadBalancer"
        if balanced and spec.get("allocateLoadBalancerNodePorts") is False:
            ports = [port for port in ports if port.get("nodePort")]
        taken = len(ports) if balanced or spec.get("type") == "NodePort" else 0
        return {
            "count/services": ONE,
            "services": ONE,
            "services.loadbalancers": ONE if balanced else ZERO,
            "services.nodeports": Quantity.of(taken),
        }


class _Claims(Evaluator):
    def __init__(self, group: str, plural: str) -> None:
        super().__init__(group, plural)
        self._names |= {"persistentvolumeclaims", "requests.storage"}

    def handles(self, operation: str, subresource: str, new: Data | None, old: Data | None) -> bool:  # noqa: ARG002  # every write may
        return operation in ("CREATE", "UPDATE") and subresource in ("", "status")

    def counts(self, name: str) -> bool:
        return name in self._names or name.endswith((f"{_CLASS}persistentvolumeclaims", f"{_CLASS}requests.storage"))

    def usage(self, found: Data, now: datetime) -> dict[str, Quantity]:  # noqa: ARG002  # a claim has no end
        used = {"count/persistentvolumeclaims": ONE, "persistentvolumeclaims": ONE}
        spec = found.get("spec") or {}
        annotations = (found.get("metadata") or {}).get("annotations") or {}
        storage_class = annotations.get(_LEGACY_CLASS, spec.get("storageClassName") or "")
        if storage_class:
            used[f"{storage_class}{_CLASS}persistentvolumeclaims"] = ONE
        requested = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
        if requested is None:
            return used
        allocated = ((found.get("status") or {}).get("allocatedResources") or {}).get("storage", requested)
        amount = max(Quantity.parse(requested), Quantity.parse(allocated)).rounded_up()
        used["requests.storage"] = amount
        if storage_class:
            used[f"{storage_class}{_CLASS}requests.storage"] = amount
        return used

    def in_scope(self, scope: Scope, found: Data) -> bool:
        if scope["scopeName"] != "VolumeAttributesClass":
            return False
        spec, status = found.get("spec") or {}, found.get("status") or {}
        target = (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName")
        names = {spec.get("volumeAttributesClassName"), status.get("currentVolumeAttributesClassName"), target}
        return any(_selected(scope, name) for name in sorted(name for name in names if name) or [""])


def total(parts: Iterable[Amounts]) -> dict[str, Quantity]:
    """Return the sum of several amounts."""
    whole: dict[str, Quantity] = {}
    for part in parts:
        whole = added(whole, part)
    return whole
