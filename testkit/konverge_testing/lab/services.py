"""Faults of the services that a scenario enters: HTTP servers of this process (`aiohttp.test_utils.TestServer`) that the operator calls.

Guarantees: requests of a service are numbered from 1 in the order of their arrival; a fault strikes one request, once. A service has the
name `service N` by the order of the calls of `lab.enter`.

Caveats: a server of another library is entered as it is, and has no plans.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from konverge_testing.lab.plans import ServiceFault

__all__ = ["ServiceGate", "is_service"]

_SILENT: Final = 3600.0
"""Virtual seconds that a request without a response is held, longer than any client waits."""

Handler = Callable[[Any], Awaitable[Any]]


def is_service(other: object) -> bool:
    """Return whether a context manager is a server whose requests can be disturbed: a TestServer of aiohttp that has not been started."""
    servers = sys.modules.get("aiohttp.test_utils")
    return servers is not None and isinstance(other, servers.TestServer) and not other.app.frozen


class ServiceGate:
    """Counts the requests of all services of one run, and disturbs those that the plan names."""

    def __init__(self, faults: Sequence[ServiceFault], strikes: Callable[[str], None]) -> None:
        self._faults = faults
        self._strikes = strikes
        self.requests: dict[str, list[str]] = {}
        """Method and path of each request by service, in the order of their arrival."""

    def guard(self, server: Any) -> None:
        """Put the gate before the handlers of a server."""
        from aiohttp import web

        name = f"service {len(self.requests) + 1}"
        requests = self.requests.setdefault(name, [])

        @web.middleware
        async def gate(request: web.Request, handler: Handler) -> Any:
            requests.append(f"{request.method} {request.path}")
            number = len(requests)
            fault = next((fault for fault in self._faults if (fault.service, fault.request) == (name, number)), None)
            if fault is None:
                return await handler(request)
            self._strikes(f"request {number} of {name} ({requests[-1]}): {fault.do}")
            if fault.do == "unavailable":
                return web.Response(status=503, text="a plan makes this service unavailable")
            if fault.do == "lost":
                await handler(request)
            else:
                await _until_closed(request)
            if request.transport is not None:
                request.transport.abort()
            return web.Response()

        server.app.middlewares.insert(0, gate)


async def _until_closed(request: Any) -> None:
    """Wait until the client has closed the connection, or for an hour."""
    end = asyncio.get_running_loop().time() + _SILENT
    while asyncio.get_running_loop().time() < end and request.transport is not None:
        await asyncio.sleep(1.0)
