"""kube-apiserver and the server in memory call a webhook behind HTTPS alike: the certificates that they trust, and the path."""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
import trustme
from aiohttp import web
from conformance.targets import AGENT, Target, memory_target, real_target

from konverge_testing.control_plane import ControlPlane

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(120)]

_HEADERS = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": AGENT}
_CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
_PATHS = ["//path", "//a//b/", "/a/../b", "//a%2Fb", ""]


@asynccontextmanager
async def _webhook() -> AsyncIterator[tuple[str, str]]:
    """Serve a webhook that rejects everything and names the called path; yields its address and its own certificate."""
    serving = trustme.CA().issue_cert("127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.configure_cert(context)

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        uid = (await request.json())["request"]["uid"]
        response = {"uid": uid, "allowed": False, "status": {"message": request.raw_path}}
        return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})

    runner = web.ServerRunner(web.Server(handle))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    try:
        yield (
            f"https://127.0.0.1:{runner.addresses[0][1]}",
            base64.b64encode(serving.cert_chain_pems[0].bytes()).decode(),
        )
    finally:
        await runner.cleanup()


def _configuration(number: int, url: str, bundle: str) -> dict[str, Any]:
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
    hook = {
        "name": "hook.example.com",
        "clientConfig": {"url": url, "caBundle": bundle},
        "rules": [rule],
        "objectSelector": {"matchLabels": {"hook": f"n{number}"}},
        "sideEffects": "None",
        "timeoutSeconds": 5,
        "admissionReviewVersions": ["v1"],
    }
    return {"metadata": {"name": f"webhook-calls-{number}"}, "webhooks": [hook]}


async def _called(target: Target, number: int) -> tuple[int, str]:
    """Create a ConfigMap with dry run until the server knows the webhook; return the response."""
    body = {"metadata": {"name": "a", "labels": {"hook": f"n{number}"}}}
    while True:
        path = "/api/v1/namespaces/default/configmaps?dryRun=All"
        reply = await target.send("POST", path, _HEADERS, json.dumps(body).encode())
        if reply.status != 201:
            return reply.status, json.loads(reply.body)["message"]
        await asyncio.sleep(0.05)


async def _calls(target: Target, address: str, bundle: str) -> list[tuple[int, str]]:
    for number, path in enumerate(_PATHS):
        body = json.dumps(_configuration(number, address + path, bundle)).encode()
        assert (await target.send("POST", _CONFIGURATIONS, _HEADERS, body)).status == 201
    try:
        return [await _called(target, number) for number in range(len(_PATHS))]
    finally:
        for number in range(len(_PATHS)):
            await target.send("DELETE", f"{_CONFIGURATIONS}/webhook-calls-{number}", _HEADERS, b"")


async def test_both_servers_trust_a_webhooks_own_certificate_and_call_its_cleaned_path(
    control_plane: ControlPlane,
) -> None:
    async with AsyncExitStack() as stack:
        real = await stack.enter_async_context(real_target(control_plane))
        memory = await stack.enter_async_context(memory_target())
        address, bundle = await stack.enter_async_context(_webhook())
        answers = await asyncio.gather(_calls(real, address, bundle), _calls(memory, address, bundle))
    assert answers[0] == answers[1]
    assert [message.rpartition(": ")[2] for _, message in answers[0]] == [
        f"{path}?timeout=5s" for path in ("/path", "/a/b", "/b", "/a/b", "/")
    ]
