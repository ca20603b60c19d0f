"""`CapiCore`: Cluster API's core controllers of Clusters, MachinePools and Machines, as three controllers on konverge."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from konverge.client import ClientConfig
from konverge.clock import rfc3339
from konverge.errors import NotFound
from konverge.informers import Cached, Change
from konverge.keys import Key
from konverge.kinds import Kind, kind, kind_of
from konverge.objects import Object
from konverge.outcome import Done, Outcome, RequeueAfter
from konverge.runtime import Controller, Manager, ManagerSettings
from konverge_testing.capi.decide import (
    Json,
    adoption,
    cluster_changes,
    condition,
    initialized,
    machine_changes,
    pairs,
    paused,
    pool_changes,
    retired,
)
from konverge_testing.capi.defaults import webhooks
from konverge_testing.capi.kinds import CLUSTER, CLUSTER_LABEL, FINALIZERS, MACHINE, MACHINE_POOL, NODE, OWNERS, SECRET

if TYPE_CHECKING:
    from konverge.runtime import Caches, Context

__all__ = ["CapiCore", "install_core"]

_MISSING: Final = 30.0
"""Seconds between two reads of the infrastructure of a Cluster or Machine, which is not watched before its adoption."""
_POOL_MISSING: Final = 5.0
_PROBE: Final = 20.0
"""Seconds between two attempts to connect to a workload cluster."""
_NODES: Final = 30.0
"""Seconds between two reconciles of a MachinePool while some of its Nodes are missing."""


class CapiCore:
    """Plays the core of Cluster API until its `async with` ends; the cluster of the Nodes is the same API server.

    `infrastructure` are the kinds of the provider. `latency` is the time in seconds from an event to the reconcile of it.
    """

    def __init__(
        self,
        config: ClientConfig,
        *,
        infrastructure: Iterable[Kind[Any] | type[Any]],
        latency: float = 0.05,
        random: Random | None = None,
    ) -> None:
        self.manager = Manager("capi-core", config, settings=ManagerSettings(), random=random)
        install_core(self.manager, infrastructure=infrastructure, latency=latency)

    async def __aenter__(self) -> Self:
        await self.manager.start()
        await self.manager.wait_ready()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.manager.stop()


def install_core(
    manager: Manager,
    *,
    infrastructure: Iterable[Kind[Any] | type[Any]],
    latency: float = 0.05,
    defaults: bool = False,
) -> None:
    """Add the controllers to a manager, and with `defaults` the webhooks that complete MachinePools and Machines.

    >>> from konverge.kinds import kind
    >>> manager = Manager("core")
    >>> install_core(manager, infrastructure=[kind("infrastructure.cluster.x-k8s.io/v1beta1", "MyMachine", plural="mymachines")])
    >>> [one.name for one in manager.controllers]
    ['cluster', 'machinepool', 'machine']
    """
    kinds = [kind_of(what) for what in infrastructure]
    infra = {one.kind: kind(one.api_version, one.kind, namespaced=one.namespaced, plural=one.plural) for one in kinds}
    clusters = (
        Controller.of(CLUSTER).watches(MACHINE_POOL, to=_cluster_of_member).watches(MACHINE, to=_cluster_of_member)
    )
    pools = (
        Controller.of(MACHINE_POOL)
        .watches(CLUSTER, to=_members_of(MACHINE_POOL))
        .watches(NODE, to=_pools_of_node, when=_comes_or_goes)
    )
    machines = Controller.of(MACHINE).watches(CLUSTER, to=_members_of(MACHINE)).watches(NODE, to=_machines_of_node)
    manager.add(_kept(clusters, infra).reconciled_by(ClusterCore(infra, latency)))
    manager.add(_kept(pools, infra).reconciled_by(MachinePoolCore(infra, latency)))
    manager.add(_kept(machines, infra).reconciled_by(MachineCore(infra, latency)))
    if defaults:
        for webhook in webhooks():
            manager.add(webhook)


# --- which keys a change concerns --------------------------------------------------------------------------------------------


def _kept(made: Controller[Any], infra: dict[str, Kind[Object]]) -> Controller[Any]:
    owner = made.kind.kind

    def owners(changed: Any, _: Caches) -> Iterable[Key]:
        references = changed.metadata.owner_references
        return [Key("", made.kind, changed.metadata.namespace, one.name) for one in references if one.kind == owner]

    for what in infra.values():
        made = made.watches(what, to=owners)
    # The finalizers of Cluster API have no slash; `finalizer` refuses such names, which the API server warns about.
    return replace(made, name=owner.lower(), finalizer_name=FINALIZERS[owner])


def _cluster_of_member(member: Object, _: Caches) -> Iterable[Key]:
    name = member.get("spec", "clusterName", default="")
    return [Key("", CLUSTER, member.namespace, name)] if name else ()


def _members_of(what: Kind[Object]) -> Any:
    def members(cluster: Object, caches: Caches) -> Iterable[Key]:
        found = caches(what).list(namespace=cluster.namespace)
        return [Key("", what, one.namespace, one.name) for one in found if one.spec["clusterName"] == cluster.name]

    return members


def _watched(caches: Caches, what: Kind[Object]) -> Iterable[Object]:
    """Return the members of initialized Clusters: a Node enqueues nothing else."""
    clusters = {(one.namespace, one.name) for one in caches(CLUSTER).list() if initialized(one.to_dict())}
    return [one for one in caches(what).list() if (one.namespace, one.spec["clusterName"]) in clusters]


def _pools_of_node(node: Object, caches: Caches) -> Iterable[Key]:
    wanted = node.get("spec", "providerID", default="")
    return [
        Key("", MACHINE_POOL, one.namespace, one.name)
        for one in _watched(caches, MACHINE_POOL)
        if wanted and wanted in one.get("spec", "providerIDList", default=())
    ]


def _comes_or_goes(change: Change) -> bool:
    """Accept created and deleted Nodes and changed ids: the core ignores every other change of a MachinePool's Node."""

    def provider_id(cached: Cached | None) -> Any:
        return None if cached is None else cached.decode(NODE).get("spec", "providerID")

    return bool(change.old is None or change.new is None or provider_id(change.old) != provider_id(change.new))


