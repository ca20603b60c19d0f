"""The interface of sharding to a controller, whichever mode decides: which objects are this replica's, and may a reconcile begin."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple, Protocol

from konverge.keys import Key
from konverge.objects import Metadata
from konverge.tasks import Broadcast

__all__ = ["Admission", "Owned", "ShardRing", "ShardOwnership"]


class Owned(NamedTuple):
    """The owner of an object, and the epoch in which it became the owner; `owner` "" for none."""

    owner: str
    epoch: int


class Admission(NamedTuple):
    """Whether an object may be reconciled now: in this epoch, if it is not 0; else it is looked at again after so many seconds, if any."""

    epoch: int = 0
    again: float | None = None
    inherited: bool = False
    """Whether another member owned the object before, whose writes the caches may not show yet."""


class ShardRing(Protocol):
    """The replicas that share objects, as one of them sees them."""

    @property
    def member(self) -> str:
        """The name of this replica."""

    @property
    def generation(self) -> int:
        """How often the replicas have changed, as far as objects may move for it."""

    @property
    def changed(self) -> Broadcast:
        """Notified when they change."""

    def desired(self, key: str) -> str:
        """Return the replica that should own a key; "" if none is known."""


class ShardOwnership(Protocol):
    """The objects of this replica."""

    @property
    def ring(self) -> ShardRing:
        """The replicas."""

    @property
    def selector(self) -> str:
        """The labels of the objects that this replica may own; "" for all objects."""

    def is_mine(self, metadata: Metadata) -> bool:
        """Return whether this replica owns this version of an object: only then it may be reconciled here, as far as it is known."""

    def owns(self, metadata: Metadata) -> Owned:
        """Return the owner of an object."""

    def desired(self, metadata: Metadata, family: str) -> str:
        """Return the member that should own an object; "" if none is known."""

    def concerns(self, metadata: Metadata, family: str) -> bool:
        """Return whether there is anything to do for an object on this replica."""

    def changes(self, metadata: Metadata, family: str) -> bool:
        """Return whether an object is to be claimed or handed over by this replica."""

    async def admit(self, key: Key, metadata: Metadata, family: str, writer: Hashable) -> Admission:
        """Do what has to be done for an object, and return whether it may be reconciled; then `leave` follows."""

    def leave(self, uid: str) -> None:
        """Take note of the end of a reconcile."""

    def observe(self, key: Key, old: Metadata | None, new: Metadata | None, writer: Hashable) -> bool:
        """Take note of a change of an object; returns whether its owner changed."""

    async def close(self) -> None:
        """End what is under way."""
