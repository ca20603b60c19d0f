"""The transport of a recording passes everything on, and keeps the checks of a fence."""

from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

import pytest

from konverge.client.requests import Request
from konverge.client.transport import FencesSockets, OpenStream, Response, Transport, WebSocket, opened
from konverge.errors import NotLeading
from konverge.recording.transport import recorded_transport

READ = Request(method="GET", path="/api/v1/namespaces")
OPEN: Any = object()
WRITE = Request(method="DELETE", path="/api/v1/namespaces/web")


class Plain:
    """A server that refuses writes behind its fence."""

    def __init__(self, fence: Any = None) -> None:
        self.fence = fence

    async def prepare(self) -> None: ...

    async def close(self) -> None: ...

    async def send(self, request: Request) -> Response:
        if self.fence is not None:
            self.fence.check()
        return Response(200, b"{}")

    def stream(self, request: Request) -> AbstractAsyncContextManager[OpenStream]:
        return nullcontext(OPEN)

    def websocket(self, request: Request) -> AbstractAsyncContextManager[WebSocket | Response]:
        return nullcontext(Response(101, b""))


class Sockets(Plain):
    def fenced(self, fence: Any) -> Transport:
        return Sockets(fence)


class Closed:
    def check(self) -> None:
        raise NotLeading("not any more")


def noting(seen: list[str]) -> Any:
    def note(request: Request) -> Any:
        def responded(response: Response | None, error: BaseException | None = None) -> None:
            seen.append(f"{request.method} {response.status if response else type(error).__name__}")

        return responded

    return note


@pytest.mark.parametrize(("inner", "fences"), [(Plain(), False), (Sockets(), True)], ids=["plain", "sockets"])
async def test_a_recorded_transport_fences_sockets_as_the_inner_does(inner: Any, fences: bool) -> None:
    seen: list[str] = []
    transport = recorded_transport(inner, noting(seen))
    assert (await transport.send(READ)).status == 200
    assert isinstance(transport, FencesSockets) is fences
    async with transport.stream(READ) as stream, opened(transport, READ) as websocket:
        assert stream is OPEN
        assert websocket.status == 101
    if isinstance(transport, FencesSockets):
        with pytest.raises(NotLeading):
            await transport.fenced(Closed()).send(WRITE)
    assert seen == ["GET 200", "DELETE NotLeading"][: 1 + fences]
