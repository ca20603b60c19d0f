"""The operator's work beside its controllers: the link to the servers, and the objects that every Cluster needs.

Guarantees: nothing is connected or written unless this process leads.
"""

from __future__ import annotations

import importlib.util
import secrets
from collections.abc import Awaitable, Callable
from random import Random
from typing import TYPE_CHECKING, Final

from konverge.client.credentials import TlsMaterial
from konverge.crds.machines_v1beta1 import NstanceCluster
from konverge.errors import ConfigError
from konverge.keys import Key
from konverge.kinds import kind_of
from konverge.logs import get_logger
from konverge.reconcilers.machines.clusters.upkeep import ClusterUpkeep
from konverge.reconcilers.machines.drains.removal import NodeRemoval
from konverge.reconcilers.machines.drains.running import RunningDrains
from konverge.reconcilers.machines.identity.certificates import OperatorName
from konverge.reconcilers.machines.metrics import MachineMetrics
from konverge.reconcilers.machines.settings import MachineSettings
from konverge.reconcilers.machines.shards.document import ShardMap
from konverge.reconcilers.machines.shards.failures import FailureKind, ShardFailure
from konverge.reconcilers.machines.shards.states import ShardStates
from konverge.tasks import wait_first

if TYPE_CHECKING:
    from konverge.reconcilers.machines.identity.link import ServerLink
    from konverge.reconcilers.machines.shards.client import ShardClient
    from konverge.reconcilers.machines.shards.connections import Connections
    from konverge.reconcilers.machines.shards.dialing import Dial
    from konverge.runtime.parts.background import BackgroundServices

__all__ = ["NstanceService"]

_MISSING: Final = "gRPC is not installed: pip install 'konverge[machines]'"


def _grpc_installed() -> bool:
    return all(importlib.util.find_spec(name) is not None for name in ("grpclib", "google.protobuf"))


class NstanceService:
    """The link of one operator; `run` is the background work of its manager. `home` returns the namespace of the process, `dial` creates
    channels, `entropy` returns random bytes.
    """

    def __init__(
        self,
        settings: MachineSettings,
        metrics: MachineMetrics,
        *,
        home: Callable[[], str] = lambda: "",
        dial: Callable[[TlsMaterial], Awaitable[Dial]] | None = None,
        entropy: Callable[[int], bytes] = secrets.token_bytes,
        random: Random | None = None,
    ) -> None:
        self.settings = settings
        self._home = home
        self._drains = RunningDrains(settings, metrics, self._acknowledge)
        self.states = ShardStates(metrics, settle=settings.call_timeout, drains=self._drains)
        self._connections: Connections | None = None
        self._random = random
        self._dial = dial
        self._entropy = entropy
        self._shards: ShardMap | None = None
        self._authority_version = ""
        self._link: ServerLink | None = None
        self._log = get_logger("konverge.machines")

    @property
    def problem(self) -> str:
        """The reason why no certificate can be used; "" while one is in use."""
        if self._link is not None:
            return self._link.problem
        return "the link to the servers has not begun yet" if _grpc_installed() else _MISSING

    def note(self) -> str:
        """Return the unreachable shards for readiness; "" if all are reachable, and while this process does not lead.

        An unreachable shard never fails readiness: the other shards work, and a restart does not repair it.
        """
        if self._connections is None:
            return ""
        if self.problem:
            return f"certificate: {self.problem}"
        away, expected = self.states.problems, self.states.expected or ()
        named = "; ".join(f"{shard}: {problem}" for shard, problem in sorted(away.items()))
        return f"{len(away)} of {len(expected)} shards cannot be asked: {named}" if away else ""

    @property
    def namespace(self) -> str:
        """The namespace of the operator, where its Cluster is."""
        return self.settings.namespace or self._home() or "default"

    def acts_in(self, namespace: str) -> bool:
        """Tell whether objects of a namespace reach the servers: only the operator's namespace, where tenants do not write."""
        return namespace == self.namespace

    def use(self, shards: ShardMap) -> None:
        """Serve these shards from now on."""
        self._shards = shards
        self.states.expect(shards.shards)
        if self._link is not None:
            self._link.use(shards)

    def use_authority(self, version: str) -> None:
        """Use the authority in its ConfigMap, which has this version now."""
        self._authority_version = version
        if self._link is not None:
            self._link.use_authority(version)

    def shard(self, name: str) -> ShardClient:
        """Return the calls of a shard; raises ShardFailure at once while it is unreachable."""
        if self._connections is None:
            raise ShardFailure(name, FailureKind.UNREACHABLE, self.problem)
        return self._connections.client(name)

    async def _acknowledge(self, shard: str, instance_id: str) -> None:
        await self.shard(shard).acknowledge_drained(instance_id)
        self.states.drain_ended(shard, instance_id)

    async def run(self, services: BackgroundServices) -> None:
        """Work while this process leads; raises ConfigError if the extra with gRPC is not installed."""
        if not _grpc_installed():
            raise ConfigError(_MISSING)
        # Imported here because gRPC and protobuf take 15 MiB that a daemon without machines never needs.
        from konverge.reconcilers.machines.identity.link import ServerLink
        from konverge.reconcilers.machines.shards.connections import Connections
        from konverge.reconcilers.machines.shards.dialing import over_tls

        settings, namespace = self.settings, self.namespace
        self.states.cluster = Key("", kind_of(NstanceCluster), namespace, settings.cluster_name)
        self.states.begin(services.enqueue)
        self._drains.begin(services, namespace)
        self._connections = connections = Connections(
            self.states,
            random=services.random if self._random is None else self._random,
            pace=settings.pace,
        )
        self._link = link = ServerLink(
            connections,
            owner=OperatorName(settings.cluster_id, settings.tenant),
            namespace=namespace,
            names=settings.identity_names,
            dial=self._dial or over_tls,
            entropy=self._entropy,
            seconds=settings.call_timeout,
            reports=self.states.wake_cluster,
        )
        if self._shards is not None:
            link.use(self._shards)
        link.use_authority(self._authority_version)
        upkeep = ClusterUpkeep(services.client, settings, namespace)
        removal = NodeRemoval(services, settings, self.shard)
        try:
            await wait_first(link.run(services.client, services.random), upkeep.run(), removal.run())
        finally:
            self._link = self._connections = None
            await self._drains.end()
            self.states.end()
