"""How often a transport asks for credentials, and which credentials a request carries."""

import asyncio

import pytest

from konverge.client import ClientSettings
from konverge.client.credentials import Credentials
from konverge.client.http_transport import HttpTransport
from konverge.client.requests import Request
from konverge.client.tls import TlsOptions

REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class NumberedTokens:
    """Provides another token at each call."""

    calls = 0

    async def current(self) -> Credentials:
        self.calls += 1
        return Credentials(authorization=f"Bearer {self.calls}")

    def distrust(self) -> None:
        """Do nothing."""


@pytest.mark.parametrize(
    ("steps", "tokens"),
    [
        ("prepare send", "1"),
        ("send", "1"),
        ("prepare send send", "1 2"),
        ("prepare prepare send", "2"),
        ("prepare send prepare send", "1 2"),
    ],
)
async def test_a_request_carries_the_credentials_that_were_prepared_for_it(steps: str, tokens: str) -> None:
    seen: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            seen.append(head.partition(b"Bearer ")[2].partition(b"\r\n")[0].decode())
            writer.write(REPLY)

    server, source = await asyncio.start_server(serve, "127.0.0.1", 0), NumberedTokens()
    transport = HttpTransport(
        server=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}",
        source=source,
        options=TlsOptions(),
        proxy="",
        settings=ClientSettings(),
        user_agent="test",
    )
    async with server:
        for step in steps.split():
            if step == "prepare":
                await transport.prepare()
            else:
                await transport.send(Request(method="GET", path="/api/v1/pods", what="a test"))
        await transport.close()
    assert " ".join(seen) == tokens
    assert source.calls == int(tokens[-1])
