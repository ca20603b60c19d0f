"""The settings of a manager, and the plug-ins that they construct: the only module that knows election and sharding."""

from __future__ import annotations

from dataclasses import dataclass, replace

from konverge.client import ClientSettings
from konverge.informers import InformerSettings
from konverge.runtime.admission.settings import WebhookSettings
from konverge.runtime.election.part import Election
from konverge.runtime.election.settings import ElectionSettings
from konverge.runtime.hooks.leadership import Leadership
from konverge.runtime.parts.core import Core
from konverge.runtime.parts.part import ManagerPart
from konverge.runtime.sharding.settings import ShardingSettings

__all__ = ["ElectionSettings", "ManagerSettings", "ShardingSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerSettings:
    """The settings of a manager.

    >>> ManagerSettings(namespace="web").drain
    25.0
    """

    namespace: str | None = None
    """The only namespace that is watched; None: the whole cluster."""
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
    """Whether replicas elect a leader, and the Lease of the election."""
    sharding: ShardingSettings = ShardingSettings()  # noqa: RUF009  # frozen, so one default serves all
    """Whether replicas share the objects, and the ring."""
    webhooks: WebhookSettings = WebhookSettings()  # noqa: RUF009  # frozen, so one default serves all
    """The address of the webhooks, if any."""

    @property
    def renew_seconds(self) -> float:
        """Seconds that the event loop may be blocked until a Lease is lost; 0 without Leases."""
        if self.sharding.mode in ("hash", "coordinator"):
            return self.sharding.renew_seconds
        elects = self.election.enabled or self.sharding.mode != "off"
        return self.election.renew_seconds if elects else 0.0

    def election_part(self, core: Core, leadership: Leadership | None) -> ManagerPart:
        """Return the part that decides when this process leads; `leadership` replaces the election by a Lease."""
        return Election(core, lambda: self._election(core), leadership)

    def sharding_parts(self, core: Core) -> tuple[ManagerPart, ...]:
        """Return the part that shares objects among replicas, if the settings enable it."""
        if not self.sharding.enabled:
            return ()
        # Here, because a manager without sharding does not need the modules of the ring.
        from konverge.runtime.sharding.part import Sharding

        return (Sharding(core, self.sharding),)

    def _election(self, core: Core) -> ElectionSettings:
        """Return the election: with sharding its leader is the coordinator, and runs background work and unshared controllers."""
        if not self.sharding.enabled:
            return replace(self.election, enabled=self.election.enabled or self.sharding.mode == "leader")
        unshared = any(spec.elected and spec.family is None for spec in core.controllers.values())
        led = self.sharding.mode == "coordinator" or core.has_background or unshared
        return replace(self.election, enabled=led)
