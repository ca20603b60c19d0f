"""The agent over real HTTP against the aiohttp application: TLS, proxies, limits; and that no credential is written anywhere."""

import asyncio
import base64
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest
import structlog
import trustme
from aiohttp import web
from prometheus_client import generate_latest
from pull_kit import OPERATOR, TOKEN, World, ensure

from konverge.reconcilers.clusters.act import PlaneHttpTransport
from konverge.reconcilers.clusters.kinds import SECRET
from konverge.reconcilers.clusters.protocol import API, Outcome, Register, write
from konverge.reconcilers.clusters.transport import NoResponse, PlaneRequest
from konverge_testing.agent_server import AgentServer, application

PING = PlaneRequest(
    method="GET", path=f"{API}/jobs", query={"cluster": "east", "wait": "0"}, credential="planted-credential"
)


@asynccontextmanager
async def served(app: web.Application, context: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Serve an application on the loopback; yields its URL."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    port = runner.addresses[0][1]
    try:
        yield f"{'http' if context is None else 'https'}://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def transport(
    url: str, *, ca_file: str = "", environ: dict[str, str] | None = None
) -> AsyncIterator[PlaneHttpTransport]:
    made = PlaneHttpTransport(url, ca_file=ca_file, environ=environ or {})
    try:
        yield made
    finally:
        await made.close()


def plane() -> AgentServer:
    return AgentServer("east", tokens=(TOKEN,), random=Random(5))


async def test_certificates_are_verified_and_a_bundle_can_be_given(tmp_path: Path) -> None:
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    bundle = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(bundle))
    async with served(application(plane()), context) as url:
        async with transport(url) as strict:
            with pytest.raises(NoResponse, match="ertificate"):
                await strict.send(PING)
        async with transport(url, ca_file=str(bundle)) as trusting:
            assert (await trusting.send(PING)).status == 401
        async with transport(url, ca_file=str(tmp_path / "missing.pem")) as lost:
            with pytest.raises(NoResponse, match="no PEM certificates"):
                await lost.send(PING)


async def test_environment_proxy_is_used_and_its_password_is_in_no_error() -> None:
    asked: list[str] = []

    async def proxy(request: web.Request) -> web.Response:
        asked.append(str(request.url))
        return web.Response(status=502)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", proxy)
    async with served(app) as url:
        through = url.replace("http://", "http://user:proxy-password@")
        async with transport("http://plane.example.com", environ={"HTTP_PROXY": through}) as sender:
            assert (await sender.send(PING)).status == 502
        async with transport("https://plane.example.com", environ={"HTTPS_PROXY": through}) as sender:
            with pytest.raises(NoResponse) as caught:
                await sender.send(PING)
    assert len(asked) >= 1
    assert "proxy-password" not in str(caught.value)
    assert caught.value.__cause__ is None


async def test_a_redirect_is_not_followed_with_the_credential() -> None:
    seen: list[str] = []

    async def elsewhere(request: web.Request) -> web.Response:
        seen.append(request.path)
        raise web.HTTPTemporaryRedirect("/elsewhere")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", elsewhere)
    async with served(app) as url, transport(url) as sender:
        assert (await sender.send(PING)).status == 307
    assert seen == [f"{API}/jobs"]


async def test_a_body_above_the_limit_is_cut_off_while_it_is_read() -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(10_000):
            await response.write(b"x" * 65_536)
        return response

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", endless)
    async with served(app) as url, transport(url) as sender:
        with pytest.raises(NoResponse, match="more than") as caught:
            await sender.send(PING)
    assert caught.value.too_large


async def test_faults_of_the_application_are_those_of_the_server_in_process() -> None:
    server = plane()
    server.faults.add(status=429, retry_after=9.0)
    server.faults.add(cut="before", times=2)  # aiohttp repeats a GET once on a connection that it had open
    async with served(application(server)) as url, transport(url) as sender:
        assert (await sender.send(PING)).retry_after == 9.0
        with pytest.raises(NoResponse):
            await sender.send(PING)
        body = write(Register(cluster_id="east", registration_token=TOKEN))
        made = await sender.send(PlaneRequest(method="POST", path=f"{API}/register", body=body))
        assert made.status == 201


async def test_no_credential_is_in_any_output_but_its_secret(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    lines: list[object] = []

    def keep(_logger: object, _name: str, event: structlog.typing.EventDict) -> str:
        lines.append(dict(event))
        return str(event)

    structlog.configure(processors=[keep])
    try:
        async with World() as world:
            async with served(application(world.plane)) as url:
                world.transport = lambda: PlaneHttpTransport(url, environ={})
                agent = await world.start()
                assert (await world.plane.result(world.plane.submit("intent", ensure()))).outcome is Outcome.SUCCEEDED
                world.plane.submit("intent", {"intent": "rotate-operator-credentials"}, job_id="rotate")
                await world.plane.result("rotate")
                credential = world.plane.state.valid
                # A control plane that quotes the credential in its error message.
                world.plane.faults.add(status=401, reason=credential, times=100)
                await world.plane.until(lambda: world.plane.exchanges[-1].response.status == 401)
                await asyncio.sleep(1)
                shown = [repr(agent.config), repr(agent.state), repr(world.plane.exchanges), str(agent.state.message)]
                await world.kill()
            stored = [
                entry.object()
                for resource in (("", "configmaps"), ("events.k8s.io", "events"), ("ops.vworkspace.io", "clusters"))
                for entry in world.server.store.list(resource)
            ]
            secrets = [one.to_dict() for one in await world.client.list(SECRET, OPERATOR)]
            metrics = generate_latest(world.metrics.registry).decode()
    finally:
        structlog.reset_defaults()
    written = "\n".join([*map(str, lines), *shown, str(stored), metrics, caplog.text])
    for value in (credential, TOKEN):
        assert value not in written
        assert base64.b64encode(value.encode()).decode() not in written
    holders = [one["metadata"]["name"] for one in secrets if base64.b64encode(credential.encode()).decode() in str(one)]
    assert holders == ["vworkspace-agent-credentials"]
    assert not any(TOKEN in str(one) or base64.b64encode(TOKEN.encode()).decode() in str(one) for one in secrets)
    assert lines
