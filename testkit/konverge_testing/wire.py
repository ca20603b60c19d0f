"""Faults below HTTP: a connection that stays open and carries nothing any more.

    async with SilentWire(plane.host, plane.port) as wire:
        config = ...                                # a server URL of https://127.0.0.1:{wire.port}; TLS passes through as it is
        wire.go_silent()                            # the connections that are open now are dead, and neither end notices

Guarantees: bytes are forwarded as they arrive, in both directions, until `go_silent`; from then on the open connections swallow whatever
arrives from either side, and stay open. New connections work. A firewall that forgot a connection behaves like this, and so does a peer
that lost its power: TCP itself notices it after many minutes, or never if the other end only listens.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Self

__all__ = ["SilentWire"]

_CHUNK = 1 << 16


class _Pair:
    """One connection to the wire, and its twin to the server."""

    def __init__(self, ends: list[asyncio.StreamWriter]) -> None:
        self.silent = False
        self.swallowed = 0
        self.ends = ends

    def abort(self) -> None:
        """Drop both connections."""
        for end in self.ends:
            end.transport.abort()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry bytes one way until that side ends; a silent pair never closes the other side."""
        with contextlib.suppress(OSError):
            while chunk := await reader.read(_CHUNK):
                if self.silent:
                    self.swallowed += len(chunk)
                    continue
                writer.write(chunk)
                await writer.drain()
        if not self.silent:
            writer.close()


class SilentWire:
    """A TCP listener on loopback in front of a server; `async with` starts and stops it."""

    def __init__(self, host: str, port: int) -> None:
        self._upstream = (host, port)
        self._pairs: dict[asyncio.Task[None], _Pair] = {}
        self._all: list[_Pair] = []
        self._server: asyncio.Server | None = None
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        tasks = set(self._pairs)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for pair in self._all:
            pair.abort()  # also of a task that was cancelled before its first step
        await self._server.wait_closed()

    def go_silent(self) -> int:
        """Let the connections that are open now swallow everything; returns their number."""
        for pair in self._pairs.values():
            pair.silent = True
        return len(self._pairs)

    @property
    def swallowed(self) -> int:
        """The number of bytes swallowed so far."""
        return sum(pair.swallowed for pair in self._all)

    @property
    def accepted(self) -> int:
        """The number of connections accepted so far."""
        return len(self._all)

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pair = _Pair([writer])
        self._all.append(pair)
        task = asyncio.get_running_loop().create_task(self._serve(pair, reader), name="silent wire")
        self._pairs[task] = pair
        task.add_done_callback(self._pairs.pop)

    async def _serve(self, pair: _Pair, reader: asyncio.StreamReader) -> None:
        [writer] = pair.ends
        try:
            above, to_above = await asyncio.open_connection(*self._upstream)
            pair.ends.append(to_above)
            await asyncio.gather(pair.carry(reader, to_above), pair.carry(above, writer))
        except OSError:
            pass  # the server does not listen, so the connection is closed here too
        finally:
            pair.abort()
