"""The parts that all verbs of a client share: connections, the binding to a writer, discovery, the sending of a request, and the two
writes of the runtime (create and apply).

A 404 for a whole resource (its CRD was deleted) raises `NotServed` and removes the resource from the cache of discovery.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from copy import copy
from functools import partial
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import msgspec

from konverge.client import nulls, requests
from konverge.client.config import ClientConfig
from konverge.client.discovery import Discovery
from konverge.client.ledger import Ledger, PendingWrite
from konverge.client.naming import checked_name, user_agent
from konverge.client.requests import JSON, Request
from konverge.client.resources import ListQuery, Page, ResourceInfo, WatchQuery
from konverge.client.responses import WatchStream, decode_object, decode_page, decode_stored
from konverge.client.sender import Call, RequestMeasures, Sender
from konverge.client.settings import ClientSettings
from konverge.client.shapes import ConditionShape, document_path, shape_in
from konverge.client.transport import Fence, Response
from konverge.errors import Forbidden, NotFound, NotServed
from konverge.fields import has_nulls, without_nulls
from konverge.kinds import Kind, Resource, kind_of
from konverge.metrics import Metrics
from konverge.objects import Object

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from konverge.client.tracing import Tracing

__all__ = ["ClientCore", "body_of"]

R = TypeVar("R", bound=Resource)


class BoundWriter(msgspec.Struct, frozen=True):
    """The writer of a client that `written_by` returned, and the check before each of its writes."""

    writer: Hashable
    before: Callable[[str], None]


class ClientCore:
    """The base of `Client`: everything except its reads and its other writes."""

    def __init__(
        self,
        config: ClientConfig,
        *,
        name: str,
        settings: ClientSettings | None = None,
        metrics: Metrics | None = None,
        random: Random | None = None,
        tracing: TracerProvider | Tracing | None = None,
    ) -> None:
        self.name = checked_name(name)
        self.config = config
        self.settings = settings or ClientSettings()
        self.ledger = Ledger()
        sender: Callable[..., Sender] = Sender
        if tracing is not None:
            # Here, because it brings OpenTelemetry.
            from konverge.client.tracing import TracedSender, Tracing

            sender = partial(TracedSender, tracing=Tracing.of(tracing), server=config.server)
        self._sender = sender(
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

    def backoff(self, error: BaseException, failures: int) -> float:
        """Return the seconds to wait before the next attempt of a caller's own loop, after so many failures in a row."""
        return self._sender.backoff(error, failures)

    async def create(self, obj: R, *, dry_run: bool = False, writer: Hashable | None = None) -> R:
        """Create an object and return it as stored; raises AlreadyExists. With `metadata.generateName` the server names it."""
        kind: Kind[R] = kind_of(obj)
        info = await self._info(kind)
        request = requests.create(
            info, body_of(obj), manager=self.name, dry_run=dry_run, validation=self.settings.field_validation
        )
        response = await self._write(request, info, kind, obj.namespace, obj.name, writer, dry_run=dry_run)
        return kind.decode(decode_object(response.body))

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
        call = self._sender.call(request)
        try:  # as `_send`, without a further coroutine to resume: most calls are writes
            response = await self._sender.send(call)
        except BaseException as error:
            self._note_failure(call, info, pending, error)
            raise
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

    def _announce(self, request: Request) -> None:
        """Call the check of the bound writer, which precedes each request that may change something."""
        if self._bound is not None:
            self._bound.before(request.what)

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
        self._announce(request)
        if self._bound is not None:
            writer = self._bound.writer if writer is None else writer
        return None if writer is None else self.ledger.begin(writer, kind, namespace, name)

    async def _send(self, call: Call, info: ResourceInfo, pending: PendingWrite | None) -> Response:
        try:
            return await self._sender.send(call)
        except BaseException as error:
            self._note_failure(call, info, pending, error)
            raise

    def _note_failure(self, call: Call, info: ResourceInfo, pending: PendingWrite | None, error: BaseException) -> None:
        """Settle the write of a failed call. Raises NotServed for the 404 of a kind that is no longer served."""
        if pending is not None:
            if call.outcome_unknown:
                pending.unknown()
            else:
                pending.failed()
        if isinstance(error, NotFound):
            self._check_served(info, error)

    def _check_served(self, info: ResourceInfo, error: NotFound) -> None:
        """Raise NotServed for a 404 without a reason: the server no longer serves the CRD, or this version of it."""
        if not error.reason:
            self.forget_discovery(info.api_version)
            raise NotServed(info.api_version, info.kind) from error


def body_of(obj: Resource) -> dict[str, Any]:
    """Return the body of a write of this object; the dict of a thin view is not copied, because it is only read."""
    return obj.data if isinstance(obj, Object) else obj.to_dict()
