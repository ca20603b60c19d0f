"""Following objects from a script: a list, then a watch that continues after interruptions.

    async for event in client.follow(POD, "web", labels="app=shop"):
        print(event.type, event.object.name)

Guarantees: the first events are ADDED for each object of a list. Each later event differs from the event before of the same object in uid
or resourceVersion. A watch that ends or is cut continues from the last version; if the server has forgotten that version (410), the
objects are listed again, and each object that disappeared in between is an event DELETED with its last known state. Attempts without a
result wait for each other with the backoff of the client.

Caveats: each followed object stays in memory. Reconcilers read the caches of their controllers, which all controllers share.

The protocol: https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, Generic, Literal, TypeVar

import msgspec

from konverge.client.resources import Listing, WatchQuery
from konverge.client.responses import WatchEvent, decode_metadata, decode_object
from konverge.client.status import status_error
from konverge.errors import Expired, ServerFailure, TooManyRequests, Unauthorized, Unreachable
from konverge.kinds import Kind, Resource, kind_of
from konverge.objects import Metadata
from konverge.selectors import LabelSelector

if TYPE_CHECKING:
    from konverge.client.read_verbs import ReadVerbs

__all__ = ["ObjectEvent", "follow", "wait_until", "wait_until_deleted"]

R = TypeVar("R", bound=Resource)

EventType = Literal["ADDED", "MODIFIED", "DELETED"]

_TYPES: Final = ("ADDED", "MODIFIED", "DELETED")
_TIMEOUT: Final = 300
"""Seconds that the server keeps a watch open."""
_IDLE: Final = 75.0
"""Seconds without a byte after which the connection counts as dead; the server sends a bookmark about each minute."""
_SHORT: Final = 1.0
"""Seconds: a shorter watch without an event counts as a failure, as in client-go's reflector ("very short watch")."""
_INTERRUPTIONS: Final = (Unreachable, ServerFailure, TooManyRequests, Unauthorized)


class ObjectEvent(msgspec.Struct, Generic[R], frozen=True):
    """One change of one object. The object of DELETED is its last known state."""

    type: EventType
    object: R


class _Known(Generic[R]):
    """The last known state of each followed object."""

    def __init__(self) -> None:
        self._objects: dict[tuple[str, str], R] = {}

    def listed(self, objects: list[R]) -> list[ObjectEvent[R]]:
        """Return the events that lead from the known objects to the listed objects."""
        left = dict(self._objects)
        events = []
        for object_ in objects:
            left.pop((object_.namespace, object_.name), None)
            events += self.changed(object_)
        return [*(deleted for object_ in left.values() for deleted in self.deleted(object_)), *events]

    def changed(self, object_: R) -> list[ObjectEvent[R]]:
        """Return the events of an object that exists: none for a known version, two for a successor of the same name."""
        place, now = (object_.namespace, object_.name), object_.metadata
        known = self._objects.get(place)
        if known is None:
            self._objects[place] = object_
            return [ObjectEvent("ADDED", object_)]
        before = known.metadata
        if (before.uid, before.resource_version) == (now.uid, now.resource_version):
            return []
        if before.uid != now.uid:
            return [*self.deleted(known), *self.changed(object_)]
        self._objects[place] = object_
        return [ObjectEvent("MODIFIED", object_)]

    def deleted(self, object_: R) -> list[ObjectEvent[R]]:
        """Return the event of a deleted object; none if it was not known."""
        known = self._objects.pop((object_.namespace, object_.name), None)
        return [] if known is None else [ObjectEvent("DELETED", object_)]


