"""The caches of one kind in some namespaces, read as if they were one.

Guarantees: an object of another namespace is absent. A read of all namespaces is one of these.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from konverge.informers import Cached, Informer, Problem
    from konverge.informers.index import IndexFunction
    from konverge.selectors import LabelSelector

__all__ = ["Narrowed", "NarrowedStore"]


class NarrowedStore:
    """The stores of these informers, by namespace."""

    __slots__ = ("_informers",)

    def __init__(self, informers: Mapping[str, Informer]) -> None:
        self._informers = informers

    def get(self, namespace: str, name: str) -> Cached | None:
        """Return an object, None if no cache has it."""
        informer = self._informers.get(namespace)
        return None if informer is None else informer.store.get(namespace, name)

    def list(self, namespace: str | None = None, labels: LabelSelector | None = None) -> builtins.list[Cached]:
        """Return the objects of a namespace, or of all, whose labels match."""
        return list(chain.from_iterable(one.store.list(namespace, labels) for one in self._chosen(namespace)))

    def keys(self, namespace: str | None = None) -> builtins.list[tuple[str, str]]:
        """Return namespace and name of each object of a namespace, or of all."""
        return list(chain.from_iterable(one.store.keys(namespace) for one in self._chosen(namespace)))

    def by_index(self, name: str, value: str) -> builtins.list[Cached]:
        """Return the objects that an index files under a value."""
        return list(chain.from_iterable(one.store.by_index(name, value) for one in self._informers.values()))

    def __len__(self) -> int:
        return sum(len(one.store) for one in self._informers.values())

    def _chosen(self, namespace: str | None) -> builtins.list[Informer]:
        if namespace is None:
            return [*self._informers.values()]
        return [self._informers[namespace]] if namespace in self._informers else []


class Narrowed:
    """Several informers, by namespace, with the part of an informer's interface that a `Reader` and an index use."""

    __slots__ = ("informers", "metadata_only", "store")

    def __init__(self, *, metadata_only: bool) -> None:
        self.informers: dict[str, Informer] = {}
        self.metadata_only = metadata_only
        self.store = NarrowedStore(self.informers)

    @property
    def synced(self) -> bool:
        """Whether each first list is complete."""
        return all(one.synced for one in self.informers.values())

    @property
    def problem(self) -> Problem | None:
        """Why one of them is not up to date."""
        return next((one.problem for one in self.informers.values() if one.problem is not None), None)

    def add_index(self, name: str, function: IndexFunction) -> None:
        """Index each."""
        for one in self.informers.values():
            one.add_index(name, function)
