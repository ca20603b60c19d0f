"""The demand of a Pod, its state, and the objects that were created for it. Pure."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from konverge.objects import Metadata, Object
from konverge.reconcilers.machines.words import MachinesAnnotation, MachinesLabel

__all__ = [
    "LONGEST_LABEL",
    "Demand",
    "MadeObject",
    "PodRef",
    "PodState",
    "demand_of",
    "made_object",
    "pod_state",
]

LONGEST_LABEL: Final = 63

_ENDED: Final = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True, order=True)
class PodRef:
    """A Pod, also after its deletion."""

    namespace: str
    name: str
    uid: str

    @property
    def path(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"


class PodState(enum.Enum):
    """The state of a Pod, as far as its instance depends on it."""

    WAITING = "waiting"
    """No Node was chosen for it yet."""
    SCHEDULED = "scheduled"
    """The Pod has a Node, or is being deleted: it neither gets an instance nor loses an instance."""
    ENDED = "ended"
    """The Pod finished, or does not exist any more."""


@dataclass(frozen=True, slots=True)
class Demand:
    """The instance that a Pod requests."""

    pod: PodRef
    group: str
    instance_type: str = ""


@dataclass(frozen=True, slots=True)
class MadeObject:
    """A Machine or an NstanceMachine; `pod` is None if it was not created for a Pod."""

    name: str
    uid: str
    pod: PodRef | None = None
    deleting: bool = False


def _annotated(metadata: Metadata, names: Iterable[str]) -> str:
    return next((value for name in names if (value := metadata.annotation(name).strip())), "")


def demand_of(metadata: Metadata) -> Demand | None:
    """Return the instance that a Pod requests; None if it requests none."""
    group = _annotated(metadata, MachinesAnnotation.ON_DEMAND_GROUPS)
    if not group:
        return None
    pod = PodRef(metadata.namespace, metadata.name, metadata.uid)
    return Demand(pod, group, _annotated(metadata, MachinesAnnotation.ON_DEMAND_TYPES))


def pod_state(pod: Object | None, uid: str) -> PodState:
    """Return the state of the Pod with this uid from the object that the API server has under its name.

    A Pod that is being deleted may still run on its instance: it counts as scheduled until its deletion.
    """
    if pod is None or pod.metadata.uid != uid or pod.get("status", "phase", default="") in _ENDED:
        return PodState.ENDED
    return PodState.SCHEDULED if pod.metadata.deleting or pod.get("spec", "nodeName", default="") else PodState.WAITING


def made_object(metadata: Metadata) -> MadeObject:
    """Return an NstanceMachine or a Machine as the decision sees it."""
    namespace, _, name = metadata.annotation(MachinesAnnotation.POD).partition("/")
    shown = metadata.label(MachinesLabel.POD_NAME)
    if not name and len(shown) < LONGEST_LABEL:  # a longer name may be cut, and would name no Pod
        namespace, name = metadata.label(MachinesLabel.POD_NAMESPACE), shown
    uid = metadata.label(MachinesLabel.POD_UID)
    return MadeObject(metadata.name, metadata.uid, PodRef(namespace, name, uid) if uid else None, metadata.deleting)
