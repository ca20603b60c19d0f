"""A proxy between a program and its API server: it counts writes, lets a test end the program at any of them, can refuse, delay or cut.

    async with FaultProxy(plane.url, plane.ca_file) as proxy:
        proxy.kubeconfig(path, token)                              # what the program is given
        struck = proxy.at_write(3, "after", program.kill)          # the third write is stored, its response never arrives
        await struck.wait()

Guarantees: requests are forwarded as they are, streams included, with the caller's own Authorization header, so rights stay the caller's.
Failures of the server are passed on: if it cuts a stream or refuses a connection, so does the proxy. A write is every POST, PUT,
PATCH or DELETE that changes objects (see `is_write`). "before" a write: the server never receives it. "after": the server has
responded, and the caller never gets the response. In both moments the caller's connection is dropped without a byte.

Caveats: without client certificates (give the program a token) and upgrades (exec, attach, port-forward). For faults below HTTP see
`konverge_testing.wire`.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NoReturn, Self, TypeAlias

import aiohttp
import yaml
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from konverge_testing.apiserver.faults.rules import about_request

__all__ = ["ProxiedRequest", "FaultProxy", "Interruption", "Moment", "is_write"]

Moment: TypeAlias = Literal["before", "after"]

_HOP = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "host", "content-length"}
)


@dataclass(frozen=True, slots=True)
class ProxiedRequest:
    """One request, as rules see it: `path` is without the query."""

    method: str
    path: str
    query: dict[str, str] = field(default_factory=dict)

    @property
    def watches(self) -> bool:
        """Whether it is a watch."""
        return self.method == "GET" and self.query.get("watch") in ("1", "true")

    @property
    def resource(self) -> str:
        """The plural of the resource that it is about; "" if it is about none.

        >>> ProxiedRequest("GET", "/apis/apps/v1/namespaces/web/deployments/shop/status").resource
        'deployments'
        """
        return about_request(self.method, self.path).resource

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def is_write(call: ProxiedRequest) -> bool:
    """Return whether a request changes what a reconciler decides about: no review, token or dry run, no Event, no Lease.

    >>> is_write(ProxiedRequest("PATCH", "/api/v1/namespaces/web/secrets/target"))
    True
    >>> is_write(ProxiedRequest("POST", "/api/v1/namespaces/web/events"))
    False
    """
    return about_request(call.method, call.path, dry_run="dryRun" in call.query).writes


@dataclass(frozen=True, slots=True)
class Interruption:
    """An interruption at one write: `act` is called at that moment; then the caller's connection is dropped, and `struck` is set."""

    write: int
    moment: Moment
    act: Callable[[], None]
    struck: asyncio.Event
    rule: Callable[[ProxiedRequest], bool] = is_write


@dataclass(frozen=True, slots=True)
class _Late:
    """A delayed response."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


class _Dropped(Exception):
    """The caller's connection was dropped; a response cannot be sent."""


