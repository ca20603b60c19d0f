"""The caches of a controller, whose reads are recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from konverge.kinds import Kind, Resource, kind_of
from konverge.runtime.cache.narrowed import Narrowed, NarrowedStore
from konverge.runtime.cache.readers import Caches, Reader, Reorder, not_watched

if TYPE_CHECKING:
    from konverge.informers import Cached, Informer, Problem
    from konverge.keys import Key
    from konverge.selectors import LabelSelector

__all__ = ["NoteRead", "RecordedCaches"]

R = TypeVar("R", bound=Resource)

NoteRead: TypeAlias = "Callable[[Kind[Any], str, str, Iterable[Cached]], None]"
"""Called with the kind, the operation, its argument and the returned objects."""
_Objects: TypeAlias = "list[Cached]"
_Paths: TypeAlias = "list[tuple[str, str]]"


class _RecordedStore(NarrowedStore):
    """The store of a cache; each read is noted."""

    __slots__ = ("_inner", "_note")

    def __init__(self, inner: Informer | Narrowed, note: Callable[[str, str, Iterable[Cached]], None]) -> None:
        super().__init__()
        self._inner = inner
        self._note = note

    def get(self, namespace: str, name: str) -> Cached | None:
        """Return an object, None if the cache has none."""
        cached = self._inner.store.get(namespace, name)
        self._note("get", f"{namespace}/{name}", () if cached is None else (cached,))
        return cached

    def list(self, namespace: str | None = None, labels: LabelSelector | None = None) -> _Objects:
        """Return the objects of a namespace, or of all, whose labels match."""
        objects = self._inner.store.list(namespace, labels)
        self._note("list", namespace or "", objects)
        return objects

    def keys(self, namespace: str | None = None) -> _Paths:
        """Return namespace and name of each object of a namespace, or of all."""
        self._note("keys", namespace or "", self._inner.store.list(namespace))
        return self._inner.store.keys(namespace)

    def by_index(self, name: str, value: str) -> _Objects:
        """Return the objects that an index files under a value."""
        objects = self._inner.store.by_index(name, value)
        self._note("index", f"{name}={value}", objects)
        return objects

    def __len__(self) -> int:
        self._note("keys", "", self._inner.store.list())
        return len(self._inner.store)


class _RecordedCache(Narrowed):
    """A cache with a recorded store."""

    __slots__ = ("_inner",)

    def __init__(self, inner: Informer | Narrowed, note: Callable[[str, str, Iterable[Cached]], None]) -> None:
        super().__init__(inner.selection)
        self._inner = inner
        self.store = _RecordedStore(inner, note)

    @property
    def synced(self) -> bool:
        """Whether the first list is complete."""
        return self._inner.synced

    @property
    def problem(self) -> Problem | None:
        """Why the cache is not up to date, None if it is."""
        return self._inner.problem


class RecordedCaches(Caches):
    """The caches of one controller; `note` is called with each read."""

    __slots__ = ("_note",)

    def __init__(
        self,
        controller: str,
        informers: Mapping[Kind[Any], Informer | Narrowed],
        *,
        reorder: Reorder | None,
        note: NoteRead,
    ) -> None:
        super().__init__(controller, informers, reorder=reorder)
        self._note = note

    def __call__(self, what: Kind[R] | type[R]) -> Reader[R]:
        """Return the reader of a kind; raises CacheNotWatched for a kind that the controller did not declare."""
        kind: Kind[R] = kind_of(what)
        inner = self.informers.get(kind)
        if inner is None:
            raise not_watched(self._controller, kind, getattr(what, "__name__", None) or kind.kind.upper())

        def note(operation: str, argument: str, objects: Iterable[Cached]) -> None:
            self._note(kind, operation, argument, objects)

        return Reader(kind, _RecordedCache(inner, note), reorder=self._reorder)

    def cached(self, key: Key, *, partial: bool = False) -> Cached | None:
        """Return an object that the runtime compares with a write."""
        cached = super().cached(key, partial=partial)
        self._note(key.kind, "write", key.path, () if cached is None else (cached,))
        return cached
