"""Conversion webhooks of this process: how often they are called, and how watches continue while they are slow or fail."""

import asyncio
import json
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest
import pytest_asyncio

from konverge_testing import ApiServer
from konverge_testing.apiserver.faults.streams import close_lines
from konverge_testing.apiserver.registry import converting
from konverge_testing.apiserver.requests import ADMIN, Call, Response

PATH = "/apis/example.com/{}/namespaces/default/knobs"
Data = dict[str, Any]


class Webhook:
    """Converts `spec.size` of v1 into `spec.width` of v2 and back; with `broken` it refuses, with `slow` it waits."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.broken = False
        self.slow = 0.0

    async def __call__(self, review: Data) -> Data:
        request = review["request"]
        await asyncio.sleep(self.slow)
        result: Data = {"status": "Failure", "message": "out of order"} if self.broken else {"status": "Success"}
        objects = []
        for one in request["objects"]:
            self.asked.append((one["metadata"]["name"], request["desiredAPIVersion"]))
            old, new = ("width", "size") if request["desiredAPIVersion"].endswith("v1") else ("size", "width")
            spec = {new: one["spec"][old]}
            objects.append({**one, "apiVersion": request["desiredAPIVersion"], "spec": spec})
        return {**review, "response": {"uid": request["uid"], "result": result, "convertedObjects": objects}}


def definition(client_config: Data) -> Data:
    def version(name: str, field: str, *, storage: bool) -> Data:
        spec = {"type": "object", "properties": {field: {"type": "integer"}}}
        schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
        return {"name": name, "served": True, "storage": storage, "schema": schema}

    webhook = {"conversionReviewVersions": ["v1"], "clientConfig": client_config}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "knobs.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "knobs", "kind": "Knob"},
            "conversion": {"strategy": "Webhook", "webhook": webhook},
            "versions": [version("v1", "size", storage=True), version("v2", "width", storage=False)],
        },
    }


async def send(server: ApiServer, method: str, target: str, body: Data | None = None, **headers: str) -> Response:
    call = Call.of(method, target, b"" if body is None else json.dumps(body).encode())
    call.headers = {
        "content-type": "application/json",
        **{name.replace("_", "-"): text for name, text in headers.items()},
    }
    call.user = ADMIN
    return await server.handle(call)


def decoded(response: Response) -> Any:
    return json.loads(response.body)


async def make(server: ApiServer, name: str, size: int = 1) -> None:
    knob = {"apiVersion": "example.com/v1", "kind": "Knob", "metadata": {"name": name}, "spec": {"size": size}}
    response = await send(server, "POST", PATH.format("v1"), knob)
    assert response.status == 201, response.body


async def resize(server: ApiServer, name: str, size: int) -> None:
    target = f"{PATH.format('v1')}/{name}"
    patch = {"spec": {"size": size}}
    response = await send(server, "PATCH", target, patch, content_type="application/merge-patch+json")
    assert response.status == 200, response.body


@pytest.fixture
def webhook() -> Webhook:
    return Webhook()


async def define(server: ApiServer, client_config: Data) -> None:
    made = await send(
        server, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition(client_config)
    )
    assert made.status == 201, made.body
    async with asyncio.timeout(5):
        while (await send(server, "GET", PATH.format("v2"))).status != 200:
            await asyncio.sleep(0.01)


@pytest_asyncio.fixture
async def server(webhook: Webhook) -> AsyncIterator[ApiServer]:
    async with ApiServer(random=Random(1)) as running:
        running.webhooks["https://hooks.example.com/convert"] = webhook
        await define(running, {"url": "https://hooks.example.com/convert"})
        yield running


async def test_a_conversion_webhook_of_this_process_is_found_by_its_service(webhook: Webhook) -> None:
    async with ApiServer(random=Random(1)) as server:
        server.webhooks["default/hook"] = webhook
        await define(server, {"service": {"namespace": "default", "name": "hook", "path": "/convert"}})
        await make(server, "a", size=3)
        assert decoded(await send(server, "GET", f"{PATH.format('v2')}/a"))["spec"] == {"width": 3}


async def test_list_converts_each_stored_object_once_and_each_get_converts_again(
    server: ApiServer, webhook: Webhook
) -> None:
    for name in ("a", "b"):
        await make(server, name)
    for _ in range(2):
        listed = decoded(await send(server, "GET", PATH.format("v2")))
        assert [one["spec"] for one in listed["items"]] == [{"width": 1}, {"width": 1}]
    assert webhook.asked == [("a", "example.com/v2"), ("b", "example.com/v2")]
    await send(server, "GET", f"{PATH.format('v2')}/a")
    await send(server, "GET", f"{PATH.format('v2')}/a")
    assert webhook.asked[2:] == [("a", "example.com/v2"), ("a", "example.com/v2")]


async def test_the_storage_version_is_read_while_the_webhook_is_out_of_order(
    server: ApiServer, webhook: Webhook
) -> None:
    webhook.broken = True
    await make(server, "a")
    await resize(server, "a", 2)
    assert (await send(server, "GET", PATH.format("v1"))).status == 200
    refused = await send(server, "GET", PATH.format("v2"))
    assert refused.status == 500
    assert decoded(refused)["message"] == "conversion webhook for example.com/v1, Kind=Knob failed: out of order"


async def test_watch_sends_events_in_order_and_no_bookmark_ahead_of_events(server: ApiServer, webhook: Webhook) -> None:
    response = await send(server, "GET", f"{PATH.format('v2')}?watch=true&allowWatchBookmarks=true")
    assert response.stream is not None
    webhook.slow = 25.0  # bookmarks are about a minute apart, and a webhook has 30 seconds
    await make(server, "a", size=1)
    await resize(server, "a", 2)
    await send(server, "DELETE", f"{PATH.format('v1')}/a")
    lines: list[Data] = []
    async for line in response.stream:
        lines.append(json.loads(line))
        if lines[-1]["type"] == "DELETED":
            break
    await close_lines(response.stream)
    told = [(one["type"], one["object"]["spec"]) for one in lines if one["type"] != "BOOKMARK"]
    assert told == [("ADDED", {"width": 1}), ("MODIFIED", {"width": 2}), ("DELETED", {"width": 2})]
    versions = [int(one["object"]["metadata"]["resourceVersion"]) for one in lines]
    assert versions == sorted(versions)
    assert any(one["type"] == "BOOKMARK" for one in lines)


async def test_a_watch_ends_at_an_event_that_cannot_be_converted(server: ApiServer, webhook: Webhook) -> None:
    response = await send(server, "GET", f"{PATH.format('v2')}?watch=true")
    assert response.stream is not None
    webhook.broken = True
    await make(server, "a")
    async with asyncio.timeout(5):
        assert [line async for line in response.stream] == []


async def test_converted_objects_of_the_past_are_forgotten(webhook: Webhook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(converting, "_SPARE", 4)
    async with ApiServer(random=Random(1)) as server:
        server.webhooks["default/hook"] = webhook
        await define(server, {"service": {"namespace": "default", "name": "hook"}})
        for name in ("a", "b", "c"):
            await make(server, name)
        for size in range(40):
            await resize(server, "a", size + 2)
            assert len(decoded(await send(server, "GET", PATH.format("v2")))["items"]) == 3
        [cache] = [one for one in server._reader._caches.values() if one.version.name == "v2"]
        assert len(cache._found) <= 2 * 7 + 4
        assert webhook.asked.count(("b", "example.com/v2")) == 1
