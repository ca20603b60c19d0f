"""The planned state of the cluster: what the API server stores, and the planned writes over it. Pure, apart from its notifications.

Guarantees: an object's planned state is its stored state with each planned write in order; a writer's repeated apply replaces its earlier
apply, so that a field that left the intent leaves the object. A write that changes nothing creates no version and no event. Versions are
greater than every version that the server has shown, so that caches and barriers compare them as they compare the server's.

Caveats: the garbage collector and other controllers do not act on planned states.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from konverge.client.targets import ObjectId
from konverge.clock import rfc3339, wall_clock
from konverge.planning.documents import Document
from konverge.tasks import Broadcast

__all__ = ["Cause", "Overlay", "OverlayEvent", "PlannedObject", "Step"]

Step: TypeAlias = Callable[[Document], Document]
"""One planned write: from the state before it to the state after it."""


class Cause(NamedTuple):
    """The reconcile that wrote."""

    controller: str
    key: str
    reasons: tuple[str, ...] = ()


class OverlayEvent(NamedTuple):
    """One change of an object, for watches."""

    version: int
    object_id: ObjectId
    before: Document | None
    after: Document | None
    last: Document
    """The state that a watch sends: the new state, or the last state of a deleted object, at this version."""


@dataclass(slots=True, eq=False)
class PlannedObject:
    """One object that a reconcile writes."""

    object_id: ObjectId
    stored: Document | None
    """The server's state; None if the object does not exist, or may not be read."""
    readable: bool = True
    origin: Document | None = None
    """The state that the steps begin with: the stored state, or None after a planned deletion."""
    current: Document | None = None
    generation: int = 1
    identity: dict[str, str] = field(default_factory=dict)
    """The uid and creationTimestamp of an object that the plan creates: each dry run of a create returns others."""
    steps: dict[Hashable, Step] = field(default_factory=dict)
    causes: dict[tuple[str, str], Cause] = field(default_factory=dict)
    """The first reconcile of each key that changed the object."""
    replaced: bool = False
    """Whether the plan deletes the stored object and creates another of its name."""

    @property
    def version(self) -> str:
        """The resourceVersion of the planned state."""
        return "" if self.current is None else str(self.current["metadata"].get("resourceVersion", ""))


_DERIVED: Final = frozenset({"resourceVersion", "managedFields"})


def _content(document: Document | None) -> Any:
    """Return an object without its version and the times of its field managers: equal contents are one version."""
    if document is None:
        return None
    metadata = document["metadata"]
    managed = [
        {name: value for name, value in entry.items() if name != "time"}
        for entry in metadata.get("managedFields") or ()
    ]
    plain = {name: value for name, value in metadata.items() if name not in _DERIVED}
    return {**document, "metadata": plain}, managed


def _desired(document: Document) -> Document:
    """Return the part of an object whose change raises its generation."""
    return {name: value for name, value in document.items() if name not in {"metadata", "status"}}


def _has_ended(document: Document) -> bool:
    """Return whether the last finalizer of an object under deletion was removed; a pod has its grace period."""
    metadata = document["metadata"]
    waits = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
    return bool(metadata.get("deletionTimestamp")) and not waits


