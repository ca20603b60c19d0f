"""The plans of an NstanceMachine: from the state of its instance, or the reason why it has none, to writes and status. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from konverge.crds.machines_v1beta1 import Initialization, MachineAddress, NstanceMachine, NstanceMachineStatus
from konverge.objects import Metadata, Object
from konverge.outcome import Outcome, RequeueAfter
from konverge.reconcilers.machines.correlation import pool_provider_ids
from konverge.reconcilers.machines.instances.indexes import owner_of
from konverge.reconcilers.machines.instances.observe import ObservedInstance
from konverge.reconcilers.machines.instances.ownership import InstancePlace, NotPlaced, not_of_group
from konverge.reconcilers.machines.kinds import MACHINE, NSTANCE_MACHINE, POD
from konverge.reconcilers.machines.ondemand.demand import made_object
from konverge.reconcilers.machines.settings import MachineSettings
from konverge.reconcilers.machines.shards.failures import FailureKind, ShardFailure
from konverge.reconcilers.machines.shards.messages import InstanceState
from konverge.reconcilers.machines.words import (
    MachineReason,
    MachinesAnnotation,
    MachinesCondition,
    MachinesEvent,
    MachinesLabel,
)
from konverge.reconcilers.shared.delays import NEXT_STEP
from konverge.runtime import Apply, ConditionUpdate, Delete, Patch, Plan, PlannedEvent

__all__ = [
    "InstancePlan",
    "condition_reason",
    "is_gone",
    "node_of",
    "only_node_of",
    "plan_deleted_by_server",
    "plan_end",
    "plan_failure",
    "plan_hold",
    "plan_instance",
    "plan_node_reference",
    "plan_place",
    "plan_status",
    "plan_waiting",
    "plan_waiting_deletion",
    "server_deleted",
]

MachinePlan = Plan[NstanceMachineStatus]

_RUNNING: Final = "running"
_GONE: Final = frozenset({"deleted", "terminated"})
_STOPS: Final = frozenset({"deleting", "stopping", "stopped", "suspending", "suspended", "terminating"})
_REASONS: Final = {
    FailureKind.UNREACHABLE: MachineReason.SHARD_UNREACHABLE,
    FailureKind.INVALID: MachineReason.INVALID,
}


@dataclass(frozen=True, slots=True)
class InstancePlan:
    """The next status of an NstanceMachine that has an instance."""

    ready: bool
    reason: str
    message: str
    provider_id: str = ""
    """The Node's provider id if it is known, else the server's; "" while the server has none."""
    provisioned: bool = False
    settled: bool = False
    """Whether to poll the server less often."""
    ended: bool = False
    """Whether the instance was deleted although the NstanceMachine was not."""


# --- before the instance exists -------------------------------------------------------------------------------------------------


def plan_waiting(refused: NotPlaced, settings: MachineSettings) -> MachinePlan:
    """Return the plan of an NstanceMachine that has no place, because something is missing."""
    return _not_ready(refused.reason, refused.message, RequeueAfter(settings.unreachable_retry))


def plan_hold(refused: NotPlaced, settings: MachineSettings) -> MachinePlan:
    """Return the plan of an NstanceMachine whose instance is not touched; a change of the object or of the settings ends it."""
    return _not_ready(
        refused.reason,
        refused.message,
        RequeueAfter(settings.instance_poll),
        draft=NstanceMachineStatus(ready=False),
    )


def plan_place(machine: NstanceMachine, place: InstancePlace) -> MachinePlan:
    """Return the plan that stores a place with the object's resourceVersion: of two leaders the API server rejects one."""
    metadata = {
        "annotations": {MachinesAnnotation.INSTANCE: str(place)},
        "labels": {MachinesLabel.GROUP: machine.spec.group, MachinesLabel.SHARD: place.shard},
    }
    return Plan(patches=(Patch(NSTANCE_MACHINE, {"metadata": metadata}, expect=machine),))


