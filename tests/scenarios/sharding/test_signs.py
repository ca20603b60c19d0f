"""Metrics, Events and log lines of replicas that share objects, for changes of a ring by people and other writers."""

import asyncio
from typing import Any

import pytest
import structlog
from replicas import NAMESPACE
from shards import COORDINATOR, LABEL, STAMP, Shards
from widgets import CONFIG_MAP

import konverge as kv
from konverge.client.requests import Request
from konverge.runtime.election.record import LEASE
from konverge.runtime.sharding.settings import ShardingSettings
from konverge.words import Label, Reason

EVENT = kv.kind("events.k8s.io/v1", "Event")


def sample(shards: Shards, replica: str, name: str) -> float | None:
    return shards.replicas[replica].metrics.registry.get_sample_value(name, {"name": "operator"})


async def told(shards: Shards) -> list[tuple[str, str]]:
    """The reasons of the Events about Leases, and their members."""
    found = await shards.client.list(EVENT, NAMESPACE)
    return sorted(
        (one.data["reason"], one.data["regarding"]["name"])
        for one in found
        if one.data["regarding"]["kind"] == LEASE.kind
    )


async def lease_of(shards: Shards, replica: str) -> kv.Object:
    found = await shards.client.list(LEASE, NAMESPACE)
    return next(one for one in found if one.name.startswith(f"operator-{replica}-"))


async def test_no_event_reports_a_lease_at_rest_or_while_members_change(mode: ShardingSettings) -> None:
    async with Shards(sharding=mode) as shards:
        await shards.filled("ab", objects=6)
        await asyncio.sleep(120)
        await shards.stop("b")
        await asyncio.sleep(30)
        assert await told(shards) == []


async def test_deleted_lease_is_reported_once_when_created_again(mode: ShardingSettings) -> None:
    async with Shards(sharding=mode) as shards:
        await shards.start_all("a", "b")
        lease = await lease_of(shards, "a")
        await shards.client.delete(LEASE, lease.name, NAMESPACE)
        await asyncio.sleep(60)
        assert await told(shards) == [(Reason.SHARD_LEASE_RECREATED, lease.name)]
        assert (await lease_of(shards, "a")).metadata.uid != lease.metadata.uid


@pytest.mark.parametrize(
    ("change", "lost"),
    [
        ({"spec": {"renewTime": "2020-01-01T00:00:00.000000Z"}}, False),
        ({"spec": {"leaseDurationSeconds": 3600}}, False),
        ({"metadata": {"labels": {Label.SHARD_RING: None}}}, False),
        ({"spec": {"leaseTransitions": 7}}, True),
        ({"spec": {"holderIdentity": "another"}}, True),
        ({"spec": {"holderIdentity": None, "leaseDurationSeconds": 1}}, True),
    ],
    ids=["renew time", "duration", "label", "transitions", "holder", "released"],
)
async def test_edited_lease_is_reported_and_so_is_its_loss_to_another_holder(
    mode: ShardingSettings, change: dict[str, Any], lost: bool
) -> None:
    async with Shards(sharding=mode) as shards:
        await shards.start_all("a", "b")
        lease = await lease_of(shards, "a")
        await shards.client.patch(LEASE, lease.name, NAMESPACE, patch=change, style="merge")
        await asyncio.sleep(60)
        expected = [(Reason.SHARD_LEASE_EDITED, lease.name)]
        assert await told(shards) == [*expected, *([(Reason.SHARD_MEMBERSHIP_LOST, lease.name)] if lost else [])]


@pytest.mark.parametrize("value", [None, "another"], ids=["removed", "replaced"])
async def test_lease_without_its_label_gets_it_back_with_the_next_renewal(
    mode: ShardingSettings, value: str | None
) -> None:
    async with Shards(sharding=mode) as shards:
        await shards.start_all("a")
        lease = await lease_of(shards, "a")
        bare = {"metadata": {"labels": {Label.SHARD_RING: value}}}
        await shards.client.patch(LEASE, lease.name, NAMESPACE, patch=bare, style="merge")
        await asyncio.sleep(5.1)
        assert (await lease_of(shards, "a")).metadata.label(Label.SHARD_RING) == "operator"


