"""The staleness barrier: no reconcile runs on a cache that does not yet show the controller's own writes.

The rule of KEP-5647 (controllers of Kubernetes 1.36), for every kind: after a write, the object and its version are noted; before the next
reconcile of the key the informer's store is compared with them. A store that is behind is waited for, up to a limit; after that the
reconcile runs and is counted. The barrier is open if versions cannot be compared, or if no informer caches the object (another namespace,
other labels). `look`, `pause` and `BarrierWaits` are pure.

Source: https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/5647-stale-controller-handling. A stale read in the
field: https://github.com/kubernetes-sigs/controller-runtime/issues/1464
"""

from __future__ import annotations

import enum
from collections.abc import Hashable
from dataclasses import dataclass

from konverge.client import Client, Write, WriteState
from konverge.errors import KonvergeError, NotFound
from konverge.informers import Cached, Informer
from konverge.keys import Key, compare_versions
from konverge.runtime.cache.readers import Caches
from konverge.runtime.consistency.own_versions import OwnVersions
from konverge.selectors import LabelSelector

__all__ = ["FIRST_WAIT", "LONGEST_WAIT", "BarrierWaits", "StalenessBarrier", "View", "look", "pause"]

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
            if shows is False and selection.labels and store.get(write.namespace, write.name) is None:
                return View.UNCERTAIN  # it may be outside of the selection, and then never come
            return View.UNWATCHED if shows is None else View.SHOWN if shows else View.BEHIND


def pause(waited: float) -> float:
    """Return the seconds until the next look after having waited so long: doubling, from 5 ms to a quarter of a second."""
    return min(max(waited, FIRST_WAIT), LONGEST_WAIT)


@dataclass(slots=True)
class _Waiting:
    since: float
    reasons: tuple[str, ...] = ()


class BarrierWaits:
    """The keys of one controller that wait at the barrier: since when, and for which reasons each was enqueued."""

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._waiting: dict[Key, _Waiting] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self._waiting

    def __len__(self) -> int:
        return len(self._waiting)

    def pause(self, key: Key, reasons: tuple[str, ...], now: float) -> float | None:
        """Return the seconds until the cache is looked at again; None if the key has waited for as long as it may."""
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
        """Drop a key that is gone."""
        self._waiting.pop(key, None)


def _is_later(own: str, version: str) -> bool:
    """Tell whether an own write is later than a version; one that cannot be compared is, since the ledger keeps unseen writes only."""
    order = compare_versions(own, version)
    return order is None or order > 0


class StalenessBarrier:
    """Compares the caches of one controller with what it wrote, by the write ledger of its client."""

    def __init__(self, controller: str, client: Client, caches: Caches, own_versions: OwnVersions) -> None:
        self._controller = controller
        self._client = client
        self._caches = caches
        self._own_versions = own_versions
        self._outdated: dict[Key, str] = {}
        """The versions that own writes gave to objects of the controller, if the cache did not show them before the wait was given up."""

    def writer(self, key: Key) -> Hashable:
        """Return the name under which the ledger keeps the writes of this key's reconciles."""
        return (self._controller, key)

    async def behind(self, key: Key) -> str:
        """Return the first object of which the cache does not show this key's own write yet, "" if it shows all of them."""
        ledger, writer = self._client.ledger, self.writer(key)
        for write in ledger.pending(writer):
            informer = self._caches.informer(write.kind)
            view = look(write, informer)
            if view is View.UNCERTAIN:
                view = await self._look_at_server(write, informer)
            if view is View.BEHIND:
                return f"{write.kind.kind} {write.namespace}/{write.name}"
            ledger.seen(writer, write)
        return ""

    async def _look_at_server(self, write: Write, informer: Informer | None) -> View:
        """Read the object from the server, and compare the cache with that."""
        try:
            metadata = await self._client.get_metadata(write.kind, write.name, write.namespace)
        except NotFound:
            cached = informer is not None and informer.store.get(write.namespace, write.name) is not None
            return View.BEHIND if cached else View.SHOWN
        except KonvergeError:
            return View.BEHIND  # not known yet; the barrier's limit bounds the wait
        if informer is None:
            return View.UNWATCHED
        if not LabelSelector.parse(informer.selection.labels).matches(metadata.labels or {}):
            return View.UNWATCHED if informer.store.get(write.namespace, write.name) is None else View.BEHIND
        shows = informer.store.shows(write.namespace, write.name, metadata.resource_version)
        return View.BEHIND if shows is False else View.SHOWN

    def stop_waiting(self, key: Key) -> None:
        """Give up on the writes that the cache does not show; the ledger still knows who wrote them."""
        for write in self._client.ledger.pending(self.writer(key)):
            if write.version and (write.kind, write.namespace, write.name) == (key.kind, key.namespace, key.name):
                self._outdated[key] = write.version
            self._client.ledger.seen(self.writer(key), write)
            # The late event of the write must enqueue the key: the next reconcile runs on a stale cache.
            self._own_versions.forget(Key("", write.kind, write.namespace, write.name))

    def forget(self, key: Key) -> None:
        """Drop what the ledger keeps of a key whose object is gone."""
        self._outdated.pop(key, None)
        self._client.ledger.forget(self.writer(key))

    def version_after_own_writes(self, key: Key, cached: Cached) -> str:
        """Return the version that the object has after this reconcile's own writes to it; writes of others since then do not count.

        It is the version of the copy if that is older than earlier writes of ours, for which the wait was given up: the server then refuses
        (Conflict) what was made from that copy, which would take a status back.
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
