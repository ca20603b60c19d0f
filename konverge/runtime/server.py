"""The HTTP servers of a process: the one place above the client that knows aiohttp.

`ProbeServer` serves metrics, health and debug, `PostServer` takes what is posted to it over TLS (webhooks). Of the first:

    /metrics                       Prometheus text or OpenMetrics, as the scraper asks; `?name[]=` restricts
    /healthz, /readyz              and single checks below them; see `konverge.runtime.health`
    /debug                         index; /debug/queues, /informers, /controllers, /tasks, /explain?kind=&namespace=&name=

Promises: everything that it shows is given to it, so it knows no manager. Starting binds, or raises ConfigError that names the address;
stopping frees the ports. No signal handler, no global. Whatever a source of debug data raises is one answer, not the end of the server.
A large exposition is written in a thread, so that a scrape does not stop the event loop; it is collected on the loop.

`/debug` names objects and their namespaces, never their content. Unless it is given an address of its own it answers callers on loopback
alone, which `kubectl port-forward` is.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import choose_encoder

from konverge.errors import ConfigError, UsageError, stack_of
from konverge.logs import get_logger
from konverge.runtime.health import JSON, TEXT, Checks, Question, answer, gather
from konverge.runtime.tasks import tasks_of
from konverge.words import LogKey

__all__ = [
    "OFF",
    "DebugSource",
    "Post",
    "PostServer",
    "ProbeServer",
    "Reply",
    "ServerSettings",
    "TooLarge",
    "parse_address",
]

OFF = "0"
"""The address that serves nothing."""

_KEEP_ALIVE = 120.0
"""Seconds that an idle connection is kept: above the 90 s of Go's clients, so that it is they who close it."""
_LOOPBACK = frozenset({"127.0.0.1", "::1", "::ffff:127.0.0.1"})
_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Where the server listens. An address is `host:port` or `:port` (every interface); port 0 takes a free one, "0" serves nothing.

    Equal addresses share one listener.
    """

    metrics: str = ":8080"
    """The address of /metrics; controller-runtime's."""
    health: str = ":8081"
    """The address of /healthz and /readyz; controller-runtime's."""
    debug: str = ""
    """The address of /debug. "": that of health, for callers on loopback alone. Another address serves whoever can reach it."""
    thread_bytes: int = 256 * 1024
    """An exposition that was larger than this the last time is made in a thread; below, the thread costs more than it spares."""
    shutdown: float = 1.0
    """Seconds that requests in progress have when the server stops."""


class DebugSource(Protocol):
    """What `/debug` shows; a manager is one."""

    def debug(self) -> Mapping[str, Callable[[], Any]]:
        """Return the pages: below each path a function that makes plain data, called on the event loop."""

    def explain(self, kind: str, namespace: str, name: str) -> Any:
        """Return what is known of one object's passes, as plain data."""


def parse_address(address: str) -> tuple[str, int] | None:
    """Split an address into host ("" is every interface) and port; None where it serves nothing. Raises UsageError.

    >>> parse_address(":8080"), parse_address("[::1]:0"), parse_address("0")
    (('', 8080), ('::1', 0), None)
    """
    if address in ("", OFF):
        return None
    host, colon, port = address.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535 or (":" in host and not bracketed):
        raise UsageError(
            f"address {address!r}: write host:port, [v6 host]:port, :port for every interface, or 0 for none"
        )
    return (host[1:-1] if bracketed else host), int(port)


def _listen(host: str, port: int) -> socket.socket:
    if host:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=128)
    if socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):  # a kernel without IPv6 says so only here
            return socket.create_server(("::", port), family=socket.AF_INET6, backlog=128, dualstack_ipv6=True)
    return socket.create_server(("", port), backlog=128)


def _bound(address: str, what: str) -> socket.socket:
    """Return a socket that listens; raises ConfigError that says what it was for and what to do."""
    parsed = parse_address(address)
    assert parsed is not None
    try:
        return _listen(*parsed)
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {address} for {what}: {error.strerror or error}; "
            "choose another address, port 0 for a free one, or 0 for none"
        ) from error


async def _serve(runner: web.AppRunner, sock: socket.socket, context: ssl.SSLContext | None) -> None:
    try:
        await runner.setup()
        await web.SockSite(runner, sock, ssl_context=context).start()
    except BaseException:
        sock.close()
        raise


