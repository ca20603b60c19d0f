"""Writes that are late, rejected or without a response, while objects move: each could lead to two owners, or lose an update."""

import asyncio
from collections.abc import Callable
from typing import Any

from replicas import NAMESPACE
from shards import COORDINATOR, HASH, LABEL, STAMP, Shards
from widgets import CONFIG_MAP, SECRET, By

import konverge as kv
from konverge.client.requests import Request
from konverge.runtime.sharding.settings import ShardingSettings


def late(seconds: float, word: str) -> Callable[[Request], float]:
    """Writes that contain this word are delayed, others are not."""
    return lambda request: seconds if word.encode() in (request.body or b"") else 0.0


def count(shards: Shards, replica: str, series: str, result: str) -> float | None:
    labels = {"name": "operator", "result": result}
    return shards.replicas[replica].metrics.registry.get_sample_value(f"konverge_shard_{series}_total", labels)


def block(shards: Shards, names: set[str]) -> Callable[[], None]:
    """Block the reconciles of these objects; returns a function that releases them."""
    shards.blocked = {name: asyncio.Event() for name in names}
    events = list(shards.blocked.values())

    def release() -> None:
        shards.blocked = {}
        for event in events:
            event.set()

    return release


async def test_s9_claim_in_flight_while_another_replica_takes_the_object_is_refused(mode: ShardingSettings) -> None:
    async with Shards(sharding=mode) as shards:
        await shards.start_all("a")
        await asyncio.sleep(5)
        shards.cost = lambda: 20.0
        shards.delays["a"] = late(14.0, STAMP)
        await shards.objects(16)
        await shards.start_all("b")
        await asyncio.sleep(60)
        by_b = {name for name, stamp in shards.claims if stamp.startswith("operator-b-")}
        assert 0 < len(by_b) < 16
        assert count(shards, "a", "writes", "conflict") == len(by_b)
        assert {name for name, owner in (await shards.stamps()).items() if owner == "b"} == by_b


async def test_s9_owner_with_a_lost_clear_response_reconciles_nothing_from_stale_cache() -> None:
    async with Shards(sharding=HASH) as shards:
        await shards.start_all("a")
        await shards.objects(16)
        names = set(await shards.settled("a"))
        await asyncio.sleep(5)
        show = shards.stall("a", "/configmaps")
        shards.losses["a"] = lambda request: STAMP.encode() in (request.body or b"")
        release = block(shards, names)
        await shards.start_all("b")
        await asyncio.sleep(5)
        by_b = {span.name for span in shards.spans if span.replica == "b"}
        assert 0 < len(by_b) < 16
        stopping = asyncio.create_task(
            shards.stop("b")
        )  # it waits for its reconciles, and returns its share to `a` at the same time
        await asyncio.sleep(12)  # the barrier of own writes has timed out too
        for name in by_b:  # an event of the child, whose watch is not behind, enqueues the object on `a`
            changed = {"metadata": {"labels": {"changed": "by-hand"}}}
            await shards.client.patch(SECRET, f"copy-of-{name}", NAMESPACE, patch=changed, style="merge")
        await asyncio.sleep(12)
        assert {span.name for span in shards.spans if span.ended is None} >= by_b
        assert shards.overlaps() == []
        release()
        await stopping
        show()
        shards.losses.clear()
        await shards.settled("a")


async def test_s13_stamp_removed_before_handover_frees_the_object_for_no_replica(mode: ShardingSettings) -> None:
    async with Shards(sharding=mode) as shards:
        await shards.start_all("a")
        await shards.objects(16)
        names = set(await shards.settled("a"))
        await asyncio.sleep(5)
        release = block(shards, names)
        for name in names:
            await shards.change(name, "2")
        await asyncio.sleep(1)
        await shards.start_all("b")
        await asyncio.sleep(5)
        shards.delays["a"] = late(3.0, STAMP)  # the owner also writes its stamp again, too late to win a race
        for name in names:
            await shards.stamp(name, None)
        await asyncio.sleep(2)
        assert set((await shards.stamps()).values()) == {""}
        await asyncio.sleep(3)
        assert set((await shards.stamps()).values()) == {"a"}
        assert {span.replica for span in shards.spans} == {"a"}
        release()
        await shards.settled("ab")


