"""Stored entries (one object each, as JSON bytes) and the events of their writes.

Guarantees: an entry never changes; `Entry.object()` is decoded each time and the caller owns it. In `raw` the order of keys is
apiVersion, kind, metadata with resourceVersion as its first key, then the rest as given. So the version of an encoded object can
be replaced (`with_version`) and its type removed (`reading.items`) without decoding the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

__all__ = ["Encode", "Entry", "Event", "EventType", "ResourceId", "encoded", "key_of", "with_version"]

ResourceId: TypeAlias = tuple[str, str]
"""Group and plural: ("apps", "deployments"), ("", "pods")."""

EventType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED"]

_DECODE: Final = msgspec.json.Decoder().decode
_ENCODE: Final = msgspec.json.Encoder().encode


class _Head(msgspec.Struct, gc=False):
    metadata: dict[str, Any]


_HEAD: Final[Callable[[bytes], _Head]] = msgspec.json.Decoder(_Head).decode
_MARK: Final = b'"resourceVersion":"'
_NO_LABELS: Final[Mapping[str, str]] = {}


class Entry(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One object at one version. Two entries are equal only if they are the same object in memory."""

    resource: ResourceId
    namespace: str
    """"" for a cluster-scoped object."""
    name: str
    uid: str
    version: int
    raw: bytes
    """The JSON of the object in its storage version, metadata.resourceVersion included."""
    labels: Mapping[str, str]
    deleted: bool = False
    """Whether this is the last state of a deleted object; `version` is then the deletion's."""
    schema: object = None
    """The schema that normalized the object at its write, or None if unknown: under the same schema it needs no second check."""

    @property
    def key(self) -> str:
        """Its sort key among the objects of its resource."""
        return key_of(self.namespace, self.name)

    def object(self) -> dict[str, Any]:
        """Decode the object: fresh plain data."""
        found: dict[str, Any] = _DECODE(self.raw)
        return found

    def metadata(self) -> dict[str, Any]:
        """Decode only the metadata: fresh plain data, without the cost of a large object's rest."""
        return _HEAD(self.raw).metadata

    def moved(self, version: int, *, deleted: bool = False) -> Entry:
        """Return the same state with another version."""
        raw = with_version(self.raw, version)
        return Entry(
            self.resource, self.namespace, self.name, self.uid, version, raw, self.labels, deleted, self.schema
        )


Encode: TypeAlias = Callable[[Entry], bytes]
"""Encodes an entry for a client: the object in another version, only its metadata, or a table's row."""


class Event(msgspec.Struct, eq=False, gc=False):
    """One committed write."""

    type: EventType
    entry: Entry
    previous: Entry | None
    """The entry that the write replaced; None for ADDED."""
    lines: dict[Any, bytes] | None = None
    """Cache of the readers: lines that are encoded while the event is delivered. Emptied by the store afterwards."""

    @property
    def version(self) -> int:
        """The version of the write."""
        return self.entry.version

    @property
    def weight(self) -> int:
        """The size of the bytes that only history keeps alive."""
        weight = len(self.previous.raw) if self.previous is not None else 0
        return weight + len(self.entry.raw) if self.entry.deleted else weight


def key_of(namespace: str, name: str) -> str:
    """Return the sort key among objects of one resource, as below their prefix in etcd (`a-b/x` sorts before `a/x`)."""
    return f"{namespace}/{name}" if namespace else name


def encoded(resource: ResourceId, obj: dict[str, Any], version: int, schema: object = None) -> Entry:
    """Create the entry of an object; its metadata.resourceVersion is set in place."""
    metadata = obj["metadata"]
    metadata["resourceVersion"] = str(version)
    ordered: dict[str, Any] = {"apiVersion": obj["apiVersion"], "kind": obj["kind"]}
    ordered["metadata"] = {"resourceVersion": metadata["resourceVersion"]} | metadata
    labels = metadata.get("labels")
    return Entry(
        resource,
        metadata.get("namespace", ""),
        metadata["name"],
        metadata.get("uid", ""),
        version,
        _ENCODE(ordered | obj | {"metadata": ordered["metadata"]}),
        dict(labels) if labels else _NO_LABELS,
        schema=schema,
    )


def with_version(raw: bytes, version: int) -> bytes:
    """Return the bytes of an entry with another metadata.resourceVersion."""
    start = raw.index(_MARK) + len(_MARK)
    end = raw.index(b'"', start)
    return b"%b%d%b" % (raw[:start], version, raw[end:])
