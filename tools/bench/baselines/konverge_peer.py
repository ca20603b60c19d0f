"""The contestant on konverge: a typed model, and every rule of the library in force with its default numbers.

konverge announces no condition that appears as False, so it writes no Event; with PEER_EVENTS=1 the condition appears as True, and each
object's transition becomes an Event.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys

import structlog
from baselines.peer import CHILDREN, GROUP, MANAGER, VERSION, Told, answering, loop_factory, ready

import konverge as kv
from konverge.client import ClientSettings
from konverge.metrics import Metrics

CONFIG_MAP = kv.kind("v1", "ConfigMap")


class Variable(kv.Model):
    name: str
    value: str


class ItemSpec(kv.Model):
    revision: int
    title: str = ""
    labels: dict[str, str] | None = None
    env: tuple[Variable, ...] = ()


class ItemStatus(kv.Status):
    pass


@kv.resource("bench.konverge.dev/v1", conditions=("Stalled", "Ready"))
class Item(kv.CustomResource[ItemSpec, ItemStatus]):
    """A thing of about 2 KB."""


class Reconciler:
    def __init__(self, *, events: bool, owners: bool) -> None:
        self._events, self._owners = events, owners

    async def reconcile(self, item: Item, ctx: kv.Context[Item]) -> kv.Outcome:
        if self._owners:
            for number in range(CHILDREN):
                name = f"{item.name}-{number:02}"
                await ctx.own(CONFIG_MAP.new(name, item.namespace, data={"value": name}))
        type_, reason = ("Ready", "InPlace") if self._events else ("Stalled", "InStep")
        ctx.status.set_condition(type_, self._events, reason, f"revision {item.spec.revision} is in place")
        return kv.Done()


class Still:
    """The reconciler of a kind that is only read."""

    async def reconcile(self, item: kv.Object, ctx: kv.Context[kv.Object]) -> kv.Outcome:
        return kv.Done()


def failures(metrics: Metrics) -> float:
    """The reconciles that raised, of all controllers."""
    families = metrics.registry.collect()
    return sum(
        sample.value
        for family in families
        for sample in family.samples
        if sample.name == "controller_runtime_reconcile_errors_total"
    )


def freeze() -> None:
    """As `kv.run` does: exempt the objects so far, which live as long as the process, and collect once for 10,000 new ones."""
    gc.collect(0)
    gc.freeze()
    gc.set_threshold(10_000, *gc.get_threshold()[1:])


async def main() -> None:
    told = Told.from_environment()
    # As `kv.run` has it: from level info on.
    structlog.configure(
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
    )
    client = ClientSettings(max_in_flight=max(ClientSettings.max_in_flight, told.workers + 16))
    controller = kv.Controller.of(Item).with_(concurrency=told.workers)
    if told.owners:
        controller = controller.owns(CONFIG_MAP, own_writes=told.own_writes)
    manager = kv.Manager(
        MANAGER,
        kv.ClientConfig.in_cluster(mount=told.mount),
        settings=kv.ManagerSettings(namespace=told.namespace or None, client=client),
    )
    for number in range(1, told.watches):
        controller = controller.watches(Item, to=lambda item, caches: (), labels=f"watch-{number}=yes")
    manager.add(controller.reconciled_by(Reconciler(events=told.events, owners=told.owners)))
    for number in range(1, told.kinds):
        more = kv.Controller.of(kv.kind(f"{GROUP}/{VERSION}", f"Item{number}"))
        manager.add(more.reconciled_by(Still()))
    freeze()
    async with manager, answering(lambda: failures(manager.metrics)) as stop:
        report = await manager.ready(timeout=600)
        if not report:
            sys.exit(f"not ready: {report}")
        settings = {
            "concurrency": told.workers,
            "max_in_flight": client.max_in_flight,
            "events": told.events,
            "events of own applies to children": "enqueue (default)" if told.own_writes else "enqueue nothing",
            "barrier": "10 s (default)",
            "metrics": "counted, not served",
            "objects": "typed (pydantic)",
            "credentials": "mounted ServiceAccount",
            "limiter": "none (default)",
            "event loop": told.loop,
            "garbage collector": "frozen before the start and once the caches are synced, then once for 10,000 new objects, as kv.run does",
        }
        freeze()
        ready(settings, "konverge", "aiohttp", "msgspec", "pydantic", *(["uvloop"] if told.loop == "uvloop" else []))
        await stop.wait()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=loop_factory(Told.from_environment().loop)) as runner:
        runner.run(main())
