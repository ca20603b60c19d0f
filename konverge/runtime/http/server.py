"""The HTTP server of a process: metrics, health and debug.

    /metrics                       Prometheus text or OpenMetrics, by the Accept header; `?name[]=` restricts
    /healthz, /readyz              and single checks below them; see `konverge.runtime.http.health`
    /debug                         data for people, only to callers on loopback; see `konverge.runtime.http.debug`

Guarantees: the sources of everything that it shows are arguments, so it does not depend on the manager. Starting binds, or raises
ConfigError that names the address; stopping frees the ports. No signal handler, no global. A large exposition is
written in a thread, so that a scrape does not stop the event loop; it is collected on the loop.

With `secure` metrics are served over TLS, and only to callers that the API server authenticates and authorizes: see
`konverge.runtime.http.access`. Probes and debug stay as they are, at addresses of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from aiohttp import web
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import choose_encoder

from konverge.errors import UsageError
from konverge.runtime.http.debug import DebugPages, DebugSource
from konverge.runtime.http.health import JSON, Checks, Question, answer, gather
from konverge.runtime.http.listener import Limits, parse_address
from konverge.runtime.http.reviewer import AccessReviewer
from konverge.runtime.http.serving_pair import ServingPair
from konverge.runtime.http.site import Handler, Site

if TYPE_CHECKING:
    from konverge.client import Client

__all__ = [
    "ProbeServer",
    "ServerSettings",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The addresses of the server. An address is `host:port` or `:port` (every interface); port 0 takes a free one, "0" serves nothing.

    Equal addresses share one listener, and with it one limit of connections: give health its own address if other clients reach
    metrics.
    """

    metrics: str = ":8080"
    """The address of /metrics; controller-runtime's."""
    secure: bool = False
    """Serve metrics over TLS, only to clients whose token passes a TokenReview and whose user may get /metrics (SubjectAccessReview)."""
    certificates: str = ""
    """With `secure`, the folder of tls.crt and tls.key, read again when they change. Empty: self-made, which no client can verify."""
    health: str = ":8081"
    """The address of /healthz and /readyz; controller-runtime's."""
    debug: str = "127.0.0.1:8082"
    """The address of /debug. Whatever the address is, only the peers 127.0.0.1 and ::1 are served."""
    debug_ui: bool = False
    """Serve the pages for a browser, /debug/ui, beside the JSON of /debug and to the same peers only."""
    thread_bytes: int = 256 * 1024
    """An exposition whose last size was above this is written in a thread; below, the thread costs more than it saves."""
    scrapes: int = 4
    """Expositions at the same time; a further request gets 503, so that a flood of scrapes leaves the event loop to the reconciles."""
    limits: Limits = Limits()  # noqa: RUF009  # frozen, so the default is shared
    """Connections and timeouts of each listener."""
    shutdown: float = 1.0
    """Seconds that requests in progress have when the server stops."""


