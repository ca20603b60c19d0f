"""Cached objects, and the store of one informer with its indexes: many readers and one writer (`effect_handler.py`).

Guarantees
- `Cached` is immutable and invisible to the cyclic garbage collector: decoded metadata, and the bytes of the rest. `data` and `decode`
  return a private copy, decoded from the bytes, so a reader cannot corrupt the cache. The bytes hold no managedFields; the field sets that
  this process's own managers applied are kept in `owned`, because they decide whether an apply would change anything.
- A reader sees each batch of events and each full state as one step. `version` is the last resource version of an event, bookmark or full
  state.
- The function of an index is called once per object and change. Its values are stored, so it need not return the same values again for
  the old object. If the function raises, the object has no values, and the error is logged and counted.

Caveats: `metadata.labels` and `metadata.annotations` are shared between readers and read-only. Objects have no common order, and two kinds
are not equally fresh. Versions of different resources are never compared.

Memory of caches that keep every Secret and its managedFields: https://github.com/k8ssandra/k8ssandra-operator/issues/1752

The barrier compares the store's version with the version of a write:
https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/5647-stale-controller-handling. The indexes of client-go:
https://github.com/kubernetes/client-go/blob/master/tools/cache/thread_safe_store.go
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

import msgspec

from konverge.dropped import DroppedFields
from konverge.errors import MetadataOnly, UsageError, stack_of
from konverge.fields import Owner
from konverge.kinds import Kind, Resource
from konverge.logs import get_logger
from konverge.objects import Metadata, Object, compare_versions, reached
from konverge.selectors import LabelSelector
from konverge.words import LogKey

__all__ = [
    "EMPTY",
    "OWNER",
    "Cached",
    "Contents",
    "Index",
    "IndexFunction",
    "Path",
    "Store",
    "Table",
    "controller_uid",
]


_LOG = get_logger("konverge.informers")

R = TypeVar("R", bound=Resource)


class _WithStatus(msgspec.Struct, gc=False):
    status: Any = None


_STATUS = msgspec.json.Decoder(_WithStatus)


class Cached(msgspec.Struct, frozen=True, gc=False):
    """One cached object.

    `body` is its JSON without managedFields, b"" if only metadata is cached. `owned` holds FieldsV1 bytes by owner, None if no
    manager of this process applied the object.

    >>> Cached(Metadata(name="target", namespace="web"), b'{"spec":{"replicas":2}}').data()["spec"]
    {'replicas': 2}
    """

    metadata: Metadata
    body: bytes
    owned: dict[Owner, bytes] | None = None

    @property
    def uid(self) -> str:
        """`metadata.uid`."""
        return self.metadata.uid

    @property
    def version(self) -> str:
        """`metadata.resourceVersion`."""
        return self.metadata.resource_version

    @property
    def metadata_only(self) -> bool:
        """Whether only the metadata is cached."""
        return not self.body

    def __repr__(self) -> str:
        """Return name, version and size without content, which may be a Secret's."""
        return (
            f"<cached {self.metadata.path} at {self.metadata.resource_version or 'no version'}, {len(self.body)} bytes>"
        )

    def same(self, other: Cached) -> bool:
        """Report whether this is the same object at the same version."""
        mine, theirs = self.metadata, other.metadata
        return mine.resource_version == theirs.resource_version and mine.uid == theirs.uid

    def data(self) -> dict[str, Any]:
        """Return the object as a new dict, only its metadata if the body is not cached."""
        decoded: dict[str, Any] = (
            msgspec.json.decode(self.body) if self.body else {"metadata": msgspec.to_builtins(self.metadata)}
        )
        return decoded

    def status(self) -> dict[str, Any]:
        """Return the status as a new dict, {} if the object has none or only metadata is cached."""
        status = _STATUS.decode(self.body).status if self.body else None
        return status if isinstance(status, dict) else {}

    def decode(self, kind: Kind[R], dropped: DroppedFields | None = None) -> R:
        """Return a new copy of the object as an instance of this kind; `dropped` are the fields that its cache leaves out.

        Raises InvalidObject if the object does not fit the kind's model, MetadataOnly if its body is not cached.
        """
        if not self.body:
            raise MetadataOnly(
                f"{kind.kind} {self.metadata.path} was read, but only its metadata is cached; "
                f"read it live: await ctx.live(...).get({self.metadata.namespace!r}, {self.metadata.name!r})"
            )
        return kind.decode(self.data()) if dropped is None else cast(R, dropped.decode(kind, self.data()))


class CachedObject(Object):
    """A thin view of a cached object that decodes a private copy of it when its data are first used.

    Most callers of `ctx.own` do not use the child that it returns.

    >>> from konverge.kinds import kind
    >>> child = CachedObject(Cached(Metadata(name="target"), b'{"data":{"url":"czM6Ly9i"}}'), kind("v1", "Secret"))
    >>> child.get("data", "url"), child.kind_name
    ('czM6Ly9i', 'Secret')
    """

    __slots__ = ("_cached", "_kind")

    def __init__(self, cached: Cached, kind: Kind[Any]) -> None:
        self._cached = cached
        self._kind = kind
        self._metadata = cached.metadata

    if not TYPE_CHECKING:  # for mypy every attribute would exist

        def __getattr__(self, name: str) -> Any:
            if name != "data":
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            data = self._cached.data()
            # A list of the API server leaves both out of its items.
            data.setdefault("apiVersion", self._kind.api_version)
            data.setdefault("kind", self._kind.kind)
            self.data = data
            return data


THIN_VIEWS: Final = frozenset({Object, CachedObject})
"""The classes whose `data` is the whole object. Other subclasses of Object hold a part, or are a user's own."""

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
        # Only what changed is filed again: the status of a pool may list thousands of members.
        kept = {*before}.intersection(values)
        self._remove(path, [value for value in before if value not in kept])
        if not values:
            self._values.pop(path, None)
            return
        self._values[path] = values
        for value in values:
            if value in kept:
                continue
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

EMPTY: dict[str, Cached] = {}
"""The objects of a namespace that has none."""


class Contents:
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
        """Add or replace an object; return the replaced object."""
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
        """Remove and return an object, if it exists."""
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
        self._contents = Contents({OWNER: Index(OWNER, controller_uid)})
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
        return self._contents.table.get(namespace, EMPTY).get(name)

    def list(self, namespace: str | None = None, labels: LabelSelector | None = None) -> _Objects:
        """Return the objects of a namespace, or of all, whose labels match."""
        table = self._contents.table
        tables: Iterable[dict[str, Cached]] = table.values() if namespace is None else (table.get(namespace, EMPTY),)
        objects = [cached for inner in tables for cached in inner.values()]
        if labels is None:
            return objects
        return [cached for cached in objects if labels.matches(cached.metadata.labels or {})]

    def keys(self, namespace: str | None = None) -> _Paths:
        """Return namespace and name of each object of a namespace, or of all."""
        table = self._contents.table
        if namespace is not None:
            return [(namespace, name) for name in table.get(namespace, EMPTY)]
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
