"""The interface of the modes of sharding: the objects that this replica owns, and may claim."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple, Protocol

from konverge.keys import Key
from konverge.objects import Metadata
from konverge.runtime.hooks.object_gate import Owned
from konverge.tasks import Broadcast

__all__ = ["Claim", "ShardOwnership", "ShardRing"]


class Claim(NamedTuple):
    """The claim of this replica to an object: `epoch` 0 means not admitted, and `again` is the delay of the next try in seconds."""

    epoch: int = 0
    again: float | None = None
    inherited: bool = False
    """Whether the object has a former owner, whose writes the caches may not show yet."""


class ShardRing(Protocol):
    """A replica's view of all replicas that share the objects."""

    @property
    def member(self) -> str:
        """The name of this replica."""

    @property
    def generation(self) -> int:
        """The number of changes of the replicas that may move objects."""

    @property
    def changed(self) -> Broadcast:
        """Notified when `generation` grows."""

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
        """Return whether this replica owns this version of an object, and so may reconcile it."""

    def owns(self, metadata: Metadata) -> Owned:
        """Return the owner of an object."""

    def desired(self, metadata: Metadata, family: str) -> str:
        """Return the member that should own an object; "" if none is known."""

    def concerns(self, metadata: Metadata, family: str) -> bool:
        """Return whether an object needs work on this replica."""

    def changes(self, metadata: Metadata, family: str) -> bool:
        """Return whether this replica is to claim an object or to hand it over."""

    async def admit(self, key: Key, metadata: Metadata, family: str, writer: Hashable) -> Claim:
        """Claim or clear an object as its stamp requires; after a claim `leave` follows."""

    def leave(self, uid: str) -> None:
        """Record the end of a reconcile."""

    def observe(self, key: Key, old: Metadata | None, new: Metadata | None, writer: Hashable) -> bool:
        """Record a change of an object; returns whether its owner changed."""

    async def close(self) -> None:
        """Cancel the writes in progress."""
