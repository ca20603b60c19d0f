"""Machine pools over the shards of Nstance, inside the contract of Cluster API.

A drop-in for the Nstance operator (`infrastructure.cluster.x-k8s.io/v1beta1`). Facts and decisions: docs/reference/machines.md.

    words.py, settings.py, metrics.py, kinds.py
    gates.py     objects that are not reconciled: of another namespace, or paused
    wire/        the messages and services of an Nstance server
    shards/      connections to the servers, and their last listings
    identity/    the operator's key and certificate
    service.py   the background work: the link to the servers, the Cluster, the drains
    clusters/    the NstanceCluster: the document of shards, imports of groups
    pools/       the replicas of a MachinePool over shards; groups/: a group on one shard
    instances/   an instance for each Machine; ondemand/: a Machine for each Pod that requests an instance
    drains/      Nodes that are emptied before the servers delete their instances
    records.py, correlation.py   the shard of an instance, and its Node (pure)

Each folder of a kind has the same files: observe (reads), decide (plans, pure), render (children), act (calls of a shard, and creations
whose response the next decision needs), reconciler.

Guarantees: Kubernetes decides the replicas of a pool; the servers' are read once, at the import. Nothing is imported before every shard has
listed its groups. An unreachable shard delays no other shard.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from konverge.lazy import at_first_use

if TYPE_CHECKING:
    from konverge.reconcilers.machines.installation import install
    from konverge.reconcilers.machines.settings import MachineSettings

__all__ = ["MachineSettings", "install"]

__getattr__ = at_first_use(__name__, {"installation": ("install",), "settings": ("MachineSettings",)})
