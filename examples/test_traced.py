"""The test of the operator with spans."""

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from traced_operator import Greeting, GreetingSpec, build

import konverge as kv
from konverge_testing import Lab


async def test_the_span_of_the_reconciler_is_inside_the_span_of_the_reconcile(lab: Lab) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    await lab.start(lambda manager: build(manager, provider))
    await lab.create(Greeting.new("morning", spec=GreetingSpec(language="fr")))
    await lab.until(Greeting, "morning", kv.is_true("Ready"))
    await lab.settled()

    def first(name: str) -> ReadableSpan:
        return next(span for span in exporter.get_finished_spans() if span.name == name)

    work, reconcile, translate = map(first, ("work greeting", "reconcile greeting", "translate"))
    apply = first("PATCH /api/v1/namespaces/{namespace}/configmaps/{name}")
    assert reconcile.parent == work.context
    assert translate.parent == apply.parent == reconcile.context
    assert (apply.attributes or {})["http.response.status_code"] == 201
