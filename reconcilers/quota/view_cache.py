"""Caches that are complete, and decoded views, cached between reconciles by resourceVersion.

Guarantees: nothing is decided by a cache that is not synced (X04). The views match the informer cache now. Only changed objects are
decoded. Entries of deleted objects are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Generic, TypeVar

from konverge.errors import RetryAfter
from konverge.kinds import Kind, Resource
from konverge.objects import Metadata, Object

if TYPE_CHECKING:
    from konverge.runtime import Context, Reader

__all__ = ["ViewCache", "complete"]

_SYNC_SECONDS = 5.0

V = TypeVar("V")


def complete(ctx: Context[Resource], kind: Kind[Object]) -> Reader[Object]:
    """Return the cache of a kind; raises RetryAfter if it is not synced."""
    reader = ctx.cache(kind)
    if not reader.synced:
        raise RetryAfter(
            _SYNC_SECONDS, f"the cache of {kind.group_kind} is not complete at present; nothing is decided without it"
        )
    return reader


class ViewCache(Generic[V]):
    """The views of the objects of one kind."""

    def __init__(self) -> None:
        self._pages: dict[tuple[str, str], tuple[str, str, V]] = {}

    def read(
        self, reader: Reader[Object], objects: Iterable[Metadata], view: Callable[[Object], V]
    ) -> dict[tuple[str, str], V]:
        """Return the views of these objects by namespace and name, and drop all others."""
        pages: dict[tuple[str, str], tuple[str, str, V]] = {}
        for metadata in objects:
            path = (metadata.namespace, metadata.name)
            page = self._pages.get(path)
            if page is None or page[0] != metadata.resource_version or page[1] != metadata.uid:
                stored = reader.find(*path)
                if stored is None:
                    continue
                page = (stored.metadata.resource_version, stored.metadata.uid, view(stored))
            pages[path] = page
        self._pages = pages
        return {path: page[2] for path, page in pages.items()}
