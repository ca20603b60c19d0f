"""One call, from the wait for a slot to the last attempt.

Guarantees: not more than `max_in_flight` calls on the wire (watches excepted); every attempt and every call has a deadline; every attempt
is counted. `Call.outcome_unknown` is up to date at any moment, also during a cancellation. A cancelled call ends at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from copy import copy
from random import Random
from typing import TypeVar

import msgspec
from prometheus_client import Counter

from konverge.client.api_warnings import ApiWarnings
from konverge.client.fence import FencedTransport
from konverge.client.requests import Request
from konverge.client.settings import ClientSettings
from konverge.client.status import status_error
from konverge.client.transport import Fence, OpenStream, Response, Transport, WebSocket, opened
from konverge.errors import ApiError, ConfigError, NotLeading, Unreachable, UsageError
from konverge.metrics import Metrics
from konverge.tallies import LoopCounter, LoopHistogram
from konverge.tasks import Deadline, Deadlines

__all__ = ["Call", "RequestMeasures", "Sender"]

A = TypeVar("A", Response, OpenStream, WebSocket | Response)


class RequestMeasures:
    """The request metrics of one client, with their label children resolved once each."""

    def __init__(self, metrics: Metrics, host: str) -> None:
        self._metrics = metrics
        self._host = host
        self._attempts: dict[tuple[str, str], tuple[LoopCounter, LoopHistogram]] = {}
        self._retries: dict[tuple[str, str], Counter] = {}
        self.warnings: Counter = metrics.request_warnings.labels(host=host)

    def count_attempt(self, code: str, method: str, seconds: float) -> None:
        """Count one attempt by its status code, or as `<error>` without a response, as client-go does."""
        series = self._attempts.get((code, method))
        if series is None:
            series = self._attempts[code, method] = (
                self._metrics.requests.labels(code=code, method=method, host=self._host),
                self._metrics.request_seconds.labels(verb=method, host=self._host),
            )
        counter, histogram = series
        counter.count += 1
        histogram.observe(seconds)

    def count_retry(self, error: BaseException, method: str) -> None:
        """Count one retry by the status code that it follows."""
        code = str(error.status) if isinstance(error, ApiError) else "<error>"
        counter = self._retries.get((code, method))
        if counter is None:
            counter = self._metrics.request_retries.labels(code=code, verb=method, host=self._host)
            self._retries[code, method] = counter
        counter.inc()


class Call(msgspec.Struct):
    """One call in progress. `outcome_unknown`: an attempt may have been done, though no response confirmed it."""

    request: Request
    deadline: float
    outcome_unknown: bool = False
    attempts: int = 0


class Sender:
    """Sends requests over a transport, with slots, deadlines, retries and metrics."""

    def __init__(
        self, transport: Transport, *, settings: ClientSettings, measures: RequestMeasures | None, random: Random
    ) -> None:
        self._transport = transport
        self._settings = settings
        self._measures = measures
        self._random = random
        self._slots = asyncio.Semaphore(settings.max_in_flight)
        self._deadlines = Deadlines()
        self._warnings = ApiWarnings(None if measures is None else measures.warnings)

    def fenced(self, fence: Fence) -> Sender:
        """Return a sender whose writes the fence checks, with the same limit of calls on the wire."""
        view = copy(self)
        view._transport = FencedTransport(self._transport, fence)
        return view

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()

    def call(self, request: Request) -> Call:
        """Begin a call; its deadline starts to run."""
        return Call(request, asyncio.get_running_loop().time() + self._settings.call_timeout)

    def backoff(self, error: BaseException, failures: int) -> float:
        """Return the seconds before the next attempt after so many failures in a row."""
        from konverge.client.retry import backoff_delay

        return backoff_delay(error, failures, self._settings, self._random)

    async def send(self, call: Call) -> Response:
        """Return a successful response; raises ApiError for any other, Unreachable without a response."""
        try:
            try:
                return await self._attempt(call)
            except Exception as first:
                if _is_final(call.request, first):
                    raise
                return await self._retry(call, first)
        except Unreachable as error:
            if call.outcome_unknown and not error.maybe_done:
                raise Unreachable(f"{error} (an earlier attempt may have been done)", maybe_done=True) from error
            raise

    async def _retry(self, call: Call, first: Exception) -> Response:
        """Continue after a failed first attempt; successful calls do not pay for the retry machinery."""
        failed: Exception | None = first

        async def attempt() -> Response:
            nonlocal failed
            if failed is not None:
                error, failed = failed, None
                raise error
            return await self._attempt(call)

        from konverge.client.retry import retrying

        attempts = retrying(
            call.request,
            settings=self._settings,
            random=self._random,
            deadline=call.deadline,
            before_retry=lambda error: self._count_retry(error, call.request),
        )
        response: Response = await attempts(attempt)
        return response

    def _count_retry(self, error: BaseException, request: Request) -> None:
        if self._measures is not None:
            self._measures.count_retry(error, request.method)

    async def _attempt(self, call: Call) -> Response:
        slots = self._slots
        if slots.locked():
            await self._wait_for_slot(call)
        else:
            await slots.acquire()
        try:
            return await self._send_once(call)
        finally:
            slots.release()

    async def _wait_for_slot(self, call: Call) -> None:
        try:
            with Deadline(self._deadlines, call.deadline):
                await self._slots.acquire()
        except TimeoutError as error:
            raise Unreachable(
                f"{call.request.what}: not sent, because {self._settings.max_in_flight} other calls were in flight "
                f"for {self._settings.call_timeout:g} s"
            ) from error

    async def _send_once(self, call: Call) -> Response:
        """Send one attempt: credentials have until the deadline of the call, the request only the time of an attempt."""
        request, was_unknown, limit = call.request, call.outcome_unknown, self._settings.request_timeout
        now, begun, code, sent = asyncio.get_running_loop().time, 0.0, "<error>", False
        try:
            with Deadline(self._deadlines, call.deadline) as timer:
                await self._transport.prepare()
                begun = now()
                if call.deadline < begun + limit:
                    limit = max(call.deadline - begun, 0.001)
                timer.reschedule(begun + limit)
                call.attempts += 1
                call.outcome_unknown, sent = request.writes, True
                # Counted in this frame and not by `_counted`: a coroutine in between is resumed with each part of the response.
                response = await self._transport.send(request)
                code = str(response.status)
        except TimeoutError as error:
            if not sent:
                raise Unreachable(f"{request.what}: not sent, because credentials did not come in time") from error
            raise Unreachable(f"{request.what}: no response within {limit:g} s", maybe_done=True) from error
        except Unreachable as error:
            call.outcome_unknown = was_unknown or (sent and request.writes and error.maybe_done)
            raise
        except (ConfigError, NotLeading, UsageError):  # raised before anything is sent
            call.outcome_unknown = was_unknown
            raise
        finally:
            if sent and self._measures is not None:
                self._measures.count_attempt(code, request.method, now() - begun)
        if getattr(response, "warnings", ()):
            self._note_warnings(response, request)
        if 200 <= response.status < 300:
            call.outcome_unknown = False
            return response
        call.outcome_unknown = was_unknown or (request.writes and response.status >= 500)
        raise _refusal(response, request)

    def _note_warnings(self, response: Response | OpenStream, request: Request) -> None:
        warnings: tuple[str, ...] = getattr(response, "warnings", ())
        if warnings:
            self._warnings.note(warnings, request.what)

    async def _counted(self, request: Request, coming: Awaitable[A]) -> A:
        """Await a response and count the attempt by its status code, or as an error."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            response = await coming
        except (Exception, asyncio.CancelledError):
            if self._measures is not None:
                self._measures.count_attempt("<error>", request.method, loop.time() - begun)
            raise
        if self._measures is not None:
            self._measures.count_attempt(str(response.status), request.method, loop.time() - begun)
        return response

    @asynccontextmanager
    async def open(self, request: Request, *, waits: bool = False) -> AsyncIterator[OpenStream]:
        """Open a watch or a log: one attempt, no slot; raises ApiError for an unsuccessful response.

        The deadline of an attempt holds until the response begins; from then on the reader sets the timeouts. `waits` declares that
        the server may let the response wait for its first byte, so the deadline holds for the credentials only.
        """
        limit = self._settings.request_timeout
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(limit) as timer:
                    await self._transport.prepare()
                    if waits:
                        timer.reschedule(None)
                    stream = await self._counted(request, stack.enter_async_context(self._transport.stream(request)))
                    self._note_warnings(stream, request)
                    if not 200 <= stream.status < 300:
                        raise await _error_of(stream, request)
            except TimeoutError as error:
                raise Unreachable(f"{request.what}: no response within {limit:g} s") from error
            yield stream

    @asynccontextmanager
    async def websocket(self, request: Request) -> AsyncIterator[WebSocket]:
        """Open a websocket: one attempt, no slot; raises ApiError if the server refuses.

        The deadline of an attempt holds until the websocket is open; from then on the caller sets the timeouts.
        """
        limit = self._settings.request_timeout
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(limit):
                    await self._transport.prepare()
                    opening = stack.enter_async_context(opened(self._transport, request))
                    websocket: WebSocket | Response = await self._counted(request, opening)
            except TimeoutError as error:
                raise Unreachable(f"{request.what}: no response within {limit:g} s", maybe_done=True) from error
            if isinstance(websocket, Response):
                self._note_warnings(websocket, request)
                raise _refusal(websocket, request)
            if websocket.protocol not in request.protocols:
                offers = ", ".join(request.protocols)
                raise Unreachable(f"{request.what}: the server chose none of the protocols {offers}", maybe_done=True)
            yield websocket


def _is_final(request: Request, first: Exception) -> bool:
    """Return whether no attempt follows a failed first attempt: a 404 does not pay for the retry machinery either."""
    # Imports tenacity, so only at the first failure.
    from konverge.client.retry import may_repeat

    return not may_repeat(request, first, 1)


def _refusal(response: Response, request: Request) -> ApiError:
    return status_error(
        response.body,
        request.what,
        code=response.status,
        retry_after=response.retry_after,
        content_type=response.content_type,
    )


async def _error_of(stream: OpenStream, request: Request) -> ApiError:
    parts = []
    while part := await stream.read():
        parts.append(part)
    return status_error(
        b"".join(parts),
        request.what,
        code=stream.status,
        retry_after=stream.retry_after,
        content_type=stream.content_type,
    )
