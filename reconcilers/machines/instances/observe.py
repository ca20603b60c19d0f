"""An NstanceMachine before the call of its shard (its place, its Machine) and after the call (its instance, its Nodes), from the caches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from konverge.crds.machines_v1beta1 import NstanceMachine
from konverge.objects import Object
from konverge.reconcilers.machines.instances.indexes import BY_CLAIMED_ID, claim_of, infrastructure_of, owner_of
from konverge.reconcilers.machines.instances.ownership import InstancePlace, NotPlaced, owned_place
from konverge.reconcilers.machines.instances.places import PlaceRequest
from konverge.reconcilers.machines.kinds import MACHINE, NODE, NSTANCE_MACHINE, SHARD_GROUP
from konverge.reconcilers.machines.pools.indexes import BY_INSTANCE
from konverge.reconcilers.machines.records import BY_RECORDED_ID, bare_id, recorded_shard
from konverge.reconcilers.machines.shards.messages import InstanceState

if TYPE_CHECKING:
    from konverge.reconcilers.machines.service import NstanceService
    from konverge.runtime import Context

__all__ = ["ObservedInstance", "observe_instance", "observe_place", "owner_machine", "place_request"]


@dataclass(frozen=True, slots=True)
class ObservedInstance:
    """An NstanceMachine with a place, after the call of its shard."""

    machine: NstanceMachine
    place: InstancePlace
    state: InstanceState | None
    """None: the server does not know the instance any more."""
    group: str = ""
    """The group that the server counts an inherited instance for."""
    foreign: bool = False
    """Whether the provider id is new for the NstanceMachine, and recorded for another shard."""
    nodes: tuple[Object, ...] = ()
    """The Nodes that may be the instance's."""

    @property
    def refused(self) -> bool:
        """Whether the instance is another object's, so that nothing is done with it."""
        return bool(self.group) or self.foreign


def observe_place(
    machine: NstanceMachine, ctx: Context[NstanceMachine], service: NstanceService
) -> InstancePlace | NotPlaced | None:
    """Return the place of an NstanceMachine's own instance; None if it has none yet."""
    own, cache = claim_of(Object(machine.to_dict())), ctx.cache(NSTANCE_MACHINE)
    others = {
        other.metadata.uid: claim_of(other)
        for wanted in sorted(own.ids)
        for other in cache.by_index(BY_CLAIMED_ID, wanted)
        if other.metadata.uid != own.uid and service.acts_in(other.namespace)
    }
    return owned_place(own, others.values(), adopts=service.settings.adopt_instances)


def place_request(machine: NstanceMachine, ctx: Context[NstanceMachine], service: NstanceService) -> PlaceRequest:
    """Return an NstanceMachine without a place, with the shards that can have its instance."""
    owner = owner_machine(machine, ctx)
    requested = "" if owner is None else str(owner.get("spec", "failureDomain", default="") or "")
    return PlaceRequest(
        machine.uid,
        machine.metadata.created,
        machine.spec.group,
        has_machine=owner is not None and not owner.metadata.deleting,
        failure_domain=requested or machine.spec.failure_domain or "",
        document=service.states.expected,
        reachable=service.states.places_for(machine.spec.group),
    )


def owner_machine(machine: NstanceMachine, ctx: Context[NstanceMachine]) -> Object | None:
    """Return the Machine of an NstanceMachine: the owner that refers to it. Each of the two references is a claim of one writer."""
    reference = owner_of(machine)
    owner = None if reference is None else ctx.cache(MACHINE).find(machine.namespace, reference.name)
    if owner is None or reference is None or owner.metadata.uid != reference.uid:
        return None
    return owner if infrastructure_of(owner) == machine.name else None


def observe_instance(
    machine: NstanceMachine,
    place: InstancePlace,
    state: InstanceState | None,
    group: str,
    ctx: Context[NstanceMachine],
) -> ObservedInstance:
    """Return the instance that a shard reports, with its Nodes."""
    provider_id = "" if state is None else state.provider_id
    nodes = ctx.cache(NODE).by_index(BY_INSTANCE, bare_id(provider_id)) if provider_id else ()
    foreign = _is_of_another_shard(machine, place, provider_id, ctx)
    return ObservedInstance(machine, place, state, group, foreign, tuple(nodes))


def _is_of_another_shard(
    machine: NstanceMachine, place: InstancePlace, provider_id: str, ctx: Context[NstanceMachine]
) -> bool:
    if not provider_id or machine.status.provider_id == provider_id:
        return False
    kinds = (SHARD_GROUP, NSTANCE_MACHINE)
    records = [record for kind in kinds for record in ctx.cache(kind).by_index(BY_RECORDED_ID, bare_id(provider_id))]
    others = [
        record for record in records if record.namespace == machine.namespace and record.metadata.uid != machine.uid
    ]
    return any(recorded_shard(other) != place.shard for other in others)
