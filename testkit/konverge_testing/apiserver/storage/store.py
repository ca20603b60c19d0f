"""The store: all objects of all resources under one version counter, with a bounded history and synchronous delivery of events.

Guarantees
- One counter for everything, as etcd's revision: each write adds one, and no two writes share a version. An update without effect
  does not write, as in the server's own store: it returns the stored entry.
- Writes are compare-and-swap on the entry that the caller read. Nothing here awaits, so a call is atomic on its loop.
- After each commit the resource's subscribers and then all observers are called with the event, each of them in the order of commits: a
  callback's own write is delivered after the current event. An exception of a callback is raised to the writer after all
  other callbacks; the write stays.
- History is a window: at most `window` events and about `window_bytes` bytes that only history holds. Reading an older version raises
  `Compacted`.

Caveats: objects are not checked beyond their keys. Not for use from several threads.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any, Final, TypeAlias

from konverge_testing.apiserver.storage.entries import Entry, Event, ResourceId, encoded, key_of

__all__ = ["Callback", "Changed", "Compacted", "Exists", "Store"]

Callback: TypeAlias = Callable[[Event], None]

_WINDOW: Final = 100_000
_WINDOW_BYTES: Final = 128 * 2**20


class Exists(Exception):
    """An object of this key already exists: `current`."""

    def __init__(self, current: Entry) -> None:
        super().__init__(f"{current.resource} {current.key} exists at version {current.version}")
        self.current = current


class Changed(Exception):
    """A concurrent write: `current` is the stored entry, or None if the object was deleted."""

    def __init__(self, before: Entry, current: Entry | None) -> None:
        now = "gone" if current is None else f"at version {current.version}"
        super().__init__(f"{before.resource} {before.key} was read at version {before.version} and is {now}")
        self.current = current


class Compacted(Exception):
    """The history before `floor` was dropped."""

    def __init__(self, asked: int, floor: int) -> None:
        super().__init__(f"version {asked} is older than the history, which begins after {floor}")
        self.asked = asked
        self.floor = floor


class _Table:
    """One resource."""

    __slots__ = ("callbacks", "changed", "entries", "events", "floor", "keys", "snapshot")

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.keys: list[str] = []
        self.events: deque[Event] = deque()
        self.changed = 0
        self.floor = 0
        """The oldest version that `since` can start from, besides the floor of the whole store."""
        self.callbacks: tuple[Callback, ...] = ()
        self.snapshot: tuple[int, int, list[Entry]] | None = None
        """The last list at a past version: the version, the resource's last change when the list was built, the entries."""


