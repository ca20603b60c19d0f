"""The spans of a test, kept in memory in the order of their ends."""

from collections.abc import Iterator
from typing import Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Spans:
    """A provider, and the spans that it exported."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(resource=Resource({"service.name": "test"}))
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def __iter__(self) -> Iterator[ReadableSpan]:
        return iter(self._exporter.get_finished_spans())

    def named(self, start: str) -> list[ReadableSpan]:
        """Return the spans whose name begins so."""
        return [span for span in self if span.name.startswith(start)]

    def parent_of(self, span: ReadableSpan) -> str:
        """Return the name of the parent, "" for a root."""
        names = {span.context.span_id: span.name for span in self}
        return "" if span.parent is None else names[span.parent.span_id]

    def clear(self) -> None:
        """Forget the spans."""
        self._exporter.clear()

    @staticmethod
    def attributes(span: ReadableSpan) -> dict[str, Any]:
        """Return the attributes of a span."""
        return dict(span.attributes or {})
