"""The spans of reconciles: their tree, their times, their ends, and the links between writes and reconciles."""

import asyncio
import re
import subprocess
import sys
from typing import Any, Literal

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode
from spans import Spans
from widgets import CONFIG_MAP, By, Widget, make_parts, widget

import konverge as kv
from konverge.errors import NotFound
from konverge.words import SpanKey
from konverge_testing import Lab

FINALIZER = "tests.konverge.dev/widget"
PASSWORD = "hunter2"
TRACEPARENT = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-01")


@pytest.fixture
def spans() -> Spans:
    return Spans()


async def run(lab: Lab, spans: Spans, controller: kv.Controller[Any]) -> None:
    def build(manager: kv.Manager) -> None:
        manager.tracing = spans.provider
        manager.add(controller)

    await lab.start(build)


def seconds(span: ReadableSpan) -> float:
    assert span.start_time is not None
    assert span.end_time is not None
    return (span.end_time - span.start_time) / 1e9


async def test_a_reconcile_is_a_trace_of_wait_reconcile_and_requests(lab: Lab, spans: Spans) -> None:
    await run(lab, spans, kv.Controller.of(Widget).owns(CONFIG_MAP).reconciled_by(By(make_parts)))
    spans.clear()
    await lab.create(widget(parts=1))
    await lab.until(Widget, "one", kv.is_true("Ready"))
    await lab.settled()
    root, *_ = spans.named("work widget")
    trace = [span for span in spans if span.context.trace_id == root.context.trace_id]
    assert [(span.name, span.kind, spans.parent_of(span)) for span in trace] == [
        ("wait widget", SpanKind.INTERNAL, "work widget"),
        ("PATCH /api/v1/namespaces/{namespace}/configmaps/{name}", SpanKind.CLIENT, "reconcile widget"),
        (
            "PATCH /apis/tests.konverge.dev/v1/namespaces/{namespace}/widgets/{name}/status",
            SpanKind.CLIENT,
            "reconcile widget",
        ),
        ("reconcile widget", SpanKind.INTERNAL, "work widget"),
        ("work widget", SpanKind.INTERNAL, ""),
    ]
    reconcile, *_ = spans.named("reconcile widget")
    attributes = spans.attributes(reconcile)
    stored = await lab.get(Widget, "one")
    assert attributes.pop(SpanKey.RECONCILE_ID)
    assert attributes.pop(SpanKey.VERSION)
    assert attributes == {
        "konverge.controller": "widget",
        "k8s.object.api_version": "tests.konverge.dev/v1",
        "k8s.object.kind": "Widget",
        "k8s.object.name": "one",
        "k8s.object.uid": stored.metadata.uid,
        "k8s.namespace.name": lab.namespace,
        "konverge.reconcile.reasons": ("created",),
        "konverge.reconcile.outcome": "Done",
        "konverge.reconcile.writes": 2,
        "konverge.reconcile.skipped_writes": 0,
    }
    assert reconcile.status.status_code is StatusCode.UNSET


