"""A lab with a control plane in the same process, a daemon with pull mode, and the Cluster that connects them."""

import asyncio
from typing import Any

from pull_kit import TOKEN, definitions

from konverge.crds.ops_v1alpha1 import Cluster
from konverge.errors import NotFound
from konverge.reconcilers import clusters
from konverge.reconcilers.clusters.agent_state import AgentConfig
from konverge.reconcilers.clusters.transport import PlaneTransport
from konverge.runtime import ManagerSettings
from konverge_testing import Lab, install_crds
from konverge_testing.agent_server import AgentServer


async def until(lab: Lab, name: str, test: Any, *, timeout: float = 400.0) -> Cluster:
    """Wait until a Cluster passes a test; returns it."""
    found: Cluster | None = None
    try:
        async with asyncio.timeout(lab.limit(timeout)):
            while True:
                try:
                    found = await lab.client.get(Cluster, name)
                    if test(found):
                        return found
                except NotFound:
                    found = None
                await asyncio.sleep(0.5)
    except TimeoutError:
        shown = None if found is None else found.to_dict()
        raise AssertionError(f"waited for {test.__qualname__}; the Cluster is {shown}") from None


async def gone(lab: Lab, name: str) -> None:
    """Wait until a Cluster is deleted."""
    async with asyncio.timeout(lab.limit(100)):
        while True:
            try:
                await lab.client.get(Cluster, name)
            except NotFound:
                return
            await asyncio.sleep(0.5)


def is_(type_: str, status: str, reason: str = "") -> Any:
    def test(found: Cluster) -> bool:
        condition = found.find_condition(type_)
        return condition is not None and condition.status == status and reason in ("", condition.reason)

    test.__qualname__ = f"{type_}={status}/{reason}"
    return test


def phase(name: str) -> Any:
    def test(found: Cluster) -> bool:
        return found.status.phase == name

    test.__qualname__ = f"phase={name}"
    return test


class Plane:
    """A lab with a control plane, and a daemon with pull mode."""

    def __init__(self, lab: Lab, **settings: Any) -> None:
        self.lab = lab
        self.plane = AgentServer("east", tokens=(TOKEN,), random=lab.rng())
        self.settings = clusters.Settings.model_validate({"namespace": lab.namespace, "wait": 10, **settings})

    async def start(self, **spec: Any) -> None:
        await self.run()
        await self.create(**{"registrationToken": TOKEN, **spec})

    async def run(self) -> None:
        def build(manager: Any) -> None:
            clusters.install(manager, self.settings, connect=self.connect)

        await install_crds(self.lab.client, definitions())
        await self.lab.start(build, settings=ManagerSettings(strict=True))

    def connect(self, _config: AgentConfig) -> PlaneTransport:
        return self.plane.connect()

    async def create(self, **spec: Any) -> None:
        whole = {"clusterId": "east", "controlPlaneEndpoint": "https://plane.example.com", **spec}
        await self.lab.client.create(Cluster.decode({"metadata": {"name": "east"}, "spec": whole}))

    async def until(self, test: Any) -> Cluster:
        return await until(self.lab, "east", test)

    async def patch(self, patch: dict[str, Any]) -> None:
        await self.lab.client.patch(Cluster, "east", patch=patch, style="merge")
