"""The NstanceCluster: the document of shards, the contract of a Cluster, and imports of groups.

keeper       creates the Cluster and the objects that it refers to, and keeps the kubeconfig of Cluster API
kubeconfig   the text of the kubeconfig, and when it is due (pure)
decide       the condition about the shards (pure)
render       the Cluster with its NstanceCluster, and imported pools (pure)
reconciler   the controller
"""

from __future__ import annotations