def _machines_of_node(node: Object, caches: Caches) -> Iterable[Key]:
    wanted = node.get("spec", "providerID", default="")
    return [
        Key("", MACHINE, one.namespace, one.name)
        for one in _watched(caches, MACHINE)
        if wanted and wanted == one.get("spec", "providerID", default="")
    ]


# --- the reconcilers ---------------------------------------------------------------------------------------------------------


class CoreReconciler(ABC):
    """The steps that Clusters, MachinePools and Machines share. Everything is read live, so that no step sees stale data."""

    def __init__(self, infra: dict[str, Kind[Object]], latency: float) -> None:
        self._infra = infra
        self._latency = latency

    async def reconcile(self, object_: Object, ctx: Context[Object]) -> Outcome:
        """Read the objects live, and reconcile the object of this key."""
        found = await self._begin(object_, ctx)
        return Done() if found is None else await self.keep(*found, ctx)

    async def finalize(self, object_: Object, ctx: Context[Object]) -> Outcome:
        """Continue a deletion; Done removes the finalizer."""
        found = await self._begin(object_, ctx)
        if found is None:
            return Done() if await self._is_lost(object_, ctx) else RequeueAfter(_MISSING)
        made = await self._patch(found[0], {"status": {"phase": "Deleting"}}, ctx, "status")
        return Done() if await self.end(made, ctx) else RequeueAfter(_MISSING)

    async def _begin(self, object_: Object, ctx: Context[Object]) -> tuple[Json, Json] | None:
        """Return an object and its Cluster; None if the object is deleted, paused or without Cluster."""
        await asyncio.sleep(self._latency)
        what = ctx.key.kind
        try:
            made = (await ctx.client.get(what, object_.name, object_.namespace)).to_dict()
        except NotFound:
            return None
        made |= {"apiVersion": what.api_version, "kind": what.kind}
        cluster = made if what == CLUSTER else await self._cluster(made, ctx)
        if cluster is None:
            return None
        why = paused(made, cluster)
        state = ("Paused", "True", "Paused", why) if why else ("Paused", "False", "NotPaused", "")
        made = await self._conditions(made, [state], ctx)
        return None if why else (made, cluster)

    async def _is_lost(self, object_: Object, ctx: Context[Object]) -> bool:
        """Return whether an object that is deleted has no Cluster that could pause it."""
        return ctx.key.kind != CLUSTER and await self._cluster(object_.to_dict(), ctx) is None

    @abstractmethod
    async def keep(self, made: Json, cluster: Json, ctx: Context[Object]) -> Outcome:
        """Reconcile an object that is not under deletion."""

    async def end(self, made: Json, ctx: Context[Object]) -> bool:
        """Delete the infrastructure; True once it no longer exists."""
        what, infra = await self._infra_of(made, ctx)
        if what is None or infra is None:
            return what is not None  # an unknown kind cannot be read: the deletion hangs, as with the real core
        await self._delete_once(infra, ctx)
        return False

    async def _delete_once(self, made: Json, ctx: Context[Object]) -> None:
        metadata = made["metadata"]
        if not metadata.get("deletionTimestamp"):
            await ctx.delete(self._kind(made), metadata["name"], metadata.get("namespace", ""), uid=metadata["uid"])

    # --- reads ---

    async def _read(self, what: Kind[Object], name: str, made: Json, ctx: Context[Object]) -> Json | None:
        try:
            found = await ctx.client.get(what, name, made["metadata"]["namespace"])
        except NotFound:
            return None
        return {**found.to_dict(), "apiVersion": what.api_version, "kind": what.kind}

    async def _cluster(self, made: Json, ctx: Context[Object]) -> Json | None:
        try:
            found = await ctx.client.get(CLUSTER, made["spec"]["clusterName"], made["metadata"]["namespace"])
        except NotFound:
            return None
        return found.to_dict()

    async def _infra_of(self, made: Json, ctx: Context[Object]) -> tuple[Kind[Object] | None, Json | None]:
        spec = made["spec"] if "infrastructureRef" in made["spec"] else made["spec"]["template"]["spec"]
        reference = spec["infrastructureRef"]
        what = self._infra.get(reference["kind"])
        return (None, None) if what is None else (what, await self._read(what, reference["name"], made, ctx))

    async def _nodes(self, ctx: Context[Object]) -> list[Json]:
        return [one.to_dict() for one in (await ctx.client.list(NODE)).items]

    async def _connected(self, cluster: Json, ctx: Context[Object]) -> bool:
        """Return whether the Cluster has a kubeconfig Secret with the label: the core ignores a Secret without it."""
        metadata = cluster["metadata"]
        try:
            secret = await ctx.client.get(SECRET, f"{metadata['name']}-kubeconfig", metadata["namespace"])
        except NotFound:
            return False
        return secret.metadata.label(CLUSTER_LABEL) == metadata["name"] and bool(secret.get("data", "value"))

    # --- writes ---

    async def _patch(self, made: Json, patch: Json, ctx: Context[Object], subresource: str = "") -> Json:
        """Send the changing part of a merge patch, for exactly this version of the object; returns the object."""
        metadata = made["metadata"]
        changed = _differences(made, patch)
        if not changed:
            return made
        changed.setdefault("metadata", {})["resourceVersion"] = metadata["resourceVersion"]
        stored = await ctx.client.patch(
            self._kind(made),
            metadata["name"],
            metadata.get("namespace", ""),
            patch=changed,
            style="merge",
            subresource=subresource,
        )
        return {**stored.to_dict(), "apiVersion": made["apiVersion"], "kind": made["kind"]}

    def _kind(self, made: Json) -> Kind[Object]:
        return OWNERS.get(made["kind"]) or self._infra.get(made["kind"]) or NODE

    async def _conditions(self, made: Json, states: Iterable[tuple[str, str, str, str]], ctx: Context[Object]) -> Json:
        found = {one["type"]: one for one in (made.get("status") or {}).get("conditions") or ()}
        for type_, status, reason, message in states:
            before = condition(made, type_)
            moved = before.get("lastTransitionTime") if before.get("status") == status else rfc3339(ctx.now())
            found[type_] = {
                "type": type_,
                "status": status,
                "reason": reason,
                "message": message,
                "observedGeneration": made["metadata"]["generation"],
                "lastTransitionTime": moved,
            }
        return await self._patch(made, {"status": {"conditions": list(found.values())}}, ctx, "status")

    async def _belong(self, made: Json, ctx: Context[Object]) -> Json:
        """Set the Cluster as a plain owner of its member."""
        cluster = await self._cluster(made, ctx)
        references = made["metadata"].get("ownerReferences") or []
        if cluster is None or any(one["uid"] == cluster["metadata"]["uid"] for one in references):
            return made
        mine = {
            "apiVersion": CLUSTER.api_version,
            "kind": "Cluster",
            "name": cluster["metadata"]["name"],
            "uid": cluster["metadata"]["uid"],
        }
        return await self._patch(made, {"metadata": {"ownerReferences": [*references, mine]}}, ctx)

    async def _adopt(self, infra: Json, made: Json, cluster: str, ctx: Context[Object]) -> bool:
        """Become the controller of the infrastructure; False if another object is."""
        patch = adoption(infra, made, cluster)
        if patch:
            await self._patch(infra, patch, ctx)
        return patch is not None

    async def _annotate(self, node: Json, annotations: Json, ctx: Context[Object]) -> None:
        await self._patch({"apiVersion": "v1", "kind": "Node", **node}, {"metadata": {"annotations": annotations}}, ctx)


