"""Several replicas of an operator on an in-memory API server, and an audit of who wrote when.

Guarantees: every commit is recorded with the replica that wrote it, and with the Lease's holder before it. A replica that is killed
sends and receives nothing any more; it releases nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from random import Random
from typing import Any, Self

from forwarding_transport import ForwardingTransport

from konverge.client import Client, ClientConfig, OpenStream, Response, Transport
from konverge.client.requests import Request
from konverge.errors import Unreachable
from konverge.metrics import Metrics
from konverge.objects import Object
from konverge.runtime import ElectionSettings, Manager, ManagerSettings, WebhookSettings
from konverge.runtime.admission.settings import IN_PROCESS
from konverge.runtime.election.record import LEASE
from konverge.runtime.sharding.settings import ShardingSettings
from konverge_testing import ApiServer
from konverge_testing.lab.process import Wire, killable

NAMESPACE = "lab"
WEBHOOKS = WebhookSettings(address=IN_PROCESS, url="https://operator.example.com")
ELECTION = ElectionSettings(enabled=True, name="operator", namespace=NAMESPACE)
REPLICA: ContextVar[str] = ContextVar("replica", default="")


@dataclass(frozen=True)
class Audited:
    """A commit: its time, replica and object, and the holder of the Lease at that time ("" for none)."""

    time: float
    replica: str
    what: str
    holder: str


@dataclass
class Replica:
    name: str
    manager: Manager
    wire: Wire
    metrics: Metrics = field(repr=False)

    @property
    def leads(self) -> bool:
        return self.manager.leads


class _Named(ForwardingTransport):
    """A transport that adds the name of its replica to requests, and can be slowed down."""

    def __init__(self, inner: Transport, name: str, replicas: Replicas) -> None:
        super().__init__(inner)
        self._name = name
        self._replicas = replicas

    async def send(self, request: Request) -> Response:
        delay = self._replicas.delays.get(self._name)
        if delay is not None:
            await asyncio.sleep(delay(request))
        token = REPLICA.set(self._name)
        try:
            response = await self._inner.send(request)
        finally:
            REPLICA.reset(token)
        loses = self._replicas.losses.get(self._name)
        if loses is not None and loses(request):
            raise Unreachable(f"{request.what}: the response is lost", maybe_done=True)
        await asyncio.sleep(self._replicas.slow_responses.get(self._name, 0.0) if request.writes else 0.0)
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[OpenStream]:
        async with self._inner.stream(request) as stream:
            yield self._replicas.stallable(self._name, request, stream)


class _Stallable:
    def __init__(self, inner: OpenStream, flows: asyncio.Event) -> None:
        self._inner = inner
        self._flows = flows
        self.status, self.content_type, self.retry_after = inner.status, inner.content_type, inner.retry_after

    async def read(self) -> bytes:
        found = await self._inner.read()
        await self._flows.wait()
        return found


class Replicas:
    """Use it with `async with`; replicas are started by `start`."""

    def __init__(
        self,
        build: Callable[[Manager], None],
        *,
        election: ElectionSettings = ELECTION,
        sharding: ShardingSettings | None = None,
        seed: int = 1,
    ) -> None:
        self.build = build
        self.election = election
        self.sharding = sharding or ShardingSettings()
        self.random = Random(seed)
        self.audit: list[Audited] = []
        self.holders: list[tuple[float, str]] = []
        """Each change of the holder: when, and which replica it is."""
        self.replicas: dict[str, Replica] = {}
        self.delays: dict[str, Callable[[Request], float]] = {}
        """Seconds by which requests of a replica are delayed on their way, by its name."""
        self.losses: dict[str, Callable[[Request], bool]] = {}
        """Which requests of a replica reach the server and lose their response, by its name."""
        self.slow_responses: dict[str, float] = {}
        """Seconds after which the response to a write of a replica comes, by its name: the watch shows the write before."""
        self._streams: list[tuple[str, str, asyncio.Event]] = []
        self.server = ApiServer(random=Random(seed), rbac=False, namespaces=(NAMESPACE,))

    async def __aenter__(self) -> Self:
        await self.server.__aenter__()
        self.server.store.observers.append(self._observe)
        self.client = Client(self.server.config(namespace=NAMESPACE), name="test", random=Random(2))
        return self

    async def __aexit__(self, *_: object) -> None:
        for replica in self.replicas.values():
            replica.wire.alive = True
            await replica.manager.stop()
        await self.client.close()
        await self.server.__aexit__(None, None, None)

    async def start(
        self, name: str, *, patience: float = 60.0, instance: str = "", random: Random | None = None
    ) -> Replica:
        """Start a replica; returns when its caches are complete. Raises NotReady after `patience` seconds.

        `instance` is the name that it uses, and `random` the source of its identities, for replicas with the identity of another replica.
        """
        wire = Wire(lambda: 0)
        inner = killable(self.server.config(namespace=NAMESPACE), wire)

        def make(_: ClientConfig, settings: Any, user_agent: str) -> Transport:
            return _Named(inner.open(settings, user_agent), name, self)

        metrics = Metrics()
        manager = Manager(
            "operator",
            ClientConfig.over(make, namespace=NAMESPACE),
            metrics=metrics,
            settings=ManagerSettings(
                namespace=NAMESPACE,
                instance=instance or name,
                election=self.election,
                sharding=self.sharding,
                webhooks=WEBHOOKS,
            ),
            random=random or Random(self.random.getrandbits(64)),
        )
        self.build(manager)
        replica = self.replicas[name] = Replica(name, manager, wire, metrics)
        await manager.start()
        await manager.wait_ready(timeout=patience)
        return replica

    def kill(self, name: str) -> None:
        """Cut a replica off from the server, as after kill -9."""
        self.replicas[name].wire.cut()

    async def stop(self, name: str) -> None:
        """Stop a replica as SIGTERM does."""
        await self.replicas.pop(name).manager.stop()

    def stallable(self, name: str, request: Request, stream: OpenStream) -> OpenStream:
        flows = asyncio.Event()
        flows.set()
        self._streams.append((name, request.path, flows))
        return _Stallable(stream, flows)

    def stall(self, name: str, part: str) -> Callable[[], None]:
        """Hold back the events of a replica's open watches whose path contains this part; returns a function that releases them."""
        held = [flows for one, path, flows in self._streams if one == name and part in path]
        for flows in held:
            flows.clear()

        def release() -> None:
            for flows in held:
                flows.set()

        return release

    async def lease(self) -> Object:
        return await self.client.get(LEASE, "operator", NAMESPACE)

    async def leader(self, *, other_than: str = "", within: float = 60.0) -> str:
        """Wait for a leader, and return its name."""
        async with asyncio.timeout(within):
            while True:
                for replica in self.replicas.values():
                    if replica.leads and replica.wire.alive and replica.name != other_than:
                        return replica.name
                await asyncio.sleep(0.05)

    def violations(self) -> list[Audited]:
        """Return the writes of replicas while the Lease named another replica."""
        return [one for one in self.audit if one.replica and one.holder and one.replica != one.holder]

    def writes(self, replica: str, since: float = 0.0) -> list[Audited]:
        return [one for one in self.audit if one.replica == replica and one.time >= since]

    def _observe(self, event: Any) -> None:
        entry, now = event.entry, asyncio.get_running_loop().time()
        if entry.resource == ("coordination.k8s.io", "leases"):
            holder = (entry.object().get("spec") or {}).get("holderIdentity") or ""
            name = holder.rpartition("_")[0] if event.type != "DELETED" else ""
            if not self.holders or self.holders[-1][1] != name:
                self.holders.append((now, name))
            return
        holder = self.holders[-1][1] if self.holders else ""
        self.audit.append(Audited(now, REPLICA.get(), f"{event.type} {entry.resource[1]} {entry.key}", holder))
