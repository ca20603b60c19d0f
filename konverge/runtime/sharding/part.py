"""Sharding as a part of a manager: the ring, the services of controllers whose objects replicas share, and the coordinator."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, TypeAlias

from msgspec.structs import replace

from konverge.client import Client
from konverge.errors import UsageError
from konverge.informers import Selection
from konverge.kinds import Kind
from konverge.rbac import Rule
from konverge.runtime.builder.builder import Controller
from konverge.runtime.election.leading import Leading
from konverge.runtime.events.recorder import EventRecorder
from konverge.runtime.hooks.leadership import Term
from konverge.runtime.hooks.object_gate import GatedController
from konverge.runtime.observability.readiness import Report
from konverge.runtime.parts.background import BackgroundServices, background_services, run_background
from konverge.runtime.parts.core import Core
from konverge.runtime.parts.part import ManagerPart
from konverge.runtime.reconcile.services import ManagerServices
from konverge.runtime.sharding.assigned import AssignedOwnership
from konverge.runtime.sharding.coordinator import Coordinator
from konverge.runtime.sharding.gate import ShardGate
from konverge.runtime.sharding.interface import ShardOwnership
from konverge.runtime.sharding.ordinal import OrdinalRing, OrdinalShares
from konverge.runtime.sharding.ownership import Ownership
from konverge.runtime.sharding.rights import rules_of_sharding
from konverge.runtime.sharding.ring import Ring
from konverge.runtime.sharding.settings import ShardingSettings
from konverge.tasks import cancel_and_wait

__all__ = ["Sharding", "trimmed_kinds"]

AnyRing: TypeAlias = Ring | OrdinalRing


class Sharding(ManagerPart):
    """Makes this replica a member of its ring. The shared controllers get services and gates of their own."""

    def __init__(self, core: Core, settings: ShardingSettings) -> None:
        self._core = core
        self._settings = settings
        self._services: ManagerServices | None = None
        self._ring: AnyRing | None = None
        self._leading: _Membership | None = None
        self._tasks: list[asyncio.Task[None]] = []
        core.plugged.services.append(self._services_of)

    def _services_of(self, controller: Controller[Any]) -> ManagerServices | None:
        return None if controller.family is None else self._services

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Follow the ring; at the end the member's Lease is released after its last Event."""
        core = self._core
        assert core.services is not None
        async with AsyncExitStack() as stack:
            ring = self._ring = await self._open_ring(stack)
            client = core.client.fenced_by(ring.fence)
            stack.push_async_callback(client.close)
            events = await stack.enter_async_context(core.recorder(client))
            if isinstance(ring, Ring):
                ring.lease_events.reports_to(events)
            ownership = _ownership(ring, client, events, core)
            core.plugged.owner_of = ownership.owns
            stack.push_async_callback(ownership.close)
            await stack.enter_async_context(ring.following(core.informers))
            term = Term()
            self._services = replace(
                core.services,
                client=client,
                events=events,
                term=term,
                fence=ring.fence,
                gates=partial(_gate, ownership, trimmed_kinds(ring, core)),
            )
            self._leading = _Membership(ring, term, core.readiness)
            core.plugged.leads.append(self._leading.leads)
            try:
                yield
            finally:
                self._services, core.plugged.owner_of = None, None
                await cancel_and_wait(*self._tasks)

    async def _open_ring(self, stack: AsyncExitStack) -> AnyRing:
        core, settings = self._core, self._settings
        assert core.config is not None
        controllers = core.controllers.values()
        if all(controller.family is None for controller in controllers):
            names = ", ".join(controller.name for controller in controllers) or "none"
            raise UsageError(
                f"manager {core.name!r} has sharding, and no controller whose objects replicas can share (controllers: {names}): "
                "declare one with .sharded(), or set sharding.mode=leader"
            )
        if settings.mode == "ordinal":
            ordinals = OrdinalRing(core.config, settings, name=core.name, host=core.instance, metrics=core.metrics)
            stack.push_async_callback(ordinals.release)
            return ordinals
        ring = Ring(
            core.config,
            core.client,
            settings,
            name=core.name,
            host=core.instance,
            metrics=core.metrics,
            random=core.random,
        )
        return await stack.enter_async_context(ring)

    async def start(self) -> None:
        """Apply for membership, and coordinate the ring while this process leads."""
        core = self._core
        assert self._leading is not None
        assert core.services is not None
        self._spawn(self._leading.run(), "shard membership")
        ring = self._ring
        if isinstance(ring, Ring) and ring.replica:
            work = partial(_coordinate, ring, self._shared_selections(), core)
            for gauge in (core.metrics.shard_unowned, core.metrics.shard_unowned_age):
                gauge.labels(name=core.name)  # at 0 on each replica, even if it never leads
            given = background_services(core, core.services)
            self._spawn(run_background("shard coordinator", work, given, core.services.term), "shard coordinator")

    def _spawn(self, work: Any, name: str) -> None:
        self._tasks.append(asyncio.create_task(work, name=f"konverge {name} {self._core.name}"))

    def _shared_selections(self) -> dict[Selection, Any]:
        assert self._services is not None
        namespace = self._services.namespace
        return {
            Selection(controller.kind, namespace, labels=controller.labels, metadata_only=True): controller.family
            for controller in self._core.controllers.values()
            if controller.family is not None
        }

    def tasks(self) -> Collection[asyncio.Task[None]]:
        """Return the tasks of the membership and of the coordinator."""
        return self._tasks

    async def drain(self) -> None:
        """Mark this member as draining, within a second: it takes no further object."""
        if self._ring is not None:
            await self._ring.drain()

    def rules(self) -> tuple[Rule, ...]:
        """Return the rights on the members' Leases and on the stamped objects."""
        return rules_of_sharding(self._settings, self._core.controllers.values())

    def report(self) -> Report:
        """Return whether this replica is a member of its ring."""
        return Report(() if self._leading is None or self._services is None else (self._leading.report(),))