def _wants_json(request: web.Request) -> bool:
    return request.query.get("format") == "json" or JSON in request.headers.get("Accept", "")


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

    `before_scrape` is called on the event loop before each exposition, to bring gauges up to date. With `secure`, `client` returns the
    client for the reviews of access to metrics; while it raises a KonvergeError, requests for metrics are refused.
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
        client: Callable[[], Client] | None = None,
    ) -> None:
        self._registry = registry
        self._live = live
        self._ready = ready
        self._debug = debug
        self._settings = settings or ServerSettings()
        self._before_scrape = before_scrape
        self._client = client
        self._pair: ServingPair | None = None
        self._size = 0
        self._scraping = 0
        self._sites: list[Site] = []
        self._addresses: dict[str, str] = {}

    # --- life ---------------------------------------------------------------------------------------------------------------

    @property
    def addresses(self) -> Mapping[str, str]:
        """The base URLs by `metrics`, `health` and `debug`; a server that is off, or not started, is absent."""
        return self._addresses

    async def start(self) -> None:
        """Bind and serve. Raises ConfigError if an address cannot be bound, UsageError if it is malformed or the server runs already."""
        if self._sites:
            raise UsageError("the server runs already")
        listeners = self._listeners()
        self._check_secure(listeners)
        try:
            for address, parts in listeners.items():
                await self._serve(address, parts)
        except BaseException:
            await self.stop()
            raise

    def _listeners(self) -> dict[str, set[str]]:
        """Return the parts that each address serves."""
        settings = self._settings
        wanted = {"metrics": settings.metrics, "health": settings.health}
        if self._debug is not None:
            wanted["debug"] = settings.debug
        listeners: dict[str, set[str]] = {}
        for part, address in wanted.items():
            if parse_address(address) is not None:
                listeners.setdefault(address, set()).add(part)
        return listeners

    def _check_secure(self, listeners: Mapping[str, set[str]]) -> None:
        if not self._settings.secure:
            return
        if self._client is None:
            raise UsageError("secure metrics take a client: the API server decides who may read them")
        for address, parts in listeners.items():
            if "metrics" in parts and len(parts) > 1:
                others = " and ".join(sorted(parts - {"metrics"}))
                raise UsageError(f"metrics over TLS need an address of their own: {address} is that of {others} too")

    async def _serve(self, address: str, parts: set[str]) -> None:
        what = " and ".join(sorted(parts))
        context = None
        if self._settings.secure and "metrics" in parts:
            self._pair = ServingPair(self._settings.certificates)
            self._pair.start()
            context = self._pair.context
        site = Site(address, what=what, limits=self._settings.limits, shutdown=self._settings.shutdown, context=context)
        site.router.add_get("/", self._index(parts))
        for part, add in (("metrics", self._add_metrics), ("health", self._add_health)):
            if part in parts:
                add(site.router)
        if "debug" in parts and self._debug is not None:
            DebugPages(self._debug, ui=self._settings.debug_ui).add_to(site.router)
        self._sites.append(site)
        await site.start()
        self._addresses.update(dict.fromkeys(sorted(parts), site.url))

    async def stop(self) -> None:
        """Stop serving and free the ports; harmless when called twice."""
        self._addresses = {}
        while self._sites:
            await self._sites.pop().stop()
        pair, self._pair = self._pair, None
        if pair is not None:
            await pair.stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _index(self, parts: set[str]) -> Handler:
        paths = {"metrics": ("/metrics",), "health": ("/healthz", "/readyz"), "debug": ("/debug",)}
        text = "".join(f"{path}\n" for part in sorted(parts) for path in paths[part])

        async def index(_request: web.Request) -> web.Response:
            return web.Response(text=text)

        return index

    # --- metrics ------------------------------------------------------------------------------------------------------------

    def _add_metrics(self, router: web.UrlDispatcher) -> None:
        reviewed = self._settings.secure and self._client is not None
        router.add_get("/metrics", self._reviewed(self._metrics) if reviewed else self._metrics)

    def _reviewed(self, handler: Handler) -> Handler:
        """Return the handler with access only for callers that the API server allows."""
        assert self._client is not None
        reviewer = AccessReviewer(self._client)

        async def reviewed(request: web.Request) -> web.StreamResponse:
            header = request.headers.getall("Authorization", [])
            access = await reviewer.check(header, request.method.lower(), request.path)
            if access.status == 200:
                return await handler(request)
            challenge = {"WWW-Authenticate": "Bearer"} if access.status == 401 else {}
            return web.Response(text=access.text, status=access.status, headers=challenge)

        return reviewed

    async def _metrics(self, request: web.Request) -> web.Response:
        if self._scraping >= self._settings.scrapes:
            text = f"{self._scraping} other scrapes are in progress; ask again later\n"
            return web.Response(text=text, status=503, headers={"Retry-After": "1"})
        self._scraping += 1
        try:
            return await self._exposition(request)
        finally:
            self._scraping -= 1

    async def _exposition(self, request: web.Request) -> web.Response:
        if self._before_scrape is not None:
            self._before_scrape()
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        names = request.query.getall("name[]", [])
        registry: Any = self._registry.restricted_registry(names) if names else self._registry
        # Collected on the loop, because a gauge may be a function that reads the loop's state.
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

    def _probe(self, endpoint: str, checks: Checks) -> Handler:
        async def probe(request: web.Request) -> web.Response:
            question = Question(
                only=request.match_info.get("check", ""),
                verbose="verbose" in request.query,
                exclude=frozenset(request.query.getall("exclude", [])),
                as_json=_wants_json(request),
            )
            response = answer(endpoint, gather(checks), question)
            return web.Response(
                body=response.body.encode(), status=response.status, headers={"Content-Type": response.content_type}
            )

        return probe
