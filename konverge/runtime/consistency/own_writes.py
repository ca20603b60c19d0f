"""Own writes: the filter of their events, and the barrier that waits until the caches show them.

The filter: an event that shows only our own status write, or our own apply of a child, enqueues nothing. `only_own_changes`,
`only_own_apply` and `only_status_changed` decide whether anything but the own write changed.

The barrier is the rule of KEP-5647 (controllers of Kubernetes 1.36), for every kind: after a write, the object and its version are noted;
before the next reconcile of the key the informer's store is compared with them. A store that is behind is waited for, up to a limit; after
that the reconcile runs and is counted. The barrier is open if versions cannot be compared, or if no informer caches the object (another
namespace, other labels). Everything but `StalenessBarrier` is pure.

Source: https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/5647-stale-controller-handling. A stale read in the
field: https://github.com/kubernetes-sigs/controller-runtime/issues/1464
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Hashable, Mapping
from typing import Any, Final

import msgspec

from konverge.client import Client, ListQuery, Write, WriteState
from konverge.errors import KonvergeError, NotFound
from konverge.informers import Cached, Informer
from konverge.keys import Key
from konverge.kinds import Kind
from konverge.objects import Metadata, compare_versions
from konverge.runtime.cache.narrowed import Narrowed
from konverge.selectors import LabelSelector

__all__ = [
    "BarrierWaits",
    "FIRST_WAIT",
    "LONGEST_WAIT",
    "OwnVersions",
    "StalenessBarrier",
    "View",
    "look",
    "meaning",
    "only_own_apply",
    "only_own_changes",
    "only_status_changed",
    "only_status_differs",
    "pause",
]


class OwnVersions:
    """The versions that our own writes gave to each object, until an event shows them.

    All of them are kept: the event of a write is an echo too if it is delivered after the next write. Bounded:
    objects that were not written for longest are forgotten first, and of each object only the last few versions are kept.

    >>> from konverge.kinds import kind
    >>> own, key = OwnVersions(), Key("", kind("v1", "Pod"), "web", "a")
    >>> own.add(key, "7"), own.add(key, "9"), own.seen(key, "7"), own.of(key)
    (None, None, None, ('9',))
    """

    def __init__(self, *, objects: int = 100_000, versions: int = 8) -> None:
        self._objects = objects
        self._versions = versions
        self._known: dict[Key, tuple[str, ...]] = {}

    def add(self, key: Key, version: str) -> None:
        """Keep the version that a write of ours created."""
        known = self._known
        before = known.pop(key, None)  # moved to the end: a dict keeps the order of insertion
        known[key] = (version,) if before is None else (*before, version)[-self._versions :]
        if len(known) > self._objects:
            del known[next(iter(known))]

    def of(self, key: Key) -> tuple[str, ...]:
        """Return the versions of an object whose events have not arrived."""
        return self._known.get(key, ())

    def seen(self, key: Key, version: str) -> None:
        """Drop this version and earlier versions: events of an object arrive in order."""
        known = self._known.get(key)
        if known is None:
            return
        if known[-1] == version:  # nearly always
            del self._known[key]
            return
        left = tuple(own for own in known if own != version and (compare_versions(own, version) or 1) > 0)
        if left:
            self._known[key] = left
        else:
            del self._known[key]

    def take(self, key: Key, version: str) -> tuple[str, ...]:
        """Return the versions whose events have not arrived, and drop versions up to this event's version."""
        known = self._known.get(key, ())
        if known:
            self.seen(key, version)
        return known

    def forget(self, key: Key) -> None:
        """Drop everything of an object."""
        self._known.pop(key, None)

    def __len__(self) -> int:
        return len(self._known)


_BOOKKEEPING = frozenset({"creationTimestamp", "generation", "managedFields", "resourceVersion", "uid"})
_MAPPING = (dict, Mapping)
_LEAVES = frozenset({str, int, float, bool})
_PARTS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_STATUS_AND_HEAD = ("apiVersion", "kind", "metadata", "status")


def only_own_changes(before: Any, after: Any, intent: Any) -> bool:
    """Return whether the apply of `intent` explains every difference between `before` and `after`.

    >>> only_own_changes({"a": 1}, {"a": 1, "b": 2}, {"b": 2}), only_own_changes({"a": 1}, {"a": 9, "b": 2}, {"b": 2})
    (True, False)
    """
    if after == before:
        return True
    if not before and intent is not None and after == intent:
        return True  # the first status of an object: nothing to compare piece by piece
    if isinstance(after, _MAPPING):
        old = before if isinstance(before, _MAPPING) else {}
        applied = intent if isinstance(intent, _MAPPING) else {}
        if not old.keys() <= after.keys():
            return False
        for name, value in after.items():
            was = old.get(name)
            if value != was and not (
                # Most values are scalars, and this runs once in each reconcile.
                value == applied.get(name)
                if value.__class__ in _LEAVES
                else only_own_changes(was, value, applied.get(name))
            ):
                return False
        return True
    if isinstance(after, list):
        sides = [_by_type(side) for side in (before or [], after, intent or [])]
        if None not in sides:
            return only_own_changes(*sides)
    return intent is not None and bool(after == intent)