class FaultProxy:
    """A plain-HTTP listener on loopback in front of an API server; `async with` starts and stops it.

    `writes` holds the writes since the start of the proxy, or since the last call of `at_write`, one line for each write.
    """

    def __init__(self, upstream: str, ca_file: Path) -> None:
        self._upstream = upstream.rstrip("/")
        self._tls = ssl.create_default_context(cafile=str(ca_file))
        self._interruption: Interruption | None = None
        self._counted = 0
        self._refuses: Callable[[ProxiedRequest], bool] | None = None
        self._delays: tuple[Callable[[ProxiedRequest], bool], float] | None = None
        self._late: set[asyncio.Task[_Late]] = set()
        self._open: list[tuple[web.Request, ProxiedRequest]] = []
        self._stack = contextlib.AsyncExitStack()
        self.writes: list[str] = []
        self.url = ""

    async def __aenter__(self) -> Self:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5)
        connector = aiohttp.TCPConnector(ssl=self._tls, limit=0)
        self._session = await self._stack.enter_async_context(
            aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False)
        )
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_route("*", "/{path:.*}", self._serve)
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.2)
        await runner.setup()
        self._stack.push_async_callback(runner.cleanup)
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._late:
            task.cancel()
        if self._late:
            await asyncio.wait(self._late)
        await self._stack.aclose()

    # --- faults -----------------------------------------------------------------------------------------------------------------

    def at_write(
        self,
        number: int,
        moment: Moment,
        act: Callable[[], None],
        *,
        rule: Callable[[ProxiedRequest], bool] = is_write,
    ) -> asyncio.Event:
        """Interrupt the `number`th write from now on that matches the rule, from 1. Returns the event that is set when the interruption
        has struck.
        """
        self.writes.clear()
        self._counted = 0
        self._interruption = Interruption(number, moment, act, asyncio.Event(), rule)
        return self._interruption.struck

    def disarm(self) -> None:
        """Forward everything from now on."""
        self._interruption = None
        self._refuses = None
        self._delays = None

    def refuse(self, rule: Callable[[ProxiedRequest], bool]) -> None:
        """Drop the connection of every request that matches the rule, until `disarm`."""
        self._refuses = rule

    def delay(self, rule: Callable[[ProxiedRequest], bool], seconds: float) -> None:
        """Forward every request that matches the rule so many seconds late, even if its caller has disconnected, until `disarm`.

        For requests with a short response: the caller gets the response once it is complete.
        """
        self._delays = (rule, seconds)

    def cut(self, rule: Callable[[ProxiedRequest], bool]) -> int:
        """Drop the connections of requests that are under way and match the rule; returns how many."""
        chosen = [request for request, call in self._open if rule(call)]
        for request in chosen:
            _abort(request)
        return len(chosen)

    def under_way(self, rule: Callable[[ProxiedRequest], bool]) -> int:
        """Return how many requests that match the rule are under way."""
        return sum(1 for _, call in self._open if rule(call))

    # --- the way in -------------------------------------------------------------------------------------------------------------

    def kubeconfig(self, path: Path, token: str, *, namespace: str = "default") -> Path:
        """Write a kubeconfig that leads to this proxy with a bearer token; returns its path."""
        data = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "proxy", "cluster": {"server": self.url}}],
            "users": [{"name": "caller", "user": {"token": token}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "caller", "namespace": namespace}}],
            "current-context": "proxy",
        }
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(data))
        return path

    # --- forwarding -------------------------------------------------------------------------------------------------------------

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        call = ProxiedRequest(request.method, request.path, dict(request.query))
        body = await request.read()
        entry = (request, call)
        self._open.append(entry)
        try:
            if self._refuses is not None and self._refuses(call):
                _drop(request)
            if self._delays is not None and self._delays[0](call):
                return await self._pass_late(request, body, self._delays[1])
            return await self._pass(request, body, self._due(call))
        except (_Dropped, aiohttp.ClientError, OSError):
            # The caller sees a connection that ends without a response.
            _abort(request)
            raise asyncio.CancelledError from None
        finally:
            self._open = [item for item in self._open if item is not entry]

    def _due(self, call: ProxiedRequest) -> Interruption | None:
        """Count a write; return the interruption if it is due at this write."""
        if not is_write(call):
            return None
        self.writes.append(str(call))
        result = self._interruption
        if result is None or not result.rule(call):
            return None
        self._counted += 1
        if result.write != self._counted:
            return None
        self._interruption = None
        return result

    async def _pass(self, request: web.Request, body: bytes, due: Interruption | None) -> web.StreamResponse:
        if due is not None and due.moment == "before":
            _strike(request, due)
        async with self._asked(request.method, request.raw_path, request.headers, body) as answer:
            if due is not None:
                await answer.read()
                _strike(request, due)
            return await self._forward(request, answer)

    def _asked(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        return self._session.request(
            method,
            URL(f"{self._upstream}{path}", encoded=True),
            data=body or None,
            headers={name: value for name, value in headers.items() if name.lower() not in _HOP},
            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
            allow_redirects=False,
        )

    async def _pass_late(self, request: web.Request, body: bytes, seconds: float) -> web.StreamResponse:
        """Forward a request in a task of its own, which continues if the caller disconnects."""

        async def deliver(method: str, path: str, headers: Mapping[str, str]) -> _Late:
            await asyncio.sleep(seconds)
            async with self._asked(method, path, headers, body) as answer:
                kept = [(name, value) for name, value in answer.headers.items() if name.lower() not in _HOP]
                return _Late(answer.status, kept, await answer.read())

        task = asyncio.create_task(deliver(request.method, request.raw_path, request.headers.copy()))
        self._late.add(task)
        task.add_done_callback(self._delivered)
        result = await asyncio.shield(task)
        return web.Response(status=result.status, headers=CIMultiDict(result.headers), body=result.body)

    def _delivered(self, task: asyncio.Task[_Late]) -> None:
        self._late.discard(task)
        if not task.cancelled():
            task.exception()  # reported only to a caller that is still connected

    async def _forward(self, request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        response = web.StreamResponse(status=answer.status, reason=answer.reason)
        for name, value in answer.headers.items():
            if name.lower() not in _HOP:
                response.headers.add(name, value)
        await response.prepare(request)
        async for chunk in answer.content.iter_any():
            await response.write(chunk)
        await response.write_eof()
        return response


def _strike(request: web.Request, due: Interruption) -> NoReturn:
    due.act()
    due.struck.set()
    _drop(request)


def _drop(_request: web.Request) -> NoReturn:
    raise _Dropped


def _abort(request: web.Request) -> None:
    transport: Any = request.transport
    if transport is not None:
        transport.abort()
