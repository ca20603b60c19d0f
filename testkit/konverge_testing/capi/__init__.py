"""A double of the core of Cluster API for the tests of infrastructure providers: its definitions, defaults and controllers.

    async with CapiCore(config, infrastructure=[MyCluster, MyMachine]):
        ...         # Clusters, MachinePools and Machines adopt their infrastructure, pair Nodes and are deleted as by the real core

Guarantees: its writes equal recordings of the controller of v1.12.11 (tests/recordings/capi; the comparison is a test).

Caveats: MachineSets and control planes are left out. The cluster of the Nodes is the API server that it runs on.

>>> sorted(one["metadata"]["name"] for one in definitions())
['clusters.cluster.x-k8s.io', 'machinepools.cluster.x-k8s.io', 'machines.cluster.x-k8s.io']
"""

from __future__ import annotations

from konverge_testing.capi.core import CapiCore, install_core
from konverge_testing.capi.definitions import definitions

__all__ = ["CapiCore", "definitions", "install_core"]
