"""GET, LIST and WATCH of the served resources: `reading` decides, and this module encodes its results in the requested form.

Bodies consist of stored bytes; an object is decoded only for another version, for metadata only, or for a table.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final, TypeVar
from weakref import WeakSet

import msgspec

from konverge_testing.apiserver.apply.shapes import blank
from konverge_testing.apiserver.reading import (
    Watch,
    as_is,
    bookmark_of,
    list_body,
    list_page,
    raw_of,
    read_one,
    read_options,
)
from konverge_testing.apiserver.registry.converting import ConvertedStore, NotConverted, VersionCache, read_in
from konverge_testing.apiserver.registry.core import Data, Registry, check_name
from konverge_testing.apiserver.registry.forms import Form, form_of, table_version
from konverge_testing.apiserver.registry.pipeline import read
from konverge_testing.apiserver.registry.request import ResourceRequest
from konverge_testing.apiserver.requests import Response
from konverge_testing.apiserver.resources import Resource, Version
from konverge_testing.apiserver.storage import Callback, Compacted, Encode, Entry, Event, ResourceId, Store
from konverge_testing.apiserver.tables import metadata_only, row, table

__all__ = ["OldStore", "Reader"]

T = TypeVar("T")

_ENCODE: Final = msgspec.json.Encoder().encode


class OldStore:
    """The store as of a version, for reads that a fault serves from an older view; later writes follow as events."""

    def __init__(self, store: Store, version: int) -> None:
        self._store = store
        self.version = max(version, store.floor)
        self.observers = store.observers

    def list(self, resource: ResourceId, namespace: str | None = None) -> Sequence[Entry]:
        """Return the objects as of the view's version."""
        found = self._store.at(resource, self.version)
        return [entry for entry in found if not namespace or entry.namespace == namespace]

    def get(self, resource: ResourceId, namespace: str, name: str) -> Entry | None:
        """Return the object as of the view's version."""
        return next((entry for entry in self.list(resource, namespace) if entry.name == name), None)

    def at(self, resource: ResourceId, version: int) -> Sequence[Entry]:
        """Return the objects as of a still older version."""
        return self._store.at(resource, version)

    def since(self, resource: ResourceId, version: int) -> Sequence[Event]:
        """Return the events up to the view's version."""
        return [event for event in self._store.since(resource, version) if event.version <= self.version]

    def changed(self, resource: ResourceId) -> int:
        """Return the version of the last change."""
        return self._store.changed(resource)

    def subscribe(self, resource: ResourceId, callback: Callback) -> Callable[[], None]:
        """Subscribe to the events since the view, and to all later events."""
        try:
            for event in self._store.since(resource, self.version):
                callback(event)
        except Compacted:
            pass
        return self._store.subscribe(resource, callback)