def plan_failure(machine: NstanceMachine, failure: ShardFailure) -> MachinePlan:
    """Return the status after a call that failed; the Pod of an instance on demand gets an Event if the server refused the instance."""
    reason = _REASONS.get(failure.kind, MachineReason.PROVIDER_ERROR)
    before = machine.find_condition(MachinesCondition.READY)
    pod = made_object(machine.metadata).pod
    events: tuple[PlannedEvent, ...] = ()
    if pod is not None and reason != MachineReason.SHARD_UNREACHABLE and (before is None or before.reason != reason):
        # The texts of the server are for the operator's namespace.
        message = (
            f"the server does not make the instance: see the condition Ready of NstanceMachine {machine.metadata.path}"
        )
        about = Metadata(name=pod.name, namespace=pod.namespace, uid=pod.uid)
        events = (PlannedEvent(MachinesEvent.ON_DEMAND_REFUSED, message, "Warning", POD, about),)
    return Plan(events=events, set_conditions=(_ready(False, reason, failure.text),))


# --- the state of the instance --------------------------------------------------------------------------------------------------


def is_gone(status: str) -> bool:
    """Tell whether a server's status means that the instance does not exist any more."""
    return status in _GONE


def plan_instance(
    state: InstanceState | None,
    *,
    provisioned: bool,
    recorded: str = "",
    published: str = "",
    node_ids: Iterable[str] = (),
) -> InstancePlan:
    """Return the meaning of an instance's state; None: the server does not know the instance any more.

    `recorded` is the provider id of the status, as the server named it before. `published` is the provider id of the spec: it stays if it
    is the id of a matched Node, and is replaced if it names another instance. `provisioned` was true before, and stays.
    """
    if state is None or is_gone(state.status):
        end = "the server does not know it any more" if state is None else f"it is {state.status}"
        return InstancePlan(
            False, MachineReason.SERVER_DELETED, f"the instance is gone: {end}", published, provisioned, ended=True
        )
    known = [published] if published else []
    bare = state.provider_id or recorded
    ids = pool_provider_ids([bare], published=known, node_ids=node_ids) if bare else ()
    provider_id = ids[0] if ids else ""
    runs = state.status == _RUNNING and bool(provider_id)
    if runs:
        return InstancePlan(True, MachineReason.RUNNING, "the instance runs", provider_id, True, settled=True)
    reason = MachineReason.STOPPED if state.status in _STOPS else MachineReason.STARTING
    message = f"the instance is {state.status or 'in no known state'}"
    if state.status == _RUNNING:
        message = "the instance runs, and the server does not know its provider id yet"
    return InstancePlan(False, reason, message, provider_id, provisioned)


def plan_status(observed: ObservedInstance, settings: MachineSettings) -> MachinePlan:
    """Return the plan of an NstanceMachine whose shard has responded: a hold, a deleted instance, or the instance's status.

    `spec.providerID` is written before `provisioned`.
    """
    machine, place, state, before = observed.machine, observed.place, observed.state, observed.machine.status
    if observed.group:
        return plan_hold(not_of_group(place, observed.group), settings)
    if observed.foreign:
        message = f"shard {place.shard} names the instance of another shard as this one: nothing is shown of it"
        return plan_hold(NotPlaced(MachineReason.PROVIDER_ERROR, message), settings)
    instance = _instance(observed)
    if instance.ended:
        return _plan_lost(instance.reason, instance.message)
    applies: tuple[Apply, ...] = ()
    if instance.provider_id:
        spec = {"providerID": instance.provider_id, "failureDomain": place.shard}
        applies = (Apply(NSTANCE_MACHINE.new(machine.name, machine.namespace, spec=spec), force=True),)
    draft = NstanceMachineStatus(
        instance_id=place.instance_id,
        shard=place.shard,
        failure_domain=place.shard,
        provider_id=(state.provider_id if state is not None else "") or before.provider_id,
        addresses=_addresses(instance, observed.nodes) or before.addresses,
        ready=instance.ready,
        initialization=Initialization(provisioned=True) if instance.provisioned else before.initialization,
    )
    return Plan(
        applies=applies,
        set_conditions=(_ready(instance.ready, instance.reason, instance.message),),
        draft=draft,
        outcome=RequeueAfter(settings.instance_poll if instance.settled else settings.instance_start_poll),
    )


def _instance(observed: ObservedInstance) -> InstancePlan:
    machine, before = observed.machine, observed.machine.status
    return plan_instance(
        observed.state,
        provisioned=before.initialization is not None and bool(before.initialization.provisioned),
        recorded=before.provider_id or "",
        published=machine.spec.provider_id or "",
        node_ids=[str(node.get("spec", "providerID", default="")) for node in observed.nodes],
    )


def node_of(observed: ObservedInstance) -> str:
    """Return the name of the Node that the Machine is to name, "" if none."""
    instance = _instance(observed)
    return "" if observed.refused or instance.ended else only_node_of(instance.provider_id, observed.nodes)


