"""The webhooks of a manager, before, while and after they run.

Guarantees: a manager without webhooks loads no server code, and needs no rights for webhooks.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from konverge.crds import Conversion
from konverge.errors import UsageError
from konverge.rbac import Rule
from konverge.runtime.admission.configurations import (
    check_conversion,
    check_distinct,
    client_of,
    configurations,
    rules_of_webhooks,
)
from konverge.runtime.admission.settings import IN_PROCESS, WebhookSettings, place_of
from konverge.runtime.admission.webhook import Webhook
from konverge.runtime.observability.readiness import ControllerReport, State

if TYPE_CHECKING:
    from konverge.client import Client
    from konverge.informers import InformerSet
    from konverge.metrics import Metrics
    from konverge.runtime.admission.server import WebhookRunner

__all__ = ["WebhookRegistry"]


class WebhookRegistry:
    """The webhooks of a manager. Constructing it starts nothing."""

    def __init__(self, manager: str, settings: WebhookSettings, namespace: str | None) -> None:
        self._manager = manager
        self._settings = settings
        self._namespace = namespace
        self.webhooks: tuple[Webhook[Any], ...] = ()
        self.conversions: tuple[Conversion[Any], ...] = ()
        self.runner: WebhookRunner | None = None
        """The running webhooks; None before the start and without webhooks."""

    def add(self, webhook: Webhook[Any], *, started: bool) -> None:
        """Add a webhook. Raises UsageError if it has no handler, if its path is taken, and after the start."""
        if webhook.handler is None:
            raise UsageError(f"webhook {webhook.path} has no handler; end its sentence with .handled_by(...)")
        if started:
            raise UsageError(f"webhook {webhook.path}: add webhooks before the manager is started")
        webhooks = (*self.webhooks, webhook)
        check_distinct(webhooks)
        self.webhooks = webhooks

    def add_conversion(self, conversion: Conversion[Any], *, started: bool) -> None:
        """Add a conversion. Raises UsageError if it cannot be served, and after the start."""
        if started:
            raise UsageError(f"webhook {conversion.path}: add conversions before the manager is started")
        check_conversion(conversion, self.conversions)
        self.conversions = (*self.conversions, conversion)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to serve."""
        return not self.webhooks and not self.conversions

    def remove(self, path: str) -> bool:
        """Remove the webhook or conversion of a path; returns False if none has it. Raises UsageError while they are served."""
        kept = tuple(webhook for webhook in self.webhooks if webhook.path != path)
        conversions = tuple(conversion for conversion in self.conversions if conversion.path != path)
        if kept == self.webhooks and conversions == self.conversions:
            return False
        if self.runner is not None:
            raise UsageError(f"webhook {path} is served; webhooks are removed before the manager is started")
        self.webhooks, self.conversions = kept, conversions
        return True

    def rules(self) -> tuple[Rule, ...]:
        """Return the rights that the webhooks need."""
        self_made = not self._settings.certificates and self._settings.address != IN_PROCESS
        place = place_of(self._manager, self._settings)
        return rules_of_webhooks(self.webhooks, place, self_made=self_made, conversions=self.conversions)

    def configurations(self, *, bundle: bytes = b"", inject_from: str = "") -> list[dict[str, Any]]:
        """Return the webhook configurations for the API server."""
        place = place_of(self._manager, self._settings)
        return configurations(self.webhooks, place, namespace=self._namespace, bundle=bundle, inject_from=inject_from)

    def conversion_clients(self, *, bundle: bytes = b"") -> dict[str, dict[str, Any]]:
        """Return the `clientConfig` of each conversion by the name of its definition."""
        place = place_of(self._manager, self._settings)
        return {conversion.crd_name: client_of(place, conversion.path, bundle) for conversion in self.conversions}

    async def serve(
        self,
        stack: AsyncExitStack,
        client: Client,
        informers: InformerSet,
        metrics: Metrics,
        changed: Callable[[], None],
    ) -> None:
        """Serve the webhooks, if any, until the stack ends; `changed` is called when their report may have changed."""
        if self.is_empty:
            return
        # Here, because a manager without webhooks needs no server.
        from konverge.runtime.admission.server import WebhookRunner

        runner = WebhookRunner(
            self.webhooks,
            manager=self._manager,
            client=client,
            informers=informers,
            metrics=metrics,
            place=place_of(self._manager, self._settings),
            settings=self._settings,
            namespace=self._namespace,
            conversions=self.conversions,
            changed=changed,
        )
        self.runner = await stack.enter_async_context(runner)

    def report(self) -> ControllerReport | None:
        """Return the report of the webhooks; None without webhooks."""
        if self.is_empty:
            return None
        return ControllerReport("webhooks", State.STARTING) if self.runner is None else self.runner.report()
