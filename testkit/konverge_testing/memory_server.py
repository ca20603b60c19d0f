"""`ApiServer`: the API server in memory, for konverge's clients and in virtual time.

    async with ApiServer() as server:
        async with Client(server.config(), name="me") as client: ...     # in process: no socket, no thread, virtual time if the loop has it
        async with server.http() as shell: ...                           # the same server over HTTP: for kubectl and other clients

Guarantees: the server's clock is right, whatever the client's clock (`loop.CLOCK_ERROR`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from konverge_testing.apiserver.requests import ADMIN, Call, Response, User
from konverge_testing.apiserver.server import MemoryServer
from konverge_testing.loop import CLOCK_ERROR

if TYPE_CHECKING:
    from konverge.client.config import ClientConfig

__all__ = ["ApiServer"]


class ApiServer(MemoryServer):
    """A `MemoryServer` with configurations for konverge's clients."""

    def config(self, *, user: User = ADMIN, namespace: str = "") -> ClientConfig:
        """Return a configuration for clients in this process, whose requests have this user."""
        # Here, because the client takes longer to load than the server.
        from konverge_testing.in_process import in_process

        return in_process(self.handle, user=user, namespace=namespace)

    async def handle(self, call: Call) -> Response:
        """Return the response to a call; raises `Dropped` if a fault drops the connection."""
        clock = CLOCK_ERROR.set(0.0)
        try:
            return await super().handle(call)
        finally:
            CLOCK_ERROR.reset(clock)
