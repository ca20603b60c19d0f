"""The hook of objects: which objects a controller watches and reconciles in this process.

    select     narrows the watch of the controller's own kind, before the first list
    concerns   an event or a resync enqueues the object
    observe    each change of an object, before its request
    admit      the worker takes a key: reconcile now, retry later, wait, or drop
    leave      the end of an admitted reconcile
    run        while the controller works

Guarantees: a controller without a gate pays one comparison for each key.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from typing import Any, NamedTuple, Protocol, TypeAlias

from konverge.informers import Change, Selection
from konverge.keys import Key
from konverge.kinds import Kind
from konverge.objects import Metadata

__all__ = ["Admission", "GatedController", "ObjectGate", "ObjectGates", "Owned"]


class Owned(NamedTuple):
    """The owner of an object, and the owner's epoch; `owner` "" for no owner."""

    owner: str
    epoch: int


class Admission(NamedTuple):
    """Whether a key may be reconciled now: `epoch` 0 means no."""

    epoch: int = 0
    """The fencing token of the reconcile, which grows with each owner of the object."""
    retry_after: float | None = None
    """Seconds until the key is enqueued again."""
    waits: bool = False
    """Whether the gate itself enqueues the key later; a key that neither waits nor is retried is forgotten."""


class GatedController(Protocol):
    """The services of a controller for its gate."""

    @property
    def name(self) -> str:
        """The controller's name, unique in its manager."""

    @property
    def kind(self) -> Kind[Any]:
        """The controller's own kind."""

    @property
    def family(self) -> Callable[[Metadata], str]:
        """Returns the family of an object: the objects of one family have one owner."""

    @property
    def reads_own_kind(self) -> bool:
        """Whether the controller watches or indexes its own kind, and so decides by other objects of that kind."""

    @property
    def reads_others(self) -> bool:
        """Whether the controller owns or watches another kind."""

    def writer(self, key: Key) -> Hashable:
        """Return the writer of a key: under this name the barrier of own writes waits for the gate's writes."""

    def enqueue(self, key: Key) -> None:
        """Enqueue a key."""

    async def enqueue_where(self, chosen: Callable[[Metadata], bool]) -> None:
        """Enqueue the cached objects that are chosen, and count the objects again; yields to the event loop."""

    async def caught_up(self) -> None:
        """Wait until the caches show every write that was stored before this call."""


class ObjectGate(Protocol):
    """The gate of one controller."""

    def select(self, selection: Selection) -> Selection:
        """Return the objects of the controller's own kind that this process watches."""

    def concerns(self, metadata: Metadata) -> bool:
        """Return whether an object needs work in this process."""

    def counts(self, metadata: Metadata) -> bool:
        """Return whether the metrics of this process count an object."""

    def observe(self, key: Key, change: Change) -> bool:
        """Note a change of an object; returns whether its key is enqueued whatever the predicate returns."""

    def admit(self, key: Key, metadata: Metadata) -> Awaitable[Admission]:
        """Return whether an object may be reconciled; after an admission `leave` follows."""

    def leave(self, key: Key, metadata: Metadata) -> None:
        """Note the end of an admitted reconcile."""

    async def run(self) -> None:
        """Work while the controller works, until this call is cancelled."""


ObjectGates: TypeAlias = Callable[[GatedController], ObjectGate]
"""Returns the gate of a controller."""
