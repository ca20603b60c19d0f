"""The instances of a shard: they boot, drain and end, in the time of the loop.

A drain begins with an event and a timer; an acknowledgement or the timer ends it, and the instance is deleted. An instance without a
provider id drains without an event, as on the real server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Final

from konverge.clock import wall_clock

__all__ = ["DELETED", "DELETING", "PENDING", "RUNNING", "Drain", "Fleet", "Instance", "Pace"]

PENDING: Final = "pending"
RUNNING: Final = "running"
DELETING: Final = "deleting"
DELETED: Final = "deleted"


@dataclass(frozen=True, slots=True)
class Drain:
    """A drain in progress."""

    started: datetime
    delete_at: datetime
    reason: str


@dataclass(eq=False)
class Instance:
    """One instance; managed instances count towards the size of their group, others were created on demand."""

    id: str
    tenant: str
    group: str
    managed: bool
    created_at: datetime
    provider_id: str = ""
    status: str = PENDING
    drain: Drain | None = None
    last_drain: Drain | None = None
    """The last drain that began, also if it has ended or was forgotten."""
    reason: str = ""

    @property
    def counts(self) -> bool:
        """Whether it counts towards its group's size: a draining instance is replaced before it is deleted."""
        return self.managed and self.status in {PENDING, RUNNING} and self.drain is None


@dataclass
class Pace:
    """How long the steps of an instance take, in seconds."""

    boot: float = 30.0
    delete: float = 10.0
    drain_timeout: float = 300.0
    """The timeout of groups without their own; 0: instances are deleted without a drain."""
    drain_timeouts: dict[str, float] = field(default_factory=dict)
    """By group."""


class Fleet:
    """All instances of a shard.

    `draining` and `gone` are called when a drain begins and when an instance was deleted.
    """

    def __init__(
        self, *, random: Random, pace: Pace, draining: Callable[[Instance], None], gone: Callable[[Instance], None]
    ) -> None:
        self.instances: dict[str, Instance] = {}
        self.pace = pace
        self.room = 10_000
        """How many instances of a group the cloud has room for; the rest of a larger group is not created."""
        self._random = random
        self._draining = draining
        self._gone = gone
        self._timers: set[asyncio.TimerHandle] = set()

    def create(self, tenant: str, group: str, *, managed: bool, id: str = "") -> Instance:  # noqa: A002  # the word of the protocol
        """Create an instance; it runs after `pace.boot`. An existing instance with the same id is returned unchanged."""
        if id in self.instances:
            return self.instances[id]
        instance = Instance(id or f"knc{self._random.getrandbits(80):020x}", tenant, group, managed, wall_clock())
        self.instances[instance.id] = instance
        self._later(self.pace.boot, lambda: self._boot(instance))
        return instance

    def scale(self, tenant: str, group: str, size: int) -> None:
        """Create or drain instances of a group, the oldest first, until `size` of them count, as far as the cloud has room."""
        alive = self.counting(tenant, group)
        for _ in range(min(size, self.room) - len(alive)):
            self.create(tenant, group, managed=True)
        for item in alive[: max(len(alive) - size, 0)]:
            self.drain(item, "scale-down")

    def counting(self, tenant: str, group: str) -> list[Instance]:
        """Return the instances that count towards a group's size, the oldest first."""
        return [
            instance
            for instance in self.instances.values()
            if (instance.tenant, instance.group) == (tenant, group) and instance.counts
        ]

    def replace(self, id: str, reason: str) -> None:  # noqa: A002  # the word of the protocol
        """Create a successor of a managed instance, and drain it once the successor runs."""
        old = self.instances[id]
        old.managed = False
        successor = self.create(old.tenant, old.group, managed=True)
        self._later(self.pace.boot, lambda: self.drain(old, reason) if successor.status == RUNNING else None)

    def drain(self, instance: Instance, reason: str) -> None:
        """Begin the drain of an instance; without a drain timeout it is deleted at once."""
        if instance.drain is not None or instance.status in {DELETING, DELETED}:
            return
        timeout = self.pace.drain_timeouts.get(instance.group, self.pace.drain_timeout)
        if timeout <= 0 or instance.status != RUNNING:
            self.delete(instance, reason)
            return
        now = wall_clock()
        begun = instance.drain = instance.last_drain = Drain(now, now + timedelta(seconds=timeout), reason)
        self._later(timeout, lambda: self.delete(instance, reason) if instance.drain is begun else None)
        if instance.provider_id:
            self._draining(instance)

    def draining(self, tenant: str) -> list[Instance]:
        """Return the instances of a tenant that are draining."""
        results = [
            instance for instance in self.instances.values() if instance.tenant == tenant and instance.drain is not None
        ]
        return [item for item in results if item.status not in {DELETING, DELETED}]

    def acknowledge(self, instance: Instance) -> None:
        """End a drain: the instance is deleted now."""
        if instance.drain is not None:
            self.delete(instance, instance.drain.reason)

    def delete(self, instance: Instance, reason: str = "") -> None:
        """Delete an instance; the deletion takes `pace.delete`."""
        if instance.status not in {DELETING, DELETED}:
            instance.status, instance.reason = DELETING, reason
            self._later(self.pace.delete, lambda: self._delete(instance))

    def forget_drains(self) -> None:
        """Forget the drains in progress: their instances continue to run."""
        for instance in self.instances.values():
            if instance.status == RUNNING:
                instance.drain = None

    def close(self) -> None:
        """Stop all timers."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def _boot(self, instance: Instance) -> None:
        if instance.status == PENDING:
            instance.status, instance.provider_id = RUNNING, f"i-{self._random.getrandbits(64):016x}"

    def _delete(self, instance: Instance) -> None:
        instance.status, instance.drain = DELETED, None
        self._gone(instance)

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        def run() -> None:
            self._timers.discard(timer)
            act()

        timer = asyncio.get_running_loop().call_later(seconds, run)
        self._timers.add(timer)
