"""The services of a controller for the gate of its objects."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from typing import Any

from konverge.keys import Key
from konverge.kinds import Kind
from konverge.objects import Metadata
from konverge.runtime.builder.builder import Controller
from konverge.runtime.consistency.own_writes import StalenessBarrier
from konverge.runtime.controller.own_functions import Priorities
from konverge.runtime.controller.watches import ControllerWatches
from konverge.runtime.reconcile.services import ManagerServices
from konverge.words import Why
from konverge.workqueue import WorkQueue

__all__ = ["GateHost"]


class GateHost:
    """A `GatedController`."""

    def __init__(
        self,
        spec: Controller[Any],
        shared: ManagerServices,
        queue: WorkQueue[Key],
        *,
        watches: ControllerWatches,
        barrier: StalenessBarrier,
        priorities: Priorities | None,
        enqueue_where: Callable[[Callable[[Metadata], bool]], Awaitable[None]],
    ) -> None:
        self._spec = spec
        self._shared = shared
        self._queue = queue
        self._watches = watches
        self._barrier = barrier
        self._priorities = priorities
        self._enqueue_where = enqueue_where

    @property
    def name(self) -> str:
        """The controller's name, unique in its manager."""
        return self._spec.name

    @property
    def kind(self) -> Kind[Any]:
        """The controller's own kind."""
        return self._spec.kind

    @property
    def family(self) -> Callable[[Metadata], str]:
        """Returns the family of an object."""
        assert self._spec.family is not None
        return self._spec.family

    @property
    def reads_own_kind(self) -> bool:
        """Whether the controller watches or indexes its own kind."""
        spec = self._spec
        return spec.kind in {watch.kind for watch in spec.watched} | {index.kind for index in spec.indexed}

    @property
    def reads_others(self) -> bool:
        """Whether the controller owns or watches another kind."""
        return bool(self._spec.owned or self._spec.watched)

    def writer(self, key: Key) -> Hashable:
        """Return the writer of a key."""
        return self._barrier.writer(key)

    def enqueue(self, key: Key) -> None:
        """Enqueue a key."""
        reason = Why.OWNER_CHANGED
        priority = 0 if self._priorities is None else self._priorities.of(key, reason)
        self._queue.add(key, reason=reason, priority=priority)

    async def enqueue_where(self, chosen: Callable[[Metadata], bool]) -> None:
        """Enqueue the cached objects that are chosen, and count the objects again."""
        await self._enqueue_where(chosen)

    async def caught_up(self) -> None:
        """Wait until the caches show every write that was stored before this call."""
        await self._watches.caught_up(self._shared.client, self._shared.metrics)
