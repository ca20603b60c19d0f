"""The webhooks of a manager as a part."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from konverge.rbac import Rule
from konverge.runtime.admission.registry import WebhookRegistry
from konverge.runtime.observability.readiness import Report
from konverge.runtime.parts.core import Core
from konverge.runtime.parts.part import ManagerPart

__all__ = ["Webhooks"]


class Webhooks(ManagerPart):
    """Serves the webhooks of a registry, on every replica."""

    def __init__(self, core: Core, registry: WebhookRegistry) -> None:
        self._core = core
        self._registry = registry
        core.webhooks = lambda: registry.webhooks

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Serve the webhooks, if there are any."""
        core = self._core
        async with AsyncExitStack() as stack:
            await self._registry.serve(stack, core.client, core.informers, core.metrics, core.readiness.notify)
            yield

    def rules(self) -> tuple[Rule, ...]:
        """Return the rights of the webhooks."""
        return self._registry.rules()

    def report(self) -> Report:
        """Return the report of the webhooks."""
        return Report((), self._registry.report())
