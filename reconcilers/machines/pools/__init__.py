"""Pools: the replicas of a MachinePool over shards.

decide       sizes, readiness and provider ids of a pool (pure)
render       its shard groups (pure)
indexes      pools by group and instance, MachinePools by pool
reconciler   the controller
"""

from __future__ import annotations
