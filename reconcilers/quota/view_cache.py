"""Decoded views, cached between reconciles by resourceVersion.

Guarantees: the views match the informer cache now. Only changed objects are decoded. Entries of deleted objects are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from konverge.objects import Metadata, Object
from konverge.runtime import Reader

__all__ = ["ViewCache"]

V = TypeVar("V")


class ViewCache(Generic[V]):
    """The views of the objects of one kind."""

    def __init__(self) -> None:
        self._pages: dict[tuple[str, str], tuple[str, str, V]] = {}

    def read(
        self, reader: Reader[Object], found: Iterable[Metadata], view: Callable[[Object], V]
    ) -> dict[tuple[str, str], V]:
        """Return the views of these objects by namespace and name, and drop all others."""
        pages: dict[tuple[str, str], tuple[str, str, V]] = {}
        for metadata in found:
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
