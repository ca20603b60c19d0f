"""A stored object as it is read: in the form of the current schema, not of the schema at its write.

Guarantees: pure; the caller owns the result. A custom resource whose definition has changed since is pruned and defaulted when it
is read, by the schema of its storage version; the stored object does not change. Source: apiextensions
`pkg/apiserver/customresource_handler.go` (the decoder of what etcd holds).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from konverge_testing.apiserver import schemas
from konverge_testing.apiserver.resources import Resource, Version
from konverge_testing.apiserver.storage import Entry

__all__ = ["as_is", "in_form", "stored"]


def in_form(entry: Entry, resource: Resource) -> bool:
    """Tell whether an object was written under the current schema of its reads."""
    return not resource.custom or entry.schema is resource.storage.schema


def stored(entry: Entry, resource: Resource) -> dict[str, Any]:
    """Return an object in its stored version and kind."""
    data = entry.object()
    if resource.custom:
        version = resource.written_in(data["apiVersion"])
        if version is not None and entry.schema is not version.schema:
            schemas.prune(version.schema, data)
            schemas.default(version.schema, data)
    return data


def as_is(entry: Entry, resource: Resource, version: Version) -> bool:
    """Tell whether a custom resource can be served as its stored bytes in a version, under the current schema."""
    return entry.schema is version.schema and entry.raw.startswith(_head(resource.api_version(version.name)))


@lru_cache(maxsize=1024)
def _head(api_version: str) -> bytes:
    return b'{"apiVersion":' + msgspec.json.encode(api_version) + b","
