"""The family of machines as the daemon finds it."""

from __future__ import annotations

from pathlib import Path

from konverge.crds.machines_v1beta1 import (
    NstanceCluster,
    NstanceControlPlane,
    NstanceMachine,
    NstanceMachinePool,
    NstanceMachineTemplate,
    NstanceShardGroup,
)
from konverge.families import Family, FamilyChart
from konverge.reconcilers.machines.install import install
from konverge.reconcilers.machines.settings import MachineSettings

__all__ = ["FAMILY"]

FAMILY = Family(
    name="machines",
    summary="Machine pools over the shards of Nstance, under Cluster API",
    settings=MachineSettings,
    install=install,
    kinds=(
        NstanceCluster,
        NstanceControlPlane,
        NstanceMachine,
        NstanceMachinePool,
        NstanceMachineTemplate,
        NstanceShardGroup,
    ),
    documentation="docs/guide/machines.md",
    cluster_wide=True,
    by_name=True,  # without Cluster API none of its controllers becomes ready
    home="namespace",
    chart=FamilyChart(folder=Path(__file__).parent / "chart"),
)
