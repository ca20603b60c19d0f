"""Caches that are complete, and decoded views, cached between reconciles by resourceVersion.

Guarantees: nothing is decided by a cache that is not synced (X04). The views match the informer cache now. Only changed objects are
decoded. Entries of deleted objects are dropped. Which objects changed is found by the identity of their metadata: a cached object is
replaced, never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from konverge.errors import RetryAfter
from konverge.kinds import Kind, Resource
from konverge.objects import Metadata, Object

if TYPE_CHECKING:
    from konverge.runtime import Context, Reader

__all__ = ["Seen", "ViewCache", "complete"]

_SYNC_SECONDS = 5.0
_SLICE: Final = 50
"""Objects that are decoded between two points at which a refresh may be interrupted."""

V = TypeVar("V")


def complete(ctx: Context[Resource], kind: Kind[Object]) -> Reader[Object]:
    """Return the cache of a kind; raises RetryAfter if it is not synced."""
    reader = ctx.cache(kind)
    if not reader.synced:
        raise RetryAfter(
            _SYNC_SECONDS, f"the cache of {kind.group_kind} is not complete at present; nothing is decided without it"
        )
    return reader


class Seen:
    """The metadata of a cache's objects as they were seen last."""

    def __init__(self) -> None:
        self.by_path: dict[tuple[str, str], Metadata] = {}
        self._order: list[Metadata] = []

    def differences(self, objects: list[Metadata]) -> tuple[list[Metadata], list[tuple[str, str]]]:
        """Return the new and changed objects, and the paths of the deleted objects; the caller updates `by_path`."""
        known = self.by_path
        if len(objects) == len(self._order):  # nearly always the same objects in the same order, but for a few
            pairs = [(now, before) for now, before in zip(objects, self._order, strict=True) if now is not before]
            if not [now for now, before in pairs if (now.namespace, now.name) != (before.namespace, before.name)]:
                return [now for now, _ in pairs if known.get((now.namespace, now.name)) is not now], []
        changed = [metadata for metadata in objects if known.get((metadata.namespace, metadata.name)) is not metadata]
        return changed, [*(known.keys() - {(metadata.namespace, metadata.name) for metadata in objects})]

    def matches(self, objects: list[Metadata]) -> None:
        """Note that `by_path` holds exactly these objects now."""
        self._order = objects


class ViewCache(Generic[V]):
    """The views of the objects of one kind."""

    def __init__(self) -> None:
        self._seen = Seen()
        self.views: dict[tuple[str, str], V] = {}
        """By namespace and name."""
        self.pages: dict[str, dict[str, V]] = {}
        """By namespace, then by name; the page of a namespace is another object after each change in it."""

    def read(self, reader: Reader[Object], view: Callable[[Object], V]) -> dict[tuple[str, str], V]:
        """Return the views of all objects by namespace and name."""
        for _ in self.refresh(reader, view):
            pass
        return self.views

    def refresh(self, reader: Reader[Object], view: Callable[[Object], V]) -> Generator[None, None, None]:
        """Bring the views up to date; yields between slices, and ends with views that match the cache."""
        while True:
            objects = reader.all_metadata()
            changed, deleted = self._seen.differences(objects)
            for path in deleted:
                self._drop(path)
            touched: set[str] = set()
            for metadata in changed[:_SLICE]:
                self._renew(reader, metadata, view, touched)
            if len(changed) <= _SLICE:
                self._seen.matches(objects)
                return
            yield

    def _renew(
        self, reader: Reader[Object], metadata: Metadata, view: Callable[[Object], V], touched: set[str]
    ) -> None:
        path = (metadata.namespace, metadata.name)
        known = self._seen.by_path.get(path)
        if known is None or known.resource_version != metadata.resource_version or known.uid != metadata.uid:
            stored = reader.find(*path)
            if stored is None:
                self._drop(path)
                return
            self.views[path] = decoded = view(stored)
            if metadata.namespace not in touched:
                touched.add(metadata.namespace)
                self.pages[metadata.namespace] = dict(self.pages.get(metadata.namespace, ()))
            self.pages[metadata.namespace][metadata.name] = decoded
        self._seen.by_path[path] = metadata

    def _drop(self, path: tuple[str, str]) -> None:
        self._seen.by_path.pop(path, None)
        if self.views.pop(path, None) is None:
            return
        namespace, name = path
        page = {other: view for other, view in self.pages[namespace].items() if other != name}
        if page:
            self.pages[namespace] = page
        else:
            del self.pages[namespace]
