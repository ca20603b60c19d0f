"""A plan: one operator, reconciling each object once over the planned cluster.

    1. start      the manager of the operator, without election, sharding, webhooks and background work
    2. caches     every controller lists its kinds; its gate is closed
    3. reconcile  the selected keys, and each key that a planned change enqueues, until nothing is left to do
    4. report     the differences between stored and planned states

Guarantees: the API server stores nothing. An exception of a reconcile ends neither other reconciles nor the plan.

Caveats: a plan shows one moment: no delay of a reconcile ends, and a change on the server after the first list is unknown until the first
write to the object. The garbage collector and the controllers of other operators do not act on planned objects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Any, Final

from konverge.client import ClientConfig, ClientSettings, Transport
from konverge.errors import UsageError
from konverge.keys import Key
from konverge.planning.gate import PlanGate, PlanObserver, Selector
from konverge.planning.report import NotTried, PlanFailure, PlanReport, changes_of
from konverge.planning.transport import PlannedCluster, PlanningTransport
from konverge.runtime import Controller, ControllerReport, ElectionSettings, Manager, ManagerSettings, ShardingSettings
from konverge.runtime.admission.settings import WebhookSettings
from konverge.runtime.hooks.object_gate import GatedController
from konverge.runtime.observability.readiness import SYNCING
from konverge.words import Why

__all__ = ["plan", "planning_settings"]

_PAUSE: Final = 0.01
_QUIET: Final = 3
"""Looks in a row that must find nothing to do: an event takes some iterations of the loop from its watch to a queue."""
_PATIENCE: Final = 5.0
"""Seconds of an obstacle, after which the plan continues without the controller."""
_NEVER: Final = 1e9


def planning_settings(settings: ManagerSettings) -> ManagerSettings:
    """Return the settings of the manager of a plan: it leads at once, serves nothing, and its watches never end."""
    return replace(
        settings,
        election=ElectionSettings(),
        sharding=ShardingSettings(),
        webhooks=WebhookSettings(),
        informers=replace(settings.informers, watch_list=False, watch_idle=_NEVER),
    )


async def plan(
    name: str,
    config: ClientConfig,
    build: Callable[[Manager], Awaitable[None] | None],
    *,
    settings: ManagerSettings | None = None,
    selector: Selector | None = None,
    timeout: float = 600.0,
) -> PlanReport:
    """Return what an operator would change on a cluster; the API server stores nothing.

    `name` is the field manager, as in `Manager`; `build` adds the controllers. The plan begins with the objects that `selector` takes, and
    follows their planned changes to other objects. `timeout` bounds the whole plan, in seconds; the report of an unfinished plan
    contains the failure.

    Errors: UsageError for a selector that takes no object of any controller, and for mistakes in the declarations; errors of the
    configuration. An error of one reconcile is a part of the report.
    """
    return await _Planner(name, config, settings or ManagerSettings(), selector or Selector(), timeout).run(build)


class _Planner:
    """One plan."""

    def __init__(
        self, name: str, config: ClientConfig, settings: ManagerSettings, selector: Selector, timeout: float
    ) -> None:
        self._observer = PlanObserver()
        self._cluster = PlannedCluster(self._observer.cause)
        self._manager = Manager(name, self._planned(config), settings=planning_settings(settings))
        self._manager.observer, self._manager.gates = self._observer, self._gate_of
        self._gates: dict[str, PlanGate] = {}
        self._selector = selector
        self._timeout = timeout

    def _planned(self, config: ClientConfig) -> ClientConfig:
        """Return the configuration of clients of the planned cluster."""

        def opened(_: ClientConfig, settings: ClientSettings, user_agent: str) -> Transport:
            return PlanningTransport(config.open(settings, user_agent), self._cluster)

        return ClientConfig.over(opened, server=config.server, namespace=config.namespace)

    def _gate_of(self, host: GatedController) -> PlanGate:
        name = host.name
        spec = next(controller for controller in self._manager.controllers if controller.name == name)

        def reasons(key: Key) -> tuple[str, ...]:
            working = self._manager.runner(name).queue.snapshot(limit=0).working
            return next((run.reasons for run in working if run.key == key), ())

        gate = self._gates[name] = PlanGate(spec, reasons)
        return gate

    async def run(self, build: Callable[[Manager], Awaitable[None] | None]) -> PlanReport:
        manager = self._manager
        built = build(manager)
        if built is not None:
            await built
        await self._prepare(manager)
        failed: list[PlanFailure] = []
        async with manager:
            try:
                async with asyncio.timeout(self._timeout):
                    failed += await self._started()
                    await self._settled()
                    self._open_gates(required=not failed)
                    await self._settled()
            except TimeoutError:
                failed.append(
                    PlanFailure(controller="", key="", error=f"the plan did not end within {self._timeout:g} s")
                )
        gates = self._gates.values()
        failed += self._observer.failed_reconciles
        failed += (
            PlanFailure(
                controller=gate.spec.name,
                key=str(key),
                error="each of its reconciles causes another; the key never settles",
            )
            for gate in gates
            for key in gate.restless
        )
        return PlanReport(
            changes=changes_of(self._cluster.overlay),
            events=tuple(self._cluster.recorded),
            not_tried=tuple(_not_tried(gates)),
            failed=tuple(failed),
            reconciled=sum(gate.reconciled for gate in gates),
        )

    async def _prepare(self, manager: Manager) -> None:
        """Leave out webhooks and background work, and let stand-ins reconcile."""
        for name in (*(webhook.path for webhook in manager.webhooks), *manager.background):
            await manager.remove(name)
        for spec in manager.controllers:
            planned = spec.with_(min_interval=0, debounce=0, resync=0)
            await manager.remove(spec.name)
            manager.add(planned if spec.stand_in is None else planned.reconciled_by(spec.stand_in))

    async def _started(self) -> list[PlanFailure]:
        """Wait until each controller works or has a lasting obstacle; return the obstacles."""
        loop = asyncio.get_running_loop()
        decided_at: float | None = None
        while not (report := self._manager.report()):
            decided = all(entry.ready or _is_obstructed(entry) for entry in report.controllers)
            decided_at = None if not decided else loop.time() if decided_at is None else decided_at
            if decided_at is not None and loop.time() - decided_at >= _PATIENCE:
                break
            await asyncio.sleep(_PAUSE)
        return [
            PlanFailure(controller=entry.name, key="", error=f"the controller is not ready: {entry.why}")
            for entry in report.controllers
            if not entry.ready
        ]

    def _open_gates(self, *, required: bool) -> None:
        """Enqueue the selected keys, in the same order in each plan; raises UsageError if a key is `required` and no key is selected."""
        for gate in self._gates.values():
            gate.is_open = True
        count = 0
        for name, gate in self._gates.items():
            for key in sorted(gate.initial, key=lambda key: (key.namespace, key.name)):
                if self._selector.takes(key, _short_names(gate.spec)):
                    self._manager.runner(name).enqueue(key, Why.INITIAL)
                    count += 1
        if required and not count and self._selector != Selector():
            kinds = ", ".join(sorted({gate.spec.kind.kind for gate in self._gates.values()}))
            raise UsageError(
                f"no object of a controller is selected by {self._selector}; the controllers are for {kinds}"
            )

    async def _settled(self) -> None:
        """Return once no controller has anything to do."""
        quiet = 0
        while quiet < _QUIET:
            await asyncio.sleep(_PAUSE)
            quiet = quiet + 1 if self._is_quiet() else 0

    def _is_quiet(self) -> bool:
        return self._cluster.caught_up and not any(map(self._works, self._gates)) and not self._delivers()

    def _works(self, name: str) -> bool:
        queue = self._manager.runner(name).queue
        figures = queue.statistics()
        if figures.ready or figures.held or figures.working:
            return True
        return figures.delayed > 0 and any(Why.BARRIER in waiting.reasons for waiting in queue.snapshot().waiting)

    def _delivers(self) -> bool:
        informers: list[dict[str, Any]] = self._manager.debug()["informers"]()
        return any(handler["waiting"] for informer in informers for handler in informer["handlers"])


def _is_obstructed(entry: ControllerReport) -> bool:
    """Return whether more than an incomplete list keeps a controller from its work."""
    return any(problem.cause != SYNCING for problem in entry.problems)


def _short_names(spec: Controller[Any]) -> tuple[str, ...]:
    declaration = getattr(spec.model, "__konverge_declaration__", None)
    return tuple(getattr(declaration, "short_names", ()))


def _not_tried(gates: Iterable[PlanGate]) -> Iterable[NotTried]:
    for gate in gates:
        if gate.not_tried:
            keys = tuple(str(key) for key in gate.not_tried)
            yield NotTried(controller=gate.spec.name, calls=gate.spec.outside, keys=keys)
