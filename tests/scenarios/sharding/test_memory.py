"""In the mode `hash` a replica watches all objects, and caches only the metadata of other replicas' objects."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from replicas import NAMESPACE, Replica
from shards import COORDINATOR, HASH, Shards
from widgets import CONFIG_MAP, SECRET, By

import konverge as kv
from konverge.runtime.builder.builder import Controller


def whole(replica: Replica) -> set[str]:
    """The objects with a body in the cache of a replica."""
    store = replica.manager.runner("configmap")._watches.primary.store
    found = (store.get(*path) for path in store.keys())  # noqa: SIM118  # no dict
    return {one.metadata.name for one in found if one is not None and not one.metadata_only}


def owned(owners: dict[str, str], replica: str) -> set[str]:
    return {name for name, owner in owners.items() if owner == replica}


async def test_replica_has_bodies_of_its_own_objects_only_after_moves_and_edits() -> None:
    async with Shards(sharding=HASH) as shards:
        await shards.start_all("a", "b", "c")
        await shards.objects(40)
        for step, names in ((None, "abc"), ("join", "abcd"), ("kill", "bcd"), ("stop", "cd"), ("edit", "cd")):
            if step == "join":
                await shards.start("d")
            elif step == "kill":
                shards.kill("a")
            elif step == "stop":
                await shards.stop("b")
            elif step == "edit":
                for number in range(40):
                    await shards.stamp(f"source-{number}", None)
            owners = await shards.settled(names)
            await asyncio.sleep(10)
            for name in names:
                assert whole(shards.replicas[name]) == owned(owners, name)
            for name in owners:
                await shards.change(name, f"{step}")
            await asyncio.sleep(10)
            assert {await shards.copy(name) for name in owners} == {f"{step}"}


async def test_first_list_of_a_joining_replica_has_no_body_of_others() -> None:
    async with Shards(sharding=HASH) as shards:
        await shards.filled("ab", objects=20)
        release = [shards.stall(name, "/leases") for name in "ab"]  # they do not notice, and keep their objects
        joined = await shards.start("c")
        await asyncio.sleep(5)
        assert whole(joined) == set()
        for one in release:
            one()
        owners = await shards.settled("abc")
        await asyncio.sleep(10)
        assert whole(joined) == owned(owners, "c") != set()


async def test_body_is_kept_if_the_watch_shows_the_claim_before_the_response() -> None:
    async with Shards(sharding=HASH) as shards:
        await shards.start_all("a", "b")
        shards.slow_responses = {"a": 2.0, "b": 2.0}
        await shards.objects(20)
        owners = await shards.settled("ab")
        await asyncio.sleep(20)
        for name in "ab":
            assert whole(shards.replicas[name]) == owned(owners, name)
        assert {await shards.copy(name) for name in owners} == {"1"}


class Asked:
    """A predicate that compares the data of an object, and fails without it."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, change: Any) -> bool:
        self.calls += 1
        return bool(change.old.data()["data"] != change.new.data()["data"])


async def test_a_predicate_is_asked_about_whole_objects_alone_and_hides_no_move() -> None:
    asked = Asked()

    class Predicated(Shards):
        def _add(self, manager: kv.Manager) -> None:
            super()._add(manager)
            (spec,) = manager.controllers
            manager._core.controllers[spec.name] = spec.when(asked)

    async with Predicated(sharding=HASH) as shards:
        await shards.filled("ab", objects=20)
        await shards.start("c")
        owners = await shards.settled("abc")
        await asyncio.sleep(10)
        since, calls = asyncio.get_running_loop().time(), asked.calls
        for name in owners:
            await shards.change(name, "2")
        await shards.all_run_by(owners, since=since, within=10.0)
        assert asked.calls == calls + len(owners)
        assert shards.overlaps() == []


Sentence = Callable[[Controller[Any]], Controller[Any]]


async def noted(_object: Any, _ctx: kv.Context[Any]) -> kv.Outcome:
    return kv.Done()


def keys_of(_object: Any, _caches: Any) -> list[kv.Key]:
    return []


def by_value(object_: Any) -> tuple[str, ...]:
    return (object_.data["data"]["value"],)


OTHER = kv.Controller.of(SECRET).named("other")


