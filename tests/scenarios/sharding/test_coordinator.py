"""The mode `coordinator` apart from the rows that it shares with `hash`: labels, the caches that they split, and the replica that writes them."""

import asyncio
from typing import Any

import pytest
from replicas import NAMESPACE, Replica
from shards import COORDINATOR, DRAIN_MARK, LABEL, Shards
from widgets import CONFIG_MAP, SECRET, By

import konverge as kv
from konverge.runtime.election.record import LEASE
from konverge.runtime.sharding.settings import ShardingSettings
from konverge.words import Label


def cached(replica: Replica) -> set[str]:
    """The objects in the cache of a replica."""
    (spec,) = replica.manager.controllers
    return {name for _, name in replica.manager.runner(spec.name)._watches.primary.store.keys()}  # noqa: SIM118  # no dict


async def assignments(shards: Shards) -> dict[str, str]:
    found = await shards.client.list(CONFIG_MAP, NAMESPACE)
    return {one.name: one.metadata.label(LABEL) for one in found}


async def write(shards: Shards, name: str, **words: dict[str, str | None]) -> None:
    await shards.client.patch(CONFIG_MAP, name, NAMESPACE, patch={"metadata": words}, style="merge")


async def test_a_replica_has_only_its_own_objects_in_its_cache() -> None:
    async with Shards(sharding=COORDINATOR) as shards:
        owners = await shards.filled("abc", objects=30)
        await asyncio.sleep(5)
        for name, replica in shards.replicas.items():
            assert cached(replica) == {one for one, owner in owners.items() if owner == name}


async def test_without_a_leader_owners_keep_objects_and_new_objects_wait() -> None:
    async with Shards(sharding=COORDINATOR) as shards:
        before = await shards.filled("abc", objects=12)
        lease = (await shards.client.get(LEASE, "operator", NAMESPACE)).data["spec"]["holderIdentity"]
        leader = lease.partition("_")[0]
        others = set("abc") - {leader}
        shards.kill(leader)
        killed = asyncio.get_running_loop().time()
        await shards.objects(6, begin=12)
        for name, owner in before.items():
            if owner in others:
                await shards.change(name, "2")
        mine = {name: owner for name, owner in before.items() if owner in others}
        await shards.all_run_by(mine, since=killed, within=5.0)
        after = await shards.settled(others)
        assert {name: after[name] for name in mine} == mine
        assert asyncio.get_running_loop().time() - killed < 35.0


@pytest.mark.parametrize(
    "words",
    [{"labels": {LABEL: None}}, {"labels": {LABEL: "nowhere"}}, {"annotations": {DRAIN_MARK: "nowhere"}}],
    ids=["no label", "a replica that there is not", "handed over to a replica that there is not"],
)
async def test_object_relabelled_during_its_reconcile_keeps_its_owner_and_is_not_deleted(words: dict[str, Any]) -> None:
    async with Shards(sharding=COORDINATOR) as shards:
        before = await shards.filled("ab", objects=8)
        labels = await assignments(shards)
        shards.blocked = {"source-0": asyncio.Event()}
        blocked = shards.blocked["source-0"]
        await shards.change("source-0", "2")
        await asyncio.sleep(1)
        await write(shards, "source-0", **words)
        await asyncio.sleep(20)
        assert (await shards.stamps())["source-0"] == before["source-0"]
        shards.blocked = {}
        blocked.set()
        await asyncio.sleep(5)
        assert await shards.stamps() == before
        assert await assignments(shards) == labels
        assert await shards.copy("source-0") == "2"


async def test_object_relabelled_to_another_replica_stays_with_its_live_owner() -> None:
    async with Shards(sharding=COORDINATOR) as shards:
        before = await shards.filled("ab", objects=8)
        labels = await assignments(shards)
        mine = next(name for name, owner in before.items() if owner == "a")
        other = next(labels[name] for name, owner in before.items() if owner == "b")
        shards.blocked = {mine: asyncio.Event()}
        blocked = shards.blocked[mine]
        await shards.change(mine, "2")
        await asyncio.sleep(1)
        await write(shards, mine, labels={LABEL: other})
        await asyncio.sleep(20)
        blocked.set()
        shards.blocked = {}
        await asyncio.sleep(5)
        assert await shards.stamps() == before
        assert await assignments(shards) == labels


