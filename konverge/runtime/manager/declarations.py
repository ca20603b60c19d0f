"""The declarations of a manager: its controllers, webhooks and conversions, its background work, hooks and checks, and its rights."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from konverge.client import ClientConfig
from konverge.crds import Conversion
from konverge.errors import UsageError
from konverge.rbac import Rule, merged
from konverge.runtime.admission.registry import WebhookRegistry
from konverge.runtime.admission.webhook import Webhook
from konverge.runtime.builder.builder import Controller
from konverge.runtime.parts.background import Background, BackgroundWork
from konverge.runtime.parts.checks import HealthCheck, OwnChecks
from konverge.runtime.parts.controllers import Controllers
from konverge.runtime.parts.core import Core
from konverge.runtime.parts.lifetimes import HeldValue, Lifetimes
from konverge.runtime.parts.part import ManagerPart
from konverge.runtime.parts.resources import SharedConnections

if TYPE_CHECKING:
    from konverge.runtime.manager.manager import Manager

__all__ = ["Declarations", "Hook"]

T = TypeVar("T")

Hook: TypeAlias = "Callable[[Manager], Awaitable[None]]"


class Declarations:
    """The declarations that a program gives to its `Manager`."""

    _core: Core
    _needs: list[Rule]
    _parts: tuple[ManagerPart, ...]
    _connections: SharedConnections
    _admission: WebhookRegistry
    _controllers: Controllers
    _background: Background
    _lifetimes: Lifetimes
    _checks: OwnChecks

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
        self._background.add(name, work, note, elected=True)

    def run_on_every_replica(self, name: str, work: BackgroundWork, *, note: Callable[[], str] | None = None) -> None:
        """Run work on each replica, whether it leads or not, from the start to the stop of the manager. Before the start only.

        The same as `run_while_leading`, except that a client of the work is not fenced: replicas write at once, so their writes must not
        undo each other.
        """
        self._background.add(name, work, note, elected=False)

    def holds(self, enter: Callable[[], AbstractAsyncContextManager[T]], *, name: str = "a held value") -> HeldValue[T]:
        """Enter a context manager at the start and leave it at the end, after the last reconcile. Before the start only.

        `enter` is called once, on the running loop: `session = manager.holds(aiohttp.ClientSession)`. Reconcilers read `session.value`;
        `name` is for its error message outside of the run. An error of entering ends the start.
        """
        self._core.declare("hold its values before")
        held = HeldValue(name, enter)
        self._lifetimes.held.append(cast(HeldValue[object], held))
        return held

    def on_start(self, hook: Hook) -> Hook:
        """Await `hook(manager)` on each replica before anything is watched; an error ends the start. Before the start only.

        The client and held values exist; caches do not. Several hooks run in the order of declaration. Usable as a decorator.
        """
        self._core.declare("declare its hooks before")
        self._lifetimes.starts.append(lambda: self._call(hook))
        return hook

    def on_stop(self, hook: Hook) -> Hook:
        """Await `hook(manager)` on each replica after the last reconcile, while the client and held values exist. Before the start only.

        Each hook runs, the last declared first, even if another raises; the manager then ends with the error. A hook has no deadline of its
        own. If the start fails before every start hook has succeeded, no stop hook runs. Usable as a decorator.
        """
        self._core.declare("declare its hooks before")
        self._lifetimes.stops.append(lambda: self._call(hook))
        return hook

    async def _call(self, hook: Hook) -> None:
        waiting: object = hook(cast("Manager", self))
        if not isinstance(waiting, Awaitable):
            raise UsageError(
                f"the hook {getattr(hook, '__name__', hook)!r} of a manager is no coroutine function: write async def"
            )
        await waiting

    def checks_readiness(self, name: str, check: HealthCheck) -> None:
        """Add the check `check/<name>` to readiness: it returns the problem and its remedy, "" if all is well. Before the start only.

        The check is called for each probe and each report, on the event loop, so it must be quick: let background work do the waiting. A
        replica that is not ready receives no requests for its webhooks, and continues to reconcile.
        """
        self._checks.add(name, check, live=False)

    def checks_health(self, name: str, check: HealthCheck) -> None:
        """Add a check to liveness, as `checks_readiness`: if it fails, the kubelet restarts the process. Before the start only.

        Let it fail only for a problem that a restart repairs, so not for the failure of another service.
        """
        self._checks.add(name, check, live=True)

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