@pytest.mark.parametrize(
    ("also", "other"),
    [
        pytest.param(lambda spec: spec.watches(CONFIG_MAP, to=keys_of), None, id="watches its own kind"),
        pytest.param(lambda spec: spec.indexes(CONFIG_MAP, "value", by=by_value), None, id="indexes its own kind"),
        pytest.param(lambda spec: spec, OTHER.owns(CONFIG_MAP), id="another controller owns the kind"),
        pytest.param(
            lambda spec: spec, OTHER.watches(CONFIG_MAP, to=keys_of), id="another controller watches the kind"
        ),
        pytest.param(
            lambda spec: spec,
            kv.Controller.of(CONFIG_MAP).named("other").writes_status_as("other"),
            id="a controller of the kind is not shared",
        ),
    ],
)
async def test_bodies_that_another_part_of_the_manager_reads_are_kept_whole(
    also: Sentence, other: Controller[Any] | None
) -> None:
    class Reads(Shards):
        def _add(self, manager: kv.Manager) -> None:
            super()._add(manager)
            (spec,) = manager.controllers
            manager._core.controllers[spec.name] = also(spec)
            if other is not None:
                manager.add(other.reconciled_by(By(noted)))

    async with Reads(sharding=HASH) as shards:
        owners = await shards.filled("ab", objects=8)
        await asyncio.sleep(5)
        assert whole(shards.replicas["a"]) == whole(shards.replicas["b"]) == set(owners)


async def test_a_watch_of_metadata_by_another_controller_keeps_no_bodies() -> None:
    class Reads(Shards):
        def _add(self, manager: kv.Manager) -> None:
            super()._add(manager)
            watching = OTHER.watches(CONFIG_MAP, to=keys_of, metadata_only=True)
            manager.add(watching.reconciled_by(By(noted)))

    async with Reads(sharding=HASH) as shards:
        owners = await shards.filled("ab", objects=8)
        await asyncio.sleep(5)
        assert whole(shards.replicas["a"]) == owned(owners, "a")


async def test_a_shared_controller_of_metadata_has_each_object_reconciled_by_one_replica() -> None:
    seen: dict[str, set[str]] = {"a": set(), "b": set()}

    class OfMetadata(Shards):
        def _add(self, manager: kv.Manager) -> None:
            async def reads(object_: kv.MetadataObject, ctx: kv.Context[kv.MetadataObject]) -> kv.Outcome:
                seen[manager._core.instance].add(object_.name)
                await ctx.own(SECRET.new(f"copy-of-{object_.name}", object_.namespace, stringData={"value": "1"}))
                return kv.Done()

            controller = kv.Controller.of_metadata(CONFIG_MAP).owns(SECRET, metadata_only=True).sharded()
            manager.add(controller.reconciled_by(By(reads)))

    async with OfMetadata(sharding=HASH) as shards:
        owners = await shards.filled("ab", objects=8)
        await asyncio.sleep(5)
        assert seen == {name: owned(owners, name) for name in "ab"}
        assert whole(shards.replicas["a"]) == set()
        assert {await shards.copy(name) for name in owners} == {"1"}


async def test_body_of_another_replicas_object_is_read_live_and_the_error_explains() -> None:
    said = list[str]()

    class Reads(Shards):
        def _add(self, manager: kv.Manager) -> None:
            async def reads(object_: Any, ctx: kv.Context[Any]) -> kv.Outcome:
                for name in ("source-0", "source-1", "source-2", "source-3"):
                    found = ctx.cache(CONFIG_MAP).metadata(NAMESPACE, name)
                    assert found is not None
                    assert (await ctx.live(CONFIG_MAP).get(NAMESPACE, name)).data["data"] == {"value": "1"}
                    try:
                        ctx.cache(CONFIG_MAP).find(NAMESPACE, name)
                    except kv.errors.MetadataOnly as error:
                        said.append(str(error))
                return kv.Done()

            manager.add(kv.Controller.of(CONFIG_MAP).sharded().reconciled_by(By(reads)))

    async with Reads(sharding=HASH) as shards:
        await shards.filled("ab", objects=4)
        await asyncio.sleep(5)
        assert said
        assert all("only its metadata is cached; read it live: await ctx.live(" in one for one in said)


async def test_a_coordinator_divides_caches_by_labels_and_keeps_what_it_caches_whole() -> None:
    async with Shards(sharding=COORDINATOR) as shards:
        owners = await shards.filled("ab", objects=20)
        await asyncio.sleep(5)
        assert whole(shards.replicas["a"]) == owned(owners, "a")
