"""Decoding of events and list items into inputs of the state machine, and the interning of their metadata.

Guarantees: an object of another kind, without a name, or with unreadable metadata is dropped, counted and reported to `on_anomaly`; it does
not end the stream. managedFields are cut out of the bytes without decoding the rest, after the field sets of our own managers
have been read. A cached object shares no memory with its page or network read.

managedFields are cut out by position if the bytes are unambiguous, else by decoding the top level and the metadata; the results are equal.

Objects of one template arrive together (a list is sorted by namespace and name) and have equal labels, owners and field sets. Interned
values are immutable or read-only by the contract of `Cached`. The table is bounded: it is cleared when it is full, and objects that
share a value continue to share it. Large values are not interned, so that the table does not keep a megabyte of each deleted object.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Final

import msgspec

from konverge.client import WatchEvent, flattened, status_error
from konverge.fields import Owner, owned_by
from konverge.informers.messages import Bookmark, Change, Failed, Input, Items
from konverge.informers.outline import MOST_VALUES, has_too_many_values, outline
from konverge.informers.problem import cause_of
from konverge.informers.settings import Selection, Transform, Whole
from konverge.informers.store import Cached
from konverge.objects import FullMetadata, Metadata
from konverge.words import Annotation

__all__ = ["Anomaly", "Decoder", "Interner", "strip"]


_LIMIT: Final = 4096
_MANY: Final = 64
"""Labels or owner references of an object that are interned."""
_LONG: Final = 64
"""Characters of an interned uid: the API server limits the uid of an object, and not the uid in an owner reference."""
_LARGE: Final = 1 << 16
"""Bytes of interned field sets."""


class Interner:
    """Returns one instance for equal values; each informer has one interner.

    >>> interner = Interner()
    >>> first, second = (interner.metadata(Metadata(labels={"app": "shop"})) for _ in range(2))
    >>> first.labels is second.labels
    True
    """

    def __init__(self, limit: int = _LIMIT) -> None:
        self._limit = limit
        # From a value in hashable form to its first instance; at most `_limit` and the values of one object.
        self._known: dict[Hashable, Any] = {}

    def metadata(self, full: Metadata) -> Metadata:
        """Return a plain `Metadata` (the argument may be a subclass) with interned parts."""
        known = self._table()
        labels, owners = full.labels, full.owner_references
        if labels is not None and len(labels) <= _MANY:
            labels = known.setdefault(tuple(labels.items()), labels)
        if owners and len(owners) <= _MANY and all(len(owner.uid) <= _LONG for owner in owners):
            owners = known.setdefault(owners, owners)
        return Metadata(
            full.name,
            known.setdefault(full.namespace, full.namespace),
            full.generate_name,
            full.uid,
            full.resource_version,
            full.generation,
            full.creation_timestamp,
            full.deletion_timestamp,
            labels,
            full.annotations,
            full.finalizers,
            owners,
        )

    def fields(self, owned: dict[Owner, bytes]) -> dict[Owner, bytes]:
        """Return the interned instance of these applied field sets."""
        if sum(map(len, owned.values())) > _LARGE:
            return owned
        shared: dict[Owner, bytes] = self._table().setdefault(frozenset(owned.items()), owned)
        return shared

    def _table(self) -> dict[Hashable, Any]:
        if len(self._known) >= self._limit:
            self._known.clear()
        return self._known


_PARTIAL: Final = "PartialObjectMetadata"
_NAME: Final = b"managedFields"
_KEY: Final = b'"managedFields":'
_KEY_LENGTH: Final = len(_KEY)
_COMMA: Final = ord(",")


class Anomaly:
    """Reasons why an object was dropped, or cached without its transform."""

    WRONG_KIND: Final = "WrongKind"
    UNREADABLE: Final = "Unreadable"
    UNKNOWN_EVENT: Final = "UnknownEvent"
    TRANSFORM_FAILED: Final = "TransformFailed"


class _Head(msgspec.Struct, rename="camel", gc=False):
    metadata: FullMetadata
    api_version: str = ""
    kind: str = ""


_DECODE: Final[Callable[[bytes | msgspec.Raw], _Head]] = msgspec.json.Decoder(_Head).decode
_TOP: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def strip(raw: bytes, managed: bytes) -> bytes:
    """Return the object without `metadata.managedFields`, whose raw value is `managed`.

    >>> strip(b'{"metadata":{"name":"a","managedFields":[{}]},"spec":{}}', b"[{}]")
    b'{"metadata":{"name":"a"},"spec":{}}'
    """
    start = raw.find(_KEY)
    value = start + _KEY_LENGTH
    end = value + len(managed)
    # If the word occurs once, as a key, before exactly this value, it is the key in the metadata.
    if start > 0 and raw.count(_NAME) == 1 and raw.startswith(managed, value):
        if raw[end] == _COMMA:
            return raw[:start] + raw[end + 1 :]
        if raw[start - 1] == _COMMA:
            return raw[: start - 1] + raw[end:]
    try:
        top = _TOP.decode(raw)
    except RecursionError:
        top = _TOP.decode(flattened(raw))
    metadata = _TOP.decode(top["metadata"])
    del metadata["managedFields"]
    top["metadata"] = msgspec.Raw(msgspec.json.encode(metadata))
    return msgspec.json.encode(top)


class Decoder:
    """Decodes for one selection.

    `managers` are the field managers of this process. `on_anomaly` is called with a value of `Anomaly` and a description for each
    object that was dropped or not transformed; it must not raise.
    """

    def __init__(self, selection: Selection, managers: frozenset[str], on_anomaly: Callable[[str, str], None]) -> None:
        kind = selection.kind
        self._kind = kind.kind
        self._api_version = kind.api_version
        self._metadata_only = selection.metadata_only
        self._transform: Transform | None = selection.transform
        self._whole: Whole | None = selection.whole
        self._dropped = selection.dropped
        self._managers = managers
        self._mentions = _mentions(managers)
        self._on_anomaly = on_anomaly
        self._interner = Interner()
        self.anomalies: Counter[str] = Counter()

    def events(self, events: Sequence[WatchEvent]) -> list[Input]:
        """Decode the events of a stream in order; those after an ERROR event are ignored."""
        inputs: list[Input] = []
        changes: list[Change] = []
        version, added = "", False
        for event in events:
            type_ = event.type
            if type_ == "ADDED" or type_ == "MODIFIED" or type_ == "DELETED":
                head = self._head(event.object)
                if head is None:
                    continue
                full = head.metadata
                version = full.resource_version
                added = added or type_ == "ADDED"
                cached = None if type_ == "DELETED" else self._cached(full, event.object)
                changes.append(Change(full.namespace, full.name, None, cached))
                continue
            if changes or version:
                inputs.append(Items(changes, version, added))
                changes, version, added = [], "", False
            if type_ == "BOOKMARK":
                inputs.extend(self._bookmark(event.object))
            elif type_ == "ERROR":
                error = status_error(event.object, f"watch {self._kind}")
                inputs.append(Failed(error, cause_of(error)))
                return inputs
            else:
                self._record_anomaly(Anomaly.UNKNOWN_EVENT, type_)
        if changes or version:
            inputs.append(Items(changes, version, added))
        return inputs

    def items(self, raws: Iterable[msgspec.Raw]) -> Items:
        """Decode the items of a page; the items of a list may omit their kind."""
        changes: list[Change] = []
        for raw in raws:
            head = self._head(raw)
            if head is not None:
                full = head.metadata
                changes.append(Change(full.namespace, full.name, None, self._cached(full, raw)))
        return Items(changes, "")

    def _head(self, raw: msgspec.Raw) -> _Head | None:
        try:
            try:
                head = _DECODE(raw)
            except RecursionError:  # the client decoded it a few frames further out, as one of many
                head = _DECODE(flattened(bytes(raw)))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            self._record_anomaly(Anomaly.UNREADABLE, str(error))
            return None
        if not head.metadata.name:
            self._record_anomaly(Anomaly.UNREADABLE, "an object without a name")
            return None
        if not head.kind or (head.kind == self._kind and head.api_version == self._api_version):
            return head
        if self._metadata_only and head.kind == _PARTIAL:
            return head
        self._record_anomaly(Anomaly.WRONG_KIND, f"{head.api_version} {head.kind}")
        return None

    def _cached(self, full: FullMetadata, raw: msgspec.Raw) -> Cached:
        metadata = self._interner.metadata(full)  # the raw managedFields would keep the whole network read alive
        managed = bytes(full.managed_fields)
        owned = self._own_fields(managed) if managed and self._mentions(managed) else None
        if self._metadata_only or (self._whole is not None and not self._whole(metadata)):
            return Cached(metadata, b"", owned)
        body = strip(bytes(raw), managed) if managed else bytes(raw)
        if self._dropped is not None:
            metadata = self._dropped.strip_metadata(metadata)
            try:
                body = self._dropped.strip(body)
            except RecursionError:  # nested deeper than the decoder follows
                body = self._dropped.strip(flattened(body))
        if len(body) > MOST_VALUES and has_too_many_values(body):
            body = outline(body, metadata)
        if self._transform is not None:
            metadata, body = self._transformed(self._transform, metadata, body)
        return Cached(metadata, body, owned)

    def _own_fields(self, managed: bytes) -> dict[Owner, bytes] | None:
        owned = owned_by(managed, self._managers)
        if not owned:
            return None
        return self._interner.fields(owned)

    def _transformed(self, transform: Transform, metadata: Metadata, body: bytes) -> tuple[Metadata, bytes]:
        try:
            data = transform(msgspec.json.decode(body))
            after = msgspec.convert(data["metadata"], Metadata)
            if _identity(after) != _identity(metadata):
                raise ValueError("the transform changed name, namespace, uid or resourceVersion")
            return after, msgspec.json.encode(data)
        except Exception as error:  # noqa: BLE001  # the user's code; the object is cached untransformed
            self._record_anomaly(Anomaly.TRANSFORM_FAILED, f"{metadata.path}: {type(error).__name__}")
            return metadata, body

    def _bookmark(self, raw: msgspec.Raw) -> list[Input]:
        try:
            full = _DECODE(raw).metadata
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            self._record_anomaly(Anomaly.UNREADABLE, str(error))
            return []
        if not full.resource_version:
            self._record_anomaly(Anomaly.UNREADABLE, "a bookmark without a version")
            return []
        return [Bookmark(full.resource_version, ends_initial_events(full))]

    def _record_anomaly(self, why: str, about: str) -> None:
        self.anomalies[why] += 1
        self._on_anomaly(why, about)


def _mentions(managers: frozenset[str]) -> Callable[[bytes], object]:
    """Return the test whether bytes hold one of these names as a JSON string; an object without one has no field set of ours."""
    names = [msgspec.json.encode(name) for name in sorted(managers)]
    if len(names) == 1:  # nearly always, and several times as fast as a regular expression
        (name,) = names
        return lambda managed: name in managed
    return re.compile(b"|".join(map(re.escape, names))).search


def ends_initial_events(metadata: Metadata) -> bool:
    """Report whether a bookmark ends the initial objects of a streaming list."""
    return metadata.annotation(Annotation.INITIAL_EVENTS_END) == "true"


def _identity(metadata: Metadata) -> tuple[Any, ...]:
    return metadata.name, metadata.namespace, metadata.uid, metadata.resource_version
