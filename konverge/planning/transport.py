"""The transport of a plan: it reads the real API server, sends each write as a dry run, and shows planned writes to later reads.

    read of an object   the planned state, else the server's
    list                the server's list, with planned objects in place of stored objects
    watch               the planned changes; the server is not watched, so that all reconciles see one state of the cluster
    write               one read of the stored object, and a dry run; the result becomes the planned state
    Event               recorded, not sent
    review              sent as it is: a TokenReview or SubjectAccessReview stores nothing

Guarantees: no request leaves this process without `dryRun=All`, reads and reviews excepted. Subresources without a dry run (exec, attach,
portforward, proxy) and paths of no resource are refused with 403.

A dry run passes authorization, admission, defaulting and validation, and is stored nowhere:
https://kubernetes.io/docs/reference/using-api/api-concepts/#dry-run. A webhook with side effects refuses it, and the write fails.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, Final
from urllib.parse import quote

import msgspec

from konverge.client.requests import Request
from konverge.client.targets import ObjectId, RequestTarget, target_of
from konverge.client.transport import OpenStream, Response, Transport, WebSocket
from konverge.planning.documents import Document
from konverge.planning.overlay import Cause, Overlay, PlannedObject
from konverge.planning.responses import answer, deleted, not_found, refusal
from konverge.planning.targets import Selected, in_form_of
from konverge.planning.watching import PlannedWatch
from konverge.planning.writes import PlannedWrite, body_of, dry_run_of, precondition_failure, step_of, write_of

__all__ = ["PlannedCluster", "PlanningTransport", "RecordedEvent"]

_REVIEWS: Final = frozenset({"authentication.k8s.io", "authorization.k8s.io"})
_NO_DRY_RUN: Final = frozenset({"attach", "exec", "portforward", "proxy"})
_PATIENCE: Final = 1000
"""Pages of one deletion of a collection; more are an error of the server."""


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """A Kubernetes Event that a reconcile would record."""

    about: str
    type: str
    reason: str
    note: str


class PlannedCluster:
    """The shared state of all clients of one plan: the overlay, the recorded Events, and the open watches."""

    def __init__(self, cause: Callable[[], Cause | None] = lambda: None) -> None:
        self.overlay = Overlay()
        self.recorded: dict[RecordedEvent, None] = {}
        self.watches: set[PlannedWatch] = set()
        self.cause = cause
        """Returns the reconcile that runs in the present task."""
        self.locks: defaultdict[ObjectId, asyncio.Lock] = defaultdict(asyncio.Lock)
        self.numbers = count(1)

    @property
    def caught_up(self) -> bool:
        """Whether every watch has handled every planned event."""
        return all(watch.caught_up for watch in self.watches)


class PlanningTransport:
    """A `Transport` to the planned cluster over the real cluster's transport."""

    def __init__(self, inner: Transport, cluster: PlannedCluster) -> None:
        self._inner = inner
        self._cluster = cluster
        self._overlay = cluster.overlay

    async def prepare(self) -> None:
        """Renew credentials and TLS context if needed."""
        await self._inner.prepare()

    async def close(self) -> None:
        """Close the connections to the real server."""
        await self._inner.close()

    # --- reads ---------------------------------------------------------------------------------------------------------------

    async def send(self, request: Request) -> Response:
        """Return the response of the planned cluster."""
        target = target_of(request.path)
        if not request.writes:
            return await self._inner.send(request) if target is None else await self._read(request, target)
        if target is None or target.subresource.partition("/")[0] in _NO_DRY_RUN:
            return _not_planned(request, target)
        if target.group in _REVIEWS:
            return await self._inner.send(request)
        if target.plural == "events" and target.group in {"", "events.k8s.io"}:
            return self._record(request, target)
        if request.method == "DELETE" and not target.name:
            return await self._delete_all(request, target)
        if request.method == "POST" and not target.name:
            target = target._replace(name=(body_of(request).get("metadata") or {}).get("name") or "")
        async with self._cluster.locks[target.object_id]:
            return await self._write(request, target)

    async def _read(self, request: Request, target: RequestTarget) -> Response:
        if not target.name:
            return await self._list(request, target)
        planned = self._overlay.objects.get(target.object_id)
        if planned is None or not planned.readable or target.subresource not in {"", "status"}:
            return await self._inner.send(request)
        if planned.current is None:
            return not_found(target.object_id)
        return answer(in_form_of(planned.current, request, target))

    async def _list(self, request: Request, target: RequestTarget) -> Response:
        response = await self._inner.send(request)
        if response.status != 200:
            return response
        head = _HEAD.decode(response.body).metadata
        self._overlay.saw_list(target.group, target.plural, head.version)
        planned = [
            entry for entry in self._overlay.objects.values() if target.covers(entry.object_id) and entry.readable
        ]
        if not planned:
            return response
        page: dict[str, Any] = msgspec.json.decode(response.body)
        page["items"] = self._planned_page(page.get("items") or [], planned, request, target, last=not head.continue_)
        return answer(page)

    def _planned_page(
        self,
        items: list[Document],
        planned: list[PlannedObject],
        request: Request,
        target: RequestTarget,
        *,
        last: bool,
    ) -> list[Document]:
        """Return a page with the planned states: new objects are on the last page."""
        selected = Selected.by(request, target)
        by_path = {(entry.object_id.namespace, entry.object_id.name): entry for entry in planned}
        shown = []
        for item in items:
            metadata = item["metadata"]
            entry = by_path.get((metadata.get("namespace", ""), metadata["name"]))
            if entry is None:
                shown.append(item)
            elif entry.current is not None and selected.takes(entry.current):
                shown.append(in_form_of(entry.current, request, target))
        if last:
            shown += [
                in_form_of(entry.current, request, target)
                for entry in planned
                if entry.current is not None and selected.takes(entry.current) and not selected.takes(entry.stored)
            ]
        return shown

    def stream(self, request: Request) -> AbstractAsyncContextManager[OpenStream]:
        """Open a watch of the planned cluster; any other stream is the server's."""
        target = target_of(request.path)
        if target is None or dict(request.params).get("watch") != "true":
            return self._inner.stream(request)
        return self._watch(request, target)

    @asynccontextmanager
    async def _watch(self, request: Request, target: RequestTarget) -> AsyncIterator[OpenStream]:
        watch = PlannedWatch(self._overlay, request, Selected.by(request, target))
        self._cluster.watches.add(watch)
        try:
            yield watch
        finally:
            self._cluster.watches.discard(watch)

    @asynccontextmanager
    async def websocket(self, request: Request) -> AsyncIterator[WebSocket | Response]:
        """Refuse a websocket, whose effects have no dry run."""
        yield _not_planned(request, target_of(request.path))

    # --- writes --------------------------------------------------------------------------------------------------------------

    async def _write(self, request: Request, target: RequestTarget) -> Response:
        """Carry out one write; the caller holds the lock of the object."""
        planned = await self._touched(target)
        if isinstance(planned, Response):
            return planned
        write = write_of(request, target, next(self._cluster.numbers))
        if (failure := precondition_failure(write, planned)) is not None:
            if failure.status == 409 and not planned.steps:
                self._overlay.refresh(planned)  # the caches may show an older state than the server
            return failure
        result: Document | None = None
        dry_run = dry_run_of(request, write, planned)
        if dry_run is not None:
            response = await self._inner.send(dry_run)
            if not 200 <= response.status < 300:
                return response
            if write.verb == "call":
                return response
            result = msgspec.json.decode(response.body)
        if write.verb in {"delete", "evict"}:
            return self._deleted(planned, request, target)
        if not target.name and result is not None:  # the server chose the name
            named = target._replace(name=result["metadata"]["name"])
            self._overlay.objects.pop(target.object_id, None)
            planned = self._overlay.touch(named.object_id, None)
        return self._stepped(planned, write, request, result)

    def _stepped(
        self, planned: PlannedObject, write: PlannedWrite, request: Request, result: Document | None
    ) -> Response:
        step = step_of(write, planned, result)
        if isinstance(step, Response):
            return step
        only_asked = "dryRun" in dict(request.params)
        status = 201 if planned.current is None else 200
        if only_asked:
            state = self._overlay.state_after(planned, write.writer, step)
        else:
            state = self._overlay.write(planned, write.writer, step, self._cluster.cause())
        if write.target.subresource == "scale" and result is not None:
            return answer(result)
        return answer(in_form_of(state, request, write.target), status)

    def _deleted(self, planned: PlannedObject, request: Request, target: RequestTarget) -> Response:
        last = planned.current or {"metadata": {"name": target.name}}
        if planned.current is None:  # it may not be read, and the server would delete it
            planned.current = planned.stored = last
        if "dryRun" in dict(request.params):
            return deleted(planned.object_id, last)
        left = self._overlay.delete(planned, self._cluster.cause())
        return deleted(planned.object_id, last) if left is None else answer(in_form_of(left, request, target))

    async def _touched(self, target: RequestTarget) -> PlannedObject | Response:
        """Return the planned object, which is read from the server before its first write."""
        known = self._overlay.objects.get(target.object_id)
        if known is not None:
            return known
        if not target.name:
            return PlannedObject(target.object_id, None)
        response = await self._inner.send(_reading(target))
        if response.status == 200:
            return self._overlay.touch(target.object_id, msgspec.json.decode(response.body))
        if response.status in {403, 404}:
            return self._overlay.touch(target.object_id, None, readable=response.status == 404)
        return response

    async def _delete_all(self, request: Request, target: RequestTarget) -> Response:
        """Plan the deletion of each selected object."""
        params = tuple(pair for pair in request.params if pair[0] in {"labelSelector", "fieldSelector"})
        token = ""
        for _page in range(_PATIENCE):
            continued = (("continue", token),) if token else ()
            listing = Request(method="GET", path=request.path, params=(*params, *continued), repeatable=True)
            response = await self._list(listing, target)
            if response.status != 200:
                return response
            page = msgspec.json.decode(response.body)
            for item in page["items"]:
                metadata = item["metadata"]
                each = target._replace(namespace=metadata.get("namespace", ""), name=metadata["name"])
                single = Request(method="DELETE", path=_path_of(each), body=b"{}", content_type=request.content_type)
                async with self._cluster.locks[each.object_id]:
                    outcome = await self._write(single, each)
                if outcome.status not in {200, 202, 404}:
                    return outcome
            token = page["metadata"].get("continue", "")
            if not token:
                break
        return answer({"apiVersion": "v1", "kind": "Status", "status": "Success"})

    def _record(self, request: Request, target: RequestTarget) -> Response:
        """Record an Event, and return the response to a stored Event."""
        event: dict[str, Any] = msgspec.json.decode(request.body or b"{}")
        if request.method == "POST":
            about = event.get("regarding") or event.get("involvedObject") or {}
            path = "/".join(filter(None, (about.get("namespace"), about.get("name"))))
            recorded = RecordedEvent(
                about=f"{about.get('kind', '')} {path}",
                type=event.get("type", "Normal"),
                reason=event.get("reason", ""),
                note=event.get("note") or event.get("message") or "",
            )
            self._cluster.recorded[recorded] = None
        metadata = {"name": target.name, **(event.get("metadata") or {}), "uid": "planned", "resourceVersion": "1"}
        return answer({**event, "metadata": metadata}, 201 if request.method == "POST" else 200)


class _ListMeta(msgspec.Struct):
    version: str = msgspec.field(default="", name="resourceVersion")
    continue_: str = msgspec.field(default="", name="continue")


class _ListHead(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)


_HEAD: Final = msgspec.json.Decoder(_ListHead)


def _not_planned(request: Request, target: RequestTarget | None) -> Response:
    """Return the refusal of a request whose effects a dry run does not show."""
    object_id = ObjectId("", request.path, "", "") if target is None else target.object_id
    message = f"a plan sends no {request.method} {request.path}: the API server has no dry run of it"
    return refusal(403, "Forbidden", message, object_id)


def _path_of(target: RequestTarget) -> str:
    prefix = f"/apis/{target.api_version}" if target.group else f"/api/{target.api_version}"
    place = f"/namespaces/{quote(target.namespace, safe='')}" if target.namespace else ""
    return f"{prefix}{place}/{target.plural}/{quote(target.name, safe='')}"


def _reading(target: RequestTarget) -> Request:
    """Return the read of the stored object that a write is about."""
    return Request(method="GET", path=_path_of(target), repeatable=True, what=f"get {target.plural} {target.name}")
