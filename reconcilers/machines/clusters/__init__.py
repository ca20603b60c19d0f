"""The NstanceCluster: the document of shards, the contract of a Cluster, and imports of groups.

keeper       the Cluster and what it refers to, which are made once, and the kubeconfig of Cluster API
kubeconfig   the text of that, and when it is due (pure)
decide       the condition about the shards (pure)
render       the Cluster with its NstanceCluster, and imported pools (pure)
reconciler   the controller
"""

from __future__ import annotations
