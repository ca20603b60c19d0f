"""The kinds that the quota family reads and writes; its own two kinds are untyped objects, which are cheaper to read by the thousand."""

from __future__ import annotations

from typing import Final

from konverge.crds.quota_v1beta2 import GROUP
from konverge.kinds import kind

__all__ = ["CLAIM", "LEASE", "MUTATING", "NAMESPACE", "POOL", "RESOURCE_QUOTA", "VALIDATING"]

POOL: Final = kind(f"{GROUP}/v1beta2", "ResourcePool", namespaced=False, plural="resourcepools")
CLAIM: Final = kind(f"{GROUP}/v1beta2", "ResourcePoolClaim", namespaced=True, plural="resourcepoolclaims")
RESOURCE_QUOTA: Final = kind("v1", "ResourceQuota", namespaced=True, plural="resourcequotas")
NAMESPACE: Final = kind("v1", "Namespace", namespaced=False, plural="namespaces")
LEASE: Final = kind("coordination.k8s.io/v1", "Lease", namespaced=True, plural="leases")
MUTATING: Final = kind(
    "admissionregistration.k8s.io/v1",
    "MutatingWebhookConfiguration",
    namespaced=False,
    plural="mutatingwebhookconfigurations",
)
VALIDATING: Final = kind(
    "admissionregistration.k8s.io/v1",
    "ValidatingWebhookConfiguration",
    namespaced=False,
    plural="validatingwebhookconfigurations",
)
