"""The writes of one step, outside any plan: the refusal of a step holds up no other step, and the status of no object reports them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from konverge.objects import Object
from konverge.reconcilers.machines.kinds import MACHINE, NSTANCE_MACHINE
from konverge.reconcilers.machines.ondemand.decide import OnDemandAction, OnDemandStep
from konverge.reconcilers.machines.ondemand.render import infrastructure, machine
from konverge.reconcilers.machines.settings import MachineSettings

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["create_objects", "delete_object"]


async def create_objects(step: OnDemandStep, namespace: str, ctx: Context[Object], settings: MachineSettings) -> str:
    """Create the objects of a Pod, and return the message of the Event."""
    demand, cluster, labels = step.demand, settings.cluster_name, settings.filter_labels
    assert demand is not None
    if step.action is OnDemandAction.CREATE_BOTH:
        created = infrastructure(demand, name=step.name, namespace=namespace, cluster=cluster, labels=labels)
        await ctx.client.create(created)
    await ctx.client.create(machine(demand, name=step.name, namespace=namespace, cluster=cluster, labels=labels))
    return f"Machine {namespace}/{step.name} of group {demand.group} was made for it"


async def delete_object(step: OnDemandStep, namespace: str, ctx: Context[Object]) -> str:
    """Delete an object of a Pod, and return the message of the Event."""
    kind = NSTANCE_MACHINE if step.action is OnDemandAction.DELETE_INFRASTRUCTURE else MACHINE
    await ctx.delete(kind, step.name, namespace, uid=step.uid)
    return f"{kind.kind} {step.name}: {step.message}"
