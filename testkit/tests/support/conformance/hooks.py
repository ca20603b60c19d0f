"""Webhooks of the cases: an HTTPS server on loopback for each of the two API servers, and the configurations that name it.

Guarantees: a case states the response of each of its webhooks, and reads the reviews that they received; the text is the same on both
servers.

    - HOOKS mutating: {one: {answer: {allowed: true, patch: [{op: add, path: /data, value: {}}]}}}
    - POST cm: {metadata: {name: a}}
    - SEEN one:

A webhook has the fields of the configuration, with defaults: all writes of configmaps in the case's namespace. `answer` is the response
(`uid` is filled in, a `patch` that is a list is encoded), or a text that is the whole body; `{whole: {...}}` is the whole document.
"""

import asyncio
import base64
import json
import ssl
from collections.abc import Mapping
from typing import Any, Final

import trustme
from aiohttp import web

Data = dict[str, Any]

READY: Final = "ready"
"""The webhook that tells that a server has taken a configuration up."""
_RULE: Final[Data] = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["*"]}


async def end_serving(runner: web.AppRunner) -> None:
    """Close the sockets of a server and of its connections before the loop ends.

    `cleanup` only starts the TLS shutdown and does not wait for the client. A busy kube-apiserver keeps its connections and replies after
    the loop has ended, which would leave the socket open.
    """
    for site in list(runner.sites):
        await site.stop()
    for connection in runner.server.connections if runner.server is not None else ():
        if connection.transport is not None:
            connection.transport.abort()
    await asyncio.sleep(0)
    await runner.cleanup()


class HookServer:
    """Responds to reviews as the cases specify, and keeps the reviews by path (`/NAMESPACE/NAME`). It begins to listen on first use."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.seen: dict[str, list[Data]] = {}
        self.url = ""
        self.bundle = ""
        self._runner: web.AppRunner | None = None
        self._starting = asyncio.Lock()

    async def start(self) -> None:
        """Listen, if it does not yet."""
        async with self._starting:
            if self._runner is None:
                await self._listen()

    async def _listen(self) -> None:
        authority = trustme.CA()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        application = web.Application()
        application.router.add_post("/{path:.*}", self._handle)
        self._runner = web.AppRunner(application, shutdown_timeout=0)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=context).start()
        self.url = f"https://127.0.0.1:{self._runner.addresses[0][1]}"
        self.bundle = base64.b64encode(authority.cert_pem.bytes()).decode()

    async def close(self) -> None:
        """Listen no more."""
        if self._runner is not None:
            await end_serving(self._runner)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        review = await request.json()
        # The requesting user is covered by another case: the administrators of the two servers have different names.
        asked = {key: value for key, value in review["request"].items() if key != "userInfo"}
        self.seen.setdefault(request.path, []).append(asked)
        return _answered(self.answers[request.path], review)


def _answered(answer: Any, review: Data) -> web.Response:
    if isinstance(answer, str):
        return web.Response(text=answer, content_type="application/json")
    if "whole" in answer:
        text = json.dumps(answer["whole"]).replace("$uid", review["request"]["uid"])
        return web.Response(text=text, content_type="application/json")
    response = {"uid": review["request"]["uid"], **answer}
    if isinstance(response.get("patch"), list):
        encoded = base64.b64encode(json.dumps(response["patch"]).encode()).decode()
        response = {"patchType": "JSONPatch", **response, "patch": encoded}
    return web.json_response({"kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": response})


def configuration(server: HookServer, kind: str, namespace: str, number: int, hooks: Mapping[str, Data]) -> Data:
    """Return the configuration of a case's webhooks, and configure the server's responses."""
    probe = {"objectSelector": {"matchLabels": {"probe": "hooks"}}, "answer": {"allowed": False}}
    whole = [
        _webhook(server, namespace, f"{name}-{number}" if name == READY else name, fields)
        for name, fields in {READY: probe, **hooks}.items()
    ]
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind.capitalize()}WebhookConfiguration",
        "metadata": {"name": f"{namespace}-{number}"},
        "webhooks": whole,
    }


def _webhook(server: HookServer, namespace: str, name: str, fields: Data) -> Data:
    path = f"/{namespace}/{name}"
    server.answers[path] = fields.get("answer", {"allowed": True})
    server.seen.pop(path, None)
    return {
        "name": f"{name}.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"url": server.url + path, "caBundle": server.bundle},
        "rules": [_RULE],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        **{key: value for key, value in fields.items() if key != "answer"},
    }
