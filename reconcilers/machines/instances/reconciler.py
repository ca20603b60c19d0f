"""The reconciler of NstanceMachines: it observes, decides and executes, and calls the shard in between (`act`).

Guarantees: the shard and the id of an instance are stored before CreateInstance is called, by a write with the object's resourceVersion.
After a crash or a lost response the server is first queried for that id, so no NstanceMachine ever has two instances. A deleted instance is
not replaced: the Machine is deleted, and its owner creates another. `spec.providerID` is written before `provisioned`, and the Node into
`status.nodeRef` of the Machine, once. An instance of another object is never deleted, and nothing is done outside the operator's namespace.
A Machine counts only if it refers to the object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from konverge.crds.machines_v1beta1 import NstanceMachine
from konverge.errors import RetryAfter
from konverge.outcome import Done, Outcome, RequeueAfter
from konverge.reconcilers.machines.gates import finalize_gate, reconcile_gate
from konverge.reconcilers.machines.instances.act import delete_instance, group_of_instance, query_or_create
from konverge.reconcilers.machines.instances.decide import (
    node_of,
    plan_deleted_by_server,
    plan_end,
    plan_failure,
    plan_hold,
    plan_node_reference,
    plan_place,
    plan_status,
    plan_waiting,
    plan_waiting_deletion,
    server_deleted,
)
from konverge.reconcilers.machines.instances.observe import (
    ObservedInstance,
    observe_instance,
    observe_place,
    owner_machine,
    place_request,
)
from konverge.reconcilers.machines.instances.ownership import InstancePlace, NotPlaced
from konverge.reconcilers.machines.instances.places import choose_place
from konverge.reconcilers.machines.service import NstanceService
from konverge.reconcilers.machines.shards.failures import ShardFailure
from konverge.reconcilers.machines.shards.retries import FailureDelays
from konverge.reconcilers.machines.words import MachinesEvent

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["NstanceMachineReconciler"]


class NstanceMachineReconciler:
    """Keeps one instance for each NstanceMachine."""

    def __init__(self, service: NstanceService) -> None:
        self._service = service
        self._delays = FailureDelays(service.settings)
        self._unknown: set[str] = set()
        """The uids of deleted objects whose instance the server did not know at the first query."""

    async def reconcile(self, machine: NstanceMachine, ctx: Context[NstanceMachine]) -> Outcome:
        """Place, create and follow the instance."""
        service, settings, states = self._service, self._service.settings, self._service.states
        if (closed := reconcile_gate(ctx, service)) is not None:
            return closed
        if server_deleted(machine):
            states.unfollow_instance(ctx.key)
            return await ctx.execute(plan_end(machine, owner_machine(machine, ctx)))
        place = observe_place(machine, ctx, service)
        if isinstance(place, NotPlaced):
            states.unfollow_instance(ctx.key)
            return await ctx.execute(plan_hold(place, settings))
        new = place is None
        if place is None:
            place = choose_place(place_request(machine, ctx, service))
            if isinstance(place, NotPlaced):
                return await ctx.execute(plan_waiting(place, settings))
            await ctx.execute(plan_place(machine, place))
        states.follow_instance(ctx.key, place.shard, place.instance_id)
        reason = states.take_ended(place.shard, place.instance_id)
        if reason is not None and machine.status.instance_id:
            return await ctx.execute(plan_deleted_by_server(reason))
        observed = await self._call_shard(machine, place, ctx, new=new)
        if observed.refused:
            states.unfollow_instance(ctx.key)
        outcome = await ctx.execute(plan_status(observed, settings))
        if node := node_of(observed):  # after the status, which a Machine that another writer changed must not hold up
            await ctx.execute(plan_node_reference(node, owner_machine(machine, ctx)))
        return outcome

    async def finalize(self, machine: NstanceMachine, ctx: Context[NstanceMachine]) -> Outcome:
        """Delete the instance; Done if the server confirmed it, or never had the instance."""
        if (closed := finalize_gate(ctx, self._service)) is not None:
            return closed
        place = observe_place(machine, ctx, self._service)
        if isinstance(place, NotPlaced):
            ctx.event(MachinesEvent.DELETE_FAILED, place.message, type_="Warning")
        elif place is not None and not server_deleted(machine):
            waiting = await self._delete(machine, place, ctx)
            if waiting is not None:
                return waiting
        self._service.states.unfollow_instance(ctx.key)
        self._delays.forget(machine.uid)
        self._unknown.discard(machine.uid)
        return Done()

    async def _call_shard(
        self, machine: NstanceMachine, place: InstancePlace, ctx: Context[NstanceMachine], *, new: bool
    ) -> ObservedInstance:
        """Return the instance as its shard reports it, created if it never existed; raises RetryAfter after a failure."""
        try:
            state = await query_or_create(machine, place, self._service, new=new)
            known = bool(machine.status.instance_id)
            group = "" if known else await group_of_instance(machine, place, state, self._service)
        except ShardFailure as failure:
            await ctx.execute(plan_failure(machine, failure))
            raise RetryAfter(self._delays.after(machine.uid, failure), str(failure)) from failure
        self._delays.forget(machine.uid)
        return observe_instance(machine, place, state, group, ctx)

    async def _delete(
        self, machine: NstanceMachine, place: InstancePlace, ctx: Context[NstanceMachine]
    ) -> Outcome | None:
        """Delete the instance; None if it does not exist any more."""
        settings, document = self._service.settings, self._service.states.expected
        if document is not None and place.shard not in document:
            message = f"shard {place.shard} is not in the document of shards: add it, or remove the finalizer if the instance is gone"
            return await ctx.execute(plan_waiting_deletion(message, settings))
        try:
            status = await delete_instance(machine, place, self._service)
        except ShardFailure as failure:
            return await ctx.execute(plan_waiting_deletion(failure.text, settings))
        if status == "unknown" and not machine.status.instance_id and machine.uid not in self._unknown:
            # A call that creates it may still be under way: the server is queried again after that call.
            self._unknown.add(machine.uid)
            return RequeueAfter(settings.call_timeout)
        ctx.event(MachinesEvent.DELETE_SUCCEEDED, f"instance {place.instance_id} on shard {place.shard} is {status}")
        return None
