"""An agent in virtual time between an in-memory API server and an in-memory control plane, and its death at any request to either."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Any, Self

import msgspec
from forwarding_transport import ForwardingTransport

from konverge.client import Client, ClientConfig
from konverge.client.requests import Request
from konverge.client.settings import ClientSettings
from konverge.client.transport import Response, Transport
from konverge.crds import crd
from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.crds.ops_v1alpha1 import Cluster, ClusterSpec, Operation
from konverge.errors import Unreachable
from konverge.kinds import kind
from konverge.metrics import Metrics
from konverge.objects import Object
from konverge.reconcilers.clusters.agent import Agent
from konverge.reconcilers.clusters.agent_state import AgentConfig
from konverge.reconcilers.clusters.kinds import APPLICATION_INSTANCE, OPERATION, SECRET
from konverge.reconcilers.clusters.metrics import PullMetrics
from konverge.reconcilers.clusters.secrets import SecretOwner, token_digest
from konverge.reconcilers.clusters.settings import Settings
from konverge.reconcilers.clusters.transport import NoResponse, PlaneRequest, PlaneResponse, PlaneTransport
from konverge_testing import ApiServer, install_crds
from konverge_testing.agent_server import AgentServer

NAMESPACE = kind("v1", "Namespace", namespaced=False)
TOKEN = "registration-token-of-east"  # a test's token
OPERATOR = "konverge-system"
SPEC: dict[str, Any] = {
    "appRef": {"catalogId": "shop"},
    "chart": {"sourceType": "helm", "url": "https://charts.example.com", "name": "shop", "version": "1.0.0"},
    "release": {"name": "shop", "namespace": "web"},
    "values": {"source": "inline", "inline": {"replicas": 1}},
}
BACKUP: dict[str, Any] = {
    "targetRef": {"apiVersion": "apps.vworkspace.io/v1alpha1", "kind": "ApplicationInstance", "name": "shop"},
    "type": "Backup",
    "engine": "velero",
}


def ensure(name: str = "shop", **spec: Any) -> dict[str, Any]:
    """Return the payload that requests an ApplicationInstance."""
    body = {**SPEC, "release": {"name": name, "namespace": "web"}, **spec}
    return {"intent": "ensure-application-instance", "namespace": "web", "name": name, "spec": body}


def manifest(name: str = "shop", **metadata: Any) -> dict[str, Any]:
    """Return the payload of an apply job."""
    return {
        "apiVersion": "apps.vworkspace.io/v1alpha1",
        "kind": "ApplicationInstance",
        "metadata": {"name": name, "namespace": "web", **metadata},
        "spec": {**SPEC, "release": {"name": name, "namespace": "web"}},
    }


@cache
def _definitions() -> bytes:
    return msgspec.json.encode([crd(model) for model in (ApplicationInstance, Operation, Cluster)])


def definitions() -> list[dict[str, Any]]:
    """Return the definitions of the kinds."""
    found: list[dict[str, Any]] = msgspec.json.decode(_definitions())
    return found


@dataclass
class Steps:
    """Every moment before and after a request of the agent, numbered from 1; at `fatal` the agent dies."""

    fatal: int = 0
    cut: int = 0
    """The moment at which the connection to the control plane is cut, or the API server's response is lost."""
    count: int = 0
    names: list[str] = field(default_factory=list)
    died: asyncio.Event = field(default_factory=asyncio.Event)

    async def at(self, name: str) -> None:
        """Pass a moment; never return if it is the fatal moment, or the agent is dead."""
        self.count += 1
        self.names.append(name)
        if self.count == self.fatal:
            self.died.set()
        if self.died.is_set():
            await asyncio.get_running_loop().create_future()
        if self.count == self.cut:
            if "/api/agent/" in name:
                raise NoResponse("the connection was cut")
            raise Unreachable(name, maybe_done=True)


