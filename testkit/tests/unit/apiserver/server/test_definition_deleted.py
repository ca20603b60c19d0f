"""The end of a definition, as clients follow it: kube-rs' example `crd_derive_schema` deletes, and then watches from version 0."""

import asyncio
import json
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest_asyncio

from konverge_testing import ApiServer
from konverge_testing.apiserver.requests import ADMIN, Call, Response

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FOOS = "/apis/clux.dev/v1/namespaces/default/foos"
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "foos.clux.dev"},
    "spec": {
        "group": "clux.dev",
        "scope": "Namespaced",
        "names": {"plural": "foos", "kind": "Foo"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}},
        ],
    },
}


@pytest_asyncio.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer(random=Random(1)) as running:
        yield running


async def ask(server: ApiServer, method: str, target: str, body: Any = None) -> Response:
    call = Call.of(method, target, b"" if body is None else json.dumps(body).encode())
    call.headers = {"content-type": "application/json"}
    call.user = ADMIN
    return await server.handle(call)


async def events(server: ApiServer, target: str) -> list[tuple[str, Any]]:
    """Read a watch until it ends, or until a deletion or an error."""
    found = []
    stream = (await ask(server, "GET", f"{target}&watch=true&timeoutSeconds=15")).stream
    assert stream is not None
    async for chunk in stream:
        event = json.loads(chunk)
        found.append((event["type"], event["object"]))
        if event["type"] in ("DELETED", "ERROR"):
            break
    return found


async def defined(server: ApiServer) -> None:
    await ask(server, "POST", DEFINITIONS, DEFINITION)
    async with asyncio.timeout(5):
        while (await ask(server, "GET", FOOS)).status != 200:
            await asyncio.sleep(0.01)


async def test_watch_from_version_0_after_a_definition_deletion_ends(server: ApiServer) -> None:
    await defined(server)
    deleted = await ask(server, "DELETE", f"{DEFINITIONS}/foos.clux.dev")
    assert deleted.status == 200
    await asyncio.sleep(0.02)  # a client's way from one request to the next
    found = await events(server, f"{DEFINITIONS}?resourceVersion=0&fieldSelector=metadata.name=foos.clux.dev")
    assert [kind for kind, _ in found] == ["ADDED", "DELETED"]


async def test_watch_older_than_a_definition_change_gets_410(server: ApiServer) -> None:
    await defined(server)
    foo = {"apiVersion": "clux.dev/v1", "kind": "Foo", "metadata": {"name": "a"}}
    made = json.loads((await ask(server, "POST", FOOS, foo)).body)
    version = made["metadata"]["resourceVersion"]
    await ask(server, "POST", FOOS, {**foo, "metadata": {"name": "b"}})
    assert [kind for kind, _ in await events(server, f"{FOOS}?resourceVersion={version}")] == ["ADDED"]
    stored = json.loads((await ask(server, "GET", f"{DEFINITIONS}/foos.clux.dev")).body)
    stored["spec"]["names"]["shortNames"] = ["f"]
    assert (await ask(server, "PUT", f"{DEFINITIONS}/foos.clux.dev", stored)).status == 200
    await asyncio.sleep(1)
    ((kind, status),) = await events(server, f"{FOOS}?resourceVersion={version}")
    assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
    past = await ask(server, "GET", f"{FOOS}?resourceVersion={version}&resourceVersionMatch=Exact")
    assert [item["metadata"]["name"] for item in json.loads(past.body)["items"]] == ["a"]


async def test_watch_from_version_1_shows_the_initial_objects_of_the_server(server: ApiServer) -> None:
    stream = (await ask(server, "GET", "/api/v1/namespaces?resourceVersion=1&watch=true")).stream
    assert stream is not None
    first = json.loads(await anext(aiter(stream)))
    assert (first["type"], first["object"]["metadata"]["name"]) == ("ADDED", "default")
