"""The quota family on a real control plane: its world, the tables that kubectl prints, and every stored state, in order.

`Plane` is `Quotas` on a plane that the tests of a session share: at its start it removes other tests' pools and claims, and at its end its
own, while the family still runs. `History` keeps every event of ResourceQuotas, pods and one pool. Versions of etcd are a single counter
for all objects, so the three streams sorted by version have the order of the writes, and the rule of
docs/reference/capsule.md#shrink-first-credit-later is checked after each of them.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import msgspec
from quota.lab import CPU, POD, TENANT, Quotas

from konverge.client import Client, WatchQuery
from konverge.crds import crd
from konverge.crds.quota_v1beta2 import ResourcePool, ResourcePoolClaim
from konverge.errors import AlreadyExists, Conflict, Forbidden
from konverge.kinds import kind
from konverge.objects import Object
from konverge.quantities import Quantity
from konverge.reconcilers.quota.kinds import NAMESPACE, RESOURCE_QUOTA
from konverge_testing import ControlPlane, Lab, install_crds

_ACCOUNT = kind("v1", "ServiceAccount")
_COLUMN = re.compile(r"\S+\s*")
_LOOK = 0.1
_PATIENCE = 90.0


# --- output of kubectl -----------------------------------------------------------------------------------------------------------


def cells(printed: str) -> list[dict[str, str]]:
    """Read a table: a dict of each line, by column; without AGE, which is never the same."""
    if not printed.strip():
        return []  # nothing was found yet
    head, *lines = [line for line in printed.splitlines() if line.strip()]
    columns = [(found.group().strip(), found.start(), found.end()) for found in _COLUMN.finditer(head)]
    last = columns[-1][0]
    return [
        {name: line[start : None if name == last else end].strip() for name, start, end in columns if name != "AGE"}
        for line in lines
    ]


def printed_like(rows: list[dict[str, str]]) -> Callable[[list[dict[str, str]]], bool]:
    """Return whether a table has these rows, whatever its order and its columns' order."""

    def same(found: list[dict[str, str]]) -> bool:
        return sorted(map(sorted, (row.items() for row in found))) == sorted(map(sorted, (row.items() for row in rows)))

    return same


# --- the world -------------------------------------------------------------------------------------------------------------------


def pod(name: str, namespace: str, requests: Mapping[str, str], limits: Mapping[str, str] | None = None) -> Any:
    """Return a pod with these requests."""
    resources: dict[str, Any] = {"requests": dict(requests)} | ({"limits": dict(limits)} if limits else {})
    container = {"name": "c", "image": "registry.example.com/c:1", "resources": resources}
    return POD.new(name, namespace, spec={"containers": [container], "automountServiceAccountToken": False})