async def test_reconnected_replica_reports_the_loss_and_no_fault_for_moved_objects(mode: ShardingSettings) -> None:
    async with Shards(sharding=mode) as shards:
        await shards.filled("ab", objects=8)
        lease = await lease_of(shards, "a")
        shards.replicas["a"].wire.pause()
        await asyncio.sleep(60)
        assert set((await shards.stamps()).values()) == {"b"}
        shards.replicas["a"].wire.resume()
        await shards.settled("ab")
        await asyncio.sleep(30)
        assert await told(shards) == [(Reason.SHARD_MEMBERSHIP_LOST, lease.name)]
        for replica in "ab":
            assert sample(shards, replica, "konverge_shard_stamps_replaced_total") == 0
            assert sample(shards, replica, "konverge_shard_double_owners_total") == 0


async def test_only_a_live_members_stamp_on_an_owned_object_counts_as_double(mode: ShardingSettings) -> None:
    async with Shards(sharding=mode) as shards:
        owners = await shards.filled("ab", objects=8)
        mine = next(name for name, owner in owners.items() if owner == "a")
        other = next(name for name, owner in owners.items() if owner == "b")
        foreign = (await shards.client.get(CONFIG_MAP, other, NAMESPACE)).metadata.annotation(STAMP)
        shards.blocked[mine] = asyncio.Event()
        await shards.change(mine, "2")
        await asyncio.sleep(1)
        for stamp, count in ((None, 0), ("nonsense", 0), (foreign, 1)):
            await shards.stamp(mine, stamp)
            await asyncio.sleep(1)
            assert sample(shards, "a", "konverge_shard_double_owners_total") == count
        assert sample(shards, "a", "konverge_shard_stamps_replaced_total") == 3
        shards.blocked.pop(mine).set()


async def test_ring_generation_changes_only_with_its_members(mode: ShardingSettings) -> None:
    async with Shards(sharding=mode) as shards:
        await shards.start_all("a", "b")
        await asyncio.sleep(10)
        before = sample(shards, "a", "konverge_shard_ring_generation")
        assert before
        await asyncio.sleep(600)
        assert sample(shards, "a", "konverge_shard_ring_generation") == before
        await shards.start("c")
        await asyncio.sleep(10)
        after = sample(shards, "a", "konverge_shard_ring_generation")
        assert after is not None
        assert after > before


async def test_death_of_a_member_changes_the_ring_and_its_expiry_does_not(mode: ShardingSettings) -> None:
    def expired(shards: Shards) -> float | None:
        labels = {"name": "operator", "state": "expired"}
        return shards.replicas["a"].metrics.registry.get_sample_value("konverge_shard_members", labels)

    async with Shards(sharding=mode) as shards:
        await shards.filled("ab", objects=6)
        await asyncio.sleep(10)
        before = sample(shards, "a", "konverge_shard_ring_generation")
        shards.kill("b")
        await asyncio.sleep(20)
        assert expired(shards) == 1
        assert sample(shards, "a", "konverge_shard_ring_generation") == before
        await asyncio.sleep(20)
        after = sample(shards, "a", "konverge_shard_ring_generation")
        assert after is not None
        assert after > (before or 0.0)
        assert await shards.settled("a") != {}


async def test_coordinator_counts_objects_without_an_owner_and_their_waiting_time() -> None:
    async with Shards(sharding=COORDINATOR) as shards:
        owners = await shards.filled("abc", objects=12)
        await asyncio.sleep(5)
        holder = (await shards.lease()).data["spec"]["holderIdentity"].partition("_")[0]
        names = ("konverge_shard_unowned_objects", "konverge_shard_unowned_age_seconds")
        assert [sample(shards, replica, name) for replica in "abc" for name in names] == [0.0] * 6
        first, second = sorted(set("abc") - {holder})
        shards.kill(first)
        shards.kill(second)
        await asyncio.sleep(20)
        assert sample(shards, holder, names[0]) == 0
        shards.blocked = {name: asyncio.Event() for name in owners}
        gone = sum(owner != holder for owner in owners.values())
        seen = list[float]()
        shards.delays[holder] = lambda request: 20.0 if "/configmaps/" in request.path else 0.0
        for _ in range(60):
            await asyncio.sleep(0.5)
            seen.append(sample(shards, holder, names[0]) or 0.0)
            if seen[-1] and len(seen) > 1 and seen[-2]:
                assert (sample(shards, holder, names[1]) or 0.0) >= 0.5
        assert max(seen) == gone
        shards.delays.clear()
        await asyncio.sleep(60)
        assert sample(shards, holder, names[0]) == sample(shards, holder, names[1]) == 0


