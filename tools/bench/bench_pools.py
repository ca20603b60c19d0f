"""Pools of Nextclouds at their size: 1,000 claims in a burst on 20 pools of 50, then at rest, on the server in memory.

Server, controllers, client and a stand-in that sets instances ready are one process on a loop whose time is virtual. So times of claims are
virtual seconds and leave out all work, and costs are CPU time, the server's and the stand-in's included. Writes are counted as the server
receives them from the family.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any, Final

from harness import PROCESS, Lap, Part, World, in_batches, virtual
from rows import QUICK, Row, row

from konverge.crds import crd
from konverge.crds.pools_v1alpha1 import Nextcloud, NextcloudInstance, NextcloudPool, NextcloudProfile
from konverge.outcome import Done, Outcome
from konverge.reconcilers.pools.installation import controllers
from konverge.reconcilers.pools.metrics import PoolMetrics
from konverge.reconcilers.pools.settings import PoolSettings
from konverge.reconcilers.pools.words import Finalizer, InstancePhase
from konverge.runtime import Context, Controller, Manager, ManagerSettings
from konverge_testing.apiserver.faults.rules import About
from konverge_testing.apiserver.requests import Call, Response
from konverge_testing.lab import install_crds

POOLS: Final = 4 if QUICK else 20
SIZE: Final = 10 if QUICK else 50
CLAIMS: Final = POOLS * SIZE
REST: Final = 600.0
KINDS: Final = (NextcloudPool, Nextcloud, NextcloudInstance, NextcloudProfile)


def run() -> list[Row]:
    """Measure everything and return one row per figure."""
    return virtual(_measured)


class StandIn:
    """The stand-in for the controller of instances: an instance is ready at once, and a deleted instance is finalized."""

    async def reconcile(self, _: NextcloudInstance, ctx: Context[NextcloudInstance]) -> Outcome:
        """Set an instance ready."""
        ctx.status.draft.phase = InstancePhase.READY
        return Done()

    async def finalize(self, _: NextcloudInstance, __: Context[NextcloudInstance]) -> Outcome:
        """Remove the finalizer of a deleted instance."""
        return Done()


class PoolsWorld(World):
    """A lab with the family and a stand-in for the controller of instances."""

    conflicts = 0

    def wrote(self, call: Call, about: About, response: Response) -> None:
        """Count a write, and a conflict."""
        super().wrote(call, about, response)
        self.conflicts += response.status == 409

    async def start(self, creates: int = 10) -> None:
        """Start the family, with so many creations in a minute, and the stand-in as a process of its own."""
        everywhere = ManagerSettings(namespace=None, strict=True)
        settings = PoolSettings(instance_namespace=self.lab.namespace, creates_per_window=creates)

        def family(manager: Manager) -> None:
            for controller in controllers(settings, PoolMetrics.within(manager.metrics), Random(1)):
                manager.add(controller)

        def stand_in(manager: Manager) -> None:
            manager.add(
                Controller.of(NextcloudInstance)
                .named("stand-in")
                .finalizer(Finalizer.INSTANCE)
                .with_(concurrency=4)
                .reconciled_by(StandIn())
            )

        await self.lab.start(stand_in, name="stand-in", settings=everywhere, crds=False)
        await self.lab.start(family, name=PROCESS, settings=everywhere, crds=False)

    async def pools(self) -> None:
        for number in range(POOLS):
            template = {"metadata": {"labels": {"tier": f"pool-{number:02}"}}, "spec": {"replicas": 1}}
            spec = {"replicas": SIZE, "allowedNamespaces": {"from": "All"}, "template": template}
            await self.lab.client.create(
                NextcloudPool.decode({"metadata": {"name": f"pool-{number:02}"}, "spec": spec})
            )

    async def claims(self) -> None:
        await in_batches(self._claim(number) for number in range(CLAIMS))

    async def _claim(self, number: int) -> None:
        spec = {
            "poolSelector": {"matchLabels": {"tier": f"pool-{number % POOLS:02}"}},
            "ingress": {"host": f"cloud-{number}.example.com"},
        }
        await self.lab.create(Nextcloud.decode({"metadata": {"name": f"claim-{number:04}"}, "spec": spec}))

    def count(self, resource: str, *path: str) -> int:
        """Return how many stored objects have a field."""
        result = 0
        for entry in self.lab.server.store.list(("k8s.bnerd.com", resource)):
            value: Any = entry.object()
            for name in path:
                value = (value or {}).get(name)
            result += bool(value)
        return result

    async def until(self, number: int, resource: str, *path: str) -> None:
        while self.count(resource, *path) < number:
            await asyncio.sleep(0.1)


async def _measured() -> list[Row]:
    async with PoolsWorld.open() as world:
        await install_crds(world.lab.client, [crd(model) for model in KINDS])
        await world.start()
        lap = Lap()
        await world.pools()
        await world.until(CLAIMS, "nextcloudinstances", "status", "phase")
        filled = lap.cpu
        await world.quiet()
        await asyncio.sleep(120)
        how = f"{POOLS} pools of {SIZE}; server in memory and stand-in for instances in the same process"
        rows = [row("fill: CPU", 1000 * filled / CLAIMS, "ms/instance", how)]
        rows += await _burst(world, how)
        await world.until(2 * CLAIMS, "nextcloudinstances", "status", "phase")
        await world.quiet()
        return [*rows, *await _at_rest(world, how)]


async def _burst(world: PoolsWorld, how: str) -> list[Row]:
    world.conflicts = 0
    part = Part(world, "burst", f"{how}; {CLAIMS:,} claims at once, one for each idle instance")
    await world.claims()
    await world.until(CLAIMS, "nextclouds", "status", "instanceRef")
    part.stop()
    each, remark = "writes/claim", "the refill that began meanwhile included"
    part.add("virtual time until the last claim is served", part.seconds, "s")
    part.add("CPU until the last claim is served", part.cpu, "s", remark=remark)
    part.add("CPU", 1000 * part.cpu / CLAIMS, "ms/claim", remark=remark)
    part.add_writes("writes of Nextclouds", "nextclouds", each, per=CLAIMS, remark="the finalizer")
    part.add_writes("status writes of Nextclouds", "nextclouds/status", each, per=CLAIMS)
    part.add_writes("writes of instances", "nextcloudinstances", each, per=CLAIMS, remark="lock, apply, refill")
    part.add("conflicts", world.conflicts, "conflicts")
    return part


async def _at_rest(world: PoolsWorld, how: str) -> list[Row]:
    await asyncio.sleep(900)  # the last counts of repeated Events are sent
    part = Part(world, "at rest", f"{how}; {CLAIMS:,} assigned and {CLAIMS:,} idle instances; {REST:g} s")
    await asyncio.sleep(REST)
    part.stop()
    part.add_writes("writes", "", "writes", 0)
    part.add("CPU", 1e6 * part.cpu / REST, "us/s")
    return part
