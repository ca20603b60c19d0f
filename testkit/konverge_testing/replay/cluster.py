"""The API server of a replay: it responds as the record shows.

    list, watch       the objects that the reconcile read, as it read them; no event follows
    request           the recorded response to the next request of the same method and path, at the recorded time
    any other read    the object as it was last read or written, else 404
    any other write   merged into that object, as a plan does for an object that only the plan knows

Guarantees: nothing leaves this process.

Caveats: an object that the reconcile did not read does not exist here. So a changed program may read less than the cluster had; the report
names each cache read that the record lacks.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

import msgspec

from konverge.client import ClientConfig, ClientSettings
from konverge.client.discovery import read_resources
from konverge.client.requests import JSON, Request
from konverge.client.targets import ObjectId, RequestTarget, target_of
from konverge.client.transport import OpenStream, Response, WebSocket
from konverge.errors import Unreachable, UsageError
from konverge.planning.documents import Document
from konverge.planning.overlay import PlannedObject
from konverge.planning.responses import answer, deleted, not_found
from konverge.planning.targets import Selected, in_form_of
from konverge.planning.writes import body_of, precondition_failure, step_of, write_of
from konverge.recording import Exchange, RecordedReconcile, Recording
from konverge.recording.blanks import document_of

__all__ = ["RecordedCluster", "Sent", "objects_of", "plurals_of"]

_LONG: Final = 1e6
"""Seconds of a request that was cancelled: the deadline of the reconcile ends it again."""
_BOOKKEEPING: Final = frozenset({"resourceVersion", "managedFields"})


def plurals_of(recording: Recording) -> dict[tuple[str, str], str]:
    """Return the plural of each kind that the recorded server served, by API version and kind."""
    plurals: dict[tuple[str, str], str] = {}
    for path, body in recording.served.items():
        parts = path.strip("/").split("/")
        if parts[0] in {"api", "apis"} and len(parts) == 2 + (parts[0] == "apis"):
            api_version = "/".join(parts[1:])
            infos = read_resources(api_version, body)
            plurals.update({(api_version, kind): info.plural for kind, info in infos.items()})
    return plurals


def objects_of(recording: Recording, reconcile: RecordedReconcile) -> dict[ObjectId, Document]:
    """Return each object that a reconcile read, as it read it first."""
    plurals = plurals_of(recording)
    objects: dict[ObjectId, Document] = {}

    def add(api_version: str, kind: str, document: Document) -> None:
        metadata = document["metadata"]
        plural = plurals.get((api_version, kind), f"{kind.lower()}s")
        group = api_version.rpartition("/")[0]
        whole = {"apiVersion": api_version, "kind": kind, **document}
        objects.setdefault(ObjectId(group, plural, metadata.get("namespace", ""), metadata["name"]), whole)

    def cached(api_version: str, kind: str, name: str) -> None:
        document = recording.documents[name]
        data = document.data()
        if document.owned:
            data["metadata"]["managedFields"] = [_managed(api_version, each) for each in document.owned]
        add(api_version, kind, data)

    if reconcile.object:
        cached(reconcile.key.api_version, reconcile.key.kind, reconcile.object)
    for read in reconcile.reads:
        for name in recording.objects(read):
            cached(read.api_version, read.kind, name)
    for exchange in reconcile.exchanges:
        if (
            exchange.method == "GET"
            and exchange.status == 200
            and isinstance(data := recording.data(exchange.response), dict)
        ):
            kind = str(data.get("kind", ""))
            for item in data.get("items") or () if kind.endswith("List") else ():
                add(str(data["apiVersion"]), kind.removesuffix("List"), item)
            if "name" in data.get("metadata", {}) and kind != "PartialObjectMetadata":
                add(str(data["apiVersion"]), kind, data)
    return objects


def _managed(api_version: str, owned: Any) -> dict[str, Any]:
    entry = {
        "manager": owned.manager,
        "operation": owned.operation,
        "apiVersion": api_version,
        "fieldsType": "FieldsV1",
        "fieldsV1": msgspec.json.decode(owned.fields),
    }
    return {**entry, "subresource": owned.subresource} if owned.subresource else entry


@dataclass(frozen=True, slots=True)
class Sent:
    """One request of the replayed reconcile. `recorded` is the recorded request that it repeats, None if there is none."""

    method: str
    path: str
    body: Any
    recorded: Exchange | None
    before: Document | None = None
    after: Document | None = None
    """The object before and after a write that the record lacks."""

    @property
    def changes(self) -> bool:
        """Whether a write that the record lacks changes the object; the runtime of the record may have skipped a write that does not."""
        return self.before is None or _content(self.before) != _content(self.after)


class RecordedCluster:
    """The cluster as one reconcile saw it. `inside` returns whether the present task is the replayed reconcile."""

    def __init__(self, recording: Recording, reconcile: RecordedReconcile, inside: Callable[[], bool]) -> None:
        self.sent: list[Sent] = []
        self.left = list(reconcile.exchanges)
        """The recorded requests that were not repeated."""
        self.began = 0.0
        """The start of the reconcile, by the time of the loop."""
        self._recording = recording
        self._objects: dict[ObjectId, Document | None] = {**objects_of(recording, reconcile)}
        self._inside = inside
        self._numbers = count(1)

    def config(self) -> ClientConfig:
        """Return the configuration of clients of this cluster."""

        def opened(_config: ClientConfig, _settings: ClientSettings, _user_agent: str) -> RecordedCluster:
            return self

        return ClientConfig.over(opened)

    async def prepare(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""

    def stream(self, request: Request) -> AbstractAsyncContextManager[OpenStream]:
        """Open a watch without events. Raises UsageError for another stream."""
        if dict(request.params).get("watch") != "true":
            raise UsageError(f"{request.what or request.path}: the stream of a reconcile is not recorded")
        return _silent()

    def websocket(self, request: Request) -> AbstractAsyncContextManager[WebSocket | Response]:
        """Raise UsageError: websockets are not recorded."""
        raise UsageError(f"{request.what or request.path}: the websocket of a reconcile is not recorded")

    async def send(self, request: Request) -> Response:
        """Return the response of the record, or the nearest response if the record has none."""
        target = target_of(request.path)
        if not self._inside():
            return answer({"metadata": {}}) if request.writes else self._read(request, target)
        exchange = next(
            (each for each in self.left if (each.method, each.path) == (request.method, request.path)), None
        )
        if exchange is not None:
            self.left.remove(exchange)
        body = None if not request.body else document_of(request.body)
        before = None if target is None else self._objects.get(target.object_id)
        try:
            if exchange is not None:
                return await self._repeat(exchange, target)
            if target is None or not request.writes:
                return self._read(request, target)
            return self._write(request, target)
        finally:
            after = None if target is None else self._objects.get(target.object_id)
            self.sent.append(Sent(request.method, request.path, body, exchange, before, after))

    async def _repeat(self, exchange: Exchange, target: RequestTarget | None) -> Response:
        """Return the recorded response at the recorded time; raises Unreachable if the record has no response."""
        cancelled = exchange.error.startswith("CancelledError")
        elapsed = asyncio.get_running_loop().time() - self.began
        await asyncio.sleep(_LONG if cancelled else max(0.0, exchange.at + exchange.seconds - elapsed))
        if not exchange.status:
            raise Unreachable(exchange.error, maybe_done=exchange.writes)
        data = self._recording.data(exchange.response)
        if exchange.writes and 200 <= exchange.status < 300 and isinstance(data, dict) and target and target.name:
            self._objects[target.object_id] = data if "name" in data.get("metadata", {}) else None
        body = data.encode() if isinstance(data, str) else b"" if data is None else msgspec.json.encode(data)
        return Response(exchange.status, body, exchange.response_type or JSON, exchange.retry_after)

    def _read(self, request: Request, target: RequestTarget | None) -> Response:
        if target is None:
            body = self._recording.served.get(request.path)
            return Response(404, b"{}", JSON) if body is None else Response(200, body, JSON)
        if target.name:
            document = self._objects.get(target.object_id)
            return not_found(target.object_id) if document is None else answer(in_form_of(document, request, target))
        selected = Selected.by(request, target)
        items = [
            in_form_of(document, request, target)
            for object_id, document in self._objects.items()
            if document is not None and target.covers(object_id) and selected.takes(document)
        ]
        versions = (str(item["metadata"].get("resourceVersion", "")) for item in items)
        version = max((int(text) for text in versions if text.isdecimal()), default=1)
        kind = items[0]["kind"] if items else "Object"
        head = {"apiVersion": target.api_version, "kind": f"{kind}List", "metadata": {"resourceVersion": str(version)}}
        return answer({**head, "items": items})

    def _write(self, request: Request, target: RequestTarget) -> Response:
        """Return the response to a write that the record lacks."""
        if request.method == "POST" and not target.name:
            target = target._replace(name=(body_of(request).get("metadata") or {}).get("name") or "unnamed")
        before = self._objects.get(target.object_id)
        write = write_of(request, target, next(self._numbers))
        planned = PlannedObject(target.object_id, before, origin=before, current=before)
        if (failure := precondition_failure(write, planned)) is not None:
            return failure
        if write.verb in {"delete", "evict"}:
            self._objects[target.object_id] = None
            return deleted(target.object_id, before or {"metadata": {}})
        if write.verb == "call":
            return answer({})
        step = step_of(write, planned, None)
        if isinstance(step, Response):
            return step
        after = step(before or {})
        after = {**after, "metadata": {**after.get("metadata", {}), **_identity(before, target)}}
        if "dryRun" not in dict(request.params):
            self._objects[target.object_id] = after
        return answer(in_form_of(after, request, target), 201 if before is None else 200)


def _identity(before: Document | None, target: RequestTarget) -> dict[str, str]:
    metadata = (before or {}).get("metadata", {})
    version = str(metadata.get("resourceVersion", ""))
    identity = {
        "name": target.name,
        "uid": metadata.get("uid") or f"replayed-{target.name}",
        "resourceVersion": str(int(version) + 1) if version.isdecimal() else "1",
    }
    return {**identity, "namespace": target.namespace} if target.namespace else identity


def _content(document: Document | None) -> Any:
    if document is None:
        return None
    return {**document, "metadata": {k: v for k, v in document["metadata"].items() if k not in _BOOKKEEPING}}


@asynccontextmanager
async def _silent() -> AsyncIterator[OpenStream]:
    yield _Silent()


class _Silent:
    """A watch without events."""

    status = 200
    content_type = JSON
    retry_after: float | None = None

    async def read(self) -> bytes:
        await asyncio.Event().wait()
        return b""
