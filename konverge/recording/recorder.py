"""The tap of a recording: it collects each reconcile, and writes it when it ends."""

from __future__ import annotations

import asyncio
import os
import platform
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from konverge.clock import rfc3339_micro, wall_clock
from konverge.errors import RetryAfter, stack_of
from konverge.logs import get_logger
from konverge.outcome import RequeueAfter
from konverge.recording.blanks import Blanks
from konverge.recording.caches import RecordedCaches
from konverge.recording.entries import (
    VERSION,
    CacheRead,
    Document,
    EventLine,
    Exchange,
    Header,
    KeyName,
    Line,
    OwnedFields,
    RecordedReconcile,
    Served,
)
from konverge.recording.files import LogFiles
from konverge.recording.transport import recorded_transport
from konverge.runtime.apply.applier import LruDict
from konverge.runtime.hooks.tap import Pipeline, ReconcileEnd

if TYPE_CHECKING:
    from pathlib import Path

    from konverge.client import ClientConfig
    from konverge.client.requests import Request
    from konverge.client.transport import Response
    from konverge.informers import Cached, Informer
    from konverge.keys import Key
    from konverge.kinds import Kind
    from konverge.recording.transport import Responded
    from konverge.runtime.cache.narrowed import Narrowed
    from konverge.runtime.cache.readers import Caches, Reorder

__all__ = ["Recorder"]

E = TypeVar("E", bound=ReconcileEnd)
_JSON_OF: Final = msgspec.json.Encoder().encode
_MOST_SERVED: Final = 1 << 20
"""Bytes of one discovery or schema document that is recorded."""
_MOST_NAMES: Final = 100_000
_MANY: Final = 16
"""Objects of a cache read that a reconcile names by itself."""
_EVENT_GROUPS: Final = ("/apis/events.k8s.io/", "/api/v1/namespaces/")


def _line(entry: Line) -> bytes:
    """Return the line of an entry; bodies of the API server may hold line ends between their parts."""
    return _JSON_OF(entry).translate(None, b"\r\n") + b"\n"


@contextmanager
def _contained() -> Iterator[None]:
    """Log an exception of the recording: it fails no reconcile."""
    try:
        yield
    except Exception as error:  # noqa: BLE001  # containment: the recorded program goes on
        get_logger("konverge.recording").error("a part of a reconcile is not recorded", stack=stack_of(error))


class _Entry:
    """One reconcile under way."""

    def __init__(self, controller: str, key: Key, reasons: tuple[str, ...], number: int) -> None:
        self.loop = asyncio.get_running_loop()
        self.started = self.loop.time()
        self.documents: dict[str, Callable[[], bytes]] = {}
        self.reads: dict[CacheRead, None] = {}
        self.exchanges: list[Exchange] = []
        self.recorded = RecordedReconcile(
            number=number,
            controller=controller,
            key=KeyName(key.kind.api_version, key.kind.kind, key.namespace, key.name),
            reasons=reasons,
            began=rfc3339_micro(wall_clock()),
            duration=0.0,
            object="",
        )

    @property
    def seconds(self) -> float:
        """The seconds since the reconcile began."""
        return round(self.loop.time() - self.started, 6)


