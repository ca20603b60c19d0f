"""A stored object as it is read: in the form that today's schema gives it, whatever it was when it was written.

Guarantees: pure; what is returned is the caller's own. A custom resource whose definition has changed since is pruned and defaulted when it
is read, and nothing is written by that. Source: apiextensions `pkg/apiserver/customresource_handler.go` (the decoder of what etcd holds).
"""

from __future__ import annotations

from typing import Any

from konverge.testing.apiserver import schemas
from konverge.testing.apiserver.resources import Resource
from konverge.testing.apiserver.storage import Entry

__all__ = ["in_form", "stored"]


def in_form(entry: Entry, resource: Resource) -> bool:
    """Tell whether an object was written under the very schema that it would be read by."""
    return not resource.custom or entry.schema is resource.storage.schema


def stored(entry: Entry, resource: Resource) -> dict[str, Any]:
    """Return an object in the version and kind that it is stored in."""
    data = entry.object()
    if not in_form(entry, resource):
        schemas.prune(resource.storage.schema, data)
        schemas.default(resource.storage.schema, data)
    return data
