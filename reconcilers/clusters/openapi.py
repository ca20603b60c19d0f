"""The OpenAPI document of the pull protocol, from the models and the table of operations. Pure."""

from __future__ import annotations

from typing import Any

from konverge.reconcilers.clusters import protocol
from konverge.reconcilers.clusters.protocol import (
    MEDIA_TYPE,
    MOST_WAIT,
    OPERATIONS,
    PlaneMessage,
    PlaneProblem,
    ProtocolOperation,
)

__all__ = ["document"]

_MEANING = {
    400: "The request does not have the form of this document.",
    401: "The credential is missing, unknown or expired. The agent reads its credential again once, then stops.",
    403: "The credential is not allowed to do this. The agent stops.",
    404: "Unknown here. The agent drops what it wanted to say.",
    409: "Said before. The agent treats it as a success; of a registration: the token is used up.",
    429: "Too many requests. The agent waits for the seconds of Retry-After.",
    500: "The control plane failed. The agent tries again, with growing pauses of at least a second.",
    503: "As 500.",
}
_MODELS: tuple[type[PlaneMessage], ...] = (
    protocol.Register,
    protocol.Rotate,
    protocol.Credential,
    protocol.Job,
    protocol.JobBatch,
    protocol.JobStatus,
    protocol.JobResult,
    protocol.EventBatch,
    PlaneProblem,
)


def _schemas() -> dict[str, Any]:
    schemas: dict[str, Any] = {}
    for model in _MODELS:
        schema = model.model_json_schema(by_alias=True, ref_template="#/components/schemas/{model}")
        schemas.update(schema.pop("$defs", {}))
        schemas[model.__name__] = schema
    schemas["JobBatch"]["properties"]["jobs"]["items"] = {"$ref": "#/components/schemas/Job"}
    return dict(sorted(schemas.items()))


def _body(model: str) -> dict[str, Any]:
    return {MEDIA_TYPE: {"schema": {"$ref": f"#/components/schemas/{model}"}}}


def _parameters(operation: ProtocolOperation) -> list[dict[str, Any]]:
    if "{id}" in operation.path:
        return [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}]
    if operation.name != "listJobs":
        return []
    return [
        {"name": "cluster", "in": "query", "required": True, "schema": {"type": "string"}},
        {
            "name": "wait",
            "in": "query",
            "description": "Seconds to wait for a job before an empty response.",
            "schema": {"type": "integer", "minimum": 0, "maximum": MOST_WAIT, "default": 30},
        },
        {
            "name": "limit",
            "in": "query",
            "description": "Jobs in the response at most.",
            "schema": {"type": "integer", "minimum": 1},
        },
        {
            "name": "after",
            "in": "query",
            "description": "The id of a job that was delivered: only jobs behind it, in the same order; all jobs if it is not known.",
            "schema": {"type": "string"},
        },
    ]


def _operation(operation: ProtocolOperation) -> dict[str, Any]:
    responses: dict[str, Any] = {str(operation.success): {"description": "Done."}}
    if operation.response:
        responses[str(operation.success)]["content"] = _body(operation.response)
    for status in sorted(operation.failures):
        responses[str(status)] = {"description": _MEANING[status], "content": _body("PlaneProblem")}
    document: dict[str, Any] = {"operationId": operation.name, "responses": responses}
    if parameters := _parameters(operation):
        document["parameters"] = parameters
    if operation.request:
        document["requestBody"] = {"required": True, "content": _body(operation.request)}
    if not operation.authenticated:
        document["security"] = []
    return document


def document() -> dict[str, Any]:
    """Return the document, which `make generate` writes to docs/reference/pull-protocol.json.

    >>> document()["openapi"]
    '3.1.0'
    """
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Pull protocol of the konverge agent",
            "version": "1",
            "description": "An agent in a cluster fetches jobs from a control plane by long poll, and reports results and status. "
            "All requests are made by the agent. docs/guide/pull-mode.md explains it.",
        },
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "schemas": _schemas(),
        },
    }