class Reader:
    """Serves reads. Each form of a version has one encoder, so that watchers of the same form share their lines."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._encoders: dict[tuple[Resource, str, Form], Encode] = {}
        self._watches: dict[ResourceId, WeakSet[Watch]] = {}
        self._caches: dict[tuple[Resource, str], VersionCache] = {}
        registry.on_change.append(self._changed)

    def _changed(self, resource: Resource | None, of: ResourceId) -> None:
        """End the watches of a resource that is no longer served, or served differently."""
        for watch in list(self._watches.pop(of, ())):
            watch.end()
        self._encoders = {
            key: encode for key, encode in self._encoders.items() if key[0] is resource or key[0].id != of
        }
        self._caches = {key: cache for key, cache in self._caches.items() if key[0].id != of}

    def _store(self, view: int | None) -> Any:
        return self._registry.store if view is None else OldStore(self._registry.store, view)

    async def _answered(self, request: ResourceRequest, view: int | None, make: Callable[[Any], T]) -> T:
        """Compute a response from the store; for objects that a webhook converts, from the store's view in the version."""
        store = self._store(view)
        resource, version = request.resource, request.version
        if resource.conversion is None:
            return make(store)
        key = resource, version.name
        cache = self._caches.get(key)
        if cache is None:
            cache = self._caches[key] = VersionCache(self._registry, resource, version)
        while True:
            try:
                return make(ConvertedStore(store, cache))
            except NotConverted as missing:
                for entry in missing.entries:
                    await cache.convert(entry)

    # --- verbs ---------------------------------------------------------------------------------------------------------------

    async def get(self, request: ResourceRequest, view: int | None = None) -> Data:
        """Return one object in the URL's version."""
        check_name(request.info.name)
        entry = read_one(self._store(view), request.resource, request.namespace, request.info.name, request.call.query)
        return await read_in(self._registry, entry, request.resource, request.version)

    async def list(self, request: ResourceRequest, view: int | None = None) -> Response:
        """Serve a LIST."""
        return await self._answered(request, view, lambda store: self._listed(request, store))

    def _listed(self, request: ResourceRequest, store: Any) -> Response:
        form = form_of(request.call.headers.get("accept", ""))
        options = read_options(request.call.query, request.resource, request.version.name, request.namespace)
        page = list_page(store, options)
        resource = request.resource
        if form == "table":
            objects = [read(entry, resource, table_version(resource, request.version)) for entry in page.entries]
            include = request.call.query.get("includeObject") or "Metadata"
            made = table(
                resource,
                request.version,
                objects,
                include=include,
                list_version=str(page.version),
                continue_=page.token,
                remaining=page.remaining,
                now=self._registry.moment(),
            )
            return Response(body=_ENCODE(made), warnings=request.warnings)
        encode = self.encoder(resource, request.version, form)
        if form == "metadata":
            body = list_body(page, "meta.k8s.io/v1", "PartialObjectMetadataList", encode, typed=True)
        else:
            kind = resource.list_kind or f"{resource.kind}List"
            body = list_body(page, request.api_version, kind, encode, custom=resource.custom)
        return Response(body=body, warnings=request.warnings)

    async def selected(self, request: ResourceRequest) -> Sequence[Entry]:
        """Return the objects that a request for a collection selects, for their deletion."""
        options = read_options(request.call.query, request.resource, request.version.name, request.namespace)
        return await self._answered(request, None, lambda store: list_page(store, options).entries)

    async def watch(self, request: ResourceRequest, view: int | None = None) -> Response:
        """Serve a WATCH."""
        return await self._answered(request, view, lambda store: self._watching(request, store))

    def _watching(self, request: ResourceRequest, store: Any) -> Response:
        form = form_of(request.call.headers.get("accept", ""))
        options = read_options(request.call.query, request.resource, request.version.name, request.namespace)
        include = request.call.query.get("includeObject") or "Metadata"
        encode = (
            self._rows(request.resource, request.version, include)
            if form == "table"
            else self.encoder(request.resource, request.version, form)
        )
        about = (
            ("meta.k8s.io/v1", "PartialObjectMetadata")
            if form == "metadata"
            else (request.api_version, request.resource.kind)
        )
        watch = Watch(
            store,
            options,
            bookmark=bookmark_of(*about, zero=blank(request.version.schema) if form == "object" else {}),
            random=self._registry.draws.random,
            encode=encode,
        )
        if isinstance(store, ConvertedStore):
            store.on_failure = watch.end
        self._watches.setdefault(request.resource.id, WeakSet()).add(watch)
        stream: AsyncIterator[bytes] = watch
        return Response(stream=stream, warnings=request.warnings)

    # --- forms ---------------------------------------------------------------------------------------------------------------

    def _rows(self, resource: Resource, version: Version, include: str) -> Encode:
        """Return the function that shows a watch's entries as rows of a table; the first table has the columns."""
        first = [True]

        def as_row(entry: Entry) -> bytes:
            data = read(entry, resource, table_version(resource, version))
            begins = bool(first) and first.pop()
            return _ENCODE(row(resource, version, data, include=include, first=begins, now=self._registry.moment()))

        return as_row

    def encoder(self, resource: Resource, version: Version, form: Form) -> Encode:
        """Return the function that encodes an entry in a form."""
        if form == "object" and version is resource.storage and resource.alias is None and not resource.custom:
            return raw_of
        key = (resource, version.name, form)
        found = self._encoders.get(key)
        if found is None:
            found = self._encoders[key] = self._encoder_for(resource, version, form)
        return found

    def _encoder_for(self, resource: Resource, version: Version, form: Form) -> Encode:
        if form == "metadata":
            return lambda entry: _ENCODE(metadata_only(entry.object()))
        if resource.custom:
            return lambda entry: (
                entry.raw if as_is(entry, resource, version) else _ENCODE(read(entry, resource, version))
            )
        return lambda entry: _ENCODE(read(entry, resource, version))