async def test_at_rest_the_coordinator_writes_nothing() -> None:
    async with Shards(sharding=COORDINATOR) as shards:
        await shards.filled("ab", objects=10)
        await asyncio.sleep(10)
        versions = [one.metadata.resource_version for one in await shards.client.list(CONFIG_MAP, NAMESPACE)]
        await asyncio.sleep(3600)
        assert [one.metadata.resource_version for one in await shards.client.list(CONFIG_MAP, NAMESPACE)] == versions


@pytest.mark.parametrize("value", [None, "nowhere"], ids=["removed", "replaced"])
async def test_member_whose_lease_label_was_edited_still_gets_objects(value: str | None) -> None:
    async with Shards(sharding=COORDINATOR) as shards:
        await shards.start_all("a", "b")
        for lease in await shards.client.list(LEASE, NAMESPACE, labels=f"{Label.SHARD_RING}=operator"):
            bare = {"metadata": {"labels": {Label.SHARD_REPLICA: value}}}
            await shards.client.patch(LEASE, lease.name, NAMESPACE, patch=bare, style="merge")
        await shards.objects(12)
        await shards.settled("ab")


async def test_a_move_takes_four_writes_of_the_object() -> None:
    """A drain mark, the clearing of the stamp, the label, and the new stamp."""
    async with Shards(sharding=COORDINATOR) as shards:
        await shards.filled("a", objects=20)
        await asyncio.sleep(5)
        writes = sum("MODIFIED configmaps" in one.what for one in shards.audit)
        await shards.start("b")
        after = await shards.settled("ab")
        await asyncio.sleep(5)
        moved = sum(owner == "b" for owner in after.values())
        assert sum("MODIFIED configmaps" in one.what for one in shards.audit) - writes == 4 * moved


def reconciles(replica: Replica) -> float:
    """The number of a replica's reconciles, including keys from the queue whose objects were deleted."""
    found = replica.metrics.registry.get_sample_value(
        "controller_runtime_reconcile_total", {"controller": "configmap", "result": "success"}
    )
    assert found is not None
    return found


async def test_events_of_children_of_other_replicas_enqueue_nothing(mode: ShardingSettings) -> None:
    async with Shards(sharding=mode) as shards:
        owners = await shards.filled("ab", objects=12)
        await asyncio.sleep(20)
        before = {name: reconciles(one) for name, one in shards.replicas.items()}
        mine = [name for name, owner in owners.items() if owner == "b"]
        for name in mine:
            changed = {"metadata": {"labels": {"changed": "by-hand"}}}
            await shards.client.patch(SECRET, f"copy-of-{name}", NAMESPACE, patch=changed, style="merge")
        await asyncio.sleep(20)
        assert reconciles(shards.replicas["a"]) == before["a"]
        assert reconciles(shards.replicas["b"]) == before["b"] + len(mine)


async def test_two_controllers_of_one_kind_reconcile_each_object_on_its_one_owner(mode: ShardingSettings) -> None:
    seconds = set[tuple[str, str]]()

    class Twice(Shards):
        def _add(self, manager: kv.Manager) -> None:
            super()._add(manager)
            replica = manager.settings.instance

            async def noted(object_: Any, _ctx: kv.Context[Any]) -> kv.Outcome:
                seconds.add((object_.name, replica))
                return kv.Done()

            (first,) = manager.controllers
            assert first.family is not None
            second = kv.Controller.of(CONFIG_MAP).named("second").writes_status_as("second").sharded(by=first.family)
            manager.add(second.reconciled_by(By(noted)))

    async with Twice(sharding=mode) as shards:
        owners = await shards.filled("ab", objects=12)
        await shards.all_run_by(owners, since=0.0, within=10.0)
        await asyncio.sleep(10)
        assert seconds == {(span.name, span.replica) for span in shards.spans} == set(owners.items())


def by_value(object_: Any) -> tuple[str, ...]:
    return (object_.data["data"]["value"],)


async def test_controller_that_indexes_its_own_kind_sees_objects_of_all_replicas() -> None:
    class Indexed(Shards):
        def _add(self, manager: kv.Manager) -> None:
            super()._add(manager)
            (spec,) = manager.controllers
            manager._core.controllers[spec.name] = spec.indexes(CONFIG_MAP, "value", by=by_value)

    async with Indexed(sharding=COORDINATOR) as shards:
        owners = await shards.filled("ab", objects=12)
        await shards.all_run_by(owners, since=0.0, within=10.0)
        assert {(span.name, span.replica) for span in shards.spans} == set(owners.items())
        assert cached(shards.replicas["a"]) == cached(shards.replicas["b"]) == set(owners)