def only_own_apply(before: Mapping[str, Any], after: Mapping[str, Any], intent: Mapping[str, Any]) -> bool:
    """Return whether only the apply of `intent` changed an object from `before` to `after`.

    False also if the apply removed fields: then it is not known who removed them.
    """
    return only_own_changes(*({**each, "metadata": _described(each)} for each in (before, after, intent)))


def _described(object_: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in object_["metadata"].items() if name not in _BOOKKEEPING}


def _by_type(conditions: Any) -> dict[str, Any] | None:
    if not isinstance(conditions, list):
        return None
    by_type = {}
    for entry in conditions:
        if not isinstance(entry, _MAPPING) or "type" not in entry:
            return None
        by_type[str(entry["type"])] = entry
    return by_type


def meaning(metadata: Metadata) -> tuple[object, ...]:
    """Return the part of metadata that is more than bookkeeping."""
    return (
        metadata.labels or {},
        metadata.annotations or {},
        metadata.finalizers,
        metadata.owner_references,
        metadata.deletion_timestamp,
    )


def only_status_differs(old: Metadata, new: Metadata) -> bool:
    """Return whether two states of one object can differ in nothing but the status, by their metadata."""
    return (old.uid, old.generation) == (new.uid, new.generation) and meaning(old) == meaning(new)


def only_status_changed(cached: Cached, metadata: Metadata, body: bytes) -> bool:
    """Return whether the response to a status apply differs from the reconciled object only in the status.

    Any other difference is a change of another writer, and its event may be merged with the event of our write.
    """
    if not only_status_differs(cached.metadata, metadata):
        return False
    before, after = (_PARTS.decode(each) for each in (cached.body, body))
    for aside in _STATUS_AND_HEAD:
        before.pop(aside, None)
        after.pop(aside, None)
    return before.keys() == after.keys() and all(_same_json(raw, after[name]) for name, raw in before.items())


def _same_json(left: msgspec.Raw, right: msgspec.Raw) -> bool:
    """Compare as bytes first: a server writes the same value in the same way."""
    return bytes(left) == bytes(right) or bool(msgspec.json.decode(left) == msgspec.json.decode(right))


_SLICE: Final = 500
"""Own writes that are compared in one turn of the event loop: a few milliseconds."""
FIRST_WAIT = 0.005
LONGEST_WAIT = 0.25


class View(enum.Enum):
    """The state of a cache with respect to one write."""

    SHOWN = "the cache shows it"
    BEHIND = "the cache is behind it"
    UNCERTAIN = "it is not known whether it was done: ask the server"
    UNWATCHED = "it is not cached, or cannot be compared"


def look(write: Write, informer: Informer | None) -> View:
    """Compare the cache of a kind with a write of ours."""
    if informer is None or not informer.store.synced:
        return View.UNWATCHED
    selection, store = informer.selection, informer.store
    if write.namespace and selection.namespace not in (None, write.namespace):
        return View.UNWATCHED
    match write.state:
        case WriteState.IN_FLIGHT:
            return View.BEHIND
        case WriteState.UNKNOWN:
            return View.UNCERTAIN
        case WriteState.DELETED:
            return View.BEHIND if store.has_uid(write.namespace, write.name, write.uid) else View.SHOWN
        case WriteState.DONE:
            shows = store.shows(write.namespace, write.name, write.version)
            narrow = selection.labels or selection.fields
            if shows is False and narrow and store.get(write.namespace, write.name) is None:
                return View.UNCERTAIN  # an object outside of the selection never arrives
            return View.UNWATCHED if shows is None else View.SHOWN if shows else View.BEHIND


def pause(waited: float) -> float:
    """Return the seconds until the next comparison after such a wait: doubling, from 5 ms to a quarter of a second."""
    return min(max(waited, FIRST_WAIT), LONGEST_WAIT)


class _Waiting(msgspec.Struct):
    since: float
    reasons: tuple[str, ...] = ()


class BarrierWaits:
    """The keys of one controller that wait at the barrier, each with the start of its wait and its reasons."""

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._waiting: dict[Key, _Waiting] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self._waiting

    def __len__(self) -> int:
        return len(self._waiting)

    def pause(self, key: Key, reasons: tuple[str, ...], now: float) -> float | None:
        """Return the seconds until the cache is compared again; None if the key has waited up to the limit."""
        waiting = self._waiting.get(key)
        if waiting is None:
            waiting = self._waiting[key] = _Waiting(now)
        waited = now - waiting.since
        if waited >= self._limit:
            return None
        waiting.reasons = tuple(dict.fromkeys((*waiting.reasons, *reasons)))
        return pause(waited)

    def take(self, key: Key, reasons: tuple[str, ...]) -> tuple[str, ...]:
        """End the wait of a key; return the reasons from before and from now."""
        waiting = self._waiting.pop(key, None)
        return reasons if waiting is None else tuple(dict.fromkeys((*waiting.reasons, *reasons)))

    def forget(self, key: Key) -> None:
        """Drop the key of a deleted object."""
        self._waiting.pop(key, None)


