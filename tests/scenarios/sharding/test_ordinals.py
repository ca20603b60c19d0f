"""The mode `ordinal`: shares by the ordinals of a StatefulSet, with their limits."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import structlog
from replicas import NAMESPACE
from shards import Shards
from widgets import CONFIG_MAP

from konverge.errors import UsageError
from konverge.runtime.sharding.ordinal import STATEFUL_SET, share_of
from konverge.runtime.sharding.settings import ShardingSettings

ORDINAL = ShardingSettings(mode="ordinal", namespace=NAMESPACE)


@asynccontextmanager
async def a_set(replicas: int, *, running: int, start: int = 0, **spec: Any) -> AsyncIterator[Shards]:
    """A StatefulSet with this number of replicas in its spec, and so many running replicas."""
    labels = {"app": "op"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "op", "image": "op"}]}}
    spec |= {"replicas": replicas, "serviceName": "op", "selector": {"matchLabels": labels}, "template": template}
    async with Shards(sharding=ORDINAL) as shards:
        await shards.client.create(STATEFUL_SET.new("op", NAMESPACE, spec=spec))
        await asyncio.gather(*(shards.start(f"op-{start + number}") for number in range(running)))
        yield shards


async def scale(shards: Shards, replicas: int) -> None:
    await shards.client.patch(STATEFUL_SET, "op", NAMESPACE, patch={"spec": {"replicas": replicas}}, style="merge")


async def wanted(shards: Shards, replicas: int, start: int = 0) -> dict[str, str]:
    found = await shards.client.list(CONFIG_MAP, NAMESPACE)
    return {one.name: f"op-{start + share_of(one.metadata.uid, replicas)}" for one in found}


def ran(shards: Shards, since: float = 0.0) -> dict[str, set[str]]:
    """The replicas that have reconciled each object."""
    found: dict[str, set[str]] = {}
    for span in shards.spans:
        if span.began >= since:
            found.setdefault(span.name, set()).add(span.replica)
    return found


async def test_each_pod_reconciles_the_objects_whose_uid_gives_its_ordinal() -> None:
    async with a_set(3, running=3) as shards:
        await shards.objects(30)
        await asyncio.sleep(5)
        assert ran(shards) == {name: {owner} for name, owner in (await wanted(shards, 3)).items()}
        one = await shards.client.get(CONFIG_MAP, "source-1", NAMESPACE)
        assert shards.replicas["op-0"].manager.owns(one).owner == (await wanted(shards, 3))["source-1"]
        assert one.metadata.annotations is None, "nothing is written to the object"


async def test_the_ordinals_of_a_set_may_begin_elsewhere() -> None:
    async with a_set(3, running=3, start=5, ordinals={"start": 5}) as shards:
        await shards.objects(12)
        await asyncio.sleep(5)
        assert ran(shards) == {name: {owner} for name, owner in (await wanted(shards, 3, 5)).items()}


async def test_changed_count_enqueues_objects_a_pod_gains_without_an_object_event() -> None:
    async with a_set(3, running=4) as shards:
        await shards.objects(30)
        await asyncio.sleep(5)
        assert "op-3" not in set().union(*ran(shards).values())
        before, scaled = await wanted(shards, 3), asyncio.get_running_loop().time()
        await scale(shards, 4)
        await asyncio.sleep(2)
        after = await wanted(shards, 4)
        moved = {name: {owner} for name, owner in after.items() if before[name] != owner}
        assert {name: ran(shards, scaled)[name] for name in moved} == moved
        assert len(moved) > 15, "from 3 to 4 three quarters move"
        changed = asyncio.get_running_loop().time()
        for name in after:
            await shards.change(name, "2")
        await asyncio.sleep(2)
        assert ran(shards, changed) == {name: {owner} for name, owner in after.items()}
        assert {span.epoch for span in shards.spans if span.began >= scaled} == {2}, "the generation of the StatefulSet"


async def test_s11_share_of_a_stopped_pod_has_no_owner_until_its_return() -> None:
    async with a_set(4, running=3) as shards:
        await shards.objects(40)
        await asyncio.sleep(60)
        orphans = {name for name, owner in (await wanted(shards, 4)).items() if owner == "op-3"}
        assert orphans
        assert orphans.isdisjoint(ran(shards))
        await shards.start("op-3")
        await asyncio.sleep(2)
        assert all(ran(shards)[name] == {"op-3"} for name in orphans)


async def test_a_pod_says_the_limits_of_this_mode_when_it_starts() -> None:
    with structlog.testing.capture_logs() as lines:
        async with a_set(1, running=1):
            await asyncio.sleep(1)
    limits = "an object can have two owners while replicas see different counts"
    assert [line["log_level"] for line in lines if limits in line["event"]] == ["warning"]


async def test_pod_without_its_stateful_set_writes_nothing_and_reports_it() -> None:
    async with Shards(sharding=ORDINAL) as shards:
        starting = asyncio.create_task(shards.start("op-0", patience=3600))
        await shards.objects(3)
        await asyncio.sleep(10)
        assert shards.spans == []
        assert "the StatefulSet lab/op was not seen" in str(shards.replicas["op-0"].manager.report())
        starting.cancel()


async def test_a_process_outside_a_stateful_set_gets_an_error_that_says_so() -> None:
    async with Shards(sharding=ORDINAL) as shards:
        with pytest.raises(UsageError, match="whose names end in their ordinal"):
            await shards.start("laptop")
