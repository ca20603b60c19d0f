"""Sharding as a part of a manager: the ring, the services of its controllers, and the election that is left beside it."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from random import Random
from typing import Any, TypeAlias

from konverge.client import Client, ClientConfig
from konverge.errors import UsageError
from konverge.informers import Selection
from konverge.kinds import Kind
from konverge.metrics import Metrics
from konverge.runtime.admission.webhook import Webhook
from konverge.runtime.builder.builder import Controller
from konverge.runtime.election.leadership import Turn
from konverge.runtime.election.settings import ElectionSettings
from konverge.runtime.events.recorder import EventRecorder
from konverge.runtime.manager.background import BackgroundServices, BackgroundWork
from konverge.runtime.manager.leading import Leading
from konverge.runtime.manager.settings import ManagerSettings
from konverge.runtime.reconcile.services import ManagerServices
from konverge.runtime.sharding.assigned import AssignedOwnership
from konverge.runtime.sharding.coordinator import Coordinator
from konverge.runtime.sharding.interface import ShardOwnership
from konverge.runtime.sharding.ordinal import OrdinalRing, OrdinalShares
from konverge.runtime.sharding.ownership import Ownership
from konverge.runtime.sharding.ring import Ring

__all__ = [
    "AnyRing",
    "RingMember",
    "coordination",
    "election_settings",
    "join_ring",
    "open_ring",
    "renew_seconds",
    "trimmed_kinds",
]


AnyRing: TypeAlias = Ring | OrdinalRing


@dataclass(frozen=True, slots=True)
class RingMember:
    """The part that a manager takes in its ring."""

    ownership: ShardOwnership
    services: ManagerServices
    """The services of the controllers whose objects replicas share."""
    leading: Leading


def election_settings(
    settings: ManagerSettings, controllers: Collection[Controller[Any]], *, background: bool
) -> ElectionSettings:
    """Return how a leader is elected: with sharding, for the controllers and the background work that are not shared alone."""
    if settings.sharding.mode == "leader":
        return replace(settings.election, enabled=True)
    if not settings.sharding.enabled:
        return settings.election
    coordinated = settings.sharding.mode == "coordinator"
    led = coordinated or background or any(one.elected and one.family is None for one in controllers)
    return replace(settings.election, enabled=led)


def renew_seconds(settings: ManagerSettings) -> float:
    """Return for how long the event loop may be blocked before a lease is lost; 0 without one."""
    if settings.sharding.mode in ("hash", "coordinator"):
        return settings.sharding.renew_seconds
    elects = settings.election.enabled or settings.sharding.mode != "off"
    return settings.election.renew_seconds if elects else 0.0


async def open_ring(
    stack: contextlib.AsyncExitStack,
    config: ClientConfig,
    client: Client,
    settings: ManagerSettings,
    controllers: Collection[Controller[Any]],
    *,
    host: str,
    metrics: Metrics,
    random: Random,
) -> AnyRing | None:
    """Return the ring in which this replica takes part; its Lease is released when all that is opened after it has ended."""
    if not settings.sharding.enabled:
        return None
    if all(one.family is None for one in controllers):
        there = ", ".join(one.name for one in controllers) or "none"
        raise UsageError(
            f"manager {client.name!r} has sharding, and no controller whose objects replicas can share (controllers: {there}): "
            "declare one with .sharded(), or set sharding.mode=leader"
        )
    if settings.sharding.mode == "ordinal":
        ordinals = OrdinalRing(config, settings.sharding, name=client.name, host=host, metrics=metrics)
        stack.push_async_callback(ordinals.release)
        return ordinals
    ring = Ring(config, client, settings.sharding, name=client.name, host=host, metrics=metrics, random=random)
    return await stack.enter_async_context(ring)


def trimmed_kinds(
    ring: AnyRing, controllers: Collection[Controller[Any]], webhooks: Iterable[Webhook[Any]]
) -> frozenset[Kind[Any]]:
    """Return the kinds of which this replica needs to cache whole only the objects that it owns.

    Not a kind whose objects are also read by another part of the manager: it would watch them a second time for that. With a coordinator
    the caches hold no other objects, and by ordinals an object that is gained has no event that brings it whole.
    """
    if not isinstance(ring, Ring) or ring.replica:
        return frozenset()
    shared = {one.kind for one in controllers if one.family is not None}
    unshared = {one.kind for one in controllers if one.family is None}
    others = {
        *(watch.kind for one in controllers for watch in (*one.owned, *one.watched) if not watch.metadata_only),
        *(index.kind for one in controllers for index in one.indexed),
        *(read.kind for webhook in webhooks for read in webhook.read if not read.metadata_only),
    }
    return frozenset(shared - unshared - others)


async def join_ring(
    stack: contextlib.AsyncExitStack,
    ring: AnyRing,
    services: ManagerServices,
    client: Client,
    *,
    instance: str,
    trimmed: frozenset[Kind[Any]],
) -> RingMember:
    """Follow the ring, and return the services of the controllers whose objects replicas share."""
    fenced = client.fenced_by(ring.fence)
    stack.push_async_callback(fenced.close)
    recorder = EventRecorder(
        fenced, controller=services.manager, instance=instance, metrics=services.metrics, random=services.random
    )
    events = await stack.enter_async_context(recorder)
    if isinstance(ring, Ring):
        ring.lease_events.reports_to(events)
    ownership: ShardOwnership
    if isinstance(ring, OrdinalRing):
        ownership = OrdinalShares(ring)
    elif ring.replica:
        ownership = AssignedOwnership(ring, fenced, events, services.metrics, manager=services.manager)
    else:
        ownership = Ownership(ring, fenced, events, services.metrics, manager=services.manager)
    stack.push_async_callback(ownership.close)
    await stack.enter_async_context(ring.following(services.informers))
    turn = Turn()
    shared = replace(
        services,
        client=fenced,
        events=events,
        turn=turn,
        fence=ring.fence,
        ownership=ownership,
        trimmed=trimmed,
    )
    return RingMember(ownership, shared, Leading(ring, turn, services.readiness))


def coordination(
    ring: AnyRing | None, services: ManagerServices, controllers: Iterable[Controller[Any]]
) -> BackgroundWork | None:
    """Return the work of the elected replica for those that share the objects of these controllers; None without a coordinator."""
    if not isinstance(ring, Ring) or not ring.replica:
        return None
    shared = {
        Selection(one.kind, services.namespace, labels=one.labels, metadata_only=True): one.family
        for one in controllers
        if one.family is not None
    }

    for gauge in (services.metrics.shard_unowned, services.metrics.shard_unowned_age):
        gauge.labels(name=services.manager)  # at 0 on each replica, whether it ever leads

    async def coordinate(given: BackgroundServices) -> None:
        await Coordinator(ring, shared, client=given.client, informers=services.informers, metrics=given.metrics).run()

    return coordinate