async def test_wait_begins_when_the_key_is_ready(lab: Lab, spans: Spans) -> None:
    async def slow(_: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        await asyncio.sleep(30)
        return kv.RequeueAfter(600) if len(spans.named("work")) < 2 else kv.Done()

    await run(lab, spans, kv.Controller.of(Widget).with_(concurrency=1).reconciled_by(By(slow)))
    await lab.create(widget("first"))
    await lab.create(widget("second"))
    await asyncio.sleep(1000)
    waits = spans.named("wait widget")
    about = [spans.attributes(root) for root in spans.named("work widget")]
    assert [round(seconds(span)) for span in waits] == [0, 30, 0, 0]
    assert [round(seconds(span)) for span in spans.named("work widget")] == [30, 60, 30, 30]
    assert [round(attributes[SpanKey.DELAY]) for attributes in about] == [0, 0, 600, 600]


async def refused(owner: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
    await ctx.live(CONFIG_MAP).get(owner.namespace, "absent")
    return kv.Done()


def fails(error: Exception) -> By:
    async def reconcile(_: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        raise error

    return By(reconcile)


@pytest.mark.parametrize(
    ("reconciler", "expected", "error_type", "description"),
    [
        (fails(kv.Terminal("the plan is unknown")), kv.Terminal, "konverge.errors.Terminal", "the plan is unknown"),
        (fails(kv.RetryAfter(5000, "no capacity")), kv.RetryAfter, "konverge.errors.RetryAfter", "no capacity"),
        (fails(ValueError(PASSWORD)), ValueError, "builtins.ValueError", "ValueError"),
        (By(refused), NotFound, "404", 'get configmaps lab/absent: configmaps "absent" not found'),
    ],
    ids=["terminal", "retry after", "foreign", "response of the server"],
)
async def test_a_failed_reconcile_records_its_error_without_foreign_text(
    lab: Lab, spans: Spans, reconciler: By, expected: type[Exception], error_type: str, description: str
) -> None:
    lab.expects(expected)
    controller = kv.Controller.of(Widget).reads_live(CONFIG_MAP).with_(base_delay=900)
    await run(lab, spans, controller.reconciled_by(reconciler))
    await lab.create(widget())
    await asyncio.sleep(2000)
    failed = spans.named("reconcile")
    assert failed
    for span in failed:
        [event] = span.events
        assert spans.attributes(span)["error.type"] == error_type
        assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, description)
        assert ("exception.stacktrace" in (event.attributes or {})) is (expected is ValueError)
        assert PASSWORD not in span.to_json()


async def test_a_reconcile_links_to_each_own_write_that_caused_it(lab: Lab, spans: Spans) -> None:
    async def relay(owner: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        await ctx.own(CONFIG_MAP.new("relay", owner.namespace, data={"parts": str(owner.spec.parts)}))
        return kv.Done()

    async def observe(_: kv.Object, ctx: kv.Context[kv.Object]) -> kv.Outcome:
        return kv.Done()

    async def let_go(_: Widget, ctx: kv.Context[Widget]) -> kv.Outcome:
        return kv.Done()

    def build(manager: kv.Manager) -> None:
        manager.tracing = spans.provider
        relaying = kv.Controller.of(Widget).owns(CONFIG_MAP).finalizer(FINALIZER).reconciled_by(By(relay, let_go))
        manager.add(relaying)
        manager.add(kv.Controller.of(CONFIG_MAP).named("observer").reconciled_by(By(observe)))

    await lab.start(build)
    await lab.create(widget())
    await lab.settled()
    writes = {span.context.span_id: span.name for span in spans.named("PATCH")}
    caused = {
        (span.name, writes[link.context.span_id].rpartition("/{namespace}/")[2])
        for span in spans.named("reconcile")
        for link in span.links
    }
    assert caused == {
        ("reconcile widget", "widgets/{name}"),  # the finalizer
        ("reconcile widget", "configmaps/{name}"),  # the event of the child preceded the response
        ("reconcile observer", "configmaps/{name}"),
    }
    spans.clear()
    await lab.patch(Widget, "one", {"spec": {"parts": 1}})
    await lab.settled()
    first, *_ = spans.named("reconcile widget")
    assert not first.links, "the write of another client has no span"


def test_without_tracing_opentelemetry_is_not_imported() -> None:
    program = (
        "import asyncio, sys\n"
        "import konverge as kv\n"
        "from konverge.daemon.engine import Operator, set_up\n"
        "from konverge.daemon.settings import Settings\n"
        "from konverge_testing import ApiServer\n"
        "async def main():\n"
        "    async with ApiServer() as server, kv.Manager('plain', server.config()) as manager:\n"
        "        await manager.client.list(kv.kind('v1', 'Pod'))\n"
        "set_up(Settings())\n"
        "asyncio.run(main())\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


async def test_spans_of_a_manager_do_not_continue_the_span_of_its_starter(lab: Lab, spans: Spans) -> None:
    with spans.provider.get_tracer("program").start_as_current_span("start of the program") as caller:
        await run(lab, spans, kv.Controller.of(Widget).reconciled_by(By(make_parts)))
        await lab.create(widget())
        await lab.until(Widget, "one", kv.is_true("Ready"))
    lists = spans.named("GET")
    assert lists
    traces = {span.context.trace_id for span in (*lists, *spans.named("work"))}
    assert caller.get_span_context().trace_id not in traces


@pytest.mark.parametrize(("elected", "sharding"), [(False, "off"), (True, "off"), (False, "hash")])
async def test_tracing_changes_no_request_but_for_its_header(
    lab: Lab, spans: Spans, elected: bool, sharding: Literal["off", "hash"]
) -> None:
    assert lab.server is not None
    sent: dict[str, list[str]] = {"plain": [], "traced": []}
    headers: dict[str, set[bool]] = {"plain": set(), "traced": set()}

    def count(call: Any, about: Any, _: object) -> None:
        name = call.headers.get("user-agent", "").partition(" ")[0]
        if name in sent and about.resource != "events" and "coordination.k8s.io" not in call.path:
            sent[name].append(f"{call.method} {call.path.replace(name, 'NAME')}")
            headers[name].add(bool(TRACEPARENT.fullmatch(call.headers.get("traceparent", ""))))

    def plain(manager: kv.Manager) -> None:
        controller = kv.Controller.of(Widget).owns(CONFIG_MAP).reconciled_by(By(make_parts))
        manager.add(controller if sharding == "off" else controller.sharded())

    def traced(manager: kv.Manager) -> None:
        manager.tracing = spans.provider
        plain(manager)

    lab.server.on_call.append(count)
    election = kv.ElectionSettings(enabled=elected, namespace=lab.namespace)
    shared = kv.ShardingSettings(mode=sharding, namespace=lab.namespace)
    for build in (plain, traced):
        name = build.__name__
        settings = kv.ManagerSettings(namespace=lab.namespace, election=election, sharding=shared)
        await lab.start(build, name=name, settings=settings)
        await lab.create(widget(name))
        await lab.until(Widget, name, kv.is_true("Ready"))
        await lab.settled()
        await lab.delete(Widget, name)
        await lab.settled()
        await lab.stop()
    assert sent["traced"] == sent["plain"] != []
    assert headers == {"plain": {False}, "traced": {True}}
    of_leases = bool(spans.named("PATCH /apis/coordination.k8s.io"))
    assert of_leases is (sharding == "hash"), "marks of a ring's member have spans, renewals have none"
