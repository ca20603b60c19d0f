"""The quota family: a ResourcePool allocates the requests of its ResourcePoolClaims, as one ResourceQuota per namespace.

A drop-in for Capsule's resource pools (`capsule.clastix.io/v1beta2`). Behaviour and decisions: docs/reference/capsule.md.

    pools/      the claims that a pool allocates, and its ResourceQuotas: observe, allocate, decide, act, reconciler
    claims/     claims without a responsible pool, the queues of pools, and the status of every claim: observe, decide, queue, reconciler
    views.py    pools, claims and ResourceQuotas as frozen views; parse.py reads them from stored objects, view_cache.py caches them
    predicates.py, wake_index.py      which events trigger a reconcile
    admission.py, admission_guard.py  the webhooks
    migrate.py  pools and claims from the quotas of Capsule's Tenants
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from konverge.lazy import at_first_use

if TYPE_CHECKING:
    from konverge.reconcilers.quota.installation import controllers, definitions, install, rules, tenant_role
    from konverge.reconcilers.quota.settings import Settings

__all__ = ["Settings", "controllers", "definitions", "install", "rules", "tenant_role"]

__getattr__ = at_first_use(
    __name__,
    {"installation": ("controllers", "definitions", "install", "rules", "tenant_role"), "settings": ("Settings",)},
)
