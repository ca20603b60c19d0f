"""Shard groups: a group on one shard, kept as its NstanceShardGroup specifies.

decide       what is sent, and what a failure means (pure)
reconciler   the controller
"""

from __future__ import annotations
