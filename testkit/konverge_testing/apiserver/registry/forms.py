"""The form of objects in a response, by the client's Accept header: whole, metadata only, or a table.

Source: apiserver `pkg/endpoints/handlers/{response,negotiation}`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final, Literal, TypeAlias

import msgspec

from konverge_testing.apiserver.discovery.accept_header import clauses
from konverge_testing.apiserver.registry.core import Data
from konverge_testing.apiserver.registry.request import ResourceRequest
from konverge_testing.apiserver.requests import Response
from konverge_testing.apiserver.resources import Resource, Version
from konverge_testing.apiserver.statuses import StatusError, not_acceptable
from konverge_testing.apiserver.tables import metadata_only, table

__all__ = ["Form", "form_of", "shown", "table_version"]

Form: TypeAlias = Literal["object", "metadata", "table"]

_ENCODE: Final = msgspec.json.Encoder().encode
_OFFERS: Final = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
"""As in the real server's message; only the first type is served here."""
_KNOWN: Final = frozenset({*_OFFERS, "application/*", "*/*"})
_KINDS: Final[dict[str, Form]] = {
    "PartialObjectMetadata": "metadata",
    "PartialObjectMetadataList": "metadata",
    "Table": "table",
}


def form_of(accept: str, *, custom: bool = True) -> Form:
    """Return the first form of the Accept header that this server supports. Raises 406 if there is none."""
    if not accept or accept == "application/json":
        return "object"
    if not custom and not any(clause.type in _KNOWN for clause in clauses(accept)):
        text = f"406: Not Acceptable\n\nAvailable representations: {', '.join(_OFFERS)}"
        raise StatusError(406, "NotAcceptable", text, details={})
    for clause in clauses(accept):
        if clause.type not in ("application/json", "application/*", "*/*"):
            continue
        wanted = clause.parameters.get("as", "")
        if not wanted:
            return "object"
        if wanted in _KINDS and clause.parameters.get("g") == "meta.k8s.io" and clause.parameters.get("v") == "v1":
            return _KINDS[wanted]
    raise not_acceptable(_OFFERS)


def table_version(resource: Resource, version: Version) -> Version:
    """Return the version that defines the columns of a table."""
    return version if resource.custom else resource.storage


def _in_table_version(request: ResourceRequest, data: Data) -> Data:
    resource = request.resource
    if resource.custom or resource.alias is not None:
        return data
    return resource.strategy.convert(data, resource.api_version(resource.storage.name))


def shown(request: ResourceRequest, data: Data, now: datetime, status: int = 200) -> Response:
    """Return an object in the requested form; a Status stays a Status."""
    form = form_of(request.call.headers.get("accept", ""))
    if form != "object" and data.get("kind") != "Status":
        if form == "metadata":
            data = metadata_only(data)
        else:
            data = table(
                request.resource,
                request.version,
                [_in_table_version(request, data)],
                include=request.call.query.get("includeObject") or "Metadata",
                list_version=data["metadata"].get("resourceVersion", ""),
                now=now,
            )
    return Response(status, _ENCODE(data), warnings=request.warnings)
