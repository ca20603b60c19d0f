"""A stored object as it is read: in the form that today's schema gives it, whatever it was when it was written.

Guarantees: pure; what is returned is the caller's own. A custom resource whose definition has changed since is pruned and defaulted when it
is read, by the schema of the version that it is stored in, and nothing is written by that. Source: apiextensions
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
    """Tell whether an object was written under the very schema that it would be read by."""
    return not resource.custom or entry.schema is resource.storage.schema


def stored(entry: Entry, resource: Resource) -> dict[str, Any]:
    """Return an object in the version and kind that it is stored in."""
    data = entry.object()
    if resource.custom:
        version = resource.written_in(data["apiVersion"])
        if version is not None and entry.schema is not version.schema:
            schemas.prune(version.schema, data)
            schemas.default(version.schema, data)
    return data


def as_is(entry: Entry, resource: Resource, version: Version) -> bool:
    """Tell whether the bytes of a custom resource are the object in a version, under the present schema."""
    return entry.schema is version.schema and entry.raw.startswith(_head(resource.api_version(version.name)))


@lru_cache(maxsize=1024)
def _head(api_version: str) -> bytes:
    return b'{"apiVersion":' + msgspec.json.encode(api_version) + b","
