"""The family of machines as the daemon finds it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from konverge.families import Family, FamilyChart
from konverge.reconcilers.machines.settings import MachineSettings

if TYPE_CHECKING:
    from konverge.crds import CustomResource
    from konverge.runtime import Manager

__all__ = ["FAMILY"]


def _kinds() -> tuple[type[CustomResource[Any, Any]], ...]:
    from konverge.crds import machines_v1beta1 as kinds

    return (
        kinds.NstanceCluster,
        kinds.NstanceControlPlane,
        kinds.NstanceMachine,
        kinds.NstanceMachinePool,
        kinds.NstanceMachineTemplate,
        kinds.NstanceShardGroup,
    )


def _install(manager: Manager, settings: MachineSettings) -> None:
    from konverge.reconcilers.machines.installation import install

    install(manager, settings)


FAMILY = Family(
    name="machines",
    summary="Machine pools over the shards of Nstance, under Cluster API",
    settings=MachineSettings,
    install=_install,
    kinds=_kinds,
    documentation="docs/guide/machines.md",
    cluster_wide=True,
    by_name=True,  # without Cluster API none of its controllers becomes ready
    home="namespace",
    chart=FamilyChart(folder=Path(__file__).parent / "chart"),
)
