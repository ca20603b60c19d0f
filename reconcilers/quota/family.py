"""The quota family as the daemon finds it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from konverge.families import Family, FamilyChart
from konverge.reconcilers.quota.settings import Settings

if TYPE_CHECKING:
    from konverge.crds import CustomResource
    from konverge.runtime import Manager

__all__ = ["FAMILY"]


def _kinds() -> tuple[type[CustomResource[Any, Any]], ...]:
    from konverge.crds.quota_v1beta2 import ResourcePool, ResourcePoolClaim

    return (ResourcePool, ResourcePoolClaim)


def _install(manager: Manager, settings: Settings) -> None:
    from konverge.reconcilers.quota.installation import install

    install(manager, settings)


def _definitions(manifests: Iterable[Mapping[str, Any]], settings: Settings) -> list[dict[str, Any]]:
    from konverge.reconcilers.quota.installation import definitions

    return definitions(manifests, settings)


FAMILY = Family(
    name="quota",
    summary="Quotas that namespaces share",
    settings=Settings,
    install=_install,
    kinds=_kinds,
    documentation="docs/guide/quota.md",
    cluster_wide=True,
    definitions=_definitions,
    chart=FamilyChart(folder=Path(__file__).parent / "chart"),
)
