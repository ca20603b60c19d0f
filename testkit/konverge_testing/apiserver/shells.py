"""Shared by both shells: the interface of the handler, errors as responses, and the pump that reads a stream for them.

Guarantees: a `StatusError` of the handler becomes a response; a body over the limit is refused before the handler is called. A pump reads
ahead of its client by a bounded number of bytes, and closing it awaits the stream's `aclose`.

Source of the rules: k8s.io/apiserver `pkg/server/config.go` (3 MiB), `pkg/endpoints/handlers/rest.go` (the message of a 413),
`pkg/endpoints/filters/warning.go` (limits of warnings), k8s.io/apimachinery `pkg/util/net/http.go` (their form).
"""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import Final, TypeAlias

import msgspec

from konverge_testing.apiserver.faults.streams import close_lines
from konverge_testing.apiserver.requests import Call, Response
from konverge_testing.apiserver.statuses import MalformedRequest, PageNotFound, StatusError

__all__ = ["MAX_BODY", "Handler", "Pump", "answered", "refusal", "too_large", "warning_headers"]

Handler: TypeAlias = Callable[[Call], Awaitable[Response]]
"""The server: a call in, a response out. It may raise StatusError, and `Dropped` if a fault drops the connection."""

MAX_BODY: Final = 3 << 20
_READ_AHEAD: Final = 1 << 20
_ALL_WARNINGS: Final = 4096
_ONE_WARNING: Final = 256


def too_large() -> StatusError:
    """413: the body is over the server's limit."""
    return StatusError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {MAX_BODY}")


def refusal(error: StatusError) -> Response:
    """Return the response of a refusal."""
    if isinstance(error, MalformedRequest):
        return Response(400, error.message.encode(), "text/plain; charset=utf-8")
    if isinstance(error, PageNotFound):
        return Response(
            404, f"{error.message}\n".encode(), "text/plain; charset=utf-8", {"X-Content-Type-Options": "nosniff"}
        )
    headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    body = msgspec.json.encode(error.body()) + b"\n"
    return Response(error.code, body, headers=headers, warnings=list(error.warnings))


async def answered(handle: Handler, call: Call) -> Response:
    """Let the handler serve a call; refusals become responses too."""
    try:
        if len(call.body) > MAX_BODY:
            raise too_large()
        return await handle(call)
    except StatusError as error:
        return refusal(error)


def warning_headers(warnings: Iterable[str]) -> list[str]:
    r"""Return the values of the Warning headers: each text once, none with control characters; long texts are cut if the total is too long.

    >>> warning_headers(['unknown field "spec.a"', 'unknown field "spec.a"'])
    ['299 - "unknown field \\"spec.a\\""']
    """
    texts = [text for text in dict.fromkeys(warnings) if text and not _has_control(text)]
    if sum(map(len, texts)) > _ALL_WARNINGS:
        texts = list(_cut(texts))
    return ['299 - "{}"'.format(text.replace("\\", "\\\\").replace('"', '\\"')) for text in texts]


def _has_control(text: str) -> bool:
    return not text.isprintable() and any(unicodedata.category(one) == "Cc" for one in text)


def _cut(texts: Iterable[str]) -> Iterator[str]:
    written = 0
    for text in texts:
        if written >= _ALL_WARNINGS:
            return
        written += len(text[:_ONE_WARNING])
        yield text[:_ONE_WARNING]


class Pump:
    """Reads a stream in a task of its own: available lines are sent together, and an idle stream can be closed at any time."""

    def __init__(self, lines: AsyncIterator[bytes]) -> None:
        self._lines = lines
        self._ready: list[bytes] = []
        self._size = 0
        self._over = False
        self._error: Exception | None = None
        self._filled: asyncio.Future[None] | None = None
        self._drained: asyncio.Future[None] | None = None
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.add_done_callback(self._on_done)  # also if it is cancelled before it began

    async def _run(self) -> None:
        try:
            async for line in self._lines:
                self._ready.append(line)
                self._size += len(line)
                _wake(self._filled)
                if self._size > _READ_AHEAD:
                    self._drained = asyncio.get_running_loop().create_future()
                    await self._drained
        except Exception as error:  # noqa: BLE001  # the reader handles it
            self._error = error

    def _on_done(self, _: asyncio.Task[None]) -> None:
        self._over = True
        _wake(self._filled)

    async def read(self) -> bytes:
        """Return all available lines, at least one; b"" at the end. Raises the stream's error after the lines before it."""
        while not self._ready:
            if self._over:
                if self._error is not None:
                    raise self._error
                return b""
            self._filled = asyncio.get_running_loop().create_future()
            await self._filled
        chunk = self._ready[0] if len(self._ready) == 1 else b"".join(self._ready)
        self._ready.clear()
        self._size = 0
        _wake(self._drained)
        return chunk

    def end(self) -> None:
        """End the stream for its reader, as at its end; available lines are still read."""
        self._task.cancel()

    async def close(self) -> None:
        """End the stream and wait until it has closed."""
        self._task.cancel()
        await asyncio.wait({self._task})
        await close_lines(self._lines)


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
