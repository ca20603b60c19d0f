"""Indexes from a value to the objects that have it.

Guarantees: the function of an index is called once per object and change; its values are stored, so it need not return the same values
again for the old object. If the function raises, the object has no values, and the error is logged and counted.

The indexes of client-go: https://github.com/kubernetes/client-go/blob/master/tools/cache/thread_safe_store.go
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from konverge.errors import stack_of
from konverge.informers.cached import Cached
from konverge.logs import get_logger
from konverge.words import LogKey

__all__ = ["OWNER", "Index", "IndexFunction", "Path", "controller_uid"]

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
