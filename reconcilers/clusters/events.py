"""Events about conditions of objects: from an object before and after a change, and the bounded buffer that holds them. Pure.

Guarantees: the key of an event has the time of the transition, so a condition that flaps within one generation gives as many events
as it had transitions. Only objects that a control plane manages are reported.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from konverge.conditions import Condition
from konverge.objects import Metadata, Object
from konverge.reconcilers.clusters.protocol import ObjectIdentity, StatusEvent
from konverge.reconcilers.shared.words import ControlPlaneLabel

__all__ = ["EventBuffer", "deletion", "managed", "snapshot", "transitions"]

_MOST_MESSAGE = 1024


def managed(metadata: Metadata) -> bool:
    """Tell whether a control plane manages an object."""
    return metadata.label(ControlPlaneLabel.MANAGED_BY) == ControlPlaneLabel.CONTROL_PLANE


def _reference(object_: Object) -> ObjectIdentity:
    metadata = object_.metadata
    return ObjectIdentity(
        api_version=object_.api_version,
        kind=object_.kind_name,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        generation=metadata.generation,
    )


def _event(object_: Object, condition: Condition, type_: str) -> StatusEvent:
    when = str(condition.last_transition_time or "")
    about = _reference(object_)
    # Times have whole seconds: the version distinguishes two transitions within one second.
    version = f"/{object_.metadata.resource_version}" if type_ == "transition" else ""
    return StatusEvent.model_validate(
        {
            "key": f"{about.kind}/{about.namespace}/{about.name}/{about.uid}/{condition.type}={condition.status}"
            f"/{condition.reason}@{about.generation}/{when}{version}",
            "type": type_,
            "object": about,
            "condition": condition.type,
            "status": condition.status,
            "reason": condition.reason,
            "message": condition.message[:_MOST_MESSAGE],
            "last_transition_time": when,
        }
    )


def _mark(condition: Condition) -> tuple[object, ...]:
    return (condition.status, condition.reason, condition.last_transition_time)


def transitions(old: Object | None, new: Object) -> Iterator[StatusEvent]:
    """Yield an event for each condition that is new, or whose status, reason or time of transition changed."""
    before = {} if old is None else {condition.type: _mark(condition) for condition in old.conditions}
    for condition in new.conditions:
        if before.get(condition.type) != _mark(condition):
            yield _event(new, condition, "transition")


def snapshot(objects: Iterable[Object]) -> Iterator[StatusEvent]:
    """Yield an event for each condition of these objects, if a control plane manages them."""
    for object_ in sorted(objects, key=lambda object_: (object_.kind_name, object_.namespace, object_.name)):
        if managed(object_.metadata):
            for condition in object_.conditions:
                yield _event(object_, condition, "snapshot")


def deletion(gone: Object) -> StatusEvent:
    """Return the event of a deleted object."""
    about = _reference(gone)
    return StatusEvent(
        key=f"{about.kind}/{about.namespace}/{about.name}/{about.uid}/deleted", type="deleted", object=about
    )


class EventBuffer:
    """A bounded queue of events that drops the oldest waiting events.

    The batch that is being sent does not wait. It stays unchanged until its response, so a dropped event was never sent, and no event
    counts as dropped that may have arrived.

    >>> buffer = EventBuffer(1)
    >>> len(buffer), buffer.dropped
    (0, 0)
    """

    def __init__(self, capacity: int, identity: str = "") -> None:
        self.capacity = capacity
        self.identity = identity
        """The name of this buffer, so that the control plane can distinguish its numbers from another buffer's."""
        self.dropped = 0
        """Events dropped since the buffer was created."""
        self.reported = 0
        """The dropped events that the control plane knows of."""
        self._waiting: deque[StatusEvent] = deque()
        self._batch: tuple[StatusEvent, ...] = ()

    def __len__(self) -> int:
        return len(self._batch) + len(self._waiting)

    @property
    def overflowed(self) -> bool:
        """Whether events were dropped whose loss was not reported yet."""
        return self.dropped > self.reported

    def add(self, event: StatusEvent) -> None:
        """Append an event; drops the oldest waiting event if too many wait."""
        self._waiting.append(event)
        if len(self._waiting) > self.capacity:
            self._waiting.popleft()
            self.dropped += 1

    @contextmanager
    def sending(self, count: int) -> Iterator[tuple[tuple[StatusEvent, ...], int]]:
        """Pass up to `count` events, and the number of dropped events to report with them, to a block that sends them.

        The events leave the buffer when the block ends. After an error the same events are passed again.
        """
        if not self._batch:
            self._batch = tuple(self._waiting.popleft() for _ in range(min(count, len(self._waiting))))
        dropped = self.dropped
        yield self._batch, dropped
        self._batch, self.reported = (), dropped
