"""Faults in `finalize`: the lab's manager wraps every reconciler with a `finalize`, so that a plan can fail one of the calls.

Guarantees: calls are numbered from 1 over all lives of the process, in the order of their starts; a call of a dead process has no number.
A call without a fault has the result of the reconciler's own `finalize`.

Caveats: a `finalize` that is a plain function runs in a thread, and is neither numbered nor disturbed.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import Any, Final

from msgspec.structs import replace

from konverge.client import ClientConfig
from konverge.crds import Conversion
from konverge.errors import ServerFailure
from konverge.outcome import Outcome
from konverge.runtime import Controller, Manager
from konverge.runtime.admission.webhook import Webhook
from konverge_testing.lab.plans import Interruption
from konverge_testing.lab.process import FinalizeGate, Wire

__all__ = ["LET_THROUGH", "LabManager", "raise_interruption"]

LET_THROUGH: Final = "let a cancellation through"
"""Part of the runtime's error text if `finalize` lets a plan's cancellation through."""


def raise_interruption(what: Interruption) -> None:
    """Raise what ends this call of `finalize`."""
    if what.do == "cancel":
        raise asyncio.CancelledError(what.text)
    raise ServerFailure(what.text, status=500, reason="InternalError")


class _Disturbed:
    """A reconciler whose calls of `finalize` pass a gate."""

    def __init__(self, reconciler: Any, gate: FinalizeGate, wire: Wire) -> None:
        self._reconciler = reconciler
        self._gate = gate
        self._wire = wire

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reconciler, name)

    async def finalize(self, object_: Any, ctx: Any) -> Outcome:
        number = self._gate.finalize_begins(ctx.key) if self._wire.alive else 0
        outcome: Outcome = await self._reconciler.finalize(object_, ctx)
        if self._wire.alive and number:
            self._gate.finalize_ends(number)
        return outcome


class LabManager(Manager):
    """A manager whose calls of `finalize` pass a gate."""

    def __init__(self, name: str, config: ClientConfig, *, gate: FinalizeGate, wire: Wire, **options: Any) -> None:
        super().__init__(name, config, **options)
        self._disturbance = (gate, wire)

    def add(self, controller: Controller[Any] | Webhook[Any] | Conversion[Any]) -> None:
        """Add a controller, a webhook or a conversion, as `Manager.add`."""
        if isinstance(controller, Controller):
            reconciler = controller.reconciler
            if inspect.iscoroutinefunction(getattr(reconciler, "finalize", None)):
                controller = replace(controller, reconciler=_Disturbed(reconciler, *self._disturbance))
        super().add(controller)
