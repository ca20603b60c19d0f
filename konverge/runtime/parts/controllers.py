"""The controllers of a manager as a part."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any

from msgspec.structs import replace

from konverge.rbac import Rule
from konverge.runtime.builder.builder import Controller
from konverge.runtime.builder.rules import rules_of
from konverge.runtime.controller.runner import ControllerRunner
from konverge.runtime.hooks.leadership import Term
from konverge.runtime.observability.readiness import ControllerReport, Report, State
from konverge.runtime.parts.core import Core
from konverge.runtime.parts.part import ManagerPart
from konverge.runtime.parts.start_checks import check_controller, check_running
from konverge.runtime.reconcile.services import ManagerServices
from konverge.tasks import Slice

__all__ = ["Controllers"]


class Controllers(ManagerPart):
    """Runs the declared controllers, each in one task. `drain` are the seconds of running reconciles at the end."""

    def __init__(self, core: Core, *, namespace: str | None, strict: bool, drain: float) -> None:
        self._core = core
        self._namespace = namespace
        self._strict = strict
        self._drain = drain
        self._stopping = False
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def add(self, controller: Controller[Any]) -> None:
        """Declare a controller, and start it if the manager runs. Raises UsageError."""
        core = self._core
        check_controller(controller, core.controllers.values())
        running = core.services is not None and not self._stopping
        if running:
            check_running(controller, core.name, core.field_managers, self._tasks)
        core.controllers[controller.name] = controller
        if running:
            self._launch(controller)

    async def remove(self, name: str) -> None:
        """Stop a controller, draining it, and forget it. Raises LookupError."""
        core = self._core
        if name not in core.controllers:
            raise LookupError(f"no controller {name!r}")
        del core.controllers[name]
        runner, task = core.runners.pop(name, None), self._tasks.get(name)
        core.readiness.notify()
        if runner is None or task is None:
            return
        runner.stop()
        try:
            await asyncio.wait({task})
        finally:
            if task.done():  # else the caller was cancelled, and the stop of the manager waits for the task
                self._tasks.pop(name, None)
                if core.services is not None:
                    core.services.claims.release(name)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Create the services of the controllers from the resources of the parts before."""
        core, loop = self._core, asyncio.get_running_loop()
        # Virtual time does not pass within an iteration.
        reconciles = None if hasattr(loop, "wall_time") else Slice()
        core.services = ManagerServices(
            manager=core.name,
            client=core.leader_client,
            informers=core.informers,
            metrics=core.metrics,
            random=core.random,
            events=core.events,
            event_loop=core.event_loop,
            slice=reconciles,
            namespace=self._namespace,
            strict=self._strict,
            drain=self._drain,
            term=core.term,
            fence=core.fence,
            readiness=core.readiness,
            observer=core.observer,
            reorder=core.reorder,
            gates=core.gates,
            tap=core.tap,
            tracing=core.tracing,
        )
        core.unfenced = core.services
        if core.plugged.leadership is not None:
            core.unfenced = replace(
                core.services, client=core.client, events=core.unfenced_events, term=Term(leads=True), fence=None
            )
        try:
            yield
        finally:
            core.services = core.unfenced = None

    async def start(self) -> None:
        """Start the controllers; with many controllers other tasks run in between, and may add or remove controllers."""
        core = self._core
        assert core.services is not None
        share = core.services.slice
        for name, controller in [*core.controllers.items()]:
            if share is not None and not share.may_begin():
                await share.wait()
            if core.controllers.get(name) is controller and name not in self._tasks:
                self._launch(controller)

    def _launch(self, controller: Controller[Any]) -> None:
        core, name = self._core, controller.name
        services = core.services_of(controller)
        assert services is not None
        runner = core.runners[name] = ControllerRunner(controller, services)
        self._tasks[name] = asyncio.create_task(runner.run(), name=f"konverge controller {name}")
        core.changed.set()

    def tasks(self) -> Collection[asyncio.Task[None]]:
        """Return the tasks of the controllers that have not ended."""
        self._tasks = {name: task for name, task in self._tasks.items() if not task.done()}
        return self._tasks.values()

    async def drain(self) -> None:
        """Stop the controllers: running reconciles end within `drain` seconds, or are cancelled."""
        self._stopping = True
        for runner in self._core.runners.values():
            runner.stop()
        if self._tasks:
            await asyncio.wait(set(self._tasks.values()))

    def rules(self) -> tuple[Rule, ...]:
        """Return the rights of the controllers."""
        return tuple(rule for controller in self._core.controllers.values() for rule in rules_of(controller))

    def report(self) -> Report:
        """Return the reports of the controllers, also of those that are not started."""
        core = self._core
        waiting = (ControllerReport(name, State.STARTING) for name in core.controllers if name not in core.runners)
        return Report((*(runner.report() for runner in core.runners.values()), *waiting))
