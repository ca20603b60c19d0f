"""The family of Nextcloud pools as the daemon finds it."""

from __future__ import annotations

from pathlib import Path

from konverge.crds.pools_v1alpha1 import (
    Nextcloud,
    NextcloudInstance,
    NextcloudPool,
    NextcloudProfile,
    NextcloudVersionMap,
)
from konverge.families import Family, FamilyChart
from konverge.reconcilers.pools.install import install
from konverge.reconcilers.pools.settings import PoolSettings

__all__ = ["FAMILY"]

FAMILY = Family(
    name="pools",
    summary="Nextclouds that wait, ready, for a tenant",
    settings=PoolSettings,
    install=install,
    kinds=(Nextcloud, NextcloudInstance, NextcloudPool, NextcloudProfile, NextcloudVersionMap),
    documentation="docs/guide/pools.md",
    cluster_wide=True,
    chart=FamilyChart(
        folder=Path(__file__).parent / "chart",
        namespaces="instance_namespace",
        options={"objectbucketclaims": {"instances": {"bucket_provider": "objectbucketclaim"}}},
        by_values=("namespaces",),
    ),
)
