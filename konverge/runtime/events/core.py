"""Kubernetes Events: which events are sent, only counted, or dropped. Pure: every method takes the time as an argument.

Guarantees (docs/reference/runtime.md#events): events of one identity (type, action, reason, controller, instance,
regarding, related; never the note) are one Event object. The first is created; the second starts a series and is sent as a patch;
later events are counted here and written after 30 minutes at the latest. After 6 minutes without another the series is written a last
time and forgotten. Memory is bounded: so many identities, so many waiting writes, so many source objects.

Ours beyond: a token bucket for each regarded object. An event that is sent at once costs a token, and a counted event costs none. With
an empty bucket a repeated event is counted, and a new event is dropped. The identity leaves out the version of the regarded object.
client-go includes it, so events about a changing object never aggregate.

Caveats: delivery is not guaranteed. Events are for people to read; nothing may depend on them.

Invariants: an entry waits at most once. A write is rendered when it is sent, so it holds the latest count.

client-go: https://github.com/kubernetes/client-go/blob/master/tools/events/event_broadcaster.go
"""

from __future__ import annotations

import enum
import hashlib
import re
from collections import OrderedDict, deque
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias

import msgspec

from konverge.clock import rfc3339_micro
from konverge.kinds import Kind, Resource, kind_of
from konverge.words import EventType

__all__ = [
    "DropReason",
    "EventCore",
    "EventEntry",
    "EventSettings",
    "EventVerb",
    "EventWrite",
    "Identity",
    "NOTE_BYTES",
    "NextStep",
    "Regarding",
    "WORD_BYTES",
    "WriteResult",
    "cut",
    "event_name",
]


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
    """The share of `retry_delay` that is random, so that many processes do not retry at once."""
    refresh: float = 1800.0
    """Seconds until a count is written, at the latest."""
    finish: float = 360.0
    """Seconds of silence after which a series ends; the next event of that identity is a new object."""
    burst: int = 25
    """Events about one object that may be sent at once; then the bucket is empty."""
    refill: float = 300.0
    """Seconds until a bucket gets one more token."""
    memory: int = 4096
    """The number of remembered identities, and of regarded objects; the least recently seen is dropped first."""
    drain: float = 3.0
    """Seconds that leaving may take to write the queue: 25 s of drain and these stay below the 30 s that a pod has."""


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


ReferenceKey: TypeAlias = tuple[str, str, str, str, str]
"""API version, kind, namespace, name and uid of an object."""
IdentityKey: TypeAlias = tuple[str, str, str, str, str, ReferenceKey, ReferenceKey | None]
_REGARDING: Final = 5
"""The place of the regarded object in the key of an identity."""


class Regarding(msgspec.Struct, frozen=True):
    """The object that an event is about. Its version is shown, but does not count when two references are compared.

    >>> from konverge.kinds import kind
    >>> Regarding(kind("v1", "Node"), "", "a").event_namespace
    'default'
    """

    kind: Kind[Any]
    namespace: str
    name: str
    uid: str = ""
    version: str = ""

    def __eq__(self, other: object) -> bool:
        return self.key == other.key if isinstance(other, Regarding) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.key)

    @classmethod
    def of(cls, obj: Resource) -> Regarding:
        """Return a reference to an object as it was read."""
        metadata = obj.metadata
        return cls(kind_of(obj), obj.namespace, obj.name, metadata.uid, metadata.resource_version)

    @property
    def key(self) -> ReferenceKey:
        """The fields that count in a comparison, as a key of a dict: a tuple of strings is hashed without a call of Python code."""
        return (self.kind.api_version, self.kind.kind, self.namespace, self.name, self.uid)

    @property
    def event_namespace(self) -> str:
        """The namespace of the object's events: its own, `default` for a cluster-scoped object."""
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


class Identity(msgspec.Struct, frozen=True):
    """The identity of an event; events with the same identity are one Event object."""

    type: str
    action: str
    reason: str
    controller: str
    instance: str
    regarding: Regarding
    related: Regarding | None = None

    @property
    def key(self) -> IdentityKey:
        """The identity as a key of a dict."""
        related = None if self.related is None else self.related.key
        return (
            *(self.type, self.action, self.reason, self.controller, self.instance),
            self.regarding.key,
            related,
        )

    def problem(self) -> str:
        """Return why the API server would refuse the event, "" if it would accept it."""
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
    if text.isascii() and len(text) <= limit:
        return text
    # A lone surrogate cannot be encoded at all; the text is for people, so it becomes a question mark.
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return data.decode()
    return data[: limit - 3].decode("utf-8", "ignore") + "..."


def event_name(regarding: str, stamp: int) -> str:
    """Return the name of an Event: `<object>.<hexadecimal stamp>`, valid also for an object whose name is not valid for an Event.

    >>> event_name("nightly", 0x17F), event_name("system:node", 0x17F)
    ('nightly.17f', 'event-b527e740.17f')
    """
    suffix = f".{stamp:x}"
    if _SUBDOMAIN.match(regarding) and len(regarding) + len(suffix) <= NAME_LENGTH:
        return regarding + suffix
    return f"event-{hashlib.blake2b(regarding.encode('utf-8', 'replace'), digest_size=4).hexdigest()}{suffix}"


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class EventVerb(enum.Enum):
    """How a write is sent."""

    CREATE = "create"
    PATCH = "patch"


