"""The resources that the controllers of a manager share, each as a part."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from itertools import chain

from konverge.client import Client, ClientConfig, ClientSettings
from konverge.informers import InformerSet, InformerSettings
from konverge.runtime.hooks.leadership import Term
from konverge.runtime.observability.event_loop import EventLoopMonitor
from konverge.runtime.parts.core import Core
from konverge.runtime.parts.part import ManagerPart
from konverge.runtime.parts.start_checks import field_managers

__all__ = ["ApiClient", "Informers", "SharedConnections", "EventLoop", "Events"]


class SharedConnections(ManagerPart):
    """The connections that reconcilers share: they close after everything else."""

    def __init__(self) -> None:
        self.closes: list[Callable[[], Awaitable[None]]] = []

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Close the connections at the end."""
        async with AsyncExitStack() as stack:
            for close in self.closes:
                stack.push_async_callback(close)
            yield


class ApiClient(ManagerPart):
    """The client of the API server. Without an election this process always leads."""

    def __init__(self, core: Core, settings: ClientSettings) -> None:
        self._core = core
        self._settings = settings

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Load the configuration if none was given, and open the client."""
        core = self._core
        core.config = core.config or await ClientConfig.load()
        with nullcontext(core.config) if core.tap is None else core.tap.open(core.config) as config:
            async with Client(
                config,
                name=core.name,
                settings=self._settings,
                metrics=core.metrics,
                random=core.random,
                tracing=core.tracing,
            ) as client:
                core.client = core.leader_client = client
                core.term = Term(leads=True)
                yield


class Events(ManagerPart):
    """The recorders of Events: one writes while this process leads, the other on every replica."""

    def __init__(self, core: Core) -> None:
        self._core = core

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Open the recorders; each writes its waiting Events before it closes, within the limit of its settings."""
        core = self._core
        async with AsyncExitStack() as stack:
            core.events = core.unfenced_events = await stack.enter_async_context(core.recorder(core.leader_client))
            if core.plugged.leadership is not None:
                core.unfenced_events = await stack.enter_async_context(core.recorder(core.client))
            yield


class Informers(ManagerPart):
    """The informers. Their caches show the fields of every field manager of this process."""

    def __init__(self, core: Core, settings: InformerSettings) -> None:
        self._core = core
        self._settings = settings

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Open the set of informers."""
        core = self._core
        writers = (field_managers(core.name, controller) for controller in core.controllers.values())
        core.field_managers = frozenset({core.name, *chain.from_iterable(writers)})
        async with InformerSet(
            core.client,
            settings=self._settings,
            metrics=core.metrics,
            managers=core.field_managers,
            random=core.random,
        ) as core.informers:
            yield


class EventLoop(ManagerPart):
    """The monitor of the event loop, which reports stalls."""

    def __init__(self, core: Core, *, stall_seconds: float, lease_seconds: float) -> None:
        self._core = core
        self._stall_seconds = stall_seconds
        self._lease_seconds = lease_seconds

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Watch the event loop."""
        core, loop = self._core, asyncio.get_running_loop()
        with EventLoopMonitor(
            loop, core.metrics, threshold=self._stall_seconds, lease_seconds=self._lease_seconds
        ) as monitor:
            core.event_loop = monitor if monitor.enabled else None
            yield
