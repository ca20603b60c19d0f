"""Custom objects in another version, by the webhook of their definition: the shell that calls it, and a view of the store in one version.

Guarantees: an object in the wanted version is not sent. LIST and WATCH convert each stored object once a version, as a
server's watch cache does; GET and writes convert each time. A watch gets events in order, after their conversion; a conversion that
fails ends the watch. A resource without a conversion webhook passes through none of this. Source: apiextensions
`pkg/apiserver/customresource_handler.go` (one storage with a cache of its own for each version).
"""

from __future__ import annotations

import asyncio
import copy
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from konverge_testing.apiserver import schemas
from konverge_testing.apiserver.admission import CallFailedError, Webhooks
from konverge_testing.apiserver.apply import Views
from konverge_testing.apiserver.conversion import ConversionWebhook, converted, failed, review_for, unknown_version
from konverge_testing.apiserver.reading import as_is, stored
from konverge_testing.apiserver.registry.pipeline import as_stored, as_version, read
from konverge_testing.apiserver.registry.request import ResourceRequest
from konverge_testing.apiserver.resources import Resource, Version
from konverge_testing.apiserver.statuses import StatusError
from konverge_testing.apiserver.storage import Callback, Entry, Event, ResourceId, Store, encoded

if TYPE_CHECKING:
    from konverge_testing.apiserver.registry.core import Registry

__all__ = [
    "ConvertedStore",
    "Converter",
    "NotConverted",
    "VersionCache",
    "read_in",
    "through_storage",
    "with_views",
    "written",
]

Data = dict[str, Any]

T = TypeVar("T")

_ENCODE: Final = msgspec.json.Encoder().encode
_SPARE: Final = 1000
"""The maximum number of past objects whose conversion is cached."""


class Converter:
    """Calls conversion webhooks."""

    def __init__(self, webhooks: Webhooks, uid: Callable[[], str]) -> None:
        self._webhooks = webhooks
        self._uid = uid

    async def convert(self, data: Data, resource: Resource, version: Version) -> Data:
        """Return an object in another version; the argument is not changed. Raises StatusError (500) as the real server does."""
        wanted = resource.api_version(version.name)
        if data["apiVersion"] == wanted:
            return data
        if resource.written_in(data["apiVersion"]) is None:
            raise unknown_version(data["apiVersion"])
        webhook, uid = ConversionWebhook.of(resource), self._uid()
        try:
            answer = await self._webhooks.ask(webhook, review_for(webhook, copy.deepcopy(data), wanted, uid))
        except CallFailedError as error:
            raise failed(data, error.why.removeprefix("failed to call webhook: ")) from error
        found = converted(webhook, answer, uid, data, wanted)
        schemas.prune(version.schema, found)
        return found


async def read_in(registry: Registry, entry: Entry, resource: Resource, version: Version) -> Data:
    """Return a stored object in a version of its resource."""
    if resource.conversion is None:
        return read(entry, resource, version)
    return await registry.converter.convert(stored(entry, resource), resource, version)


async def written(registry: Registry, data: Data, resource: Resource) -> Data:
    """Return an object as it is to be stored; the argument is not changed."""
    if resource.conversion is None:
        return as_stored(data, resource)
    found = await registry.converter.convert(data, resource, resource.storage)
    return copy.deepcopy(data) if found is data else found


async def through_storage(registry: Registry, data: Data, resource: Resource, version: Version) -> Data:
    """Return an object as a read would return it after its storage; the response to a dry run."""
    if not resource.custom or len(resource.versions) == 1:
        return data
    if resource.conversion is None:
        return as_version(as_stored(data, resource), resource, version)
    stored_form = await registry.converter.convert(data, resource, resource.storage)
    return await registry.converter.convert(stored_form, resource, version)


class _NotShown(Exception):
    """An object must be converted first."""

    def __init__(self, data: Data, api_version: str) -> None:
        super().__init__(api_version)
        self.data = data
        self.api_version = api_version


async def with_views(registry: Registry, request: ResourceRequest, make: Callable[[], T]) -> T:
    """Compute a result that reads objects in other versions: computed again after each missing conversion."""
    resource, found = request.resource, dict[tuple[bytes, str], Data]()

    def show(data: Data, api_version: str) -> Data:
        if data.get("apiVersion") == api_version:
            return data
        known = found.get((_ENCODE(data), api_version))
        if known is None:
            raise _NotShown(data, api_version)
        return copy.deepcopy(known)

    request.views = Views({resource.api_version(one.name): one.schema for one in resource.versions}, show)
    while True:
        try:
            return make()
        except _NotShown as missing:
            version = resource.written_in(missing.api_version)
            assert version is not None, "owners of unknown versions are dropped before"
            key = _ENCODE(missing.data), missing.api_version
            found[key] = await registry.converter.convert(missing.data, resource, version)