class Recorder:
    """Records the reconciles of one manager. Constructing it does nothing.

    `path` and its older file take `size` bytes. `operator` and `namespace`, the only namespace that it watches, are for the header.
    """

    def __init__(self, path: Path, size: int, *, operator: str, namespace: str | None) -> None:
        self._operator = operator
        self._namespace = namespace
        self._blanks = Blanks(os.urandom(32))
        self._current: ContextVar[_Entry | None] = ContextVar("konverge_recorded_reconcile", default=None)
        self._names: LruDict[tuple[int, str, str, int], str] = LruDict(_MOST_NAMES)
        """The ids of cached objects that were recorded: an unchanged object is neither read nor digested again."""
        self._served: dict[str, bytes] = {}
        self._count = 0
        self._files = LogFiles(path, size, self._head)

    def _head(self) -> list[bytes]:
        header = Header(
            version=VERSION,
            operator=self._operator,
            namespace=self._namespace,
            konverge=version("konverge"),
            python=platform.python_version(),
            host=socket.gethostname(),
            pid=os.getpid(),
            started=rfc3339_micro(wall_clock()),
        )
        return [_line(header), *self._served.values()]

    # --- the tap -------------------------------------------------------------------------------------------------------------

    @contextmanager
    def open(self, config: ClientConfig) -> Iterator[ClientConfig]:
        """Record until the end of the block; yields the configuration whose requests are recorded. Raises ConfigError."""
        self._files.open()
        try:
            yield config.through(lambda inner: recorded_transport(inner, self._note_request))
        finally:
            self._files.close()

    def caches(
        self, controller: str, informers: Mapping[Kind[Any], Informer | Narrowed], *, reorder: Reorder | None
    ) -> Caches:
        """Return the caches of a controller, whose reads are recorded."""
        return RecordedCaches(controller, informers, reorder=reorder, note=self._note_read)

    def around(self, controller: str, owned: AbstractSet[Kind[Any]], caches: Caches, run: Pipeline[E]) -> Pipeline[E]:
        """Return the pipeline of a controller, whose reconciles are recorded."""

        async def recorded(key: Key, cached: Cached, reasons: tuple[str, ...], log: Any, epoch: int = 0) -> E:
            self._count += 1
            entry = _Entry(controller, key, reasons, self._count)
            entry.recorded.epoch = epoch
            with _contained():
                self._begin(entry, key, cached, owned, caches)
            token = self._current.set(entry)
            try:
                result = await run(key, cached, reasons, log, epoch)
            except BaseException as error:
                with _contained():
                    self._end(entry, error)
                raise
            finally:
                self._current.reset(token)
            with _contained():
                self._end(entry, result.ended, writes=tuple(result.trace.writes), skipped=result.trace.skipped)
            return result

        return recorded

    # --- what is recorded ----------------------------------------------------------------------------------------------------

    def _begin(self, entry: _Entry, key: Key, cached: Cached, owned: AbstractSet[Kind[Any]], caches: Caches) -> None:
        """Record the object, and its children: the runtime finds them by itself, to delete those that are not wanted any more."""
        entry.recorded.object = self._cached(entry, key.kind, cached)
        for kind in owned:
            if (informer := caches.informer(kind)) is not None:
                self._read(entry, kind, "index", f"owner={cached.uid}", informer.store.by_index("owner", cached.uid))

    def _end(self, entry: _Entry, ended: Any, *, writes: tuple[str, ...] = (), skipped: int = 0) -> None:
        """Write a reconcile that has ended."""
        recorded, text = entry.recorded, self._blanks.text
        recorded.duration = entry.seconds
        recorded.outcome = "Cancelled" if isinstance(ended, asyncio.CancelledError) else type(ended).__name__
        recorded.delay = ended.delay if isinstance(ended, RequeueAfter | RetryAfter) else None
        if isinstance(ended, Exception):
            recorded.error, recorded.traceback = text(str(ended)), text(stack_of(ended))
        recorded.writes, recorded.skipped = tuple(map(text, writes)), skipped
        recorded.reads, recorded.exchanges = tuple(entry.reads), tuple(entry.exchanges)

        def shorter(size: int) -> bytes:
            recorded.reads, recorded.exchanges, recorded.object, recorded.dropped = (), (), "", size
            return _line(recorded)

        self._files.write(entry.documents, _line(recorded), shorter)

    def _note_read(self, kind: Kind[Any], operation: str, argument: str, objects: Iterable[Cached]) -> None:
        entry = self._current.get()
        if entry is not None:
            with _contained():
                self._read(entry, kind, operation, argument, objects)

    def _read(self, entry: _Entry, kind: Kind[Any], operation: str, argument: str, objects: Iterable[Cached]) -> None:
        documents, many = tuple(self._cached(entry, kind, cached) for cached in objects), ""
        if len(documents) > _MANY:
            documents, many = (), self._keep(entry, _JSON_OF(documents))
        entry.reads[CacheRead(kind.api_version, kind.kind, operation, argument, documents, many)] = None

    def _cached(self, entry: _Entry, kind: Kind[Any], cached: Cached) -> str:
        """Keep a cached object for the entry, and return its id."""
        identity = (id(cached), cached.uid, cached.version, len(cached.body))
        name = self._names.get(identity)
        if name is None:
            document = self._document(kind, cached)
            name = document.id
            self._names.put(identity, name)
            entry.documents[name] = partial(_line, document)
        elif name not in entry.documents:
            known = name
            entry.documents[name] = lambda: _line(self._document(kind, cached, known))
        return name

    def _document(self, kind: Kind[Any], cached: Cached, name: str = "") -> Document:
        """Return the document of a cached object, under its known id or a new id."""
        if cached.body:
            body = self._blanks.body(cached.body, secret=_is_secret(kind))
        else:
            body = _JSON_OF({"metadata": self._blanks.data(cached.data()["metadata"], secret=_is_secret(kind))})
        owned = tuple(OwnedFields(*owner, msgspec.Raw(fields)) for owner, fields in (cached.owned or {}).items())
        name = name or self._blanks.digest(b"\0".join((body, *(bytes(each.fields) for each in owned))))
        return Document(id=name, body=msgspec.Raw(body), owned=owned)

    def _keep(self, entry: _Entry, body: bytes) -> str:
        document = Document(id=self._blanks.digest(body), body=msgspec.Raw(body))
        entry.documents[document.id] = partial(_line, document)
        return document.id

    def _note_request(self, request: Request) -> Responded:
        entry = self._current.get()
        if _is_served(request):
            return lambda response, _error=None: self._note_served(request, response)
        if entry is None:
            return lambda response, _error=None: self._note_event(request, response)
        exchange = Exchange(
            method=request.method,
            path=request.path,
            params=tuple((name, self._blanks.text(value)) for name, value in request.params),
            content_type=request.content_type,
            at=entry.seconds,
        )
        with _contained():
            exchange.body = self._body(entry, request.path, request.body)
        entry.exchanges.append(exchange)

        def responded(response: Response | None, error: BaseException | None = None) -> None:
            exchange.seconds = round(entry.seconds - exchange.at, 6)
            if response is None:
                exchange.error = self._blanks.text(f"{type(error).__name__}: {error}")
                return
            exchange.status, exchange.response_type = response.status, response.content_type
            exchange.retry_after = response.retry_after
            with _contained():
                exchange.response = self._body(entry, request.path, response.body)

        return responded

    def _body(self, entry: _Entry, path: str, body: bytes | None) -> str:
        if not body:
            return ""
        return self._keep(entry, self._blanks.body(body, secret="secrets" in path.split("/")))

    def _note_served(self, request: Request, response: Response | None) -> None:
        if response is None or response.status != 200 or len(response.body) > _MOST_SERVED:
            return
        if request.path not in self._served and response.body.startswith(b"{"):
            line = _line(Served(path=request.path, body=msgspec.Raw(response.body)))
            self._served[request.path] = line
            self._files.write({}, line, lambda _size: b"")

    def _note_event(self, request: Request, response: Response | None) -> None:
        """Record a Kubernetes Event that a task outside of reconciles sends."""
        if not request.writes or response is None or not request.path.startswith(_EVENT_GROUPS) or not request.body:
            return
        if not request.path.endswith("/events"):
            return
        with _contained():
            self._event(request.body)

    def _event(self, body: bytes) -> None:
        event = self._blanks.data(msgspec.json.decode(body))
        about = event.get("regarding") or {}
        path = "/".join(filter(None, (about.get("namespace"), about.get("name"))))
        recorded = EventLine(
            at=rfc3339_micro(wall_clock()),
            about=f"{about.get('kind', '')} {path}",
            type=str(event.get("type", "")),
            reason=str(event.get("reason", "")),
            note=str(event.get("note", "")),
        )
        line = _line(recorded)
        self._files.write({}, line, lambda _size: b"")


def _is_secret(kind: Kind[Any]) -> bool:
    return not kind.group and kind.kind == "Secret"


def _is_served(request: Request) -> bool:
    """Return whether a request reads discovery or a schema, which the client keeps for later reconciles."""
    if request.writes:
        return False
    parts = request.path.strip("/").split("/")
    lengths = {"api": 2, "apis": 3}
    return parts[0] == "openapi" or len(parts) <= lengths.get(parts[0], 0)
