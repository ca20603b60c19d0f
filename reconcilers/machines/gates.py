"""The objects that are not reconciled: objects of another namespace, and paused objects.

Each NstanceMachinePool, NstanceShardGroup and NstanceMachine changes the servers' instances. A label, an owner reference or an annotation
in another namespace proves nothing about its writer, so the namespace of the operator is the boundary: no tenant writes there.

A pause follows the contract of Cluster API: of a Cluster with all that belongs to it, or of one object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from konverge.outcome import Done, Outcome
from konverge.reconcilers.machines.kinds import CLUSTER
from konverge.reconcilers.machines.words import (
    MachinesAnnotation,
    MachinesCondition,
    MachinesLabel,
    NamespaceReason,
)

if TYPE_CHECKING:
    from konverge.objects import Metadata
    from konverge.reconcilers.machines.service import NstanceService
    from konverge.runtime import Caches, Context, HasStatus
    from konverge.runtime.builder.pause import PauseRule

__all__ = ["finalize_gate", "pause_of", "pause_rule", "reconcile_gate", "show_other_namespace"]

_OTHER_NAMESPACE = (
    "objects of this kind act only in the namespace of the operator and its Cluster, and nothing is done for this object: create the "
    "object in that namespace, and delete it here"
)


def reconcile_gate(ctx: Context[HasStatus[object]], service: NstanceService) -> Outcome | None:
    """Return the outcome of an object of another namespace, which its status shows, and None for an object that is reconciled."""
    if service.acts_in(ctx.object.metadata.namespace):
        return None
    show_other_namespace(ctx)
    return Done()


def finalize_gate(ctx: Context[HasStatus[object]], service: NstanceService) -> Outcome | None:
    """Return the outcome of a deleted object of another namespace, for which nothing is done, and None for others."""
    if service.acts_in(ctx.object.metadata.namespace):
        return None
    ctx.status.skip_write()
    return Done()


def show_other_namespace(ctx: Context[HasStatus[object]]) -> None:
    """Show that an object is outside the operator's namespace; the message names no object and no namespace of others."""
    ctx.status.remove_condition(MachinesCondition.PAUSED)
    ctx.status.set_condition(MachinesCondition.READY, False, NamespaceReason.OTHER_NAMESPACE, _OTHER_NAMESPACE)


def pause_of(metadata: Metadata, caches: Caches, cluster: str) -> str:
    """Return why an object is not to be reconciled, "" if it is; `cluster` is its Cluster if no label names one.

    A paused object gets no finalizer either: `clusterctl move` has just removed the finalizers of the objects that it deletes.
    """
    if MachinesAnnotation.PAUSED in (metadata.annotations or {}):
        return f"the annotation {MachinesAnnotation.PAUSED} is set"
    name = metadata.label(MachinesLabel.CLUSTER) or cluster
    stored = caches(CLUSTER).find(metadata.namespace, name)
    return f"Cluster {name} is paused" if stored is not None and stored.get("spec", "paused") is True else ""


def pause_rule(service: NstanceService, pause: Callable[[Metadata, Caches, str], str] = pause_of) -> PauseRule:
    """Return the rule that pauses the objects in the operator's namespace; nothing is done for other objects anyway."""

    def rule(metadata: Metadata, caches: Caches) -> str:
        return pause(metadata, caches, service.settings.cluster_name) if service.acts_in(metadata.namespace) else ""

    return rule
