"""docs/reference/pull-protocol.json matches the models, and every exchange between agent and server matches the document."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import openapi
import pytest
from pull_kit import BACKUP, World, ensure, manifest

from konverge.reconcilers.clusters.protocol import MEDIA_TYPE, Job, Malformed, Outcome, read
from konverge.reconcilers.clusters.words import Intent, JobReason
from konverge_testing.agent_server import Exchange

ROOT = Path(__file__).parents[3]
DOCUMENT: dict[str, Any] = json.loads((ROOT / "docs/reference/pull-protocol.json").read_text())
PAGE = (ROOT / "docs/reference/pull-protocol.md").read_text()
TYPES: dict[str, Any] = {"object": dict, "array": list, "string": str, "integer": int, "null": type(None)}


def problems(value: Any, schema: dict[str, Any], at: str = "$") -> Iterator[str]:
    """Yield the places where a value breaks a schema, for the document's part of JSON Schema."""
    if "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        if all(list(problems(value, one, at)) for one in schema["anyOf"]):
            yield f"{at}: none of {schema['anyOf']}"
        return
    if "type" in schema and not isinstance(value, TYPES[schema["type"]]):
        yield f"{at}: no {schema['type']}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at}: {value!r} is none of {schema['enum']}"
    if isinstance(value, str):
        if not re.search(schema.get("pattern", ""), value) or len(value) > schema.get("maxLength", len(value)):
            yield f"{at}: {value!r}"
    elif isinstance(value, list):
        if len(value) > schema.get("maxItems", len(value)):
            yield f"{at}: too many"
        for number, one in enumerate(value):
            yield from problems(one, schema.get("items", {}), f"{at}[{number}]")
    elif isinstance(value, dict):
        yield from (f"{at}.{name} is missing" for name in schema.get("required", ()) if name not in value)
        known = schema.get("properties")
        for name, one in value.items():
            if known is not None and name not in known:
                yield f"{at}.{name} is unknown"
            elif known is not None:
                yield from problems(one, known[name], f"{at}.{name}")


def body_problems(content: dict[str, Any] | None, body: bytes | None, at: str) -> Iterator[str]:
    if content is None:
        if body:
            yield f"{at}: a body that the document does not have"
        return
    yield from problems(msgspec.json.decode(body or b"null"), content[MEDIA_TYPE]["schema"], at)


def breaks(exchange: Exchange) -> Iterator[str]:
    """Yield the differences of an exchange from the document."""
    request, response = exchange.request, exchange.response
    template = re.sub(r"/jobs/[^/]+/", "/jobs/{id}/", request.path)
    at = f"{request.method} {template} {response.status}"
    operation = DOCUMENT["paths"].get(template, {}).get(request.method.lower())
    if operation is None:
        yield f"{at}: not in the document"
        return
    yield from body_problems(operation.get("requestBody", {}).get("content"), request.body, f"{at}: request")
    allowed = {one["name"] for one in operation.get("parameters", ()) if one["in"] == "query"}
    yield from (f"{at}: parameter {name}" for name in request.query if name not in allowed)
    told = operation["responses"].get(str(response.status))
    if told is None:
        yield f"{at}: a status that the document does not have"
    else:
        yield from body_problems(told.get("content"), response.body, f"{at}: response")
    if operation.get("security") != [] and not request.credential:
        yield f"{at}: without a credential"


def test_the_document_is_generated_from_the_models() -> None:
    assert openapi.TARGET.read_text() == openapi.text(), "run: make generate"


async def test_every_exchange_with_faults_matches_the_protocol_document() -> None:
    async with World() as world:
        submit, plane = world.plane.submit, world.plane
        plane.faults.add(path="/register", status=503)
        jobs = [
            submit("intent", ensure()),
            submit("apply", manifest()),
            submit("intent", {"intent": "request-operation", "namespace": "web", "spec": BACKUP}),
            submit("intent", {"intent": "rotate-operator-credentials"}),
            submit("apply", {"kind": "Secret"}),
            submit("delete", manifest()),
        ]
        for status in (429, 500, 404):
            plane.faults.add(path="/events", status=status, retry_after=1.0)
        plane.faults.add(path="/ack", cut="after")
        agent = await world.start()
        for job in jobs:
            await plane.result(job)
        plane.state.revoke()
        submit("delete", manifest())
        await plane.until(lambda: plane.exchanges[-1].response.status == 401)
    assert agent.state.credentials is not None
    assert [problem for exchange in plane.exchanges for problem in breaks(exchange)] == []
    seen = {re.sub(r"/jobs/[^/]+/", "/jobs/{id}/", one.request.path) for one in plane.exchanges}
    assert seen >= set(DOCUMENT["paths"]) - {"/api/agent/jobs/{id}/status"}


def test_a_request_that_breaks_the_document_is_found() -> None:
    job = {"id": "a b", "kind": "other", "payload": 1}
    found = list(problems(job, {"$ref": "#/components/schemas/Job"}))
    assert len(found) == 6
    with pytest.raises(Malformed, match=r"^Job: id: "):
        read(Job, job)


def test_the_page_names_every_path_outcome_reason_and_intent() -> None:
    paths = [path.removeprefix("/api/agent/") for path in DOCUMENT["paths"]]
    assert [path for path in paths if path not in PAGE] == []
    words = [*Outcome, *(value for name, value in vars(JobReason).items() if name.isupper())]
    words += [value for name, value in vars(Intent).items() if name.isupper()]
    assert [word for word in words if str(word) not in PAGE] == []