async def test_unlabelled_object_is_logged_once_and_again_when_it_is_assigned() -> None:
    def unreachable(request: Request) -> float:
        if LABEL.encode() in (request.body or b""):
            raise kv.errors.Unreachable("the label is refused")
        return 0.0

    with structlog.testing.capture_logs() as lines:
        async with Shards(sharding=COORDINATOR) as shards:
            await shards.start_all("a")
            await asyncio.sleep(5)
            shards.delays["a"] = unreachable
            await shards.objects(3)
            await asyncio.sleep(600)
            failed = shards.replicas["a"].metrics.registry.get_sample_value(
                "konverge_shard_assignments_total", {"name": "operator", "result": "failed"}
            )
            assert failed is not None
            assert failed > 30
            said = [line for line in lines if "could not be assigned" in line["event"]]
            assert sorted(line["key"] for line in said) == [f"lab/source-{number}" for number in range(3)]
            assert {line["log_level"] for line in said} == {"warning"}
            shards.delays.clear()
            await shards.settled("a")
    ended = [line for line in lines if line["event"] == "an object that could not be assigned is assigned"]
    assert sorted(line["key"] for line in ended) == [f"lab/source-{number}" for number in range(3)]
    assert sum(line["count"] for line in ended) == failed


async def test_replica_with_slow_renewals_reports_it_in_log_and_later_event(mode: ShardingSettings) -> None:
    with structlog.testing.capture_logs() as lines:
        async with Shards(sharding=mode) as shards:
            await shards.start_all("a", "b")
            lease = await lease_of(shards, "a")
            shards.delays["a"] = lambda request: 12.0 if "/leases" in request.path else 0.0
            await asyncio.sleep(30)
            said = [line for line in lines if line.get("event_reason") == Reason.SHARD_MEMBERSHIP_LOST]
            assert [(line["log_level"], line["identity"]) for line in said] == [("warning", lease.name)]
            assert "is not a member of the ring any more: " in said[0]["cause"]
            assert "no renewal succeeded for 10 s: the API server is slow to answer" in said[0]["cause"]
            assert await told(shards) == []
            shards.delays.clear()
            await asyncio.sleep(60)
            assert await told(shards) == [(Reason.SHARD_MEMBERSHIP_LOST, lease.name)]


@pytest.mark.parametrize(
    ("stamp", "found"),
    [
        (None, "removed"),
        ("forged/1", "replaced by a stamp that no member of the ring writes"),
        ("operator-x-0123456789/1", "replaced by operator-x-0123456789/1"),
        ("/1", "replaced by /1"),
    ],
    ids=str,
)
async def test_edited_stamp_is_reported_in_the_log_and_an_object_event(
    mode: ShardingSettings, stamp: str | None, found: str
) -> None:
    with structlog.testing.capture_logs() as lines:
        async with Shards(sharding=mode) as shards:
            await shards.filled("a", objects=1)
            await asyncio.sleep(5)
            await shards.stamp("source-0", stamp)
            await asyncio.sleep(5)
            said = [line for line in lines if line["event"] == "an ownership stamp was changed by another writer"]
            assert [(line["key"], line["cause"]) for line in said] == [("lab/source-0", found)]
            events = await shards.client.list(EVENT, NAMESPACE)
            notes = [one.data["note"] for one in events if one.data["reason"] == Reason.SHARD_STAMP_REPLACED]
            assert len(notes) == 1
            assert f"another writer changed the annotation {STAMP} while operator-a-" in notes[0]
            assert notes[0].endswith("; it is written again")
            assert set((await shards.stamps()).values()) == {"a"}
