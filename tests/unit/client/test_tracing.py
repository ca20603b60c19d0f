"""The spans of requests: names, attributes, resends and errors, and the header on the wire."""

import re
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode
from spans import Spans

from konverge.client import Client, ClientConfig, ClientSettings, ResourceInfo, Response, WatchQuery
from konverge.client.targets import template_of
from konverge.client.tracing import Tracing
from konverge.errors import Unreachable
from konverge.kinds import kind

CONFIG_MAP = kind("v1", "ConfigMap", plural="configmaps", namespaced=True)
STORED = {"kind": "ConfigMap", "metadata": {"name": "a", "namespace": "web", "resourceVersion": "7", "uid": "u-1"}}
TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-01")

Say = Callable[..., Response]


@pytest.fixture
def spans() -> Spans:
    return Spans()


@pytest.fixture
def traced(server: Any, spans: Spans) -> Client:
    config = ClientConfig.over(lambda *_: server, server="https://user:hunter2@api.example.com:6443/clusters/root")
    return Client(config, name="tester", settings=ClientSettings(attempts=3), random=Random(1), tracing=spans.provider)


@pytest.mark.parametrize(
    ("path", "template"),
    [
        ("/api/v1/pods", "/api/v1/pods"),
        ("/api/v1/namespaces/web/pods", "/api/v1/namespaces/{namespace}/pods"),
        ("/api/v1/namespaces/web/pods/a/log?follow=true", "/api/v1/namespaces/{namespace}/pods/{name}/log"),
        ("/api/v1/namespaces/web", "/api/v1/namespaces/{name}"),
        ("/api/v1/namespaces/web/status", "/api/v1/namespaces/{name}/status"),
        ("/apis/apps/v1/namespaces/web/deployments/a%2Fb", "/apis/apps/v1/namespaces/{namespace}/deployments/{name}"),
        ("/api/v1/nodes/n/proxy/secret/path", "/api/v1/nodes/{name}/proxy/{path}"),
        ("/apis/apps/v1", "/apis/apps/v1"),
        ("/openapi/v3/apis/apps/v1?hash=A", "/openapi/v3/apis/apps/v1"),
    ],
)
def test_template_of_a_path_names_no_object(path: str, template: str) -> None:
    assert template_of(path) == template


async def test_each_attempt_has_a_span_with_its_response(
    traced: Client, server: Any, say: Say, refuse: Say, spans: Spans
) -> None:
    server.script = [Unreachable("refused"), refuse(500, "InternalError"), say(STORED)]
    await traced.get(CONFIG_MAP, "a", "web")
    everywhere = {
        "http.request.method": "GET",
        "url.full": "https://api.example.com:6443/clusters/root/api/v1/namespaces/web/configmaps/a",
        "url.template": "/api/v1/namespaces/{namespace}/configmaps/{name}",
        "konverge.request": "get configmaps web/a",
        "server.address": "api.example.com",
        "server.port": 6443,
    }
    assert [span.attributes for span in spans] == [
        {**everywhere, "error.type": "konverge.errors.Unreachable"},
        {**everywhere, "http.request.resend_count": 1, "error.type": "500", "http.response.status_code": 500},
        {**everywhere, "http.request.resend_count": 2, "http.response.status_code": 200},
    ]
    assert {span.name for span in spans} == {"GET /api/v1/namespaces/{namespace}/configmaps/{name}"}
    assert {span.kind for span in spans} == {SpanKind.CLIENT}
    assert [span.status.status_code for span in spans] == [StatusCode.ERROR, StatusCode.ERROR, StatusCode.UNSET]
    for span, request in zip(spans, server.seen, strict=True):
        [(name, value)] = request.headers
        match = TRACEPARENT.fullmatch(value)
        assert match is not None
        assert (name, int(match[1], 16), int(match[2], 16)) == (
            "traceparent",
            span.context.trace_id,
            span.context.span_id,
        )
    assert "hunter2" not in "".join(span.to_json() for span in spans)


async def test_a_span_of_a_hanging_request_ends_at_its_deadline(traced: Client, server: Any, spans: Spans) -> None:
    server.script = [1000.0, 1000.0, 1000.0]
    with pytest.raises(Unreachable):
        await traced.get(CONFIG_MAP, "a", "web")
    lengths = [(span.end_time or 0) - (span.start_time or 0) for span in spans]
    limit = ClientSettings().request_timeout
    assert lengths
    assert all(length <= limit * 1e9 + 1000 for length in lengths)
    assert {(span.attributes or {})["error.type"] for span in spans} == {"konverge.errors.Unreachable"}


async def test_a_span_of_a_watch_ends_when_the_response_begins(
    traced: Client, server: Any, streaming: Any, spans: Spans
) -> None:
    server.script = [streaming(200, [60.0, b""])]
    info = ResourceInfo(api_version="v1", kind="ConfigMap", plural="configmaps", namespaced=True)
    async with traced.watch(info, WatchQuery(namespace="web", timeout_seconds=300, idle_seconds=75.0)) as stream:
        [span] = spans
        assert not [events async for events in stream]
    assert (span.attributes or {})["konverge.request"] == "watch configmaps web"
    assert span.end_time == span.start_time
    assert dict(server.seen[0].headers).keys() == {"traceparent"}


async def test_a_write_is_known_by_the_version_that_it_stored(server: Any, say: Say, spans: Spans) -> None:
    tracing = Tracing(spans.provider)
    client = Client(ClientConfig.over(lambda *_: server), name="tester", tracing=tracing)
    gone = {"kind": "Status", "status": "Success", "details": {"uid": "u-1"}}
    reviewed = {"kind": "SubjectAccessReview", "metadata": {}, "status": {"allowed": True}}
    server.script = [say(STORED, status=201), say(STORED), say(gone), say(reviewed), say({"odd": []})]
    await client.create(CONFIG_MAP.new("a", "web"))
    await client.create(CONFIG_MAP.new("a", "web"), dry_run=True)
    await client.delete(CONFIG_MAP, "a", "web", uid="u-1")
    await client.raw("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body={})
    await client.raw("POST", "/metrics", body={})
    _, created, _, deleted, *_ = spans  # after a request of discovery
    assert tracing.write_of(("u-1", "7")) == created.context
    assert tracing.write_of(("u-1", "")) == deleted.context
    assert tracing.write_of(("u-1", "8")) is None


def test_the_oldest_writes_are_forgotten(spans: Spans) -> None:
    tracing = Tracing(spans.provider)
    span = spans.provider.get_tracer("test").start_span("write").get_span_context()
    for number in range(10_000):
        tracing.remember(("u-1", str(number)), span)
    known = [number for number in range(10_000) if tracing.write_of(("u-1", str(number)))]
    assert known == list(range(10_000 - 4096, 10_000))


def test_writes_that_are_not_exported_are_not_kept() -> None:
    tracing = Tracing(TracerProvider(sampler=ALWAYS_OFF))
    span = TracerProvider(sampler=ALWAYS_OFF).get_tracer("test").start_span("write").get_span_context()
    tracing.remember(("u-1", "7"), span)
    assert tracing.write_of(("u-1", "7")) is None
