"""Ranges of uids that a real kube-apiserver selects: with the feature ShardedListAndWatch, which is alpha in 1.36 and off, and without."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random

import pytest
from patience import PATIENCE
from widgets import CONFIG_MAP, By

import konverge as kv
from konverge.client import Client, ClientConfig, ListQuery
from konverge.client.decoding import decode_metadata
from konverge.informers import InformerSet, Selection, UidWindow
from konverge.informers.window import BUCKETS, bucket_of, shard_selector
from konverge.runtime.sharding.stamp import annotation_of
from konverge_testing import ControlPlane, ControlPlaneConfig

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(400)]

OBJECTS = 60
LOWER, UPPER = range(BUCKETS // 2), range(BUCKETS // 2, BUCKETS)


@pytest.fixture(scope="module")
def selecting() -> Iterator[ControlPlane]:
    gates = {"ShardedListAndWatch": True}
    with ControlPlane(ControlPlaneConfig(feature_gates=gates, start_seconds=60 * PATIENCE)) as plane:
        yield plane


@pytest.fixture(params=[True, False], ids=["selects", "sends everything"])
def plane(request: pytest.FixtureRequest) -> ControlPlane:
    """A server with the feature, and one without."""
    found: ControlPlane = request.getfixturevalue("selecting" if request.param else "control_plane")
    return found


def selects(plane: ControlPlane) -> bool:
    return bool(plane.config.feature_gates)


@asynccontextmanager
async def filled(plane: ControlPlane, namespace: str) -> AsyncIterator[tuple[Client, ClientConfig]]:
    await plane.create_namespace(namespace)
    config = await ClientConfig.from_kubeconfig(plane.kubeconfig)
    async with Client(config, name="test") as client:
        made = (CONFIG_MAP.new(f"source-{number}", namespace, data={"value": "1"}) for number in range(OBJECTS))
        await asyncio.gather(*(client.create(one) for one in made))
        yield client, config


async def names(client: Client, namespace: str, chosen: Callable[[str], bool]) -> set[str]:
    return {one.name for one in await client.list(CONFIG_MAP, namespace) if chosen(one.metadata.uid)}


async def until(test: Callable[[], bool]) -> None:
    async with asyncio.timeout(60 * PATIENCE):
        while not test():
            await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("namespace", "buckets"),
    [
        ("first", [0]),
        ("last", [BUCKETS - 1]),
        ("lower", LOWER),
        ("upper", UPPER),
        ("all", range(BUCKETS)),
        ("every-other", range(0, BUCKETS, 2)),
        ("none", []),
    ],
    ids=["first", "last", "lower", "upper", "all", "every other", "none"],
)
async def test_the_server_takes_our_selector_echoes_it_and_hashes_as_we_do(
    selecting: ControlPlane, namespace: str, buckets: Sequence[int]
) -> None:
    async with filled(selecting, namespace) as (client, _):
        selector = shard_selector(buckets)
        query = ListQuery(namespace=namespace, shards=selector)  # lists of metadata alone bear no echo
        page = await client.list_page(await client.resource(CONFIG_MAP), query)
        assert page.shards == selector
        found = {decode_metadata(bytes(one)).name for one in page.items}
        assert found == await names(client, namespace, lambda uid: bucket_of(uid) in (buckets or [0]))


async def test_an_informer_has_the_objects_of_its_window_alone_whether_the_server_selects_or_not(
    plane: ControlPlane,
) -> None:
    async with filled(plane, "informed") as (client, _), InformerSet(client, random=Random(1)) as informers:
        window = UidWindow()
        window.open(LOWER)
        informer = informers.acquire(Selection(CONFIG_MAP, "informed", window=window))
        await informer.wait_synced()
        assert informer.narrowed == selects(plane)

        def cached() -> set[str]:
            return {name for _, name in informer.store.keys()}  # noqa: SIM118  # no dict

        assert cached() == await names(client, "informed", lambda uid: bucket_of(uid) in LOWER)
        for number in range(OBJECTS, 2 * OBJECTS):
            await client.create(CONFIG_MAP.new(f"source-{number}", "informed"))
        wanted = await names(client, "informed", lambda uid: bucket_of(uid) in LOWER)
        await until(lambda: cached() == wanted)
        window.open(UPPER)
        wanted = await names(client, "informed", lambda uid: bucket_of(uid) in UPPER)
        await until(lambda: cached() == wanted)
        assert informer.narrowed == selects(plane)
        assert informer.statistics().events < 2 * OBJECTS


async def test_replicas_share_objects_and_each_is_sent_its_own_alone_if_the_server_selects(plane: ControlPlane) -> None:
    async with filled(plane, "ranged") as (client, config), AsyncExitStack() as stack:
        reconciled = dict[str, set[str]]()
        managers = []
        for replica in ("a", "b"):

            async def noted(object_: kv.Object, _ctx: kv.Context[kv.Object], replica: str = replica) -> kv.Outcome:
                reconciled.setdefault(replica, set()).add(object_.name)
                return kv.Done()

            sharding = kv.ShardingSettings(mode="hash", ranges=True, namespace="ranged")
            settings = kv.ManagerSettings(namespace="ranged", instance=replica, sharding=sharding)
            manager = kv.Manager("ranged", config, settings=settings)
            manager.add(kv.Controller.of(CONFIG_MAP).sharded(by=kv.by_uid).reconciled_by(By(noted)))
            managers.append(await stack.enter_async_context(manager))
        stamp = annotation_of("ranged")

        async def owners() -> dict[str, str]:
            found = await client.list(CONFIG_MAP, "ranged")
            return {
                one.name: one.metadata.annotation(stamp).rpartition("/")[0]
                for one in found
                if one.name.startswith("source-")
            }

        caches = [one.runner("configmap")._watches.primary for one in managers]
        async with asyncio.timeout(60 * PATIENCE):
            while True:
                stores = [cache.store.keys() for cache in caches]  # no dict
                found = [{name for _, name in paths if name.startswith("source-")} for paths in stores]
                owned = await owners()
                shared = len(set(owned.values())) == 2 and "" not in owned.values() and not found[0] & found[1]
                if shared and set().union(*reconciled.values()) >= set(owned):
                    break
                await asyncio.sleep(0.2)
        assert found[0] | found[1] == set(owned)
        assert [cache.narrowed for cache in caches] == [selects(plane)] * 2