class _ToServer(ForwardingTransport):
    """A transport to the API server that can die at each write."""

    def __init__(self, inner: Transport, steps: Callable[[], Steps]) -> None:
        super().__init__(inner)
        self._steps = steps

    async def send(self, request: Request) -> Response:
        if request.method == "GET":
            return await self._inner.send(request)
        steps = self._steps()
        await steps.at(f"before {request.method} {request.path}")
        response = await self._inner.send(request)
        await steps.at(f"after {request.method} {request.path}")
        return response


class _ToPlane:
    """A transport to the control plane that can die at each request."""

    def __init__(self, inner: PlaneTransport, steps: Steps) -> None:
        self._inner = inner
        self._steps = steps

    async def send(self, request: PlaneRequest) -> PlaneResponse:
        await self._steps.at(f"before {request.method} {request.path}")
        response = await self._inner.send(request)
        await self._steps.at(f"after {request.method} {request.path}")
        return response

    async def close(self) -> None:
        await self._inner.close()


class World:
    """The two servers, and at most one agent at a time; use it with `async with`."""

    def __init__(self, **settings: Any) -> None:
        self.settings = Settings.model_validate({"namespace": OPERATOR, **settings})
        self.plane = AgentServer("east", tokens=(TOKEN,), random=Random(7))
        self.transport: Callable[[], PlaneTransport] = self.plane.connect
        self._random = Random(4)
        self.metrics = Metrics()
        self.steps = Steps()
        self.present: Callable[[], Iterable[Object]] = tuple
        self.states: list[str] = []
        self.agent: Agent
        self._task: asyncio.Task[None] | None = None
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        namespaces = ("default", "web", OPERATOR)
        self.server = await self._stack.enter_async_context(ApiServer(namespaces=namespaces, random=Random(1)))
        self.client = await self._stack.enter_async_context(
            Client(self.server.config(), name="admin", random=Random(2))
        )
        await install_crds(self.client, definitions())
        made = await self.client.create(
            Cluster.new("east", spec=ClusterSpec(cluster_id="east", control_plane_endpoint="https://plane.example.com"))
        )
        self.owner = SecretOwner(
            api_version="ops.vworkspace.io/v1alpha1",
            kind="Cluster",
            name="east",
            uid=made.metadata.uid,
            cluster_id="east",
        )
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.kill()
        await self._stack.aclose()

    def config(self, **changes: Any) -> AgentConfig:
        """Return the configuration of an agent that may register."""
        given: dict[str, Any] = {
            "owner": self.owner,
            "endpoint": "https://plane.example.com",
            "namespace": OPERATOR,
            "token": TOKEN,
            "token_digest": token_digest(TOKEN),
            "settings": self.settings,
        }
        return AgentConfig(**{**given, **changes})

    async def start(self, **changes: Any) -> Agent:
        """Start an agent."""
        inner = self.server.config()

        def over(_config: ClientConfig, settings: ClientSettings, user_agent: str) -> Transport:
            return _ToServer(inner.open(settings, user_agent), lambda: self.steps)

        client = Client(ClientConfig.over(over), name="konverge", random=Random(3))
        self._stack.push_async_callback(client.close)
        self.agent = Agent(
            self.config(**changes),
            client=client,
            manager="konverge",
            transport=_ToPlane(self.transport(), self.steps),
            random=self._random,
            metrics=PullMetrics.within(self.metrics),
            statuses=self._present,
            changed=lambda: self.states.append(str(self.agent.state.step)),
        )
        self._task = asyncio.create_task(self.agent.run())
        return self.agent

    def _present(self) -> Iterable[Object]:
        return self.present()

    async def kill(self) -> None:
        """End the agent at once."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
            if not task.cancelled():
                task.result()

    async def instance(self, name: str = "shop") -> Object:
        """Return a stored ApplicationInstance."""
        return await self.client.get(APPLICATION_INSTANCE, name, "web")

    async def operations(self) -> list[Object]:
        """Return the stored Operations."""
        return list(await self.client.list(OPERATION, "web"))

    async def secret(self, name: str) -> Object:
        """Return a Secret of the agent."""
        return await self.client.get(SECRET, name, OPERATOR)
