"""The aiohttp application of an `AgentServer`, and a listener for it on the loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from konverge.reconcilers.clusters.protocol import MEDIA_TYPE
from konverge.reconcilers.clusters.transport import PlaneRequest
from konverge_testing.agent_server.server import AgentServer, Cut
from konverge_testing.agent_server.state import problem

__all__ = ["application", "serving"]

_MOST = 4 * 1024 * 1024


def application(server: AgentServer) -> web.Application:
    """Return an application that speaks the protocol; its state is the server's.

    >>> application(AgentServer("east")).router is not None
    True
    """

    async def handle(request: web.Request) -> web.StreamResponse:
        scheme, _, credential = request.headers.get("Authorization", "").partition(" ")
        body = await request.read() if request.can_read_body else None
        if body is not None and request.content_type != MEDIA_TYPE:
            response = problem(400, "MediaType", f"write {MEDIA_TYPE}")
        else:
            try:
                response = await server.handle(
                    PlaneRequest(
                        method=request.method,
                        path=request.path,
                        query=dict(request.query),
                        body=body,
                        credential=credential if scheme == "Bearer" else "",
                    )
                )
            except Cut:
                if request.transport is not None:
                    request.transport.close()
                return web.Response(status=500)
        headers = {} if response.retry_after is None else {"Retry-After": f"{response.retry_after:.0f}"}
        return web.Response(
            status=response.status,
            body=response.body or None,
            content_type=MEDIA_TYPE if response.body else None,
            headers=headers,
        )

    result = web.Application(client_max_size=_MOST)
    result.router.add_route("*", "/{path:.*}", handle)
    return result


@asynccontextmanager
async def serving(server: AgentServer, *, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
    """Serve the protocol over HTTP without TLS, on a free port unless one is named; yields the URL for `controlPlaneEndpoint`."""
    runner = web.AppRunner(application(server), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        yield f"http://{host}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
