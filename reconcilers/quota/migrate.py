"""From a Capsule tenant's ResourceQuotas to pools and claims: pure.

    read_tenant   the Tenant, its namespaces, their ResourceQuotas -> TenantState
    plan          TenantState, headroom -> pools, claims, notes

Guarantees: one pool for each item of `spec.resourceQuotas`, with the item's `hard` and scopes, for the namespaces with the tenant's label,
in the form that Capsule's page calls most compatible (defaultsZero); if the item counts for each namespace, `hard` times their number. One
claim for each pool and namespace: its present use plus the headroom. If the claims of a pool would not fit with the headroom, it shrinks,
with a note. The same input gives the same objects, in the same order.

Caveats: the use may exceed `hard`, since Capsule's quotas can be overrun. Then the last claims wait, with a note.

Source: docs/reference/capsule.md#the-page-of-capsule, its section about migration.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from konverge import quantities
from konverge.crds.quota_v1beta2 import (
    MAX_POOL_NAME,
    LabelSelector,
    PoolConfig,
    PoolQuota,
    ResourcePool,
    ResourcePoolClaim,
    ResourcePoolClaimSpec,
    ResourcePoolSpec,
    ScopeSelector,
)
from konverge.errors import KonvergeError
from konverge.quantities import Amounts
from konverge.reconcilers.quota.amounts import written
from konverge.reconcilers.quota.migrate_amounts import Shares, class_of, shared_out
from konverge.reconcilers.quota.words import Capsule

__all__ = ["Migration", "TenantQuota", "TenantState", "plan", "read_tenant"]

_NO_NAME = re.compile(r"[^a-z0-9.-]+")


@dataclass(frozen=True, slots=True)
class TenantQuota:
    """One item of a tenant's `spec.resourceQuotas`, and its use by namespace; None if the ResourceQuota is missing."""

    hard: Amounts
    scopes: tuple[str, ...]
    scope_selector: Mapping[str, Any] | None
    used: Mapping[str, Amounts | None]


@dataclass(frozen=True, slots=True)
class TenantState:
    """The present state of a tenant."""

    tenant: str
    scope: str
    namespaces: tuple[str, ...]
    """The namespaces with the tenant's label, sorted: the pools will select them."""
    strays: tuple[str, ...]
    """The namespaces that the tenant lists and that lack its label."""
    items: tuple[TenantQuota, ...]


@dataclass(frozen=True, slots=True)
class Migration:
    """The objects to apply, and notes for the operator."""

    pools: tuple[ResourcePool, ...]
    claims: tuple[ResourcePoolClaim, ...]
    notes: tuple[str, ...]


def read_tenant(
    tenant: Mapping[str, Any], namespaces: Iterable[str], quotas: Iterable[Mapping[str, Any]]
) -> TenantState:
    """Read a Tenant, the namespaces with its label, and ResourceQuotas; only the ResourceQuotas that Capsule created for it count.

    Errors: KonvergeError if there is nothing to migrate, or if a ResourceQuota has no status.used yet.
    """
    name = str(tenant["metadata"]["name"])
    asked = (tenant.get("spec") or {}).get("resourceQuotas") or {}
    items = asked.get("items") or []
    if not items:
        raise KonvergeError(f"Tenant {name} has no spec.resourceQuotas.items: there is nothing to migrate")
    labelled = tuple(sorted(namespaces))
    listed = (tenant.get("status") or {}).get("namespaces") or []
    by_name = {(quota["metadata"]["namespace"], quota["metadata"]["name"]): quota for quota in quotas}
    return TenantState(
        tenant=name,
        scope=str(asked.get("scope") or Capsule.SCOPE_TENANT),
        namespaces=labelled,
        strays=tuple(sorted(set(listed) - set(labelled))),
        items=tuple(_item(name, index, item, labelled, by_name) for index, item in enumerate(items)),
    )


def _item(
    tenant: str,
    index: int,
    item: Mapping[str, Any],
    namespaces: Iterable[str],
    quotas: Mapping[tuple[str, str], Mapping[str, Any]],
) -> TenantQuota:
    name = f"{Capsule.QUOTA_PREFIX}{tenant}-{index}"
    used = {
        namespace: _used(namespace, quotas[namespace, name]) if (namespace, name) in quotas else None
        for namespace in namespaces
    }
    return TenantQuota(
        hard=_amounts(f"Tenant {tenant}: spec.resourceQuotas.items[{index}].hard", item.get("hard")),
        scopes=tuple(item.get("scopes") or ()),
        scope_selector=item.get("scopeSelector"),
        used=used,
    )


def _used(namespace: str, quota: Mapping[str, Any]) -> Amounts:
    what = f"ResourceQuota {namespace}/{quota['metadata']['name']}"
    used = (quota.get("status") or {}).get("used")
    if used is None:
        raise KonvergeError(
            f"{what} does not say yet what is used (status.used); wait until kube-controller-manager has counted, then try again"
        )
    return _amounts(f"{what}: status.used", used)


def _amounts(what: str, values: Mapping[str, Any] | None) -> Amounts:
    try:
        return quantities.read(values)
    except ValueError as error:
        raise KonvergeError(f"{what}: {error}") from None