def _is_later(own: str, version: str) -> bool:
    """Return whether an own write is later than a version; also if they cannot be compared, since the ledger keeps unseen writes only."""
    order = compare_versions(own, version)
    return order is None or order > 0


class StalenessBarrier:
    """Compares the caches of one controller with its own writes, by the write ledger of its client."""

    def __init__(
        self,
        controller: str,
        client: Client,
        informers: Mapping[Kind[Any], Informer | Narrowed],
        own_versions: OwnVersions,
    ) -> None:
        self._controller = controller
        self._client = client
        self._informers = informers
        self._own_versions = own_versions
        self._outdated: dict[Key, str] = {}
        """Versions of own writes that the cache did not show before the barrier timed out."""

    def writer(self, key: Key) -> Hashable:
        """Return the name under which the ledger keeps the writes of this key's reconciles."""
        return (self._controller, key)

    async def behind(self, key: Key) -> str:
        """Return the first object whose cached state lacks this key's own write, "" if the caches show all own writes.

        Other tasks run after each 500 comparisons: one reconcile may have written thousands of objects.
        """
        ledger, writer = self._client.ledger, self.writer(key)
        pending = ledger.pending(writer)
        for number, write in enumerate(pending, start=1):
            cache = self._informers.get(write.kind)
            informer = None if isinstance(cache, Narrowed) else cache
            view = look(write, informer)
            if view is View.UNCERTAIN:
                view = await self._look_at_server(write, informer)
            if view is View.BEHIND:
                return f"{write.kind.kind} {write.namespace}/{write.name}"
            ledger.seen(writer, write)
            if number % _SLICE == 0:
                await asyncio.sleep(0)
        if len(pending) > _SLICE:
            await asyncio.sleep(0)
        return ""

    async def _look_at_server(self, write: Write, informer: Informer | None) -> View:
        """Read the object from the server, and compare the cached version with the server's version."""
        try:
            metadata = await self._client.get_metadata(write.kind, write.name, write.namespace)
            selected = informer is not None and await self._selects(informer, metadata)
        except NotFound:
            cached = informer is not None and informer.store.get(write.namespace, write.name) is not None
            return View.BEHIND if cached else View.SHOWN
        except KonvergeError:
            return View.BEHIND  # not known yet; the barrier's limit bounds the wait
        if informer is None:
            return View.UNWATCHED
        if not selected:
            return View.UNWATCHED if informer.store.get(write.namespace, write.name) is None else View.BEHIND
        shows = informer.store.shows(write.namespace, write.name, metadata.resource_version)
        return View.BEHIND if shows is False else View.SHOWN

    async def _selects(self, informer: Informer, metadata: Metadata) -> bool:
        """Return whether the selection of a cache takes an object; only the API server can evaluate a field selector."""
        selection, info = informer.selection, informer.info
        if not LabelSelector.parse(selection.labels).matches(metadata.labels or {}):
            return False
        if not selection.fields or info is None:
            return True
        fields = f"{selection.fields},metadata.name={metadata.name}"
        query = ListQuery(namespace=metadata.namespace or None, fields=fields, limit=1, metadata_only=True)
        return bool((await self._client.list_page(info, query)).items)

    def stop_waiting(self, key: Key) -> None:
        """Give up on the writes that the cache does not show; the ledger still knows who wrote them."""
        for write in self._client.ledger.pending(self.writer(key)):
            if write.version and (write.kind, write.namespace, write.name) == (key.kind, key.namespace, key.name):
                self._outdated[key] = write.version
            self._client.ledger.seen(self.writer(key), write)
            # The late event of the write must enqueue the key: the next reconcile runs on a stale cache.
            self._own_versions.forget(Key("", write.kind, write.namespace, write.name))

    def forget(self, key: Key) -> None:
        """Drop the writes of a deleted object."""
        self._outdated.pop(key, None)
        self._client.ledger.forget(self.writer(key))

    def version_after_own_writes(self, key: Key, cached: Cached) -> str:
        """Return the version that the object has after this reconcile's own writes to it; writes of others since then do not count.

        If the barrier timed out, the cached version is returned: the server then rejects a status computed from stale data (Conflict).
        """
        latest = cached.metadata.resource_version
        if self._outdated and self._is_outdated(key, latest):
            return latest
        for write in self._client.ledger.pending(self.writer(key)):
            if (
                write.version
                and (write.kind, write.namespace, write.name) == (key.kind, key.namespace, key.name)
                and write.uid == cached.metadata.uid
                and _is_later(write.version, latest)
            ):
                latest = write.version
        return latest

    def _is_outdated(self, key: Key, version: str) -> bool:
        known = self._outdated.get(key)
        if known is None:
            return False
        outdated = (compare_versions(known, version) or 0) > 0
        if not outdated:
            del self._outdated[key]
        return outdated