class Store:
    """See the module.

    >>> store = Store()
    >>> made = store.create(("", "configmaps"), {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b"}})
    >>> made.version, store.get(("", "configmaps"), "b", "a") is made
    (2, True)
    """

    def __init__(self, version: int = 1, *, window: int = _WINDOW, window_bytes: int = _WINDOW_BYTES) -> None:
        self.version = version
        """The version of the last write."""
        self.floor = version
        """The oldest version that `since` and `at` can start from."""
        self.window = window
        self.window_bytes = window_bytes
        self.observers: list[Callback] = []
        """Called for every commit of every resource, after the resource's subscribers."""
        self._tables: dict[ResourceId, _Table] = {}
        self._history: deque[Event] = deque()
        self._weight = 0
        self._undelivered: deque[tuple[_Table, Event]] = deque()
        self._delivering = False

    # Reading

    def get(self, resource: ResourceId, namespace: str, name: str) -> Entry | None:
        """Return the entry of a name; `namespace` is "" for a cluster-scoped object."""
        table = self._tables.get(resource)
        return None if table is None else table.entries.get(key_of(namespace, name))

    def list(self, resource: ResourceId, namespace: str | None = None) -> list[Entry]:
        """Return the objects of a namespace, or (None) all of them, sorted by key."""
        table = self._tables.get(resource)
        if table is None:
            return []
        keys = table.keys
        if namespace:
            keys = keys[bisect_left(keys, f"{namespace}/") : bisect_left(keys, f"{namespace}0")]
        entries = table.entries
        return [entries[key] for key in keys]

    def count(self, resource: ResourceId) -> int:
        """Return the number of objects."""
        table = self._tables.get(resource)
        return 0 if table is None else len(table.keys)

    def resources(self) -> Sequence[ResourceId]:
        """Return the resources that ever had an object or a subscriber."""
        return tuple(self._tables)

    def changed(self, resource: ResourceId) -> int:
        """Return the version of the last change to any object of a resource, or 0 if there was none."""
        table = self._tables.get(resource)
        return 0 if table is None else table.changed

    def at(self, resource: ResourceId, version: int) -> Sequence[Entry]:
        """Return all objects as they were at a version, sorted by key. Raises Compacted; not to be changed."""
        self._reach(version)
        table = self._tables.get(resource)
        if table is None or version >= table.changed:
            return self.list(resource)
        kept = table.snapshot
        if kept is None or kept[:2] != (version, table.changed):
            kept = table.snapshot = (version, table.changed, _undone(table, version))
        return kept[2]

    def since(self, resource: ResourceId, version: int) -> Sequence[Event]:
        """Return the events of a resource after a version, oldest first. Raises Compacted."""
        table = self._tables.get(resource)
        self._reach(version, 0 if table is None else table.floor)
        if table is None or version >= table.changed:
            return ()
        return _after(table, version)

    # Writing

    def create(self, resource: ResourceId, obj: dict[str, Any], *, schema: object = None) -> Entry:
        """Store a new object; its metadata.resourceVersion is set in place. Raises Exists."""
        table = self._table(resource)
        entry = encoded(resource, obj, self.version + 1, schema)
        key = entry.key
        current = table.entries.get(key)
        if current is not None:
            raise Exists(current)
        table.entries[key] = entry
        insort(table.keys, key)
        self._commit(table, Event("ADDED", entry, None))
        return entry

    def update(
        self, resource: ResourceId, before: Entry, obj: dict[str, Any], *, schema: object = None, differs: bool = False
    ) -> Entry:
        """Replace an object; metadata.resourceVersion is set in place. Raises Changed if `before` is not the current entry.

        `differs`: the caller knows that the state differs.
        """
        table, key = self._current(resource, before)
        entry = encoded(resource, obj, self.version + 1 if differs else before.version, schema)
        if entry.key != key:
            raise ValueError(f"an update does not rename: {key} to {entry.key}")
        if not differs:
            if len(entry.raw) == len(before.raw) and (entry.raw == before.raw or before.object() == obj):
                return before
            entry = entry.moved(self.version + 1)
            obj["metadata"]["resourceVersion"] = str(entry.version)
        table.entries[key] = entry
        self._commit(table, Event("MODIFIED", entry, before))
        return entry

    def delete(self, resource: ResourceId, before: Entry, obj: dict[str, Any] | None = None) -> Entry:
        """Remove an object, and return its last state (`obj` if given) with the deletion's version. Raises Changed."""
        table, key = self._current(resource, before)
        last = before if obj is None else encoded(resource, obj, before.version)
        entry = last.moved(self.version + 1, deleted=True)
        del table.entries[key]
        del table.keys[bisect_left(table.keys, key)]
        self._commit(table, Event("DELETED", entry, before))
        return entry

    def jump(self, count: int) -> int:
        """Increase the version, as writes to other resources would; returns the new version."""
        if count < 0:
            raise ValueError("versions do not go back")
        self.version += count
        return self.version

    # History

    def compact(self, version: int | None = None) -> None:
        """Forget the history up to a version (None: all of it): a watch that starts before it gets Compacted."""
        floor = self.version if version is None else min(version, self.version)
        self.floor = max(self.floor, floor)
        while self._history and self._history[0].version <= self.floor:
            self._drop()

    def forget(self) -> None:
        """Forget all history: a watch from before the present version gets Compacted."""
        self.compact()

    def begin(self, resource: ResourceId) -> None:
        """Start the events of one resource now: `since` an earlier version raises Compacted, `at` an earlier version still works."""
        self._table(resource).floor = self.version

    # Subscriptions

    def subscribe(self, resource: ResourceId, callback: Callback) -> Callable[[], None]:
        """Subscribe a function to the commits of a resource; returns the function that unsubscribes it."""
        table = self._table(resource)
        table.callbacks = (*table.callbacks, callback)

        def unsubscribe() -> None:
            table.callbacks = tuple(other for other in table.callbacks if other is not callback)

        return unsubscribe

    def _table(self, resource: ResourceId) -> _Table:
        table = self._tables.get(resource)
        if table is None:
            table = self._tables[resource] = _Table()
        return table

    def _current(self, resource: ResourceId, before: Entry) -> tuple[_Table, str]:
        table, key = self._table(resource), before.key
        current = table.entries.get(key)
        if current is None or current.version != before.version:
            raise Changed(before, current)
        return table, key

    def _reach(self, version: int, floor: int = 0) -> None:
        floor = max(self.floor, floor)
        if version < floor:
            raise Compacted(version, floor)

    def _commit(self, table: _Table, event: Event) -> None:
        self.version = table.changed = event.entry.version
        table.events.append(event)
        self._history.append(event)
        self._weight += event.weight
        while len(self._history) > self.window or self._weight > self.window_bytes:
            self.floor = max(self.floor, self._history[0].version)
            self._drop()
        self._undelivered.append((table, event))
        if not self._delivering:
            self._deliver()

    def _drop(self) -> None:
        event = self._history.popleft()
        self._tables[event.entry.resource].events.popleft()
        self._weight -= event.weight

    def _deliver(self) -> None:
        self._delivering = True
        failures: list[BaseException] = []
        try:
            while self._undelivered:
                table, event = self._undelivered.popleft()
                for callback in (*table.callbacks, *self.observers):
                    try:
                        callback(event)
                    except BaseException as failure:  # noqa: BLE001  # raised below, after all callbacks
                        failures.append(failure)
                event.lines = None
        finally:
            self._delivering = False
        if failures:
            raise failures[0]


def _after(table: _Table, version: int) -> list[Event]:
    found = list(takewhile(lambda event: event.entry.version > version, reversed(table.events)))
    found.reverse()
    return found


def _undone(table: _Table, version: int) -> list[Entry]:
    entries = dict(table.entries)
    for event in reversed(table.events):
        if event.entry.version <= version:
            break
        if event.previous is None:
            entries.pop(event.entry.key, None)
        else:
            entries[event.entry.key] = event.previous
    return [entries[key] for key in sorted(entries)]
