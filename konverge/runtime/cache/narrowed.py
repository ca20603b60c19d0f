"""Several caches of one kind, each narrowed to a namespace or by labels, read like one cache.

Guarantees: an object that no cache selects is absent, and an object that several caches select is read once. A read of all namespaces
reads all of these caches.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from konverge.informers import Cached, Informer, Problem, Selection
    from konverge.informers.store import IndexFunction
    from konverge.selectors import LabelSelector

__all__ = ["Narrowed", "NarrowedStore"]


class NarrowedStore:
    """The stores of several informers, read like one store."""

    __slots__ = ("_informers",)

    def __init__(self) -> None:
        self._informers: dict[str | None, builtins.list[Informer]] = {}
        """The informers by the namespace that each watches; None is every namespace."""

    def add(self, namespace: str | None, informer: Informer) -> None:
        """Add an informer, unless it was added before."""
        if all(informer is not other for other in self.informers):
            self._informers.setdefault(namespace, []).append(informer)

    @property
    def informers(self) -> builtins.list[Informer]:
        """The informers."""
        return [*chain.from_iterable(self._informers.values())]

    def get(self, namespace: str, name: str) -> Cached | None:
        """Return an object, None if no cache has it."""
        copies = (informer.store.get(namespace, name) for informer in self._chosen(namespace))
        return next((cached for cached in copies if cached is not None), None)

    def list(self, namespace: str | None = None, labels: LabelSelector | None = None) -> builtins.list[Cached]:
        """Return the objects of a namespace, or of all, whose labels match."""
        return _distinct([informer.store.list(namespace, labels) for informer in self._chosen(namespace)])

    def keys(self, namespace: str | None = None) -> builtins.list[tuple[str, str]]:
        """Return namespace and name of each object of a namespace, or of all."""
        return [
            *dict.fromkeys(chain.from_iterable(informer.store.keys(namespace) for informer in self._chosen(namespace)))
        ]

    def by_index(self, name: str, value: str) -> builtins.list[Cached]:
        """Return the objects that an index files under a value."""
        return _distinct([informer.store.by_index(name, value) for informer in self.informers])

    def __len__(self) -> int:
        return len(self.keys())

    def _chosen(self, namespace: str | None) -> builtins.list[Informer]:
        if namespace is None:
            return self.informers
        return [*self._informers.get(namespace, ()), *self._informers.get(None, ())]


def _distinct(parts: list[Iterable[Cached]]) -> list[Cached]:
    """Return the objects of all parts, each once."""
    if len(parts) == 1:
        return [*parts[0]]
    distinct: dict[tuple[str, str], Cached] = {}
    for cached in chain.from_iterable(parts):
        distinct.setdefault((cached.metadata.namespace, cached.metadata.name), cached)
    return [*distinct.values()]


class Narrowed:
    """Several informers, with the part of an informer's interface that a `Reader` and an index use."""

    __slots__ = ("selection", "store")

    def __init__(self, selection: Selection) -> None:
        self.selection = selection
        """The selection of the first declaration; every informer caches the same part of its objects."""
        self.store = NarrowedStore()

    def add(self, namespace: str | None, informer: Informer) -> None:
        """Add the informer of a namespace, or of all namespaces (None)."""
        self.store.add(namespace, informer)

    @property
    def synced(self) -> bool:
        """Whether each first list is complete."""
        return all(informer.synced for informer in self.store.informers)

    @property
    def problem(self) -> Problem | None:
        """Why a cache is not up to date, None if all are."""
        return next((informer.problem for informer in self.store.informers if informer.problem is not None), None)

    def add_index(self, name: str, function: IndexFunction) -> None:
        """Add the index to each informer."""
        for informer in self.store.informers:
            informer.add_index(name, function)