class WriteResult(enum.Enum):
    """The API server's response to a write."""

    STORED = "stored"
    MISSING = "missing"
    EXISTS = "exists"
    FAILED = "failed"
    REFUSED = "refused"


class NextStep(enum.Enum):
    """The next step for an entry that was sent."""

    DONE = "done"
    AGAIN = "again, at once"
    LATER = "again, later"


class EventWrite(msgspec.Struct, frozen=True):
    """One request: create an Event, or patch it."""

    verb: EventVerb
    namespace: str
    name: str
    body: dict[str, Any]
    count: int


class EventEntry:
    """A remembered identity: how often it was seen, and the stored count."""

    __slots__ = ("born", "count", "identity", "key", "last", "lost", "name", "note", "seen", "stored", "waiting")

    def __init__(self, identity: Identity, key: IdentityKey, note: str, name: str, now: float, wall: datetime) -> None:
        self.identity = identity
        self.key = key
        self.note = note
        self.name = name
        self.born = wall
        self.count = 1
        self.seen = now
        self.last = wall
        self.stored = 0
        """The count that the API server is known to hold; 0 if it holds no such object."""
        self.lost = False
        """A patch found no object, so an object of that name is another writer's."""
        self.waiting = False

    @property
    def unsent(self) -> bool:
        """Whether the count is greater than the stored count."""
        return self.count > self.stored

    def observe(self, now: float, wall: datetime) -> None:
        """Count one more."""
        self.count += 1
        self.seen = now
        self.last = wall

    def write(self) -> EventWrite:
        """Render the request that stores the present count."""
        namespace = self.identity.regarding.event_namespace
        if self.stored:
            return EventWrite(EventVerb.PATCH, namespace, self.name, {"series": self._series()}, self.count)
        return EventWrite(EventVerb.CREATE, namespace, self.name, self._body(namespace), self.count)

    def _series(self) -> dict[str, Any]:
        return {"count": self.count, "lastObservedTime": rfc3339_micro(self.last)}

    def _body(self, namespace: str) -> dict[str, Any]:
        identity = self.identity
        body: dict[str, Any] = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": self.name, "namespace": namespace},
            "eventTime": rfc3339_micro(self.born),
            "type": identity.type,
            "action": identity.action,
            "reason": identity.reason,
            "reportingController": identity.controller,
            "reportingInstance": identity.instance,
            "regarding": identity.regarding.wire(),
            "note": self.note,
        }
        if identity.related is not None:
            body["related"] = identity.related.wire()
        if self.count > 1:
            body["series"] = self._series()
        return body


class _Buckets:
    """Token buckets by regarded object: `burst` at once, one more each `refill` seconds. A forgotten bucket is a full one."""

    def __init__(self, settings: EventSettings) -> None:
        self._settings = settings
        self._levels: OrderedDict[ReferenceKey, tuple[float, float]] = OrderedDict()

    def take(self, key: ReferenceKey, now: float) -> bool:
        """Spend a token; False if none is left."""
        level, at = self._levels.pop(key, (float(self._settings.burst), now))
        level = min(float(self._settings.burst), level + (now - at) / self._settings.refill)
        allowed = level >= 1.0
        self._levels[key] = (level - 1.0 if allowed else level, now)
        if len(self._levels) > self._settings.memory:
            self._levels.popitem(last=False)
        return allowed

    def __len__(self) -> int:
        return len(self._levels)


