"""The verbs of the API: get, find, list, pages, watch, follow, wait_until, logs, create, get_or_create, replace, patch, apply, delete,
delete_collection.

Guarantees: every method returns the server's response or raises an error of `konverge.errors`. A write with a `writer` is in the
ledger before its first byte is sent, and is settled there however the call ends; a cancellation takes effect at once and leaves
the write as "unknown". A 404 for a whole resource (its CRD was deleted) raises `NotServed` and makes discovery forget the resource.

Caveats: the client does not cache objects, does not notice their changes, and may read a state from before its own writes. Caches are
the informers' work, waiting for own writes is the runtime's.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Hashable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from copy import copy
from dataclasses import dataclass, replace
from random import Random
from types import TracebackType
from typing import Any, Self, TypeVar

from konverge.client import nulls, requests
from konverge.client.config import ClientConfig
from konverge.client.discovery import Discovery
from konverge.client.follow import ObjectEvent, follow, wait_until, wait_until_deleted
from konverge.client.guarded import expected_version, guarded_patch, object_changed
from konverge.client.ledger import Ledger, PendingWrite
from konverge.client.naming import checked_name, user_agent
from konverge.client.pages import all_pages, pages
from konverge.client.pod_logs import log_lines, log_request
from konverge.client.requests import JSON, Propagation, Request, Style
from konverge.client.resources import Listing, ListQuery, Page, ResourceInfo, WatchQuery
from konverge.client.responses import WatchStream, decode_metadata, decode_object, decode_page, decode_stored
from konverge.client.sender import Call, RequestMeasures, Sender
from konverge.client.settings import ClientSettings
from konverge.client.shapes import ConditionShape, document_path, shape_in
from konverge.client.status import deleted_uid
from konverge.client.transport import Fence, Response
from konverge.errors import AlreadyExists, Conflict, Expired, Forbidden, NotFound, NotServed, UsageError
from konverge.fields import has_nulls, without_nulls
from konverge.kinds import Kind, Resource, kind_of
from konverge.metrics import Metrics
from konverge.objects import Metadata, Object
from konverge.selectors import LabelSelector

__all__ = ["Client"]

R = TypeVar("R", bound=Resource)


@dataclass(frozen=True, slots=True)
class BoundWriter:
    """The writer of a client that `written_by` returned, and the check before each of its writes."""

    writer: Hashable
    before: Callable[[str], None]


class Client:
    """A client of one API server, for one event loop.

    `name` is the default field manager and the User-Agent. `writer` on the writing methods identifies the writer in the ledger;
    without a writer a write is not recorded. `random` gives the jitter of the backoff. The client connects at first use; leaving
    `async with` closes the connections.

    >>> async def names(config: ClientConfig) -> list[str]:
    ...     async with Client(config, name="reader") as client:
    ...         return [node.name for node in await client.list(kind("v1", "Node"))]
    """

    def __init__(
        self,
        config: ClientConfig,
        *,
        name: str,
        settings: ClientSettings | None = None,
        metrics: Metrics | None = None,
        random: Random | None = None,
    ) -> None:
        self.name = checked_name(name)
        self.config = config
        self.settings = settings or ClientSettings()
        self.ledger = Ledger()
        self._sender = Sender(
            config.open(self.settings, user_agent(name)),
            settings=self.settings,
            measures=None if metrics is None else RequestMeasures(metrics, config.host),
            random=random or Random(),  # noqa: S311 - jitter, no secret
        )
        self._held: dict[tuple[str, str, str | None, bool | None], tuple[ResourceInfo, float]] = {}
        """How each kind is served, and until when that is known: for ever if the kind declares it, else as long as discovery is fresh."""
        self._discovery = Discovery(self._discover, self.settings)
        self._shapes: dict[Kind[Any], tuple[float, ConditionShape | None]] = {}
        self._nulls: dict[Kind[Any], tuple[float, nulls.NullPlaces]] = {}
        self._bound: BoundWriter | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections; open watches end as cut off. Calling it again does nothing."""
        if self._bound is None:
            await self._sender.close()

    def fenced_by(self, fence: Fence) -> Self:
        """Return this client with each write checked by a fence at the moment when its bytes are sent; a write behind it raises NotLeading.

        The view shares cache of discovery, ledger and limits. It has connections of its own for its writes; closing the view closes them.
        """
        view = copy(self)
        view._sender = self._sender.fenced(fence)
        return view

    def written_by(self, writer: Hashable, before: Callable[[str], None]) -> Self:
        """Return this client as one writer's: the same connections, with each write in the ledger as that writer's.

        `before` is called with the description of each write, except dry runs, before anything is sent for it; an error that it raises
        prevents the write. Closing this client closes no connections.
        """
        view = copy(self)
        view._bound = BoundWriter(writer, before)
        return view

    # -- reading

    async def get(self, kind: Kind[R] | type[R], name: str, namespace: str = "") -> R:
        """Return an object; raises NotFound."""
        target = kind_of(kind)
        info = await self._info(target)
        response = await self._read(requests.get(info, namespace, name), info)
        return target.decode(decode_object(response.body))

    async def find(self, kind: Kind[R] | type[R], name: str, namespace: str = "") -> R | None:
        """Return an object, None if it does not exist."""
        try:
            return await self.get(kind, name, namespace)
        except NotFound:
            return None

    async def get_metadata(self, kind: Kind[Any] | type[Resource], name: str, namespace: str = "") -> Metadata:
        """Return an object's metadata without fetching its body; raises NotFound."""
        info = await self._info(kind_of(kind))
        response = await self._read(requests.get(info, namespace, name, metadata_only=True), info)
        return decode_metadata(response.body)

    async def list(
        self, kind: Kind[R] | type[R], namespace: str | None = None, *, labels: str = "", fields: str = ""
    ) -> Listing[R]:
        """Return all objects of a kind, of one namespace or (None) of all; the client fetches them page by page.

        All pages show one version. If the server forgets that version half way (410), the list is requested again without paging.
        Raises UsageError for a malformed label selector.
        """
        target = kind_of(kind)
        LabelSelector.given(labels, f"list of {target.kind}")
        info = await self._info(target)
        query = ListQuery(namespace=namespace, labels=labels, fields=fields, limit=self.settings.page_size)
        try:
            return await all_pages(self, target, info, query)
        except Expired:
            return await all_pages(self, target, info, replace(query, limit=0))

    async def pages(
        self, kind: Kind[R] | type[R], namespace: str | None = None, *, labels: str = "", fields: str = ""
    ) -> AsyncIterator[Listing[R]]:
        """Yield the objects of a kind page by page, for lists that are too long for memory.

        `ClientSettings.page_size` is the size of a page. All pages show one version. Raises Expired if the server forgets that version
        (after about five minutes) before the last page: iterate again. Raises UsageError for a malformed label selector.
        """
        target = kind_of(kind)
        LabelSelector.given(labels, f"list of {target.kind}")
        info = await self._info(target)
        query = ListQuery(namespace=namespace, labels=labels, fields=fields, limit=self.settings.page_size)
        async for page in pages(self, target, info, query):
            yield page

    async def list_page(self, info: ResourceInfo, query: ListQuery) -> Page:
        """Return one page of a list, its items not yet decoded."""
        response = await self._read(requests.list_page(info, query), info)
        return await decode_page(response.body)

    @asynccontextmanager
    async def _watch(self, info: ResourceInfo, query: WatchQuery) -> AsyncIterator[WatchStream]:
        request = requests.watch(info, query)
        async with AsyncExitStack() as stack:
            try:
                body = await stack.enter_async_context(self._sender.open(request))
            except NotFound as error:
                self._check_served(info, error)
                raise
            yield WatchStream(
                body.read,
                what=request.what,
                idle_seconds=query.idle_seconds,
                max_line_bytes=self.settings.max_line_bytes,
            )

    def watch(self, info: ResourceInfo, query: WatchQuery) -> AbstractAsyncContextManager[WatchStream]:
        """Open a watch; entering raises ApiError for an unsuccessful response, leaving closes the connection."""
        return self._watch(info, query)

    # -- waiting

    def follow(
        self, kind: Kind[R] | type[R], namespace: str | None = None, *, labels: str = "", fields: str = ""
    ) -> AsyncGenerator[ObjectEvent[R]]:
        """Yield ADDED for each existing object, then each change, without end: a watch that survives interruptions.

        For scripts and tests; a reconciler declares `.watches`. The caveats are in `konverge.client.follow`. Raises an ApiError that a
        retry does not mend (Forbidden, BadRequest), NotServed, and UsageError for a malformed label selector.
        """
        return follow(self, kind, namespace, labels=labels, fields=fields)

    async def wait_until(
        self,
        kind: Kind[R] | type[R],
        name: str,
        predicate: Callable[[R], bool],
        namespace: str = "",
        *,
        timeout: float = 60.0,
    ) -> R:
        """Return the first state of an object that fulfils the predicate; the object need not exist yet.

        Raises TimeoutError, with the last known state, after `timeout` seconds. The rights are `list` and `watch` of the kind.
        """
        return await wait_until(self, kind, name, predicate, namespace, timeout=timeout)

    async def wait_until_deleted(
        self, kind: Kind[Any] | type[Any], name: str, namespace: str = "", *, uid: str = "", timeout: float = 60.0
    ) -> None:
        """Return as soon as the object does not exist, or with `uid` as soon as another object has the name.

        Raises TimeoutError, with the last known state, after `timeout` seconds. The rights are `list` and `watch` of the kind.
        """
        await wait_until_deleted(self, kind, name, namespace, uid=uid, timeout=timeout)

    def backoff(self, error: BaseException, failures: int) -> float:
        """Return the seconds to wait before the next attempt of a caller's own loop, after so many failures in a row."""
        return self._sender.backoff(error, failures)

    def logs(
        self,
        name: str,
        namespace: str,
        *,
        container: str = "",
        follow: bool = False,
        previous: bool = False,
        timestamps: bool = False,
        since_seconds: int | None = None,
        tail_lines: int | None = None,
    ) -> AsyncIterator[str]:
        """Yield the lines of a container's log; with `follow` until the container ends.

        A pod with several containers needs `container`; `previous` is the container before its last restart. The right is `get` of
        `pods/log`. Raises NotFound, and BadRequest for a container that has not started.
        """
        request = log_request(
            name,
            namespace,
            container=container,
            follow=follow,
            previous=previous,
            timestamps=timestamps,
            since_seconds=since_seconds,
            tail_lines=tail_lines,
        )
        return log_lines(self._sender, request, follow=follow, limit=self.settings.max_line_bytes)

    # -- writing

    async def create(self, obj: R, *, dry_run: bool = False, writer: Hashable | None = None) -> R:
        """Create an object and return it as stored; raises AlreadyExists. With `metadata.generateName` the server names it."""
        kind: Kind[R] = kind_of(obj)
        info = await self._info(kind)
        request = requests.create(
            info, _body_of(obj), manager=self.name, dry_run=dry_run, validation=self.settings.field_validation
        )
        response = await self._write(request, info, kind, obj.namespace, obj.name, writer, dry_run=dry_run)
        return kind.decode(decode_object(response.body))

    async def get_or_create(self, obj: R, *, writer: Hashable | None = None) -> R:
        """Return the stored object of the kind, namespace and name of `obj`, which is created if it does not exist.

        An existing object is returned unchanged, whatever it contains: check whose it is before you use it.
        """
        kind: Kind[R] = kind_of(obj)
        while True:
            stored = await self.find(kind, obj.name, obj.namespace)
            if stored is not None:
                return stored
            with suppress(AlreadyExists):  # another client created it after the read
                return await self.create(obj, writer=writer)

    async def replace(
        self, obj: R, *, subresource: str = "", dry_run: bool = False, writer: Hashable | None = None
    ) -> R:
        """Replace the stored object by this object; raises Conflict if its resourceVersion is set and outdated."""
        kind: Kind[R] = kind_of(obj)
        info = await self._info(kind)
        request = requests.replace(
            info,
            _body_of(obj),
            manager=self.name,
            subresource=subresource,
            dry_run=dry_run,
            validation=self.settings.field_validation,
        )
        response = await self._write(request, info, kind, obj.namespace, obj.name, writer, dry_run=dry_run)
        return kind.decode(decode_object(response.body))

    async def patch(
        self,
        kind: Kind[R] | type[R],
        name: str = "",
        namespace: str = "",
        *,
        patch: Mapping[str, Any] | Sequence[Any],
        style: Style,
        expect: Resource | Metadata | None = None,
        subresource: str = "",
        dry_run: bool = False,
        writer: Hashable | None = None,
    ) -> R:
        """Patch an object: a mapping for `merge` and `strategic` (built-in kinds only), a list of operations for `json`.

        With `expect`, an object or its metadata as it was read, the patch changes exactly that version of that object, else nothing.
        Raises NotFound; with `expect` ObjectChanged if the object was changed, deleted or recreated since.
        """
        target = kind_of(kind)
        if expect is not None:
            if not isinstance(patch, Mapping):
                raise UsageError(
                    "a JSON patch takes no expect=: begin it with a `test` operation, or send a merge patch"
                )
            expected = expected_version(expect)
            name, namespace, patch = expected.name, expected.namespace, guarded_patch(patch, expected)
        info = await self._info(target)
        request = requests.patch(
            info,
            namespace,
            name,
            patch,
            style=style,
            manager=self.name,
            subresource=subresource,
            dry_run=dry_run,
            # A JSON patch names places and not fields, and has to free an object that holds a field of an older schema.
            validation="" if style == "json" else self.settings.field_validation,
        )
        try:
            response = await self._write(request, info, target, namespace, name, writer, dry_run=dry_run)
        except (Conflict, NotFound) as error:
            if expect is None:
                raise
            raise object_changed(error) from error
        return target.decode(decode_object(response.body))

    async def apply(
        self,
        kind: Kind[Any] | type[Resource],
        body: Mapping[str, Any],
        *,
        manager: str | None = None,
        force: bool = False,
        subresource: str = "",
        dry_run: bool = False,
        writer: Hashable | None = None,
    ) -> Object:
        """Apply a whole intent by server-side apply; return the object as stored, managedFields included.

        Null is left out if no schema allows it (`settle_nulls`). Raises ApplyConflict, which names managers and fields, unless `force`.
        """
        response = await self.apply_raw(
            kind, body, manager=manager, force=force, subresource=subresource, dry_run=dry_run, writer=writer
        )
        return Object(decode_object(response))

    async def apply_raw(
        self,
        kind: Kind[Any] | type[Resource],
        body: Mapping[str, Any],
        *,
        manager: str | None = None,
        force: bool = False,
        subresource: str = "",
        dry_run: bool = False,
        writer: Hashable | None = None,
        normalized: bool = False,
    ) -> bytes:
        """Apply as `apply` does, and return the body of the response undecoded, for callers that need only a part of it.

        `normalized` declares that the intent names its kind, its nulls are values, and it has no managedFields; it is then sent as it is.
        """
        target = kind_of(kind)
        info = await self._info(target)
        if not normalized:
            body = await self.settle_nulls(target, body)
        request = requests.apply(
            info,
            body,
            manager=manager or self.name,
            force=force,
            subresource=subresource,
            dry_run=dry_run,
            normalized=normalized,
            validation=self.settings.field_validation,
        )
        metadata = body.get("metadata") or {}
        namespace, name = str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
        response = await self._write(request, info, target, namespace, name, writer, dry_run=dry_run)
        return response.body

    async def delete(
        self,
        kind: Kind[Any] | type[Resource],
        name: str = "",
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        expect: Resource | Metadata | None = None,
        propagation: Propagation = "Background",
        dry_run: bool = False,
        writer: Hashable | None = None,
    ) -> bool:
        """Delete an object; returns False if it did not exist. Raises Conflict if the stored uid or version differs.

        Give the uid: the client repeats a deletion whose response was lost only with a uid, because it cannot delete a successor then.
        With `expect`, an object or its metadata as it was read, uid and version are the expected object's, and the error is ObjectChanged.
        """
        target = kind_of(kind)
        if expect is not None:
            expected = expected_version(expect)
            name, namespace = expected.name, expected.namespace
            uid, resource_version = expected.uid, expected.resource_version
        info = await self._info(target)
        request = requests.delete(
            info,
            namespace,
            name,
            uid=uid,
            resource_version=resource_version,
            propagation=propagation,
            dry_run=dry_run,
        )
        pending = self._begin_write(request, target, namespace, name, writer, dry_run=dry_run)
        call = self._sender.call(request)
        try:
            response = await self._send(call, info, pending)
        except NotFound:
            # An earlier attempt whose response was lost may have deleted it.
            return call.outcome_unknown
        except Conflict as error:
            if expect is None:
                raise
            raise object_changed(error) from error
        _settle_deletion(pending, response, uid)
        return True

    async def delete_collection(
        self,
        kind: Kind[R] | type[R],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        propagation: Propagation = "Background",
        dry_run: bool = False,
    ) -> Listing[R]:
        """Delete the selected objects of one namespace, or of a cluster-scoped kind; returns them as the server saw them last.

        An object with finalizers is returned too, and ends later. Without selectors every object of the kind is deleted. The server
        deletes one object after the other, so after an error some may be deleted. The right is `deletecollection`.

        Caveats: no ledger records the deletions, so a reconcile that uses this may run again before the caches show them. A request whose
        response was lost is not repeated. Raises UsageError for a namespaced kind without a namespace.
        """
        target = kind_of(kind)
        LabelSelector.given(labels, f"deletecollection of {target.kind}")
        info = await self._info(target)
        query = ListQuery(namespace=namespace or None, labels=labels, fields=fields)
        request = requests.delete_collection(info, query, propagation=propagation, dry_run=dry_run)
        if self._bound is not None and not dry_run:
            self._bound.before(request.what)
        page = await decode_page((await self._read(request, info)).body)
        items = [target.decode(decode_object(raw)) for raw in page.items]
        return Listing(items=items, resource_version=page.resource_version)

    # -- discovery and the rest

    async def resource(self, kind: Kind[Any] | type[Resource]) -> ResourceInfo:
        """Return how the server serves a kind; raises NotServed. Cached for minutes, "not served" for seconds."""
        return await self._discovery.resource(kind_of(kind))

    async def condition_shape(self, kind: Kind[Any] | type[Resource]) -> ConditionShape | None:
        """Return the schema of the conditions of a kind from the server's OpenAPI document; None if it has none.

        Cached as discovery is: the document of a new CRD is published some seconds after the CRD is served.
        """
        target, now = kind_of(kind), asyncio.get_running_loop().time()
        until, shape = self._shapes.get(target, (now, None))
        if now < until:
            return shape
        try:
            shape = shape_in(decode_object(await self._discover(document_path(target))), target)
            until = now + self.settings.discovery_seconds
        except (Forbidden, NotFound, LookupError):
            shape, until = None, now + self.settings.discovery_absent_seconds
        self._shapes[target] = (until, shape)
        return shape

    async def settle_nulls(self, kind: Kind[Any] | type[Resource], body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the body of an apply without the nulls that the schema does not allow; the body itself if it has none.

        A class with `@resource` knows its own schema. The schema of any other kind is read from the server, and cached as discovery is,
        only for a body with a null; without the right to read it every null is left out.
        """
        if not has_nulls(body):
            return body
        target = kind_of(kind)
        metadata = {"metadata": without_nulls(body["metadata"])} if "metadata" in body else {}
        plain = {**body, **metadata}
        if not has_nulls(plain):
            return plain
        own = getattr(target.model, "without_plain_nulls", None)
        settled: dict[str, Any] = own(plain) if own else nulls.settled(plain, await self._null_places(target))
        return {**settled, **metadata}

    async def _null_places(self, kind: Kind[Any]) -> nulls.NullPlaces:
        now = asyncio.get_running_loop().time()
        until, places = self._nulls.get(kind, (now, nulls.NOWHERE))
        if now < until:
            return places
        try:
            places = nulls.places_in(decode_object(await self._discover(document_path(kind))), kind)
            until = now + self.settings.discovery_seconds
        except Forbidden:
            places, until = nulls.NOWHERE, now + self.settings.discovery_absent_seconds
        except (NotFound, LookupError):
            # The document of a new CRD is published some seconds late. Until then the server refuses a null that the schema does not allow.
            places, until = nulls.ANYWHERE, now + self.settings.discovery_absent_seconds
        self._nulls[kind] = (until, places)
        return places

    def forget_discovery(self, group_version: str | None = None) -> None:
        """Drop the cached discovery of this group and version, or (None) of all."""
        self._discovery.forget(group_version)
        for held in [held for held in self._held if group_version in (None, held[0])]:
            del self._held[held]

    async def raw(
        self,
        method: str,
        path: str,
        *,
        body: bytes | Mapping[str, Any] | None = None,
        content_type: str = JSON,
        params: Mapping[str, str] | None = None,
        accept: str = JSON,
        repeatable: bool | None = None,
    ) -> bytes:
        """Send any request with the same deadlines and errors; return the body of the response.

        `repeatable` declares whether the request may be sent again if its response was lost. The default is True for reads and False
        otherwise; for a SubjectAccessReview, a POST that changes nothing, True is right.
        """
        request = requests.raw(
            method, path, body=body, content_type=content_type, params=params, accept=accept, repeatable=repeatable
        )
        return (await self._sender.send(self._sender.call(request))).body

    async def _discover(self, path: str) -> bytes:
        return await self.raw("GET", path)

    async def _info(self, kind: Kind[Any]) -> ResourceInfo:
        """Return how a kind is served, by its own declaration or by discovery."""
        name = (kind.api_version, kind.kind, kind.plural, kind.namespaced)
        info, until = self._held.get(name, (None, 0.0))
        if info is not None and (until == math.inf or asyncio.get_running_loop().time() < until):
            return info
        if kind.plural is None or kind.namespaced is None:
            info, until = await self._discovery.resource(kind), self._discovery.fresh_until(kind.api_version)
        else:
            info, until = (
                ResourceInfo(
                    api_version=kind.api_version, kind=kind.kind, plural=kind.plural, namespaced=kind.namespaced
                ),
                math.inf,
            )
        self._held[name] = (info, until)
        return info

    async def _read(self, request: Request, info: ResourceInfo) -> Response:
        return await self._send(self._sender.call(request), info, None)

    async def _write(
        self,
        request: Request,
        info: ResourceInfo,
        kind: Kind[Any],
        namespace: str,
        name: str,
        writer: Hashable | None,
        *,
        dry_run: bool,
    ) -> Response:
        pending = self._begin_write(request, kind, namespace, name, writer, dry_run=dry_run)
        response = await self._send(self._sender.call(request), info, pending)
        if pending is not None:
            try:
                stored = decode_stored(response.body)
            except BaseException:
                pending.unknown()
                raise
            if stored.ended:
                pending.deleted(stored.uid)
            else:
                pending.settle(stored.version, stored.uid, stored.name)
        return response

    def _begin_write(
        self,
        request: Request,
        kind: Kind[Any],
        namespace: str,
        name: str,
        writer: Hashable | None,
        *,
        dry_run: bool,
    ) -> PendingWrite | None:
        if dry_run:
            return None
        if self._bound is not None:
            self._bound.before(request.what)
            writer = self._bound.writer if writer is None else writer
        return None if writer is None else self.ledger.begin(writer, kind, namespace, name)

    async def _send(self, call: Call, info: ResourceInfo, pending: PendingWrite | None) -> Response:
        try:
            return await self._sender.send(call)
        except BaseException as error:
            if pending is not None:
                if call.outcome_unknown:
                    pending.unknown()
                else:
                    pending.failed()
            if isinstance(error, NotFound):
                self._check_served(info, error)
            raise

    def _check_served(self, info: ResourceInfo, error: NotFound) -> None:
        """Raise NotServed for a 404 without a reason: the server no longer serves the CRD, or this version of it."""
        if not error.reason:
            self.forget_discovery(info.api_version)
            raise NotServed(info.api_version, info.kind) from error


def _body_of(obj: Resource) -> dict[str, Any]:
    """Return the body of a write of this object; the dict of a thin view is not copied, because it is only read."""
    return obj.data if isinstance(obj, Object) else obj.to_dict()


def _settle_deletion(pending: PendingWrite | None, response: Response, uid: str) -> None:
    """Settle a deletion by its response: a Status, the deleted object, or the object that waits for its finalizers."""
    if pending is None:
        return
    gone = deleted_uid(response.body)
    if gone is not None:
        pending.deleted(gone or uid)
        return
    stored = decode_metadata(response.body)
    if stored.deleting:
        pending.settle(stored.resource_version, stored.uid)
    else:
        pending.deleted(stored.uid or uid)
