"""Shard groups: a group on one shard, kept as its NstanceShardGroup specifies.

shares      the shard groups that are shares of a pool (pure)
config      the settings to send, and differences from a server's (pure)
conditions  the conditions (pure)
observe     a shard group, its pool, and the records of other shards
decide      the next step and the plans (pure)
act         the calls of the shard
reconciler  the controller
"""

from __future__ import annotations
