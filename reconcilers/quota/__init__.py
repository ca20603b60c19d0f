"""The quota family: ResourcePools hand out what their ResourcePoolClaims ask for, as one ResourceQuota per namespace.

A drop-in for Capsule's resource pools (`capsule.clastix.io/v1beta2`). Behaviour and decisions: docs/reference/capsule.md.
"""

from __future__ import annotations

from konverge.reconcilers.quota.install import controllers, definitions, install, rules, tenant_role
from konverge.reconcilers.quota.settings import QuotaSettings

__all__ = ["QuotaSettings", "controllers", "definitions", "install", "rules", "tenant_role"]
