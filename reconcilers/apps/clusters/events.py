"""Events about conditions of objects: from an object before and after a change, and the bounded buffer that holds them. Pure.

Guarantees: the key of an event has the time of the transition, so a condition that flaps within one generation gives as many events
as it had transitions. Only objects that a control plane manages are reported.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice

from konverge.conditions import Condition
from konverge.objects import Metadata, Object
from konverge.reconcilers.apps.clusters.protocol import ObjectIdentity, StatusEvent
from konverge.reconcilers.apps.words import Label

__all__ = ["EventBuffer", "deletion", "managed", "snapshot", "transitions"]

_MOST_MESSAGE = 1024


def managed(metadata: Metadata) -> bool:
    """Tell whether a control plane manages an object."""
    return metadata.label(Label.MANAGED_BY) == Label.CONTROL_PLANE


def _reference(found: Object) -> ObjectIdentity:
    metadata = found.metadata
    return ObjectIdentity(
        api_version=found.api_version,
        kind=found.kind_name,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        generation=metadata.generation,
    )


def _event(found: Object, condition: Condition, type_: str) -> StatusEvent:
    when = str(condition.last_transition_time or "")
    about = _reference(found)
    # Times have whole seconds: the version tells two transitions of one second apart.
    version = f"/{found.metadata.resource_version}" if type_ == "transition" else ""
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
    before = {} if old is None else {one.type: _mark(one) for one in old.conditions}
    for condition in new.conditions:
        if before.get(condition.type) != _mark(condition):
            yield _event(new, condition, "transition")


def snapshot(objects: Iterable[Object]) -> Iterator[StatusEvent]:
    """Yield an event for each condition of these objects, if a control plane manages them."""
    for found in sorted(objects, key=lambda one: (one.kind_name, one.namespace, one.name)):
        if managed(found.metadata):
            for condition in found.conditions:
                yield _event(found, condition, "snapshot")


def deletion(gone: Object) -> StatusEvent:
    """Return the event of an object that is gone."""
    about = _reference(gone)
    return StatusEvent(
        key=f"{about.kind}/{about.namespace}/{about.name}/{about.uid}/deleted", type="deleted", object=about
    )


class EventBuffer:
    """A bounded queue of events that drops the oldest.

    >>> buffer = EventBuffer(1)
    >>> len(buffer), buffer.dropped
    (0, 0)
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.dropped = 0
        """Events dropped whose loss was not reported yet. One that is dropped while it is being sent counts only if the sending fails."""
        self._events: deque[tuple[int, StatusEvent]] = deque()
        self._number = 0
        self._sending = 0
        """The number of the last event that is being sent, 0 if none is."""
        self._in_doubt = 0
        """Events that were dropped while they were being sent."""

    def __len__(self) -> int:
        return len(self._events)

    @property
    def overflowed(self) -> bool:
        """Whether events were dropped whose loss was not reported yet."""
        return self.dropped > 0

    def add(self, event: StatusEvent) -> None:
        """Append an event; drops the oldest one if the buffer is full."""
        self._number += 1
        self._events.append((self._number, event))
        if len(self._events) > self.capacity:
            number, _ = self._events.popleft()
            if number <= self._sending:
                self._in_doubt += 1
            else:
                self.dropped += 1

    @contextmanager
    def sending(self, count: int) -> Iterator[tuple[tuple[StatusEvent, ...], int]]:
        """Give up to `count` events, and the number of dropped ones to report with them, to a block that sends them.

        They leave the buffer when the block ends. After an error they stay, and those of them that were dropped meanwhile are lost.
        """
        found, dropped = list(islice(self._events, count)), self.dropped
        self._sending = found[-1][0] if found else 0
        try:
            yield tuple(event for _, event in found), dropped
        except BaseException:
            self.dropped += self._in_doubt
            raise
        else:
            while self._events and self._events[0][0] <= self._sending:
                self._events.popleft()
            self.dropped -= dropped
        finally:
            self._sending = self._in_doubt = 0
