"""The store of one informer and its indexes: many readers and one writer.

Guarantees
- A reader sees each batch of events and each full state as one step.
- Objects are immutable (`Cached`). `version` is the last resource version of an event, bookmark or full state.
- A full state is built aside and swapped in (`Staging`, `StoreWriter.swap`). Unchanged objects keep their identity, so a relist does not
  copy them. `difference` yields deletions first.
- An event with the version that the store already holds changes nothing and is not delivered.
- The function of an index is called once per object and change. Its values are stored, so it need not return the same values again for
  the old object. If the function raises, the object has no values, and the error is logged and counted.

Caveats: objects have no common order, and two kinds are not equally fresh. Versions of different resources are never compared.

The barrier compares the store's version with the version of a write:
https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/5647-stale-controller-handling. The indexes of client-go:
https://github.com/kubernetes/client-go/blob/master/tools/cache/thread_safe_store.go
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from konverge.errors import UsageError, stack_of
from konverge.informers.cached import Cached, Change
from konverge.logs import get_logger
from konverge.objects import compare_versions, reached
from konverge.selectors import LabelSelector
from konverge.words import LogKey

__all__ = [
    "Index",
    "IndexFunction",
    "OWNER",
    "Path",
    "Staging",
    "Store",
    "StoreWriter",
    "Table",
    "controller_uid",
    "difference",
]


_LOG = get_logger("konverge.informers")

Path: TypeAlias = tuple[str, str]
"""Namespace and name."""

IndexFunction: TypeAlias = Callable[[Cached], Iterable[str]]
"""Returns the values of an object."""

OWNER: Final = "owner"
"""The built-in index by the uid of the controller reference."""


def controller_uid(cached: Cached) -> Iterable[str]:
    """Return the uid of the object's controller reference, if it has one."""
    for owner in cached.metadata.owner_references:
        if owner.controller:
            return (owner.uid,)
    return ()


class Index:
    """One index over the objects of one store.

    >>> index = Index("finalizer", lambda cached: cached.metadata.finalizers)
    >>> from konverge.objects import Metadata
    >>> index.put("web", "a", Cached(Metadata(finalizers=("x/y",)), b"{}"))
    >>> index.paths("x/y")
    [('web', 'a')]
    """

    __slots__ = ("_by_value", "_values", "errors", "function", "name")

    def __init__(self, name: str, function: IndexFunction) -> None:
        self.name = name
        self.function = function
        self.errors = 0
        # The inverse of `_values`. Most values belong to one object (a child to its owner), so a single path is stored without a dict.
        self._by_value: dict[str, Path | dict[Path, None]] = {}
        # Only objects with at least one value.
        self._values: dict[Path, tuple[str, ...]] = {}

    def empty(self) -> Index:
        """Return an empty index with the same function."""
        fresh = Index(self.name, self.function)
        fresh.errors = self.errors
        return fresh

    def put(self, namespace: str, name: str, cached: Cached) -> None:
        """Add an object or update its values."""
        try:
            values = tuple(self.function(cached))
        except Exception:  # noqa: BLE001  # the user's code; an object without values is better than a store that stops
            self._failed(namespace, name)
            values = ()
        path = (namespace, name)
        before = self._values.get(path, ())
        if values == before:
            return
        self._remove(path, before)
        if not values:
            self._values.pop(path, None)
            return
        self._values[path] = values
        for value in values:
            held = self._by_value.get(value)
            if held is None:
                self._by_value[value] = path
            elif isinstance(held, dict):
                held[path] = None
            elif held != path:
                self._by_value[value] = {held: None, path: None}

    def _failed(self, namespace: str, name: str) -> None:
        self.errors += 1
        # Errors 1, 2, 4, 8, ... are logged: one mistake in a function fails for each object.
        if self.errors & (self.errors - 1) == 0:
            keys = {LogKey.INDEX: self.name, LogKey.NAMESPACE: namespace, LogKey.NAME: name, LogKey.COUNT: self.errors}
            _LOG.error("an index function raised; the object is not found by this index", stack=stack_of(), **keys)

    def drop(self, namespace: str, name: str) -> None:
        """Remove an object."""
        path = (namespace, name)
        self._remove(path, self._values.pop(path, ()))

    def _remove(self, path: Path, values: Iterable[str]) -> None:
        for value in values:
            held = self._by_value.get(value)
            if isinstance(held, dict):
                held.pop(path, None)
                if not held:
                    del self._by_value[value]
            elif held == path:
                del self._by_value[value]

    def paths(self, value: str) -> list[Path]:
        """Return the paths of the objects with this value; the object that got it first is first."""
        held = self._by_value.get(value)
        if held is None:
            return []
        return list(held) if isinstance(held, dict) else [held]


