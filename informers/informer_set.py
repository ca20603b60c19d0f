"""All informers of one manager, shared by reference count.

Guarantees: equal selections share one informer, which lives from the first `acquire` to the last `release`. The set owns all tasks of its
informers; the exit of its `async with` block cancels them and waits for their end. The informers share one `Slice` of time and one
`WatchListDenylist`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from random import Random
from types import TracebackType
from typing import Any, Protocol, Self

from konverge.errors import UsageError
from konverge.informers.informer import Informer
from konverge.informers.reflector import Api, WatchListDenylist
from konverge.informers.settings import InformerSettings, Selection
from konverge.logs import get_logger
from konverge.metrics import Metrics
from konverge.tasks import Slice
from konverge.words import LogKey

__all__ = ["InformerSet", "NamedApi"]

_LOG = get_logger("konverge.informers")


class NamedApi(Api, Protocol):
    """The part of a client that a set of informers calls."""

    @property
    def name(self) -> str:
        """The manager's name, the value of the metric label `name`."""


class InformerSet:
    """The informers of one manager. Enter it before acquiring.

    `managers` are the field managers whose applied field sets are kept beside the objects; `random` decides jitter.

    >>> async with InformerSet(client, random=Random()) as informers:     # doctest: +SKIP
    ...     secrets = informers.acquire(Selection(SECRET, metadata_only=True))
    ...     await secrets.wait_synced()
    """

    def __init__(
        self,
        client: NamedApi,
        *,
        settings: InformerSettings | None = None,
        metrics: Metrics | None = None,
        managers: frozenset[str] = frozenset(),
        random: Random,
    ) -> None:
        self._client = client
        self._settings = settings if settings is not None else InformerSettings()
        self._metrics = metrics if metrics is not None else Metrics()
        self._managers = managers
        self._random = random
        self._denylist = WatchListDenylist(self._settings.watch_list_retry)
        self._share = Slice(self._settings.slice)
        # The started informers; each has at least one user.
        self._informers: dict[Selection, Informer] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._open = False

    async def __aenter__(self) -> Self:
        self._open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open = False
        for informer in self._informers.values():
            informer.stop()
        self._informers.clear()
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    def acquire(self, selection: Selection, *, optional: bool = False) -> Informer:
        """Return the informer of this selection, and start it if it is new; `release` gives it back.

        `optional`: this user can do without the kind. If all users can, no warning is logged while the kind was never served.

        Raises UsageError outside the set's `async with` block.
        """
        if not self._open:
            raise UsageError("an InformerSet starts informers only inside its `async with` block; enter it first")
        informer = self._informers.get(selection)
        if informer is None:
            informer = self._informers[selection] = Informer(
                selection,
                api=self._client,
                name=self._client.name,
                settings=self._settings,
                metrics=self._metrics,
                managers=self._managers,
                denylist=self._denylist,
                share=self._share,
                random=self._random,
            )
            informer.start(self._spawn)
        informer.users += 1
        informer.optional_users += optional
        return informer

    def release(self, informer: Informer, *, optional: bool = False) -> None:
        """Give an informer back, as it was acquired; it stops after the last release. No-op after the end of the block."""
        if not self._open:
            return
        if self._informers.get(informer.selection) is not informer:
            raise UsageError(f"the informer of {informer.selection} was released more often than it was acquired")
        informer.users -= 1
        informer.optional_users -= optional
        if not informer.users:
            del self._informers[informer.selection]
            informer.stop()

    def informers(self) -> list[Informer]:
        """Return the informers that are in use."""
        return list(self._informers.values())

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _LOG.error("a task of an informer failed", exc_info=task.exception(), **{LogKey.ERROR: task.get_name()})
