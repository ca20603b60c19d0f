"""Equal parts of neighbouring objects, kept once.

Objects made from one template arrive together (a list is sorted by namespace and name) and have equal labels, owners and field sets.
What is shared is immutable or read only (`Cached` says so). The memory of it is bounded: when it is full it is emptied, and what
is in use stays shared by those who hold it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

from konverge.fields import Owner
from konverge.objects import Metadata

__all__ = ["Sharing"]

_LIMIT: Final = 4096


class Sharing:
    """Gives equal parts back as one; one for each informer.

    >>> sharing = Sharing()
    >>> first, second = (sharing.metadata(Metadata(labels={"app": "shop"})) for _ in range(2))
    >>> first.labels is second.labels
    True
    """

    def __init__(self, limit: int = _LIMIT) -> None:
        self._limit = limit
        self._known: dict[Hashable, Any] = {}

    def metadata(self, full: Metadata) -> Metadata:
        """Return the metadata alone, of what may be a subclass, with shared parts."""
        known = self._room()
        labels, owners = full.labels, full.owner_references
        if labels is not None:
            labels = known.setdefault(tuple(labels.items()), labels)
        if owners:
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

    def fields(self, found: dict[Owner, bytes]) -> dict[Owner, bytes]:
        """Return applied field sets, shared where equal."""
        shared: dict[Owner, bytes] = self._room().setdefault(frozenset(found.items()), found)
        return shared

    def _room(self) -> dict[Hashable, Any]:
        if len(self._known) >= self._limit:
            self._known.clear()
        return self._known
