"""The quota family at its size: 1,000 namespaces and 5,000 claims in one pool, on the server in memory and in the bare allocator.

Server, controllers and client are one process on a loop whose time is virtual, so figures are CPU time; rows that include the server's CPU
are marked. The bare allocator is pure. Writes are counted when they are sent, at the gate of the lab; reconciles by the controller's own
metric.
Targets are defined in docs/reference/capsule.md#rows (X18, X29) and docs/reference/capsule.md#allocation; other rows have no target.
"""

import asyncio
import gc
import resource
from collections.abc import Awaitable, Callable
from typing import Final

from harness import Part, World, in_batches, total, turns, virtual
from msgspec.structs import replace
from rows import QUICK, Row, row

from konverge import quantities
from konverge.clock import cpu_time
from konverge.crds import crd
from konverge.crds.quota_v1beta2 import ResourcePool, ResourcePoolClaim
from konverge.keys import Key
from konverge.kinds import kind, kind_of
from konverge.objects import Object
from konverge.reconcilers.quota import Settings as QuotaSettings
from konverge.reconcilers.quota import install
from konverge.reconcilers.quota.kinds import NAMESPACE
from konverge.reconcilers.quota.pools.allocate import PoolAllocation, allocate
from konverge.reconcilers.quota.pools.decide import plan_writes, record_of
from konverge.reconcilers.quota.pools.observe import PoolObservation
from konverge.reconcilers.quota.pools.render import defaults_of, pool_status
from konverge.reconcilers.quota.views import ClaimView, PoolView, QuotaView, claim_hashes
from konverge.runtime import ManagerSettings
from konverge_testing import Lab
from konverge_testing.lab import install_crds

NAMESPACES: Final = 50 if QUICK else 1000
CLAIMS: Final = 250 if QUICK else 5000
PODS: Final = 50 if QUICK else 500
ROUNDS: Final = 3 if QUICK else 10
BYTES: Final = 1_500_000
POD: Final = kind("v1", "Pod", namespaced=True, plural="pods")
AMOUNTS: Final = {"limits.cpu": "200m", "limits.memory": "256Mi", "requests.cpu": "100m", "requests.memory": "128Mi"}
SIZE: Final = f"{NAMESPACES:,} namespaces, {CLAIMS:,} claims of {len(AMOUNTS)} resources in one pool"


def run() -> list[Row]:
    """Measure everything and return one row per figure."""
    rows = alone()
    gc.collect()
    return [*rows, *virtual(_served), *virtual(_crowded)]


def place(number: int) -> str:
    """Return the name of a namespace."""
    return f"tenant-{number:04}"


def hard(claims: int) -> dict[str, str]:
    """Return what a pool must have for so many claims, and for a few more."""
    count = claims + 100
    return {
        "limits.cpu": f"{200 * count}m",
        "limits.memory": f"{256 * count}Mi",
        "requests.cpu": f"{100 * count}m",
        "requests.memory": f"{128 * count}Mi",
    }


# --- the bare allocator ----------------------------------------------------------------------------------------------------------


