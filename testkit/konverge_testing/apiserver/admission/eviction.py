"""Eviction: whether a pod may be evicted under its PodDisruptionBudgets, and the writes of an eviction.

Guarantees: pure. The registry applies the decision: it writes the budget's status, puts the condition DisruptionTarget on the pod
(neither in a dry run) and deletes the pod with the eviction's deleteOptions. The rules are those of Kubernetes'
`pkg/registry/core/pod/storage/eviction.go`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeAlias

from konverge.clock import rfc3339
from konverge_testing.apiserver.auth.rules import selects
from konverge_testing.apiserver.statuses import StatusError, forbidden, too_many_requests

__all__ = ["EvictionDecision", "disruption_target", "evict"]

Data: TypeAlias = dict[str, Any]

_MOST_DISRUPTED: Final = 2000
_ALLOWED: Final = "DisruptionAllowed"
_REFUSED: Final = "Cannot evict pod as it would violate the pod's disruption budget."


@dataclass(frozen=True, slots=True)
class EvictionDecision:
    """The decision about an eviction."""

    refused: StatusError | None = None
    """The error that is returned instead of an eviction."""
    budget: str = ""
    """The name of the budget whose `status` must be written, or ""."""
    status: Data | None = None
    unchanged_only: bool = False
    """Whether the pod may be deleted only at the version of this decision (409 otherwise)."""


def evict(pod: Data, budgets: Sequence[Data], now: datetime) -> EvictionDecision:
    """Decide on the eviction of a pod by the budgets of its namespace."""
    status, metadata = pod.get("status") or {}, pod["metadata"]
    if status.get("phase") in ("Failed", "Pending", "Succeeded") or metadata.get("deletionTimestamp"):
        ended = status.get("phase") in ("Failed", "Succeeded") or bool(metadata.get("deletionTimestamp"))
        return EvictionDecision(unchanged_only=not ended)
    concerned = [budget for budget in budgets if _selects(budget, metadata.get("labels") or {})]
    if not concerned:
        return EvictionDecision()
    if len(concerned) > 1:
        words = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        return EvictionDecision(refused=StatusError(500, "", words))
    return _under(pod, concerned[0], now)


def disruption_target(now: datetime) -> Data:
    """Return the condition that an evicted pod gets before it is deleted."""
    return {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": rfc3339(now),
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }


def _selects(budget: Data, labels: Data) -> bool:
    selector = (budget.get("spec") or {}).get("selector")
    return selector is not None and selects(selector, labels)


def _under(pod: Data, budget: Data, now: datetime) -> EvictionDecision:
    status = budget.get("status") or {}
    healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    if not _is_ready(pod):
        policy = (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy")
        if policy == "AlwaysAllow" or healthy >= desired > 0:
            return EvictionDecision(unchanged_only=True)
    name = budget["metadata"]["name"]
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        words = f"The disruption budget {name} is still being processed by the server."
        return EvictionDecision(refused=_too_many(words, retry_after=10))
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 0:
        return EvictionDecision(
            refused=forbidden("policy", "poddisruptionbudget", name, "pdb disruptions allowed is negative")
        )
    if len(status.get("disruptedPods") or {}) > _MOST_DISRUPTED:
        words = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        return EvictionDecision(refused=forbidden("policy", "poddisruptionbudget", name, words))
    if allowed == 0:
        return EvictionDecision(refused=_too_many(_why_none(name, status, healthy, desired), retry_after=0))
    disrupted = {**(status.get("disruptedPods") or {}), pod["metadata"]["name"]: rfc3339(now)}
    after = {**status, "disruptionsAllowed": allowed - 1, "disruptedPods": disrupted}
    if allowed == 1:
        after["conditions"] = _none_left(budget, now)
    return EvictionDecision(budget=name, status=after)


def _is_ready(pod: Data) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def _why_none(name: str, status: Data, healthy: int, desired: int) -> str:
    found = next((each for each in status.get("conditions") or () if each["type"] == _ALLOWED), None)
    said = found if found is not None and found["status"] == "False" and found.get("message") else None
    if said is not None and said.get("reason") == "SyncFailed":
        return f"The disruption budget {name} does not allow evicting pods currently because it failed sync: {said['message']}"
    if healthy <= desired:
        return f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
    if said is not None:
        return f"The disruption budget {name} does not allow evicting pods currently ({said.get('reason', '')}): {said['message']}"
    return f"The disruption budget {name} does not allow evicting pods currently"


def _too_many(words: str, retry_after: int) -> StatusError:
    error = too_many_requests(_REFUSED, retry_after)
    cause = {"reason": "DisruptionBudget", "message": words}
    error.details = {**(error.details or {}), "causes": [cause]}
    return error


def _none_left(budget: Data, now: datetime) -> list[Data]:
    """Return the conditions after the last allowed disruption is used up."""
    conditions = [dict(each) for each in (budget.get("status") or {}).get("conditions") or ()]
    new = {
        "type": _ALLOWED,
        "status": "False",
        "observedGeneration": (budget.get("status") or {}).get("observedGeneration", 0),
        "lastTransitionTime": rfc3339(now),
        "reason": "InsufficientPods",
        "message": "",
    }
    for index, each in enumerate(conditions):
        if each["type"] == _ALLOWED:
            kept = each["status"] == "False"
            conditions[index] = {**new, "lastTransitionTime": each["lastTransitionTime"]} if kept else new
            return conditions
    return [*conditions, new]
