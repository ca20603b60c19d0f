"""ResourceQuota: whether a write fits, what it uses up, and the total usage.

Guarantees: pure. `charge` raises the server's 403, or returns the statuses that must be written in the same step as the object, so that two
writes cannot spend the same remainder. `recalculate` returns the controller's status. The rules are those of k8s.io/apiserver
`pkg/admission/plugin/resourcequota/controller.go` and `pkg/quota/v1/resources.go`, and of Kubernetes' `pkg/controller/resourcequota`.

Caveats: without limited resources of a configuration file (resources that some quota must cover).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from konverge.quantities import (
    ZERO,
    Amounts,
    Quantity,
    added,
    beyond,
    equal,
    masked,
    non_zero,
    read,
    subtracted,
    written,
)
from konverge_testing.apiserver.admission.call import AdmissionCall, Data, denied
from konverge_testing.apiserver.admission.usage import Evaluator, evaluator_for, evaluators_for, total
from konverge_testing.apiserver.objects import Objects

__all__ = ["IGNORED", "QUOTAS", "QuotaUpdate", "charge", "recalculate"]

QUOTAS: Final = ("", "resourcequotas")
IGNORED: Final = frozenset(
    {
        ("", "bindings"),
        ("", "componentstatuses"),
        ("", "events"),
        ("authentication.k8s.io", "selfsubjectreviews"),
        ("authentication.k8s.io", "tokenreviews"),
        ("authorization.k8s.io", "localsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
        ("events.k8s.io", "events"),
    }
)
"""Resources that are never counted."""


@dataclass(frozen=True, slots=True)
class QuotaUpdate:
    """The new status of a quota; the rest of the quota stays."""

    namespace: str
    name: str
    status: Data


def charge(call: AdmissionCall, quotas: Sequence[Data], now: datetime) -> list[QuotaUpdate]:
    """Return how a write changes the quotas; raises 403 if a quota is exceeded. A dry run is checked and changes nothing."""
    if not call.namespace or call.id in IGNORED or call.id == ("", "namespaces") or call.object is None:
        return []
    evaluator = evaluator_for(*call.id)
    if not evaluator.handles(call.operation, call.subresource, call.object, call.old):
        return []
    concerned = [quota for quota in quotas if _concerns(call, quota, evaluator)]
    if not concerned:
        return []
    usage = evaluator.usage(call.object, now)
    before = evaluator.usage(call.old, now) if call.operation == "UPDATE" and call.old is not None else None
    updates = []
    for quota in concerned:
        delta: Amounts = usage
        if before is not None and call.old is not None and evaluator.in_scopes(quota, call.old):
            delta = subtracted(usage, before)
        if (update := _charged(call, quota, non_zero(delta))) is not None:
            updates.append(update)
    return [] if call.dry_run else updates


def _concerns(call: AdmissionCall, quota: Data, evaluator: Evaluator) -> bool:
    status, name = quota.get("status") or {}, quota["metadata"]["name"]
    counted = evaluator.matching(status.get("hard") or ())
    if call.object is None or not counted or not evaluator.in_scopes(quota, call.object):
        return False
    if lacking := evaluator.demand(counted, call.object):
        raise denied(call, f"failed quota: {name}: {lacking}")
    if not all(resource in (status.get("used") or {}) for resource in counted):
        raise denied(call, f"status unknown for quota: {name}, resources: {','.join(counted)}")
    return True


def _charged(call: AdmissionCall, quota: Data, delta: Amounts) -> QuotaUpdate | None:
    status, metadata = quota["status"], quota["metadata"]
    hard, used = read(status["hard"]), read(status["used"])
    requested = masked(delta, hard)
    after = added(used, requested)
    over = beyond(masked(after, requested), hard) if call.subresource != "status" else []
    if over:
        parts = {"requested": requested, "used": used, "limited": hard}
        shown = ", ".join(f"{title}: {_formatted(masked(amounts, over))}" for title, amounts in parts.items())
        raise denied(call, f"exceeded quota: {metadata['name']}, {shown}")
    if equal(used, after):
        return None
    return QuotaUpdate(metadata["namespace"], metadata["name"], {**status, "used": written(after)})


def _formatted(amounts: Amounts) -> str:
    return ",".join(f"{name}={amounts[name]}" for name in sorted(amounts))


def recalculate(quota: Data, objects: Objects, now: datetime) -> Data:
    """Return the status of a quota as the controller computes it from the stored objects."""
    namespace = quota["metadata"]["namespace"]
    hard = read((quota.get("spec") or {}).get("hard"))
    used = read((quota.get("status") or {}).get("used"))
    for evaluator in evaluators_for(hard):
        names = evaluator.matching(hard)
        found = objects.list(evaluator.id, namespace)
        amounts = total(evaluator.usage(each, now) for each in found if evaluator.in_scopes(quota, each))
        zeros: dict[str, Quantity] = dict.fromkeys(names, ZERO)
        used |= masked(added(zeros, amounts), names)
    return {"hard": written(hard), "used": written(masked(used, hard))}