class ClusterCore(CoreReconciler):
    """Reconciles Clusters."""

    async def keep(self, made: Json, cluster: Json, ctx: Context[Object]) -> Outcome:
        """Adopt the infrastructure and show its state."""
        what, infra = await self._infra_of(made, ctx)
        if what is None:
            return Done()
        if infra is not None and not await self._adopt(infra, made, made["metadata"]["name"], ctx):
            return Done()
        plane = await self._control_plane(made, ctx)
        if plane is not None and not await self._adopt(plane, made, made["metadata"]["name"], ctx):
            return Done()
        connected = await self._connected(cluster, ctx)
        spec, status, conditions = cluster_changes(made, infra, plane, connected=connected)
        made = await self._patch(made, {"spec": spec}, ctx)
        made = await self._patch(made, {"status": status}, ctx, "status")
        await self._conditions(made, conditions, ctx)
        if infra is None:
            return RequeueAfter(_MISSING)
        return Done() if connected else RequeueAfter(_PROBE)

    async def _control_plane(self, made: Json, ctx: Context[Object]) -> Json | None:
        reference = made["spec"].get("controlPlaneRef") or {}
        what = self._infra.get(reference.get("kind", ""))
        return None if what is None else await self._read(what, reference["name"], made, ctx)

    async def end(self, made: Json, ctx: Context[Object]) -> bool:
        """Delete the members, then the control plane, then the infrastructure, then the Cluster."""
        left = False
        for what in (MACHINE_POOL, MACHINE):
            for one in (await ctx.client.list(what, made["metadata"]["namespace"])).items:
                if one.spec["clusterName"] != made["metadata"]["name"]:
                    continue
                left = True
                if not one.metadata.deleting:
                    await ctx.delete(what, one.name, one.namespace, uid=one.metadata.uid)
        if left:
            return False
        plane = await self._control_plane(made, ctx)
        if plane is not None:
            await self._delete_once(plane, ctx)
            return False
        return await super().end(made, ctx)


