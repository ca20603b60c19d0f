"""`CapiCore`: Cluster API's core controllers of Clusters, MachinePools and Machines, as three controllers on konverge."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from msgspec.structs import replace

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
    infra = {
        item.kind: kind(item.api_version, item.kind, namespaced=item.namespaced, plural=item.plural) for item in kinds
    }
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


def _kept(manifest: Controller[Any], infra: dict[str, Kind[Object]]) -> Controller[Any]:
    owner = manifest.kind.kind

    def owners(changed: Any, _: Caches) -> Iterable[Key]:
        references = changed.metadata.owner_references
        return [
            Key("", manifest.kind, changed.metadata.namespace, reference.name)
            for reference in references
            if reference.kind == owner
        ]

    for what in infra.values():
        manifest = manifest.watches(what, to=owners)
    # The finalizers of Cluster API have no slash; `finalizer` refuses such names, which the API server warns about.
    return replace(manifest, name=owner.lower(), finalizer_name=FINALIZERS[owner])


def _cluster_of_member(member: Object, _: Caches) -> Iterable[Key]:
    name = member.get("spec", "clusterName", default="")
    return [Key("", CLUSTER, member.namespace, name)] if name else ()


def _members_of(what: Kind[Object]) -> Any:
    def members(cluster: Object, caches: Caches) -> Iterable[Key]:
        results = caches(what).list(namespace=cluster.namespace)
        return [
            Key("", what, item.namespace, item.name) for item in results if item.spec["clusterName"] == cluster.name
        ]

    return members


def _watched(caches: Caches, what: Kind[Object]) -> Iterable[Object]:
    """Return the members of initialized Clusters: a Node enqueues nothing else."""
    clusters = {(item.namespace, item.name) for item in caches(CLUSTER).list() if initialized(item.to_dict())}
    return [item for item in caches(what).list() if (item.namespace, item.spec["clusterName"]) in clusters]


def _pools_of_node(node: Object, caches: Caches) -> Iterable[Key]:
    wanted = node.get("spec", "providerID", default="")
    return [
        Key("", MACHINE_POOL, item.namespace, item.name)
        for item in _watched(caches, MACHINE_POOL)
        if wanted and wanted in item.get("spec", "providerIDList", default=())
    ]


def _comes_or_goes(change: Change) -> bool:
    """Accept created and deleted Nodes and changed ids: the core ignores every other change of a MachinePool's Node."""

    def provider_id(cached: Cached | None) -> Any:
        return None if cached is None else cached.decode(NODE).get("spec", "providerID")

    return bool(change.old is None or change.new is None or provider_id(change.old) != provider_id(change.new))


def _machines_of_node(node: Object, caches: Caches) -> Iterable[Key]:
    wanted = node.get("spec", "providerID", default="")
    return [
        Key("", MACHINE, item.namespace, item.name)
        for item in _watched(caches, MACHINE)
        if wanted and wanted == item.get("spec", "providerID", default="")
    ]


# --- the reconcilers ---------------------------------------------------------------------------------------------------------


