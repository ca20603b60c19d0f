"""What is written: the ResourceQuota of a namespace, the status of a claim, the status of a pool.

Promises: pure. One function renders the status of a claim for both controllers that write it in turn, so that what one of them wrote and
no longer holds goes when the other takes over (docs/reference/capsule.md#one-writer). The time of a claim's condition moves with its type
and status, not with words. Amounts are written in the format of the pool's hard.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from konverge.conditions import Condition, marked, truth, write_conditions
from konverge.crds.quota_v1beta2 import (
    MAX_USED,
    Amounts,
    ClaimEntry,
    Exhaustion,
    ResourcePool,
    ResourcePoolStatus,
)
from konverge.crds.quota_v1beta2 import (
    Allocation as AllocationStatus,
)
from konverge.objects import Object
from konverge.reconcilers.quota.allocate import Allocation
from konverge.reconcilers.quota.amounts import show
from konverge.reconcilers.quota.forms import conditions_of
from konverge.reconcilers.quota.kinds import RESOURCE_QUOTA
from konverge.reconcilers.quota.seen import ClaimView, Place, PoolView
from konverge.reconcilers.quota.steps import defaults_of
from konverge.reconcilers.quota.verdicts import Verdict, too_many_claims
from konverge.reconcilers.quota.views import scopes_of
from konverge.reconcilers.quota.words import (
    Annotation,
    Label,
    Message,
    Reason,
    Semantics,
    Type,
    fit,
    join,
    overallocated,
    quota_name,
)
from konverge.runtime import ConditionUpdate

__all__ = ["claim_condition", "claim_status", "pool_marks", "pool_status", "resource_quota"]


def resource_quota(
    pool: ResourcePool, view: PoolView, namespace: str, hard: Mapping[str, int], claims: Collection[str] = ()
) -> Object:
    """Return the ResourceQuota of a namespace; `claims` are the marks of those that it grants."""
    return RESOURCE_QUOTA.new(
        quota_name(pool.name),
        namespace,
        labels={Label.POOL: pool.name},
        annotations={
            **({Annotation.CLAIMS: " ".join(sorted(claims))} if claims else {}),
            Annotation.DEFAULTS: json.dumps(_shown(defaults_of(view), view), separators=(",", ":")),
        },
        spec={"hard": _shown(hard, view), **scopes_of(pool)},
    )


def _shown(amounts: Mapping[str, int], pool: PoolView) -> Amounts:
    hard, defaults = pool.hard, pool.defaults
    return {
        resource: show(resource, amounts[resource], hard if resource in hard else defaults)
        for resource in sorted(amounts)
    }


def _most(used: Mapping[str, int], pool: PoolView) -> Mapping[str, int]:
    """Return as many amounts as the status has room for: those of the pool's hard are among them."""
    if len(used) <= MAX_USED:
        return used
    return {
        resource: used[resource] for resource in sorted(used, key=lambda name: (name not in pool.hard, name))[:MAX_USED]
    }


def claim_condition(claim: ClaimView, verdict: Verdict, now: datetime) -> Condition:
    """Return the one condition of a claim, in the form v0.12."""
    before = claim.condition if claim.semantics == Semantics.V012 else None
    same = (before,) if before is not None and before.type == verdict.type else ()
    (condition,) = marked(
        same, verdict.type, truth(verdict.status), verdict.reason, verdict.message, generation=claim.generation, now=now
    )
    return condition


def claim_status(
    claim: ClaimView, verdict: Verdict, place: Place, now: datetime, semantics: str = Semantics.V012
) -> dict[str, Any]:
    """Return the whole status of a claim, which stands in this place."""
    status: dict[str, Any] = {"observedGeneration": claim.generation}
    if semantics == Semantics.V014:
        status["semantics"] = semantics
        status["conditions"] = write_conditions(conditions_of(claim, verdict, now))
    else:
        (status["condition"],) = write_conditions([claim_condition(claim, verdict, now)])
        if claim.left_over:
            status["conditions"] = []  # the list is of one owner: this takes it over, and the next apply takes it out
    for field, (name, uid) in (("pool", place.pool), ("queue", place.queue)):
        if name:
            status[field] = {"name": name, "uid": uid}
    return status


def pool_status(view: PoolView, allocation: Allocation, namespaces: tuple[str, ...]) -> ResourcePoolStatus:
    """Return the status of a pool, conditions aside."""
    written: dict[tuple[tuple[str, int], ...], Amounts] = {}  # of thousands of claims many want the same

    def shown(amounts: Mapping[str, int]) -> Amounts:
        wanted = tuple(amounts.items())
        found = written.get(wanted)
        if found is None:
            found = written[wanted] = _shown(amounts, view)
        return found

    return ResourcePoolStatus(
        namespace_count=len(namespaces),
        claim_count=sum(len(entries) for entries in allocation.claims.values()),
        namespaces=namespaces,
        claims={
            namespace: tuple(
                # Not validated: there are thousands of them, made of what was read.
                ClaimEntry.model_construct(
                    name=entry.name, namespace=namespace, uid=entry.uid, claims=shown(entry.amounts)
                )
                for entry in entries
            )
            for namespace, entries in allocation.claims.items()
        },
        allocation=AllocationStatus(
            hard=_shown({resource: quantity.billionths for resource, quantity in view.hard.items()}, view),
            used=_shown(_most(allocation.used, view), view),
            available=_shown(allocation.available, view),
        ),
        exhaustions={
            resource: Exhaustion(
                available=show(resource, available, view.hard), requesting=show(resource, requesting, view.hard)
            )
            for resource, (available, requesting) in allocation.exhaustions.items()
        },
        releasing={namespace: _shown(amounts, view) for namespace, amounts in sorted(allocation.releasing.items())},
    )


def pool_marks(view: PoolView, allocation: Allocation, refused: Mapping[str, str]) -> tuple[ConditionUpdate, ...]:
    """Return the conditions of a pool; `refused` is what the API server said to ResourceQuotas, by namespace."""
    return (_ready(allocation, refused), _exhausted(view, allocation))


def _ready(allocation: Allocation, refused: Mapping[str, str]) -> ConditionUpdate:
    if refused:
        return ConditionUpdate(
            Type.READY,
            False,
            Reason.FAILED,
            fit(join(f"{namespace}: {refused[namespace]}" for namespace in sorted(refused))),
        )
    if allocation.crowded:
        listed = sum(len(entries) for entries in allocation.claims.values())
        return ConditionUpdate(Type.READY, False, Reason.TOO_MANY_CLAIMS, too_many_claims(listed))
    return ConditionUpdate(Type.READY, True, Reason.SUCCEEDED, Message.RECONCILED)


def _exhausted(view: PoolView, allocation: Allocation) -> ConditionUpdate:
    if allocation.over:
        parts = (
            overallocated(resource, show(resource, allocation.used[resource], view.hard), str(view.hard[resource]))
            for resource in sorted(allocation.over)
        )
        return ConditionUpdate(Type.EXHAUSTED, True, Reason.OVERALLOCATED, fit(join(parts)))
    if allocation.exhaustions:
        return ConditionUpdate(Type.EXHAUSTED, True, Reason.POOL_EXHAUSTED, Message.EXHAUSTIONS)
    return ConditionUpdate(Type.EXHAUSTED, False, Reason.NO_EXHAUSTIONS, Message.NO_EXHAUSTIONS)
