"""Which calls may use the bare connection, and the bytes that are written to it."""

import asyncio

import aiohttp
import pytest

from konverge.client.http_transport import LARGE_BODY, RoundTripper, is_plain, is_supported
from konverge.client.requests import Request

ACCEPT = (("Accept", "application/json"),)


def request(path: str = "/api/v1/pods", body: bytes | None = None, method: str = "GET") -> Request:
    return Request(method=method, path=path, body=body, what="a test")


@pytest.mark.parametrize(
    ("asked", "headers", "expected"),
    [
        (request(), ACCEPT, True),
        (request("/api/v1/namespaces/web/pods/a%2Fb"), ACCEPT, True),
        (request("/api/v1/pods\r\nHost: evil.example.com"), ACCEPT, False),
        (request("/api/v1/pods with spaces"), ACCEPT, False),
        (request("/api/v1/pods/ö"), ACCEPT, False),
        (request(), (("Authorization", "Bearer a\r\nX-Remote-User: admin"),), False),
        (request(body=b"x" * LARGE_BODY, method="PATCH"), ACCEPT, True),
        (request(body=b"x" * (LARGE_BODY + 1), method="PATCH"), ACCEPT, False),
    ],
)
def test_only_a_request_without_escapes_uses_the_bare_connection(
    asked: Request, headers: tuple[tuple[str, str], ...], expected: bool
) -> None:
    assert is_plain(asked, headers) is expected


def test_the_installed_aiohttp_has_the_parts_that_the_round_tripper_uses() -> None:
    assert is_supported()


async def answered(replies: bytes, asked: Request, path: str = "") -> tuple[bytes, int, bytes]:
    """Send a request to a server with this raw response; returns what the server read, and the parsed response."""
    read = b""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal read
        read = await reader.readuntil(b"\r\n\r\n")
        if asked.body:
            read += await reader.readexactly(len(asked.body))
        writer.write(replies)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session:
        round_tripper = RoundTripper(
            session,
            f"http://127.0.0.1:{port}{path}",
            ssl=True,
            server_hostname=None,
            timeout=session.timeout,
            loop=asyncio.get_running_loop(),
        )
        head = await round_tripper.send(asked, ACCEPT)
        return read.replace(str(port).encode(), b"PORT"), head.status, head.body


async def test_a_request_is_written_whole_and_its_answer_read_to_the_end() -> None:
    reply = (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{}\n\r\n0\r\n\r\n"
    )
    read, status, body = await answered(reply, request("/api/v1/pods?a=b", b"{}", "PATCH"))
    assert read == (
        b"PATCH /api/v1/pods?a=b HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nAccept: application/json\r\nContent-Length: 2\r\n\r\n{}"
    )
    assert (status, body) == (200, b"{}\n")


@pytest.mark.parametrize("path", ["/clusters/root:acme", "/clusters/root:acme/", "/k8s/clusters/c-1", "/", ""])
async def test_request_line_has_the_path_of_the_server(path: str) -> None:
    read, _, _ = await answered(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", request(), path)
    assert read.startswith(f"GET {path.rstrip('/')}/api/v1/pods HTTP/1.1\r\n".encode())


async def test_an_interim_response_is_skipped() -> None:
    reply = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone"
    assert (await answered(reply, request()))[1:] == (404, b"none")


@pytest.mark.parametrize(
    "reply", [b"", b"not HTTP at all\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfour"]
)
async def test_an_incomplete_response_is_an_error_of_the_connection(reply: bytes) -> None:
    with pytest.raises(aiohttp.ClientError):
        await answered(reply, request())
