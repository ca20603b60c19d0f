"""The pages of `/debug`, for people and `konverge explain`.

    /debug                                            index
    /debug/controllers, /queues, /informers, /tasks, /overview, /explain?kind=&namespace=&name=       JSON
    /debug/ui, /debug/ui/object?kind=&namespace=&name=                   HTML, if switched on; see `konverge.runtime.http.page`

Guarantees: every page only reads. An exception of the source fails one response, and not the server.

`/debug` names objects and their namespaces; of their content it shows only conditions. It authenticates no caller. Its default address is
on loopback, which the pod network cannot reach. At any address it serves only the peers 127.0.0.1 and ::1, for instance `kubectl
port-forward`. The Host header must be localhost, 127.0.0.1 or ::1. This blocks DNS rebinding: a web page whose name resolves to 127.0.0.1
reads nothing through a browser on that machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec
from aiohttp import web

from konverge.clock import wall_clock
from konverge.errors import stack_of
from konverge.logs import get_logger
from konverge.runtime.http import page
from konverge.runtime.http.health import JSON
from konverge.runtime.http.listener import is_local_name, is_loopback
from konverge.runtime.http.site import Handler
from konverge.runtime.http.tasks import tasks_of
from konverge.words import LogKey

__all__ = ["DebugPages", "DebugSource"]

_HEADERS = {"Content-Security-Policy": page.POLICY, "Referrer-Policy": "no-referrer"}
_OWN = ("explain", "overview", "tasks")
"""The pages that are not of `DebugSource.debug`; "ui" is a further page if it is switched on."""
_UI_IS_OFF = (
    "/debug/ui is off by default. Switch it on with the setting debug_ui: KONVERGE_DEBUG_UI=true in the environment, --set debug_ui=true "
    "on the command line, or settings.debug_ui: true in the values of the chart\n"
)


class DebugSource(Protocol):
    """The source of `/debug`; a manager is one."""

    def debug(self) -> Mapping[str, Callable[[], Any]]:
        """Return the pages: by path a function that returns plain data, called on the event loop."""

    def explain(self, kind: str, namespace: str, name: str) -> Any:
        """Return the last reconciles of one object, as plain data."""

    async def overview(self) -> Any:
        """Return the parts of the process, the objects that are not ready and the owners of shared objects, as plain data."""


def _json(data: Any) -> web.Response:
    body = msgspec.json.format(msgspec.json.encode(data, enc_hook=str), indent=2)
    return web.Response(body=body + b"\n", content_type=JSON)


def _html(text: str, status: int = 200) -> web.Response:
    return web.Response(text=text, status=status, content_type="text/html", headers=_HEADERS)


class DebugPages:
    """The handlers of the pages of one source; without `ui` the HTML pages respond 404, with a text that names the setting."""

    def __init__(self, source: DebugSource, *, ui: bool) -> None:
        self._source = source
        self._own = (*_OWN, "ui") if ui else _OWN
        self._log = get_logger("konverge.runtime")

    def add_to(self, router: web.UrlDispatcher) -> None:
        """Add the routes."""
        for path, handler in (
            ("/debug", self._index),
            ("/debug/", self._index),
            ("/debug/tasks", self._tasks),
            ("/debug/explain", _of_object(self._explain)),
            ("/debug/overview", self._overview),
            ("/debug/ui", self._switched(self._ui)),
            ("/debug/ui/object", self._switched(_of_object(self._object))),
            ("/debug/{page}", self._page),
        ):
            router.add_get(path, self._guarded(handler))

    def _guarded(self, handler: Handler) -> Handler:
        """Serve only callers on loopback, under a loopback name; contain the exceptions of the source."""

        async def guarded(request: web.Request) -> web.StreamResponse:
            if not is_loopback(request.remote or ""):
                text = "/debug serves only the peers 127.0.0.1 and ::1: use kubectl port-forward\n"
                return web.Response(text=text, status=403)
            if not is_local_name(request.headers.get("Host", "")):
                text = "/debug is served only under the names localhost, 127.0.0.1 and ::1\n"
                return web.Response(text=text, status=403)
            try:
                return await handler(request)
            except web.HTTPException:
                raise
            except Exception as error:  # noqa: BLE001  # contained: it fails one page, and not the server
                self._log.error("a page of /debug failed", **{LogKey.URL: request.path, LogKey.STACK: stack_of(error)})
                return web.Response(text=f"{request.path} failed: {type(error).__name__}; see the log\n", status=500)

        return guarded

    def _switched(self, handler: Handler) -> Handler:
        return handler if "ui" in self._own else _ui_is_off

    async def _index(self, _request: web.Request) -> web.Response:
        queries = {"explain": "explain?kind=&namespace=&name="}
        pages = sorted({*self._source.debug(), *(queries.get(name, name) for name in self._own)})
        return _json({"paths": [f"/debug/{path}" for path in pages]})

    async def _page(self, request: web.Request) -> web.Response:
        pages, path = self._source.debug(), request.match_info["page"]
        if path not in pages:
            known = ", ".join(sorted({*pages, *self._own}))
            return web.Response(text=f"/debug has no page {path!r}; there are: {known}\n", status=404)
        return _json(pages[path]())

    async def _tasks(self, _request: web.Request) -> web.Response:
        return _json(tasks_of(asyncio.get_running_loop()))

    async def _overview(self, _request: web.Request) -> web.Response:
        return _json(await self._source.overview())

    def _explain(self, kind: str, namespace: str, name: str) -> web.Response:
        return _json(self._source.explain(kind, namespace, name))

    async def _ui(self, _request: web.Request) -> web.Response:
        overview, pages = await self._source.overview(), self._source.debug()
        return _html(page.overview_page(overview, pages["controllers"](), pages["queues"]()))

    def _object(self, kind: str, namespace: str, name: str) -> web.Response:
        explanations = self._source.explain(kind, namespace, name)
        text = page.object_page(kind, namespace, name, explanations, wall_clock())
        return _html(text, status=200 if explanations else 404)


async def _ui_is_off(_request: web.Request) -> web.Response:
    return web.Response(text=_UI_IS_OFF, status=404)


def _of_object(respond: Callable[[str, str, str], web.Response]) -> Handler:
    """Return the handler of a page about the object that the query names."""

    async def handler(request: web.Request) -> web.Response:
        kind, namespace, name = (request.query.get(word, "").strip() for word in ("kind", "namespace", "name"))
        if not kind or not name:
            text = f"say which object: {request.path}?kind=backup&namespace=web&name=nightly\n"
            return web.Response(text=text, status=400)
        return respond(kind, namespace, name)

    return handler