class _Membership(Leading):
    """The terms of this replica as a member of its ring."""

    name = "shard-ring"

    def _leads_note(self) -> str:
        return f"this process is {self.leadership.holder()}"

    def _waits_note(self) -> str:
        return "is not a member yet"


def _gate(ownership: ShardOwnership, trimmed: Collection[Kind[Any]], host: GatedController) -> ShardGate:
    return ShardGate(ownership, host, trimmed=trimmed)


def _ownership(ring: AnyRing, client: Client, events: EventRecorder, core: Core) -> ShardOwnership:
    if isinstance(ring, OrdinalRing):
        return OrdinalShares(ring)
    kind = AssignedOwnership if ring.replica else Ownership
    return kind(ring, client, events, core.metrics, manager=core.name)


async def _coordinate(ring: Ring, shared: dict[Selection, Any], core: Core, given: BackgroundServices) -> None:
    await Coordinator(ring, shared, client=given.client, informers=core.informers, metrics=given.metrics).run()


def trimmed_kinds(ring: AnyRing, core: Core) -> frozenset[Kind[Any]]:
    """Return the kinds whose objects this replica caches whole only if it owns them.

    A kind that another part of the manager reads is left out, since the manager would watch its objects a second time. With a
    coordinator the caches hold only own objects; in the mode `ordinal` no event would fetch the whole of a gained object.
    """
    if not isinstance(ring, Ring) or ring.replica:
        return frozenset()
    shared, unshared = _kinds(core.controllers.values(), shared=True), _kinds(core.controllers.values(), shared=False)
    return shared - unshared - core.kinds_read_elsewhere()


def _kinds(controllers: Iterable[Controller[Any]], *, shared: bool) -> frozenset[Kind[Any]]:
    return frozenset(controller.kind for controller in controllers if (controller.family is not None) == shared)
