"""Replicas that share their objects, in virtual time; the rows of docs/guide/sharding.md have the same names."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from replicas import NAMESPACE
from shards import COORDINATOR, HASH, STAMP, Shards
from widgets import CONFIG_MAP

import konverge as kv
from konverge.runtime.election.record import LEASE
from konverge.runtime.sharding.settings import ShardingSettings
from konverge.words import Label, Reason


async def test_s1_s2_three_replicas_own_every_object_and_each_reconciles_its_own(mode: ShardingSettings) -> None:
    async with Shards(sharding=mode) as shards:
        owners = await shards.filled("abc", objects=30)
        await shards.all_run_by(owners, since=0.0, within=10.0)
        assert {(span.name, span.replica) for span in shards.spans} == set(owners.items())


async def test_s3_a_fourth_replica_takes_its_share_and_nothing_else_moves(mode: ShardingSettings) -> None:
    async with Shards(sharding=mode) as shards:
        before = await shards.filled("abc", objects=40)
        await shards.start("d")
        after = await shards.settled("abcd")
        moved = {name for name in before if before[name] != after[name]}
        assert all(after[name] == "d" for name in moved)
        assert sum(after[name] == "d" for name in moved) > len(moved) / 2
        assert shards.overlaps() == []
        began = asyncio.get_running_loop().time()
        await shards.stop("d")
        assert await shards.settled("abc") == before
        assert asyncio.get_running_loop().time() - began < 3


async def test_s4_others_reconcile_objects_of_a_dead_replica_within_35_seconds(mode: ShardingSettings) -> None:
    async with Shards(sharding=mode) as shards:
        before = await shards.filled("abc", objects=30)
        await asyncio.sleep(30)
        killed = asyncio.get_running_loop().time()
        shards.kill("a")
        after = await shards.settled("bc")
        orphans = {name: after[name] for name in before if before[name] == "a"}
        await shards.all_run_by(orphans, since=killed, within=35.0)
        assert max(span.began for span in shards.spans) - killed <= 35.0
        moved = {name for name in before if before[name] != after[name]}
        assert moved == set(orphans)


def keeps_its_own(before: Mapping[str, str], owners: Mapping[str, str]) -> None:
    """Assert that replica a, which is stopping, has given no object away yet."""
    assert {name for name in before if owners[name] == "a"} == {name for name in before if before[name] == "a"}
    assert {name: owners[name] for name in before} == before


async def test_s5_stopping_replica_hands_over_after_its_last_reconcile_without_lease_expiry(
    mode: ShardingSettings,
) -> None:
    async with Shards(sharding=mode) as shards:
        before = await shards.filled("abc", objects=12)
        busy = next(name for name in before if before[name] == "a")
        shards.blocked[busy] = asyncio.Event()
        await shards.change(busy, "2")
        await asyncio.sleep(1)
        stop = asyncio.create_task(shards.stop("a"))
        await asyncio.sleep(6)
        keeps_its_own(before, await shards.stamps())
        released = asyncio.get_running_loop().time()
        shards.blocked.pop(busy).set()
        await stop
        after = await shards.settled("bc", within=5.0)
        moved = {name: after[name] for name in before if before[name] == "a"}
        await shards.all_run_by(moved, since=released, within=5.0)
        assert max(span.began for span in shards.spans) - released <= 2.0


async def test_s5_new_objects_during_a_last_reconcile_get_other_owners_at_once(mode: ShardingSettings) -> None:
    async with Shards(sharding=mode) as shards:
        before = await shards.filled("abc", objects=12)
        shards.blocked = {name: asyncio.Event() for name in before if before[name] == "a"}
        blocked = dict(shards.blocked)
        for name in blocked:
            await shards.change(name, "2")
        await asyncio.sleep(1)
        stop = asyncio.create_task(shards.stop("a"))
        await asyncio.sleep(2)
        await shards.objects(20, begin=12)
        await asyncio.sleep(2)
        owners = await shards.stamps()
        keeps_its_own(before, owners)
        assert {owner for name, owner in owners.items() if name not in before} == {"b", "c"}
        shards.blocked = {}
        for event in blocked.values():
            event.set()
        await stop
        await shards.settled("bc", within=5.0)


async def test_s6_key_in_a_long_reconcile_moves_after_it_others_at_once(mode: ShardingSettings) -> None:
    async with Shards(sharding=mode) as shards:
        before = await shards.filled("ab", objects=24)
        shards.blocked = {name: asyncio.Event() for name in before}
        blocked = dict(shards.blocked)
        for name in before:
            await shards.change(name, "2")
        await asyncio.sleep(1)
        await shards.start("c")
        await asyncio.sleep(20)
        assert await shards.stamps() == before
        began = asyncio.get_running_loop().time()
        shards.blocked = {}
        for event in blocked.values():
            event.set()
        await shards.settled("abc")
        assert asyncio.get_running_loop().time() - began < 3


async def test_s7_replica_paused_for_a_minute_writes_and_owns_nothing_on_waking(mode: ShardingSettings) -> None:
    async with Shards(sharding=mode) as shards:
        before = await shards.filled("abc", objects=12)
        busy = next(name for name in before if before[name] == "a")
        shards.blocked[busy] = asyncio.Event()
        await shards.change(busy, "2")
        await asyncio.sleep(1)
        shards.replicas["a"].wire.pause()
        await asyncio.sleep(12)
        shards.blocked.pop(busy).set()
        await asyncio.sleep(48)
        woke = asyncio.get_running_loop().time()
        assert set((await shards.stamps()).values()) == {"b", "c"}
        former = shards.writes("a")
        shards.replicas["a"].wire.resume()
        await asyncio.sleep(2)
        # As a new member it reports its loss by an Event, and takes nothing yet.
        written = [one for one in shards.writes("a") if f"ADDED events {NAMESPACE}/operator-a-" not in one.what]
        assert written == former
        await shards.settled("abc")
        assert [
            span for span in shards.spans if span.replica == "a" and span.began < woke + 3 and span.ended is None
        ] == []


async def test_s8_disconnected_replica_stops_itself_long_before_others_take_over(mode: ShardingSettings) -> None:
    async with Shards(sharding=mode) as shards:
        before = await shards.filled("abc", objects=12)
        shards.blocked = {name: asyncio.Event() for name in before if before[name] == "a"}
        for name in shards.blocked:
            await shards.change(name, "2")
        await asyncio.sleep(1)
        cut = asyncio.get_running_loop().time()
        shards.kill("a")
        await asyncio.sleep(10.5)
        ended = [span.ended for span in shards.spans if span.replica == "a"]
        assert all(end is not None and end - cut <= 10.0 for end in ended)
        shards.blocked = {}
        await shards.settled("bc")
        assert [span for span in shards.spans if span.began > cut and span.began - cut < 20.0] == []


async def test_s9_replicas_with_different_views_of_the_ring_never_overlap(mode: ShardingSettings) -> None:
    async with Shards(sharding=mode) as shards:
        shards.cost = lambda: 0.5
        await shards.filled("ab", objects=16)
        release = shards.stall("a", "/leases")
        await shards.start("c")
        for number in range(16):
            await shards.change(f"source-{number}", "2")
        await asyncio.sleep(10)
        release()
        await shards.settled("abc")


async def test_s10_two_joins_and_a_leave_move_each_key_at_most_once(mode: ShardingSettings) -> None:
    async with Shards(sharding=mode) as shards:
        await shards.filled("abc", objects=40)
        claims = len(shards.claims)
        await shards.start("d")
        await shards.start("e")
        await asyncio.sleep(1)
        await shards.stop("a")
        await shards.settled("bcde")
        moved = [name for name, _ in shards.claims[claims:]]
        assert len(moved) == len(set(moved))


async def test_s11_a_replica_that_never_becomes_a_member_orphans_nothing(mode: ShardingSettings) -> None:
    async with Shards(sharding=mode) as shards:
        await shards.start_all("a", "b", "c")
        starting = asyncio.create_task(shards.start("d", patience=30.0))
        await asyncio.sleep(0)
        shards.kill("d")
        await shards.objects(20)
        owners = await shards.settled("abc", within=20.0)
        await shards.all_run_by(owners, since=0.0, within=10.0)
        starting.cancel()


async def test_s12_no_update_is_lost_to_object_and_status_changes_during_moves(mode: ShardingSettings) -> None:
    async with Shards(sharding=mode) as shards:
        shards.cost = lambda: 0.3
        await shards.filled("ab", objects=16)
        starting = asyncio.create_task(shards.start("c"))
        for round_ in range(20):
            for number in range(16):
                await shards.change(f"source-{number}", str(round_))
            await asyncio.sleep(0.4)
        await starting
        await shards.settled("abc")
        await asyncio.sleep(10)
        copies = [await shards.copy(f"source-{number}") for number in range(16)]
        assert copies == ["19"] * 16


async def test_s12_children_with_controllers_of_their_own_go_where_their_parent_goes() -> None:
    parent = kv.objects.Metadata(name="web", uid="1")
    reference = kv.objects.OwnerReference(api_version="v1", kind="ConfigMap", name="web", uid="1", controller=True)
    child = kv.objects.Metadata(name="web-copy", uid="2", owner_references=(reference,))
    spec: kv.Controller[Any] = kv.Controller.of(CONFIG_MAP).sharded()
    assert spec.family is not None
    assert spec.family(child) == spec.family(parent) == "1"


ROOT = "example.com/root-uid"


def root_of(metadata: kv.objects.Metadata) -> str:
    """The uid of the root, which each object below it has as a label: `by` gets only the object."""
    return (metadata.labels or {}).get(ROOT) or metadata.uid


@pytest.mark.parametrize(
    ("by_root", "keys"), [(False, ["1", "1", "2"]), (True, ["1", "1", "1"])], ids=["by default", "by the root"]
)
def test_s12_default_key_is_the_owner_a_root_label_groups_three_levels(by_root: bool, keys: list[str]) -> None:
    spec: kv.Controller[Any] = kv.Controller.of(CONFIG_MAP).sharded()
    if by_root:
        spec = spec.sharded(by=root_of)
    levels = [kv.objects.Metadata(name="web", uid="1")]
    for number in (1, 2):
        owner = levels[-1]
        reference = kv.objects.OwnerReference("v1", "ConfigMap", owner.name, owner.uid, controller=True)
        levels.append(
            kv.objects.Metadata(
                name=f"web-{number}", uid=f"{number + 1}", owner_references=(reference,), labels={ROOT: "1"}
            )
        )
    assert spec.family is not None
    assert [spec.family(one) for one in levels] == keys


async def test_s12_three_levels_with_a_root_label_share_owner_and_move_together(mode: ShardingSettings) -> None:
    class ByRoot(Shards):
        def _add(self, manager: kv.Manager) -> None:
            super()._add(manager)
            (spec,) = manager.controllers
            manager._core.controllers[spec.name] = spec.sharded(by=root_of)

    async with ByRoot(sharding=mode) as shards:
        await shards.start_all("a", "b")
        for tree in range(24):
            owner: kv.Object | None = None
            root = ""
            for level in range(3):
                metadata: dict[str, Any] = {
                    "name": f"source-{tree}-{level}",
                    "namespace": NAMESPACE,
                    "labels": {ROOT: root},
                }
                if owner is not None:
                    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner.name, "controller": True}
                    metadata |= {"ownerReferences": [{**reference, "uid": owner.metadata.uid}]}
                made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"value": "1"}}
                owner = await shards.client.create(kv.Object(made))
                root = root or owner.metadata.uid
        for names in ("ab", "abc"):
            if "c" in names:
                await shards.start("c")
            owners = await shards.settled(names)
            await asyncio.sleep(10)
            owners = await shards.stamps()
            assert len(owners) == 72
            assert all(len({owners[f"source-{tree}-{level}"] for level in range(3)}) == 1 for tree in range(24))
        assert shards.overlaps() == []


async def test_s13_removed_or_forged_stamp_costs_one_write_and_an_event(mode: ShardingSettings) -> None:
    async with Shards(sharding=mode) as shards:
        before = await shards.filled("ab", objects=24)
        mine = [name for name in before if before[name] == "a"][:2]
        other = next(name for name in before if before[name] == "b")
        foreign = (await shards.client.get(CONFIG_MAP, other, NAMESPACE)).metadata.annotation(STAMP)
        shards.blocked = {name: asyncio.Event() for name in mine}
        blocked = dict(shards.blocked)
        for name in mine:
            await shards.change(name, "2")
        await asyncio.sleep(1)
        claims = len(shards.claims)
        await shards.stamp(mine[0], None)
        await shards.stamp(mine[1], foreign)
        await asyncio.sleep(2)
        assert await shards.stamps() == before
        assert sorted(name for name, _ in shards.claims[claims:]) == sorted(mine)
        shards.blocked = {}
        for event in blocked.values():
            event.set()
        await asyncio.sleep(40)
        assert await shards.stamps() == before
        assert shards.overlaps() == []
        events = await shards.client.list(kv.kind("events.k8s.io/v1", "Event"), NAMESPACE)
        assert sum(one.data["reason"] == Reason.SHARD_STAMP_REPLACED for one in events) == 2


async def test_s13_epochs_increase_despite_a_low_forgery_while_the_owner_was_dead(mode: ShardingSettings) -> None:
    async with Shards(sharding=mode) as shards:
        before = await shards.filled("ab", objects=8)
        gone = (await shards.client.get(CONFIG_MAP, of(before, "b"), NAMESPACE)).metadata.annotation(STAMP)
        await shards.stop("b")
        await shards.settled("a")
        await asyncio.sleep(40)
        shards.kill("a")
        await shards.stamp("source-1", f"{gone.partition('/')[0]}/1")
        await shards.start_all("c")
        owners = await shards.settled("c")
        await shards.all_run_by(owners, since=40.0, within=60.0)


def of(owners: dict[str, str], replica: str) -> str:
    return next(name for name, owner in owners.items() if owner == replica)


async def test_s14_full_restart_is_over_in_20_seconds_without_a_duplicate_creation(mode: ShardingSettings) -> None:
    async with Shards(sharding=mode) as shards:
        await shards.filled("abc", objects=20)
        await asyncio.gather(*(shards.stop(name) for name in "abc"))
        created = sum("ADDED secrets" in one.what for one in shards.audit)
        began = asyncio.get_running_loop().time()
        await shards.start_all("d", "e", "f")
        owners = await shards.settled("def", within=20.0)
        await shards.all_run_by(owners, since=began, within=20.0 - (asyncio.get_running_loop().time() - began))
        assert sum("ADDED secrets" in one.what for one in shards.audit) == created == 20


async def test_s15_five_replicas_do_at_least_three_times_the_work_of_one(mode: ShardingSettings) -> None:
    seconds = {}
    for names in ("a", "abcde"):
        async with Shards(concurrency=2, sharding=mode) as shards:
            await shards.start_all(*names)
            await shards.objects(200)
            owners = await shards.settled(names)
            await asyncio.sleep(10)
            shards.cost = lambda: 0.5
            began = asyncio.get_running_loop().time()
            for name in owners:
                await shards.change(name, "2")
            await shards.all_run_by(owners, since=began, within=600.0)
            seconds[names] = asyncio.get_running_loop().time() - began
    assert seconds["a"] / seconds["abcde"] >= 3.0


async def test_s16_switch_from_leader_to_ring_and_back_never_overlaps_reconciles() -> None:
    async with Shards() as shards:
        shards.cost = lambda: 0.5
        await shards.objects(12)
        loading = asyncio.create_task(keep_changing(shards, 12))
        led = replace(HASH, mode="leader")
        for sharding, names in ((led, "ab"), (HASH, "cde"), (COORDINATOR, "hij"), (led, "fg")):
            shards.sharding = sharding
            await shards.start_all(*names)
            await asyncio.sleep(30)
            worked = {span.replica for span in shards.spans if span.replica in names}
            # By their hashes, a replica of three may own none of twelve objects.
            assert len(worked) == 1 if sharding is led else len(worked) >= 2
            await asyncio.gather(*(shards.stop(name) for name in names))
        loading.cancel()
        for name in (f"source-{number}" for number in range(12)):
            spans = sorted((span for span in shards.spans if span.name == name), key=lambda span: span.began)
            assert all(one.ended is not None and one.ended <= after.began for one, after in pairwise(spans))
            assert {span.epoch == 0 for span in spans} == {True, False}


async def test_s16_rolling_switch_from_hash_to_coordinator_and_back_never_overlaps_reconciles() -> None:
    async with Shards() as shards:
        shards.cost = lambda: 0.5
        await shards.filled("ab", objects=12)
        loading = asyncio.create_task(keep_changing(shards, 12))
        for sharding, names in ((COORDINATOR, "cd"), (HASH, "ef")):
            shards.sharding = sharding
            former = [one for one in shards.replicas if shards.replicas[one].wire.alive]
            for old, new in zip(former, names, strict=True):
                await shards.start(new)
                await asyncio.sleep(5)
                await shards.stop(old)
            await shards.settled(names)
            await asyncio.sleep(5)
        loading.cancel()
        assert {span.replica for span in shards.spans} == set("abcdef")


async def keep_changing(shards: Shards, count: int) -> None:
    number = 0
    while True:
        number += 1
        await shards.change(f"source-{number % count}", str(number))
        await asyncio.sleep(0.2)


async def test_at_rest_no_stamp_is_written(mode: ShardingSettings) -> None:
    async with Shards(sharding=mode) as shards:
        await shards.filled("ab", objects=10)
        await asyncio.sleep(10)
        claims = len(shards.claims)
        await asyncio.sleep(3600)
        assert len(shards.claims) == claims == 10


async def test_deleted_lease_is_created_again_and_no_object_moves(mode: ShardingSettings) -> None:
    async with Shards(sharding=mode) as shards:
        before = await shards.filled("ab", objects=10)
        claims = len(shards.claims)
        for lease in await shards.client.list(LEASE, NAMESPACE):
            await shards.client.delete(LEASE, lease.name, NAMESPACE)
        await asyncio.sleep(60)
        assert await shards.stamps() == before
        assert len(shards.claims) == claims


@pytest.mark.parametrize(
    "spec",
    [
        {"leaseDurationSeconds": 1},
        {"leaseDurationSeconds": 86400},
        {"renewTime": "2000-01-01T00:00:00.000000Z"},
        {"renewTime": "2100-01-01T00:00:00.000000Z"},
    ],
    ids=["a short duration", "a long duration", "renewed long ago", "renewed in the future"],
)
async def test_edited_lease_with_its_holder_moves_no_object(mode: ShardingSettings, spec: dict[str, Any]) -> None:
    async with Shards(sharding=mode) as shards:
        before = await shards.filled("ab", objects=10)
        await asyncio.sleep(20)
        claims = len(shards.claims)
        for part in range(5):  # at different times between two renewals
            await asyncio.sleep(11.3)
            for lease in await shards.client.list(LEASE, NAMESPACE, labels=f"{Label.SHARD_RING}=operator"):
                await shards.client.patch(LEASE, lease.name, NAMESPACE, patch={"spec": spec}, style="merge")
            for name in before:
                await shards.change(name, f"edited-{part}")
        await asyncio.sleep(60)
        assert await shards.stamps() == before
        assert len(shards.claims) == claims


@pytest.mark.parametrize("value", [None, "another"], ids=["removed", "replaced"])
async def test_member_restores_a_removed_ring_label_before_others_presume_its_death(
    mode: ShardingSettings, value: str | None
) -> None:
    async with Shards(sharding=mode) as shards:
        before = await shards.filled("ab", objects=10)
        claims = len(shards.claims)
        for lease in await shards.client.list(LEASE, NAMESPACE, labels=f"{Label.SHARD_RING}=operator"):
            bare = {"metadata": {"labels": {Label.SHARD_RING: value}}}
            await shards.client.patch(LEASE, lease.name, NAMESPACE, patch=bare, style="merge")
        await asyncio.sleep(60)
        assert len(await shards.client.list(LEASE, NAMESPACE, labels=f"{Label.SHARD_RING}=operator")) == 2
        assert await shards.stamps() == before
        assert len(shards.claims) == claims


async def test_lease_of_a_dead_member_is_deleted_by_another_member_later(mode: ShardingSettings) -> None:
    async with Shards(sharding=mode) as shards:
        await shards.start_all("a", "b")
        shards.kill("a")
        await asyncio.sleep(700)
        members = await shards.client.list(LEASE, NAMESPACE, labels=f"{Label.SHARD_RING}=operator")
        assert len(members) == 1