class CoreReconciler(ABC):
    """The steps that Clusters, MachinePools and Machines share. Everything is read live, so that no step sees stale data."""

    def __init__(self, infra: dict[str, Kind[Object]], latency: float) -> None:
        self._infra = infra
        self._latency = latency

    async def reconcile(self, object_: Object, ctx: Context[Object]) -> Outcome:
        """Read the objects live, and reconcile the object of this key."""
        result = await self._begin(object_, ctx)
        return Done() if result is None else await self.keep(*result, ctx)

    async def finalize(self, object_: Object, ctx: Context[Object]) -> Outcome:
        """Continue a deletion; Done removes the finalizer."""
        result = await self._begin(object_, ctx)
        if result is None:
            return Done() if await self._is_lost(object_, ctx) else RequeueAfter(_MISSING)
        manifest = await self._patch(result[0], {"status": {"phase": "Deleting"}}, ctx, "status")
        return Done() if await self.end(manifest, ctx) else RequeueAfter(_MISSING)

    async def _begin(self, object_: Object, ctx: Context[Object]) -> tuple[Json, Json] | None:
        """Return an object and its Cluster; None if the object is deleted, paused or without Cluster."""
        await asyncio.sleep(self._latency)
        what = ctx.key.kind
        try:
            manifest = (await ctx.client.get(what, object_.name, object_.namespace)).to_dict()
        except NotFound:
            return None
        manifest |= {"apiVersion": what.api_version, "kind": what.kind}
        cluster = manifest if what == CLUSTER else await self._cluster(manifest, ctx)
        if cluster is None:
            return None
        why = paused(manifest, cluster)
        state = ("Paused", "True", "Paused", why) if why else ("Paused", "False", "NotPaused", "")
        manifest = await self._conditions(manifest, [state], ctx)
        return None if why else (manifest, cluster)

    async def _is_lost(self, object_: Object, ctx: Context[Object]) -> bool:
        """Return whether an object that is deleted has no Cluster that could pause it."""
        return ctx.key.kind != CLUSTER and await self._cluster(object_.to_dict(), ctx) is None

    @abstractmethod
    async def keep(self, manifest: Json, cluster: Json, ctx: Context[Object]) -> Outcome:
        """Reconcile an object that is not under deletion."""

    async def end(self, manifest: Json, ctx: Context[Object]) -> bool:
        """Delete the infrastructure; True once it no longer exists."""
        what, infra = await self._infra_of(manifest, ctx)
        if what is None or infra is None:
            return what is not None  # an unknown kind cannot be read: the deletion hangs, as with the real core
        await self._delete_once(infra, ctx)
        return False

    async def _delete_once(self, manifest: Json, ctx: Context[Object]) -> None:
        metadata = manifest["metadata"]
        if not metadata.get("deletionTimestamp"):
            await ctx.delete(self._kind(manifest), metadata["name"], metadata.get("namespace", ""), uid=metadata["uid"])

    # --- reads ---

    async def _read(self, what: Kind[Object], name: str, manifest: Json, ctx: Context[Object]) -> Json | None:
        try:
            result = await ctx.client.get(what, name, manifest["metadata"]["namespace"])
        except NotFound:
            return None
        return {**result.to_dict(), "apiVersion": what.api_version, "kind": what.kind}

    async def _cluster(self, manifest: Json, ctx: Context[Object]) -> Json | None:
        try:
            result = await ctx.client.get(CLUSTER, manifest["spec"]["clusterName"], manifest["metadata"]["namespace"])
        except NotFound:
            return None
        return result.to_dict()

    async def _infra_of(self, manifest: Json, ctx: Context[Object]) -> tuple[Kind[Object] | None, Json | None]:
        spec = manifest["spec"] if "infrastructureRef" in manifest["spec"] else manifest["spec"]["template"]["spec"]
        reference = spec["infrastructureRef"]
        what = self._infra.get(reference["kind"])
        return (None, None) if what is None else (what, await self._read(what, reference["name"], manifest, ctx))

    async def _nodes(self, ctx: Context[Object]) -> list[Json]:
        return [item.to_dict() for item in (await ctx.client.list(NODE)).items]

    async def _connected(self, cluster: Json, ctx: Context[Object]) -> bool:
        """Return whether the Cluster has a kubeconfig Secret with the label: the core ignores a Secret without it."""
        metadata = cluster["metadata"]
        try:
            secret = await ctx.client.get(SECRET, f"{metadata['name']}-kubeconfig", metadata["namespace"])
        except NotFound:
            return False
        return secret.metadata.label(CLUSTER_LABEL) == metadata["name"] and bool(secret.get("data", "value"))

    # --- writes ---

    async def _patch(self, manifest: Json, patch: Json, ctx: Context[Object], subresource: str = "") -> Json:
        """Send the changing part of a merge patch, for exactly this version of the object; returns the object."""
        metadata = manifest["metadata"]
        changed = _differences(manifest, patch)
        if not changed:
            return manifest
        changed.setdefault("metadata", {})["resourceVersion"] = metadata["resourceVersion"]
        stored = await ctx.client.patch(
            self._kind(manifest),
            metadata["name"],
            metadata.get("namespace", ""),
            patch=changed,
            style="merge",
            subresource=subresource,
        )
        return {**stored.to_dict(), "apiVersion": manifest["apiVersion"], "kind": manifest["kind"]}

    def _kind(self, manifest: Json) -> Kind[Object]:
        return OWNERS.get(manifest["kind"]) or self._infra.get(manifest["kind"]) or NODE

    async def _conditions(
        self, manifest: Json, states: Iterable[tuple[str, str, str, str]], ctx: Context[Object]
    ) -> Json:
        result = {item["type"]: item for item in (manifest.get("status") or {}).get("conditions") or ()}
        for type_, status, reason, message in states:
            before = condition(manifest, type_)
            moved = before.get("lastTransitionTime") if before.get("status") == status else rfc3339(ctx.now())
            result[type_] = {
                "type": type_,
                "status": status,
                "reason": reason,
                "message": message,
                "observedGeneration": manifest["metadata"]["generation"],
                "lastTransitionTime": moved,
            }
        return await self._patch(manifest, {"status": {"conditions": list(result.values())}}, ctx, "status")

    async def _belong(self, manifest: Json, ctx: Context[Object]) -> Json:
        """Set the Cluster as a plain owner of its member."""
        cluster = await self._cluster(manifest, ctx)
        references = manifest["metadata"].get("ownerReferences") or []
        if cluster is None or any(reference["uid"] == cluster["metadata"]["uid"] for reference in references):
            return manifest
        mine = {
            "apiVersion": CLUSTER.api_version,
            "kind": "Cluster",
            "name": cluster["metadata"]["name"],
            "uid": cluster["metadata"]["uid"],
        }
        return await self._patch(manifest, {"metadata": {"ownerReferences": [*references, mine]}}, ctx)

    async def _adopt(self, infra: Json, manifest: Json, cluster: str, ctx: Context[Object]) -> bool:
        """Become the controller of the infrastructure; False if another object is."""
        patch = adoption(infra, manifest, cluster)
        if patch:
            await self._patch(infra, patch, ctx)
        return patch is not None

    async def _annotate(self, node: Json, annotations: Json, ctx: Context[Object]) -> None:
        await self._patch({"apiVersion": "v1", "kind": "Node", **node}, {"metadata": {"annotations": annotations}}, ctx)


