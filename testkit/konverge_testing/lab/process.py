"""One process under test: a manager behind a wire that can be cut, so that it dies as a killed process does.

Guarantees: from the moment of its death no request of it reaches the server and no response reaches it; its successor has the same
`build` and shares no memory with it. Every write request is numbered from 1 over all lives of the process; plans use these numbers.

Caveats: objects that a `build` shares between its calls survive; create them inside of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Protocol, runtime_checkable

from konverge.client import ClientConfig
from konverge.client.requests import Request
from konverge.client.settings import ClientSettings
from konverge.client.transport import OpenStream, Response, Transport, WebSocket, opened
from konverge.errors import Unreachable
from konverge.keys import Key
from konverge_testing.apiserver.faults.rules import About, about_request

__all__ = ["WIRE", "WRITE", "FinalizeGate", "Gate", "Wire", "about_of", "killable"]

WRITE: ContextVar[int] = ContextVar("konverge_lab_write", default=0)
"""The number of the process's write that is being sent; 0 for all other clients. The server runs in the caller's context."""


WIRE: ContextVar[Wire | None] = ContextVar("konverge_lab_wire", default=None)
"""The wire over which a write of the process is being sent."""


class Gate(Protocol):
    """Hooks around every write of a process."""

    async def before(self, number: int, request: Request) -> None:
        """Called before a write is sent; may end the process (`Wire.cut`)."""

    async def after(self, number: int, request: Request, answer: Response) -> None:
        """Called with the response to a write, before the process gets it."""

    def broke(self, request: Request, error: Exception) -> None:
        """Called with the error of a write that got no response."""


@runtime_checkable
class FinalizeGate(Gate, Protocol):
    """Hooks around every call of `finalize`, too."""

    def finalize_begins(self, key: Key) -> int:
        """Called before `finalize`; returns the number of the call, or raises in its place."""

    def finalize_ends(self, number: int) -> None:
        """Called after `finalize` has returned, before the runtime gets its outcome; may raise in its place."""


class Wire:
    """The connection of one life of a process. `cut` is its death: a caller that waits on it waits for ever."""

    def __init__(self, numbers: Callable[[], int], gate: Gate | None = None) -> None:
        self.alive = True
        self.gate = gate
        self._numbers = numbers
        self._resumed: asyncio.Event | None = None

    def cut(self) -> None:
        """Drop every request and response from now on."""
        self.alive = False

    def pause(self) -> None:
        """Hold everything back until `resume`, as if the process were stopped."""
        self._resumed = asyncio.Event()

    def resume(self) -> None:
        """Deliver the held responses; requests that began during the pause were never sent, and fail."""
        if self._resumed is not None:
            self._resumed.set()
            self._resumed = None

    async def _unpaused(self) -> bool:
        """Wait for the end of a pause; returns whether there was one."""
        resumed = self._resumed
        if resumed is not None:
            await resumed.wait()
        return resumed is not None

    async def hang(self) -> None:
        """Never return, as a request of a dead process."""
        await asyncio.get_running_loop().create_future()

    async def send(self, transport: Transport, request: Request) -> Response:
        """Carry one request."""
        if not self.alive:
            await self.hang()
        if await self._unpaused():
            raise Unreachable(f"{request.what}: the process was paused")
        if self.gate is None or not about_of(request).writes:
            answer = await transport.send(request)
        else:
            number = self._numbers()
            await self.gate.before(number, request)
            if not self.alive:
                await self.hang()
            token, wire = WRITE.set(number), WIRE.set(self)
            try:
                answer = await transport.send(request)
            except Exception as error:
                self.gate.broke(request, error)
                raise
            finally:
                WRITE.reset(token)
                WIRE.reset(wire)
            if self.alive:
                await self.gate.after(number, request, answer)
        await self._unpaused()
        if not self.alive:
            await self.hang()
        return answer

    async def receive(self, reading: Awaitable[bytes]) -> bytes:
        """Return the bytes read; never return once the process is dead."""
        found = await reading
        if self._resumed is not None:  # checked here: a coroutine for each line of each watch costs more
            await self._unpaused()
        if not self.alive:
            await self.hang()
        return found


def about_of(request: Request) -> About:
    """Return what a request is about."""
    path = request.path
    dry = any(name == "dryRun" for name, _ in request.params)
    return about_request(request.method, path, dry_run=dry)


class KillableTransport:
    """A transport behind a wire."""

    def __init__(self, inner: Transport, wire: Wire) -> None:
        self._inner = inner
        self._wire = wire

    async def prepare(self) -> None:
        await self._inner.prepare()

    async def send(self, request: Request) -> Response:
        return await self._wire.send(self._inner, request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[OpenStream]:
        if not self._wire.alive:
            await self._wire.hang()
        async with self._inner.stream(request) as stream:
            yield _Reading(stream, self._wire)

    @asynccontextmanager
    async def websocket(self, request: Request) -> AsyncIterator[WebSocket | Response]:
        if not self._wire.alive:
            await self._wire.hang()
        async with opened(self._inner, request) as websocket:
            yield websocket if isinstance(websocket, Response) else _Conversation(websocket, self._wire)

    async def close(self) -> None:
        await self._inner.close()


class _Conversation:
    def __init__(self, inner: WebSocket, wire: Wire) -> None:
        self._inner = inner
        self._wire = wire
        self.status = inner.status
        self.protocol = inner.protocol

    async def receive(self) -> bytes:
        return await self._wire.receive(self._inner.receive())

    async def send(self, message: bytes) -> None:
        if not self._wire.alive:
            await self._wire.hang()
        await self._inner.send(message)


class _Reading:
    def __init__(self, inner: OpenStream, wire: Wire) -> None:
        self._inner = inner
        self._wire = wire
        self.status = inner.status
        self.content_type = inner.content_type
        self.retry_after = inner.retry_after
        self.warnings: tuple[str, ...] = getattr(inner, "warnings", ())

    async def read(self) -> bytes:
        return await self._wire.receive(self._inner.read())


def killable(config: ClientConfig, wire: Wire) -> ClientConfig:
    """Return a configuration whose transports end in the given one, behind a wire."""

    def make(_: ClientConfig, settings: ClientSettings, user_agent: str) -> Transport:
        return KillableTransport(config.open(settings, user_agent), wire)

    return ClientConfig.over(make, server=config.server, namespace=config.namespace)
