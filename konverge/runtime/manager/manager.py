"""The manager: one process's controllers and the parts that they share.

    opened in this order   closed in the reverse order      drained before that, in the reverse order
    connections            `closes`, without a limit
    client
    lifetimes              stop hooks, then held values; no limit
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
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeVar

from konverge.client import Client, ClientConfig, Fence
from konverge.errors import NotReady, UsageError
from konverge.kinds import Kind, Resource, kind_of
from konverge.metrics import Metrics
from konverge.rbac import Rule
from konverge.runtime.admission.registry import WebhookRegistry
from konverge.runtime.cache.readers import Reader, Reorder
from konverge.runtime.controller.runner import ControllerRunner
from konverge.runtime.hooks.leadership import Leadership
from konverge.runtime.hooks.object_gate import ObjectGates, Owned
from konverge.runtime.hooks.tap import Tap
from konverge.runtime.manager.declarations import Declarations
from konverge.runtime.manager.explain import describe, explain
from konverge.runtime.manager.overview import overview
from konverge.runtime.manager.settings import ManagerSettings
from konverge.runtime.manager.shared_cache import shared_cache
from konverge.runtime.manager.supervisor import Supervised
from konverge.runtime.observability.failures import FailureObserver
from konverge.runtime.observability.readiness import Report
from konverge.runtime.parts.background import Background
from konverge.runtime.parts.checks import OwnChecks
from konverge.runtime.parts.controller_fence import ControllerFence
from konverge.runtime.parts.controllers import Controllers
from konverge.runtime.parts.core import Core
from konverge.runtime.parts.lifetimes import Lifetimes
from konverge.runtime.parts.part import ManagerPart
from konverge.runtime.parts.resources import ApiClient, EventLoop, Events, Informers, SharedConnections
from konverge.runtime.parts.webhooks import Webhooks
from konverge.tasks import wait_first

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from konverge.runtime.admission.server import WebhookRunner

__all__ = ["Manager"]

R = TypeVar("R", bound=Resource)

_CHECKED: Final = 1.0
"""Seconds between two calls of the checks of the operator, while `ready` waits."""


class Manager(Declarations, Supervised):
    """Runs controllers.

    `name` is the field manager of their writes, and part of the User-Agent. `config` None loads the kubeconfig or the mounted
    ServiceAccount. `metrics` may be shared between managers. The spans of reconciles and requests are from the provider `tracing`, an
    object of OpenTelemetry. Constructing it starts nothing.

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
        tracing: TracerProvider | None = None,
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
        self.tap: Tap | None = None
        """Records each reconcile (`konverge.recording`); set it before the start."""
        self.tracing = tracing
        """The provider of the spans; a build may set it before the start. None: no spans."""
        self._core = core = Core(
            name,
            metrics=self.metrics,
            random=Random() if random is None else random,  # noqa: S311  # jitter and ids, no secret
            instance=chosen.instance,
            config=config,
            started=lambda: self._supervisor is not None,
        )
        Supervised.__init__(self, core.readiness.notify)
        self._needs: list[Rule] = []
        self._connections = SharedConnections()
        self._admission = WebhookRegistry(name, chosen.webhooks, chosen.namespace)
        self._controllers = Controllers(core, namespace=chosen.namespace, strict=chosen.strict, drain=chosen.drain)
        self._background = Background(core)
        self._lifetimes = Lifetimes()
        self._checks = OwnChecks(core)
        self._parts: tuple[ManagerPart, ...] = (
            self._connections,
            ApiClient(core, chosen.client),
            self._lifetimes,
            chosen.election_part(core, leadership),
            Events(core),
            Informers(core, chosen.informers),
            Webhooks(core, self._admission),
            EventLoop(core, stall_seconds=chosen.stall_seconds, lease_seconds=chosen.renew_seconds),
            self._controllers,
            *chosen.sharding_parts(core),
            self._background,
            self._checks,
        )

    # --- the manager at work -------------------------------------------------------------------------------------------------

    async def _supervise(self) -> None:
        core = self._core
        core.observer, core.reorder, core.gates = self.observer, self.reorder, self.gates
        core.tap = self.tap
        if self.tracing is not None:
            # Here, because it brings OpenTelemetry.
            from konverge.client.tracing import Tracing

            core.tracing = Tracing(self.tracing)
            core.tracing.leave_caller()
        async with contextlib.AsyncExitStack() as stack:
            for part in self._parts:
                await stack.enter_async_context(part.open())
            for part in self._parts:
                stack.push_async_callback(part.drain)  # the stack runs each drain, even if another drain fails
            for part in self._parts:
                await part.start()
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

    def cache(self, what: Kind[R] | type[R], *, controller: str = "") -> Reader[R]:
        """Return the cache of a kind that a controller declares, for code outside of reconcilers: a web page, background work.

        The cache may lag behind the API server, and is empty until its first list is complete (`Reader.synced`). If several controllers
        watch different selections of the kind, `controller` names the controller whose selection is meant. Raises CacheNotWatched if no
        controller declares the kind, and UsageError for an ambiguous kind and before the start.
        """
        return shared_cache(self._core, kind_of(what), controller)

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
        """Return whether each controller works, and if not, why; the same for the webhooks and the checks of readiness."""
        return Report.joined(part.report() for part in self._parts)

    def liveness(self) -> Report:
        """Return the checks of liveness, run now."""
        return self._checks.live()

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
                    with contextlib.suppress(TimeoutError):
                        # A check of the operator announces no change.
                        async with asyncio.timeout(_CHECKED if self._checks else None):
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

    async def overview(self) -> dict[str, Any]:
        """Return the data of `/debug/overview`: the parts, the objects that are not ready and why, the owners of shared objects."""
        core = self._core
        return await overview(
            name=self.name,
            instance=core.instance,
            leads=self.leads,
            report=self.report(),
            runners=tuple(core.runners.values()),
            owner_of=core.plugged.owner_of,
        )

    def explain(self, kind: str, namespace: str, name: str) -> list[dict[str, Any]]:
        """Return for each controller of that kind when and why the object last ran, its writes, and its next run."""
        return explain(tuple(self._core.runners.values()), kind, namespace, name)
