"""Interning of namespaces, labels, owner references and field sets.

Objects of one template arrive together (a list is sorted by namespace and name) and have equal labels, owners and field sets. Interned
values are immutable or read-only by the contract of `Cached`. The table is bounded: it is cleared when it is full, and objects that
share a value go on sharing it. Large values are not interned, so that the table does not keep a megabyte of each deleted object.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

from konverge.fields import Owner
from konverge.objects import Metadata

__all__ = ["Interner"]

_LIMIT: Final = 4096
_MANY: Final = 64
"""Labels or owner references of an object that are interned."""
_LONG: Final = 64
"""Characters of an interned uid: the API server limits the uid of an object, and not the uid in an owner reference."""
_LARGE: Final = 1 << 16
"""Bytes of interned field sets."""


class Interner:
    """Returns one instance for equal values; each informer has one interner.

    >>> interner = Interner()
    >>> first, second = (interner.metadata(Metadata(labels={"app": "shop"})) for _ in range(2))
    >>> first.labels is second.labels
    True
    """

    def __init__(self, limit: int = _LIMIT) -> None:
        self._limit = limit
        # From a value in hashable form to its first instance; at most `_limit` and the values of one object.
        self._known: dict[Hashable, Any] = {}

    def metadata(self, full: Metadata) -> Metadata:
        """Return a plain `Metadata` (the argument may be a subclass) with interned parts."""
        known = self._table()
        labels, owners = full.labels, full.owner_references
        if labels is not None and len(labels) <= _MANY:
            labels = known.setdefault(tuple(labels.items()), labels)
        if owners and len(owners) <= _MANY and all(len(owner.uid) <= _LONG for owner in owners):
            owners = known.setdefault(owners, owners)
        return Metadata(
            full.name,
            known.setdefault(full.namespace, full.namespace),
            full.generate_name,
            full.uid,
            full.resource_version,
            full.generation,
            full.creation_timestamp,
            full.deletion_timestamp,
            labels,
            full.annotations,
            full.finalizers,
            owners,
        )

    def fields(self, owned: dict[Owner, bytes]) -> dict[Owner, bytes]:
        """Return the interned instance of these applied field sets."""
        if sum(map(len, owned.values())) > _LARGE:
            return owned
        shared: dict[Owner, bytes] = self._table().setdefault(frozenset(owned.items()), owned)
        return shared

    def _table(self) -> dict[Hashable, Any]:
        if len(self._known) >= self._limit:
            self._known.clear()
        return self._known