class Plane(Quotas):
    """A lab on a real control plane, with unprefixed names of namespaces: the names in the tables of Capsule's page."""

    def __init__(self, lab: Lab, plane: ControlPlane) -> None:
        super().__init__(lab)
        self.plane = plane
        self._named: set[str] = set()
        self._made: list[str] = []

    def ns(self, name: str) -> str:
        return name if name in self._named else super().ns(name)

    async def named(self, *names: str, tenant: str) -> None:
        """Create namespaces with exactly these names, of exactly this tenant; they stay until the plane ends."""
        for name in names:
            self._named.add(name)
            try:
                await self.lab.client.create(NAMESPACE.new(name, labels={TENANT: tenant}))
            except AlreadyExists:
                labels = {"metadata": {"labels": {TENANT: tenant}}}
                await self.lab.client.patch(NAMESPACE, name, patch=labels, style="merge")
            await self._has_account(name)

    async def namespace(self, name: str, tenant: str = "solar") -> None:
        await super().namespace(name, tenant)
        self._made.append(self.ns(name))
        await self._has_account(self.ns(name))

    async def without(self, *names: str) -> None:
        """Remove namespaces that other tests left, or that were created without `named`, and wait for their deletion."""
        for name in names:
            await self.lab.client.delete(NAMESPACE, name)
        async with asyncio.timeout(_PATIENCE):
            while {found.name for found in await self.lab.client.list(NAMESPACE)} & {*names}:
                await asyncio.sleep(_LOOK)

    async def _has_account(self, namespace: str) -> None:
        """Wait for the default account: without it no pod is admitted."""
        async with asyncio.timeout(_PATIENCE):
            while "default" not in {account.name for account in await self.lab.client.list(_ACCOUNT, namespace)}:
                await asyncio.sleep(_LOOK)

    async def kubectl(self, *words: str, stdin: str | None = None) -> str:
        return await self.plane.kubectl(*words, stdin=stdin)

    async def apply(self, text: str) -> str:
        return await self.kubectl("apply", "-f", "-", stdin=text)

    async def shows(self, expected: str, *words: str, within: str = "") -> None:
        """Wait until kubectl prints this table, cell by cell; `within`: only rows of this NAMESPACE count."""
        wanted = cells(expected)
        found: list[dict[str, str]] = []
        try:
            async with asyncio.timeout(_PATIENCE):
                while True:
                    found = cells(await self.kubectl("get", *words))
                    found = [row for row in found if not within or row["NAMESPACE"] == within]
                    if printed_like(wanted)(found):
                        return
                    await asyncio.sleep(_LOOK)
        except TimeoutError:
            raise AssertionError(f"kubectl get {' '.join(words)}\nprints {found}\nwanted {wanted}") from None

    async def quota(self, where: str, pool: str = "p") -> Object:
        """Return the ResourceQuota of a pool in a namespace, as it is now."""
        return await self.lab.client.get(RESOURCE_QUOTA, f"capsule-pool-{pool}", self.ns(where))

    async def start_pod(self, where: str, name: str, requests: Mapping[str, str]) -> bool:
        """Start a pod; returns whether the quota admitted it. Raises for any other rejection.

        Quota admission gives up after a few conflicts with the quota controller, and its users try again.
        """
        while True:
            try:
                await self.lab.client.create(pod(name, self.ns(where), requests))
            except Conflict as conflict:
                if "resourcequotas" not in conflict.message:
                    raise
                await asyncio.sleep(_LOOK)
            except Forbidden as refusal:
                if "exceeded quota" not in refusal.message:
                    raise
                return False
            else:
                return True

    async def end_pod(self, where: str, name: str) -> None:
        await self.lab.client.delete(POD, name, self.ns(where))

    def passed(self) -> dict[str, float]:
        """Return the number of reconciles of each controller of the family, from its metrics."""
        registry = self.lab.metrics.registry
        found = (sample for family in registry.collect() for sample in family.samples)
        passes: dict[str, float] = {}
        for sample in found:
            if sample.name == "controller_runtime_reconcile_total":
                controller = sample.labels["controller"]
                passes[controller] = passes.get(controller, 0) + sample.value
        return passes

    async def end(self) -> None:
        """Remove all objects; claims first, so that pools have nothing to release."""
        client = self.lab.client
        for namespace in (*self._made, *self._named):
            for claim in await client.list(ResourcePoolClaim, namespace):
                await client.delete(ResourcePoolClaim, claim.name, namespace)
            for found in await client.list(POD, namespace):
                await client.delete(POD, found.name, namespace)
        await self.wiped()
        for namespace in self._made:
            await client.delete(NAMESPACE, namespace)

    async def wiped(self) -> None:
        """Remove every pool; without a running family, its finalizer is removed here."""
        client = self.lab.client
        for pool in await client.list(ResourcePool):
            await client.delete(ResourcePool, pool.name)
        for _ in range(50):
            if not (await client.list(ResourcePool)).items:
                return
            await asyncio.sleep(_LOOK)
        for pool in await client.list(ResourcePool):
            await client.patch(ResourcePool, pool.name, patch={"metadata": {"finalizers": None}}, style="merge")


@asynccontextmanager
async def open_plane(lab: Lab, plane: ControlPlane) -> AsyncIterator[Plane]:
    """Begin with no pool and no claim, whatever other tests left, and end with none."""
    await install_crds(lab.client, [crd(ResourcePool), crd(ResourcePoolClaim)])
    here = Plane(lab, plane)
    await here.wiped()
    for claim in await lab.client.list(ResourcePoolClaim):
        await lab.client.delete(ResourcePoolClaim, claim.name, claim.namespace)
    try:
        yield here
    finally:
        await here.end()


# --- everything that was stored --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stored:
    """An object after one write; `data` is None if the write deleted it."""

    version: int
    kind: str
    path: tuple[str, str]
    data: dict[str, Any] | None