class MachinePoolCore(CoreReconciler):
    """Reconciles MachinePools, and deletes a Node whose id leaves its pool. The Nodes of a deleted MachinePool stay."""

    async def keep(self, made: Json, cluster: Json, ctx: Context[Object]) -> Outcome:
        """Adopt the infrastructure, take its ids and replicas over, and pair Nodes."""
        made = await self._belong(made, ctx)
        what, infra = await self._infra_of(made, ctx)
        if what is None:  # no condition reports it
            await self._patch(made, {"status": {"phase": "Provisioning"}}, ctx, "status")
            return Done()
        if infra is not None and not await self._adopt(infra, made, cluster["metadata"]["name"], ctx):
            await self._patch(made, {"status": {"phase": "Provisioning"}}, ctx, "status")
            return RequeueAfter(_POOL_MISSING)
        connected = await self._connected(cluster, ctx)
        nodes = await self._nodes(ctx)
        spec, status, short = pool_changes(made, infra, nodes, connected=connected)
        ids = spec.get("providerIDList", made["spec"].get("providerIDList") or [])
        gone = retired(made, ids, nodes) if connected else []
        for node in gone:
            await ctx.delete(NODE, node["metadata"]["name"], uid=node["metadata"]["uid"])
        metadata = made["metadata"]
        for node in pairs(ids, nodes) if connected else ():
            annotations = {
                "cluster.x-k8s.io/cluster-name": cluster["metadata"]["name"],
                "cluster.x-k8s.io/cluster-namespace": metadata["namespace"],
                "cluster.x-k8s.io/owner-kind": "MachinePool",
                "cluster.x-k8s.io/owner-name": metadata["name"],
            }
            await self._annotate(node, annotations, ctx)
        made = await self._patch(made, {"spec": spec}, ctx)
        await self._patch(made, {"status": status}, ctx, "status")
        if infra is None:
            return RequeueAfter(_POOL_MISSING)
        if not connected:
            return RequeueAfter(_PROBE)
        return RequeueAfter(_NODES) if short else Done()


