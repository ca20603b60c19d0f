"""A stand-in for CloudNativePG on an API server: Clusters become healthy, fail, or never change; no PostgreSQL runs.

    async with CnpgOperator(config, world=CnpgWorld(stuck={"db"})):
        ...                                 # the Cluster db stays in "Setting up primary", as with an unbound volume

Guarantees: the beginning of each story equals a recording of the real operator (tests/recordings/cnpg; the comparison is a test):
Initialized is True long before anything runs. The Secret exists at once, unless bootstrap names a Secret; then none is created.

Caveats: no pods, Services and volumes are created, no backup is taken, and a Cluster is never reconfigured. Healthy states are read from
CloudNativePG's sources, not recorded. The webhook checks only the name's form and length and the storage's size.
"""

from __future__ import annotations

from konverge_testing.cnpg.operator import KINDS, CnpgOperator, CnpgWorld
from konverge_testing.standin import Json, definitions

__all__ = ["KINDS", "CnpgOperator", "CnpgWorld", "cnpg_crds"]


def cnpg_crds() -> list[Json]:
    """Return minimal CustomResourceDefinitions of Cluster and ScheduledBackup.

    >>> [crd["spec"]["names"]["kind"] for crd in cnpg_crds()]
    ['Cluster', 'ScheduledBackup']
    """
    return definitions("konverge_testing.cnpg")
