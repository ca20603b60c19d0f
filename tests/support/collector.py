"""A collector of spans on the loopback, by OTLP over HTTP (our exporter) and over gRPC (kube-apiserver's)."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from grpclib.const import Cardinality, Handler
from grpclib.server import Server, Stream
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector:
    """The spans that were exported, by the name of their service."""

    def __init__(self) -> None:
        self.spans: dict[str, list[Span]] = {}
        self.http = self.grpc = 0
        """The ports."""

    def take(self, request: ExportTraceServiceRequest) -> None:
        """Keep the spans of one export."""
        for batch in request.resource_spans:
            names = [pair.value.string_value for pair in batch.resource.attributes if pair.key == "service.name"]
            for scope in batch.scope_spans:
                self.spans.setdefault(names[0], []).extend(scope.spans)

    async def _post(self, request: web.Request) -> web.Response:
        self.take(ExportTraceServiceRequest.FromString(await request.read()))
        return web.Response(body=b"", content_type="application/x-protobuf")

    async def _export(self, stream: Stream[ExportTraceServiceRequest, ExportTraceServiceResponse]) -> None:
        request = await stream.recv_message()
        assert request is not None
        self.take(request)
        await stream.send_message(ExportTraceServiceResponse())

    def __mapping__(self) -> dict[str, Handler]:
        types: tuple[Any, Any] = (ExportTraceServiceRequest, ExportTraceServiceResponse)
        path = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
        return {path: Handler(self._export, Cardinality.UNARY_UNARY, *types)}


@asynccontextmanager
async def collecting() -> AsyncIterator[Collector]:
    """Collect until the block ends."""
    collector = Collector()
    app = web.Application()
    app.router.add_post("/v1/traces", collector._post)
    runner = web.AppRunner(app)
    await runner.setup()
    server = Server([collector])
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        collector.http = runner.addresses[0][1]
        listening = socket.create_server(("127.0.0.1", 0))  # the server closes it
        collector.grpc = listening.getsockname()[1]
        await server.start(sock=listening)
        yield collector
    finally:
        server.close()
        await server.wait_closed()
        await runner.cleanup()
