"""A lab that runs the quota family, with waits for the expected state of pools, claims and ResourceQuotas."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import yaml
from quota.oracle import check_ledgers

from konverge.crds.quota_v1beta2 import ResourcePool, ResourcePoolClaim
from konverge.errors import AlreadyExists, Invalid, NotFound
from konverge.kinds import Kind, kind
from konverge.objects import Object
from konverge.quantities import Quantity
from konverge.reconcilers.quota import Settings as QuotaSettings
from konverge.reconcilers.quota import install
from konverge.reconcilers.quota.kinds import NAMESPACE, RESOURCE_QUOTA
from konverge.runtime import Manager, ManagerSettings
from konverge_testing import Lab

CPU = "requests.cpu"
TENANT = "capsule.clastix.io/tenant"
RELEASE = "projectcapsule.dev/release"
EVENT = kind("events.k8s.io/v1", "Event", namespaced=True, plural="events")
_LOOK = 0.05
POD = kind("v1", "Pod", namespaced=True, plural="pods")


def spends(quota: Object) -> dict[str, Any]:
    """Return spec.hard of a ResourceQuota, sorted."""
    return dict(sorted((quota.get("spec", "hard", default={}) or {}).items()))


def without_uids(data: dict[str, Any]) -> None:
    """Remove the uids from a status: they differ from run to run."""
    status = data.get("status") or {}
    if data.get("kind") == "ResourcePoolClaim":
        for place in ("pool", "queue"):
            (status.get(place) or {}).pop("uid", None)
    elif data.get("kind") == "ResourcePool":
        for entry in (entry for entries in (status.get("claims") or {}).values() for entry in entries):
            entry.pop("uid", None)


class HeldByTheRule:
    """The safety predicate of docs/reference/capsule.md#shrink-first-credit-later, computed only from the stored objects: no write raises
    the held amounts above the pool's.

    In tests that use this predicate only the family writes hard of a ResourceQuota.
    """

    def __init__(self, lab: Lab, pool: str = "p") -> None:
        self._lab = lab
        self._pool = pool
        self._before: dict[str, int] = {}

    def __call__(self) -> None:
        store = self._lab.server.store
        entry = store.get(("capsule.clastix.io", "resourcepools"), "", self._pool)
        if entry is None:
            self._before = {}
            return
        pool = entry.object()
        hard = _nanos(pool["spec"]["quota"].get("hard"))
        defaults = dict.fromkeys(hard, 0) | _nanos(pool["spec"].get("defaults"))
        status = pool.get("status") or {}
        quotas = [
            one.object() for one in store.list(("", "resourcequotas")) if one.name == f"capsule-pool-{self._pool}"
        ]
        found = {quota["metadata"]["namespace"]: quota for quota in quotas}
        listed, releasing = status.get("claims") or {}, status.get("releasing") or {}
        held = dict.fromkeys(hard, 0)
        for namespace in sorted({*found, *listed, *releasing}):
            quota = found.get(namespace) or {}
            spec, seen = _nanos((quota.get("spec") or {}).get("hard")), _nanos((quota.get("status") or {}).get("hard"))
            used, back = _nanos((quota.get("status") or {}).get("used")), _nanos(releasing.get(namespace))
            claims = [_nanos(one.get("claims")) for one in listed.get(namespace) or ()]
            for name in held:
                default = defaults[name]
                held[name] += max(
                    sum(claim.get(name, 0) for claim in claims),
                    spec.get(name, 0) - default,
                    seen.get(name, 0) - default,
                    min(back.get(name, 0), used.get(name, 0) - default),
                    0,
                )
        for name, amount in held.items():
            limit = max(hard[name], self._before.get(name, 0))
            assert amount <= limit, f"{name}: {amount / 10**9:g} is held of {limit / 10**9:g}"
        self._before = held


def _nanos(values: Mapping[str, Any] | None) -> dict[str, int]:
    return {name: Quantity.parse(value).billionths for name, value in (values or {}).items()}


class Quotas:
    """A lab that runs the family. Names of namespaces are prefixed, so that tests do not meet on a shared server."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.settings = ManagerSettings(namespace=None, strict=True)
        """Those of the manager."""
        self._family = QuotaSettings()

    def ns(self, name: str) -> str:
        return f"{self.lab.namespace}-{name}"[:63]

    async def start(self, *namespaces: str, settings: QuotaSettings | None = None) -> Quotas:
        """Create these namespaces, all of the tenant `solar`, and run the family."""
        for name in namespaces:
            await self.namespace(name)
        self._family = settings or self._family
        await self.lab.start(self.build, name="konverge", settings=self.settings)
        return self

    def build(self, manager: Manager) -> None:
        """Install the family."""
        install(manager, self._family)

    async def namespace(self, name: str, tenant: str = "solar") -> None:
        await self.lab.client.create(NAMESPACE.new(self.ns(name), labels={TENANT: f"{tenant}-{self.lab.namespace}"}))

    async def move(self, name: str, tenant: str) -> None:
        """Move a namespace to another tenant."""
        labels = {TENANT: f"{tenant}-{self.lab.namespace}"}
        await self.lab.client.patch(NAMESPACE, self.ns(name), patch={"metadata": {"labels": labels}}, style="merge")

    async def pool(
        self,
        name: str = "p",
        hard: Mapping[str, Any] | None = None,
        *,
        tenants: tuple[str, ...] = ("solar",),
        defaults: Mapping[str, Any] | None = None,
        **config: bool,
    ) -> ResourcePool:
        spec: dict[str, Any] = {
            "quota": {"hard": dict(hard or {CPU: 4})},
            "selectors": [{"matchLabels": {TENANT: f"{tenant}-{self.lab.namespace}"}} for tenant in tenants],
        }
        if defaults:
            spec["defaults"] = dict(defaults)
        if config:
            spec["config"] = config
        await self.lab.enter(self.cleared(name))
        return await self.lab.client.create(ResourcePool.decode({"metadata": {"name": name}, "spec": spec}))

    @asynccontextmanager
    async def cleared(self, pool: str) -> AsyncIterator[None]:
        """Delete the pools from a server that other tests use too; their finalizers are removed here, since the family has stopped."""
        yield
        try:
            _ = self.lab.server
        except LookupError:
            with suppress(NotFound):
                await self.lab.client.patch(ResourcePool, pool, patch={"metadata": {"finalizers": None}}, style="merge")
                await self.lab.client.delete(ResourcePool, pool)

    async def claim(
        self, where: str, name: str, amounts: Mapping[str, Any] | None = None, *, pool: str | None = "p", **more: Any
    ) -> ResourcePoolClaim:
        """Create a claim; `cpu` is short for requests.cpu."""
        wanted = {
            CPU if resource == "cpu" else resource: value for resource, value in {**(amounts or {}), **more}.items()
        }
        spec = {"claim": wanted} if pool is None else {"claim": wanted, "pool": pool}
        data = {"metadata": {"name": name, "namespace": self.ns(where)}, "spec": spec}
        return await self.lab.client.create(ResourcePoolClaim.decode(data))

    async def patch(self, where: str, name: str, patch: Mapping[str, Any]) -> None:
        await self.lab.client.patch(ResourcePoolClaim, name, self.ns(where), patch=dict(patch), style="merge")

    async def ask_for(self, where: str, name: str, amounts: Mapping[str, Any], *, pool: str = "p") -> None:
        """Edit the request and pool of a claim. An allocated claim cannot be edited, so it is recreated."""
        while True:
            try:
                return await self.patch(where, name, {"spec": {"pool": pool, "claim": dict(amounts)}})
            except Invalid:
                with suppress(NotFound):
                    await self.delete(where, name)
            except NotFound:
                with suppress(AlreadyExists):
                    await self.claim(where, name, amounts, pool=pool)
                    return None

    async def release(self, where: str, name: str) -> None:
        await self.patch(where, name, {"metadata": {"annotations": {RELEASE: "True"}}})

    async def delete(self, where: str, name: str) -> None:
        await self.lab.client.delete(ResourcePoolClaim, name, self.ns(where))

    # --- waiting -------------------------------------------------------------------------------------------------------------

    async def until(
        self, what: Kind[Any] | type[Any], where: str, name: str, test: Callable[[Any], bool], *, seconds: float = 60
    ) -> Any:
        """Wait for an object of a namespace ("" for none) to pass a test; a failure shows the object's last state.

        The state that the running managers keep is then compared with a computation from scratch (`quota.oracle`).
        """
        last: Any = None
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(self.lab.limit(seconds)):
                while True:
                    try:
                        last = await self.get(what, where, name)
                    except NotFound:
                        last = None
                    if last is not None and test(last):
                        for manager in self.lab.managers:
                            check_ledgers(manager)
                        return last
                    await asyncio.sleep(
                        max(_LOOK, (loop.time() - began) / 50)
                    )  # a plan may keep the process down for hours
        except TimeoutError:
            shown = "it does not exist" if last is None else yaml.safe_dump(last.to_dict())
            raise AssertionError(f"{where}/{name}: waited in vain for {test.__qualname__}\n{shown}") from None

    async def says(self, where: str, name: str, reason: str, text: str = "") -> ResourcePoolClaim:
        """Wait until a claim's status has this reason for its current generation."""

        def holds(claim: ResourcePoolClaim) -> bool:
            said = claim.status.condition
            return (
                said is not None
                and said.reason == reason
                and text in said.message
                and said.observed_generation == claim.generation
            )

        holds.__qualname__ = f"{reason} {text}"
        found: ResourcePoolClaim = await self.until(ResourcePoolClaim, where, name, holds)
        return found

    async def bound(self, where: str, name: str) -> ResourcePoolClaim:
        found = await self.says(where, name, "Succeeded", "Claimed resources")
        assert found.status.condition is not None
        assert (found.status.condition.type, found.status.condition.status) == ("Bound", "True")
        return found

    async def tells(self, where: str, name: str, type_: str, reason: str, text: str = "") -> ResourcePoolClaim:
        """Wait until one of a claim's conditions, in the semantics of v0.14, has this reason for the current generation."""

        def holds(claim: ResourcePoolClaim) -> bool:
            said = claim.status.find_condition(type_)
            return (
                said is not None
                and said.reason == reason
                and text in said.message
                and said.observed_generation == claim.generation
            )

        holds.__qualname__ = f"{type_}: {reason} {text}"
        found: ResourcePoolClaim = await self.until(ResourcePoolClaim, where, name, holds)
        return found

    async def grants(self, where: str, hard: Mapping[str, Any], pool: str = "p") -> Object:
        """Wait until spec.hard and status.hard of the ResourceQuota of a namespace are exactly this, by value."""
        wanted = {name: Quantity.parse(value) for name, value in hard.items()}

        def holds(quota: Object) -> bool:
            parts = (quota.get("spec", "hard", default={}) or {}, quota.get("status", "hard", default={}) or {})
            return all({name: Quantity.parse(value) for name, value in part.items()} == wanted for part in parts)

        holds.__qualname__ = f"hard {dict(hard)}"
        found: Object = await self.until(RESOURCE_QUOTA, where, f"capsule-pool-{pool}", holds)
        return found

    async def spent(self, used: Mapping[str, Any], pool: str = "p") -> ResourcePool:
        """Wait until a pool's status.allocation.used is exactly this."""
        wanted = {name: Quantity.parse(value) for name, value in used.items()}

        def holds(found: ResourcePool) -> bool:
            return {name: Quantity.parse(value) for name, value in found.status.allocation.used.items()} == wanted

        holds.__qualname__ = f"used {dict(used)}"
        got: ResourcePool = await self.until(ResourcePool, "", pool, holds)
        return got

    async def get(self, what: Kind[Any] | type[Any], where: str, name: str) -> Any:
        return await self.lab.client.get(what, name, self.ns(where) if where else "")

    async def events(self, where: str, name: str) -> list[tuple[str, str, str]]:
        """Return type, reason and note of the events about a claim."""
        found = (await self.lab.client.list(EVENT, self.ns(where))).items
        about = (event for event in found if event.get("regarding", "name") == name)
        return sorted((str(event.get("type")), str(event.get("reason")), str(event.get("note"))) for event in about)

    def passes(self) -> dict[str, tuple[str, ...]]:
        """Return the writes of each recorded reconcile, by its id."""
        runners = [self.lab.manager.runner(spec.name) for spec in self.lab.manager.controllers]
        return {record.reconcile_id: record.writes for runner in runners for record in runner.history.recent()}

    async def pod(self, where: str, name: str, cpu: str) -> None:
        """Start a pod; raises Forbidden if the quota does not allow it."""
        container = {"name": "c", "image": "registry.example.com/c:1", "resources": {"requests": {"cpu": cpu}}}
        await self.lab.client.create(POD.new(name, self.ns(where), spec={"containers": [container]}))