@dataclass(slots=True)
class _World:
    """The stored objects at one moment."""

    pool: dict[str, Any] | None = None
    quotas: dict[str, dict[str, Any]] = field(default_factory=dict)
    pods: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)

    def take(self, event: Stored) -> None:
        if event.kind == "ResourcePool":
            self.pool = event.data
            return
        into: dict[Any, Any] = self.quotas if event.kind == "ResourceQuota" else self.pods
        key: Any = event.path[0] if event.kind == "ResourceQuota" else event.path
        if event.data is None:
            into.pop(key, None)
        else:
            into[key] = event.data

    def hard(self) -> dict[str, int]:
        return _billionths(self.pool["spec"]["quota"].get("hard")) if self.pool else {}

    def held(self) -> dict[str, int]:
        """Return the held amount of each resource (docs/reference/capsule.md#shrink-first-credit-later), of a pool whose defaults are zero."""
        assert self.pool is not None
        status = self.pool.get("status") or {}
        listed, releasing = status.get("claims") or {}, status.get("releasing") or {}
        total = dict.fromkeys(self.hard(), 0)
        for namespace in {*self.quotas, *listed, *releasing}:
            quota = self.quotas.get(namespace) or {}
            spec, seen = quota.get("spec") or {}, quota.get("status") or {}
            claims = [_billionths(entry.get("claims")) for entry in listed.get(namespace) or ()]
            parts = [_billionths(spec.get("hard")), _billionths(seen.get("hard"))]
            back, used = _billionths(releasing.get(namespace)), _billionths(seen.get("used"))
            for name in total:
                total[name] += max(
                    sum(claim.get(name, 0) for claim in claims),
                    *(part.get(name, 0) for part in parts),
                    min(back.get(name, 0), used.get(name, 0)),
                )
        return total

    def running(self, namespaces: set[str]) -> dict[str, int]:
        """Return the requests of pods in these namespaces."""
        total = {CPU: 0, "pods": 0}
        for (namespace, _), found in self.pods.items():
            if namespace in namespaces:
                total["pods"] += 10**9
                for container in found["spec"]["containers"]:
                    total[CPU] += _billionths(container["resources"].get("requests")).get("cpu", 0)
        return total


def _billionths(values: Mapping[str, Any] | None) -> dict[str, int]:
    return {name: Quantity.parse(value).billionths for name, value in (values or {}).items()}


class History:
    """Every write to one pool, its ResourceQuotas, and the pods of the namespaces that it ever served."""

    def __init__(self, client: Client, pool: str = "p") -> None:
        self._client = client
        self._pool = pool
        self.events: list[Stored] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._since = 0
        self._followed: tuple[tuple[Any, str], ...] = (
            (ResourcePool, pool),
            (RESOURCE_QUOTA, f"capsule-pool-{pool}"),
            (POD, ""),
        )

    async def __aenter__(self) -> Self:
        for what, name in self._followed:
            version = (await self._client.list(what)).resource_version
            self._since = max(self._since, int(version))
            self._tasks.append(asyncio.create_task(self._follow(what, name, version)))
        return self

    async def __aexit__(
        self, kind_: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _follow(self, what: Any, name: str, version: str) -> None:
        info = await self._client.resource(what)
        fields = f"metadata.name={name}" if name else ""
        wanted = WatchQuery(fields=fields, resource_version=version, timeout_seconds=600, idle_seconds=120)
        async with self._client.watch(info, wanted) as stream:
            async for events in stream:
                for event in events:
                    data = msgspec.json.decode(event.object)
                    assert event.type != "ERROR", data
                    if event.type != "BOOKMARK":
                        self._note(info.kind, event.type, data)

    def _note(self, kind_: str, type_: str, data: dict[str, Any]) -> None:
        metadata = data["metadata"]
        path = (metadata.get("namespace", ""), metadata["name"])
        stored = None if type_ == "DELETED" else data
        self.events.append(Stored(int(metadata["resourceVersion"]), kind_, path, stored))

    async def _complete(self) -> None:
        """Wait until the watch has caught up with the stored objects that changed since the start: other tests have pods of their own."""
        async with asyncio.timeout(_PATIENCE):
            for what, name in self._followed:
                for task in self._tasks:
                    if task.done():
                        task.result()
                while True:
                    stored = {
                        (found.namespace, found.name): found.metadata.resource_version
                        for found in await self._client.list(what)
                        if (found.name == name or not name) and int(found.metadata.resource_version) > self._since
                    }
                    if all(self._last(path, version) for path, version in stored.items()):
                        break
                    await asyncio.sleep(_LOOK)

    def _last(self, path: tuple[str, str], version: str) -> bool:
        return any(event.path == path and event.version >= int(version) for event in self.events)

    async def check(self) -> int:
        """Replay all writes; returns the number of states. Fails if a state holds more than the pool has.

        An object that existed at the start is counted from its next change on.
        """
        await self._complete()
        world, before, states = _World(), dict[str, int](), 0
        served: set[str] = set()
        for event in sorted(self.events, key=lambda event: event.version):
            world.take(event)
            served |= {*world.quotas}
            if world.pool is None:
                continue
            states += 1
            hard, held, running = world.hard(), world.held(), world.running(served)
            where = f"after {event.kind} {'/'.join(event.path)} at {event.version}"
            for name, amount in held.items():
                limit = max(hard[name], before.get(name, 0))
                assert amount <= limit, f"{where} {amount / 10**9:g} of {name} are held, of {limit / 10**9:g}"
                assert running.get(name, 0) <= hard[name], f"{where} pods use {running[name] / 10**9:g} of {name}"
            before = held
        return states
