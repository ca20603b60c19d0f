"""Storage, in the role of a real server's etcd. Pure and synchronous. See `Store`."""

from konverge_testing.apiserver.storage.entries import (
    Encode,
    Entry,
    Event,
    EventType,
    ResourceId,
    encoded,
    with_version,
)
from konverge_testing.apiserver.storage.store import Callback, Changed, Compacted, Exists, Store
from konverge_testing.apiserver.storage.views import StoredObjects

__all__ = [
    "Callback",
    "Changed",
    "Compacted",
    "Encode",
    "Entry",
    "Event",
    "EventType",
    "Exists",
    "ResourceId",
    "Store",
    "StoredObjects",
    "encoded",
    "with_version",
]
