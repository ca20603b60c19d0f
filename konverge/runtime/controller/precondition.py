"""The precondition of a controller: whether something in the cluster keeps it from starting.

Guarantees: the gate is called at the start, and again every half minute while it names an obstacle; other controllers do not wait. A gate
that fails (no right, no server) is an obstacle with the message of its error.

Caveats: it is not called again once the controller has started.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from konverge.client import Client
from konverge.errors import KonvergeError
from konverge.runtime.observability.readiness import Obstacle
from konverge.words import LogKey

if TYPE_CHECKING:
    from konverge.kinds import Kind
    from konverge.runtime.builder.reconciler import Gate

__all__ = ["Precondition"]

_SECONDS = 30.0


class Precondition:
    """The gate of one controller; a controller without one starts at once."""

    def __init__(
        self, gate: Gate | None, kind: Kind[Any], client: Client, log: Any, *, changed: Callable[[], None]
    ) -> None:
        self._gate = gate
        self._changed = changed
        self._kind = kind
        self._client = client
        self._log = log
        self._why = "" if gate is None else "its gate was not asked yet"

    async def opened(self) -> None:
        """Wait until the gate names no obstacle."""
        while self._gate is not None:
            try:
                self._why = await self._gate(self._client)
            except KonvergeError as error:
                self._why = f"could not find out whether it may start: {error}"
            self._changed()
            if not self._why:
                return
            self._log.warning("the controller does not start yet", **{LogKey.CAUSE: self._why})
            await asyncio.sleep(_SECONDS)

    @property
    def obstacles(self) -> tuple[Obstacle, ...]:
        """The obstacles at present."""
        return (Obstacle(self._kind.group_kind, "KeptBack", self._why),) if self._why else ()