class Overlay:
    """The planned objects, and the events of their changes."""

    def __init__(self) -> None:
        self.objects: dict[ObjectId, PlannedObject] = {}
        self.events: list[OverlayEvent] = []
        self.news = Broadcast()
        """Notified at each event."""
        self._version = 0
        self._listed: dict[tuple[str, str], int] = {}

    # --- what the server showed ---------------------------------------------------------------------------------------------

    def saw_version(self, version: str) -> None:
        """Note a version of the server."""
        if version.isdecimal():
            self._version = max(self._version, int(version))

    def saw_list(self, group: str, plural: str, version: str) -> None:
        """Note the version of a list."""
        self.saw_version(version)
        if version.isdecimal():
            self._listed[group, plural] = max(self._listed.get((group, plural), 0), int(version))

    def touch(self, object_id: ObjectId, stored: Document | None, *, readable: bool = True) -> PlannedObject:
        """Return the planned object, which begins with the server's state.

        A state that is later than the caches is an event for them: no watch of the server runs.
        """
        planned = PlannedObject(object_id, stored, readable, origin=stored, current=stored)
        self.objects[object_id] = planned
        if stored is not None:
            planned.generation = stored["metadata"].get("generation", 1)
            version = planned.version
            self.saw_version(version)
            listed = self._listed.get(object_id[:2])
            if listed is not None and version.isdecimal() and int(version) > listed:
                self.refresh(planned)
        return planned

    def refresh(self, planned: PlannedObject) -> None:
        """Send the present state to the caches once more, at a new version."""
        if planned.current is not None:
            self._put(planned, planned.current, planned.current)

    # --- planned writes ------------------------------------------------------------------------------------------------------

    def state_after(self, planned: PlannedObject, writer: Hashable, step: Step) -> Document:
        """Return the state that a write would leave, without planning the write."""
        state = dict(planned.origin or {})
        for other, earlier in planned.steps.items():
            if other != writer:
                state = earlier(state)
        return self._identified(planned, step(state))

    def write(self, planned: PlannedObject, writer: Hashable, step: Step, cause: Cause | None) -> Document:
        """Plan a write and return the state after it, as the server would return it."""
        before, state = planned.current, self.state_after(planned, writer, step)
        planned.steps.pop(writer, None)
        planned.steps[writer] = step
        if before is None:
            planned.replaced = planned.stored is not None
        elif _content(state) == _content(before):
            return before
        elif _desired(state) != _desired(before):
            planned.generation += 1
        if "generation" in state["metadata"]:
            state["metadata"]["generation"] = planned.generation
        self._note(planned, cause)
        return self._put(planned, before, state)

    def delete(self, planned: PlannedObject, cause: Cause | None) -> Document | None:
        """Plan a deletion; return the object if finalizers hold it, None if it is deleted."""
        assert planned.current is not None
        if not planned.current["metadata"].get("finalizers"):
            self._note(planned, cause)
            self._remove(planned, planned.current)
            return None
        moment = planned.current["metadata"].get("deletionTimestamp") or rfc3339(wall_clock())

        def deleting(state: Document) -> Document:
            return {**state, "metadata": {**state["metadata"], "deletionTimestamp": moment}}

        return self.write(planned, "delete", deleting, cause)

    def _note(self, planned: PlannedObject, cause: Cause | None) -> None:
        if cause is not None:
            planned.causes.setdefault((cause.controller, cause.key), cause)

    def _identified(self, planned: PlannedObject, state: Document) -> Document:
        """Return a state with the metadata that the server would set."""
        metadata = {**(state.get("metadata") or {}), "name": planned.object_id.name}
        if planned.object_id.namespace:
            metadata["namespace"] = planned.object_id.namespace
        if planned.origin is None:
            if not planned.identity:
                planned.identity.update(
                    uid=str(metadata.get("uid") or f"planned-{len(self.objects)}"),
                    creationTimestamp=str(metadata.get("creationTimestamp") or rfc3339(wall_clock())),
                )
            metadata.update(planned.identity)
        return {**state, "metadata": metadata}

    def _put(self, planned: PlannedObject, before: Document | None, state: Document) -> Document:
        self._version += 1
        state = {**state, "metadata": {**state["metadata"], "resourceVersion": str(self._version)}}
        if _has_ended(state):
            return self._remove(planned, state)
        planned.current = state
        self._send(OverlayEvent(self._version, planned.object_id, before, state, state))
        return state

    def _remove(self, planned: PlannedObject, last: Document) -> Document:
        before = planned.current
        self._version += 1
        last = {**last, "metadata": {**last["metadata"], "resourceVersion": str(self._version)}}
        planned.origin = planned.current = None
        planned.steps.clear()
        planned.identity.clear()
        planned.generation = 1
        self._send(OverlayEvent(self._version, planned.object_id, before, None, last))
        return last

    def _send(self, event: OverlayEvent) -> None:
        self.events.append(event)
        self.news.notify()
