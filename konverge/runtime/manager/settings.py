"""The settings of a manager."""

from __future__ import annotations

from dataclasses import dataclass

from konverge.client import ClientSettings
from konverge.informers import InformerSettings
from konverge.runtime.admission.settings import WebhookSettings
from konverge.runtime.election.settings import ElectionSettings
from konverge.runtime.sharding.settings import ShardingSettings

__all__ = ["ManagerSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerSettings:
    """The settings of a manager.

    >>> ManagerSettings(namespace="web").drain
    25.0
    """

    namespace: str | None = None
    """Watch this namespace alone; None: the whole cluster."""
    instance: str = ""
    """The name of this replica in Events; empty: the host's name, which in a cluster is the pod's."""
    drain: float = 25.0
    """Seconds that running reconciles have when the manager stops; below the 30 s that a pod has."""
    strict: bool = False
    """Whether a malformed condition is an error instead of being cut; tests set it."""
    stall_seconds: float = 0.1
    """A reconcile that keeps the event loop for longer is reported with its stack."""
    client: ClientSettings = ClientSettings()  # noqa: RUF009  # frozen, so one default serves all
    """Timeouts, retries and parallelism of requests."""
    informers: InformerSettings = InformerSettings()  # noqa: RUF009  # frozen, so one default serves all
    """How kinds are listed and watched."""
    election: ElectionSettings = ElectionSettings()  # noqa: RUF009  # frozen, so one default serves all
    """Whether replicas elect one that writes, and by which Lease."""
    sharding: ShardingSettings = ShardingSettings()  # noqa: RUF009  # frozen, so one default serves all
    """Whether replicas share the objects, and by which ring."""
    webhooks: WebhookSettings = WebhookSettings()  # noqa: RUF009  # frozen, so one default serves all
    """Where webhooks are served, if there are any."""
