"""One controller on virtual time, between a cache that a test fills and an API server of a few lines.

It deliberately has no lists, watches, conflicts, or defaults. The test decides when the cache receives a change. The in-memory API server
is not used, because its watch delivers each event at once, and these tests are about the moments before an event arrives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, field
from random import Random
from types import TracebackType
from typing import Any, Self

import msgspec

from konverge.client import Fence, Ledger, ListQuery, Page, ResourceInfo
from konverge.client.ledger import PendingWrite
from konverge.errors import Conflict, NotFound
from konverge.fields import owned_by, without_nulls
from konverge.informers import Cached, Change, Selection
from konverge.informers.effect_handler import StoreWriter
from konverge.informers.store import Store
from konverge.kinds import Kind, kind_of
from konverge.metrics import Metrics
from konverge.objects import Metadata
from konverge.runtime import Controller
from konverge.runtime.controller.runner import ControllerRunner
from konverge.runtime.events.core import Regarding
from konverge.runtime.hooks.leadership import Term
from konverge.runtime.observability.event_loop import EventLoopMonitor
from konverge.runtime.reconcile.services import ManagerServices
from konverge.tasks import Slice

Hook = Callable[[], Awaitable[None] | None]


def fields_of(value: Any) -> dict[str, Any]:
    """The FieldsV1 of an applied value: maps by field, conditions by type, all else as a whole."""
    if isinstance(value, Mapping):
        return {f"f:{key}": _member(key, member) for key, member in value.items()}
    return {}


def _member(key: str, member: Any) -> dict[str, Any]:
    if key != "conditions":
        return fields_of(member)
    return {f'k:{{"type":"{item["type"]}"}}': {".": {}, **{f"f:{name}": {} for name in item}} for item in member}


@dataclass
class Feed:
    has_synced: bool = True
    handlers: list[Callable[[Change], None]] = field(default_factory=list)
    handler: Callable[[Change], None] | None = None
    on_synced: Callable[[], None] | None = None

    async def synced(self) -> None:
        return

    def remove(self) -> None:
        if self.handler is not None and self.handler in self.handlers:
            self.handlers.remove(self.handler)


class Informer:
    """A cache without a reflector."""

    def __init__(self, selection: Selection, info: ResourceInfo, managers: frozenset[str]) -> None:
        self.selection = selection
        self.info = info
        self.store = Store()
        self.problem = None
        self.listeners: list[Callable[[], None]] = []
        self.users = 0
        self.handlers: list[Callable[[Change], None]] = []
        self._managers = managers
        self._writer = StoreWriter(self.store)
        self._writer.clear()
        self.store._synced = True

    @property
    def synced(self) -> bool:
        return True

    def add_handler(self, name: str, handler: Callable[[Change], None]) -> Feed:
        self.handlers.append(handler)
        return Feed(handlers=self.handlers, handler=handler)

    def show(self, data: Mapping[str, Any] | None, *, namespace: str, name: str, version: str) -> None:
        old = self.store.get(namespace, name)
        new = None if data is None else self._cached(data)
        self._writer.apply([Change(namespace, name, None, new)], version)
        if old is None and new is None:
            return
        for handler in tuple(self.handlers):
            handler(Change(namespace, name, old, new))

    def _cached(self, data: Mapping[str, Any]) -> Cached:
        metadata = dict(data["metadata"])
        managed = metadata.pop("managedFields", [])
        owned = owned_by(msgspec.json.encode(managed), self._managers) or None
        body = b"" if self.selection.metadata_only else msgspec.json.encode({**data, "metadata": metadata})
        return Cached(msgspec.convert(metadata, Metadata, strict=False), body, owned)


class Server:
    """Objects by kind, namespace and name, with the part of the client that the runtime uses."""

    name = "konverge"

    def __init__(self, cluster_scoped: frozenset[str]) -> None:
        self.ledger = Ledger()
        self.objects: dict[tuple[Kind[Any], str, str], dict[str, Any]] = {}
        self.version = 10
        self.calls: list[str] = []
        self.before: Hook | None = None
        self.after: Hook | None = None
        self._cluster_scoped = cluster_scoped

    def fenced_by(self, fence: Fence) -> Server:
        """Return this server: no test with this harness checks the fence."""
        return self

    async def list_page(self, info: ResourceInfo, query: ListQuery) -> Page:
        """Return a version that cannot be compared, so that every cache counts as current."""
        return Page(items=[], resource_version="")

    def info(self, kind: Kind[Any]) -> ResourceInfo:
        namespaced = kind.kind not in self._cluster_scoped
        return ResourceInfo(
            api_version=kind.api_version, kind=kind.kind, plural=kind.kind.lower() + "s", namespaced=namespaced
        )

    async def resource(self, kind: Kind[Any]) -> ResourceInfo:
        return self.info(kind)

    async def settle_nulls(self, kind: Kind[Any], body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Drop every null, as for kinds without a nullable field."""
        plain: dict[str, Any] = without_nulls(body)
        return plain

    async def condition_shape(self, kind: Kind[Any]) -> None:
        """Return no schema, like a server without OpenAPI documents."""

    def store(self, kind: Kind[Any], data: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        metadata = data["metadata"]
        metadata.setdefault("uid", f"uid-{metadata['name']}-{self.version}")
        metadata["resourceVersion"] = str(self.version)
        self.objects[kind, metadata.get("namespace", ""), metadata["name"]] = data
        return data

    def stored(self, kind: Kind[Any], namespace: str, name: str) -> dict[str, Any]:
        found = self.objects.get((kind, namespace, name))
        if found is None:
            raise NotFound(f"{kind.kind} {namespace}/{name}", status=404, reason="NotFound")
        return found

    async def get_metadata(self, kind: Kind[Any], name: str, namespace: str = "") -> Metadata:
        await self._call(f"get {kind.kind} {name}")
        return msgspec.convert(self.stored(kind, namespace, name)["metadata"], Metadata, strict=False)

    async def _call(self, what: str, pending: PendingWrite | None = None) -> None:
        self.calls.append(what)
        try:
            if self.before is not None:
                waiting = self.before()
                if waiting is not None:
                    await waiting
        except BaseException:
            if pending is not None:
                pending.failed()
            raise

    async def _answered(self) -> None:
        if self.after is not None:
            waiting = self.after()
            if waiting is not None:
                await waiting

    async def apply_raw(
        self,
        kind: Kind[Any],
        body: Mapping[str, Any],
        *,
        manager: str,
        force: bool = False,
        subresource: str = "",
        writer: Hashable | None = None,
        normalized: bool = False,
    ) -> bytes:
        assert not normalized or without_nulls(body) == body
        intent = without_nulls(body)
        name, namespace = intent["metadata"]["name"], intent["metadata"].get("namespace", "")
        pending = self.ledger.begin(writer, kind, namespace, name) if writer is not None else None
        await self._call(f"apply {kind.kind} {name}{'/' + subresource if subresource else ''}", pending)
        before = self.objects.get((kind, namespace, name))
        version = intent["metadata"].get("resourceVersion")
        uid = intent["metadata"].get("uid")
        if before is not None and (
            version not in (None, before["metadata"]["resourceVersion"]) or uid not in (None, before["metadata"]["uid"])
        ):
            if pending is not None:
                pending.failed()
            raise Conflict(f"{kind.kind} {name} is another object or at another version", status=409, reason="Conflict")
        data = msgspec.json.decode(msgspec.json.encode(before)) if before else {"metadata": {}}
        part = {key: value for key, value in intent.items() if key not in ("apiVersion", "kind", "metadata")}
        data = _merged(data, part)
        ours = {key: value for key, value in intent["metadata"].items() if key != "uid"}
        data["metadata"] |= ours
        owners = ours.get("ownerReferences")
        managed = [
            entry
            for entry in data["metadata"].get("managedFields", [])
            if (entry["manager"], entry.get("subresource", "")) != (manager, subresource)
        ]
        fields = fields_of(part) | ({"f:metadata": {"f:ownerReferences": {}}} if owners else {})
        managed.append({"manager": manager, "operation": "Apply", "subresource": subresource, "fieldsV1": fields})
        data["metadata"]["managedFields"] = managed
        data |= {"apiVersion": kind.api_version, "kind": kind.kind}
        self.store(kind, data)
        await self._answered()
        if pending is not None:
            pending.settle(data["metadata"]["resourceVersion"], data["metadata"]["uid"])
        return msgspec.json.encode(data)

    async def patch(
        self,
        kind: Kind[Any] | type[Any],
        name: str,
        namespace: str = "",
        *,
        patch: Any,
        style: str,
        writer: Hashable | None = None,
        **_: Any,
    ) -> Any:
        found = kind_of(kind)
        pending = self.ledger.begin(writer, found, namespace, name) if writer is not None else None
        await self._call(f"patch {found.kind} {name}", pending)
        data = msgspec.json.decode(msgspec.json.encode(self.stored(found, namespace, name)))
        if style == "json":
            _json_patch(data, patch)
        self.store(found, data)
        await self._answered()
        if pending is not None:
            pending.settle(data["metadata"]["resourceVersion"], data["metadata"]["uid"])
        return found.decode(data)

    async def delete(
        self,
        kind: Kind[Any],
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        writer: Hashable | None = None,
        **_: Any,
    ) -> bool:
        pending = self.ledger.begin(writer, kind, namespace, name) if writer is not None else None
        await self._call(f"delete {kind.kind} {name}", pending)
        gone = self.objects.pop((kind, namespace, name), None)
        if pending is not None:
            pending.deleted(uid)
        return gone is not None


def _merged(before: Any, part: Any) -> Any:
    if isinstance(before, Mapping) and isinstance(part, Mapping):
        return {**before, **{key: _merged(before.get(key), value) for key, value in part.items()}}
    return part


def _json_patch(data: dict[str, Any], patch: list[dict[str, Any]]) -> None:
    finalizers = data["metadata"].setdefault("finalizers", [])
    for operation in patch:
        match operation["op"]:
            case "add" if operation["path"] == "/metadata/finalizers":
                data["metadata"]["finalizers"] = list(operation["value"])
            case "add":
                finalizers.append(operation["value"])
            case "remove":
                del finalizers[int(operation["path"].rpartition("/")[2])]


class Informers:
    def __init__(self, server: Server, managers: frozenset[str]) -> None:
        self._server = server
        self._managers = managers
        self.by_selection: dict[Selection, Informer] = {}

    def acquire(self, selection: Selection, *, optional: bool = False) -> Informer:
        informer = self.by_selection.get(selection)
        if informer is None:
            informer = Informer(selection, self._server.info(selection.kind), self._managers)
            self.by_selection[selection] = informer
        informer.users += 1
        return informer

    def release(self, informer: Informer, *, optional: bool = False) -> None:
        informer.users -= 1


class ControllerHarness:
    """Runs controllers. `with_` fills the caches with the server's objects; leaving stops everything."""

    def __init__(
        self,
        *controllers: Controller[Any],
        namespace: str | None = None,
        strict: bool = True,
        drain: float = 25.0,
        cluster_scoped: frozenset[str] = frozenset(),
        slice_: Slice | None = None,
    ) -> None:
        self.server = Server(cluster_scoped)
        suffixes = {f"konverge.{one.status_suffix}" for one in controllers if one.status_suffix}
        self.informers = Informers(self.server, frozenset({"konverge", *suffixes}))
        self.metrics = Metrics()
        self.events: list[tuple[str, str]] = []
        self.runners: dict[str, ControllerRunner] = {}
        self._controllers = controllers
        self._namespace = namespace
        self._strict = strict
        self._drain = drain
        self._slice = slice_
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        services = ManagerServices(
            manager="konverge",
            client=self.server,  # type: ignore[arg-type]  # what the runtime uses of a client
            informers=self.informers,  # type: ignore[arg-type]  # what the runtime uses of a set of informers
            metrics=self.metrics,
            random=Random(1),
            events=self,  # type: ignore[arg-type]  # a recorder, as far as the runtime uses one
            event_loop=EventLoopMonitor(loop, self.metrics),
            slice=self._slice,
            namespace=self._namespace,
            strict=self._strict,
            drain=self._drain,
            term=Term(leads=True),
        )
        for spec in self._controllers:
            runner = self.runners[spec.name] = ControllerRunner(spec, services)
            self._tasks.append(asyncio.create_task(runner.run(), name=f"konverge controller {spec.name}"))
        await self.settle()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for runner in self.runners.values():
            runner.stop()
        await asyncio.wait(self._tasks)
        for task in self._tasks:
            task.result()

    def record(self, regarding: Regarding, reason: str, note: str, *, type_: str, action: str) -> None:
        self.events.append((reason, action))

    @property
    def runner(self) -> ControllerRunner:
        return next(iter(self.runners.values()))

    async def settle(self, seconds: float = 0.5) -> None:
        await asyncio.sleep(seconds)

    def show(self, kind: Kind[Any] | type[Any], name: str, namespace: str = "") -> None:
        """Update every cache of the kind to the object's state on the server."""
        found = kind_of(kind)
        data = self.server.objects.get((found, namespace, name))
        version = str(self.server.version if data is None else data["metadata"]["resourceVersion"])
        for informer in self.informers.by_selection.values():
            if informer.selection.kind == found and informer.selection.namespace in (None, namespace):
                informer.show(data, namespace=namespace, name=name, version=version)

    def put(self, object_: Any, **metadata: Any) -> None:
        """Store an object as another client would, and deliver the event to the caches."""
        data = object_.to_dict()
        before = self.server.objects.get((kind_of(object_), object_.namespace, object_.name))
        if before is not None:
            data["metadata"] = {**before["metadata"], **data["metadata"]}
        data["metadata"] |= metadata
        self.server.store(kind_of(object_), data)
        self.show(kind_of(object_), object_.name, object_.namespace)

    def status(self, kind: Kind[Any] | type[Any], name: str, namespace: str = "") -> dict[str, Any]:
        found: dict[str, Any] = self.server.stored(kind_of(kind), namespace, name).get("status", {})
        return found