class EventCore:
    """All events of one recorder. `record` decides, `take` and `settle` begin and end each request, `due` and `next_at` keep time."""

    def __init__(self, settings: EventSettings) -> None:
        self._settings = settings
        # In the order of the last occurrence, so the first entry ends, or is evicted, next.
        self._entries: OrderedDict[IdentityKey, EventEntry] = OrderedDict()
        # Entries with an unsent count, each with the deadline of its write; in the order of the deadlines.
        self._counted: OrderedDict[IdentityKey, float] = OrderedDict()
        self._queue: deque[EventEntry] = deque()
        self._buckets = _Buckets(settings)
        self._stamp = 0
        self._no_end_before = 0.0
        """No identity ends before this time, so `due` skips the identities until then."""

    # --- occurrences --------------------------------------------------------------------------------------------------------

    def record(self, identity: Identity, note: str, now: float, wall: datetime) -> str:
        """Record one event. Returns "" if it will be sent or counted, else the cause of its drop."""
        self.due(now)
        key = identity.key
        entry = self._entries.get(key)
        if entry is not None:
            self._again(entry, now, wall)
            return ""
        if len(self._queue) >= self._settings.queue:
            return DropReason.QUEUE_FULL
        if not self._buckets.take(key[_REGARDING], now):
            return DropReason.THROTTLED
        entry = EventEntry(identity, key, cut(note, NOTE_BYTES), self._name(identity, key, wall), now, wall)
        self._entries[key] = entry
        self._enqueue(entry)
        if len(self._entries) > self._settings.memory:
            self._end(next(iter(self._entries.values())))
        return ""

    def _again(self, entry: EventEntry, now: float, wall: datetime) -> None:
        entry.observe(now, wall)
        self._entries.move_to_end(entry.key)
        # The second occurrence is news, and sent at once; later occurrences are only counted.
        if entry.count == 2 and not entry.waiting and self._buckets.take(entry.key[_REGARDING], now):
            self._enqueue(entry)
        if not entry.waiting:
            self._counted.setdefault(entry.key, now + self._settings.refresh)

    def due(self, now: float) -> None:
        """Queue the writes that are due: counts older than `refresh`, series that were silent for `finish`."""
        while self._counted:
            key, at = next(iter(self._counted.items()))
            if at > now or not self._enqueue(self._entries[key]):
                break
        if now < self._no_end_before:
            return
        self._no_end_before = now + self._settings.finish  # of an identity that is seen from now on
        while self._entries:
            entry = next(iter(self._entries.values()))
            ends = entry.seen + self._settings.finish
            if ends > now:
                self._no_end_before = ends
                break
            self._end(entry)

    def finish(self) -> None:
        """Queue every unsent count and forget every identity: the recorder ends."""
        for entry in tuple(self._entries.values()):
            self._end(entry)

    def next_at(self) -> float | None:
        """Return when `due` has something to do, if nothing happens before; None for never."""
        times = []
        if self._entries:
            times.append(next(iter(self._entries.values())).seen + self._settings.finish)
        if self._counted and len(self._queue) < self._settings.queue:
            times.append(next(iter(self._counted.values())))
        return min(times, default=None)

    # --- requests -----------------------------------------------------------------------------------------------------------

    def take(self) -> EventEntry | None:
        """Return the entry to send next; the caller has it until `settle` returns DONE, or calls `drop`."""
        return self._queue.popleft() if self._queue else None

    def settle(self, entry: EventEntry, write: EventWrite, answer: WriteResult, wall: datetime, now: float) -> NextStep:
        """Record the response to a write; `drop` takes a refused or abandoned write."""
        match answer:
            case WriteResult.STORED:
                entry.stored, entry.lost = write.count, False
            case WriteResult.MISSING if write.verb is EventVerb.PATCH:
                entry.stored, entry.lost = 0, True
                return NextStep.AGAIN
            case WriteResult.EXISTS if write.count == 1:
                entry.stored = 1  # an earlier try, whose response was lost, had succeeded
            case WriteResult.EXISTS if entry.lost:
                entry.name, entry.lost = self._name(entry.identity, entry.key, wall), False
                return NextStep.AGAIN
            case WriteResult.EXISTS:
                entry.stored = 1  # the same for a series: the stored count may be older
                return NextStep.AGAIN
            case _:
                return NextStep.LATER
        self._sent(entry, begun=write.count > 1, now=now)
        return NextStep.DONE

    def _sent(self, entry: EventEntry, *, begun: bool, now: float) -> None:
        entry.waiting = False
        remembered = self._entries.get(entry.key) is entry
        if not entry.unsent:
            return
        # The second occurrence, recorded while the first was being sent, is sent at once; a forgotten entry gets no later write.
        at_once = not remembered or (not begun and self._buckets.take(entry.key[_REGARDING], now))
        if not (at_once and self._enqueue(entry)) and remembered:
            self._counted.setdefault(entry.key, now + self._settings.refresh)

    def drop(self, entry: EventEntry) -> None:
        """Forget an entry that cannot be stored; the next event of its identity begins again at 1."""
        entry.waiting = False
        if self._entries.get(entry.key) is entry:
            self._forget(entry)

    # --- inside -------------------------------------------------------------------------------------------------------------

    def _enqueue(self, entry: EventEntry) -> bool:
        if entry.waiting:
            return True
        if len(self._queue) >= self._settings.queue:
            return False
        entry.waiting = True
        self._counted.pop(entry.key, None)
        self._queue.append(entry)
        return True

    def _end(self, entry: EventEntry) -> None:
        """Forget an identity; a count that is not stored yet is written a last time if there is room."""
        self._forget(entry)
        if entry.unsent:
            self._enqueue(entry)

    def _forget(self, entry: EventEntry) -> None:
        self._entries.pop(entry.key, None)
        self._counted.pop(entry.key, None)

    def _name(self, identity: Identity, key: IdentityKey, wall: datetime) -> str:
        """Return a name that no other event of this process has: two events may happen in one microsecond."""
        digest = hashlib.blake2b(repr(key).encode("utf-8", "replace"), digest_size=4).digest()
        nanoseconds = (wall - _EPOCH) // timedelta(microseconds=1) * 1000 + int.from_bytes(digest, "big") % 1000
        self._stamp = max(nanoseconds, self._stamp + 1)
        return event_name(identity.regarding.name, self._stamp)

    @property
    def waiting(self) -> int:
        """How many writes wait."""
        return len(self._queue)

    @property
    def remembered(self) -> int:
        """How many identities are remembered."""
        return len(self._entries)

    @property
    def sources(self) -> int:
        """How many token buckets are kept."""
        return len(self._buckets)
