"""The rendered objects: the ResourceQuota of a namespace, the status of a claim, the status of a pool.

Guarantees: pure. One function renders the status of a claim for both of its writers, so that each writer removes the other's stale fields
(docs/reference/capsule.md#one-writer). lastTransitionTime of a claim's condition changes with type and status, not with the message.
Amounts have the format of the pool's hard.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any

from konverge.conditions import Condition, truth, with_condition, write_conditions
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
from konverge.reconcilers.quota.allocate import PoolAllocation
from konverge.reconcilers.quota.amounts import show
from konverge.reconcilers.quota.claim_conditions import claim_conditions
from konverge.reconcilers.quota.claim_decision import ClaimDecision, too_many_claims
from konverge.reconcilers.quota.decide import defaults_of
from konverge.reconcilers.quota.kinds import RESOURCE_QUOTA
from konverge.reconcilers.quota.observation import ClaimPlace, ClaimView, PoolView
from konverge.reconcilers.quota.parse import scopes_of
from konverge.reconcilers.quota.words import (
    Message,
    QuotaAnnotation,
    QuotaCondition,
    QuotaLabel,
    QuotaReason,
    Semantics,
    fit,
    join,
    overallocated,
    quota_name,
)
from konverge.runtime import ConditionUpdate

__all__ = ["claim_condition", "claim_status", "pool_conditions", "pool_status", "resource_quota"]


def resource_quota(
    pool: ResourcePool,
    view: PoolView,
    namespace: str,
    hard: Mapping[str, int],
    claims: Collection[str] = (),
    releasing: Mapping[str, int] = MappingProxyType({}),
    version: str = "",
) -> Object:
    """Return the ResourceQuota of a namespace; `claims` are the hashes of the claims that it grants, `version` the version to replace."""
    quota = RESOURCE_QUOTA.new(
        quota_name(pool.name),
        namespace,
        labels={QuotaLabel.POOL: pool.name},
        annotations={
            **({QuotaAnnotation.CLAIMS: " ".join(sorted(claims))} if claims else {}),
            QuotaAnnotation.DEFAULTS: _annotated(defaults_of(view), view),
            **({QuotaAnnotation.RELEASING: _annotated(releasing, view)} if releasing else {}),
        },
        spec={"hard": _formatted(hard, view), **scopes_of(pool)},
    )
    if version:
        quota.data["metadata"]["resourceVersion"] = version
    return quota


def _annotated(amounts: Mapping[str, int], pool: PoolView) -> str:
    return json.dumps(_formatted(amounts, pool), separators=(",", ":"))


def _formatted(amounts: Mapping[str, int], pool: PoolView) -> Amounts:
    hard, defaults = pool.hard, pool.defaults
    return {
        resource: show(resource, amounts[resource], hard if resource in hard else defaults)
        for resource in sorted(amounts)
    }


def _at_most(used: Mapping[str, int], pool: PoolView) -> Mapping[str, int]:
    """Return as many amounts as the schema of the status allows, the amounts in the pool's hard first."""
    if len(used) <= MAX_USED:
        return used
    return {
        resource: used[resource] for resource in sorted(used, key=lambda name: (name not in pool.hard, name))[:MAX_USED]
    }


def claim_condition(claim: ClaimView, decision: ClaimDecision, now: datetime) -> Condition:
    """Return the single condition of a claim, in the form v0.12."""
    before = claim.condition if claim.semantics == Semantics.V012 else None
    same = (before,) if before is not None and before.type == decision.type else ()
    (condition,) = with_condition(
        same,
        decision.type,
        truth(decision.status),
        decision.reason,
        decision.message,
        generation=claim.generation,
        now=now,
    )
    return condition


