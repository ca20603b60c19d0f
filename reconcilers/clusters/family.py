"""The family of pull mode as the daemon finds it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from konverge.families import Family, FamilyChart
from konverge.reconcilers.clusters.settings import Settings

if TYPE_CHECKING:
    from konverge.crds import CustomResource
    from konverge.runtime import Manager

__all__ = ["FAMILY"]


def _kinds() -> tuple[type[CustomResource[Any, Any]], ...]:
    from konverge.crds.ops_v1alpha1 import Cluster

    return (Cluster,)


def _install(manager: Manager, settings: Settings) -> None:
    from konverge.reconcilers.clusters.installation import install

    install(manager, settings)


FAMILY = Family(
    name="clusters",
    summary="Pull mode: an agent fetches jobs from a control plane",
    settings=Settings,
    install=_install,
    kinds=_kinds,
    documentation="docs/guide/pull-mode.md",
    cluster_wide=True,
    home="namespace",
    chart=FamilyChart(folder=Path(__file__).parent / "chart"),
)
