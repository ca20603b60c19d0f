"""The state that the parts of a manager share: declarations, and the resources of the parts that are open."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from konverge.client import Client, ClientConfig, Fence
from konverge.errors import UsageError
from konverge.informers import InformerSet
from konverge.keys import Key
from konverge.kinds import Kind
from konverge.metrics import Metrics
from konverge.objects import Metadata
from konverge.runtime.admission.webhook import Webhook
from konverge.runtime.builder.builder import Controller
from konverge.runtime.cache.readers import Reorder
from konverge.runtime.controller.runner import ControllerRunner
from konverge.runtime.events.recorder import EventRecorder
from konverge.runtime.hooks.leadership import Leadership, Term
from konverge.runtime.hooks.object_gate import ObjectGates, Owned
from konverge.runtime.hooks.tap import Tap
from konverge.runtime.observability.event_loop import EventLoopMonitor
from konverge.runtime.observability.failures import FailureObserver
from konverge.runtime.reconcile.services import ManagerServices
from konverge.tasks import Broadcast

if TYPE_CHECKING:
    from konverge.client.tracing import Tracing

__all__ = ["Core", "Plugged"]


class Plugged(msgspec.Struct):
    """The answers of the plug-ins that are open: who leads, who may write, and who owns an object."""

    leadership: Leadership | None = None
    """Decides when this process leads; None: it always leads."""
    leads: list[Callable[[], bool]] = msgspec.field(default_factory=list)
    """Whether a plug-in lets this process write; without plug-ins it always may."""
    services: list[Callable[[Controller[Any]], ManagerServices | None]] = msgspec.field(default_factory=list)
    """Services of a plug-in for some controllers; None for the others."""
    owner_of: Callable[[Metadata], Owned] | None = None
    """The owner of an object, if replicas share objects."""


class Core:
    """The shared state of one manager. A part sets the fields of its own resources when it opens."""

    # Set by the parts that open; `leader_client` refuses writes while this process does not lead.
    leader_client: Client
    term: Term
    events: EventRecorder
    unfenced_events: EventRecorder
    informers: InformerSet
    field_managers: frozenset[str]
    event_loop: EventLoopMonitor | None = None

    def __init__(
        self,
        name: str,
        *,
        metrics: Metrics,
        random: Random,
        instance: str,
        config: ClientConfig | None,
        started: Callable[[], bool],
    ) -> None:
        self.name = name
        self.metrics = metrics
        self.random = random
        self.instance = instance or socket.gethostname()
        self.config = config
        self.observer: FailureObserver | None = None
        self.reorder: Reorder | None = None
        self.gates: ObjectGates | None = None
        self.tap: Tap | None = None
        self.tracing: Tracing | None = None
        self._started = started
        # Declarations
        self.controllers: dict[str, Controller[Any]] = {}
        self.webhooks: Callable[[], tuple[Webhook[Any], ...]] = tuple
        self.has_background = False
        # The manager at work
        self._client: Client | None = None
        self.services: ManagerServices | None = None
        """The services of controllers that work while this process leads; None unless the manager runs."""
        self.unfenced: ManagerServices | None = None
        """The services of controllers that work on every replica."""
        self.plugged = Plugged()
        self.runners: dict[str, ControllerRunner] = {}
        self.changed = asyncio.Event()
        """Set if the tasks of a part changed."""
        self.readiness = Broadcast()

    @property
    def started(self) -> bool:
        """Whether a start was tried: most declarations are refused then."""
        return self._started()

    @property
    def client(self) -> Client:
        """The client, which is not fenced; raises UsageError before the start."""
        if self._client is None:
            raise UsageError(f"manager {self.name!r} has no client before it is started")
        return self._client

    @client.setter
    def client(self, client: Client) -> None:
        self._client = client

    @property
    def leads(self) -> bool:
        """Whether this process may write now."""
        return self.services is not None and (not self.plugged.leads or any(leads() for leads in self.plugged.leads))

    @property
    def fence(self) -> Fence | None:
        """Refuses writes while this process does not lead; None if it always leads."""
        leadership = self.plugged.leadership
        return None if leadership is None else leadership.fence

    def services_of(self, controller: Controller[Any] | None) -> ManagerServices | None:
        """Return the services of a controller; None if it does not run."""
        if controller is None:
            return None
        for other in self.plugged.services:
            if (services := other(controller)) is not None:
                return services
        return self.services if controller.elected else self.unfenced

    def recorder(self, client: Client) -> EventRecorder:
        """Return a recorder of Events that writes with this client."""
        return EventRecorder(
            client, controller=self.name, instance=self.instance, metrics=self.metrics, random=self.random
        )

    def enqueue(self, controller: str, key: Key) -> None:
        """Enqueue a key of a controller, if that controller runs."""
        runner = self.runners.get(controller)
        if runner is not None:
            runner.enqueue(key)

    def declare(self, what: str) -> None:
        """Raise UsageError for a declaration after the start."""
        if self.started:
            raise UsageError(f"manager {self.name!r} was started already: {what}")

    def kinds_read_elsewhere(self) -> frozenset[Kind[Any]]:
        """Return the kinds whose whole objects a controller reads as other objects than its own, or a webhook reads."""
        controllers = self.controllers.values()
        return frozenset(
            {
                *(
                    watch.kind
                    for controller in controllers
                    for watch in (*controller.owned, *controller.watched)
                    if not watch.metadata_only
                ),
                *(index.kind for controller in controllers for index in controller.indexed),
                *(read.kind for webhook in self.webhooks() for read in webhook.read if not read.metadata_only),
            }
        )
