"""No byte of a write leaves the process after the fence has closed, and reads continue."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from random import Random

import pytest

from konverge.client import Client, ClientConfig, ClientSettings
from konverge.errors import NotLeading, Unreachable
from konverge.kinds import kind
from konverge.runtime.election.fence import LeaseFence
from konverge_testing import ApiServer

CONFIG_MAP = kind("v1", "ConfigMap", namespaced=True, plural="configmaps")
BODY = (
    b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"web","uid":"u","resourceVersion":"1"}}'
)
RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)


class SlowServer:
    """Responds to small requests at once; reads a large request only when the test allows it."""

    def __init__(self) -> None:
        self.received = 0
        self.arrived = asyncio.Event()
        self.may_read = asyncio.Event()

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0, limit=1024)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next((int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length")), 0)
                if length > 1000:
                    self.arrived.set()
                    await self.may_read.wait()
                while length > 0:
                    part = await reader.read(min(length, 65536))
                    if not part:
                        return
                    length -= len(part)
                    self.received += len(part)
                writer.write(RESPONSE)
        writer.close()


@pytest.mark.parametrize("size", [1, 1_000_000], ids=["small", "large"])
async def test_a_write_behind_the_fence_sends_nothing_and_a_read_goes_on(size: int) -> None:
    server, fence = SlowServer(), LeaseFence(asyncio.get_running_loop().time)
    server.may_read.set()
    async with (
        server.serve() as url,
        Client(ClientConfig.direct(url), name="t", random=Random(1)) as client,
        client.fenced_by(fence) as fenced,
    ):
        fence.extend(float("inf"))
        body = CONFIG_MAP.new("a", "web", data={"x": "y" * size}).data
        await fenced.apply(CONFIG_MAP, body)
        before = server.received
        fence.close()
        with pytest.raises(NotLeading, match="does not hold the lease"):
            await fenced.apply(CONFIG_MAP, body)
        assert server.received == before
        assert (await fenced.get(CONFIG_MAP, "a", "web")).name == "a"
        assert (await client.apply(CONFIG_MAP, CONFIG_MAP.new("a", "web").data)).name == "a"


async def test_rest_of_a_large_buffered_write_is_not_sent_after_the_fence() -> None:
    size = 40_000_000
    server, fence = SlowServer(), LeaseFence(asyncio.get_running_loop().time)
    settings = ClientSettings(attempts=1)
    async with (
        server.serve() as url,
        Client(ClientConfig.direct(url), name="t", settings=settings, random=Random(1)) as client,
        client.fenced_by(fence) as fenced,
    ):
        fence.extend(float("inf"))
        body = CONFIG_MAP.new("a", "web", data={"x": "y" * size}).data
        write = asyncio.create_task(fenced.apply(CONFIG_MAP, body))
        await server.arrived.wait()
        fence.close()
        server.may_read.set()
        with pytest.raises(Unreachable) as caught:
            await write
        assert caught.value.maybe_done
    assert server.received < size / 2


@pytest.mark.parametrize("sockets", [True, False], ids=["sockets", "in memory"])
async def test_closing_a_fenced_client_leaves_its_base_client_open(sockets: bool) -> None:
    fence = LeaseFence(asyncio.get_running_loop().time)
    fence.extend(float("inf"))
    async with SlowServer().serve() as url, ApiServer() as server:
        config = ClientConfig.direct(url) if sockets else server.config()
        async with Client(config, name="t", random=Random(1)) as client:
            async with client.fenced_by(fence) as fenced:
                await fenced.apply(CONFIG_MAP, CONFIG_MAP.new("a", "default").data)
            assert (await client.get(CONFIG_MAP, "a", "default")).name == "a"
            assert (await client.apply(CONFIG_MAP, CONFIG_MAP.new("a", "default").data)).name == "a"