def _url(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    shown = {"::": "127.0.0.1", "0.0.0.0": "127.0.0.1"}.get(host, host)  # noqa: S104  # shown, not bound
    return f"http://[{shown}]:{port}" if ":" in shown else f"http://{shown}:{port}"


def _wants_json(request: web.Request) -> bool:
    return request.query.get("format") == "json" or JSON in request.headers.get("Accept", "")


def _json(data: Any, status: int = 200) -> web.Response:
    body = msgspec.json.format(msgspec.json.encode(data, enc_hook=str), indent=2)
    return web.Response(body=body + b"\n", status=status, content_type=JSON)


@web.middleware
async def _plain_headers(request: web.Request, handler: _Handler) -> web.StreamResponse:
    response = await handler(request)
    response.headers.update(_HEADERS)
    return response


class _Collected:
    """A registry as it was at one moment."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> list[Metric]:
        return self._families


class ProbeServer:
    """Serves metrics, health and debug. Constructing it binds nothing.

        async with ProbeServer(registry=metrics.registry, live=live, ready=ready, debug=manager) as server:
            print(server.addresses["metrics"])

    `before_scrape` is called on the event loop before each exposition, to bring gauges up to date.
    """

    def __init__(
        self,
        *,
        registry: CollectorRegistry,
        live: Checks,
        ready: Checks,
        debug: DebugSource | None = None,
        settings: ServerSettings | None = None,
        before_scrape: Callable[[], None] | None = None,
    ) -> None:
        self._registry = registry
        self._live = live
        self._ready = ready
        self._debug = debug
        self._settings = settings or ServerSettings()
        self._before_scrape = before_scrape
        self._size = 0
        self._runners: list[web.AppRunner] = []
        self._addresses: dict[str, str] = {}
        self._log = get_logger("konverge.runtime")

    # --- life ---------------------------------------------------------------------------------------------------------------

    @property
    def addresses(self) -> Mapping[str, str]:
        """Where it listens: base URLs by `metrics`, `health` and `debug`; what is off, or not started, is absent."""
        return self._addresses

    async def start(self) -> None:
        """Bind and serve. Raises ConfigError where an address cannot be had, UsageError where it is none, or it serves already."""
        if self._runners:
            raise UsageError("the server runs already")
        try:
            for address, parts in self._listeners().items():
                await self._serve(address, parts)
        except BaseException:
            await self.stop()
            raise

    def _listeners(self) -> dict[str, set[str]]:
        """Return which parts each address serves."""
        settings = self._settings
        wanted = {"metrics": settings.metrics, "health": settings.health}
        if self._debug is not None:
            wanted["debug"] = settings.debug or settings.health
        listeners: dict[str, set[str]] = {}
        for part, address in wanted.items():
            if parse_address(address) is not None:
                listeners.setdefault(address, set()).add(part)
        return listeners

    async def _serve(self, address: str, parts: set[str]) -> None:
        app = web.Application(middlewares=[_plain_headers])
        app.router.add_get("/", self._index(parts))
        for part, add in (("metrics", self._add_metrics), ("health", self._add_health), ("debug", self._add_debug)):
            if part in parts:
                add(app.router)
        sock = _bound(address, " and ".join(sorted(parts)))
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=self._settings.shutdown)
        self._runners.append(runner)
        await _serve(runner, sock, None)
        self._addresses.update(dict.fromkeys(sorted(parts), _url(sock)))

    async def stop(self) -> None:
        """Stop serving and free the ports; harmless when called twice."""
        self._addresses = {}
        while self._runners:
            await self._runners.pop().cleanup()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _index(self, parts: set[str]) -> _Handler:
        paths = {"metrics": ("/metrics",), "health": ("/healthz", "/readyz"), "debug": ("/debug",)}
        text = "".join(f"{path}\n" for part in sorted(parts) for path in paths[part])

        async def index(_request: web.Request) -> web.Response:
            return web.Response(text=text)

        return index

    # --- metrics ------------------------------------------------------------------------------------------------------------

    def _add_metrics(self, router: web.UrlDispatcher) -> None:
        router.add_get("/metrics", self._metrics)

    async def _metrics(self, request: web.Request) -> web.Response:
        if self._before_scrape is not None:
            self._before_scrape()
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        names = request.query.getall("name[]", [])
        registry: Any = self._registry.restricted_registry(names) if names else self._registry
        # Collected on the loop, because gauges may be functions that look at what the loop is changing.
        collected: Any = _Collected(list(registry.collect()))
        if self._size > self._settings.thread_bytes:
            body = await asyncio.to_thread(encode, collected)
        else:
            body = encode(collected)
        if not names:
            self._size = len(body)
        response = web.Response(body=body, headers={"Content-Type": content_type})
        response.enable_compression()
        return response

    # --- health -------------------------------------------------------------------------------------------------------------

    def _add_health(self, router: web.UrlDispatcher) -> None:
        for endpoint, checks in (("healthz", self._live), ("readyz", self._ready)):
            handler = self._probe(endpoint, checks)
            router.add_get(f"/{endpoint}", handler)
            router.add_get(f"/{endpoint}/{{check:.+}}", handler)

    def _probe(self, endpoint: str, checks: Checks) -> _Handler:
        async def probe(request: web.Request) -> web.Response:
            question = Question(
                only=request.match_info.get("check", ""),
                verbose="verbose" in request.query,
                exclude=frozenset(request.query.getall("exclude", [])),
                as_json=_wants_json(request),
            )
            found = answer(endpoint, gather(checks), question)
            return web.Response(
                body=found.body.encode(), status=found.status, headers={"Content-Type": found.content_type}
            )

        return probe

    # --- debug --------------------------------------------------------------------------------------------------------------

    def _add_debug(self, router: web.UrlDispatcher) -> None:
        for path, handler in (
            ("/debug", self._debug_index),
            ("/debug/", self._debug_index),
            ("/debug/tasks", self._debug_tasks),
            ("/debug/explain", self._debug_explain),
            ("/debug/{page}", self._debug_page),
        ):
            router.add_get(path, self._guarded(handler))

    def _guarded(self, handler: _Handler) -> _Handler:
        """Let only loopback in, unless debug has an address of its own; answer for whatever a source raises."""
        open_to_all = bool(self._settings.debug)

        async def guarded(request: web.Request) -> web.StreamResponse:
            if not open_to_all and request.remote not in _LOOPBACK:
                text = "/debug answers callers on loopback alone: use kubectl port-forward, or give debug an address\n"
                return web.Response(text=text, status=403)
            try:
                return await handler(request)
            except web.HTTPException:
                raise
            except Exception as error:  # noqa: BLE001  # contained: one page is not worth the server
                self._log.error("a page of /debug failed", **{LogKey.URL: request.path, LogKey.STACK: stack_of(error)})
                return web.Response(text=f"{request.path} failed: {type(error).__name__}; see the log\n", status=500)

        return guarded

    def _pages(self) -> Mapping[str, Callable[[], Any]]:
        assert self._debug is not None
        return self._debug.debug()

    async def _debug_index(self, _request: web.Request) -> web.Response:
        pages = sorted({*self._pages(), "tasks", "explain?kind=&namespace=&name="})
        return _json({"paths": [f"/debug/{page}" for page in pages]})

    async def _debug_page(self, request: web.Request) -> web.Response:
        pages, page = self._pages(), request.match_info["page"]
        if page not in pages:
            known = ", ".join(sorted({*pages, "tasks", "explain"}))
            return web.Response(text=f"/debug has no page {page!r}; there are: {known}\n", status=404)
        return _json(pages[page]())

    async def _debug_tasks(self, _request: web.Request) -> web.Response:
        return _json(tasks_of(asyncio.get_running_loop()))

    async def _debug_explain(self, request: web.Request) -> web.Response:
        assert self._debug is not None
        kind, namespace, name = (request.query.get(word, "") for word in ("kind", "namespace", "name"))
        if not kind or not name:
            text = "say which object: /debug/explain?kind=backup&namespace=web&name=nightly\n"
            return web.Response(text=text, status=400, headers={"Content-Type": TEXT})
        return _json(self._debug.explain(kind, namespace, name))


class TooLarge(Exception):
    """What was posted is larger than the server takes; the words name the limit."""


@dataclass(frozen=True, slots=True)
class Post:
    """One request: where it was posted, and how its body is read. `read` raises TooLarge, and TimeoutError where it does not come."""

    path: str
    query: Mapping[str, str]
    content_type: str
    read: Callable[[], Awaitable[bytes]]


class Reply(Protocol):
    """What is answered."""

    @property
    def status(self) -> int:
        """The HTTP status."""

    @property
    def body(self) -> bytes:
        """The body."""

    @property
    def content_type(self) -> str:
        """The value of Content-Type."""


class PostServer:
    """Hands every POST to one function, over TLS. Constructing it binds nothing.

    `context` may be given another certificate at any time. Stopping closes the port at once and gives requests in progress `shutdown`
    seconds to end.
    """

    def __init__(
        self,
        answer: Callable[[Post], Awaitable[Reply]],
        *,
        address: str,
        context: ssl.SSLContext,
        max_bytes: int,
        shutdown: float,
        reading: float = 30.0,
    ) -> None:
        self._answer = answer
        self._where = address
        self._context = context
        self._max_bytes = max_bytes
        self._shutdown = shutdown
        self._reading = reading
        self._runner: web.AppRunner | None = None
        self.address = ""
        """The base URL where it listens; "" where it does not."""

    async def start(self) -> None:
        """Bind and serve; raises ConfigError where the address cannot be had."""
        app = web.Application(middlewares=[_plain_headers], client_max_size=self._max_bytes)
        app.router.add_post("/{path:.*}", self._post)
        sock = _bound(self._where, "webhooks")
        self._runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=self._shutdown, keepalive_timeout=_KEEP_ALIVE
        )
        try:
            await _serve(self._runner, sock, self._context)
        except BaseException:
            await self.stop()
            raise
        self.address = _url(sock).replace("http:", "https:", 1)

    async def stop(self) -> None:
        """Stop serving and free the port; harmless when called twice."""
        self.address = ""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _post(self, request: web.Request) -> web.Response:
        async def read() -> bytes:
            try:
                async with asyncio.timeout(self._reading):
                    return await request.read()
            except web.HTTPRequestEntityTooLarge as error:
                raise TooLarge(f"the request is larger than {self._max_bytes} bytes") from error

        reply = await self._answer(Post(request.path, request.query, request.content_type, read))
        return web.Response(body=reply.body, status=reply.status, headers={"Content-Type": reply.content_type})
