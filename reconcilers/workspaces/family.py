"""The family of workspaces as the daemon finds it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from konverge.families import Family, FamilyChart
from konverge.reconcilers.workspaces.settings import WorkspaceSettings

if TYPE_CHECKING:
    from konverge.crds import CustomResource
    from konverge.runtime import Manager

__all__ = ["FAMILY"]


def _kinds() -> tuple[type[CustomResource[Any, Any]], ...]:
    from konverge.crds.workspaces_v1alpha1 import WorkspaceClaim

    return (WorkspaceClaim,)


def _install(manager: Manager, settings: WorkspaceSettings) -> None:
    from konverge.reconcilers.workspaces.installation import install

    install(manager, settings)


FAMILY = Family(
    name="workspaces",
    summary="Workspaces of kcp by claims, with kubeconfigs that are renewed",
    settings=WorkspaceSettings,
    install=_install,
    kinds=_kinds,
    documentation="docs/guide/workspaces.md",
    cluster_wide=True,
    home="namespace",
    chart=FamilyChart(folder=Path(__file__).parent / "chart", namespaces="namespace"),
)