def alone() -> list[Row]:
    """Measure the pure part: from scratch, with nothing to do, and where most claims wait."""
    how = f"pure, {SIZE}; best of {ROUNDS}"
    empty = _seen(hard(CLAIMS))
    first = allocate(empty)
    settled = _after(empty, first)
    assert allocate(settled).claims == first.claims
    assert not plan_writes(settled, allocate(settled)).applies
    half = _seen(hard(CLAIMS // 2))
    ordered = replace(half, pool=PoolView(name="p", uid="p-1", hard=half.pool.hard, zero=True, ordered=True))

    def written() -> object:
        return pool_status(empty.pool, first, tuple(sorted(empty.selected))).wire()

    return [
        row("allocator: from scratch", _best(lambda: allocate(empty)), "ms", how),
        row("allocator: settled, nothing to do", _best(lambda: allocate(settled)), "ms", how),
        row("allocator: half of the claims wait", _best(lambda: allocate(half)), "ms", how),
        row("allocator: half of the claims wait in order", _best(lambda: allocate(ordered)), "ms", how),
        row("steps: what is still to be written", _best(lambda: plan_writes(settled, first)), "ms", how),
        row("status of the pool, rendered", _best(written), "ms", how),
    ]


def _seen(amounts: dict[str, str]) -> PoolObservation:
    claims = tuple(
        ClaimView(
            namespace=place(number % NAMESPACES),
            name=f"claim-{number // NAMESPACES}",
            uid=f"00000000-0000-4000-8000-{number:012}",
            created=f"2026-01-01T00:{number // 60 % 60:02}:{number % 60:02}Z",
            pool="p",
            amounts={name: amount.billionths for name, amount in quantities.read(AMOUNTS).items()},
        )
        for number in range(CLAIMS)
    )
    pool = PoolView(name="p", uid="p-1", hard=quantities.read(amounts), zero=True)
    return PoolObservation(pool=pool, selected=frozenset(place(number) for number in range(NAMESPACES)), claims=claims)


def _after(seen: PoolObservation, done: PoolAllocation) -> PoolObservation:
    """Return the observation of the next reconcile: everything was written, and the quota controller has followed."""
    quotas = {
        namespace: QuotaView(
            hard=amounts,
            status_hard=amounts,
            used=dict.fromkeys(amounts, 0),
            claims=claim_hashes(done.claims.get(namespace, ())),
            defaults=defaults_of(seen.pool),
        )
        for namespace, amounts in done.quotas.items()
        if amounts is not None
    }
    return replace(seen, recorded=record_of(done), quotas=quotas)


def _best(work: Callable[[], object]) -> float:
    times = []
    for _ in range(ROUNDS):
        began = cpu_time()
        work()
        times.append(cpu_time() - began)
    return min(times) * 1000


# --- with the server -------------------------------------------------------------------------------------------------------------


class QuotaWorld(World):
    """A lab with the family."""

    controller = "resourcepool"

    def __init__(self, lab: Lab, settings: QuotaSettings | None = None) -> None:
        super().__init__(lab)
        self.settings = settings or QuotaSettings()

    async def filled(self, namespaces: int, claims: int) -> None:
        """Create namespaces and claims before any controller runs, then run the family and create the pool."""
        client = self.lab.client
        await install_crds(client, [crd(ResourcePool), crd(ResourcePoolClaim)])
        await in_batches(
            client.create(NAMESPACE.new(place(number), labels={"tenant": "t"})) for number in range(namespaces)
        )
        await in_batches(self.claim(number % namespaces, f"claim-{number // namespaces}") for number in range(claims))
        await self.lab.start(
            lambda manager: install(manager, self.settings),
            name="konverge",
            settings=ManagerSettings(namespace=None, strict=True),
            crds=False,
        )
        await self.quiet()

    async def pool(self, claims: int) -> None:
        spec = {
            "quota": {"hard": hard(claims)},
            "selectors": [{"matchLabels": {"tenant": "t"}}],
            "config": {"defaultsZero": True},
        }
        await self.lab.client.create(ResourcePool.decode({"metadata": {"name": "p"}, "spec": spec}))

    async def claim(self, number: int, name: str) -> None:
        spec = {"pool": "p", "claim": AMOUNTS}
        data = {"metadata": {"name": name, "namespace": place(number)}, "spec": spec}
        await self.lab.client.create(ResourcePoolClaim.decode(data))

    async def during(self, part: str, how: str, work: Callable[[], Awaitable[object]]) -> Part:
        """Run a change until the lab is settled."""
        await self.quiet()
        measured = Part(self, part, how)
        await work()
        await self.quiet()
        measured.stop()
        return measured


async def _served() -> list[Row]:
    how = f"{SIZE}; server in memory in the same process"
    async with QuotaWorld.open() as world:
        lab = world.lab
        await world.filled(NAMESPACES, CLAIMS - 1)
        part = await world.during("from scratch", how, lambda: world.pool(CLAIMS))
        pool = await lab.client.get(ResourcePool, "p")
        assert pool.status.claim_count == CLAIMS - 1, pool.status.claim_count
        part.add("CPU", part.cpu, "s", remark="the server's work counts in full")
        part.add("reconciles", part.reconciles, "reconciles")
        part.add_writes("ResourceQuota writes", "resourcequotas", "writes", NAMESPACES)
        part.add_writes("claim status writes", "resourcepoolclaims/status", "writes", CLAIMS - 1)
        part.add_writes("pool status writes", "resourcepools/status", "writes")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        rows = [*part, _stored(world), row("peak memory of the process", peak, "MiB", how)]
        rows += await _one_claim(world, how)
        rows += await _settled(world, how)
        return rows


def _stored(world: QuotaWorld) -> Row:
    entry = world.lab.server.store.get(("capsule.clastix.io", "resourcepools"), "", "p")
    assert entry is not None
    return row("the pool as it is stored", len(entry.raw), "bytes", f"{SIZE}; JSON with managedFields", f"<= {BYTES}")


async def _one_claim(world: QuotaWorld, how: str) -> list[Row]:
    with turns("konverge worker") as costs:
        part = await world.during("one claim", how, lambda: world.claim(7, "another"))
    part.add(
        "longest turn", 1000 * max(costs), "ms", "<= 25", remark="CPU of a worker's turn, without the server's part"
    )
    part.add_writes("ResourceQuota writes", "resourcequotas", "writes", 1)
    part.add_writes("claim status writes", "resourcepoolclaims/status", "writes", 1)
    part.add_writes("pool status writes", "resourcepools/status", "writes", 1)
    part.add_writes("Events", "events", "writes", 1)
    part.add_writes("all writes", "", "writes", 4)
    part.add("bytes of the pool status write", world.bytes["resourcepools/status"], "bytes", f"<= {BYTES}")
    part.add("bytes of all writes", sum(world.bytes.values()), "bytes")
    part.add("reconciles", part.reconciles, "reconciles")
    part.add("CPU", 1000 * part.cpu, "ms", remark="the server's work counts in full")
    return part


async def _settled(world: QuotaWorld, how: str) -> list[Row]:
    runner = world.lab.manager.runner("resourcepool")
    costs, longest = [], []
    await world.quiet()
    world.clear()
    for _ in range(ROUNDS):
        gc.collect()
        passes, began, hold = world.reconciles(world.controller), cpu_time(), 0.0
        runner.enqueue(Key("", kind_of(ResourcePool), "", "p"))
        while (
            world.reconciles(world.controller) == passes
        ):  # checks once per iteration of the loop; other callbacks delay it
            at = cpu_time()
            await asyncio.sleep(0)
            hold = max(hold, cpu_time() - at)
        costs.append((cpu_time() - began) * 1000)
        longest.append(hold * 1000)
        await world.lab.settled(quiet=1, timeout=3600)
    writes = sum(world.writes.values())

    async def lives() -> None:
        for first in range(0, PODS, NAMESPACES):
            numbers = range(first, min(first + NAMESPACES, PODS))
            await in_batches(world.lab.client.create(_pod(number)) for number in numbers)
            await world.lab.settled(quiet=1, timeout=3600)
            await in_batches(world.lab.client.delete(POD, "p", place(number % NAMESPACES)) for number in numbers)
            await world.lab.settled(quiet=1, timeout=3600)

    before = _versions(world)
    pods = await world.during(f"{PODS} pods come and go", how, lives)
    changed = sum(before[key] != version for key, version in _versions(world).items())
    assert changed == min(PODS, NAMESPACES), changed
    pods.add("reconciles", pods.reconciles, "reconciles", 0, remark=f"{2 * PODS} changes of status.used")
    pods.add_writes("writes", "", "writes", 0)
    best = f"{how}; best of {ROUNDS}"
    return [
        row("a pass with nothing to do: CPU", min(costs), "ms", best),
        row("a pass with nothing to do: longest hold of the loop", min(longest), "ms", best),
        row("a reconcile with nothing to do: writes", writes, "writes", f"{how}; {ROUNDS} reconciles", 0),
        *pods,
    ]


def _pod(number: int) -> Object:
    amounts = {"cpu": "100m", "memory": "128Mi"}
    resources = {"requests": amounts, "limits": amounts}
    container = {"name": "c", "image": "registry.example.com/c:1", "resources": resources}
    return POD.new("p", place(number % NAMESPACES), spec={"containers": [container]})


def _versions(world: QuotaWorld) -> dict[str, str]:
    results = world.lab.server.store.list(("", "resourcequotas"))
    return {entry.object()["metadata"]["namespace"]: entry.object()["metadata"]["resourceVersion"] for entry in results}


# --- beyond the ceiling ----------------------------------------------------------------------------------------------------------


async def _crowded() -> list[Row]:
    """More claims than one pool may list: a condition reports it, and the server rejects nothing."""
    namespaces, ceiling, claims = 10, CLAIMS // 10, CLAIMS // 10 + 50
    how = f"{claims} claims, max_claims {ceiling}"
    async with QuotaWorld.open(QuotaSettings(max_claims=ceiling)) as world:
        lab = world.lab
        await world.filled(namespaces, claims)
        await world.pool(claims)
        await world.quiet()
        pool = await lab.client.get(ResourcePool, "p")
        ready = pool.condition("Ready")
        assert (ready.status, ready.reason) == ("False", "TooManyClaims"), ready
        results = [claim.status.condition for claim in await lab.client.list(ResourcePoolClaim)]
        told = sum(item is not None and item.reason == "TooManyClaims" for item in results)
        errors = total(lab.metrics.reconcile_errors)
        return [
            row("beyond the ceiling: claims that are listed", pool.status.claim_count, "claims", how, ceiling),
            row("beyond the ceiling: claims that are told so", told, "claims", how, claims - ceiling),
            row("beyond the ceiling: passes that failed", errors, "passes", how, 0),
        ]
