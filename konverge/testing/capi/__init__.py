"""Stands for the core of Cluster API in the tests of infrastructure providers.

>>> sorted(one["metadata"]["name"] for one in definitions())
['clusters.cluster.x-k8s.io', 'machinepools.cluster.x-k8s.io', 'machines.cluster.x-k8s.io']
"""

from __future__ import annotations

from konverge.testing.capi.definitions import definitions

__all__ = ["definitions"]