def plan(tenant: TenantState, *, headroom: Fraction = Fraction(0), prefix: str = "") -> Migration:
    """Return pools and claims; `headroom` is relative to the use (1/10 for ten percent), `prefix` begins the names of the pools.

    Errors: KonvergeError if the name of a pool would be too long.
    """
    if tenant.scope == Capsule.SCOPE_NAMESPACE and not tenant.namespaces:
        raise KonvergeError(
            f"Tenant {tenant.tenant} grants each namespace its own quota (scope Namespace) and has no namespace: such a pool "
            "would grant nothing; give the Tenant a namespace first"
        )
    pools: list[ResourcePool] = []
    claims: list[ResourcePoolClaim] = []
    notes = [
        f"namespace {namespace} is listed by the tenant and does not bear the label {Capsule.TENANT_LABEL}={tenant.tenant}: no pool "
        "selects it"
        for namespace in tenant.strays
    ]
    for index, (item, suffix) in enumerate(zip(tenant.items, _suffixes(tenant.items), strict=True)):
        name = f"{prefix or tenant.tenant}-{suffix}"
        _check_name(name)
        pool = _pool(name, tenant, item)
        shares = shared_out(quantities.read(pool.spec.quota.hard), _uses(item), headroom)
        pools.append(pool)
        claims += _claims(name, _claim_name(item, suffix), shares)
        notes += [f"pool {name}: {note}" for note in shares.notes]
        notes += [
            f"namespace {namespace} uses nothing of it: nothing is claimed for it from pool {name}, and without a claim it can use nothing"
            for namespace, used in item.used.items()
            if used is not None and not shares.amounts[namespace]
        ]
        notes += [
            f"namespace {namespace} has no ResourceQuota {Capsule.QUOTA_PREFIX}{tenant.tenant}-{index}: nothing is claimed for it "
            f"from pool {name}"
            for namespace, used in item.used.items()
            if used is None
        ]
    return Migration(tuple(pools), tuple(sorted(_named_apart(claims), key=_place)), tuple(notes))


def _uses(item: TenantQuota) -> dict[str, Amounts]:
    return {namespace: quantities.masked(used, item.hard) for namespace, used in item.used.items() if used is not None}


def _suffixes(items: Iterable[TenantQuota]) -> list[str]:
    """Return the suffix of each item's pool name: the class of its resources, or with its index if that is ambiguous."""
    suffixes: list[str] = []
    for index, item in enumerate(items):
        suffix = class_of(item.hard)
        suffixes.append(suffix if suffix and suffix not in suffixes else f"{suffix or 'quota'}-{index}")
    return suffixes


def _check_name(name: str) -> None:
    if len(name) > MAX_POOL_NAME:
        raise KonvergeError(
            f"the pool {name} would have a name of {len(name)} characters, and {MAX_POOL_NAME} are allowed; choose a short beginning "
            "with --prefix"
        )


def _pool(name: str, tenant: TenantState, item: TenantQuota) -> ResourcePool:
    times = len(tenant.namespaces) if tenant.scope == Capsule.SCOPE_NAMESPACE else 1
    hard = {
        resource: amount if times == 1 else quantities.Quantity(amount.billionths * times, amount.format)
        for resource, amount in item.hard.items()
    }
    quota = PoolQuota(hard={**written(hard)})
    if item.scopes:
        quota.scopes = item.scopes
    if item.scope_selector:
        quota.scope_selector = ScopeSelector.model_validate(item.scope_selector)
    spec = ResourcePoolSpec(
        config=PoolConfig(defaults_zero=True),
        selectors=(LabelSelector(match_labels={Capsule.TENANT_LABEL: tenant.tenant}),),
        quota=quota,
    )
    return ResourcePool.new(name, spec=spec)


def _claim_name(item: TenantQuota, suffix: str) -> str:
    """Return the name of an item's claims: the resource if there is only one, otherwise the suffix of its pool."""
    if len(item.hard) != 1:
        return suffix
    [resource] = item.hard
    return _NO_NAME.sub("-", resource.lower()).strip("-.")


def _claims(pool: str, name: str, shares: Shares) -> list[ResourcePoolClaim]:
    return [
        ResourcePoolClaim.new(name, namespace, spec=ResourcePoolClaimSpec(pool=pool, claim={**written(amounts)}))
        for namespace, amounts in shares.amounts.items()
        if amounts
    ]


def _named_apart(claims: Iterable[ResourcePoolClaim]) -> list[ResourcePoolClaim]:
    """Prefix the name of the pool to claims of the same name and namespace."""
    taken: set[tuple[str, str]] = set()
    renamed = []
    for claim in claims:
        doubled = _place(claim) in taken
        name = f"{claim.spec.pool}-{claim.name}" if doubled else claim.name
        renamed.append(ResourcePoolClaim.new(name, claim.namespace, spec=claim.spec) if doubled else claim)
        taken.add((claim.namespace, name))
    return renamed


def _place(claim: ResourcePoolClaim) -> tuple[str, str]:
    return claim.namespace, claim.name
