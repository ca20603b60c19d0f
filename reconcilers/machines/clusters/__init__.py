"""The NstanceCluster: the document of shards, the contract of a Cluster, and imports of groups.

observe      the document of shards, and the groups to import
imports      which groups become pools (pure)
decide       the conditions and the endpoint (pure)
render       the Cluster with its NstanceCluster, and imported pools (pure)
act          creates imported pools
reconciler   the controller
upkeep       creates the Cluster and the objects that it refers to, and keeps the kubeconfig of Cluster API
kubeconfig   the text of the kubeconfig, and when it is due (pure)
"""

from __future__ import annotations
