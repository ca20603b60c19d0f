"""Pools: the replicas of a MachinePool over shards.

indexes      pools by group and instance, MachinePools by pool
observe      a pool, its MachinePool, its shard groups and Nodes
duplicates   the pool that owns a group (pure)
unlisted     provider ids that stay although no shard lists them
decide       sizes, readiness and provider ids of a pool (pure)
render       its shard groups (pure)
act          creates its MachinePool
protection   the webhook for static pools
reconciler   the controller
"""

from __future__ import annotations