Table: TypeAlias = dict[str, dict[str, Cached]]
"""Objects by namespace, then by name: this needs no tuple per object, and lists a namespace without a scan."""

# In the class below, `list` in an annotation would name its method.
_Objects: TypeAlias = list[Cached]
_Paths: TypeAlias = list[Path]

_EMPTY: dict[str, Cached] = {}


class _Contents:
    """The objects and indexes of a store; a full state replaces it as a whole."""

    __slots__ = ("count", "indexes", "size", "table")

    def __init__(self, indexes: dict[str, Index]) -> None:
        # Every inner dict holds at least one object.
        self.table: Table = {}
        # Each index covers exactly the objects of `table`.
        self.indexes = indexes
        # The number of objects in `table`, and the bytes of their bodies.
        self.count = 0
        self.size = 0

    def put(self, namespace: str, name: str, cached: Cached) -> Cached | None:
        inner = self.table.get(namespace)
        if inner is None:
            inner = self.table[namespace] = {}
        old = inner.get(name)
        inner[name] = cached
        self.size += len(cached.body)
        if old is None:
            self.count += 1
        else:
            self.size -= len(old.body)
        for index in self.indexes.values():
            index.put(namespace, name, cached)
        return old

    def drop(self, namespace: str, name: str) -> Cached | None:
        inner = self.table.get(namespace)
        old = inner.pop(name, None) if inner is not None else None
        if inner is None or old is None:
            return None
        if not inner:
            del self.table[namespace]
        self.count -= 1
        self.size -= len(old.body)
        for index in self.indexes.values():
            index.drop(namespace, name)
        return old


class Store:
    """The read side: all methods are synchronous and return immutable objects.

    >>> Store().get("web", "target") is None
    True
    """

    def __init__(self) -> None:
        self._contents = _Contents({OWNER: Index(OWNER, controller_uid)})
        self._version = ""
        self._synced = False
        self._advanced: asyncio.Event | None = None
        """Set at the next version; None while no task waits for a version."""

    @property
    def synced(self) -> bool:
        """Whether the store holds a full state and the kind is still served."""
        return self._synced

    @property
    def version(self) -> str:
        """The resource version of the store; "" before the first full state."""
        return self._version

    @property
    def size(self) -> int:
        """Bytes of the cached bodies."""
        return self._contents.size

    def __len__(self) -> int:
        return self._contents.count

    def get(self, namespace: str, name: str) -> Cached | None:
        """Return an object, None if it does not exist."""
        return self._contents.table.get(namespace, _EMPTY).get(name)

    def list(self, namespace: str | None = None, labels: LabelSelector | None = None) -> _Objects:
        """Return the objects of a namespace, or of all, whose labels match."""
        table = self._contents.table
        tables: Iterable[dict[str, Cached]] = table.values() if namespace is None else (table.get(namespace, _EMPTY),)
        objects = [cached for inner in tables for cached in inner.values()]
        if labels is None:
            return objects
        return [cached for cached in objects if labels.matches(cached.metadata.labels or {})]

    def keys(self, namespace: str | None = None) -> _Paths:
        """Return namespace and name of each object of a namespace, or of all."""
        table = self._contents.table
        if namespace is not None:
            return [(namespace, name) for name in table.get(namespace, _EMPTY)]
        return [(where, name) for where, inner in table.items() for name in inner]

    def by_index(self, index: str, value: str) -> _Objects:
        """Return the objects with this value in an index. Raises UsageError for an unknown index."""
        paths_by_value = self._contents.indexes.get(index)
        if paths_by_value is None:
            known = ", ".join(sorted(self._contents.indexes))
            raise UsageError(
                f"no index {index!r} (there are: {known}); add it: informer.add_index({index!r}, function)"
            )
        table = self._contents.table
        return [table[namespace][name] for namespace, name in paths_by_value.paths(value)]

    def shows(self, namespace: str, name: str, version: str) -> bool | None:
        """Report whether the write of this object at `version` is visible; None if the versions are not comparable."""
        if self._version == version:  # nearly always: the event of the write was the last event
            return True
        whole = compare_versions(self._version, version)
        if whole is not None and whole >= 0:
            return True
        cached = self.get(namespace, name)
        own = compare_versions(cached.version, version) if cached is not None else None
        if own is not None and own >= 0:
            return True
        return None if whole is None and own is None else False

    async def reaches(self, version: str) -> None:
        """Return once the store is at this version or a later version; at once if the versions are not comparable."""
        while reached(self._version, version) is False:
            if self._advanced is None:
                self._advanced = asyncio.Event()
            await self._advanced.wait()

    def has_uid(self, namespace: str, name: str, uid: str) -> bool:
        """Report whether the object with this uid exists; a successor of the same name does not count."""
        cached = self.get(namespace, name)
        return cached is not None and cached.uid == uid

    @property
    def index_errors(self) -> int:
        """The number of exceptions of index functions."""
        return sum(index.errors for index in self._contents.indexes.values())

    def snapshot(self) -> Table:
        """Return a copy of the table, which later changes of the store do not affect."""
        return {namespace: dict(inner) for namespace, inner in self._contents.table.items()}


