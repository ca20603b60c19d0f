"""A conversion webhook that both servers call over HTTPS: `$hook` is its URL in a case, `$ca` its certificate authority for `caBundle`.

Guarantees: `/convert` converts `spec.size: 3` of `v1` into `spec.width: 3px` of every other version and back. The name of an object chooses
a mistake in the response (`MISTAKES`), so a single definition covers all mistakes. Other paths choose what no ConversionReview can express:
`/text`, `/broken`, `/absent`.
"""

import base64
import copy
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import trustme
from aiohttp import web
from conformance.hooks import end_serving

Data = dict[str, Any]


def _converted(found: Data, version: str) -> Data:
    out: Data = {**copy.deepcopy(found), "apiVersion": version}
    spec = out.get("spec") or {}
    back = version.endswith("/v1")
    spec.pop("new" if back else "old", None)
    if back and "width" in spec:
        spec["size"] = int(spec.pop("width").removesuffix("px"))
    elif "size" in spec:
        spec["width"] = f"{spec.pop('size')}px"
    return out


def _metadata(**changes: Any) -> Callable[[Data], None]:
    def change(response: Data) -> None:
        response["response"]["convertedObjects"][0]["metadata"] |= changes

    return change


def _response(**changes: Any) -> Callable[[Data], None]:
    def change(response: Data) -> None:
        response["response"] |= changes

    return change


def _object(**changes: Any) -> Callable[[Data], None]:
    def change(response: Data) -> None:
        response["response"]["convertedObjects"][0] |= changes

    return change


def _drop(*path: str) -> Callable[[Data], None]:
    def change(response: Data) -> None:
        here: Any = response
        for step in path[:-1]:
            here = here[int(step) if step.isdigit() else step]
        del here[path[-1]]

    return change


def _review(**changes: Any) -> Callable[[Data], None]:
    return lambda response: response.update(changes)


MISTAKES: Final[Mapping[str, Callable[[Data], None]]] = {
    "other-uid": _response(uid="another"),
    "no-uid": _drop("response", "uid"),
    "no-response": _drop("response"),
    "other-kind-of-review": _review(kind="AdmissionReview"),
    "other-review-version": _review(apiVersion="apiextensions.k8s.io/v1beta1"),
    "failure": _response(result={"status": "Failure", "message": "no such width"}),
    "silent-failure": _response(result={"status": "Failure"}),
    "no-result": _drop("response", "result"),
    "none": _response(convertedObjects=[]),
    "null-object": _response(convertedObjects=[None]),
    "word": _response(convertedObjects=["word"]),
    "same-version": _object(apiVersion="none.example.com/v1"),
    "no-version": _drop("response", "convertedObjects", "0", "apiVersion"),
    "other-kind": _object(kind="Other"),
    "other-name": _metadata(name="another"),
    "other-namespace": _metadata(namespace="another"),
    "other-uid-of-object": _metadata(uid="another"),
    "no-metadata": _drop("response", "convertedObjects", "0", "metadata"),
    "labelled": _metadata(labels={"a": "b"}, annotations={"c": "d"}, finalizers=["example.com/x"], resourceVersion="7"),
    "bad-label": _metadata(labels={"a b": "c d"}),
    "bad-annotation": _metadata(annotations={"a b": "c"}),
    "label-number": _metadata(labels={"a": 5}),
    "labels-text": _metadata(labels="text"),
    "unknown-fields": _object(more={"a": 1}),
}


async def _convert(request: web.Request) -> web.Response:
    review = await request.json()
    asked = review["request"]
    objects = [_converted(one, asked["desiredAPIVersion"]) for one in asked["objects"]]
    response: Data = {"uid": asked["uid"], "result": {"status": "Success"}, "convertedObjects": objects}
    document: Data = {"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response}
    mistake = MISTAKES.get(objects[0]["metadata"]["name"])
    if mistake is not None:
        mistake(document)
    return web.json_response(document)


async def _text(_: web.Request) -> web.Response:
    return web.Response(text="this is no review")


async def _broken(_: web.Request) -> web.Response:
    return web.Response(status=500, text="out of order")


@asynccontextmanager
async def conversion_webhook() -> AsyncIterator[dict[str, str]]:
    """Serve the webhook on loopback; yields the variables for cases."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    app = web.Application()
    app.router.add_post("/convert", _convert)
    app.router.add_post("/text", _text)
    app.router.add_post("/broken", _broken)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        host, port = runner.addresses[0][:2]
        bundle = base64.b64encode(authority.cert_pem.bytes()).decode()
        yield {"$hook": f"https://{host}:{port}", "$ca": bundle}
    finally:
        await end_serving(runner)
