"""The cost of one changed object among 10, 1,000 and 10,000 neighbours, for each family: Python calls, writes, and bytes that it sends.

Counts, so they hold on any machine: calls of Python functions of the library and the families (not of the test kit, the server or other
libraries), the writes that the server received, and their bytes. They include the work at rest until the lab is quiet, which has rows of
its own (`rest`). A pool lists at most 5,000 claims, so that is quota's largest size. `python bench_neighbours.py FAMILY NEIGHBOURS` prints one
measurement as JSON; `tests/guard/test_neighbours.py` runs it with small sizes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from cProfile import Profile
from datetime import timedelta
from functools import partial
from math import log
from pathlib import Path
from random import Random
from typing import Any, Final

from bench_machines import SHARDS, MachinesWorld
from bench_operations import TARGETS, OperationsWorld
from bench_pools import PoolsWorld
from bench_quota import QuotaWorld, hard
from harness import PROCESS, World, in_batches, virtual
from rows import QUICK, Row, row

import konverge
from konverge.crds import crd
from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.crds.ops_v1alpha1 import Cluster, Operation
from konverge.crds.pools_v1alpha1 import Nextcloud, NextcloudInstance, NextcloudPool, NextcloudProfile
from konverge.crds.quota_v1beta2 import ResourcePool
from konverge.crds.workspaces_v1alpha1 import WorkspaceClaim, WorkspaceClaimSpec
from konverge.kinds import kind
from konverge.reconcilers import apps, clusters, workspaces
from konverge.reconcilers.shared.words import ControlPlaneLabel
from konverge.reconcilers.workspaces import MemoryWorkspaces, WorkspaceSettings
from konverge.runtime import ManagerSettings
from konverge_testing.agent_server import AgentServer
from konverge_testing.argo import argo_crds
from konverge_testing.flux import flux_crds
from konverge_testing.lab import install_crds

BY_NAME_ONLY = True
SIZES: Final = (10, 50) if QUICK else (10, 1_000, 10_000)
MOST_CLAIMS: Final = 5_000
CONFIG_MAP: Final = kind("v1", "ConfigMap", namespaced=True, plural="configmaps")
PACKAGE: Final = str(Path(konverge.__file__).parent)
"""The library, the families and the linked rooms: by their import name."""
NAMESPACE: Final = kind("v1", "Namespace", namespaced=False)
MANAGED: Final = "web"
PLACEHOLDER: Final[dict[str, Any]] = {"mode": "placeholder", "appRef": {"catalogId": "shop"}}
TOKEN: Final = "registration-token"  # of a server in this process
STRICT: Final = ManagerSettings(strict=True)


class QuotaScale(QuotaWorld):
    """One more claim in a pool of N allocated claims, five in each namespace."""

    async def fill(self, count: int) -> None:
        await self.filled(max(1, count // 5), count)
        await self.pool(count)

    async def pool(self, claims: int) -> None:
        spec = {"quota": {"hard": hard(claims)}, "selectors": [{"matchLabels": {"tenant": "t"}}]}
        await self.lab.client.create(ResourcePool.decode({"metadata": {"name": "p"}, "spec": spec}))

    async def change(self, number: int) -> None:
        await self.claim(0, f"more-{number}")


class PoolsScale(PoolsWorld):
    """One more claim of an instance, in a pool of N instances, which is filled again."""

    async def fill(self, count: int) -> None:
        await install_crds(self.lab.client, [crd(each) for each in (NextcloudPool, Nextcloud, NextcloudInstance)])
        await install_crds(self.lab.client, [crd(NextcloudProfile)])
        await self.start(creates=100)  # each window of creations lists the pool
        template = {"metadata": {"labels": {"tier": "pool-00"}}, "spec": {"replicas": 1}}
        spec = {"replicas": count, "allowedNamespaces": {"from": "All"}, "template": template}
        await self.lab.client.create(NextcloudPool.decode({"metadata": {"name": "pool-00"}, "spec": spec}))
        await self.until(count, "nextcloudinstances", "status", "phase")

    async def change(self, number: int) -> None:
        selector = {"matchLabels": {"tier": "pool-00"}}
        spec = {"poolSelector": selector, "ingress": {"host": f"cloud-{number}.example.com"}}
        await self.lab.create(Nextcloud.decode({"metadata": {"name": f"claim-{number:04}"}, "spec": spec}))
        await self.until(number + 1, "nextclouds", "status", "instanceRef")


class OperationsScale(OperationsWorld):
    """One more Operation beside N finished Operations on the same targets."""

    async def fill(self, count: int) -> None:
        await install_crds(self.lab.client, [crd(Operation), crd(ApplicationInstance)])
        await install_crds(self.lab.client, [*flux_crds(), *argo_crds()])
        await self.start()
        await self.targets()
        self.first = -(-count // TARGETS) * TARGETS
        await self.operations(0, count, exclusive=False)
        await self.until_succeeded(count)

    async def change(self, number: int) -> None:
        done = len(self.succeeded)
        await self.operations(self.first + number * TARGETS, 1, exclusive=False)
        await self.until_succeeded(done + 1)


class MachinesScale(MachinesWorld):
    """One changed group among groups with N instances on five servers."""

    async def fill(self, count: int) -> None:
        for number in range(max(1, count // 25)):
            for shard in SHARDS:
                self.set_subnet(f"group-{number:03}", shard, "private")
        await self.start()

    async def change(self, number: int) -> None:
        self.set_subnet("group-000", "a", f"subnet-{number}")


class WorkspacesScale(World):
    """One more WorkspaceClaim beside N ready claims."""

    async def fill(self, count: int) -> None:
        await install_crds(self.lab.client, [crd(WorkspaceClaim)])
        settings, memory = WorkspaceSettings(namespace=self.lab.namespace), MemoryWorkspaces()
        await self.lab.start(
            lambda manager: workspaces.install(manager, settings, provider=memory),
            name=PROCESS,
            settings=STRICT,
            crds=False,
        )
        await in_batches(self._claim(f"claim-{number:05}") for number in range(count))

    async def _claim(self, name: str) -> None:
        await self.lab.create(WorkspaceClaim.new(name, spec=WorkspaceClaimSpec()))

    async def change(self, number: int) -> None:
        await self._claim(f"more-{number}")


class ApplicationsScale(World):
    """One more ApplicationInstance without a chart, and one changed ConfigMap, beside N instances of one namespace."""

    async def fill(self, count: int) -> None:
        await install_crds(self.lab.client, [crd(Operation), crd(ApplicationInstance), *flux_crds(), *argo_crds()])
        await self.lab.start(apps.install, name=PROCESS, settings=STRICT, crds=False)
        await in_batches(self._instance(f"app-{number:05}") for number in range(count))
        await self.lab.create(CONFIG_MAP.new("values", self.lab.namespace, data={"values.yaml": "{}"}))

    async def _instance(self, name: str) -> None:
        await self.lab.create(ApplicationInstance.decode({"metadata": {"name": name}, "spec": PLACEHOLDER}))

    async def change(self, number: int) -> None:
        await self._instance(f"more-{number}")
        data = {"values.yaml": f"replicas: {number}"}
        await self.lab.patch(CONFIG_MAP, "values", {"data": data})


class ClustersScale(World):
    """One job of the control plane and one changed condition, beside N ApplicationInstances that the control plane manages."""

    async def fill(self, count: int) -> None:
        client, self.plane = self.lab.client, AgentServer("east", tokens=(TOKEN,), random=Random(1))
        await install_crds(client, [crd(each) for each in (Operation, ApplicationInstance, Cluster)])
        await client.create(NAMESPACE.new(MANAGED))
        # Heartbeats and polls are periodic work, and would fall into or out of the counted time.
        seldom = clusters.Settings(namespace=self.lab.namespace, heartbeat=timedelta(days=1), wait=300)
        await self.lab.start(
            lambda manager: clusters.install(manager, seldom, connect=self.plane.connect),
            name=PROCESS,
            settings=STRICT,
            crds=False,
        )
        await in_batches(self._managed(f"app-{number:05}") for number in range(count))
        spec = {
            "clusterId": "east",
            "controlPlaneEndpoint": "https://plane.example.com",
            "registrationToken": TOKEN,
        }
        await client.create(Cluster.decode({"metadata": {"name": "east"}, "spec": spec}))

    async def _managed(self, name: str) -> None:
        labels = {ControlPlaneLabel.MANAGED_BY: ControlPlaneLabel.CONTROL_PLANE}
        metadata = {"name": name, "namespace": MANAGED, "labels": labels}
        await self.lab.client.create(ApplicationInstance.decode({"metadata": metadata, "spec": PLACEHOLDER}))
        await self._condition(name, "Created")

    async def _condition(self, name: str, reason: str) -> None:
        condition = {"type": "Ready", "status": "True", "reason": reason, "lastTransitionTime": "2026-01-01T00:00:00Z"}
        patch = {"status": {"conditions": [{**condition, "message": ""}]}}
        await self.lab.client.patch(
            ApplicationInstance, name, MANAGED, patch=patch, style="merge", subresource="status"
        )

    async def change(self, number: int) -> None:
        await self._condition("app-00000", f"Change{number}")
        ensured = {"intent": "ensure-application-instance", "namespace": MANAGED, "name": f"more-{number}"}
        result = await self.plane.result(self.plane.submit("intent", {**ensured, "spec": PLACEHOLDER}))
        assert result.outcome == "succeeded", result


FAMILIES: Final[dict[str, Any]] = {
    "quota": QuotaScale,
    "pools": PoolsScale,
    "operations": OperationsScale,
    "applications": ApplicationsScale,
    "clusters": ClustersScale,
    "machines": MachinesScale,
    "workspaces": WorkspacesScale,
}


async def measured(family: str, count: int) -> dict[str, float]:
    """Return the costs of one changed object among so many neighbours."""
    async with FAMILIES[family].open() as world:
        await world.fill(count)
        await world.quiet()
        await world.change(0)  # first uses: connections, caches
        await world.quiet()
        rest = await _counted(world, world.quiet)

        async def change() -> None:
            await world.change(1)
            await world.quiet()

        return {**await _counted(world, change), "rest": rest["calls"]}


async def _counted(world: World, work: Callable[[], Awaitable[object]]) -> dict[str, float]:
    world.clear()
    profile = Profile(builtins=False)
    profile.enable()
    await work()
    profile.disable()
    calls = 0
    for entry in profile.getstats():
        if not isinstance(entry.code, str) and entry.code.co_filename.startswith(PACKAGE):
            calls += entry.callcount
    return {"calls": calls, "writes": sum(world.writes.values()), "bytes": sum(world.bytes.values())}


def exponent(first: tuple[int, float], last: tuple[int, float]) -> float:
    """Return the exponent of growth between two measurements of size and cost."""
    (few, cheap), (many, dear) = first, last
    return log(max(dear, 1) / max(cheap, 1)) / log(many / few)


def run() -> list[Row]:
    """Measure everything and return one row per figure."""
    rows = []
    for family, world in FAMILIES.items():
        sizes = sorted({min(size, MOST_CLAIMS) if family == "quota" else size for size in SIZES})
        result = {size: virtual(partial(measured, family, size)) for size in sizes}
        how = world.__doc__ or ""
        for name in ("calls", "writes", "bytes", "rest"):
            unit = "calls" if name == "rest" else name
            rows += [row(f"{family}: {name} among {size:,}", result[size][name], unit, how) for size in sizes]
        ends = [(size, result[size]["calls"]) for size in (sizes[0], sizes[-1])]
        rows.append(row(f"{family}: exponent of calls", round(exponent(*ends), 2), "", how))
    return rows


if __name__ == "__main__":
    print(json.dumps(virtual(partial(measured, sys.argv[1], int(sys.argv[2])))))
