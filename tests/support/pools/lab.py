"""A lab that runs the family of pools; a stand-in marks instances ready, and a predicate checks every write."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from random import Random
from typing import Any, Self

from pools.crd_cases import KINDS

from konverge.crds import crd
from konverge.crds.pools_v1alpha1 import Nextcloud, NextcloudInstance, NextcloudPool, NextcloudProfile
from konverge.kinds import kind
from konverge.objects import Object
from konverge.outcome import Done, Outcome
from konverge.reconcilers.pools.installation import controllers, metrics_of
from konverge.reconcilers.pools.kinds import INSTANCE
from konverge.reconcilers.pools.settings import PoolSettings
from konverge.reconcilers.pools.words import Finalizer, InstancePhase, PoolsAnnotation, PoolsCondition, PoolsLabel
from konverge.runtime import Context, Controller, ElectionSettings, Manager, ManagerSettings
from konverge_testing import Lab, install_crds

EVENT = kind("events.k8s.io/v1", "Event", namespaced=True, plural="events")
STOCK = "stock"
"""The pool of `Clouds.member`."""
NAMESPACE = kind("v1", "Namespace", namespaced=False, plural="namespaces")


class OneTenant:
    """The safety predicate, computed only from the stored objects: an instance never changes its claim, a claim never has two instances, a
    claimed instance is not free again, and a pool creates at most so many instances within a minute.
    """

    def __init__(self, lab: Lab, creates: int = 10) -> None:
        self._lab = lab
        self._creates = creates
        self._owner: dict[str, str] = {}
        self._made: dict[str, dict[str, float]] = {}

    def __call__(self) -> None:
        now = asyncio.get_running_loop().time()
        of_claim: dict[str, str] = {}
        for entry in self._lab.server.store.list(("k8s.bnerd.com", "nextcloudinstances")):
            instance = entry.object()
            metadata, claim = instance["metadata"], (instance.get("spec") or {}).get("claimRef") or {}
            uid, owner = metadata["uid"], claim.get("uid", "")
            before = self._owner.get(uid, "")
            assert before in ("", owner), f"{metadata['name']} went from {before} to {owner or 'the pool'}"
            if owner:
                self._owner[uid] = owner
                assert of_claim.setdefault(owner, uid) == uid, f"{owner} has two instances"
                assert metadata.get("labels", {}).get(PoolsLabel.ASSIGNED) != PoolsLabel.FALSE, (
                    f"{metadata['name']} is free"
                )
            pool = metadata.get("labels", {}).get(PoolsLabel.POOL)
            if pool:
                self._made.setdefault(pool, {}).setdefault(uid, now)
        for pool, made in self._made.items():
            recent = [moment for moment in made.values() if moment > now - 59]
            assert len(recent) <= self._creates, f"{pool} created {len(recent)} instances within a minute"


class StandIn:
    """Replaces the controller of instances: an instance is ready at once, and a deletion completes at once."""

    def __init__(self, *, ready: bool) -> None:
        self._ready = ready

    async def reconcile(self, instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> Outcome:
        draft = ctx.status.draft
        if PoolsAnnotation.RELEASED in (instance.annotations or {}):
            draft.phase = InstancePhase.RELEASED
        elif self._ready:
            draft.phase, draft.url = InstancePhase.READY, f"https://{instance.name}.example.com"
            ctx.status.set_condition(PoolsCondition.READY, True, "Ready", "it runs")
        else:
            ctx.status.skip_write()
        return Done()

    async def finalize(self, instance: NextcloudInstance, ctx: Context[NextcloudInstance]) -> Outcome:
        return Done()


RECREATED = {
    "nextcloudinstances": "an instance is a UID: a successor is no member of its pool, and its Nextcloud is InstanceLost",
    "nextcloudpools": "the record of the members ends with the status of a pool: a successor adopts them by its annotation only",
}
"""The kinds for which a successor of the same name is another object, with the reason."""


def guarded(lab: Lab, creates: int = 10, successors: Iterable[str] = tuple(RECREATED)) -> Clouds:
    """Return the kit with its predicate, ignoring the differences between any two runs; a pool may create so many instances in a minute."""
    lab.may_differ(
        INSTANCE, why="the names of instances are random, and which of them is taken depends on when the process was up"
    )
    lab.may_differ(Nextcloud, "status.instanceRef", "status.url", forget_names, why="the names of instances are random")
    lab.may_differ(
        NextcloudPool, "status.recentCreations", forget_uids, why="the names and UIDs of instances are random"
    )
    lab.always.append(OneTenant(lab, creates))
    lab.skip_plans("the namespace is deleted *", why="a pool cannot be full without the namespace of its instances")
    lab.skip_plans(
        "nextcloudinstances*: delete by hand *", why="a Nextcloud whose instance was deleted by hand gets no other one"
    )
    lab.skip_plans("the CRD of nextcloudinstances* goes *", why="as above, for all instances")
    for plural in successors:
        lab.skip_plans(f"{plural}*: recreate by hand *", why=RECREATED[plural])
    return Clouds(lab)


def forget_names(data: dict[str, Any]) -> None:
    """Remove the messages from a status: they name instances."""
    for condition in (data.get("status") or {}).get("conditions") or []:
        condition.pop("message", None)


def forget_uids(data: dict[str, Any]) -> None:
    """Leave the number of members in the status of a pool."""
    status = data.get("status") or {}
    if "members" in status:
        status["members"] = len(status["members"])


class Clouds:
    """A lab that runs the family."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.settings = PoolSettings(instance_namespace=lab.namespace)
        self._ready = True
        self._election = ElectionSettings()

    def build(self, manager: Manager) -> None:
        """Add the controllers of pools and claims, and the stand-in for the controller of instances."""
        for controller in controllers(self.settings, metrics_of(manager), Random(7)):
            manager.add(controller)
        manager.add(
            Controller.of(NextcloudInstance)
            .named("stand-in")
            .finalizer(Finalizer.INSTANCE)
            .reconciled_by(StandIn(ready=self._ready))
        )

    async def start(
        self, *, ready: bool = True, settings: PoolSettings | None = None, election: ElectionSettings | None = None
    ) -> Self:
        """Run the family; with `ready` the stand-in marks every instance ready, and it always completes deletions."""
        self._ready = ready
        if election is not None:
            self._election = election
        if settings is not None:
            self.settings = settings.model_copy(update={"instance_namespace": self.lab.namespace})
        await install_crds(self.lab.client, [crd(one) for one in KINDS])
        await self.run()
        return self

    def leave_instances_alone(self) -> None:
        """From the next run on the stand-in marks no instance ready."""
        self._ready = False

    async def run(self) -> None:
        """Run the process."""
        settings = ManagerSettings(namespace=None, strict=True, election=self._election)
        await self.lab.start(self.build, name="konverge", settings=settings)

    async def phase(self, name: str, phase: str, **more: Any) -> None:
        """Set the phase of an instance."""
        patch = {"status": {"phase": phase, **more}}
        await self.lab.client.patch(
            INSTANCE, name, self.lab.namespace, patch=patch, style="merge", subresource="status"
        )

    async def patch(self, what: Any, name: str, patch: Mapping[str, Any], namespace: str | None = None) -> None:
        where = self.lab.namespace if namespace is None else namespace
        await self.lab.client.patch(what, name, where, patch=patch, style="merge")

    async def pool(self, name: str = "small", replicas: int = 2, **spec: Any) -> NextcloudPool:
        labels = spec.pop("labels", {"tier": name})
        template = {"metadata": {"labels": labels}, "spec": {"replicas": 1, **spec.pop("template", {})}}
        annotations = spec.pop("annotations", {})
        spec = {"allowedNamespaces": {"from": "All"}, **spec}
        data = {
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"replicas": replicas, "template": template, **spec},
        }
        return await self.lab.client.create(NextcloudPool.decode(data))

    async def profile(self, name: str = "base", **defaults: Any) -> NextcloudProfile:
        return await self.lab.client.create(
            NextcloudProfile.decode({"metadata": {"name": name}, "spec": {"defaults": defaults}})
        )

    async def claim(self, name: str = "main", *, tier: str | None = "small", **spec: Any) -> Nextcloud:
        if tier is not None:
            spec["poolSelector"] = {"matchLabels": {"tier": tier}}
        return await self.lab.create(Nextcloud.decode({"metadata": {"name": name}, "spec": spec}))

    async def instance(self, name: str, labels: Mapping[str, str] | None = None, **spec: Any) -> NextcloudInstance:
        data = {"metadata": {"name": name, "labels": dict(labels or {})}, "spec": spec}
        return await self.lab.create(NextcloudInstance.decode(data))

    async def member(self, name: str, labels: Mapping[str, str] | None = None, **spec: Any) -> NextcloudInstance:
        """Create an instance, and have it adopted by a pool that creates and deletes nothing because its profile is missing."""
        if all(one.name != STOCK for one in (await self.lab.client.list(NextcloudPool)).items):
            await self.pool(STOCK, replicas=0, labels={}, profileRef={"name": "missing"})
        marks = {PoolsLabel.ASSIGNED: PoolsLabel.FALSE, PoolsLabel.POOL: STOCK}
        instance = await self.instance(name, {**marks, **(labels or {})}, **spec)
        await self.adopt(STOCK, name)
        await self.pool_until(STOCK, lambda pool: pool.status.adopted == name)
        return instance

    async def adopt(self, pool: str, wish: str) -> None:
        """Ask a pool to record the instances that its label selects."""
        await self.patch(NextcloudPool, pool, {"metadata": {"annotations": {PoolsAnnotation.ADOPT_MEMBERS: wish}}}, "")

    async def nominate(self, claim: Nextcloud, instance: Object) -> None:
        """Record an instance in the status of a Nextcloud, as the operator does before it takes the instance."""
        record = {"name": instance.name, "namespace": instance.namespace, "uid": instance.metadata.uid}
        await self.lab.patch(Nextcloud, claim.name, {"status": {"nominatedInstance": record}}, subresource="status")

    async def instances(self) -> list[Object]:
        return sorted((await self.lab.client.list(INSTANCE)).items, key=lambda one: one.name)

    async def assigned(self, name: str = "main") -> Nextcloud:
        """Wait until a Nextcloud has its instance."""
        return await self.says(name, "True", "")

    async def says(self, name: str, status: str, reason: str) -> Nextcloud:
        """Wait until InstanceAssigned of a Nextcloud has this state, for its current generation."""

        def holds(found: Nextcloud) -> bool:
            said = found.find_condition("InstanceAssigned")
            return (
                said is not None
                and said.status == status
                and reason in ("", said.reason)
                and said.observed_generation == found.generation
            )

        holds.__qualname__ = f"InstanceAssigned={status} {reason}"
        return await self.lab.until(Nextcloud, name, holds)

    async def filled(self, name: str = "small") -> NextcloudPool:
        """Wait until a pool has as many ready instances as it wants."""

        def full(pool: NextcloudPool) -> bool:
            status = pool.status
            return status.ready == pool.spec.replicas == status.unassigned

        return await self.pool_until(name, full)

    async def pool_until(self, name: str, test: Callable[[NextcloudPool], bool], seconds: float = 600) -> NextcloudPool:
        found: list[NextcloudPool] = []

        async def holds() -> bool:
            found[:] = [await self.lab.client.get(NextcloudPool, name)]
            return test(found[0])

        await self.wait(holds, seconds)
        return found[0]

    async def wait(self, test: Callable[[], Awaitable[bool]], seconds: float = 600) -> None:
        """Wait until a test holds; a wait of hours, since a plan may keep the process down, does not poll more often than a short wait."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with asyncio.timeout(self.lab.limit(seconds)):
            while not await test():
                await asyncio.sleep(max(0.2, (loop.time() - began) / 50))

    async def events(self, *reasons: str) -> list[Object]:
        found = (await self.lab.client.list(EVENT)).items
        return [event for event in found if event.get("reason") in reasons]
