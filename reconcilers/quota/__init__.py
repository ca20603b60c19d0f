"""The quota family: a ResourcePool allocates the requests of its ResourcePoolClaims, as one ResourceQuota per namespace.

A drop-in for Capsule's resource pools (`capsule.clastix.io/v1beta2`). Behaviour and decisions: docs/reference/capsule.md.

    observe.py          reads the caches into a frozen PoolObservation (observation.py; parse.py reads single objects)
    allocate.py         which claims are allocated; queue_order.py: their order; release.py: when capacity is free again
    assign.py           which pool a claim gets if it names none
    decide.py           the writes of a pool's reconcile, and the decision about a claim without a responsible pool
    render.py           the ResourceQuota, the status of a pool, the status of a claim
    pool_reconciler.py, claim_reconciler.py   the two reconcilers; pool_writer.py sends the writes of the first
    predicates.py, wake_index.py              which events trigger a reconcile
"""

from __future__ import annotations

from konverge.reconcilers.quota.install import controllers, definitions, install, rules, tenant_role
from konverge.reconcilers.quota.settings import Settings

__all__ = ["Settings", "controllers", "definitions", "install", "rules", "tenant_role"]