class Staging:
    """A full state that is being received; it shares unchanged objects with the store."""

    def __init__(self, store: Store) -> None:
        self._known = store._contents.table
        self.contents = _Contents({name: index.empty() for name, index in store._contents.indexes.items()})

    @property
    def table(self) -> Table:
        """The objects so far."""
        return self.contents.table

    def take(self, changes: Iterable[Change]) -> None:
        """Add the objects of a page or of a part of a streaming list."""
        contents = self.contents
        for change in changes:
            namespace, name, new = change.namespace, change.name, change.new
            if new is None:
                contents.drop(namespace, name)
                continue
            known = self._known.get(namespace, _EMPTY).get(name)
            contents.put(namespace, name, known if known is not None and known.same(new) else new)


class StoreWriter:
    """The write side of a store, held only by the informer's effect handler."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def apply(self, changes: Iterable[Change], version: str) -> list[Change]:
        """Apply a batch of events, after which the store is at `version`; return the changes of the store in order."""
        store = self.store
        contents = store._contents
        effective = []
        for change in changes:
            namespace, name, new = change.namespace, change.name, change.new
            if new is None:
                old = contents.drop(namespace, name)
                if old is not None:
                    effective.append(Change(namespace, name, old, None))
                continue
            held = contents.table.get(namespace, _EMPTY).get(name)
            if held is None:
                contents.put(namespace, name, new)
                effective.append(change)
            elif not held.same(new):
                contents.put(namespace, name, new)
                effective.append(Change(namespace, name, held, new))
        self.advance(version)
        return effective

    def advance(self, version: str) -> None:
        """Set the version, of a bookmark for example, and wake the tasks that wait for one."""
        store = self.store
        store._version = version
        if store._advanced is not None:
            store._advanced.set()
            store._advanced = None

    def swap(self, staging: Staging, version: str) -> Table:
        """Replace the content by a staged state at `version`; return the old content, for `difference`."""
        store = self.store
        before = store._contents.table
        # The staged state lacks an index that was added after its first page.
        for name, index in store._contents.indexes.items():
            if name not in staging.contents.indexes:
                staging.contents.indexes[name] = _filled(index.empty(), staging.contents.table)
        store._contents = staging.contents
        store._synced = True
        self.advance(version)
        return before

    def clear(self) -> Table:
        """Remove all objects, because the kind is not served; return the old content, for `difference`."""
        before = self.swap(Staging(self.store), "")
        self.store._synced = False
        return before

    def add_index(self, name: str, function: IndexFunction) -> None:
        """Add an index, and fill it with the objects of the store.

        The same function may be added again under the same name. Raises UsageError for another function under a known name.
        """
        indexes = self.store._contents.indexes
        known = indexes.get(name)
        if known is None:
            indexes[name] = _filled(Index(name, function), self.store._contents.table)
        elif known.function != function:
            raise UsageError(
                f"there is another index {name!r} on this informer, which others share; choose another name"
            )


def _filled(index: Index, table: Table) -> Index:
    for namespace, inner in table.items():
        for name, cached in inner.items():
            index.put(namespace, name, cached)
    return index


def difference(before: Table, after: Table) -> Iterator[Change]:
    """Yield the changes from one table to another, deletions first. Neither may change during the iteration."""
    for namespace, inner in before.items():
        now = after.get(namespace, _EMPTY)
        for name, old in inner.items():
            if name not in now:
                yield Change(namespace, name, old, None)
    for namespace, inner in after.items():
        past = before.get(namespace, _EMPTY)
        for name, new in inner.items():
            old_or_none = past.get(name)
            if old_or_none is not new:
                yield Change(namespace, name, old_or_none, new)
