"""A stand-in for CloudNativePG on an API server: Clusters become healthy, fail, or stay as they are; no PostgreSQL runs.

    async with CnpgOperator(config, world=CnpgWorld(stuck={"db"})):
        ...                                 # the Cluster db stays in "Setting up primary", as one whose volume is not bound

Guarantees: the beginning of each story is the one that the real operator was recorded writing (tests/recordings/cnpg; the comparison is a
test): Initialized is True long before anything runs, the Secret is there at once, and there is none if bootstrap names one.

Caveats: no pods, Services and volumes are made, no backup is taken, and a Cluster is never reconfigured. Healthy states are read from
CloudNativePG's sources, not recorded. The webhook's checks are those of the name's form and length and of the storage's size.
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
