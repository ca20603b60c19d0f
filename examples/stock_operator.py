"""An operator with parts beside its controller: a shared session, a hook, a check, cache reads (docs/guide/manager.md)."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

import konverge as kv


class Warehouse:
    """The client of a service outside of Kubernetes."""

    def __init__(self) -> None:
        self.stock = {"screw": 7}
        self.closed = False

    async def level(self, part: str) -> int:
        return self.stock[part]


@asynccontextmanager
async def connect() -> AsyncGenerator[Warehouse]:
    warehouse = Warehouse()
    yield warehouse
    warehouse.closed = True


class PartSpec(kv.Model):
    part: str


class PartStatus(kv.Status):
    level: int = 0


@kv.resource("example.com/v1", conditions=("Ready",))
class Part(kv.CustomResource[PartSpec, PartStatus]):
    """A part in the warehouse."""


class Stock:
    """Levels of parts, for reconciles and for a web page."""

    def __init__(self, manager: kv.Manager) -> None:
        self._manager = manager
        self.polls = 0
        self.warehouse = manager.holds(connect, name="the warehouse")

    async def reconcile(self, part: Part, ctx: kv.Context[Part]) -> kv.Outcome:
        ctx.status.draft.level = await self.warehouse.value.level(part.spec.part)
        ctx.status.set_condition("Ready", True, "Counted")
        return kv.RequeueAfter(600)

    async def poll(self, _: kv.BackgroundServices) -> None:
        while True:
            self.polls += 1
            await asyncio.sleep(60)

    def problem(self) -> str:
        return "" if self.polls else "the warehouse was not polled yet"

    def levels(self) -> Mapping[str, int]:
        """Return the level of each part, from the cache: no request is sent."""
        return {part.name: part.status.level for part in self._manager.cache(Part).list()}


def build(manager: kv.Manager) -> Stock:
    stock = Stock(manager)
    manager.add(kv.Controller.of(Part).reconciled_by(stock))
    manager.run_on_every_replica("poll", stock.poll)
    manager.checks_readiness("warehouse", stock.problem)

    @manager.on_start
    async def look_at_the_warehouse(_: kv.Manager) -> None:
        assert await stock.warehouse.value.level("screw") >= 0

    return stock
