"""Decisions of a drain: the Node to empty, the pods that have to leave, and the Nodes whose instances may be deleted. Pure.

Source: https://github.com/kubernetes/kubectl/blob/master/pkg/drain/filters.go.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from konverge.objects import Object
from konverge.reconcilers.machines.drains.observe import ObservedNodes
from konverge.reconcilers.machines.instances.ownership import InstancePlace
from konverge.reconcilers.machines.shards.messages import DrainEvent
from konverge.reconcilers.machines.words import MachinesAnnotation, MachinesCondition, MachinesEvent

__all__ = [
    "EmptyNode",
    "NoNode",
    "NodeReport",
    "NodeStep",
    "NodeUnclear",
    "PodsLeft",
    "begin_report",
    "blocked_report",
    "drained_report",
    "node_step",
    "pods_left",
    "removable_instance",
]

_MIRROR: Final = "kubernetes.io/config.mirror"
_FINISHED: Final = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class EmptyNode:
    """Cordon this Node and evict its pods."""

    node: Object


@dataclass(frozen=True, slots=True)
class NoNode:
    """The instance has no Node, so its drain has ended."""


@dataclass(frozen=True, slots=True)
class NodeUnclear:
    """No Node is touched, for this reason."""

    problem: str


NodeStep: TypeAlias = EmptyNode | NoNode | NodeUnclear


class _Fate(enum.Enum):
    STAYS = "stays"
    ENDS = "ends"
    EVICT = "evict"


@dataclass(frozen=True, slots=True)
class PodsLeft:
    """The pods that a drain waits for."""

    evict: tuple[Object, ...] = ()
    ending: tuple[Object, ...] = ()
    """The pods that are being deleted already."""

    def __len__(self) -> int:
        return len(self.evict) + len(self.ending)


@dataclass(frozen=True, slots=True)
class NodeReport:
    """An Event about a Node that is drained."""

    reason: str
    message: str
    warning: bool = False


def node_step(provider_id: str, observed: ObservedNodes) -> NodeStep:
    """Return the next step of a drain by the Nodes of its instance. A server is trusted with the instances of its own shard only."""
    if not observed.nodes:
        return NoNode()
    if len(observed.nodes) > 1:
        names = ", ".join(sorted(node.name for node in observed.nodes))
        return NodeUnclear(f"provider id {provider_id} names several Nodes, so none is drained: {names}")
    if observed.foreign:
        return NodeUnclear(f"provider id {provider_id} is recorded for another shard, so its Node is not drained")
    return EmptyNode(observed.nodes[0])


def pods_left(pods: Iterable[Object]) -> PodsLeft:
    """Return the pods that a drain waits for: all but DaemonSet pods, mirror pods and finished pods."""
    fates = [(_fate(pod), pod) for pod in pods]
    return PodsLeft(
        tuple(pod for fate, pod in fates if fate is _Fate.EVICT),
        tuple(pod for fate, pod in fates if fate is _Fate.ENDS),
    )


def _fate(pod: Object) -> _Fate:
    metadata = pod.metadata
    owner = metadata.controller
    if _MIRROR in (metadata.annotations or {}) or pod.get("status", "phase", default="") in _FINISHED:
        return _Fate.STAYS
    if owner is not None and (owner.kind, owner.group) == ("DaemonSet", "apps"):
        return _Fate.STAYS
    return _Fate.ENDS if metadata.deleting else _Fate.EVICT


def begin_report(event: DrainEvent) -> NodeReport:
    """Return the Event of a drain whose Node is cordoned."""
    message = f"instance {event.instance_id} is to be deleted: {event.reason or 'no reason'}"
    return NodeReport(MachinesEvent.DRAINING, message)


def blocked_report(refusal: str) -> NodeReport:
    """Return the Event of a refused eviction."""
    return NodeReport(MachinesEvent.DRAIN_BLOCKED, refusal, warning=True)


def drained_report(event: DrainEvent) -> NodeReport:
    """Return the Event of a drain that left no pod."""
    return NodeReport(MachinesEvent.DRAINED, f"no pod is left; instance {event.instance_id} may be deleted")


def removable_instance(node: Object) -> InstancePlace | None:
    """Return the instance of a marked Node whose kubelet does not report; the Node is deleted after this instance."""
    ready = node.find_condition(MachinesCondition.READY)
    if node.metadata.deleting or (ready is not None and ready.is_true):
        return None
    return InstancePlace.parse(node.metadata.annotation(MachinesAnnotation.INSTANCE))
