"""A writer of an object can forge its stamp: that object waits; no other object does, and nothing grows without end."""

import asyncio
from typing import Any

import pytest
import structlog
from replicas import NAMESPACE
from shards import COORDINATOR, DRAIN_MARK, HASH, LABEL, STAMP, Shards
from widgets import CONFIG_MAP

from konverge.client.requests import Request
from konverge.runtime.sharding.settings import ShardingSettings
from konverge.runtime.sharding.stamp import member_name

ATTACKED = "source-0"
BOUND = 35.0 + 5.0
"""Seconds in which a forged object is owned again: as after a death, and one pause between two lists of the Leases."""
DEATH = 35.0
"""Seconds in which the objects of a dead replica are owned by others."""


def forged(number: int) -> str:
    """The stamp of a member that never existed."""
    return f"{member_name('operator', f'forged-{number % 7}', number)}/1"


class Requests:
    """The requests of the replicas, by method and path."""

    def __init__(self, shards: Shards, *replicas: str) -> None:
        self.sent: list[tuple[float, str, str, str]] = []
        for replica in replicas:
            shards.delays[replica] = self._recorder(replica)

    def _recorder(self, replica: str) -> Any:
        def record(request: Request) -> float:
            self.sent.append((asyncio.get_running_loop().time(), replica, request.method, request.path))
            return 0.0

        return record

    def count(self, method: str, end: str) -> int:
        return sum(sent == method and path.endswith(end) for _, _, sent, path in self.sent)


async def settled_ring(shards: Shards, *names: str) -> dict[str, str]:
    await asyncio.gather(*(shards.start(name) for name in names))
    await shards.objects(12)
    return await shards.settled(names)


def signs(shards: Shards) -> list[float]:
    """How often each replica saw the ring change, and how many members each knows."""
    registries = [replica.metrics.registry for replica in shards.replicas.values()]
    families = [family for registry in registries for family in registry.collect()]
    names = {"konverge_shard_ring_generation", "konverge_shard_members"}
    return [sample.value for family in families for sample in family.samples if sample.name in names]


@pytest.mark.parametrize(
    ("stamp", "pause"),
    [
        pytest.param(forged, 0.2, id="new names of the right form"),
        pytest.param(lambda number: f"forged-{number:06x}/1", 0.2, id="new names of another form"),
        pytest.param(lambda number: forged(1) if number % 2 else None, 0.2, id="one name, and none"),
        pytest.param(lambda number: f"/{number + 1}", 0.2, id="acknowledgements"),
        pytest.param(lambda number: "x" * 200_000, 2.0, id="long values"),
    ],
)
async def test_endlessly_forged_stamp_costs_bounded_requests_and_log_lines(
    mode: ShardingSettings, stamp: Any, pause: float
) -> None:
    with structlog.testing.capture_logs() as lines:
        async with Shards(sharding=mode) as shards:
            owners = await settled_ring(shards, "a", "b")
            await asyncio.sleep(60)
            requests, claims = Requests(shards, "a", "b"), len(shards.claims)
            before = signs(shards)
            runs = len(shards.spans)
            changes = 600 if pause < 1 else 60
            for number in range(changes):
                await shards.stamp(ATTACKED, stamp(number))
                await asyncio.sleep(pause)
            minutes = 2
            assert requests.count("GET", "/leases") <= 2 * minutes * 60 / HASH.retry_seconds
            written = [name for name, _ in shards.claims[claims:]]
            assert set(written) <= {ATTACKED}
            assert len(written) <= minutes * 60 / HASH.lease_seconds + 10
            assert len(shards.spans) - runs <= 3 * (len(written) + 3)
            warnings = [
                line for line in lines if line["log_level"] == "warning" and line.get("key") == f"lab/{ATTACKED}"
            ]
            assert len(warnings) <= 2
            assert signs(shards) == before
            await asyncio.sleep(BOUND)
            assert await shards.stamps() == owners


@pytest.mark.parametrize("name", ["live", "own", "unknown", "odd", "none", "acknowledged", "future"])
async def test_forged_object_has_its_owner_again_in_bounded_time_others_unaffected(
    mode: ShardingSettings, name: str
) -> None:
    async with Shards(sharding=mode) as shards:
        owners = await settled_ring(shards, "a", "b")
        stamps = {one.name: one.metadata.annotation(STAMP) for one in await shards.client.list(CONFIG_MAP, NAMESPACE)}
        other = next(stamps[one] for one in owners if owners[one] != owners[ATTACKED])
        own = stamps[ATTACKED].rpartition("/")[0]
        stamp = {
            "live": other,
            "own": f"{own}/1",
            "unknown": forged(1),
            "odd": "nobody/1",
            "none": None,
            "acknowledged": "/1",
            "future": f"{own}/999999999999999999",
        }[name]
        await asyncio.sleep(5)
        began = asyncio.get_running_loop().time()
        for _ in range(5):
            await shards.stamp(ATTACKED, stamp)
            await asyncio.sleep(0.5)
        for replica in tuple(shards.replicas):  # the owner dies as well, so that its successor meets the forged stamp
            if replica == owners[ATTACKED]:
                shards.kill(replica)
                await shards.stamp(ATTACKED, stamp)
        await asyncio.sleep(DEATH + BOUND)
        survivor = next(iter({"a", "b"} - {owners[ATTACKED]}))
        assert set((await shards.stamps()).values()) == {survivor}
        await shards.change(ATTACKED, "2")
        await asyncio.sleep(2)
        assert [span.replica for span in shards.spans if span.name == ATTACKED and span.began > began][-1] == survivor


@pytest.mark.parametrize("forgery", ["label", "mark", "both"])
async def test_endlessly_forged_label_costs_a_bounded_number_of_writes(forgery: str) -> None:
    async with Shards(sharding=COORDINATOR) as shards:
        owners = await settled_ring(shards, "a", "b")
        await asyncio.sleep(60)
        requests = Requests(shards, "a", "b")
        for number in range(600):
            change: dict[str, Any] = {}
            if forgery != "mark":
                change["labels"] = {LABEL: f"forged-{number}"}
            if forgery != "label":
                change["annotations"] = {DRAIN_MARK: f"forged-{number}"}
            await shards.client.patch(CONFIG_MAP, ATTACKED, NAMESPACE, patch={"metadata": change}, style="merge")
            await asyncio.sleep(0.2)
        assert requests.count("PATCH", f"/configmaps/{ATTACKED}") <= 2 * (2 * 60 / HASH.lease_seconds + 10)
        assert requests.count("GET", "/leases") <= 2 * 2 * 60 / HASH.retry_seconds
        assert {path for _, _, method, path in requests.sent if method == "PATCH" and "configmaps" in path} <= {
            f"/api/v1/namespaces/{NAMESPACE}/configmaps/{ATTACKED}"
        }
        await asyncio.sleep(BOUND)
        assert await shards.stamps() == owners