class MachineCore(CoreReconciler):
    """Reconciles Machines. With a control plane a deleted Machine's Node is cordoned, and deleted after the infrastructure; else it stays.

    Pods are not evicted.
    """

    async def keep(self, made: Json, cluster: Json, ctx: Context[Object]) -> Outcome:
        """Adopt the infrastructure, take its id and addresses over, and find the Node."""
        made = await self._belong(made, ctx)
        what, infra = await self._infra_of(made, ctx)
        if what is None:
            made = await self._patch(made, {"status": {"phase": "Pending"}}, ctx, "status")
            unknown = ("InfrastructureReady", "Unknown", "InternalError", "Please check controller logs for errors")
            await self._conditions(made, [unknown], ctx)
            return Done()
        if infra is not None and not await self._adopt(infra, made, cluster["metadata"]["name"], ctx):
            return Done()
        connected = await self._connected(cluster, ctx)
        nodes = await self._nodes(ctx)
        spec, status, conditions, node = machine_changes(made, infra, nodes, connected=connected)
        metadata = made["metadata"]
        if node is not None:
            annotations = {
                "cluster.x-k8s.io/cluster-name": cluster["metadata"]["name"],
                "cluster.x-k8s.io/cluster-namespace": metadata["namespace"],
                "cluster.x-k8s.io/machine": metadata["name"],
            }
            await self._annotate(node, annotations, ctx)
        made = await self._patch(made, {"spec": spec}, ctx)
        made = await self._patch(made, {"status": status}, ctx, "status")
        await self._conditions(made, conditions, ctx)
        if infra is None:
            return RequeueAfter(_MISSING)
        return Done() if connected else RequeueAfter(_PROBE)

    async def end(self, made: Json, ctx: Context[Object]) -> bool:
        """Cordon the Node, delete the infrastructure, then the Node."""
        cluster = await self._cluster(made, ctx)
        if cluster is None or not cluster["spec"].get("controlPlaneRef") or not await self._connected(cluster, ctx):
            return await super().end(made, ctx)
        name = ((made.get("status") or {}).get("nodeRef") or {}).get("name")
        node = next((one for one in await self._nodes(ctx) if one["metadata"]["name"] == name), None)
        if node is not None:
            node = await self._patch(
                {"apiVersion": "v1", "kind": "Node", **node}, {"spec": {"unschedulable": True}}, ctx
            )
        if not await super().end(made, ctx):
            return False
        if node is not None:
            await self._delete_once(node, ctx)
        return True


def _differences(made: Json, patch: Json) -> Json:
    """Return the part of a merge patch that would change an object."""
    found: Json = {}
    for name, wanted in patch.items():
        present = made.get(name)
        if isinstance(wanted, dict) and isinstance(present, dict):
            deeper = _differences(present, wanted)
            if deeper:
                found[name] = deeper
        elif wanted != present and not (wanted in ({}, None) and present is None):
            found[name] = wanted
    return found
