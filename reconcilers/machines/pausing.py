"""Pauses by the contract of Cluster API: of a Cluster with all that belongs to it, or of one object."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from konverge.reconcilers.machines.kinds import CLUSTER
from konverge.reconcilers.machines.words import MachinesAnnotation, MachinesCondition, MachinesLabel, PausedReason

if TYPE_CHECKING:
    from konverge.kinds import Kind
    from konverge.objects import Metadata, Object
    from konverge.runtime import Context, HasStatus
    from konverge.runtime.cache.readers import Reader

__all__ = ["pause_of", "show_pause"]


def pause_of(metadata: Metadata, cache: Callable[[Kind[Object]], Reader[Object]], *, cluster: str) -> str:
    """Return why an object is not to be reconciled, "" if it is; `cluster` is its Cluster if no label names one.

    While it is paused no finalizer is added to it either: `clusterctl move` has just taken them off the objects that it deletes.
    """
    if MachinesAnnotation.PAUSED in (metadata.annotations or {}):
        return f"the annotation {MachinesAnnotation.PAUSED} is set"
    name = metadata.label(MachinesLabel.CLUSTER) or cluster
    found = cache(CLUSTER).find(metadata.namespace, name)
    return f"Cluster {name} is paused" if found is not None and found.get("spec", "paused") is True else ""


def show_pause(why: str, ctx: Context[HasStatus[object]]) -> None:
    """Set the condition Paused."""
    if why:
        ctx.status.set_condition(MachinesCondition.PAUSED, True, PausedReason.PAUSED, why)
    else:
        ctx.status.set_condition(MachinesCondition.PAUSED, False, PausedReason.NOT_PAUSED, "it is reconciled")
