"""The webhooks of one manager at work: caches, certificates, server; they run until the manager stops.

Guarantees: runs on every replica, leading or not. A fault (a port that is taken, a folder without certificates, a missing right, a
configuration that was not applied) appears in `report`, degrades only the webhooks, and is retried; it never ends the manager. A later
fault (an API server that does not respond) is reported and logged; the webhooks become unready only if they cannot be served any more.
Stopping lets requests in progress end, within `drain` seconds.

Order of a round: certificates, then the server, then the CA bundles, so that the API server trusts only certificates that are already
served.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Self

from konverge.client import Client
from konverge.crds import Conversion
from konverge.errors import KonvergeError, stack_of
from konverge.informers import Informer, InformerSet, Selection
from konverge.kinds import Kind
from konverge.logs import get_logger
from konverge.metrics import Metrics
from konverge.runtime.admission.handler import WebhookGate, WebhookServices
from konverge.runtime.admission.router import WebhookRouter
from konverge.runtime.admission.settings import IN_PROCESS, Place, WebhookSettings
from konverge.runtime.admission.webhook import Webhook
from konverge.runtime.cache.readers import Caches
from konverge.runtime.observability.readiness import ControllerReport, Obstacle, State, why_not
from konverge.words import LogKey

__all__ = ["WebhookRunner"]

_WHAT = "webhooks"


class _Synced(WebhookGate):
    """Holds a request until every cache that its webhook reads is complete; other webhooks' caches do not matter."""

    def __init__(self, informers: dict[Kind[Any], Informer]) -> None:
        self._informers = informers

    async def open(self, webhook: Webhook[Any]) -> None:
        for source in webhook.read:
            informer = self._informers[source.kind]
            if not informer.synced:
                await informer.wait_synced()


class WebhookRunner:
    """Serves webhooks inside its `async with` block. Constructing it starts nothing."""

    def __init__(
        self,
        webhooks: Sequence[Webhook[Any]],
        *,
        manager: str,
        client: Client,
        informers: InformerSet,
        metrics: Metrics,
        place: Place,
        settings: WebhookSettings,
        namespace: str | None,
        conversions: Sequence[Conversion[Any]] = (),
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._webhooks = tuple(webhooks)
        self._changed = changed
        self._settings = settings
        self._set = informers
        self._namespace = namespace
        self._caches: dict[Kind[Any], Informer] = {}
        services = WebhookServices(client=client, caches=Caches(_WHAT, self._caches), gate=_Synced(self._caches))
        self.door = WebhookRouter(self._webhooks, services, metrics, conversions)
        self.state = State.STARTING
        self._problems: tuple[Obstacle, ...] = ()
        self._last_error = ""
        self._worked = False
        self._task: asyncio.Task[None] | None = None
        self._serving: Any = None
        if settings.address != IN_PROCESS:
            from konverge.runtime.admission.serving import Serving

            self._serving = Serving(self._webhooks, self.door, client, manager, place, settings, metrics, conversions)
        self._log = get_logger("konverge.admission")

    async def __aenter__(self) -> Self:
        read = [source for webhook in self._webhooks for source in webhook.read]
        for kind in dict.fromkeys(source.kind for source in read):
            # If one handler reads whole objects, the shared cache holds whole objects.
            metadata_only = all(source.metadata_only for source in read if source.kind == kind)
            selection = Selection(kind, self._namespace, metadata_only=metadata_only)
            informer = self._caches[kind] = self._set.acquire(selection)
            informer.listeners.append(self._changed)
        if self._serving is None:
            self.state = State.RUNNING
        else:
            self._task = asyncio.create_task(self._run(), name="konverge webhooks")
        return self

    async def __aexit__(self, *_: object) -> None:
        self.state = State.DRAINING
        if self._task is not None:
            self._task.cancel()  # safe at any moment: writes are compare-and-swaps, and the server is stopped below
            await asyncio.wait({self._task})
        if self._serving is not None:
            await self._serving.stop()
        self.state = State.STOPPED
        for informer in self._caches.values():
            informer.listeners.remove(self._changed)
            self._set.release(informer)

    @property
    def address(self) -> str:
        """The base URL of the server; "" while it does not listen."""
        return "" if self._serving is None else str(self._serving.address)

    async def _run(self) -> None:
        while True:
            await self._round()
            await asyncio.sleep(self._pause())

    def _pause(self) -> float:
        """Return the seconds until the next round: state on the API server is checked less often than files."""
        look = self._settings.look_seconds
        if self._problems:
            return look / 5
        return look if self._settings.certificates else look * 6

    async def _round(self) -> None:
        """Bring everything up to date once; a fault is reported and retried."""
        problems: tuple[Obstacle, ...] = ()
        try:
            odd = await self._serving.bring_up_to_date()
            problems = tuple(Obstacle(_WHAT, "NotRegistered", words) for words in odd)
        except (KonvergeError, OSError) as error:
            problems = (Obstacle(_WHAT, type(error).__name__, str(error)),)
        except Exception as error:  # noqa: BLE001  # containment: a bug here affects no controller
            self._log.error("the webhook server failed", **{LogKey.STACK: stack_of(error)})
            problems = (Obstacle(_WHAT, type(error).__name__, "a defect of the library; see the log"),)
        if self.address and self.state is State.STARTING:
            self.state = State.RUNNING
            self._log.info("webhooks are served", **{LogKey.ADDRESS: self.address})
        self._report(problems)

    def _report(self, problems: tuple[Obstacle, ...]) -> None:
        error = "; ".join(problem.message for problem in problems)
        if error and error != self._last_error:
            self._log.warning("the webhooks are not as they should be", **{LogKey.ERROR: error})
        self._last_error = error
        self._worked = self._worked or not problems
        # A replica that serves well stays in its Service while the API server is unreachable.
        self._problems = () if self._worked and self._serving.valid else problems
        self._changed()

    def report(self) -> ControllerReport:
        """Return whether the webhooks work, and if not, the obstacles and their remedies."""
        caches = (
            why_not(kind, informer, optional=False, synced=informer.synced) for kind, informer in self._caches.items()
        )
        missing = tuple(problem for problem in caches if problem is not None)
        return ControllerReport(_WHAT, self.state, (*self._problems, *missing), self._last_error)
