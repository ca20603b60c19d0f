"""Listeners with callers that send little, slowly, or nothing: over real sockets on loopback, with deadlines of a twentieth of a second."""

import asyncio
import logging
import os
import resource
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
from aiohttp import web
from event_loops import LOOPS

from konverge.errors import UsageError
from konverge.runtime.http.listener import Limits
from konverge.runtime.http.site import Site

SOON = 0.05
REQUEST = b"GET /quick HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture(autouse=True, params=LOOPS)
def _on_each_loop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asyncio, "new_event_loop", LOOPS[request.param])


def run(work: Callable[[], Awaitable[None]]) -> None:
    """Run on a loop of its own with real time; nothing is left behind."""

    async def limited() -> None:
        async with asyncio.timeout(20):
            await work()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        runner.run(limited())


class Served:
    """A site with a quick route, a waiting route, and a route whose response is larger than any buffer."""

    def __init__(self, **limits: Any) -> None:
        self.site = Site("127.0.0.1:0", what="tests", limits=Limits(**limits), shutdown=0.01)
        self.let = asyncio.Event()
        self.waiting = 0
        for path, handler in (("/quick", self.quick), ("/waits", self.waits), ("/large", self.large)):
            self.site.router.add_get(path, handler)

    async def quick(self, _: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def waits(self, _: web.Request) -> web.Response:
        self.waiting += 1
        await self.let.wait()
        return web.Response(text="waited")

    async def large(self, _: web.Request) -> web.Response:
        return web.Response(body=bytes(32 * 1024 * 1024))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[int]:
        await self.site.start()
        try:
            yield int(self.site.url.rpartition(":")[2])
        finally:
            await self.site.stop()


async def cut(reader: asyncio.StreamReader) -> bytes:
    """Read until the other side ends the connection."""
    try:
        return await reader.read()
    except ConnectionError:
        return b""


async def answer(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(REQUEST)
    line = await reader.readline()
    writer.close()
    return line


@pytest.mark.parametrize(
    "sent",
    [[b""], [b"G"], [REQUEST[:-2]], [REQUEST[i : i + 1] for i in range(len(REQUEST) - 2)]],
    ids=["nothing", "a byte", "half a head", "a byte at a time"],
)
def test_incomplete_request_head_is_cut_at_its_deadline_even_if_bytes_arrive(
    sent: list[bytes], logs: list[Any]
) -> None:
    async def work() -> None:
        async with Served(head=SOON).running() as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)

            async def trickle() -> None:
                for part in sent:
                    if not writer.transport.is_closing():  # uvloop raises where asyncio drops the bytes
                        writer.write(part)
                    await asyncio.sleep(0.002)

            sending = asyncio.create_task(trickle())
            assert await cut(reader) == b""
            await sending
            writer.close()
            assert logs == []

    run(work)


def test_each_request_head_has_the_same_deadline_after_a_longer_idle_limit() -> None:
    async def work() -> None:
        async with Served(head=SOON, idle=60).running() as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for _ in range(2):
                writer.write(REQUEST)
                assert b"ok" in await reader.readuntil(b"ok")
                await asyncio.sleep(2 * SOON)  # idle for longer than the limit for a head
            writer.write(REQUEST[:-2])
            assert await cut(reader) == b""
            writer.close()

    run(work)


@pytest.mark.parametrize("path", [b"/quick", b"/large"], ids=["idle", "a response that is not read"])
def test_a_connection_without_a_request_is_cut_in_the_end(path: bytes) -> None:
    async def work() -> None:
        async with Served(idle=SOON).running() as port:
            # A receive buffer that cannot hold the large response.
            raw = socket.socket()
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            raw.setblocking(False)
            await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", port))
            reader, writer = await asyncio.open_connection(sock=raw, limit=4096)
            writer.write(REQUEST.replace(b"/quick", path))
            await asyncio.sleep(4 * SOON)
            assert len(await cut(reader)) < 32 * 1024 * 1024
            writer.close()

    run(work)


def test_a_request_in_progress_has_no_deadline_here() -> None:
    async def work() -> None:
        served = Served(head=SOON, idle=SOON)
        async with served.running() as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(REQUEST.replace(b"/quick", b"/waits"))
            await asyncio.sleep(4 * SOON)
            served.let.set()
            assert b"waited" in await reader.readuntil(b"waited")
            writer.close()

    run(work)


def test_flood_of_half_open_connections_displaces_no_connection_with_requests() -> None:
    async def work() -> None:
        async with Served(connections=8).running() as port:
            kept_reader, kept_writer = await asyncio.open_connection("127.0.0.1", port)
            kept_writer.write(REQUEST)
            await kept_reader.readuntil(b"ok")
            flood = []
            for _ in range(50):
                flood.append(await asyncio.open_connection("127.0.0.1", port))
                flood[-1][1].write(REQUEST[:-2])
                if len(flood) % 10 == 0:
                    assert await answer(port) == b"HTTP/1.1 200 OK\r\n"
            kept_writer.write(REQUEST)  # this connection had requests before, so new clients are first
            assert b"ok" in await kept_reader.readuntil(b"ok")
            for reader, _ in flood[:40]:
                assert await cut(reader) == b""
            for _, writer in [(None, kept_writer), *flood]:
                writer.close()

    run(work)


def test_new_connection_is_cut_if_all_others_have_active_requests() -> None:
    async def work() -> None:
        served = Served(connections=2)
        async with served.running() as port:
            busy = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
            for _, writer in busy:
                writer.write(REQUEST.replace(b"/quick", b"/waits"))
            while served.waiting < 2:
                await asyncio.sleep(0)
            reader, late = await asyncio.open_connection("127.0.0.1", port)
            assert await cut(reader) == b""
            served.let.set()
            for reader, writer in busy:
                assert b"waited" in await reader.readuntil(b"waited")
                writer.close()
            late.close()

    run(work)


@contextmanager
def no_more_files() -> Iterator[None]:
    """Limit this process to its open files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_accept_errors_are_logged_once_a_minute_and_callers_are_served_later(
    logs: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        async with Served().running() as port:
            with socket.socket() as caller:
                caller.setblocking(False)
                loop = asyncio.get_running_loop()
                with no_more_files():
                    await loop.sock_connect(caller, ("127.0.0.1", port))
                    await loop.sock_sendall(caller, REQUEST)
                    await asyncio.sleep(0.2)  # it retries every twentieth of a second
                assert (await loop.sock_recv(caller, 100)).startswith(b"HTTP/1.1 200 ")

    run(work)
    [line] = logs
    assert line["event"].startswith("connections cannot be accepted; raise the limit of open files")
    assert (line["error"], line["address"]) == ("Too many open files", "tests")
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize(
    "garbage", [b"\x16\x03\x01\r\n\r\n", b"GET / HTTP/1.1\r\nBad Header: \x00\r\n\r\n", b"X" * 9000]
)
def test_a_malformed_request_is_not_logged(garbage: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        async with Served(head=SOON).running() as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(garbage)
            assert not (await cut(reader)).startswith(b"HTTP/1.1 200 ")
            writer.close()

    run(work)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("name", ["connections", "head", "idle"])
def test_limits_of_zero_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name}=0: it is above 0"):
        Limits(**{name: 0})
