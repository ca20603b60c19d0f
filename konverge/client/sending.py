"""One call, from the wait for a slot to the last attempt.

Promises: not more than `max_in_flight` calls on the wire (watches apart); every attempt and every call has a deadline; every attempt
is counted. `Call.doubtful` tells at any moment, also while a cancellation travels, whether an attempt may have been done though no
answer says so. A cancelled call ends at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from random import Random

from prometheus_client import Counter, Histogram

from konverge.client.requests import Request
from konverge.client.retry import retrying
from konverge.client.settings import ClientSettings
from konverge.client.status import status_error
from konverge.client.transport import Answer, OpenStream, Transport
from konverge.errors import ApiError, ConfigError, Unreachable, UsageError
from konverge.metrics import Metrics

__all__ = ["Call", "RequestMeasures", "Sender"]


class RequestMeasures:
    """The request metrics of one client, with their label children resolved once each."""

    def __init__(self, metrics: Metrics, host: str) -> None:
        self._metrics = metrics
        self._host = host
        self._requests: dict[tuple[str, str], Counter] = {}
        self._seconds: dict[str, Histogram] = {}
        self._retries: dict[tuple[str, str], Counter] = {}

    def ended(self, code: str, method: str, seconds: float) -> None:
        """Count one attempt: its status code, or `<error>` where there was none, as client-go does."""
        counter = self._requests.get((code, method))
        if counter is None:
            counter = self._metrics.requests.labels(code=code, method=method, host=self._host)
            self._requests[code, method] = counter
        counter.inc()
        histogram = self._seconds.get(method)
        if histogram is None:
            histogram = self._metrics.request_seconds.labels(verb=method, host=self._host)
            self._seconds[method] = histogram
        histogram.observe(seconds)

    def retried(self, error: BaseException, method: str) -> None:
        """Count one repetition, by what it repeats."""
        code = str(error.status) if isinstance(error, ApiError) else "<error>"
        counter = self._retries.get((code, method))
        if counter is None:
            counter = self._metrics.request_retries.labels(code=code, verb=method, host=self._host)
            self._retries[code, method] = counter
        counter.inc()


@dataclass(slots=True)
class Call:
    """One call under way. `doubtful`: some attempt of it may have been done, and no answer has told."""

    request: Request
    deadline: float
    doubtful: bool = False
    attempts: int = 0


class Sender:
    """Sends requests over a transport, with slots, deadlines, retries and metrics."""

    def __init__(
        self, transport: Transport, *, settings: ClientSettings, measures: RequestMeasures, random: Random
    ) -> None:
        self._transport = transport
        self._settings = settings
        self._measures = measures
        self._random = random
        self._slots = asyncio.Semaphore(settings.max_in_flight)

    def call(self, request: Request) -> Call:
        """Begin a call; its deadline starts to run."""
        return Call(request, asyncio.get_running_loop().time() + self._settings.call_timeout)

    async def send(self, call: Call) -> Answer:
        """Return a successful answer; raises ApiError for any other, Unreachable where there was none."""
        try:
            try:
                return await self._attempt(call)
            except Exception as first:  # noqa: BLE001  # the retries judge it
                return await self._again(call, first)
        except Unreachable as error:
            if call.doubtful and not error.maybe_done:
                raise Unreachable(f"{error} (an earlier attempt may have been done)", maybe_done=True) from error
            raise

    async def _again(self, call: Call, first: Exception) -> Answer:
        """Go on after an attempt that failed. Most do not fail, and are spared what retrying costs."""
        failed: Exception | None = first

        async def attempt() -> Answer:
            nonlocal failed
            if failed is not None:
                error, failed = failed, None
                raise error
            return await self._attempt(call)

        attempts = retrying(
            call.request,
            settings=self._settings,
            random=self._random,
            deadline=call.deadline,
            before_retry=lambda error: self._measures.retried(error, call.request.method),
        )
        answer: Answer = await attempts(attempt)
        return answer

    async def _attempt(self, call: Call) -> Answer:
        await self._slot(call)
        try:
            await self._prepare(call)
            return await self._exchange(call)
        finally:
            self._slots.release()

    async def _slot(self, call: Call) -> None:
        if not self._slots.locked():
            await self._slots.acquire()
            return
        try:
            async with asyncio.timeout_at(call.deadline):
                await self._slots.acquire()
        except TimeoutError as error:
            raise Unreachable(
                f"{call.request.what}: not sent, because {self._settings.max_in_flight} other calls were in flight "
                f"for {self._settings.call_timeout:g} s"
            ) from error

    async def _prepare(self, call: Call) -> None:
        try:
            async with asyncio.timeout_at(call.deadline):
                await self._transport.prepare()
        except TimeoutError as error:
            raise Unreachable(f"{call.request.what}: not sent, because credentials did not come in time") from error

    async def _exchange(self, call: Call) -> Answer:
        request, was_doubtful = call.request, call.doubtful
        now = asyncio.get_running_loop().time()
        limit = min(self._settings.request_timeout, max(call.deadline - now, 0.001))
        call.attempts += 1
        call.doubtful = request.writes
        try:
            async with asyncio.timeout(limit), self._counted(request) as note:
                answer = await self._transport.send(request)
                note.append(str(answer.status))
        except TimeoutError as error:
            raise Unreachable(f"{request.what}: no answer within {limit:g} s", maybe_done=True) from error
        except Unreachable as error:
            call.doubtful = was_doubtful or (request.writes and error.maybe_done)
            raise
        except (ConfigError, UsageError):  # raised before anything is sent
            call.doubtful = was_doubtful
            raise
        if 200 <= answer.status < 300:
            call.doubtful = False
            return answer
        call.doubtful = was_doubtful or (request.writes and answer.status >= 500)
        raise status_error(
            answer.body,
            request.what,
            code=answer.status,
            retry_after=answer.retry_after,
            content_type=answer.content_type,
        )

    @asynccontextmanager
    async def _counted(self, request: Request) -> AsyncIterator[list[str]]:
        """Count an attempt when it ends, by the code that was noted; one that ended without an answer is an error."""
        loop = asyncio.get_running_loop()
        begun, note = loop.time(), list[str]()
        try:
            yield note
        except (Exception, asyncio.CancelledError):
            note.append("<error>")
            raise
        finally:
            if note:
                self._measures.ended(note[0], request.method, loop.time() - begun)

    @asynccontextmanager
    async def open(self, request: Request) -> AsyncIterator[OpenStream]:
        """Enter the answer of a watch: one attempt, no slot; raises ApiError for an answer that is no success.

        The deadline of an attempt holds until the server has answered; from then on the reader sets limits.
        """
        limit = self._settings.request_timeout
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(limit):
                    await self._transport.prepare()
                    async with self._counted(request) as note:
                        stream = await stack.enter_async_context(self._transport.stream(request))
                        note.append(str(stream.status))
                    if stream.status != 200:
                        raise await _refused(stream, request)
            except TimeoutError as error:
                raise Unreachable(f"{request.what}: no answer within {limit:g} s") from error
            yield stream


async def _refused(stream: OpenStream, request: Request) -> ApiError:
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