async def _states(
    client: ReadVerbs, kind: Kind[R], namespace: str | None, *, labels: str, fields: str
) -> AsyncGenerator[Listing[R] | WatchEvent]:
    """Yield the list of the selected objects, then the events of the watch; another list if the server has forgotten the version."""
    LabelSelector.given(labels, f"watch of {kind.kind}")
    info = await client.resource(kind)
    version, failures = "", 0
    while True:
        try:
            if not version:
                listing: Listing[R] = await client.list(kind, namespace, labels=labels, fields=fields)
                yield listing
                version = listing.resource_version
            query = WatchQuery(
                namespace=namespace,
                labels=labels,
                fields=fields,
                resource_version=version,
                timeout_seconds=_TIMEOUT,
                idle_seconds=_IDLE,
            )
            async with client.watch(info, query) as stream:
                async for batch in stream:
                    for event in batch:
                        if event.type == "ERROR":
                            raise status_error(event.object, f"watch {kind.kind}")
                        failures = 0
                        version = decode_metadata(bytes(event.object)).resource_version
                        if event.type in _TYPES:
                            yield event
                if not stream.events_read and stream.last_read_at - stream.opened_at < _SHORT:
                    raise Unreachable(f"watch {kind.kind}: it ended at once")
        except (Expired, *_INTERRUPTIONS) as error:
            if isinstance(error, Expired):
                version = ""
            failures += 1
            await asyncio.sleep(client.backoff(error, failures))


async def follow(
    client: ReadVerbs, what: Kind[R] | type[R], namespace: str | None, *, labels: str, fields: str
) -> AsyncGenerator[ObjectEvent[R]]:
    """Yield the events of the selected objects, without end (`Client.follow`)."""
    kind, known = kind_of(what), _Known[R]()
    async with aclosing(_states(client, kind, namespace, labels=labels, fields=fields)) as states:
        async for state in states:
            if isinstance(state, Listing):
                events = known.listed(state.items)
            else:
                object_ = kind.decode(decode_object(state.object))
                events = known.deleted(object_) if state.type == "DELETED" else known.changed(object_)
            for event in events:
                yield event


async def wait_until(
    client: ReadVerbs,
    what: Kind[R] | type[R],
    name: str,
    predicate: Callable[[R], bool],
    namespace: str,
    *,
    timeout: float,
) -> R:
    """Return the first state of an object that fulfils the predicate (`Client.wait_until`)."""
    kind, last = kind_of(what), "it does not exist"
    events = follow(client, kind, namespace or None, labels="", fields=f"metadata.name={name}")
    timer = asyncio.timeout(timeout)
    try:
        async with timer, aclosing(events):
            async for event in events:
                if event.type == "DELETED":
                    last = "it was deleted"
                    continue
                if predicate(event.object):
                    return event.object
                last = f"its resourceVersion is {event.object.metadata.resource_version}"
    except TimeoutError:
        if not timer.expired():  # the predicate's own
            raise
        raise _timed_out(kind, name, namespace, "the predicate does not hold", timeout, last) from None
    raise AssertionError("the events have no end")


async def wait_until_deleted(
    client: ReadVerbs, what: Kind[R] | type[R], name: str, namespace: str, *, uid: str, timeout: float
) -> None:
    """Return as soon as the object does not exist, or another object has its name (`Client.wait_until_deleted`)."""
    kind, last = kind_of(what), "no list has arrived"
    states = _states(client, kind, namespace or None, labels="", fields=f"metadata.name={name}")
    try:
        async with asyncio.timeout(timeout), aclosing(states):
            async for state in states:
                metadata = _metadata_of(state)
                if metadata is None or (uid and metadata.uid != uid):
                    return
                last = _life_of(metadata)
    except TimeoutError:
        raise _timed_out(kind, name, namespace, "it still exists", timeout, last) from None


def _metadata_of(state: Listing[R] | WatchEvent) -> Metadata | None:
    """Return the metadata of the only object of a list or an event, None if the object does not exist any more."""
    if isinstance(state, Listing):
        return state.items[0].metadata if state.items else None
    return None if state.type == "DELETED" else decode_metadata(bytes(state.object))


def _life_of(metadata: Metadata) -> str:
    finalizers = ", ".join(metadata.finalizers)
    if not metadata.deleting:
        return "it is not being deleted"
    return f"it is being deleted, and its finalizers are {finalizers}" if finalizers else "it is being deleted"


def _timed_out(kind: Kind[R], name: str, namespace: str, what: str, timeout: float, last: str) -> TimeoutError:
    path = f"{namespace}/{name}" if namespace else name
    return TimeoutError(f"{kind.kind} {path}: {what} after {timeout:g} s; {last}")
