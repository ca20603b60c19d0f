"""The services that controllers and their reconciles work with: one set for the manager, and a set for each controller, derived from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from random import Random
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from konverge.client import Client, Fence
from konverge.clock import wall_clock
from konverge.informers import InformerSet, Selection
from konverge.keys import Key
from konverge.kinds import Kind
from konverge.metrics import Metrics
from konverge.rbac import plural_of
from konverge.runtime.apply.applier import Applier, LruDict
from konverge.runtime.apply.owners import Claims
from konverge.runtime.cache.readers import Caches, Reorder
from konverge.runtime.consistency.own_writes import OwnVersions
from konverge.runtime.consistency.undone import UndoneApplies
from konverge.runtime.events.recorder import EventRecorder
from konverge.runtime.hooks.leadership import Term
from konverge.runtime.hooks.object_gate import ObjectGates
from konverge.runtime.hooks.tap import Tap
from konverge.runtime.observability.event_loop import EventLoopMonitor
from konverge.runtime.observability.failures import FailureObserver
from konverge.runtime.reconcile.threads import Threads
from konverge.tasks import Broadcast, Slice

if TYPE_CHECKING:
    from konverge.client.tracing import Tracing

__all__ = ["ManagerServices", "ReconcileServices", "field_manager"]


def field_manager(manager: str, suffix: str) -> str:
    """Return the field manager of a controller that declared this suffix for its status, or none."""
    return f"{manager}.{suffix}" if suffix else manager


class ManagerServices(msgspec.Struct, frozen=True, kw_only=True):
    """The services that all controllers of a manager share; the manager creates them when it starts."""

    manager: str
    client: Client
    informers: InformerSet
    metrics: Metrics
    random: Random
    events: EventRecorder
    event_loop: EventLoopMonitor | None
    """None if the loop is not watched."""
    slice: Slice | None = None
    """Limits how long reconciles begin within one iteration of the loop; None if the loop's time is virtual."""
    namespace: str | None
    """The namespace that is watched; None for the whole cluster."""
    strict: bool
    """Whether a malformed condition raises an error instead of being cut."""
    drain: float
    """Seconds that running reconciles have when the manager stops."""
    term: Term
    """Whether this process leads, and so may write."""
    fence: Fence | None = None
    """Refuses the writes of the client while this process does not lead; None for a client that always writes."""
    readiness: Broadcast = msgspec.field(default_factory=Broadcast)
    """Notified when the report of a controller may have changed."""
    claims: Claims = msgspec.field(default_factory=Claims)
    """Which controller applies which child."""
    field_managers: dict[str, str] = msgspec.field(default_factory=dict)
    """The field manager of each controller."""
    undone: UndoneApplies = msgspec.field(default_factory=UndoneApplies)
    """Which applies had to be sent again, since another writer undid them."""
    wall_clock: Callable[[], datetime] = wall_clock
    observer: FailureObserver | None = None
    """Receives contained exceptions; None in production."""
    reorder: Reorder | None = None
    """Reorders the lists of a cache; None in production."""
    gates: ObjectGates | None = None
    """Returns the gate of a controller's objects; None if this process reconciles every object."""
    tap: Tap | None = None
    """Records the reconciles; None without a recording."""
    tracing: Tracing | None = None
    """Opens the spans of requests and reconciles; None without tracing."""


class ReconcileServices(msgspec.Struct, frozen=True, kw_only=True):
    """The services of one controller; each of its reconciles works with them."""

    controller: str
    kind: Kind[Any]
    manager: str
    """The field manager of this controller's writes."""
    client: Client
    caches: Caches
    applier: Applier
    claims: Claims
    field_managers: Mapping[str, str]
    """The field managers of all controllers, by their names."""
    events: EventRecorder
    own_versions: OwnVersions
    created_children: LruDict[Key, Mapping[Key, float]]
    """The children that were created last, with the loop's time of their creation, by owner."""
    threads: Threads
    wall_clock: Callable[[], datetime]
    serves: Callable[[Kind[Any]], bool]
    """Whether a declared kind is served and its cache complete."""
    may_read_live: Callable[[Kind[Any], Literal["get", "list"]], bool]
    """Whether the declaration gives the right to get or list a kind."""
    strict: bool
    watched: frozenset[str]
    """The kinds that the controller watches and does not own, by `group_kind`."""
    owned: frozenset[Kind[Any]]
    filtered: frozenset[Kind[Any]]
    """Owned kinds whose events enqueue nothing if they show only own applies."""
    partial: Mapping[Kind[Any], Selection]
    """The kinds whose cached objects are not the stored objects; nearly always empty."""
    statuses: Mapping[Kind[Any], str]
    """Field managers of other kinds whose status this controller writes too."""
    observer: FailureObserver | None = None

    def watches(self, kind: Kind[Any]) -> bool:
        """Whether the controller watches a kind that it does not own."""
        return kind.group_kind in self.watched

    def refused_get(self, kind: Kind[Any], word: str) -> str:
        """Return why the controller must not get a kind live, "" if it may; `word` is how its code names the kind."""
        if self.may_read_live(kind, "get"):
            return ""
        return (
            f"controller {self.controller!r} reads {kind.group_kind} live, which its .reads_live(...) does not name, so "
            f"konverge rbac gives no right to get it: declare .reads_live({word})"
        )

    def refused_list(self, kind: Kind[Any]) -> str:
        """Return why the controller must not list a kind live, "" if it may."""
        if self.may_read_live(kind, "list"):
            return ""
        return (
            f"controller {self.controller!r} lists {kind.group_kind} live, and .reads_live(...) gives the right to get alone: "
            f"declare .needs(Rule({kind.group!r}, ({plural_of(kind)!r},), ('list',)))"
        )
