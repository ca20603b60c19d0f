"""The family of pull mode as the daemon finds it."""

from __future__ import annotations

from pathlib import Path

from konverge.crds.ops_v1alpha1 import Cluster
from konverge.families import Family, FamilyChart
from konverge.reconcilers.clusters.install import install
from konverge.reconcilers.clusters.settings import Settings

__all__ = ["FAMILY"]

FAMILY = Family(
    name="clusters",
    summary="Pull mode: an agent fetches jobs from a control plane",
    settings=Settings,
    install=install,
    kinds=(Cluster,),
    documentation="docs/guide/pull-mode.md",
    cluster_wide=True,
    home="namespace",
    chart=FamilyChart(folder=Path(__file__).parent / "chart"),
)
