"""The manager: one process's controllers, with what they share, started and stopped in order.

Guarantees: it runs in a supervisor task of its own, so `start` and `stop` may be called from different tasks. Starting goes client,
event recorder, informers, webhooks, controllers; stopping the other way round, draining first. No signal handler is installed, the
process is never ended, nothing global remains: two managers run side by side. A controller that lacks its CRD or a right is not ready
and says so; the others work. A bug of the runtime is fatal: `async with` cancels its block, `wait` raises it.

With election (`ManagerSettings.election`) controllers wait with synced caches and a filled queue until this process leads. If it loses the
lease their reconciles are cancelled, their writes are refused at the socket, and it stands by. The lease is released after the last
reconcile has ended and the last Event is written. Webhooks, and controllers `.on_every_replica()`, work on every replica.

Caveats: `Manager.client` is not fenced; what a program writes with it by itself is written by a standby too. Clients of other clusters are
fenced if they are made with `fence_of`.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import chain
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from konverge.client import Client, ClientConfig, Fence
from konverge.errors import NotReady, UsageError
from konverge.informers import InformerSet
from konverge.keys import Key
from konverge.kinds import Resource
from konverge.logs import get_logger
from konverge.metrics import Metrics
from konverge.rbac import Rule, merged
from konverge.runtime.admission.registry import WebhookRegistry
from konverge.runtime.admission.webhook import Webhook
from konverge.runtime.builder.builder import Controller
from konverge.runtime.builder.rules import rules_of
from konverge.runtime.cache.readers import Reorder
from konverge.runtime.controller.runner import ControllerRunner
from konverge.runtime.election.elector import LeaseElection
from konverge.runtime.election.leadership import Leadership, Turn
from konverge.runtime.election.rights import rules_of_election
from konverge.runtime.election.settings import ElectionSettings
from konverge.runtime.events.recorder import EventRecorder
from konverge.runtime.manager.background import (
    BackgroundServices,
    BackgroundWork,
    at_the_end,
    run_background,
    text_of,
)
from konverge.runtime.manager.controller_fence import ControllerFence
from konverge.runtime.manager.explain import describe, explain
from konverge.runtime.manager.leading import Leading
from konverge.runtime.manager.settings import ManagerSettings
from konverge.runtime.manager.sharding import (
    AnyRing,
    RingMember,
    coordination,
    election_settings,
    join_ring,
    open_ring,
    renew_seconds,
    trimmed_kinds,
)
from konverge.runtime.manager.start_checks import check_controller, check_running, field_managers
from konverge.runtime.observability.event_loop import EventLoopMonitor
from konverge.runtime.observability.failures import FailureObserver
from konverge.runtime.observability.readiness import ControllerReport, Report, State
from konverge.runtime.reconcile.services import ManagerServices
from konverge.runtime.sharding.interface import Owned
from konverge.runtime.sharding.rights import rules_of_sharding
from konverge.tasks import Broadcast, wait_first

if TYPE_CHECKING:
    from konverge.runtime.admission.server import WebhookRunner

__all__ = ["Manager"]


class Manager:
    """Runs controllers.

    `name` is the field manager of everything that they write, and part of the User-Agent. `config` None loads the kubeconfig or
    the mounted ServiceAccount. `metrics` may be shared between managers. Constructing it starts nothing.

    >>> Manager("backup-operator").name
    'backup-operator'
    """

    def __init__(
        self,
        name: str,
        config: ClientConfig | None = None,
        *,
        metrics: Metrics | None = None,
        settings: ManagerSettings | None = None,
        random: Random | None = None,
        leadership: Leadership | None = None,
    ) -> None:
        if not name or len(name) > 100:
            raise UsageError(f"manager name {name!r}: it is the field manager of every write; use 1 to 100 characters")
        self.name = name
        self.metrics = Metrics() if metrics is None else metrics
        self.settings = ManagerSettings() if settings is None else settings
        self.observer: FailureObserver | None = None
        """Receives the exceptions that the runtime contains, for tests; set it before the start."""
        self.reorder: Reorder | None = None
        """Puts each list that a cache returns into another order, for tests; set it before the start."""
        self._config = config
        self._random = Random() if random is None else random  # noqa: S311  # jitter and ids, no secret
        self._leadership = leadership
        self._specs: dict[str, Controller[Any]] = {}
        self._managers: frozenset[str] = frozenset()
        self._rules: list[Rule] = []
        self._closes: list[Callable[[], Awaitable[None]]] = []
        self._background: dict[str, BackgroundWork] = {}
        self._notes: dict[str, Callable[[], str]] = {}
        self._after_leading: list[Callable[[], None]] = []
        self._admission = WebhookRegistry(name, self.settings.webhooks, self.settings.namespace)
        self._runners: dict[str, ControllerRunner] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._services: ManagerServices | None = None
        self._unfenced: ManagerServices | None = None
        self._member: RingMember | None = None
        self._leading: tuple[Leading, ...] = ()
        self._instance = self.settings.instance or socket.gethostname()
        self._client: Client | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._started = asyncio.Event()
        self._stopping = asyncio.Event()
        self._changed = asyncio.Event()
        self._readiness = Broadcast()
        self._host: asyncio.Task[Any] | None = None
        self._woke_host = False
        self._log = get_logger("konverge.manager")

    # --- what it runs --------------------------------------------------------------------------------------------------------

    def add(self, controller: Controller[Any] | Webhook[Any]) -> None:
        """Add a controller, before the start or while running, or a webhook, before the start.

        Raises UsageError for what can be seen to be wrong by now.
        """
        if isinstance(controller, Webhook):
            self._admission.add(controller, started=self._supervisor is not None)
            return
        check_controller(controller, self._specs.values())
        running = self._services is not None and not self._stopping.is_set()
        if running:
            check_running(controller, self.name, self._managers, self._tasks)
        self._specs[controller.name] = controller
        if running:
            self._launch(controller)

    async def remove(self, name: str) -> None:
        """Stop a controller, draining it, and forget it; before the start also a webhook, by its path, or background work.

        Raises LookupError.
        """
        if self._admission.remove(name):
            return
        if self._supervisor is None and self._background.pop(name, None) is not None:
            self._notes.pop(name, None)
            return
        if name not in self._specs:
            raise LookupError(f"no controller {name!r}")
        del self._specs[name]
        runner, task = self._runners.pop(name, None), self._tasks.get(name)
        self._readiness.notify()
        if runner is None or task is None:
            return
        runner.stop()
        try:
            await asyncio.wait({task})
        finally:
            if task.done():  # else the caller was cancelled, and the stop of the manager waits for it
                self._tasks.pop(name, None)
                if self._services is not None:
                    self._services.claims.release(name)

    def run_while_leading(self, name: str, work: BackgroundWork, *, note: Callable[[], str] | None = None) -> None:
        """Run work that no controller does while this process leads; controller-runtime calls it a Runnable. Before the start only.

        `work(services)` is cancelled if the lease is lost or the manager stops, and called again when the process leads once more. If it
        raises, it is logged and called again after a pause. Declare the rights that it needs with `needs`.

        `note` is called for each report and readiness probe, and returns a word on the outside world that the work depends on, "" if all is
        well: /readyz?verbose shows it in the line `background/<name>`. By it the process is never unready: a restart mends no other system.
        It must be quick, as it runs on the event loop; one that raises is shown as such.
        """
        if self._supervisor is not None or name in self._background:
            raise UsageError(
                f"background work {name!r}: give each work a name of its own, before the manager is started"
            )
        self._background[name] = work
        if note is not None:
            self._notes[name] = note

    def after_leading(self, call: Callable[[], None]) -> None:
        """Call this whenever the process stops leading, and at the end of the manager. Before the start only.

        By it a family removes the metrics of its objects: they grow old from then on, and the next leader shows them.
        """
        if self._supervisor is not None:
            raise UsageError(f"manager {self.name!r} was started already: say before what is to be called")
        self._after_leading.append(call)

    def closes(self, close: Callable[[], Awaitable[None]]) -> None:
        """Await this at the end, after the last reconcile: connections that reconcilers share. Before the start only."""
        if self._supervisor is not None:
            raise UsageError(f"manager {self.name!r} was started already: say before what it is to close")
        self._closes.append(close)

    def fence_of(self, controller: str) -> Fence:
        """Return the fence of a controller's writes, for its writes to another API server: `Client(...).fenced_by(manager.fence_of(name))`.

        Guarantees: the client then sends a write only while this process may write for that controller, and raises NotLeading else; a
        reconciler passes it on. It is the fence of the election, or that of the ring if replicas share its objects. Without
        both each write passes while the manager runs. It may be called before the controller is added and before the start. For a server
        that is not asked with a `Client`, call `check()` right before each effect.

        Caveats: a write that was on its way when the fence closed may arrive later. A server that keeps `ctx.epoch` can refuse it.
        """
        return ControllerFence(lambda: self._services_of(self._specs.get(controller)))

    def needs(self, *rules: Rule) -> None:
        """Declare rights beyond those of the controllers."""
        self._rules.extend(rules)

    @property
    def background(self) -> tuple[str, ...]:
        """The names of the background work, as it was added."""
        return tuple(self._background)

    @property
    def controllers(self) -> tuple[Controller[Any], ...]:
        """The controllers as they were added."""
        return tuple(self._specs.values())

    def rules(self) -> tuple[Rule, ...]:
        """Return the RBAC rules that these controllers and webhooks need, and the election."""
        own = (rule for spec in self._specs.values() for rule in rules_of(spec))
        return merged(
            (
                *own,
                *self._admission.rules(),
                *rules_of_election(self._election, self.name),
                *rules_of_sharding(self.settings.sharding, self._specs.values()),
                *self._rules,
            )
        )

    @property
    def webhooks(self) -> tuple[Webhook[Any], ...]:
        """The webhooks as they were added."""
        return self._admission.webhooks

    def configure(self, config: ClientConfig) -> None:
        """Name the API server of a manager that was made without a configuration; it counts from the next start on."""
        self._config = config

    def webhook_configurations(self, *, bundle: bytes = b"", inject_from: str = "") -> list[dict[str, Any]]:
        """Return the webhook configurations that the API server needs to call these webhooks; `konverge webhooks` prints them.

        `bundle` are the PEM certificates that it trusts, `inject_from` names the cert-manager Certificate (namespace/name) that provides
        them; with neither, the running manager adds its own. Raises UsageError if the settings do not say how it is reached.
        """
        return self._admission.configurations(bundle=bundle, inject_from=inject_from)

    @property
    def admission(self) -> WebhookRunner:
        """The webhooks at work, for tests; raises LookupError if none run."""
        if self._admission.runner is None:
            raise LookupError(f"manager {self.name!r} serves no webhooks now")
        return self._admission.runner

    # --- life ----------------------------------------------------------------------------------------------------------------

    @property
    def client(self) -> Client:
        """The client; raises UsageError before the start."""
        if self._client is None:
            raise UsageError(f"manager {self.name!r} has no client before it is started")
        return self._client

    @property
    def _election(self) -> ElectionSettings:
        return election_settings(self.settings, self._specs.values(), background=bool(self._background))

    @property
    def leads(self) -> bool:
        """Whether this process may write now: while it runs and, with leader election, holds the lease."""
        if self._services is None:
            return False
        return not self._leading or any(one.leads for one in self._leading)

    def owns(self, object_: Resource) -> Owned:
        """Return the owner of an object and the epoch in which it became the owner, as the object says.

        Without sharding this replica owns every object while it leads, in epoch 0. Raises UsageError before the start.
        """
        if self._services is None:
            raise UsageError(f"manager {self.name!r} owns nothing before it is started")
        if self._member is not None:
            return self._member.ownership.owns(object_.metadata)
        return Owned(self._instance if self.leads else "", 0)

    async def start(self) -> None:
        """Start; returns when client, informers and controllers have been started, not when they are ready (`ready`).

        A start that is cancelled leaves nothing behind.
        Raises ConfigError without a configuration, UsageError if it runs already.
        """
        if self._supervisor is not None:
            raise UsageError(f"manager {self.name!r} was started already; make a new one")
        self._supervisor = asyncio.create_task(self._supervise(), name=f"konverge manager {self.name}")
        self._supervisor.add_done_callback(lambda _: self._readiness.notify())
        try:
            await wait_first(self._supervisor, self._started.wait())
        except asyncio.CancelledError:
            self._supervisor.cancel()
            await asyncio.wait({self._supervisor})
            raise

    async def stop(self) -> None:
        """Drain and stop; returns when nothing is left. Harmless when called twice, or before the start."""
        self._stopping.set()
        if self._supervisor is not None:
            await asyncio.wait({self._supervisor})

    async def wait(self) -> None:
        """Wait until the manager has ended; raises the fatal error that ended it."""
        if self._supervisor is None:
            raise UsageError(f"manager {self.name!r} was not started")
        await asyncio.shield(self._supervisor)

    async def __aenter__(self) -> Self:
        await self.start()
        self._host = asyncio.current_task()
        assert self._supervisor is not None
        self._supervisor.add_done_callback(self._wake_host)
        return self

    def _wake_host(self, supervisor: asyncio.Task[None]) -> None:
        if self._host is not None and not supervisor.cancelled() and supervisor.exception() is not None:
            self._woke_host = True
            self._host.cancel(f"manager {self.name} failed")

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        host, self._host = self._host, None
        await self.stop()
        assert self._supervisor is not None
        fatal = None if self._supervisor.cancelled() else self._supervisor.exception()
        if fatal is None:
            return
        if self._woke_host and host is not None:
            host.uncancel()  # this cancellation was ours; one of another task goes on
            if error is None or isinstance(error, asyncio.CancelledError):
                raise fatal
        elif error is None:
            raise fatal

    async def _supervise(self) -> None:
        config = self._config or await ClientConfig.load()
        loop = asyncio.get_running_loop()
        instance = self._instance
        writers = (field_managers(self.name, spec) for spec in self._specs.values())
        self._managers = frozenset({self.name, *chain.from_iterable(writers)})
        async with contextlib.AsyncExitStack() as stack:
            for close in self._closes:
                stack.push_async_callback(close)
            client = await stack.enter_async_context(
                Client(
                    config,
                    name=self.name,
                    settings=self.settings.client,
                    metrics=self.metrics,
                    random=self._random,
                )
            )
            leadership = await self._open_leadership(stack, config, instance)
            leader_client = client if leadership is None else client.fenced_by(leadership.fence)
            if leader_client is not client:
                stack.push_async_callback(leader_client.close)
            ring = await open_ring(
                stack,
                config,
                client,
                self.settings,
                self._specs.values(),
                host=self._instance,
                metrics=self.metrics,
                random=self._random,
            )
            recorder = await stack.enter_async_context(self._recorder(leader_client, instance))
            informers = await stack.enter_async_context(
                InformerSet(
                    client,
                    settings=self.settings.informers,
                    metrics=self.metrics,
                    managers=self._managers,
                    random=self._random,
                )
            )
            await self._admission.serve(stack, client, informers, self.metrics, self._readiness.notify)
            event_loop = stack.enter_context(
                EventLoopMonitor(
                    loop,
                    self.metrics,
                    threshold=self.settings.stall_seconds,
                    lease_seconds=renew_seconds(self.settings),
                )
            )
            self._client = client
            self._services = ManagerServices(
                manager=self.name,
                client=leader_client,
                informers=informers,
                metrics=self.metrics,
                random=self._random,
                events=recorder,
                event_loop=event_loop,
                namespace=self.settings.namespace,
                strict=self.settings.strict,
                drain=self.settings.drain,
                turn=Turn(leads=leadership is None),
                fence=None if leadership is None else leadership.fence,
                readiness=self._readiness,
                observer=self.observer,
                reorder=self.reorder,
            )
            self._unfenced = self._services
            if leadership is not None:
                everywhere = await stack.enter_async_context(self._recorder(client, instance))
                self._unfenced = replace(
                    self._services, client=client, events=everywhere, turn=Turn(leads=True), fence=None
                )
            if leadership is not None:
                self._leading += (Leading(leadership, self._services.turn, self._readiness),)
            if ring is not None:
                trimmed = trimmed_kinds(ring, self.controllers, self.webhooks)
                self._member = await join_ring(stack, ring, self._services, client, instance=instance, trimmed=trimmed)
                self._leading += (self._member.leading,)
            try:
                for spec in self._specs.values():
                    self._launch(spec)
                background = self._launch_background(self._services)
                self._started.set()
                self._readiness.notify()
                await self._work(background, ring, self._launch_coordination(ring, self._services))
            finally:
                self._services = self._unfenced = self._member = None

    def _recorder(self, client: Client, instance: str) -> EventRecorder:
        return EventRecorder(client, controller=self.name, instance=instance, metrics=self.metrics, random=self._random)

    async def _open_leadership(
        self, stack: contextlib.AsyncExitStack, config: ClientConfig, instance: str
    ) -> Leadership | None:
        """Return what decides when this process leads, to be released when all that is opened after it has ended; None: it always leads."""
        election = self._election
        if self._leadership is None and election.enabled:
            self._leadership = await stack.enter_async_context(
                LeaseElection(
                    config,
                    election,
                    name=self.name,
                    host=instance,
                    metrics=self.metrics,
                    random=self._random,
                )
            )
        elif self._leadership is not None:
            stack.push_async_callback(self._leadership.release)
        return self._leadership

    async def _work(
        self, background: tuple[asyncio.Task[None], ...], ring: AnyRing | None, coordinating: set[asyncio.Task[None]]
    ) -> None:
        """Run the controllers until the stop, or until a failure, which is fatal; then drain them, still leading."""
        leading = {asyncio.create_task(one.run(), name=f"konverge leadership {self.name}") for one in self._leading}
        try:
            while not self._stopping.is_set():
                self._changed.clear()
                running = (*self._tasks.values(), *background, *leading, *coordinating)
                await wait_first(self._stopping.wait(), self._changed.wait(), *running)
                self._tasks = {name: task for name, task in self._tasks.items() if not task.done()}
        finally:
            for task in background:
                task.cancel()
            if background:
                await asyncio.wait(background)
            if ring is not None:
                await ring.drain()
            await self._stop_controllers()
            ending = leading | coordinating  # objects of others are assigned as long as this process leads
            for task in ending:
                task.cancel()
            if ending:
                await asyncio.wait(ending)

    def _launch(self, spec: Controller[Any]) -> None:
        services = self._services_of(spec)
        assert services is not None
        runner = self._runners[spec.name] = ControllerRunner(spec, services)
        self._tasks[spec.name] = asyncio.create_task(runner.run(), name=f"konverge controller {spec.name}")
        self._changed.set()

    def _services_of(self, spec: Controller[Any] | None) -> ManagerServices | None:
        """Return the services of a controller, None if it does not run."""
        if spec is None:
            return None
        if self._member is not None and spec.family is not None:
            return self._member.services
        return self._services if spec.elected else self._unfenced

    def _background_services(self, services: ManagerServices) -> BackgroundServices:
        return BackgroundServices(
            client=services.client,
            manager=self.name,
            metrics=self.metrics,
            random=self._random,
            events=services.events,
            enqueue=self._enqueue,
        )

    def _launch_coordination(self, ring: AnyRing | None, services: ManagerServices) -> set[asyncio.Task[None]]:
        work = coordination(ring, services, self._specs.values())
        if work is None:
            return set()
        run = run_background("shard coordinator", work, self._background_services(services), services.turn)
        return {asyncio.create_task(run, name=f"konverge shard coordinator {self.name}")}

    def _launch_background(self, services: ManagerServices) -> tuple[asyncio.Task[None], ...]:
        given = self._background_services(services)
        works = [*self._background.items()]
        if self._after_leading:
            works.append(("after leading", at_the_end(self._after_leading)))
        return tuple(
            asyncio.create_task(run_background(name, work, given, services.turn), name=f"konverge background {name}")
            for name, work in works
        )

    def _enqueue(self, controller: str, key: Key) -> None:
        runner = self._runners.get(controller)
        if runner is not None:
            runner.enqueue(key)

    async def _stop_controllers(self) -> None:
        for runner in self._runners.values():
            runner.stop()
        tasks = set(self._tasks.values())
        if tasks:
            await asyncio.wait(tasks)

    # --- what it tells -------------------------------------------------------------------------------------------------------

    def report(self) -> Report:
        """Return per controller whether it works, and if not why; and the same of the webhooks."""
        waiting = (ControllerReport(name, State.STARTING) for name in self._specs if name not in self._runners)
        runners = (runner.report() for runner in self._runners.values())
        ring = () if self._member is None else (self._member.leading.report(),)
        elections = (one.report() for one in self._leading if self._member is None or one is not self._member.leading)
        background = tuple(
            ControllerReport(name, State.RUNNING, note=text_of(note)) for name, note in self._notes.items()
        )
        return Report((*runners, *ring, *waiting), self._admission.report(), next(elections, None), background)

    async def ready(self, timeout: float | None = 60.0) -> Report:
        """Wait until every controller is ready or the manager has ended, `timeout` seconds at most (None: no limit); returns the report."""
        await self.wait_ready(timeout=timeout, required=False)
        return self.report()

    async def wait_ready(self, *, timeout: float | None = 60.0, required: bool = True) -> None:
        """Wait until every controller is ready; raises NotReady that says which is not and why (unless not `required`)."""
        began = asyncio.get_running_loop().time()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while not self.report() and self._supervisor is not None and not self._supervisor.done():
                    await self._readiness.wait()
        if required and not self.report():
            waited = asyncio.get_running_loop().time() - began if timeout is None else timeout
            raise NotReady(f"manager {self.name} is not ready after {waited:g} s:\n{self.report()}")

    def runner(self, name: str) -> ControllerRunner:
        """Return a running controller, for tests and `/debug`; raises LookupError."""
        if name not in self._runners:
            raise LookupError(f"no controller {name!r} runs; there are: {', '.join(self._runners) or 'none'}")
        return self._runners[name]

    def debug(self) -> dict[str, Callable[[], Any]]:
        """Return what `/debug` shows, by path: each value is a function that returns plain data."""
        return describe(
            lambda: tuple(self._runners.values()), lambda: self._services.informers if self._services else None
        )

    def explain(self, kind: str, namespace: str, name: str) -> list[dict[str, Any]]:
        """Return for each controller of that kind when and why the object last ran, what it wrote, and when it runs next."""
        return explain(tuple(self._runners.values()), kind, namespace, name)
