"""Spans of requests, by the API of OpenTelemetry; imported only if a program traces.

    attempt of a call    a CLIENT span; the header `traceparent` carries its context to the API server
    watch, log           a CLIENT span until the response begins
    command, port        a CLIENT span until the websocket is open
    write                the span is remembered by the uid and the version that the write stored

Guarantees: no attribute contains a body, a header, a query, or the text of an exception that is not the library's. A span's name and
`url.template` have placeholders for names. Times of spans are `konverge.clock`'s. The memory of writes is bounded: the oldest write is
forgotten first.

Caveats: the client of the election has no spans, since a Lease is renewed every two seconds.

The header is W3C Trace Context whatever OTEL_PROPAGATORS names, since the API server reads no other format, and baggage is not for it.

Source: https://opentelemetry.io/docs/specs/semconv/http/http-spans/, https://www.w3.org/TR/trace-context/. The API server continues the
traces of the groups system:masters and system:monitoring, and links its spans to all other traces:
https://github.com/kubernetes/kubernetes/pull/127053
"""

from __future__ import annotations

import traceback
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from opentelemetry import context
from opentelemetry.trace import (
    Link,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TracerProvider,
    format_span_id,
    format_trace_id,
    use_span,
)
from opentelemetry.util.types import AttributeValue

from konverge.client.naming import library_version
from konverge.client.requests import Request
from konverge.client.responses import decode_stored
from konverge.client.sender import Call, Sender
from konverge.client.status import deleted_uid
from konverge.client.targets import template_of
from konverge.client.transport import OpenStream, Response, Transport, WebSocket
from konverge.clock import wall_clock
from konverge.errors import ApiError, KonvergeError
from konverge.words import SpanKey

__all__ = ["TracedSender", "Tracing", "Version", "nanoseconds", "record_error"]

Version = tuple[str, str]
"""The uid and the resourceVersion of an object; the version of a deleted object is ""."""

_WRITES: Final = 4096
_PORTS: Final = {"http": 80, "https": 443}


def nanoseconds() -> int:
    """Return the wall time as spans take it."""
    return round(wall_clock().timestamp() * 1_000_000) * 1000


class Tracing:
    """The tracer of one manager or client, and the spans of its last writes."""

    def __init__(self, provider: TracerProvider) -> None:
        self._tracer = provider.get_tracer("konverge", library_version())
        self._writes: OrderedDict[Version, SpanContext] = OrderedDict()

    @classmethod
    def of(cls, tracing: TracerProvider | Tracing) -> Tracing:
        """Return the tracing of a provider."""
        return tracing if isinstance(tracing, Tracing) else cls(tracing)

    def leave_caller(self) -> None:
        """Leave the span of the caller, which the present task would otherwise continue."""
        context.attach(context.Context())

    @contextmanager
    def span(
        self,
        name: str,
        attributes: Mapping[str, AttributeValue],
        *,
        kind: SpanKind = SpanKind.INTERNAL,
        links: Sequence[Link] = (),
        start: int | None = None,
        root: bool = False,
    ) -> Iterator[Span]:
        """Open a span as the current span, and end it; an exception is recorded on it.

        `start` is in nanoseconds, by default now. A `root` begins a trace.
        """
        span = self._tracer.start_span(
            name,
            context=context.Context() if root else None,
            kind=kind,
            attributes=attributes,
            links=links,
            start_time=nanoseconds() if start is None else start,
        )
        try:
            with use_span(span, record_exception=False, set_status_on_exception=False):
                yield span
        except BaseException as error:
            record_error(span, error)
            raise
        finally:
            span.end(nanoseconds())

    def remember(self, written: Version, span: SpanContext) -> None:
        """Keep the span of a write, if it is exported."""
        if not span.trace_flags.sampled:
            return
        self._writes[written] = span
        if len(self._writes) > _WRITES:
            self._writes.popitem(last=False)

    def write_of(self, version: Version) -> SpanContext | None:
        """Return the span of the write that stored this version; None for another process's write, and for a forgotten write."""
        return self._writes.get(version)