class NotConverted(Exception):
    """Stored objects are not in the cache of a version: they must be converted first, and then the read runs again."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        super().__init__(f"{len(entries)} objects are not converted yet")
        self.entries = entries


class VersionCache:
    """The stored objects of a resource in one version, by the version of their write: current objects and recent past objects."""

    def __init__(self, registry: Registry, resource: Resource, version: Version) -> None:
        self._registry = registry
        self.resource = resource
        self.version = version
        self._found: dict[int, Entry] = {}
        self._room = _SPARE
        self._turn = asyncio.Lock()

    def known(self, entry: Entry) -> Entry | None:
        """Return a stored object in the version, or None if it is not converted yet."""
        return entry if as_is(entry, self.resource, self.version) else self._found.get(entry.version)

    async def convert(self, entry: Entry) -> Entry:
        """Return a stored object in the version."""
        async with self._turn:
            found = self.known(entry)
            if found is None:
                found = self._found[entry.version] = await self._converted(entry)
                if len(self._found) > self._room:
                    self._forget()
            return found

    def _forget(self) -> None:
        """Drop objects that are neither stored any more nor among the newest."""
        stored_now = {entry.version for entry in self._registry.store.list(self.resource.id)}
        kept = stored_now.union(sorted(self._found)[-_SPARE:])
        self._found = {number: entry for number, entry in self._found.items() if number in kept}
        self._room = 2 * len(kept) + _SPARE

    async def _converted(self, entry: Entry) -> Entry:
        data = await self._registry.converter.convert(stored(entry, self.resource), self.resource, self.version)
        made = encoded(entry.resource, data, entry.version, self.version.schema)
        return made.moved(entry.version, deleted=True) if entry.deleted else made


class ConvertedStore:
    """A view of a store for one LIST or WATCH: the objects of its resource in one version. Reads raise NotConverted."""

    def __init__(self, store: Store, cache: VersionCache) -> None:
        self._store = store
        self._cache = cache
        self.observers = store.observers
        self.on_failure: Callable[[], None] = _nothing
        """Called if an event cannot be converted; no event follows."""
        self._pending: deque[Event] = deque()
        self._task: asyncio.Task[None] | None = None

    @property
    def version(self) -> int:
        """The version of the last delivered event."""
        return self._pending[0].version - 1 if self._pending else self._store.version

    def list(self, resource: ResourceId, namespace: str | None = None) -> Sequence[Entry]:
        """Return the objects of a namespace, or (None) all of them, sorted by key."""
        return self._all(self._store.list(resource, namespace))

    def at(self, resource: ResourceId, version: int) -> Sequence[Entry]:
        """Return all objects as they were at a version."""
        return self._all(self._store.at(resource, version))

    def since(self, resource: ResourceId, version: int) -> Sequence[Event]:
        """Return the events after a version, oldest first."""
        events = self._store.since(resource, version)
        self._all([one for event in events for one in (event.entry, event.previous) if one is not None])
        return [event for event in map(self._event, events) if event is not None]

    def subscribe(self, resource: ResourceId, callback: Callback) -> Callable[[], None]:
        """Subscribe a function to commits: it is called after each commit, in order, once its objects are converted."""

        def told(event: Event) -> None:
            known = None if self._pending else self._event(event)
            if known is not None:
                callback(known)
                return
            self._pending.append(event)
            if self._task is None:
                self._task = asyncio.get_running_loop().create_task(self._tell(callback))

        leave = self._store.subscribe(resource, told)

        def unsubscribe() -> None:
            leave()
            self._pending.clear()
            if self._task is not None:
                self._task.cancel()

        return unsubscribe

    async def _tell(self, callback: Callback) -> None:
        try:
            while self._pending:
                event = self._pending[0]
                try:
                    for one in (event.entry, event.previous):
                        if one is not None:
                            await self._cache.convert(one)
                except StatusError:
                    self.on_failure()
                    return
                if self._pending and (known := self._event(event)) is not None:
                    self._pending.popleft()
                    callback(known)
        finally:
            self._task = None

    def _all(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        found = [self._cache.known(entry) for entry in entries]
        missing = [entry for entry, known in zip(entries, found, strict=True) if known is None]
        if missing:
            raise NotConverted(missing)
        return [entry for entry in found if entry is not None]

    def _event(self, event: Event) -> Event | None:
        entry = self._cache.known(event.entry)
        previous = None if event.previous is None else self._cache.known(event.previous)
        if entry is None or (event.previous is not None and previous is None):
            return None
        return Event(event.type, entry, previous)


def _nothing() -> None:
    return None