def claim_status(
    claim: ClaimView, decision: ClaimDecision, place: ClaimPlace, now: datetime, semantics: str = Semantics.V012
) -> dict[str, Any]:
    """Return the whole status of a claim in this place."""
    status: dict[str, Any] = {"observedGeneration": claim.generation}
    if semantics == Semantics.V014:
        status["semantics"] = semantics
        status["conditions"] = write_conditions(claim_conditions(claim, decision, now))
    else:
        (status["condition"],) = write_conditions([claim_condition(claim, decision, now)])
        if claim.has_stale_conditions:
            status["conditions"] = []  # the list is atomic: this apply takes it over, and the next apply removes it
    for field, (name, uid) in (("pool", place.pool), ("queue", place.queue)):
        if name:
            status[field] = {"name": name, "uid": uid}
    return status


def pool_status(view: PoolView, allocation: PoolAllocation, namespaces: tuple[str, ...]) -> ResourcePoolStatus:
    """Return the status of a pool, conditions aside."""
    written: dict[tuple[tuple[str, int], ...], Amounts] = {}  # among thousands of claims many request the same

    def formatted(amounts: Mapping[str, int]) -> Amounts:
        wanted = tuple(amounts.items())
        found = written.get(wanted)
        if found is None:
            found = written[wanted] = _formatted(amounts, view)
        return found

    return ResourcePoolStatus(
        namespace_count=len(namespaces),
        claim_count=sum(len(entries) for entries in allocation.claims.values()),
        namespaces=namespaces,
        claims={
            namespace: tuple(
                # Not validated: there are thousands of entries, built from parsed input.
                ClaimEntry.model_construct(
                    name=entry.name, namespace=namespace, uid=entry.uid, claims=formatted(entry.amounts)
                )
                for entry in entries
            )
            for namespace, entries in allocation.claims.items()
        },
        allocation=AllocationStatus(
            hard=_formatted({resource: quantity.billionths for resource, quantity in view.hard.items()}, view),
            used=_formatted(_at_most(allocation.used, view), view),
            available=_formatted(allocation.available, view),
        ),
        exhaustions={
            resource: Exhaustion(
                available=show(resource, available, view.hard), requesting=show(resource, requesting, view.hard)
            )
            for resource, (available, requesting) in allocation.exhaustions.items()
        },
        releasing={namespace: _formatted(amounts, view) for namespace, amounts in sorted(allocation.releasing.items())},
    )


def pool_conditions(
    view: PoolView, allocation: PoolAllocation, refused: Mapping[str, str]
) -> tuple[ConditionUpdate, ...]:
    """Return the conditions of a pool; `refused` maps a namespace to the API server's message about its ResourceQuota."""
    return (_ready(allocation, refused), _exhausted(view, allocation))


def _ready(allocation: PoolAllocation, refused: Mapping[str, str]) -> ConditionUpdate:
    if refused:
        return ConditionUpdate(
            QuotaCondition.READY,
            False,
            QuotaReason.FAILED,
            fit(join(f"{namespace}: {refused[namespace]}" for namespace in sorted(refused))),
        )
    if allocation.status_full:
        listed = sum(len(entries) for entries in allocation.claims.values())
        return ConditionUpdate(QuotaCondition.READY, False, QuotaReason.TOO_MANY_CLAIMS, too_many_claims(listed))
    return ConditionUpdate(QuotaCondition.READY, True, QuotaReason.SUCCEEDED, Message.RECONCILED)


def _exhausted(view: PoolView, allocation: PoolAllocation) -> ConditionUpdate:
    if allocation.excess:
        parts = (
            overallocated(
                resource,
                show(resource, allocation.used[resource], view.hard),
                show(resource, view.hard[resource].billionths, view.hard),
            )
            for resource in sorted(allocation.excess)
        )
        return ConditionUpdate(QuotaCondition.EXHAUSTED, True, QuotaReason.OVERALLOCATED, fit(join(parts)))
    if allocation.exhaustions:
        return ConditionUpdate(QuotaCondition.EXHAUSTED, True, QuotaReason.POOL_EXHAUSTED, Message.EXHAUSTIONS)
    return ConditionUpdate(QuotaCondition.EXHAUSTED, False, QuotaReason.NO_EXHAUSTIONS, Message.NO_EXHAUSTIONS)
