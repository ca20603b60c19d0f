"""Events as plain data: reference, identity, and the settings of a recorder; see `konverge.runtime.events.core`."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import Any, Final

from konverge.kinds import Kind, Resource, kind_of
from konverge.words import EventType

__all__ = ["NOTE_BYTES", "WORD_BYTES", "DropReason", "EventSettings", "Identity", "Regarding", "cut", "event_name"]

NOTE_BYTES: Final = 1024
WORD_BYTES: Final = 128
NAME_LENGTH: Final = 253

_SUBDOMAIN = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSettings:
    """The numbers of an event recorder; all but the bucket are client-go's."""

    queue: int = 1000
    """The size of the queue of writes; if it is full, new events are dropped and counted."""
    tries: int = 12
    """How often one write is tried before it is given up: two minutes of outage."""
    retry_delay: float = 10.0
    """Seconds between two tries, give or take `jitter`."""
    jitter: float = 0.25
    """Share of `retry_delay` by which it varies, so that many processes do not come back at once."""
    refresh: float = 1800.0
    """Seconds after which what was only counted is written, at the latest."""
    finish: float = 360.0
    """Seconds of silence after which a series ends; the next event of that identity is a new object."""
    burst: int = 25
    """Events about one object that may be sent at once; then the bucket is empty."""
    refill: float = 300.0
    """Seconds for one token of the bucket to come back."""
    memory: int = 4096
    """Identities, and regarded objects, that are remembered; the one not seen for longest goes first."""
    drain: float = 3.0
    """Seconds that leaving may take to write what waits: 25 s of drain and these stay below the 30 s that a pod has."""


class DropReason:
    """Why an event was dropped: the values of the label `cause`."""

    QUEUE_FULL: Final = "queue_full"
    THROTTLED: Final = "throttled"
    INVALID: Final = "invalid"
    FORBIDDEN: Final = "forbidden"
    REFUSED: Final = "refused"
    NAMESPACE_ENDING: Final = "namespace_terminating"
    GAVE_UP: Final = "gave_up"
    FAILED: Final = "failed"
    STOPPED: Final = "stopped"


@dataclass(frozen=True, slots=True)
class Regarding:
    """The object that an event is about. Its version is shown, but does not count when two references are compared.

    >>> from konverge.kinds import kind
    >>> Regarding(kind("v1", "Node"), "", "a").event_namespace
    'default'
    """

    kind: Kind[Any]
    namespace: str
    name: str
    uid: str = ""
    version: str = field(default="", compare=False)

    @classmethod
    def of(cls, obj: Resource) -> Regarding:
        """Refer to an object as it was read."""
        metadata = obj.metadata
        return cls(kind_of(obj), obj.namespace, obj.name, metadata.uid, metadata.resource_version)

    @property
    def event_namespace(self) -> str:
        """Where events about it live: its own namespace, `default` for a cluster-scoped object."""
        return self.namespace or "default"

    def wire(self) -> dict[str, str]:
        """Return the ObjectReference, without empty fields."""
        fields = {
            "apiVersion": self.kind.api_version,
            "kind": self.kind.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
            "resourceVersion": self.version,
        }
        return {key: value for key, value in fields.items() if value}


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity by which equal events are counted as one."""

    type: str
    action: str
    reason: str
    controller: str
    instance: str
    regarding: Regarding
    related: Regarding | None = None

    def problem(self) -> str:
        """Return why the API server would refuse it, "" if it would not."""
        if self.type not in (EventType.NORMAL, EventType.WARNING):
            return f"type {self.type!r} is neither Normal nor Warning"
        for word, value in (("reason", self.reason), ("action", self.action)):
            if not value or len(value.encode("utf-8", "replace")) > WORD_BYTES:
                return f"{word} must have 1 to {WORD_BYTES} bytes"
        if not self.regarding.name:
            return "the object that it regards has no name"
        return ""


def cut(text: str, limit: int) -> str:
    """Return the text in at most `limit` bytes of UTF-8; a text that is cut ends in `...` and never inside a character.

    >>> cut("ääää", 7), len(cut("ä" * 1000, 1024).encode())
    ('ää...', 1023)
    """
    # A lone surrogate cannot be encoded at all; the text is for people, so it becomes a question mark.
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return data.decode()
    return data[: limit - 3].decode("utf-8", "ignore") + "..."


def event_name(regarding: str, stamp: int) -> str:
    """Return the name of an Event: `<object>.<hexadecimal stamp>`, and a valid one also where the object's name is none.

    >>> event_name("nightly", 0x17F), event_name("system:node", 0x17F)
    ('nightly.17f', 'event-b527e740.17f')
    """
    suffix = f".{stamp:x}"
    if _SUBDOMAIN.match(regarding) and len(regarding) + len(suffix) <= NAME_LENGTH:
        return regarding + suffix
    return f"event-{hashlib.blake2b(regarding.encode('utf-8', 'replace'), digest_size=4).hexdigest()}{suffix}"
