"""The NstanceCluster: the document of shards, the contract of a Cluster, and imports of groups.

decide       the condition about the shards (pure)
render       the Cluster with its NstanceCluster, and imported pools (pure)
reconciler   the controller
"""

from __future__ import annotations
