"""Responses that the API server would send for a planned state. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from konverge.client.requests import JSON
from konverge.client.targets import ObjectId
from konverge.client.transport import Response
from konverge.planning.documents import Document

__all__ = ["answer", "deleted", "not_found", "refusal"]

_JSON_OF = msgspec.json.Encoder().encode


def answer(document: Any, status: int = 200) -> Response:
    """Return a successful response with this body."""
    return Response(status, _JSON_OF(document), JSON)


def refusal(status: int, reason: str, message: str, object_id: ObjectId) -> Response:
    """Return an unsuccessful response about an object."""
    details = {"name": object_id.name, "group": object_id.group, "kind": object_id.plural}
    return answer(
        {
            "apiVersion": "v1",
            "kind": "Status",
            "status": "Failure",
            "message": message,
            "reason": reason,
            "details": {name: value for name, value in details.items() if value},
            "code": status,
        },
        status,
    )


def not_found(object_id: ObjectId) -> Response:
    """Return the response about an object that does not exist in the plan."""
    resource = ".".join(filter(None, (object_id.plural, object_id.group)))
    return refusal(404, "NotFound", f'{resource} "{object_id.name}" not found', object_id)


def deleted(object_id: ObjectId, last: Document) -> Response:
    """Return the response to the deletion of an object."""
    details = {"name": object_id.name, "kind": object_id.plural, "uid": last["metadata"].get("uid", "")}
    return answer({"apiVersion": "v1", "kind": "Status", "status": "Success", "details": details})
