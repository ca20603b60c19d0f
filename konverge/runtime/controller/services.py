"""The services of one controller, derived from its declaration and its manager's services."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from konverge.informers import Selection
from konverge.kinds import Kind
from konverge.runtime.apply.applier import Applier, LruDict
from konverge.runtime.apply.rivals import Rivals
from konverge.runtime.builder.builder import Controller
from konverge.runtime.builder.rules import may_read_live
from konverge.runtime.builder.watched import Watched
from konverge.runtime.cache.readers import Caches
from konverge.runtime.consistency.own_writes import OwnVersions
from konverge.runtime.reconcile.services import ManagerServices, ReconcileServices, field_manager
from konverge.runtime.reconcile.threads import Threads

__all__ = ["services_of"]

_OWNERS: Final = 4096
"""The number of owners whose last created children a controller remembers."""


def services_of(
    spec: Controller[Any], shared: ManagerServices, *, caches: Caches, serves: Callable[[Kind[Any]], bool]
) -> ReconcileServices:
    """Create the services of one controller from its manager's."""
    now = asyncio.get_running_loop().time
    manager = shared.field_managers[spec.name] = field_manager(shared.manager, spec.status_suffix)
    rivals = Rivals(
        shared.client,
        shared.undone,
        controller=spec.name,
        metrics=shared.metrics,
        now=now,
        observer=shared.observer,
    )
    for source in spec.owned:  # at 0 from the start, since a rate shows no first event of a series that begins with it
        shared.metrics.applies_undone.labels(controller=spec.name, kind=source.kind.kind)
    return ReconcileServices(
        controller=spec.name,
        kind=spec.kind,
        manager=manager,
        client=shared.client,
        caches=caches,
        applier=Applier(
            shared.client,
            controller=spec.name,
            metrics=shared.metrics,
            now=now,
            rivals=rivals,
            metadata_only=frozenset(owned.kind for owned in spec.owned if owned.metadata_only),
        ),
        claims=shared.claims,
        field_managers=shared.field_managers,
        events=shared.events,
        own_versions=OwnVersions(),
        created_children=LruDict(_OWNERS),
        threads=Threads(spec.name, spec.numbers.concurrency),
        wall_clock=shared.wall_clock,
        serves=serves,
        may_read_live=partial(may_read_live, spec),
        strict=shared.strict,
        watched=frozenset(watched.kind.group_kind for watched in spec.watched),
        owned=frozenset(owned.kind for owned in spec.owned),
        filtered=frozenset(owned.kind for owned in spec.owned if not owned.own_writes),
        partial=_partial_kinds(spec),
        statuses={kind: field_manager(shared.manager, suffix) for kind, suffix in spec.statuses},
        observer=shared.observer,
    )


def _partial_kinds(spec: Controller[Any]) -> dict[Kind[Any], Selection]:
    """Return the kinds whose cached objects are not the stored objects; a kind that is owned has the children's cache."""
    own = Watched(spec.kind, metadata_only=spec.metadata_only, dropped=spec.dropped)
    caches = {watch.kind: watch for watch in (*spec.watched, own, *spec.owned)}
    return {kind: watch.selection(None) for kind, watch in caches.items() if watch.partial}