def plan_node_reference(node: str, owner: Object | None) -> MachinePlan:
    """Return the plan that writes the Node into the Machine, if the Machine names none yet.

    Cluster API itself only finds the Node with a connection to the cluster of the Nodes, and only watches Nodes if the control plane
    counts as initialized. An existing nodeRef stays: this patch has the resourceVersion of the Machine.
    """
    if owner is None or owner.metadata.deleting or owner.get("status", "nodeRef", default=None):
        return Plan()
    status = {"status": {"nodeRef": {"name": node}}}
    return Plan(patches=(Patch(MACHINE, status, expect=owner, subresource="status"),))


def only_node_of(provider_id: str, nodes: Iterable[Object]) -> str:
    """Return the name of the only Node that has exactly this provider id, "" if none or several have it.

    >>> only_node_of("aws:///z/i-0a", [])
    ''
    """
    if not provider_id:
        return ""
    matching = [node for node in nodes if node.get("spec", "providerID", default="") == provider_id]
    return matching[0].name if len(matching) == 1 and not matching[0].metadata.deleting else ""


def _addresses(instance: InstancePlan, nodes: Iterable[Object]) -> tuple[MachineAddress, ...]:
    """Return the addresses of the matched Node: the server reports none."""
    for node in nodes:
        if node.get("spec", "providerID", default="") == instance.provider_id:
            listed = node.get("status", "addresses", default=()) or ()
            return tuple(MachineAddress(type=str(item["type"]), address=str(item["address"])) for item in listed)
    return ()


# --- the end of the instance ----------------------------------------------------------------------------------------------------


def server_deleted(machine: NstanceMachine) -> bool:
    """Tell whether the status reports that the server deleted the instance."""
    condition = machine.find_condition(MachinesCondition.SERVER_DELETED)
    return condition is not None and condition.is_true


def plan_deleted_by_server(reason: str) -> MachinePlan:
    """Return the status after the server's event about the end of the instance, with the server's reason."""
    return _plan_lost(condition_reason(reason), f"the server deleted the instance: {reason or 'no reason'}")


def _plan_lost(reason: str, message: str) -> MachinePlan:
    """Return the status of a deleted instance; the next reconcile deletes the Machine."""
    return Plan(
        set_conditions=(
            _ready(False, MachineReason.SERVER_DELETED, message),
            ConditionUpdate(MachinesCondition.SERVER_DELETED, True, reason, message),
        ),
        draft=NstanceMachineStatus(ready=False),
        outcome=RequeueAfter(NEXT_STEP),
    )


def plan_end(machine: NstanceMachine, owner: Object | None) -> MachinePlan:
    """Return the plan that deletes the Machine of a deleted instance, or without a Machine the NstanceMachine."""
    if owner_of(machine) is None:
        return Plan(deletes=(Delete(NSTANCE_MACHINE, machine.name, machine.namespace, uid=machine.uid),))
    if owner is None or owner.metadata.deleting:
        return Plan()
    return Plan(deletes=(Delete(MACHINE, owner.name, machine.namespace, uid=owner.metadata.uid),))


def plan_waiting_deletion(message: str, settings: MachineSettings) -> MachinePlan:
    """Return the plan of a deleted NstanceMachine whose instance the server has not deleted yet."""
    return _not_ready(MachineReason.DELETE_FAILED, message, RequeueAfter(settings.unreachable_retry))


def _not_ready(reason: str, message: str, outcome: Outcome, draft: NstanceMachineStatus | None = None) -> MachinePlan:
    return Plan(set_conditions=(_ready(False, reason, message),), draft=draft, outcome=outcome)


def _ready(status: bool, reason: str, message: str) -> ConditionUpdate:
    return ConditionUpdate(MachinesCondition.READY, status, reason, message)


_REASON = re.compile(r"[^A-Za-z0-9]+")


def condition_reason(text: str) -> str:
    """Return the reason of a condition from a reason of a server.

    >>> condition_reason("spot-interruption: 2m"), condition_reason(""), condition_reason("42")
    ('SpotInterruption2m', 'ServerDeleted', 'ServerDeleted')
    """
    words = [word[:1].upper() + word[1:] for word in _REASON.split(text) if word]
    reason = "".join(words)[:256]
    return reason if reason[:1].isalpha() else MachineReason.SERVER_DELETED
