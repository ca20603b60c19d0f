"""The namespace that the family acts in, and the status of an object elsewhere.

Each NstanceMachinePool, NstanceShardGroup and NstanceMachine changes the servers' instances. A label, an owner reference or an annotation
in another namespace proves nothing about its writer, so the namespace of the operator is the boundary: no tenant writes there.
"""

from __future__ import annotations

from konverge.reconcilers.machines.words import MachinesCondition, NamespaceReason
from konverge.runtime import Context, HasStatus

__all__ = ["show_other_namespace"]

_MESSAGE = (
    "objects of this kind act only in the namespace of the operator and its Cluster, and nothing is done for this object: create the "
    "object in that namespace, and delete it here"
)


def show_other_namespace(ctx: Context[HasStatus[object]]) -> None:
    """Show that an object is outside the operator's namespace; the message names no object and no namespace of others."""
    ctx.status.set_condition(MachinesCondition.READY, False, NamespaceReason.OTHER_NAMESPACE, _MESSAGE)
