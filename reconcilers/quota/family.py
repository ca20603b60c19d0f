"""The quota family as the daemon finds it."""

from __future__ import annotations

from pathlib import Path

from konverge.crds.quota_v1beta2 import ResourcePool, ResourcePoolClaim
from konverge.families import Family, FamilyChart
from konverge.reconcilers.quota.install import definitions, install
from konverge.reconcilers.quota.settings import Settings

__all__ = ["FAMILY"]

FAMILY = Family(
    name="quota",
    summary="Quotas that namespaces share",
    settings=Settings,
    install=install,
    kinds=(ResourcePool, ResourcePoolClaim),
    documentation="docs/guide/quota.md",
    cluster_wide=True,
    definitions=definitions,
    chart=FamilyChart(folder=Path(__file__).parent / "chart"),
)
