"""The reconciler of NstanceMachines: the async shell around `decide` and `ownership`.

Guarantees: the shard and the id of an instance are stored before CreateInstance is called, by a write with the object's resourceVersion.
After a crash or a lost response the server is first queried for that id, so no NstanceMachine ever has two instances. A deleted instance is
not replaced: the Machine is deleted, and its owner creates another. `spec.providerID` is written before `provisioned`, and the Node into
`status.nodeRef` of the Machine, once. An instance of another object is never deleted, and nothing is done outside the operator's namespace.
A Machine counts only if it refers to the object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from konverge.crds.machines_v1beta1 import Initialization, MachineAddress, NstanceMachine
from konverge.errors import RetryAfter
from konverge.keys import Key
from konverge.kinds import kind_of
from konverge.objects import Metadata, Object
from konverge.outcome import Done, Outcome, RequeueAfter
from konverge.reconcilers.machines.instances.decide import (
    InstancePlan,
    PlaceRequest,
    choose_place,
    condition_reason,
    only_node_of,
    plan_instance,
)
from konverge.reconcilers.machines.instances.ownership import (
    InstanceClaim,
    InstancePlace,
    NotPlaced,
    instance_id,
    not_of_group,
    owned_place,
)
from konverge.reconcilers.machines.kinds import CAPI_GROUP, MACHINE, NODE, NSTANCE_MACHINE, POD, SHARD_GROUP
from konverge.reconcilers.machines.namespaces import show_other_namespace
from konverge.reconcilers.machines.ondemand.observe import made_object
from konverge.reconcilers.machines.pausing import pause_of, show_pause
from konverge.reconcilers.machines.pools.indexes import BY_INSTANCE
from konverge.reconcilers.machines.records import BY_RECORDED_ID, bare_id, recorded_shard
from konverge.reconcilers.machines.service import NstanceService
from konverge.reconcilers.machines.shards.failures import FailureKind, ShardFailure
from konverge.reconcilers.machines.shards.messages import InstanceConfig, InstanceState
from konverge.reconcilers.machines.shards.retries import FailureDelays
from konverge.reconcilers.machines.words import (
    MachineReason,
    MachinesAnnotation,
    MachinesCondition,
    MachinesEvent,
    MachinesLabel,
)
from konverge.reconcilers.shared.delays import NEXT_STEP

if TYPE_CHECKING:
    from collections.abc import Iterable

    from konverge.objects import OwnerReference
    from konverge.runtime import Caches, Context

__all__ = [
    "BY_CLAIMED_ID",
    "NstanceMachineReconciler",
    "by_claimed_id",
    "by_provider_name",
    "machine_of_node",
    "machine_of_owner",
    "owner_of",
]

BY_CLAIMED_ID: Final = "claimed-id"


def by_claimed_id(machine: Object) -> tuple[str, ...]:
    """Return the values of the index BY_CLAIMED_ID."""
    return tuple(_claim(machine).ids)


def _claim(machine: Object) -> InstanceClaim:
    shard, recorded = (machine.get("status", name, default="") or "" for name in ("shard", "instanceID"))
    metadata = machine.metadata
    return InstanceClaim(
        metadata.uid,
        metadata.created,
        recorded=InstancePlace.parse(f"{shard}/{recorded}"),
        annotated=InstancePlace.parse(metadata.annotation(MachinesAnnotation.INSTANCE)),
    )


def by_provider_name(machine: Object) -> tuple[str, ...]:
    """Return the last part of the provider id, which matches a Node."""
    provider_id = machine.get("spec", "providerID", default="") or machine.get("status", "providerID", default="")
    return (str(provider_id).rpartition("/")[2],) if provider_id else ()


def machine_of_owner(machine: Object, _: Caches) -> Iterable[Key]:
    """Map a Machine to the NstanceMachine that it refers to."""
    name = _infrastructure_of(machine)
    return [_key(machine.namespace, name)] if name else ()


def _infrastructure_of(machine: Object) -> str:
    """Return the name of the NstanceMachine that a Machine refers to, "" if it refers to none."""
    found = machine.get("spec", "infrastructureRef", default={}) or {}
    ours = (found.get("kind"), found.get("apiGroup")) == ("NstanceMachine", NSTANCE_MACHINE.group)
    return str(found.get("name", "")) if ours else ""


def machine_of_node(node: Object, caches: Caches) -> Iterable[Key]:
    """Map a Node to the NstanceMachine of its instance."""
    name = str(node.get("spec", "providerID", default="")).rpartition("/")[2]
    found = caches(NSTANCE_MACHINE).metadata_by_index(BY_INSTANCE, name) if name else ()
    return [_key(one.namespace, one.name) for one in found]


def _key(namespace: str, name: str) -> Key:
    return Key("", kind_of(NstanceMachine), namespace, name)


class NstanceMachineReconciler:
    """Keeps one instance for each NstanceMachine."""

    def __init__(self, service: NstanceService) -> None:
        self._service = service
        self._delays = FailureDelays(service.settings)
        self._unknown: set[str] = set()

    async def reconcile(self, machine: NstanceMachine, ctx: Context[NstanceMachine]) -> Outcome:
        """Place, create and follow the instance."""
        settings = self._service.settings
        if not self._service.acts_in(machine.namespace):
            show_other_namespace(ctx)
            return Done()
        paused = pause_of(machine.metadata, ctx.cache, cluster=settings.cluster_name)
        show_pause(paused, ctx)
        if paused:
            return Done()
        if _server_deleted(machine):
            return await self._end(machine, ctx)
        place = self._placed(machine, ctx)
        if isinstance(place, NotPlaced):
            return self._hold(place, ctx)
        new = place is None
        if place is None:
            chosen = choose_place(self._request(machine, ctx))
            if isinstance(chosen, NotPlaced):
                ctx.status.set_condition(MachinesCondition.READY, False, chosen.reason, chosen.message)
                return RequeueAfter(settings.unreachable_retry)
            place = chosen
            await self._store(machine, place, ctx)
        states = self._service.states
        states.follow_instance(ctx.key, place.shard, place.instance_id)
        said = states.take_ended(place.shard, place.instance_id)
        if said is not None and machine.status.instance_id:
            return self._lost(condition_reason(said), f"the server deleted the instance: {said or 'no reason'}", ctx)
        try:
            state = await self._ask(machine, place, new=new)
            group = "" if machine.status.instance_id else await self._group_of(machine, place, state)
        except ShardFailure as failure:
            self._report_failure(failure, ctx)
            raise RetryAfter(self._delays.after(machine.uid, failure), str(failure)) from failure
        self._delays.forget(machine.uid)
        if group:
            return self._hold(not_of_group(place, group), ctx)
        if state is not None and _is_of_another_shard(machine, place, state.provider_id, ctx):
            message = f"shard {place.shard} names the instance of another shard as this one: nothing is shown of it"
            return self._hold(NotPlaced(MachineReason.PROVIDER_ERROR, message), ctx)
        return await self._show(machine, place, state, ctx)

    async def finalize(self, machine: NstanceMachine, ctx: Context[NstanceMachine]) -> Outcome:
        """Delete the instance; Done if the server confirmed it, or never had the instance. A paused object waits."""
        states, settings = self._service.states, self._service.settings
        if not self._service.acts_in(machine.namespace):
            ctx.status.skip_write()
            return Done()
        paused = pause_of(machine.metadata, ctx.cache, cluster=settings.cluster_name)
        show_pause(paused, ctx)
        if paused:
            return RequeueAfter(settings.retry)
        place = self._placed(machine, ctx)
        if isinstance(place, NotPlaced):
            ctx.event(MachinesEvent.DELETE_FAILED, place.message, type_="Warning")
            place = None
        if place is not None and not _server_deleted(machine):
            if states.expected is not None and place.shard not in states.expected:
                message = f"shard {place.shard} is not in the document of shards: add it, or remove the finalizer if the instance is gone"
                ctx.status.set_condition(MachinesCondition.READY, False, MachineReason.DELETE_FAILED, message)
                return RequeueAfter(settings.unreachable_retry)
            try:
                status = await self._delete_instance(machine, place)
            except ShardFailure as failure:
                if failure.kind not in (FailureKind.NOT_FOUND, FailureKind.INVALID):  # such an id was never accepted
                    ctx.status.set_condition(MachinesCondition.READY, False, MachineReason.DELETE_FAILED, failure.said)
                    return RequeueAfter(settings.unreachable_retry)
                status = "unknown"
            if status == "unknown" and not machine.status.instance_id and machine.uid not in self._unknown:
                # A call that creates it may still be under way: the server is queried again after that call.
                self._unknown.add(machine.uid)
                return RequeueAfter(settings.call_timeout)
            ctx.event(
                MachinesEvent.DELETE_SUCCEEDED, f"instance {place.instance_id} on shard {place.shard} is {status}"
            )
        states.unfollow_instance(ctx.key)
        self._delays.forget(machine.uid)
        self._unknown.discard(machine.uid)
        return Done()

    async def _delete_instance(self, machine: NstanceMachine, place: InstancePlace) -> str:
        """Delete the instance, and return its status on the server. An inherited instance that counts for a group stays."""
        client = self._service.shard(place.shard)
        if place.instance_id != instance_id(machine.uid, machine.metadata.created):
            state = await client.instance_state(place.instance_id)
            if group := await self._group_of(machine, place, state):
                return f"left as it is, because it counts for group {group}"
        return await client.delete_instance(place.instance_id)

    # --- the place -----------------------------------------------------------------------------------------------------------

    def _placed(self, machine: NstanceMachine, ctx: Context[NstanceMachine]) -> InstancePlace | NotPlaced | None:
        """Return the place of an NstanceMachine's own instance; None if it has none yet."""
        own, cache = _claim(Object(machine.to_dict())), ctx.cache(NSTANCE_MACHINE)
        others = {
            other.metadata.uid: _claim(other)
            for wanted in sorted(own.ids)
            for other in cache.by_index(BY_CLAIMED_ID, wanted)
            if other.metadata.uid != own.uid and self._service.acts_in(other.namespace)
        }
        return owned_place(own, others.values(), adopts=self._service.settings.adopt_instances)

    async def _group_of(self, machine: NstanceMachine, place: InstancePlace, state: InstanceState | None) -> str:
        """Return the group that the server counts an inherited instance for, "" if none: an instance on demand counts for no group.

        The groups are listed now, because the last listing may be older than the instance.
        """
        own = place.instance_id == instance_id(machine.uid, machine.metadata.created)
        if own or state is None or not state.provider_id:
            return ""
        groups = await self._service.shard(place.shard).list_groups()
        return next((group.key for group in groups if state.provider_id in group.provider_ids), "")

    def _hold(self, refused: NotPlaced, ctx: Context[NstanceMachine]) -> Outcome:
        """Show why no instance is touched; a change of the object or of the settings ends it."""
        self._service.states.unfollow_instance(ctx.key)
        ctx.status.draft.ready = False
        ctx.status.set_condition(MachinesCondition.READY, False, refused.reason, refused.message)
        return RequeueAfter(self._service.settings.instance_poll)

    def _request(self, machine: NstanceMachine, ctx: Context[NstanceMachine]) -> PlaceRequest:
        states, found = self._service.states, _machine_of(machine, ctx)
        stays = found is not None and not found.metadata.deleting
        wanted = "" if found is None else str(found.get("spec", "failureDomain", default="") or "")
        expected = states.expected
        return PlaceRequest(
            machine.uid,
            machine.metadata.created,
            machine.spec.group,
            has_machine=stays,
            failure_domain=wanted or machine.spec.failure_domain or "",
            document=expected,
            reachable=states.places_for(machine.spec.group),
        )

    async def _store(self, machine: NstanceMachine, place: InstancePlace, ctx: Context[NstanceMachine]) -> None:
        """Store the place with the object's resourceVersion: of two leaders the API server rejects one."""
        metadata = {
            "annotations": {MachinesAnnotation.INSTANCE: str(place)},
            "labels": {MachinesLabel.GROUP: machine.spec.group, MachinesLabel.SHARD: place.shard},
        }
        await ctx.patch(NSTANCE_MACHINE, expect=machine, patch={"metadata": metadata})

    # --- the server ----------------------------------------------------------------------------------------------------------

    async def _ask(self, machine: NstanceMachine, place: InstancePlace, *, new: bool) -> InstanceState | None:
        """Return the state of the instance, which is created if the server never confirmed it and does not know it."""
        client = self._service.shard(place.shard)
        if not new:
            try:
                return await client.instance_state(place.instance_id)
            except ShardFailure as failure:
                if failure.kind is not FailureKind.NOT_FOUND:
                    raise
                if machine.status.instance_id:
                    return None
        spec = machine.spec
        config = InstanceConfig(spec.group, spec.instance_type or "", dict(spec.vars or {}))
        return await client.create_instance(place.instance_id, config)

    def _report_failure(self, failure: ShardFailure, ctx: Context[NstanceMachine]) -> None:
        reason = {
            FailureKind.UNREACHABLE: MachineReason.SHARD_UNREACHABLE,
            FailureKind.INVALID: MachineReason.INVALID,
        }.get(failure.kind, MachineReason.PROVIDER_ERROR)
        before = ctx.status.find(MachinesCondition.READY)
        pod = made_object(ctx.object.metadata).pod
        if (
            pod is not None
            and reason != MachineReason.SHARD_UNREACHABLE
            and (before is None or before.reason != reason)
        ):
            # The texts of the server are for the operator's namespace.
            about = Metadata(name=pod.name, namespace=pod.namespace, uid=pod.uid)
            message = f"the server does not make the instance: see the condition Ready of NstanceMachine {ctx.key.path}"
            ctx.event_about(POD, about, MachinesEvent.ON_DEMAND_REFUSED, message, type_="Warning")
        ctx.status.set_condition(MachinesCondition.READY, False, reason, failure.said)

    # --- what is shown -------------------------------------------------------------------------------------------------------

    async def _show(
        self, machine: NstanceMachine, place: InstancePlace, state: InstanceState | None, ctx: Context[NstanceMachine]
    ) -> Outcome:
        settings, before = self._service.settings, machine.status
        nodes = _nodes("" if state is None else state.provider_id, ctx)
        plan = plan_instance(
            state,
            provisioned=before.initialization is not None and bool(before.initialization.provisioned),
            recorded=before.provider_id or "",
            published=machine.spec.provider_id or "",
            node_ids=[str(node.get("spec", "providerID", default="")) for node in nodes],
        )
        if plan.ended:
            return self._lost(plan.reason, plan.message, ctx)
        if plan.provider_id:
            spec = {"providerID": plan.provider_id, "failureDomain": place.shard}
            await ctx.apply(NSTANCE_MACHINE.new(machine.name, machine.namespace, spec=spec), force=True)
        draft = ctx.status.draft
        draft.instance_id, draft.shard, draft.failure_domain = place.instance_id, place.shard, place.shard
        draft.provider_id = (state.provider_id if state is not None else "") or before.provider_id
        draft.addresses = _addresses(plan, nodes) or before.addresses
        draft.ready = plan.ready
        if plan.provisioned:
            draft.initialization = Initialization(provisioned=True)
        ctx.status.set_condition(MachinesCondition.READY, plan.ready, plan.reason, plan.message)
        await self._show_node(machine, only_node_of(plan.provider_id, nodes), ctx)
        return RequeueAfter(settings.instance_poll if plan.settled else settings.instance_start_poll)

    async def _show_node(self, machine: NstanceMachine, node: str, ctx: Context[NstanceMachine]) -> None:
        """Write the Node into the Machine, if it names none yet.

        Cluster API itself only finds the Node with a connection to the cluster of the Nodes, and only watches Nodes if the control plane
        counts as initialized. An existing nodeRef stays: this patch has the resourceVersion of the Machine.
        """
        found = _machine_of(machine, ctx) if node else None
        if found is None or found.metadata.deleting:
            return
        if found.get("status", "nodeRef", default=None):
            return
        await ctx.patch(MACHINE, expect=found, patch={"status": {"nodeRef": {"name": node}}}, subresource="status")

    def _lost(self, reason: str, message: str, ctx: Context[NstanceMachine]) -> Outcome:
        """Show that the server deleted the instance; the next reconcile deletes the Machine."""
        ctx.status.draft.ready = False
        ctx.status.set_condition(MachinesCondition.READY, False, MachineReason.SERVER_DELETED, message)
        ctx.status.set_condition(MachinesCondition.SERVER_DELETED, True, reason, message)
        return RequeueAfter(NEXT_STEP)

    async def _end(self, machine: NstanceMachine, ctx: Context[NstanceMachine]) -> Outcome:
        """Delete the Machine of a deleted instance, or without a Machine the NstanceMachine."""
        self._service.states.unfollow_instance(ctx.key)
        if owner_of(machine) is None:
            await ctx.delete(NSTANCE_MACHINE, machine.name, machine.namespace, uid=machine.uid)
            return Done()
        found = _machine_of(machine, ctx)
        if found is not None and not found.metadata.deleting:
            await ctx.delete(MACHINE, found.name, machine.namespace, uid=found.metadata.uid)
        return Done()


