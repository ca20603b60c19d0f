"""Shard groups: a group on one shard, kept as its NstanceShardGroup specifies.

decide       which settings are sent, and the meaning of a failure (pure)
reconciler   the controller
"""

from __future__ import annotations
