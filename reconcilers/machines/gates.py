"""The objects that are not reconciled: objects of another namespace, and paused objects.

Each NstanceMachinePool, NstanceShardGroup and NstanceMachine changes the servers' instances. A label, an owner reference or an annotation
in another namespace proves nothing about its writer, so the namespace of the operator is the boundary: no tenant writes there.

A pause follows the contract of Cluster API: of a Cluster with all that belongs to it, or of one object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from konverge.outcome import Done, Outcome, RequeueAfter
from konverge.reconcilers.machines.kinds import CLUSTER
from konverge.reconcilers.machines.words import (
    MachinesAnnotation,
    MachinesCondition,
    MachinesLabel,
    NamespaceReason,
    PausedReason,
)

if TYPE_CHECKING:
    from konverge.kinds import Kind
    from konverge.objects import Metadata, Object
    from konverge.reconcilers.machines.service import NstanceService
    from konverge.runtime import Context, HasStatus
    from konverge.runtime.cache.readers import Reader

__all__ = ["finalize_gate", "pause_of", "reconcile_gate", "show_other_namespace", "show_pause"]

_OTHER_NAMESPACE = (
    "objects of this kind act only in the namespace of the operator and its Cluster, and nothing is done for this object: create the "
    "object in that namespace, and delete it here"
)


def reconcile_gate(ctx: Context[HasStatus[object]], service: NstanceService) -> Outcome | None:
    """Return the outcome of an object that is not reconciled, None for an object that is; its status shows which."""
    metadata = ctx.object.metadata
    if not service.acts_in(metadata.namespace):
        show_other_namespace(ctx)
        return Done()
    paused = pause_of(metadata, ctx.cache, cluster=service.settings.cluster_name)
    show_pause(paused, ctx)
    return Done() if paused else None


def finalize_gate(ctx: Context[HasStatus[object]], service: NstanceService) -> Outcome | None:
    """Return the outcome of a deleted object on which nothing is done: a paused object waits, an object of another namespace ends."""
    metadata = ctx.object.metadata
    if not service.acts_in(metadata.namespace):
        ctx.status.skip_write()
        return Done()
    paused = pause_of(metadata, ctx.cache, cluster=service.settings.cluster_name)
    show_pause(paused, ctx)
    return RequeueAfter(service.settings.retry) if paused else None


def show_other_namespace(ctx: Context[HasStatus[object]]) -> None:
    """Show that an object is outside the operator's namespace; the message names no object and no namespace of others."""
    ctx.status.set_condition(MachinesCondition.READY, False, NamespaceReason.OTHER_NAMESPACE, _OTHER_NAMESPACE)


def pause_of(metadata: Metadata, cache: Callable[[Kind[Object]], Reader[Object]], *, cluster: str) -> str:
    """Return why an object is not to be reconciled, "" if it is; `cluster` is its Cluster if no label names one.

    A paused object gets no finalizer either: `clusterctl move` has just removed the finalizers of the objects that it deletes.
    """
    if MachinesAnnotation.PAUSED in (metadata.annotations or {}):
        return f"the annotation {MachinesAnnotation.PAUSED} is set"
    name = metadata.label(MachinesLabel.CLUSTER) or cluster
    stored = cache(CLUSTER).find(metadata.namespace, name)
    return f"Cluster {name} is paused" if stored is not None and stored.get("spec", "paused") is True else ""


def show_pause(why: str, ctx: Context[HasStatus[object]]) -> None:
    """Set the condition Paused."""
    if why:
        ctx.status.set_condition(MachinesCondition.PAUSED, True, PausedReason.PAUSED, why)
    else:
        ctx.status.set_condition(MachinesCondition.PAUSED, False, PausedReason.NOT_PAUSED, "it is reconciled")
