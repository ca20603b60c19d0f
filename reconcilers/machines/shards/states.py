"""The last listing of each shard, and the objects that are reconciled when it changes. It receives the events of the sessions, and never
blocks.

Guarantees: a listing counts only in its own term of leadership. A change of a group wakes only its followers. A group that we deleted does
not reappear from a listing that was under way at that time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from konverge.clock import wall_clock
from konverge.keys import Key
from konverge.logs import get_logger
from konverge.reconcilers.machines.drains.running import RunningDrains
from konverge.reconcilers.machines.metrics import MachineMetrics
from konverge.reconcilers.machines.shards.failures import ShardFailure
from konverge.reconcilers.machines.shards.messages import DrainEvent, Group, ProviderFailure
from konverge.reconcilers.machines.words import MachinesController
from konverge.words import LogKey

__all__ = ["GroupView", "ShardStates"]

_DRAIN: Final = timedelta(minutes=5)
"""The limit of a drain whose event has no time."""

_MOST_ERRORS: Final = 8
"""The number of errors of the provider about one group on one shard that wait for their event."""

Place = tuple[str, str]
"""Shard and group."""


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group on a shard, as it was last shown."""

    known: bool
    """Whether the document names the shard."""
    problem: str = ""
    """The reason why the shard is unreachable; "": it is reachable."""
    listed: Group | None = None
    """None: the shard does not have the group, or has listed nothing yet."""


