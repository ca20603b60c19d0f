"""The fence of a controller's writes to other API servers than the manager's own."""

from __future__ import annotations

from collections.abc import Callable

from konverge.errors import NotLeading
from konverge.runtime.reconcile.services import ManagerServices

__all__ = ["ControllerFence"]


class ControllerFence:
    """Lets writes through while the controller may write. It exists before the manager starts, and before the controller has a fence."""

    def __init__(self, services: Callable[[], ManagerServices | None]) -> None:
        self._services = services

    def check(self) -> None:
        """Raise NotLeading if the controller must not write now."""
        services = self._services()
        if services is None:
            raise NotLeading("not sent: this controller does not run")
        if services.fence is not None:
            services.fence.check()
