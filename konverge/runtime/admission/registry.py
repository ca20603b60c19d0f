"""The webhooks of a manager, before, while and after they run.

Guarantees: a manager without webhooks loads no server code, and needs no rights for webhooks.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from konverge.errors import UsageError
from konverge.rbac import Rule
from konverge.runtime.admission.configurations import check_distinct, configurations, rules_of_webhooks
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

    def remove(self, path: str) -> bool:
        """Remove the webhook of a path; returns False if no webhook has it. Raises UsageError while they are served."""
        kept = tuple(webhook for webhook in self.webhooks if webhook.path != path)
        if kept == self.webhooks:
            return False
        if self.runner is not None:
            raise UsageError(f"webhook {path} is served; webhooks are removed before the manager is started")
        self.webhooks = kept
        return True

    def rules(self) -> tuple[Rule, ...]:
        """Return the rights that the webhooks need."""
        self_made = not self._settings.certificates and self._settings.address != IN_PROCESS
        return rules_of_webhooks(self.webhooks, place_of(self._manager, self._settings), self_made=self_made)

    def configurations(self, *, bundle: bytes = b"", inject_from: str = "") -> list[dict[str, Any]]:
        """Return the webhook configurations for the API server."""
        place = place_of(self._manager, self._settings)
        return configurations(self.webhooks, place, namespace=self._namespace, bundle=bundle, inject_from=inject_from)

    async def serve(
        self,
        stack: AsyncExitStack,
        client: Client,
        informers: InformerSet,
        metrics: Metrics,
        changed: Callable[[], None],
    ) -> None:
        """Serve the webhooks, if any, until the stack ends; `changed` is called when their report may have changed."""
        if not self.webhooks:
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
            changed=changed,
        )
        self.runner = await stack.enter_async_context(runner)

    def report(self) -> ControllerReport | None:
        """Return the report of the webhooks; None without webhooks."""
        if not self.webhooks:
            return None
        return ControllerReport("webhooks", State.STARTING) if self.runner is None else self.runner.report()