class ShardStates:
    """The listings of all shards in this term of leadership; `settle` is the longest time in seconds that a listing is under way."""

    def __init__(self, metrics: MachineMetrics, *, settle: float, drains: RunningDrains) -> None:
        self.expected: tuple[str, ...] | None = None
        """The shards of the document, sorted; None before one was read."""
        self.cluster: Key | None = None
        """The NstanceCluster, which is reconciled whenever a group appears or disappears."""
        self._metrics = metrics
        self._settle = settle
        self._running = drains
        self._listings: dict[str, dict[str, Group]] = {}
        self._failures: dict[str, str] = {}
        self._deleted: dict[Place, float] = {}
        """The groups that we deleted, until a later listing of their shard shows the result."""
        self._errors: dict[Place, list[str]] = {}
        self._followers: dict[Place, set[Key]] = {}
        self._places: dict[Key, Place] = {}
        self._waiting: set[Key] = set()
        self._instances: dict[Place, Key] = {}
        self._instance_places: dict[Key, Place] = {}
        self._ended: dict[Place, str] = {}
        self._drains: dict[Place, tuple[str, datetime]] = {}
        self._enqueue: Callable[[str, Key], None] | None = None
        self._log = get_logger("konverge.machines")

    # --- terms and documents -------------------------------------------------------------------------------------------------

    def begin(self, enqueue: Callable[[str, Key], None]) -> None:
        """Begin a term of leadership, without any listing or event."""
        self._enqueue = enqueue
        for shard in self.expected or ():
            self._metrics.begin_shard(shard)

    def end(self) -> None:
        """End the term, and forget its listings and events."""
        self._enqueue = None
        for reported in (self._listings, self._failures, self._deleted, self._errors, self._ended, self._drains):
            reported.clear()
        for shard in self.expected or ():
            self._metrics.forget_shard(shard)

    def expect(self, shards: Collection[str]) -> None:
        """Take the shards of a new document; shards that it does not name are forgotten."""
        before, self.expected = self.expected or (), tuple(sorted(shards))
        self._wake_waiting()
        for shard in sorted(set(self.expected) - set(before)):
            self._metrics.begin_shard(shard)
            self._wake_all(shard)
        for shard in sorted(set(before) - set(self.expected)):
            self._listings.pop(shard, None)
            self._failures.pop(shard, None)
            self._running.forget(shard)
            self._metrics.forget_shard(shard)
            self._wake_all(shard)

    # --- reads ---------------------------------------------------------------------------------------------------------------

    @property
    def listings(self) -> Mapping[str, Collection[Group]]:
        """The last listing of each shard, if it has one."""
        return {shard: tuple(groups.values()) for shard, groups in self._listings.items()}

    @property
    def problems(self) -> Mapping[str, str]:
        """The unreachable shards of the document, and why."""
        return {shard: problem for shard in self.expected or () if (problem := self.problem(shard))}

    def problem(self, shard: str) -> str:
        """Return why a shard of the document is unreachable, "" if it is reachable."""
        if shard in self._failures:
            return self._failures[shard]
        return "" if shard in self._listings else "it was not reached yet"

    def places_for(self, group: str) -> tuple[str, ...]:
        """Return the reachable shards for a new instance: the shards that list the group, or all if no shard lists it."""
        reachable = tuple(shard for shard in self.expected or () if not self.problem(shard))
        return tuple(shard for shard in reachable if group in self._listings.get(shard, {})) or reachable

    def view(self, shard: str, group: str) -> GroupView:
        """Return a group on a shard."""
        if self.expected is None:
            return GroupView(known=True, problem="the document of shards was not read yet")
        if shard not in self.expected:
            return GroupView(known=False, problem="it is not in the document of shards")
        return GroupView(known=True, problem=self.problem(shard), listed=self._listings.get(shard, {}).get(group))

    @property
    def unsettled(self) -> frozenset[str]:
        """The groups that we deleted on a shard which has not listed its groups since: a static group stays on the server."""
        return frozenset(group for shard, group in self._deleted if shard in (self.expected or ()))

    def size_of(self, group: str) -> int | None:
        """Return the wanted size of a group over all shards of the document, None before each has listed its groups."""
        if self.expected is None or set(self.expected) - self._listings.keys():
            return None
        return sum(max(listed[group].size, 0) for listed in self._listings.values() if group in listed)

    def lacks(self, group: str) -> bool:
        """Tell whether each shard of the document has listed its groups, and none has the group."""
        if self.expected is None or set(self.expected) - self._listings.keys():
            return False
        return not any(group in listed for listed in self._listings.values())

    def take_error(self, shard: str, group: str) -> str:
        """Return the errors of the provider about a group on one shard since the last call, each once."""
        return "; ".join(self._errors.pop((shard, group), ()))

    # --- followers -----------------------------------------------------------------------------------------------------------

    def follow(self, key: Key, shard: str, group: str) -> None:
        """Reconcile this shard group whenever the group changes on the shard."""
        place = shard, group
        if self._places.get(key) != place:
            self.unfollow(key)
            self._places[key] = place
            self._followers.setdefault(place, set()).add(key)

    def unfollow(self, key: Key) -> None:
        """Follow no group for this key."""
        place = self._places.pop(key, None)
        if place is not None:
            self._followers[place].discard(key)
            if not self._followers[place]:
                del self._followers[place]
                self._errors.pop(place, None)

    def wait_for_all(self, key: Key) -> None:
        """Reconcile this pool if the document of shards changes, or a shard is reachable again."""
        self._waiting.add(key)

    # --- instances on demand ---------------------------------------------------------------------------------------------------

    def follow_instance(self, key: Key, shard: str, instance_id: str) -> None:
        """Reconcile this NstanceMachine if the server reports the end of its instance."""
        place = shard, instance_id
        if self._instance_places.get(key) != place:
            self.unfollow_instance(key)
            self._instance_places[key] = place
            self._instances[place] = key

    def unfollow_instance(self, key: Key) -> None:
        """Follow no instance for this key."""
        place = self._instance_places.pop(key, None)
        if place is not None and self._instances.get(place) == key:
            del self._instances[place]
            self._ended.pop(place, None)

    def instance_ended(self, shard: str, instance_id: str, reason: str) -> None:
        """Take the end of an instance; an instance that no NstanceMachine follows is ignored."""
        key = self._instances.get((shard, instance_id))
        if key is not None:
            self._ended[shard, instance_id] = reason
            if self._enqueue is not None:
                self._enqueue(MachinesController.MACHINE, key)

    def take_ended(self, shard: str, instance_id: str) -> str | None:
        """Return why an instance ended, once; None if no end was reported."""
        return self._ended.pop((shard, instance_id), None)

    def drains(self, provider_id: str) -> bool:
        """Tell whether an instance is being drained, and so still runs."""
        now = wall_clock()
        return any(drained == provider_id and now < end for drained, end in self._drains.values())

    def drain_ended(self, shard: str, instance_id: str) -> None:
        """Take the end of a drain: the instance is deleted, or is deleted now."""
        self._drains.pop((shard, instance_id), None)

    # --- our own calls -------------------------------------------------------------------------------------------------------

    def answered(self, shard: str, group: Group) -> None:
        """Take a group from the shard's response to our call; its followers know it already."""
        self._deleted.pop((shard, group.key), None)
        if shard in self._listings:
            self._listings[shard][group.key] = group

    def deleted(self, shard: str, group: str) -> None:
        """Forget a group that we have just deleted."""
        self._deleted[shard, group] = asyncio.get_running_loop().time()
        self._listings.get(shard, {}).pop(group, None)

    # --- what sessions report ------------------------------------------------------------------------------------------------

    def listed(self, shard: str, groups: tuple[Group, ...]) -> None:
        """Take all groups of a shard, which is reachable."""
        if shard not in (self.expected or ()):
            return
        oldest = asyncio.get_running_loop().time() - self._settle
        settled = [place for place, when in self._deleted.items() if place[0] == shard and when <= oldest]
        for place in settled:
            del self._deleted[place]
        shown = {group.key: group for group in groups if (shard, group.key) not in self._deleted}
        was_away, before = bool(self.problem(shard)), self._listings.get(shard, {})
        self._failures.pop(shard, None)
        self._listings[shard] = shown
        self._metrics.connected.labels(shard).set(1)
        self._metrics.listed.labels(shard).set(wall_clock().timestamp())
        if was_away:
            self._wake_all(shard)
            self._wake_waiting()
            return
        for name in before.keys() | shown.keys():
            if before.get(name) != shown.get(name):
                self._wake((shard, name))
        if settled or before.keys() != shown.keys():
            self.wake_cluster()

    def unreachable(self, shard: str, failure: ShardFailure) -> None:
        """Take the failure that made a shard unreachable."""
        if shard not in (self.expected or ()):
            return
        if shard not in self._failures:
            self._metrics.failures.labels(shard).inc()
        self._failures[shard] = failure.text
        self._metrics.connected.labels(shard).set(0)
        self._log.warning("a shard is unreachable", **{LogKey.NAME: shard, LogKey.ERROR: failure.text})
        self._wake_all(shard)

    def drain(self, shard: str, event: DrainEvent) -> None:
        """Take a change of an instance."""
        if event.status != "deleted":
            if event.provider_id:
                end = event.delete_at or wall_clock() + _DRAIN
                self._drains[shard, event.instance_id] = event.provider_id, end
            self._running.take(shard, event)
        else:
            self.drain_ended(shard, event.instance_id)
            self._running.deleted(shard, event.instance_id)
            self.instance_ended(shard, event.instance_id, event.reason)

    def provider_failed(self, shard: str, event: ProviderFailure) -> None:
        """Take an error of the provider: the shard group reports it, and without a group the log does."""
        if (shard, event.group) in self._followers:
            about = f" (instance {event.instance_id})" if event.instance_id else ""
            errors, error = self._errors.setdefault((shard, event.group), []), f"{event.error}{about}"
            if error not in errors and len(errors) < _MOST_ERRORS:
                errors.append(error)
            self._wake((shard, event.group))
        else:
            self._log.warning("the provider failed", **{LogKey.NAME: shard, LogKey.ERROR: event.error})

    # --- inside --------------------------------------------------------------------------------------------------------------

    def _wake(self, place: Place) -> None:
        if self._enqueue is not None:
            for key in self._followers.get(place, ()):
                self._enqueue(MachinesController.GROUP, key)

    def _wake_all(self, shard: str) -> None:
        for place in self._followers:
            if place[0] == shard:
                self._wake(place)
        self.wake_cluster()

    def _wake_waiting(self) -> None:
        waiting, self._waiting = self._waiting, set()
        if self._enqueue is not None:
            for key in waiting:
                self._enqueue(MachinesController.POOL, key)

    def wake_cluster(self) -> None:
        """Reconcile the operator's NstanceCluster."""
        if self._enqueue is not None and self.cluster is not None:
            self._enqueue(MachinesController.CLUSTER, self.cluster)