async def test_s8_reconcile_that_resists_cancellation_writes_nothing_after_lease_loss(mode: ShardingSettings) -> None:
    refused = list[str]()

    class Stubborn(Shards):
        def _add(self, manager: kv.Manager) -> None:
            replica = manager.settings.instance

            async def resists(object_: Any, ctx: kv.Context[Any]) -> kv.Outcome:
                try:
                    await self.pause(replica, object_.name)
                except asyncio.CancelledError:
                    try:
                        await ctx.own(SECRET.new(f"late-{object_.name}", NAMESPACE))
                    except kv.errors.NotLeading:
                        refused.append(object_.name)
                    raise
                return kv.Done()

            spec = kv.Controller.of(CONFIG_MAP).owns(SECRET).sharded().with_(concurrency=20)
            manager.add(spec.reconciled_by(By(resists)))

    async with Stubborn(sharding=mode) as shards:
        before = await shards.filled("ab", objects=8)
        mine = {name for name, owner in before.items() if owner == "a"}
        release = block(shards, mine)
        for name in mine:
            await shards.change(name, "2")
        await asyncio.sleep(1)
        shards.delays["a"] = lambda request: 3600.0 if "/leases" in request.path else 0.0
        await asyncio.sleep(15)
        assert set(refused) == mine
        assert [one for one in shards.audit if "late-" in one.what] == []
        release()
        shards.delays.clear()
        await shards.settled("ab")


async def test_s12_next_owner_reads_the_previous_owners_writes_despite_a_lagging_watch(mode: ShardingSettings) -> None:
    """Each reconcile for a new value adds one to the cached number: with a stale cache it would repeat a number."""

    class Counting(Shards):
        def _add(self, manager: kv.Manager) -> None:
            async def counts(object_: Any, ctx: kv.Context[Any]) -> kv.Outcome:
                copy = ctx.cache(SECRET).find(NAMESPACE, f"count-of-{object_.name}")
                seen, number = ("", "0") if copy is None else copy.metadata.annotation("count").split("/")
                value = object_.data["data"]["value"]
                if seen != value:
                    count = {"count": f"{value}/{int(number) + 1}"}
                    await ctx.own(SECRET.new(f"count-of-{object_.name}", NAMESPACE, annotations=count))
                return kv.Done()

            manager.add(kv.Controller.of(CONFIG_MAP).owns(SECRET).sharded().reconciled_by(By(counts)))

    async with Counting(sharding=mode) as shards:
        before = await shards.filled("ab", objects=8)
        mine = [name for name, owner in before.items() if owner == "a"]
        await asyncio.sleep(5)
        show = shards.stall("b", "/secrets")
        for value in ("2", "3"):
            for name in mine:
                await shards.change(name, value)
            await asyncio.sleep(1)
        await shards.stop("a")
        for name in mine:
            await shards.change(name, "4")
        await asyncio.sleep(4)
        show()
        await asyncio.sleep(10)
        counts = {
            name: (await shards.client.get(SECRET, f"count-of-{name}", NAMESPACE)).metadata.annotation("count")
            for name in mine
        }
        assert counts == dict.fromkeys(mine, "4/4")


async def test_s12_coordinator_label_for_a_changed_object_is_refused_and_decided_again() -> None:
    async with Shards(sharding=COORDINATOR) as shards:
        await shards.start_all("a")
        await asyncio.sleep(5)
        shards.delays["a"] = late(5.0, LABEL)
        await shards.objects(6)
        await asyncio.sleep(2)
        for number in range(6):
            await shards.change(f"source-{number}", "2")
        await asyncio.sleep(20)
        assert count(shards, "a", "assignments", "conflict") == 6
        owners = await shards.settled("a")
        await shards.all_run_by(owners, since=0.0, within=10.0)
        assert [await shards.copy(name) for name in owners] == ["2"] * 6


async def test_s6_unlabelled_object_of_two_controllers_moves_after_both_have_ended() -> None:
    class Twice(Shards):
        def _add(self, manager: kv.Manager) -> None:
            super()._add(manager)

            async def at_once(_object: Any, _ctx: kv.Context[Any]) -> kv.Outcome:
                return kv.Done()

            second = kv.Controller.of(CONFIG_MAP).named("second").writes_status_as("second").sharded()
            manager.add(second.reconciled_by(By(at_once)))

    async with Twice(sharding=COORDINATOR) as shards:
        await shards.start_all("a")
        await shards.objects(12)
        names = set(await shards.settled("a"))
        await asyncio.sleep(5)
        release = block(shards, names)
        for name in names:
            await shards.change(name, "2")
        await asyncio.sleep(1)
        await shards.start_all("b")
        await asyncio.sleep(5)
        for name in names:
            bare = {"metadata": {"labels": {LABEL: None}}}
            await shards.client.patch(CONFIG_MAP, name, NAMESPACE, patch=bare, style="merge")
        await asyncio.sleep(5)
        assert set((await shards.stamps()).values()) == {"a"}
        release()
        await shards.settled("ab")
        assert shards.overlaps() == []
