"""The family of workspaces as the daemon finds it."""

from __future__ import annotations

from pathlib import Path

from konverge.crds.workspaces_v1alpha1 import WorkspaceClaim
from konverge.families import Family, FamilyChart
from konverge.reconcilers.workspaces.install import install
from konverge.reconcilers.workspaces.settings import WorkspaceSettings

__all__ = ["FAMILY"]

FAMILY = Family(
    name="workspaces",
    summary="Workspaces of kcp by claims, with kubeconfigs that are renewed",
    settings=WorkspaceSettings,
    install=install,
    kinds=(WorkspaceClaim,),
    documentation="docs/guide/workspaces.md",
    cluster_wide=True,
    home="namespace",
    chart=FamilyChart(folder=Path(__file__).parent / "chart", namespaces="namespace"),
)
