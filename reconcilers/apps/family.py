"""The apps family as the daemon finds it."""

from __future__ import annotations

from pathlib import Path

from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.crds.ops_v1alpha1 import Operation
from konverge.families import Family, FamilyChart
from konverge.reconcilers.apps.install import install
from konverge.reconcilers.apps.settings import Settings

__all__ = ["FAMILY"]

FAMILY = Family(
    name="apps",
    summary="Applications that Flux installs, and Operations on them",
    settings=Settings,
    install=install,
    kinds=(ApplicationInstance, Operation),
    documentation="docs/guide/apps.md",
    home="namespace",
    chart=FamilyChart(folder=Path(__file__).parent / "chart", unwatched={"watch_secrets": False}),
)