def headers_of(span: SpanContext) -> tuple[tuple[str, str], ...]:
    """Return the headers of a trace, by Level 1 of W3C Trace Context: of the flags only "sampled".

    The API server until at least 1.36 ignores a header with the flag "random" of Level 2, which the SDK sets:
    https://github.com/open-telemetry/opentelemetry-go/pull/7834
    """
    if not span.is_valid:
        return ()
    flags = span.trace_flags & TraceFlags.SAMPLED
    parent = ("traceparent", f"00-{format_trace_id(span.trace_id)}-{format_span_id(span.span_id)}-{flags:02x}")
    return (parent, ("tracestate", span.trace_state.to_header())) if span.trace_state else (parent,)


def record_error(span: Span, error: BaseException) -> None:
    """Record an exception on a span: of a foreign exception only its type and its stack. A cancellation sets no status."""
    kind = f"{type(error).__module__}.{type(error).__qualname__}"
    if isinstance(error, ApiError) and error.status:
        span.set_attribute("error.type", str(error.status))
    else:
        span.set_attribute("error.type", kind)
    if not isinstance(error, Exception):
        return
    text = str(error) if isinstance(error, KonvergeError) else type(error).__qualname__
    span.set_status(Status(StatusCode.ERROR, text))
    exception: dict[str, AttributeValue] = {"exception.type": kind}
    if isinstance(error, KonvergeError):
        exception["exception.message"] = text
    elif error.__traceback__ is not None:
        exception["exception.stacktrace"] = "".join(traceback.format_tb(error.__traceback__))
    span.add_event("exception", exception, timestamp=nanoseconds())


class TracedSender(Sender):
    """A sender with a span for each attempt. `server` is the URL of the API server."""

    def __init__(self, transport: Transport, *, tracing: Tracing, server: str, **options: Any) -> None:
        super().__init__(transport, **options)
        parts = urlsplit(server)
        self._tracing = tracing
        self._server: Mapping[str, AttributeValue] = {
            "server.address": parts.hostname or "",
            "server.port": parts.port or _PORTS[parts.scheme],
        }
        # Without the user and password that a URL may contain.
        self._url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"

    @contextmanager
    def _spanned(self, request: Request, resends: int) -> Iterator[tuple[Span, Request]]:
        """Open the span of one attempt; yield it, and the request with its header."""
        template = template_of(request.path)
        attributes: dict[str, AttributeValue] = {
            "http.request.method": request.method,
            "url.full": self._url + request.path.partition("?")[0],
            "url.template": template,
            SpanKey.REQUEST: request.what.partition("?")[0],
            **self._server,
        }
        if resends:
            attributes["http.request.resend_count"] = resends
        with self._tracing.span(f"{request.method} {template}", attributes, kind=SpanKind.CLIENT) as span:
            try:
                yield span, msgspec.structs.replace(request, headers=headers_of(span.get_span_context()))
            except ApiError as error:
                span.set_attribute("http.response.status_code", error.status)
                raise

    async def _send_once(self, call: Call) -> Response:
        with self._spanned(call.request, call.attempts) as (span, call.request):
            response = await super()._send_once(call)
            span.set_attribute("http.response.status_code", response.status)
        if call.request.writes and ("dryRun", "All") not in call.request.params:
            self._remember(response, span)
        return response

    def _remember(self, response: Response, span: Span) -> None:
        with suppress(KonvergeError):  # a response that the caller refuses too
            uid = deleted_uid(response.body)
            if uid is None:
                stored = decode_stored(response.body)
                written = (stored.uid, "" if stored.ended else stored.version)
            else:
                written = (uid, "")
            if written[0]:
                self._tracing.remember(written, span.get_span_context())

    @asynccontextmanager
    async def open(self, request: Request, *, waits: bool = False) -> AsyncIterator[OpenStream]:
        """Open a watch or a log; the span ends when the response begins."""
        async with AsyncExitStack() as stack:
            with self._spanned(request, 0) as (span, sent):
                stream = await stack.enter_async_context(super().open(sent, waits=waits))
                span.set_attribute("http.response.status_code", stream.status)
            yield stream

    @asynccontextmanager
    async def websocket(self, request: Request) -> AsyncIterator[WebSocket]:
        """Open a websocket; the span ends when it is open."""
        async with AsyncExitStack() as stack:
            with self._spanned(request, 0) as (span, sent):
                websocket = await stack.enter_async_context(super().websocket(sent))
                span.set_attribute("http.response.status_code", websocket.status)
            yield websocket
