"""The mode `hash` with `ranges`: a replica watches a part of the uids, and the API server selects it if it can."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
import structlog
from replicas import NAMESPACE, Replica
from shards import RANGES, Shards
from widgets import CONFIG_MAP

import konverge as kv
from konverge.client import Client, ClientConfig, OpenStream, Response, Transport
from konverge.client.requests import Request
from konverge.informers import Informer, InformerSet, Selection, UidWindow
from konverge.informers.window import BUCKETS, bucket_of
from konverge.runtime.sharding.settings import ShardingSettings
from konverge_testing import ApiServer

RANGE = re.compile(r"shardRange\(object\.metadata\.uid, '0x([0-9a-f]{16})', '0x([0-9a-f]{16,17})'\)")
Hash = Callable[[str], int]


def by_our_hash(uid: str) -> int:
    return bucket_of(uid) << 56


def by_another_hash(uid: str) -> int:
    return bucket_of(uid[::-1]) << 56


class Selecting:
    """A transport to a server that selects by `shardSelector`, as kube-apiserver does with its feature on."""

    def __init__(self, inner: Transport, hashed: Hash, *, flows: asyncio.Event | None = None) -> None:
        self._inner = inner
        self._hashed = hashed
        self._flows = flows
        """Unless it is set, no watch brings anything."""

    def _chosen(self, request: Request) -> Callable[[str], bool] | None:
        selector = dict(request.params).get("shardSelector", "")
        if not selector:
            return None
        ranges = [(int(low, 16), int(high, 16)) for low, high in RANGE.findall(selector)]
        assert " || ".join(one[0] for one in RANGE.finditer(selector)) == selector
        return lambda uid: any(low <= self._hashed(uid) < high for low, high in ranges)

    async def prepare(self) -> None:
        await self._inner.prepare()

    async def send(self, request: Request) -> Response:
        response, chosen = await self._inner.send(request), self._chosen(request)
        if chosen is None or response.status != 200:
            return response
        page = json.loads(response.body)
        page["items"] = [one for one in page["items"] if chosen(one["metadata"]["uid"])]
        page["metadata"]["shardInfo"] = {"selector": dict(request.params)["shardSelector"]}
        return Response(response.status, json.dumps(page).encode(), response.content_type)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[OpenStream]:
        async with self._inner.stream(request) as stream:
            chosen = self._chosen(request)
            yield stream if chosen is None else _Selected(stream, chosen, self._flows)

    async def close(self) -> None:
        await self._inner.close()


class _Selected:
    def __init__(self, inner: OpenStream, chosen: Callable[[str], bool], flows: asyncio.Event | None) -> None:
        self._inner = inner
        self._flows = flows
        self._chosen = chosen
        self.status, self.content_type, self.retry_after = inner.status, inner.content_type, inner.retry_after
        self._rest = b""

    async def read(self) -> bytes:
        while True:
            found = await self._inner.read()
            if self._flows is not None:
                await self._flows.wait()
            if not found:
                return found
            *lines, self._rest = (self._rest + found).split(b"\n")
            kept = [line for line in lines if self._is_kept(line)]
            if kept:
                return b"".join(line + b"\n" for line in kept)

    def _is_kept(self, line: bytes) -> bool:
        uid = json.loads(line)["object"].get("metadata", {}).get("uid", "")
        return not uid or self._chosen(uid)


class Ranged(Shards):
    """Replicas on a server that selects by this hash; None: it does not select."""

    def __init__(self, hashed: Hash | None) -> None:
        super().__init__(sharding=RANGES)
        if hashed is None:
            return
        config = self.server.config

        def selecting(**more: Any) -> ClientConfig:
            inner = config(**more)

            def make(_: ClientConfig, settings: Any, user_agent: str) -> Transport:
                return Selecting(inner.open(settings, user_agent), hashed)

            return ClientConfig.over(make, server=inner.server, namespace=inner.namespace)

        self.server.config = selecting  # type: ignore[method-assign]  # every client of the replicas goes through it


def primary(replica: Replica) -> Informer:
    return replica.manager.runner("configmap")._watches.primary


def cached(replica: Replica) -> set[str]:
    return {name for _, name in primary(replica).store.keys()}  # noqa: SIM118  # no dict


def owned(owners: dict[str, str], replica: str) -> set[str]:
    return {name for name, owner in owners.items() if owner == replica}


SERVERS = pytest.mark.parametrize("hashed", [by_our_hash, None], ids=["the server selects", "it sends everything"])


@SERVERS
async def test_a_replica_has_its_own_objects_alone_in_its_cache_also_after_a_join_a_death_and_a_stop(
    hashed: Hash | None,
) -> None:
    async with Ranged(hashed) as shards:
        await asyncio.gather(*(shards.start(name) for name in "abc"))
        await shards.objects(40)
        for step, names in ((None, "abc"), ("join", "abcd"), ("kill", "bcd"), ("stop", "cd")):
            if step == "join":
                await shards.start("d")
            elif step == "kill":
                shards.kill("a")
            elif step == "stop":
                await shards.stop("b")
            owners = await shards.settled(names)
            await asyncio.sleep(10)
            owners = await shards.stamps()
            for name in names:
                assert cached(shards.replicas[name]) == owned(owners, name)
                assert primary(shards.replicas[name]).narrowed == (hashed is not None)
            for name in owners:
                await shards.change(name, f"{step}")
            await asyncio.sleep(10)
            assert {await shards.copy(name) for name in owners} == {f"{step}"}
        assert shards.overlaps() == []


@SERVERS
async def test_an_object_that_is_reconciled_stays_in_the_cache_of_its_owner_until_that_has_ended(
    hashed: Hash | None,
) -> None:
    async with Ranged(hashed) as shards:
        await asyncio.gather(*(shards.start(name) for name in "ab"))
        await shards.objects(24)
        before = await shards.settled("ab")
        shards.blocked = {name: asyncio.Event() for name in before}
        blocked = dict(shards.blocked)
        for name in before:
            await shards.change(name, "2")
        await asyncio.sleep(1)
        await shards.start("c")
        await asyncio.sleep(20)
        assert await shards.stamps() == before
        for name in "ab":
            assert cached(shards.replicas[name]) >= owned(before, name)
        shards.blocked = {}
        for event in blocked.values():
            event.set()
        await shards.settled("abc")
        await asyncio.sleep(10)
        after = await shards.stamps()
        for name in "abc":
            assert cached(shards.replicas[name]) == owned(after, name)
        assert {await shards.copy(name) for name in after} == {"2"}
        assert shards.overlaps() == []


async def test_a_server_that_hashes_otherwise_is_noticed_and_no_object_is_missed() -> None:
    with structlog.testing.capture_logs() as lines:
        async with Ranged(by_another_hash) as shards:
            await asyncio.gather(*(shards.start(name) for name in "ab"))
            await shards.objects(20)
            await shards.settled("ab")
            await asyncio.sleep(10)
            owners = await shards.stamps()
            for name in "ab":
                assert cached(shards.replicas[name]) == owned(owners, name)
                assert not primary(shards.replicas[name]).narrowed
    said = [line for line in lines if "does not select objects by ranges" in line["event"]]
    assert {(line["log_level"], line["cause"]) for line in said} == {
        ("warning", "it sent an object that the selector does not cover, by our hash")
    }
    assert len(said) == 2, "once for each replica"


async def test_objects_that_come_by_a_selector_from_before_a_change_are_not_taken_for_those_of_another_hash() -> None:
    lower, upper = range(BUCKETS // 2), range(BUCKETS // 2, BUCKETS)
    flows = asyncio.Event()
    flows.set()
    async with ApiServer(random=Random(1), rbac=False, namespaces=(NAMESPACE,)) as server:

        def make(_: ClientConfig, settings: Any, user_agent: str) -> Transport:
            return Selecting(server.config().open(settings, user_agent), by_our_hash, flows=flows)

        async with (
            Client(server.config(), name="user", random=Random(2)) as user,
            Client(ClientConfig.over(make), name="test", random=Random(3)) as client,
            InformerSet(client, random=Random(4)) as informers,
        ):
            window = UidWindow()
            window.open(lower)
            informer = informers.acquire(Selection(CONFIG_MAP, NAMESPACE, window=window))
            await informer.wait_synced()
            await asyncio.sleep(2)
            flows.clear()
            for number in range(20):
                await user.create(CONFIG_MAP.new(f"source-{number}", NAMESPACE))
            await asyncio.sleep(2)
            # Events of the lower half wait to be read in the very turn of the loop in which the window changes.
            flows.set()
            window.open(upper)
            await asyncio.sleep(5)
            found = await user.list(CONFIG_MAP, NAMESPACE)
            wanted = {one.name for one in found if bucket_of(one.metadata.uid) in upper}
            assert {name for _, name in informer.store.keys()} == wanted  # noqa: SIM118  # no dict
            assert informer.narrowed


async def test_a_replica_without_a_part_keeps_no_object_and_does_not_take_the_server_for_one_of_another_hash() -> None:
    async with ApiServer(random=Random(1), rbac=False, namespaces=(NAMESPACE,)) as server:

        def make(_: ClientConfig, settings: Any, user_agent: str) -> Transport:
            return Selecting(server.config().open(settings, user_agent), by_our_hash)

        async with (
            Client(server.config(), name="user", random=Random(2)) as user,
            Client(ClientConfig.over(make), name="test", random=Random(3)) as client,
            InformerSet(client, random=Random(4)) as informers,
        ):
            buckets = set[int]()
            for number in itertools.count():  # a selector selects something: without a part it is the first one
                made = await user.create(CONFIG_MAP.new(f"source-{number}", NAMESPACE))
                buckets.add(bucket_of(made.metadata.uid))
                if 0 in buckets:
                    break
            window = UidWindow()
            informer = informers.acquire(Selection(CONFIG_MAP, NAMESPACE, window=window))
            await informer.wait_synced()
            await user.patch(CONFIG_MAP, f"source-{number}", NAMESPACE, patch={"data": {"key": "value"}}, style="merge")
            await asyncio.sleep(5)
            assert list(informer.store.keys()) == []
            assert informer.narrowed


async def test_a_server_that_refuses_the_selector_is_asked_for_everything() -> None:
    async with Ranged(None) as shards:

        def refused(request: Request) -> float:
            if "shardSelector" in dict(request.params):
                raise kv.errors.ServerFailure("invalid shard selector: not of this version")
            return 0.0

        shards.delays.update(dict.fromkeys("ab", refused))
        await asyncio.gather(*(shards.start(name) for name in "ab"))
        await shards.objects(20)
        await shards.settled("ab")
        await asyncio.sleep(10)
        owners = await shards.stamps()
        for name in "ab":
            assert cached(shards.replicas[name]) == owned(owners, name)


async def test_at_rest_no_list_and_no_write_follows() -> None:
    async with Ranged(by_our_hash) as shards:
        await asyncio.gather(*(shards.start(name) for name in "ab"))
        await shards.objects(20)
        await shards.settled("ab")
        await asyncio.sleep(30)
        lists = {name: primary(shards.replicas[name]).statistics().lists for name in "ab"}
        claims = len(shards.claims)
        await asyncio.sleep(3600)
        assert {name: primary(shards.replicas[name]).statistics().lists for name in "ab"} == lists
        assert len(shards.claims) == claims


async def test_a_controller_with_the_default_key_watches_all_objects_and_shares_them_all_the_same() -> None:
    class Families(Ranged):
        def _add(self, manager: kv.Manager) -> None:
            super()._add(manager)
            (spec,) = manager.controllers
            manager._specs[spec.name] = spec.sharded()

    async with Families(by_our_hash) as shards:
        await asyncio.gather(*(shards.start(name) for name in "ab"))
        await shards.objects(20)
        owners = await shards.settled("ab")
        await shards.all_run_by(owners, since=0.0, within=20.0)
        for name in "ab":
            assert cached(shards.replicas[name]) == set(owners)
        assert shards.overlaps() == []


def test_ranges_in_another_mode_are_refused() -> None:
    for mode in ("ordinal", "coordinator"):
        with pytest.raises(kv.errors.UsageError, match=f"ranges belong to mode=hash, and mode is {mode}"):
            ShardingSettings(mode=mode, ranges=True, namespace=NAMESPACE)
