"""The manager: one process's controllers and the parts that they share.

    opened in this order   closed in the reverse order      drained before that, in the reverse order
    connections            `closes`, without a limit
    client
    election       releases its Lease within the            -
                   deadlines of the election
    events         write what waits, a few seconds at most  -
    caches
    webhooks       respond until they close                 -
    event loop
    controllers                                             reconciles end in `settings.drain` seconds, or are cancelled
    sharding               releases the member's Lease      marks the member as draining, within 1 s
    background                                              cancelled, without a limit

Guarantees: every part is open before the first part starts, and every part is drained before the first part closes. So the controllers
drain while this process still leads, and a Lease is released after the last reconcile has ended and the last Event is written. No signal
handler is installed, the process never exits, and no global state remains: two managers run side by side. A controller that lacks its CRD
or a right is not ready and reports the reason; the other controllers work. A bug of the runtime is fatal: `async with` cancels its block,
and `wait` raises it.

With election (`ManagerSettings.election`) controllers wait with synced caches and a filled queue until this process leads. If it loses the
lease, their reconciles are cancelled, the socket refuses their writes, and the process is a standby. Webhooks, and controllers
`.on_every_replica()`, work on every replica.

Caveats: `Manager.client` is not fenced: a standby writes with it too. Clients of other clusters are fenced by `fence_of`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from random import Random
from typing import TYPE_CHECKING, Any

from konverge.client import Client, ClientConfig, Fence
from konverge.crds import Conversion
from konverge.errors import NotReady, UsageError
from konverge.kinds import Resource
from konverge.metrics import Metrics
from konverge.rbac import Rule, merged
from konverge.runtime.admission.registry import WebhookRegistry
from konverge.runtime.admission.webhook import Webhook
from konverge.runtime.builder.builder import Controller
from konverge.runtime.cache.readers import Reorder
from konverge.runtime.controller.runner import ControllerRunner
from konverge.runtime.hooks.leadership import Leadership
from konverge.runtime.hooks.object_gate import ObjectGates, Owned
from konverge.runtime.manager.explain import describe, explain
from konverge.runtime.manager.settings import ManagerSettings
from konverge.runtime.manager.supervisor import Supervised
from konverge.runtime.observability.failures import FailureObserver
from konverge.runtime.observability.readiness import Report
from konverge.runtime.parts.background import Background, BackgroundWork
from konverge.runtime.parts.controller_fence import ControllerFence
from konverge.runtime.parts.controllers import Controllers
from konverge.runtime.parts.core import Core
from konverge.runtime.parts.part import ManagerPart
from konverge.runtime.parts.resources import ApiClient, EventLoop, Events, Informers, SharedConnections
from konverge.runtime.parts.webhooks import Webhooks
from konverge.tasks import wait_first

if TYPE_CHECKING:
    from konverge.runtime.admission.server import WebhookRunner

__all__ = ["Manager"]


class Manager(Supervised):
    """Runs controllers.

    `name` is the field manager of their writes, and part of the User-Agent. `config` None loads the kubeconfig or the mounted
    ServiceAccount. `metrics` may be shared between managers. Constructing it starts nothing.

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
        self.settings = chosen = ManagerSettings() if settings is None else settings
        self.observer: FailureObserver | None = None
        """Receives the exceptions that the runtime contains, for tests; set it before the start."""
        self.reorder: Reorder | None = None
        """Puts each list that a cache returns into another order, for tests; set it before the start."""
        self.gates: ObjectGates | None = None
        """Admits each reconcile, for a plan; set it before the start. Not beside sharding, which has a gate of its own."""
        self._core = core = Core(
            name,
            metrics=self.metrics,
            random=Random() if random is None else random,  # noqa: S311  # jitter and ids, no secret
            instance=chosen.instance,
            config=config,
            started=lambda: self._supervisor is not None,
        )
        super().__init__(core.readiness.notify)
        self._needs: list[Rule] = []
        self._connections = SharedConnections()
        self._admission = WebhookRegistry(name, chosen.webhooks, chosen.namespace)
        self._controllers = Controllers(core, namespace=chosen.namespace, strict=chosen.strict, drain=chosen.drain)
        self._background = Background(core)
        self._parts: tuple[ManagerPart, ...] = (
            self._connections,
            ApiClient(core, chosen.client),
            chosen.election_part(core, leadership),
            Events(core),
            Informers(core, chosen.informers),
            Webhooks(core, self._admission),
            EventLoop(core, stall_seconds=chosen.stall_seconds, lease_seconds=chosen.renew_seconds),
            self._controllers,
            *chosen.sharding_parts(core),
            self._background,
        )

    # --- declarations --------------------------------------------------------------------------------------------------------

    def add(self, controller: Controller[Any] | Webhook[Any] | Conversion[Any]) -> None:
        """Add a controller, before the start or while running, or a webhook or a conversion, before the start.

        Raises UsageError for a mistake that is visible in the declarations.
        """
        if isinstance(controller, Webhook):
            self._admission.add(controller, started=self._core.started)
        elif isinstance(controller, Conversion):
            self._admission.add_conversion(controller, started=self._core.started)
        else:
            self._controllers.add(controller)

    async def remove(self, name: str) -> None:
        """Stop a controller, draining it, and forget it; before the start also a webhook or conversion, by its path, or background work.

        Raises LookupError.
        """
        if not self._admission.remove(name) and not self._background.remove(name):
            await self._controllers.remove(name)

    def run_while_leading(self, name: str, work: BackgroundWork, *, note: Callable[[], str] | None = None) -> None:
        """Run work that no controller does while this process leads; controller-runtime calls it a Runnable. Before the start only.

        `work(services)` is cancelled if the lease is lost or the manager stops, and called again when the process leads once more. If it
        raises, the error is logged and the work is called again after a pause. Declare its rights with `needs`.

        `note` is called for each report and readiness probe, and returns a status line for /readyz?verbose, in the line
        `background/<name>`; "" if all is well. It never fails readiness, since a restart repairs no other system. It must be quick, as it
        runs on the event loop; the error of a note that raises is shown.
        """
        self._background.add(name, work, note)

    def after_leading(self, call: Callable[[], None]) -> None:
        """Call this whenever the process stops leading, and at the end of the manager. Before the start only.

        Families delete the metrics of their objects here, because the metrics of a standby would be stale.
        """
        self._core.declare("say before what is to be called")
        self._background.after_leading.append(call)

    def closes(self, close: Callable[[], Awaitable[None]]) -> None:
        """Await this at the end, after the last reconcile: connections that reconcilers share. Before the start only."""
        self._core.declare("say before what it is to close")
        self._connections.closes.append(close)

    def needs(self, *rules: Rule) -> None:
        """Declare rights beyond the rights of the controllers."""
        self._needs.extend(rules)

    def configure(self, config: ClientConfig) -> None:
        """Name the API server of a manager without a configuration, for the next start."""
        self._core.config = config

    @property
    def background(self) -> tuple[str, ...]:
        """The names of the background work, in the order of its declaration."""
        return self._background.names

    @property
    def controllers(self) -> tuple[Controller[Any], ...]:
        """The controllers, in the order of their declaration."""
        return tuple(self._core.controllers.values())

    @property
    def webhooks(self) -> tuple[Webhook[Any], ...]:
        """The webhooks, in the order of their declaration."""
        return self._admission.webhooks

    @property
    def conversions(self) -> tuple[Conversion[Any], ...]:
        """The conversions between versions, in the order of their declaration."""
        return self._admission.conversions

    def rules(self) -> tuple[Rule, ...]:
        """Return the RBAC rules of all parts, and the rules of `needs`."""
        return merged((*(rule for part in self._parts for rule in part.rules()), *self._needs))

    def webhook_configurations(self, *, bundle: bytes = b"", inject_from: str = "") -> list[dict[str, Any]]:
        """Return the webhook configurations that the API server needs to call these webhooks; `konverge webhooks` prints them.

        `bundle` are the PEM certificates that the API server trusts, `inject_from` names the cert-manager Certificate (namespace/name)
        that provides them; with neither, the running manager adds its own. Raises UsageError if the settings name no address.
        """
        return self._admission.configurations(bundle=bundle, inject_from=inject_from)

    def conversion_clients(self, *, bundle: bytes = b"") -> dict[str, dict[str, Any]]:
        """Return the `clientConfig` of each conversion webhook by the name of its definition, for `konverge.crds.crd_manifests`.

        `bundle` are the PEM certificates that the API server trusts; without them the running manager adds its own. Raises UsageError if
        the settings name no address.
        """
        return self._admission.conversion_clients(bundle=bundle)

    # --- the manager at work -------------------------------------------------------------------------------------------------

    async def _supervise(self) -> None:
        core = self._core
        core.observer, core.reorder, core.gates = self.observer, self.reorder, self.gates
        async with contextlib.AsyncExitStack() as stack:
            for part in self._parts:
                await stack.enter_async_context(part.open())
            for part in self._parts:
                stack.push_async_callback(part.drain)  # the stack runs each drain, even if another drain fails
            for part in self._parts:
                part.start()
            self._started.set()
            core.readiness.notify()
            while not self._stopping.is_set():
                core.changed.clear()
                tasks = [task for part in self._parts for task in part.tasks()]
                await wait_first(self._stopping.wait(), core.changed.wait(), *tasks)

    @property
    def client(self) -> Client:
        """The client; raises UsageError before the start."""
        return self._core.client

    @property
    def leads(self) -> bool:
        """Whether this process may write now: while it runs and, with leader election, holds the lease."""
        return self._core.leads

    def fence_of(self, controller: str) -> Fence:
        """Return the fence of a controller's writes, for its writes to another API server: `Client(...).fenced_by(manager.fence_of(name))`.

        Guarantees: the client then sends a write only while this process may write for that controller, and raises NotLeading otherwise; a
        reconciler passes the error on. The fence is the fence of the election, or of the ring if replicas share the controller's objects.
        Without both each write passes while the manager runs. The method may be called before the controller is added and before the
        start. For a server without a `Client`, call `check()` right before each effect.

        Caveats: a write that was on its way when the fence closed may arrive later. A server that keeps `ctx.epoch` can refuse it.
        """
        return ControllerFence(lambda: self._core.services_of(self._core.controllers.get(controller)))

    def owns(self, object_: Resource) -> Owned:
        """Return the owner of an object and the owner's epoch, according to the object.

        Without sharding this replica owns every object while it leads, in epoch 0. Raises UsageError before the start.
        """
        core = self._core
        if core.services is None:
            raise UsageError(f"manager {self.name!r} owns nothing before it is started")
        owner_of = core.plugged.owner_of
        return owner_of(object_.metadata) if owner_of else Owned(core.instance if core.leads else "", 0)

    @property
    def admission(self) -> WebhookRunner:
        """The webhooks at work, for tests; raises LookupError if none run."""
        if self._admission.runner is None:
            raise LookupError(f"manager {self.name!r} serves no webhooks now")
        return self._admission.runner

    # --- reports -------------------------------------------------------------------------------------------------------------

    def report(self) -> Report:
        """Return whether each controller works, and if not, why; the same for the webhooks."""
        return Report.joined(part.report() for part in self._parts)

    async def ready(self, timeout: float | None = 60.0) -> Report:
        """Wait until every controller is ready or the manager has ended, `timeout` seconds at most (None: no limit); returns the report."""
        await self.wait_ready(timeout=timeout, required=False)
        return self.report()

    async def wait_ready(self, *, timeout: float | None = 60.0, required: bool = True) -> None:
        """Wait until every controller is ready; raises NotReady with the reasons otherwise (unless not `required`)."""
        began = asyncio.get_running_loop().time()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while not self.report() and self._running:
                    await self._core.readiness.wait()
        if required and not self.report():
            waited = asyncio.get_running_loop().time() - began if timeout is None else timeout
            raise NotReady(f"manager {self.name} is not ready after {waited:g} s:\n{self.report()}")

    def runner(self, name: str) -> ControllerRunner:
        """Return a running controller, for tests and `/debug`; raises LookupError for an unknown name."""
        runners = self._core.runners
        if name not in runners:
            raise LookupError(f"no controller {name!r} runs; there are: {', '.join(runners) or 'none'}")
        return runners[name]

    def debug(self) -> dict[str, Callable[[], Any]]:
        """Return the data of `/debug`, by path: each value is a function that returns plain data."""
        core = self._core
        return describe(
            lambda: tuple(core.runners.values()), lambda: core.services.informers if core.services else None
        )

    def explain(self, kind: str, namespace: str, name: str) -> list[dict[str, Any]]:
        """Return for each controller of that kind when and why the object last ran, its writes, and its next run."""
        return explain(tuple(self._core.runners.values()), kind, namespace, name)
