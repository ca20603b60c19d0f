"""Spans of a process: their export by OTLP, and the ids of the trace in its log lines. It needs the extra `konverge[otel]`.

Guarantees: the SDK of OpenTelemetry reads its variables (OTEL_*) itself: endpoint and headers of the collector, sampler, attributes of the
resource, limits. A provider that the process already has, for instance from `opentelemetry-instrument`, is used as it is. Spans that wait
are exported before the process ends, within the time limits of the SDK.

Caveats: the provider becomes the provider of the whole process, so that spans of the reconcilers' own tracers are exported too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.environment_variables import OTEL_RESOURCE_ATTRIBUTES, OTEL_SERVICE_NAME
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from konverge.words import LogKey

__all__ = ["add_trace_ids", "exported_spans", "resource_of"]


def add_trace_ids(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Add the ids of the current trace and span to a log line; a structlog processor."""
    span = trace.get_current_span().get_span_context()
    if span.is_valid:
        event.setdefault(LogKey.TRACE_ID, trace.format_trace_id(span.trace_id))
        event.setdefault(LogKey.SPAN_ID, trace.format_span_id(span.span_id))
    return event


def resource_of(name: str, environ: Mapping[str, str]) -> Resource:
    """Return the resource of the variables, whose service has the operator's name unless a variable names it."""
    named = environ.get(OTEL_SERVICE_NAME) or f"{SERVICE_NAME}=" in environ.get(OTEL_RESOURCE_ATTRIBUTES, "")
    return Resource.create({} if named else {SERVICE_NAME: name})


@contextmanager
def exported_spans(name: str) -> Iterator[trace.TracerProvider]:
    """Yield the provider whose spans are exported; `name` is the operator's."""
    present = trace.get_tracer_provider()
    if not isinstance(present, trace.ProxyTracerProvider):
        yield present
        return
    provider = TracerProvider(resource=resource_of(name, os.environ))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    try:
        yield provider
    finally:
        provider.shutdown()
