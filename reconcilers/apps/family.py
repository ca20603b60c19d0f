"""The apps family as the daemon finds it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from konverge.families import Family, FamilyChart
from konverge.reconcilers.apps.settings import Settings

if TYPE_CHECKING:
    from konverge.crds import CustomResource
    from konverge.runtime import Manager

__all__ = ["FAMILY"]


def _kinds() -> tuple[type[CustomResource[Any, Any]], ...]:
    from konverge.crds.apps_v1alpha1 import ApplicationInstance
    from konverge.crds.ops_v1alpha1 import Operation

    return (ApplicationInstance, Operation)


def _install(manager: Manager, settings: Settings) -> None:
    from konverge.reconcilers.apps.installation import install

    install(manager, settings)


FAMILY = Family(
    name="apps",
    summary="Applications that Flux installs, and Operations on them",
    settings=Settings,
    install=_install,
    kinds=_kinds,
    documentation="docs/guide/apps.md",
    home="namespace",
    chart=FamilyChart(folder=Path(__file__).parent / "chart", unwatched={"watch_secrets": False}),
)