class ClusterCore(CoreReconciler):
    """Reconciles Clusters."""

    async def keep(self, manifest: Json, cluster: Json, ctx: Context[Object]) -> Outcome:
        """Adopt the infrastructure and show its state."""
        what, infra = await self._infra_of(manifest, ctx)
        if what is None:
            return Done()
        if infra is not None and not await self._adopt(infra, manifest, manifest["metadata"]["name"], ctx):
            return Done()
        plane = await self._control_plane(manifest, ctx)
        if plane is not None and not await self._adopt(plane, manifest, manifest["metadata"]["name"], ctx):
            return Done()
        connected = await self._connected(cluster, ctx)
        spec, status, conditions = cluster_changes(manifest, infra, plane, connected=connected)
        manifest = await self._patch(manifest, {"spec": spec}, ctx)
        manifest = await self._patch(manifest, {"status": status}, ctx, "status")
        await self._conditions(manifest, conditions, ctx)
        if infra is None:
            return RequeueAfter(_MISSING)
        return Done() if connected else RequeueAfter(_PROBE)

    async def _control_plane(self, manifest: Json, ctx: Context[Object]) -> Json | None:
        reference = manifest["spec"].get("controlPlaneRef") or {}
        what = self._infra.get(reference.get("kind", ""))
        return None if what is None else await self._read(what, reference["name"], manifest, ctx)

    async def end(self, manifest: Json, ctx: Context[Object]) -> bool:
        """Delete the members, then the control plane, then the infrastructure, then the Cluster."""
        left = False
        for what in (MACHINE_POOL, MACHINE):
            for item in (await ctx.client.list(what, manifest["metadata"]["namespace"])).items:
                if item.spec["clusterName"] != manifest["metadata"]["name"]:
                    continue
                left = True
                if not item.metadata.deleting:
                    await ctx.delete(what, item.name, item.namespace, uid=item.metadata.uid)
        if left:
            return False
        plane = await self._control_plane(manifest, ctx)
        if plane is not None:
            await self._delete_once(plane, ctx)
            return False
        return await super().end(manifest, ctx)


