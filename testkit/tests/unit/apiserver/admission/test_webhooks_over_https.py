"""Webhooks behind real TLS on loopback: connection errors, with a real server's messages (see `tools/record/admission/recorder.py`)."""

import base64
import json
import random
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiohttp import web
from record.admission.hooks import plane_answer
from stored_objects import Stored

from konverge_testing.apiserver.admission import Admission, AdmissionCall
from konverge_testing.apiserver.admission.calling import Webhooks
from konverge_testing.apiserver.admission.hooks import Hook
from konverge_testing.apiserver.draws import Draws
from konverge_testing.apiserver.nodes import Node
from konverge_testing.apiserver.resources import Resource, Version
from konverge_testing.apiserver.statuses import StatusError

Data = dict[str, Any]

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RECORDED: list[Data] = json.loads(Path(__file__).with_name("recorded.json").read_text())["webhooks"]
OVER_A_CONNECTION = (
    "absent",
    "broken",
    "broken and ignored",
    "denied in words",
    "refused",
    "refused and ignored",
    "status",
)
CASES = [
    case
    for case in RECORDED
    if case["name"] in (*OVER_A_CONNECTION, "a status", "unknown authority", "allowed with warnings")
]
MAPS = Resource(group="", plural="configmaps", kind="ConfigMap", versions=(Version("v1", Node({})),))


@asynccontextmanager
async def _served(case: Data, seen: list[web.Request]) -> AsyncIterator[tuple[str, str]]:
    """Serve a case's behaviour; yields the address and the CA bundle."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)

    async def handle(request: web.Request) -> web.StreamResponse:
        seen.append(request)
        return await plane_answer(case["behaviour"], await request.json(), request.path)

    application = web.Application()
    application.router.add_post("/{path:.*}", handle)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    try:
        port = runner.addresses[0][1]
        yield f"https://127.0.0.1:{port}", base64.b64encode(authority.cert_pem.bytes()).decode()
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
async def test_a_webhook_over_https_gets_the_review_of_a_real_server(case: Data) -> None:
    seen: list[web.Request] = []
    async with _served(case, seen) as (address, bundle):
        text = json.dumps(case["webhooks"]).replace("ADDRESS", address).replace("BUNDLE", bundle)
        head = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
        objects = Stored([namespace, {**head, "metadata": {"name": "probe"}, "webhooks": json.loads(text)}])
        admission = Admission(objects, draws=Draws(random.Random(1)), clock=lambda: NOW)
        body = case["request"][2]
        call = AdmissionCall("CREATE", MAPS, "v1", namespace="default", name="m", object=body)
        try:
            refused = await _refused(admission, call)
        finally:
            await admission.close()
    shown = json.loads(json.dumps(refused).replace(address, "ADDRESS"))
    assert shown == (case["answer"] if case["answer"]["kind"] == "Status" else None)
    assert [request.path_qs for request in seen] == [asked["target"] for asked in case["asked"]]
    assert all(request.headers["User-Agent"] == "kube-apiserver-admission" for request in seen)


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("//path", "/path?timeout=10s"),
        ("/a/../b/", "/b?timeout=10s"),
        ("//a%2Fb", "/a/b?timeout=10s"),
        ("", "/?timeout=10s"),
    ],
)
async def test_webhook_at_its_cleaned_path_may_have_its_certificate_as_ca_bundle(path: str, target: str) -> None:
    """The response of kube-apiserver 1.36 for a serving certificate of an unknown authority."""
    serving = trustme.CA().issue_cert("127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.configure_cert(context)
    seen: list[str] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        seen.append(request.raw_path)
        return await plane_answer({"allowed": True}, await request.json(), request.path)

    runner = web.ServerRunner(web.Server(handle))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    url = f"https://127.0.0.1:{runner.addresses[0][1]}{path}"
    config = {"url": url, "caBundle": base64.b64encode(serving.cert_chain_pems[0].bytes()).decode()}
    calling = Webhooks({})
    try:
        hook = Hook(
            "validating", "probe", 0, (), {"name": "hook.example.com", "clientConfig": config, "timeoutSeconds": 10}
        )
        await calling.ask(hook, {"request": {"uid": "u"}})
    finally:
        await calling.close()
        await runner.cleanup()
    assert seen == [target]


async def _refused(admission: Admission, call: AdmissionCall) -> Data | None:
    try:
        await admission.validate(call)
    except StatusError as error:
        return error.body()
    return None
