"""Objects that replicas share are counted by their owners: the sum over the replicas counts each once, in each mode."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import pytest
from replicas import NAMESPACE, Replica
from shards import COORDINATOR, HASH, Shards
from widgets import CONFIG_MAP

import konverge as kv
from konverge.runtime.builder.spec import Group
from konverge.runtime.sharding.ordinal import STATEFUL_SET
from konverge.runtime.sharding.settings import ShardingSettings

ORDINAL = ShardingSettings(mode="ordinal", namespace=NAMESPACE)
MODES = pytest.mark.parametrize("sharding", [HASH, COORDINATOR, ORDINAL], ids=lambda one: one.mode)


def by_value(object_: kv.Object) -> Iterable[Group]:
    return [(object_.data["data"]["value"],)]


class Counted(Shards):
    """Replicas that count their objects by their values."""

    def _add(self, manager: kv.Manager) -> None:
        super()._add(manager)
        (spec,) = manager.controllers
        manager._core.controllers[spec.name] = spec.counts_objects(
            "sources", "by value", labels=("value",), by=by_value
        )


def counted(replica: Replica) -> Counter[str]:
    [family] = [one for one in replica.metrics.registry.collect() if one.name == "sources"]
    return Counter({one.labels["value"]: int(one.value) for one in family.samples if one.value})


def total(shards: Shards, names: Iterable[str]) -> Counter[str]:
    found: Counter[str] = Counter()
    for name in names:
        found.update(counted(shards.replicas[name]))
    return found


async def scale(shards: Shards, replicas: int) -> None:
    await shards.client.patch(STATEFUL_SET, "op", NAMESPACE, patch={"spec": {"replicas": replicas}}, style="merge")


@asynccontextmanager
async def counting(sharding: ShardingSettings, *names: str) -> AsyncIterator[Counted]:
    labels = {"app": "op"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "op", "image": "op"}]}}
    spec = {"replicas": len(names), "serviceName": "op", "selector": {"matchLabels": labels}, "template": template}
    async with Counted(sharding=sharding) as shards:
        await shards.client.create(STATEFUL_SET.new("op", NAMESPACE, spec=spec))
        await asyncio.gather(*(shards.start(name) for name in names))
        yield shards


@MODES
async def test_each_object_is_counted_by_one_replica_while_objects_and_replicas_change(
    sharding: ShardingSettings,
) -> None:
    async with counting(sharding, "op-0", "op-1") as shards:
        await shards.objects(30)
        await asyncio.sleep(20)
        assert total(shards, ("op-0", "op-1")) == {"1": 30}
        assert all(0 < sum(counted(shards.replicas[name]).values()) < 30 for name in ("op-0", "op-1"))
        for number in range(10):
            await shards.change(f"source-{number}", "2")
        await shards.client.delete(CONFIG_MAP, "source-20", NAMESPACE)
        await asyncio.sleep(5)
        assert total(shards, ("op-0", "op-1")) == {"1": 19, "2": 10}
        await shards.start("op-2")
        await scale(shards, 3)
        await asyncio.sleep(20)
        assert total(shards, ("op-0", "op-1", "op-2")) == {"1": 19, "2": 10}
        assert counted(shards.replicas["op-2"])
        await shards.stop("op-2")
        await scale(shards, 2)
        await asyncio.sleep(20)
        assert total(shards, ("op-0", "op-1")) == {"1": 19, "2": 10}


@pytest.mark.parametrize("sharding", [HASH, COORDINATOR], ids=lambda one: one.mode)
async def test_disconnected_replica_counts_nothing_and_its_successors_count_its_objects(
    sharding: ShardingSettings,
) -> None:
    async with counting(sharding, "op-0", "op-1") as shards:
        await shards.objects(20)
        await asyncio.sleep(20)
        shards.replicas["op-0"].wire.pause()
        await asyncio.sleep(60)
        assert counted(shards.replicas["op-0"]) == {}
        assert counted(shards.replicas["op-1"]) == {"1": 20}
        shards.replicas["op-0"].wire.resume()
        await asyncio.sleep(60)
        assert total(shards, ("op-0", "op-1")) == {"1": 20}
        assert all(counted(shards.replicas[name]) for name in ("op-0", "op-1"))


async def test_counted_kind_is_cached_with_bodies_of_own_objects_only() -> None:
    async with counting(HASH, "op-0", "op-1") as shards:
        await shards.objects(20)
        owners = await shards.settled(("op-0", "op-1"))
        await asyncio.sleep(5)
        for name in ("op-0", "op-1"):
            store = shards.replicas[name].manager.runner("configmap")._watches.primary.store
            cached = (store.get(*path) for path in store.keys())  # noqa: SIM118  # no dict
            whole = {one.metadata.name for one in cached if one is not None and not one.metadata_only}
            assert whole == {one for one, owner in owners.items() if owner == name}
