"""The rendered objects of a pool: the ResourceQuota of a namespace, the status and the conditions of the pool.

Guarantees: pure. Amounts have the format of the pool's hard.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Generator, Mapping
from types import MappingProxyType
from typing import Any

from konverge.crds.quota_v1beta2 import (
    MAX_USED,
    Amounts,
    ClaimList,
    Exhaustion,
    ResourcePool,
    ResourcePoolStatus,
)
from konverge.crds.quota_v1beta2 import (
    Allocation as AllocationStatus,
)
from konverge.objects import Object
from konverge.reconcilers.quota.amounts import show
from konverge.reconcilers.quota.claims.decision import too_many_claims
from konverge.reconcilers.quota.kinds import RESOURCE_QUOTA
from konverge.reconcilers.quota.parse import scopes_of
from konverge.reconcilers.quota.pools.allocate import PoolAllocation
from konverge.reconcilers.quota.pools.concurrency import finished
from konverge.reconcilers.quota.pools.ledger import SLICE, PoolLedger, RenderedClaims
from konverge.reconcilers.quota.views import AllocatedClaim, PoolView
from konverge.reconcilers.quota.words import (
    Message,
    QuotaAnnotation,
    QuotaCondition,
    QuotaLabel,
    QuotaReason,
    fit,
    join,
    overallocated,
    quota_name,
)
from konverge.runtime import ConditionUpdate

__all__ = ["defaults_of", "pool_conditions", "pool_status", "render_steps", "resource_quota"]


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


def defaults_of(pool: PoolView) -> dict[str, int]:
    """Return the defaults that a ResourceQuota contains for the pool's resources."""
    defaults = {resource: pool.default(resource) or 0 for resource in sorted(pool.hard)}
    return {resource: amount for resource, amount in defaults.items() if amount}


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


def pool_status(
    view: PoolView, allocation: PoolAllocation, namespaces: tuple[str, ...], ledger: PoolLedger | None = None
) -> ResourcePoolStatus:
    """Return the status of a pool, conditions aside; a ledger keeps the rendered claims of each namespace."""
    rendered = {} if ledger is None else ledger.rendered
    return ResourcePoolStatus(
        namespace_count=len(namespaces),
        claim_count=allocation.listed,
        namespaces=namespaces,
        claims=ClaimList(finished(render_steps(view, allocation, rendered))),
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


def render_steps(
    view: PoolView, allocation: PoolAllocation, rendered: RenderedClaims
) -> Generator[None, None, dict[str, list[Any]]]:
    """Return the list of claims by namespace, rendered again where the entries changed since `rendered`; yields between slices."""
    changed = [
        (namespace, entries)
        for namespace, entries in allocation.claims.items()
        if (known := rendered.get(namespace)) is None or known[0] is not entries
    ]
    for number, (namespace, entries) in enumerate(changed):
        if number and number % SLICE == 0:
            yield
        rendered[namespace] = (entries, [_entry(namespace, entry, view) for entry in entries])
    for namespace in rendered.keys() - allocation.claims.keys():
        del rendered[namespace]
    return {namespace: rendered[namespace][1] for namespace in allocation.claims}


def _entry(namespace: str, entry: AllocatedClaim, view: PoolView) -> dict[str, Any]:
    """Return a claim as the API server stores it, its keys sorted."""
    return {"claims": _formatted(entry.amounts, view), "name": entry.name, "namespace": namespace, "uid": entry.uid}


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
        return ConditionUpdate(
            QuotaCondition.READY, False, QuotaReason.TOO_MANY_CLAIMS, too_many_claims(allocation.listed)
        )
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
