"""Controllers that are not shared run on an elected leader, beside shared controllers."""

import asyncio
from typing import Any

import pytest
from replicas import NAMESPACE, Replicas
from shards import HASH
from widgets import CONFIG_MAP, SECRET, By

import konverge as kv
from konverge.errors import NotReady, UsageError


async def nothing(_object: Any, _ctx: kv.Context[Any]) -> kv.Outcome:
    return kv.Done()


async def test_unshared_work_is_done_by_one_replica_and_taken_over() -> None:
    ran: list[tuple[str, str]] = []

    def build(manager: kv.Manager) -> None:
        async def note(object_: Any, ctx: kv.Context[Any]) -> kv.Outcome:
            assert ctx.epoch == 0
            ran.append((object_.name, manager.settings.instance))
            return kv.Done()

        manager.add(kv.Controller.of(CONFIG_MAP).sharded().reconciled_by(By(nothing)))
        manager.add(kv.Controller.of(SECRET).reconciled_by(By(note)))

    async with Replicas(build, sharding=HASH) as replicas:
        a, b = await asyncio.gather(replicas.start("a"), replicas.start("b"))
        for number in range(6):
            await replicas.client.create(SECRET.new(f"secret-{number}", NAMESPACE))
        await asyncio.sleep(10)
        assert len(ran) == 6
        leaders = {instance for _, instance in ran}
        assert len(leaders) == 1
        await replicas.stop(leaders.pop())
        await asyncio.sleep(5)
        assert {instance for _, instance in ran} == {"a", "b"}
        assert a.manager.report().election is not None
        left = next(iter(replicas.replicas.values()))
        assert "shard-ring" in str(left.manager.report())
        assert left is not None
        assert b.manager is not a.manager


async def test_a_manager_says_who_owns_an_object() -> None:
    async with Replicas(
        lambda manager: manager.add(kv.Controller.of(CONFIG_MAP).sharded().reconciled_by(By(nothing))), sharding=HASH
    ) as replicas:
        a = await replicas.start("a")
        await replicas.client.create(CONFIG_MAP.new("web", NAMESPACE))
        await asyncio.sleep(5)
        stored = await replicas.client.get(CONFIG_MAP, "web", NAMESPACE)
        owner, epoch = a.manager.owns(stored)
        assert owner.startswith("operator-a-")
        assert epoch > 0
        assert a.manager.leads
        text = a.metrics.registry.get_sample_value("konverge_shard_objects", {"name": "operator"})
        assert text == 1


async def test_a_manager_without_a_controller_to_share_does_not_start() -> None:
    async with Replicas(
        lambda manager: manager.add(kv.Controller.of(CONFIG_MAP).reconciled_by(By(nothing))), sharding=HASH
    ) as replicas:
        with pytest.raises((UsageError, NotReady), match=r"declare one with .sharded\(\)"):
            await replicas.start("a")
        replicas.replicas.clear()


def test_sharding_needs_rights_on_leases_and_on_stamped_objects() -> None:
    manager = kv.Manager("shop", settings=kv.ManagerSettings(sharding=HASH))
    manager.add(kv.Controller.of(CONFIG_MAP).sharded().reconciled_by(By(nothing)))
    manager.add(kv.Controller.of(SECRET).reconciled_by(By(nothing)))
    rights = {(rule.resources, rule.verbs, rule.names) for rule in manager.rules()}
    assert (("configmaps",), ("get", "list", "patch", "watch"), ()) in rights
    assert (("secrets",), ("get", "list", "watch"), ()) in rights
    assert (("leases",), ("create", "delete", "get", "list", "patch", "watch"), ()) in rights


@pytest.mark.parametrize(
    "wrong", [{"mode": "vote"}, {"ring": "Shop"}, {"ring": "x" * 51}, {"join_seconds": 15.0}], ids=str
)
def test_settings_with_which_a_ring_cannot_work_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="sharding: "):
        kv.ShardingSettings(**wrong)


async def test_in_mode_leader_one_replica_owns_shareable_objects_too() -> None:
    ran: list[str] = []

    def build(manager: kv.Manager) -> None:
        async def note(_object: Any, _ctx: kv.Context[Any]) -> kv.Outcome:
            ran.append(manager.settings.instance)
            return kv.Done()

        manager.add(kv.Controller.of(CONFIG_MAP).sharded().reconciled_by(By(note)))

    election = kv.ElectionSettings(name="operator", namespace=NAMESPACE)
    async with Replicas(build, election=election, sharding=kv.ShardingSettings(mode="leader")) as replicas:
        await asyncio.gather(replicas.start("a"), replicas.start("b"))
        for number in range(6):
            await replicas.client.create(CONFIG_MAP.new(f"source-{number}", NAMESPACE))
        await asyncio.sleep(10)
        assert len(ran) == 6
        assert len(set(ran)) == 1
        assert "shard-ring" not in str(replicas.replicas["a"].manager.report())
