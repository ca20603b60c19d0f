"""From the bytes of events and list items to inputs of the state machine.

Promises: an object of the wrong kind, one without a name and one whose metadata does not decode are dropped, counted and told to
`odd`; they never end the stream. managedFields are cut out of the bytes without decoding the rest; the field sets that our own
managers applied are taken out of them first. What is cached shares no memory with the page or network read that it came from.

The cut is made where the bytes allow no doubt, else by decoding the top level and the metadata; both give the same object.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from konverge.client import WatchEvent, flattened, status_error
from konverge.fields import Owner, owned_by
from konverge.informers.cached import Cached, Delta
from konverge.informers.messages import Bookmark, Failed, Input, Items
from konverge.informers.problem import cause_of
from konverge.informers.settings import Selection, Transform
from konverge.informers.sharing import Sharing
from konverge.objects import FullMetadata, Metadata
from konverge.words import Annotation

__all__ = ["Decoder", "Odd", "strip"]

_PARTIAL: Final = "PartialObjectMetadata"
_NAME: Final = b"managedFields"
_KEY: Final = b'"managedFields":'
_COMMA: Final = ord(",")


class Odd:
    """Why an object was not taken as it came."""

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
    end = start + len(_KEY) + len(managed)
    # The word occurs once, as a key, before exactly this value: then it is the one in the metadata.
    if start > 0 and raw.count(_NAME) == 1 and raw.startswith(managed, start + len(_KEY)):
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

    `managers` are the names under which this process applies. `odd` hears of everything that was not taken as it came, with a
    word of `Odd` and what it was about; it must not raise.
    """

    def __init__(self, selection: Selection, managers: frozenset[str], odd: Callable[[str, str], None]) -> None:
        kind = selection.kind
        self._kind = kind.kind
        self._api_version = kind.api_version
        self._metadata_only = selection.metadata_only
        self._transform: Transform | None = selection.transform
        self._managers = managers
        self._mentions = re.compile(b"|".join(re.escape(msgspec.json.encode(name)) for name in sorted(managers)))
        self._tell = odd
        self._sharing = Sharing()
        self.oddities: Counter[str] = Counter()

    def events(self, events: Sequence[WatchEvent]) -> list[Input]:
        """Decode the events of a stream, in order; nothing after an ERROR event counts."""
        inputs: list[Input] = []
        deltas: list[Delta] = []
        version, added = "", False
        for event in events:
            what = event.type
            if what == "ADDED" or what == "MODIFIED" or what == "DELETED":
                head = self._head(event.object)
                if head is None:
                    continue
                full = head.metadata
                version = full.resource_version
                added = added or what == "ADDED"
                cached = None if what == "DELETED" else self._cached(full, event.object)
                deltas.append(Delta(full.namespace, full.name, cached))
                continue
            if deltas:
                inputs.append(Items(deltas, version, added))
                deltas, added = [], False
            if what == "BOOKMARK":
                inputs.extend(self._bookmark(event.object))
            elif what == "ERROR":
                error = status_error(event.object, f"watch {self._kind}")
                inputs.append(Failed(error, cause_of(error)))
                return inputs
            else:
                self._odd(Odd.UNKNOWN_EVENT, what)
        if deltas:
            inputs.append(Items(deltas, version, added))
        return inputs

    def items(self, raws: Iterable[msgspec.Raw]) -> Items:
        """Decode items of a page; items of a list need not repeat their kind."""
        deltas: list[Delta] = []
        for raw in raws:
            head = self._head(raw)
            if head is not None:
                full = head.metadata
                deltas.append(Delta(full.namespace, full.name, self._cached(full, raw)))
        return Items(deltas, "")

    def _head(self, raw: msgspec.Raw) -> _Head | None:
        try:
            try:
                head = _DECODE(raw)
            except RecursionError:  # it was decoded a few frames further out, as one of many
                head = _DECODE(flattened(bytes(raw)))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            self._odd(Odd.UNREADABLE, str(error))
            return None
        if not head.metadata.name:
            self._odd(Odd.UNREADABLE, "an object without a name")
            return None
        if not head.kind or (head.kind == self._kind and head.api_version == self._api_version):
            return head
        if self._metadata_only and head.kind == _PARTIAL:
            return head
        self._odd(Odd.WRONG_KIND, f"{head.api_version} {head.kind}")
        return None

    def _cached(self, full: FullMetadata, raw: msgspec.Raw) -> Cached:
        metadata = self._sharing.metadata(full)  # the raw managedFields would keep the whole network read alive
        managed = bytes(full.managed_fields)
        owned = self._own_fields(managed) if managed and self._mentions.search(managed) else None
        if self._metadata_only:
            return Cached(metadata, b"", owned)
        body = strip(bytes(raw), managed) if managed else bytes(raw)
        if self._transform is not None:
            metadata, body = self._transformed(self._transform, metadata, body)
        return Cached(metadata, body, owned)

    def _own_fields(self, managed: bytes) -> dict[Owner, bytes] | None:
        found = owned_by(managed, self._managers)
        if not found:
            return None
        return self._sharing.fields(found)

    def _transformed(self, transform: Transform, metadata: Metadata, body: bytes) -> tuple[Metadata, bytes]:
        try:
            data = transform(msgspec.json.decode(body))
            after = msgspec.convert(data["metadata"], Metadata)
            if _identity(after) != _identity(metadata):
                raise ValueError("the transform changed name, namespace, uid or resourceVersion")
            return after, msgspec.json.encode(data)
        except Exception as error:  # noqa: BLE001  # foreign code; the object is cached as it came
            self._odd(Odd.TRANSFORM_FAILED, f"{metadata.path}: {type(error).__name__}")
            return metadata, body

    def _bookmark(self, raw: msgspec.Raw) -> list[Input]:
        try:
            full = _DECODE(raw).metadata
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            self._odd(Odd.UNREADABLE, str(error))
            return []
        if not full.resource_version:
            self._odd(Odd.UNREADABLE, "a bookmark without a version")
            return []
        return [Bookmark(full.resource_version, full_ends_initial(full))]

    def _odd(self, why: str, about: str) -> None:
        self.oddities[why] += 1
        self._tell(why, about)


def full_ends_initial(metadata: Metadata) -> bool:
    """Tell whether a bookmark says that all initial objects have come."""
    return metadata.annotation(Annotation.INITIAL_EVENTS_END) == "true"


def _identity(metadata: Metadata) -> tuple[Any, ...]:
    return metadata.name, metadata.namespace, metadata.uid, metadata.resource_version
