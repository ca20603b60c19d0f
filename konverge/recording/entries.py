"""The lines of a recording: JSON, one entry a line, each with its kind in `line`.

    header      the first line of each file: versions, operator, process
    served      the discovery or schema document of a path of the API
    document    one JSON document: an object, a request's body or a response's body; stored once in each file, before its first use
    reconcile   one reconcile: why it ran, what it read and wrote, how it ended
    event       one Kubernetes Event that the operator sent

Guarantees: a file is complete by itself, and a torn last line is the only malformed line that a killed process leaves. A reader ignores
fields that it does not know; a change that older readers would misread increments `VERSION`.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec

__all__ = [
    "VERSION",
    "CacheRead",
    "Document",
    "Exchange",
    "Header",
    "KeyName",
    "Line",
    "OwnedFields",
    "EventLine",
    "RecordedReconcile",
    "Served",
]

VERSION: Final = 1


class Header(msgspec.Struct, frozen=True, kw_only=True, tag="header", tag_field="line"):
    """The process that records. `namespace` is the only namespace that it watches, None for the whole cluster."""

    version: int
    operator: str
    namespace: str | None
    konverge: str
    python: str
    host: str
    pid: int
    started: str


class Served(msgspec.Struct, frozen=True, kw_only=True, tag="served", tag_field="line"):
    """What the API server serves at a path outside of its resources."""

    path: str
    body: msgspec.Raw


class OwnedFields(msgspec.Struct, frozen=True):
    """The fields that a field manager of the operator owns in a cached object, as FieldsV1."""

    manager: str
    operation: str
    subresource: str
    fields: msgspec.Raw


class Document(msgspec.Struct, frozen=True, kw_only=True, tag="document", tag_field="line"):
    """One document; `id` is a digest under a random key of the process."""

    id: str
    body: msgspec.Raw
    owned: tuple[OwnedFields, ...] = ()

    def data(self) -> Any:
        """Return the document as new data."""
        return msgspec.json.decode(self.body)


class KeyName(msgspec.Struct, frozen=True):
    """The reconciled object."""

    api_version: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        path = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {path}"


class CacheRead(msgspec.Struct, frozen=True):
    """One read of a cache; `documents` are the objects that it returned, none for an absent object.

    Many objects are a document of their own, `many`, which holds the ids: a list rarely changes between two reconciles.
    """

    api_version: str
    kind: str
    operation: str
    argument: str
    documents: tuple[str, ...]
    many: str = ""


class Exchange(msgspec.Struct, kw_only=True):
    """One request with its response; `status` 0 and `error` if no response came. Bodies are documents, "" for an empty body."""

    method: str
    path: str
    params: tuple[tuple[str, str], ...]
    content_type: str = ""
    body: str = ""
    at: float = 0.0
    """Seconds after the beginning of the reconcile."""
    seconds: float = 0.0
    """Seconds until the response or the error came."""
    status: int = 0
    response: str = ""
    response_type: str = ""
    retry_after: float | None = None
    error: str = ""

    @property
    def writes(self) -> bool:
        """Whether the request could change something."""
        return self.method not in {"GET", "HEAD"} and "dryRun" not in dict(self.params)


class RecordedReconcile(msgspec.Struct, kw_only=True, tag="reconcile", tag_field="line"):
    """One reconcile. `number` counts the reconciles of the process; `object` is the cached object that was reconciled.

    `outcome` is the name of the outcome's or the error's class, `Cancelled` for a cancelled reconcile. `dropped` is the size in bytes
    of what was left out, since it did not fit in the file.
    """

    number: int
    controller: str
    key: KeyName
    reasons: tuple[str, ...]
    began: str
    duration: float
    object: str
    reads: tuple[CacheRead, ...] = ()
    exchanges: tuple[Exchange, ...] = ()
    outcome: str = ""
    delay: float | None = None
    error: str = ""
    traceback: str = ""
    writes: tuple[str, ...] = ()
    skipped: int = 0
    epoch: int = 0
    dropped: int = 0

    @property
    def failed(self) -> bool:
        """Whether the reconcile ended in an error."""
        return bool(self.traceback)


class EventLine(msgspec.Struct, kw_only=True, tag="event", tag_field="line"):
    """One Kubernetes Event, sent after the reconcile that recorded it."""

    at: str
    about: str
    type: str
    reason: str
    note: str


Line: TypeAlias = Header | Served | Document | RecordedReconcile | EventLine