class MachinePoolCore(CoreReconciler):
    """Reconciles MachinePools, and deletes a Node whose id leaves its pool. The Nodes of a deleted MachinePool stay."""

    async def keep(self, manifest: Json, cluster: Json, ctx: Context[Object]) -> Outcome:
        """Adopt the infrastructure, take its ids and replicas over, and pair Nodes."""
        manifest = await self._belong(manifest, ctx)
        what, infra = await self._infra_of(manifest, ctx)
        if what is None:  # no condition reports it
            await self._patch(manifest, {"status": {"phase": "Provisioning"}}, ctx, "status")
            return Done()
        if infra is not None and not await self._adopt(infra, manifest, cluster["metadata"]["name"], ctx):
            await self._patch(manifest, {"status": {"phase": "Provisioning"}}, ctx, "status")
            return RequeueAfter(_POOL_MISSING)
        connected = await self._connected(cluster, ctx)
        nodes = await self._nodes(ctx)
        spec, status, short = pool_changes(manifest, infra, nodes, connected=connected)
        ids = spec.get("providerIDList", manifest["spec"].get("providerIDList") or [])
        gone = retired(manifest, ids, nodes) if connected else []
        for node in gone:
            await ctx.delete(NODE, node["metadata"]["name"], uid=node["metadata"]["uid"])
        metadata = manifest["metadata"]
        for node in pairs(ids, nodes) if connected else ():
            annotations = {
                "cluster.x-k8s.io/cluster-name": cluster["metadata"]["name"],
                "cluster.x-k8s.io/cluster-namespace": metadata["namespace"],
                "cluster.x-k8s.io/owner-kind": "MachinePool",
                "cluster.x-k8s.io/owner-name": metadata["name"],
            }
            await self._annotate(node, annotations, ctx)
        manifest = await self._patch(manifest, {"spec": spec}, ctx)
        await self._patch(manifest, {"status": status}, ctx, "status")
        if infra is None:
            return RequeueAfter(_POOL_MISSING)
        if not connected:
            return RequeueAfter(_PROBE)
        return RequeueAfter(_NODES) if short else Done()


class MachineCore(CoreReconciler):
    """Reconciles Machines. With a control plane a deleted Machine's Node is cordoned, and deleted after the infrastructure; else it stays.

    Pods are not evicted.
    """

    async def keep(self, manifest: Json, cluster: Json, ctx: Context[Object]) -> Outcome:
        """Adopt the infrastructure, take its id and addresses over, and find the Node."""
        manifest = await self._belong(manifest, ctx)
        what, infra = await self._infra_of(manifest, ctx)
        if what is None:
            manifest = await self._patch(manifest, {"status": {"phase": "Pending"}}, ctx, "status")
            unknown = ("InfrastructureReady", "Unknown", "InternalError", "Please check controller logs for errors")
            await self._conditions(manifest, [unknown], ctx)
            return Done()
        if infra is not None and not await self._adopt(infra, manifest, cluster["metadata"]["name"], ctx):
            return Done()
        connected = await self._connected(cluster, ctx)
        nodes = await self._nodes(ctx)
        spec, status, conditions, node = machine_changes(manifest, infra, nodes, connected=connected)
        metadata = manifest["metadata"]
        if node is not None:
            annotations = {
                "cluster.x-k8s.io/cluster-name": cluster["metadata"]["name"],
                "cluster.x-k8s.io/cluster-namespace": metadata["namespace"],
                "cluster.x-k8s.io/machine": metadata["name"],
            }
            await self._annotate(node, annotations, ctx)
        manifest = await self._patch(manifest, {"spec": spec}, ctx)
        manifest = await self._patch(manifest, {"status": status}, ctx, "status")
        await self._conditions(manifest, conditions, ctx)
        if infra is None:
            return RequeueAfter(_MISSING)
        return Done() if connected else RequeueAfter(_PROBE)

    async def end(self, manifest: Json, ctx: Context[Object]) -> bool:
        """Cordon the Node, delete the infrastructure, then the Node."""
        cluster = await self._cluster(manifest, ctx)
        if cluster is None or not cluster["spec"].get("controlPlaneRef") or not await self._connected(cluster, ctx):
            return await super().end(manifest, ctx)
        name = ((manifest.get("status") or {}).get("nodeRef") or {}).get("name")
        node = next((item for item in await self._nodes(ctx) if item["metadata"]["name"] == name), None)
        if node is not None:
            node = await self._patch(
                {"apiVersion": "v1", "kind": "Node", **node}, {"spec": {"unschedulable": True}}, ctx
            )
        if not await super().end(manifest, ctx):
            return False
        if node is not None:
            await self._delete_once(node, ctx)
        return True


def _differences(manifest: Json, patch: Json) -> Json:
    """Return the part of a merge patch that would change an object."""
    result: Json = {}
    for name, wanted in patch.items():
        present = manifest.get(name)
        if isinstance(wanted, dict) and isinstance(present, dict):
            deeper = _differences(present, wanted)
            if deeper:
                result[name] = deeper
        elif wanted != present and not (wanted in ({}, None) and present is None):
            result[name] = wanted
    return result
