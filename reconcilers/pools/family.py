"""The family of Nextcloud pools as the daemon finds it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from konverge.families import Family, FamilyChart
from konverge.reconcilers.pools.settings import PoolSettings

if TYPE_CHECKING:
    from konverge.crds import CustomResource
    from konverge.runtime import Manager

__all__ = ["FAMILY"]


def _kinds() -> tuple[type[CustomResource[Any, Any]], ...]:
    from konverge.crds import pools_v1alpha1 as kinds

    return (
        kinds.Nextcloud,
        kinds.NextcloudInstance,
        kinds.NextcloudPool,
        kinds.NextcloudProfile,
        kinds.NextcloudVersionMap,
    )


def _install(manager: Manager, settings: PoolSettings) -> None:
    from konverge.reconcilers.pools.installation import install

    install(manager, settings)


FAMILY = Family(
    name="pools",
    summary="Nextclouds that wait, ready, for a tenant",
    settings=PoolSettings,
    install=_install,
    kinds=_kinds,
    documentation="docs/guide/pools.md",
    cluster_wide=True,
    chart=FamilyChart(
        folder=Path(__file__).parent / "chart",
        namespaces="instance_namespace",
        options={"objectbucketclaims": {"instances": {"bucket_provider": "objectbucketclaim"}}},
        by_values=("namespaces",),
    ),
)