def owner_of(machine: NstanceMachine) -> OwnerReference | None:
    """Return the Machine that owns an NstanceMachine; a MachineSet may own it first."""
    references = machine.metadata.owner_references or ()
    return next((one for one in references if (one.kind, one.group) == ("Machine", CAPI_GROUP)), None)


def _machine_of(machine: NstanceMachine, ctx: Context[NstanceMachine]) -> Object | None:
    """Return the Machine of an NstanceMachine: the owner that refers to it. Each of the two references is a claim of one writer."""
    owner = owner_of(machine)
    found = None if owner is None else ctx.cache(MACHINE).find(machine.namespace, owner.name)
    if found is None or owner is None or found.metadata.uid != owner.uid:
        return None
    return found if _infrastructure_of(found) == machine.name else None


def _is_of_another_shard(
    machine: NstanceMachine, place: InstancePlace, provider_id: str, ctx: Context[NstanceMachine]
) -> bool:
    """Tell whether a provider id that is new for an NstanceMachine is recorded for another shard."""
    if not provider_id or machine.status.provider_id == provider_id:
        return False
    kinds = (SHARD_GROUP, NSTANCE_MACHINE)
    found = [one for kind in kinds for one in ctx.cache(kind).by_index(BY_RECORDED_ID, bare_id(provider_id))]
    others = [one for one in found if one.namespace == machine.namespace and one.metadata.uid != machine.uid]
    return any(recorded_shard(one) != place.shard for one in others)


def _server_deleted(machine: NstanceMachine) -> bool:
    condition = machine.find_condition(MachinesCondition.SERVER_DELETED)
    return condition is not None and condition.is_true


def _nodes(instance: str, ctx: Context[NstanceMachine]) -> list[Object]:
    return ctx.cache(NODE).by_index(BY_INSTANCE, instance.rpartition("/")[2]) if instance else []


def _addresses(plan: InstancePlan, nodes: Iterable[Object]) -> tuple[MachineAddress, ...]:
    """Return the addresses of the matched Node: the server reports none."""
    for node in nodes:
        if node.get("spec", "providerID", default="") == plan.provider_id:
            listed = node.get("status", "addresses", default=()) or ()
            return tuple(MachineAddress(type=str(one["type"]), address=str(one["address"])) for one in listed)
    return ()
