"""A proxy before an S3 server that rejects requests, delays responses, or drops responses of executed requests."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

from konverge.reconcilers.pools.buckets import S3Access

_LENGTH: Final = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_EXPECT: Final = re.compile(rb"\r\nexpect:[^\r]*", re.IGNORECASE)
_STALL, _HANG = -1, -2
_CONNECTION: Final = re.compile(rb"\r\nconnection:[^\r]*", re.IGNORECASE)


class FaultyS3:
    """One proxy; requests whose first line matches a pattern meet its faults, one after the other."""

    def __init__(self, upstream: S3Access, access: S3Access) -> None:
        self.access = access
        self._upstream = urlsplit(upstream.endpoint)
        self._faults: list[tuple[re.Pattern[bytes], str, int]] = []
        self.met = 0
        """How many requests met a fault."""

    def refuse(self, pattern: str, code: str, status: int, *, times: int = 1) -> None:
        """Reject requests with an error code; the server does not see them."""
        self._faults += [(re.compile(pattern.encode()), code, status)] * times

    def lose(self, pattern: str, *, times: int = 1) -> None:
        """Lose the responses of requests: the server carries them out."""
        self._faults += [(re.compile(pattern.encode()), "", 0)] * times

    def stall(self, pattern: str, *, times: int = 1) -> None:
        """Respond to requests with a head and half of a body that never ends; the server does not see them."""
        self._faults += [(re.compile(pattern.encode()), "", _STALL)] * times

    def hang(self, pattern: str, *, times: int = 1) -> None:
        """Never respond to requests; the server does not see them."""
        self._faults += [(re.compile(pattern.encode()), "", _HANG)] * times

    def heal(self) -> None:
        """Drop the faults that have not happened."""
        self._faults.clear()

    def _fault(self, head: bytes) -> tuple[str, int] | None:
        line = head.split(b"\r\n", 1)[0]
        for number, (pattern, code, status) in enumerate(self._faults):
            if pattern.search(line):
                del self._faults[number]
                self.met += 1
                return code, status
        return None

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection, which has one request."""
        with suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            if _EXPECT.search(head):
                head = _EXPECT.sub(b"", head)
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            length = _LENGTH.search(head)
            body = await reader.readexactly(int(length[1])) if length else b""
            fault = self._fault(head)
            if fault is not None and fault[1] in (_STALL, _HANG):
                if fault[1] == _STALL:
                    writer.write(
                        b"HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\nContent-Length: 99\r\n\r\n<Half>"
                    )
                    await writer.drain()
                await reader.read()  # until the client gives up
            elif fault is not None and fault[1]:
                writer.write(_refusal(*fault))
            else:
                response = await self._forwarded(head, body)
                writer.write(b"" if fault is not None else response)
            await writer.drain()
        writer.close()

    async def _forwarded(self, head: bytes, body: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(self._upstream.hostname, self._upstream.port)
        head = _CONNECTION.sub(b"", head).replace(b"\r\n", b"\r\nConnection: close\r\n", 1)
        writer.write(head + body)
        await writer.drain()
        try:
            return await reader.read(-1)
        finally:
            writer.close()


def _refusal(code: str, status: int) -> bytes:
    body = f"<Error><Code>{code}</Code><Message>hunter2</Message></Error>"
    head = f"HTTP/1.1 {status} Refused\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return (head + body).encode()


@asynccontextmanager
async def faulty(upstream: S3Access) -> AsyncIterator[FaultyS3]:
    """Run a proxy until the block ends."""
    proxies: list[FaultyS3] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await proxies[0].handle(reader, writer)

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    proxies.append(FaultyS3(upstream, replace(upstream, endpoint=f"http://127.0.0.1:{port}")))
    try:
        yield proxies[0]
    finally:
        server.close()
