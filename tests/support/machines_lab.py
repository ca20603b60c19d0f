"""A lab that runs the family of machines against the double of Nstance in memory; a predicate checks every write."""

from __future__ import annotations

import asyncio
import base64
import math
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Self

from nstance_kit import dial

from konverge.client.credentials import TlsMaterial
from konverge.clock import rfc3339, wall_clock
from konverge.conditions import Condition
from konverge.crds import crd
from konverge.crds.machines_v1beta1 import (
    NstanceCluster,
    NstanceControlPlane,
    NstanceMachine,
    NstanceMachinePool,
    NstanceMachinePoolSpec,
    NstanceShardGroup,
)
from konverge.kinds import kind
from konverge.objects import Object
from konverge.reconcilers import machines
from konverge.reconcilers.machines.drains.timeout import drain_times
from konverge.reconcilers.machines.kinds import CLUSTER, CONFIG_MAP, MACHINE, MACHINE_POOL, NODE, POD, SECRET
from konverge.reconcilers.machines.settings import MachineSettings, OnDemandAllowance
from konverge.reconcilers.machines.shards.dialing import Dial
from konverge.reconcilers.machines.words import MachinesAnnotation, MachinesLabel
from konverge.runtime import Manager, ManagerSettings
from konverge_testing import Lab, install_crds
from konverge_testing.capi import CapiCore, definitions
from konverge_testing.capi.kinds import CLUSTER_LABEL
from konverge_testing.nstance import CallFault, CallOutcome, GroupSpec, NstanceShard, NstanceWorld
from konverge_testing.nstance.instances import DELETED, DELETING, RUNNING, Instance

NAME = "acme--blue"
_POLL = 90.0  # a third of the default's calls: a reference run takes hours
_LOOKS_BACK = _POLL + 5
"""Seconds in which a session lists its groups at least once."""
BUDGET = kind("policy/v1", "PodDisruptionBudget", namespaced=True, plural="poddisruptionbudgets")
KINDS = (NstanceCluster, NstanceControlPlane, NstanceMachinePool, NstanceShardGroup, NstanceMachine)
INFRASTRUCTURE = (NstanceCluster, NstanceControlPlane, NstanceMachinePool, NstanceMachine)


class KubernetesDecides:
    """The safety predicate, computed only from the stored objects and the calls. After a start of the operator no pool is imported before
    every shard has listed its groups. The replicas of a MachinePool are its initial replicas, or a value that the test wrote.
    """

    def __init__(self, farm: Farm) -> None:
        self._farm = farm
        self._seen: set[str] = set()
        self._replicas: dict[str, set[int]] = {}

    def __call__(self) -> None:
        store = self._farm.lab.server.store
        for entry in store.list(("infrastructure.cluster.x-k8s.io", "nstancemachinepools")):
            metadata = entry.object()["metadata"]
            if (
                metadata["name"] in self._seen
            ):  # not its uid: another client may restore a deleted pool with its annotation
                continue
            self._seen.add(metadata["name"])
            if MachinesAnnotation.MANAGED_BY in metadata.get("annotations", {}):
                silent = [name for name in self._farm.document if not self._farm.listed(name)]
                assert not silent, f"{metadata['name']} was imported before {silent} listed their groups"
        for entry in store.list(("cluster.x-k8s.io", "machinepools")):
            found = entry.object()
            uid, replicas = found["metadata"]["uid"], found["spec"].get("replicas", 0)
            allowed = self._replicas.setdefault(uid, {replicas})
            allowed |= self._farm.scaled.get(found["metadata"]["name"], set())
            assert replicas in allowed, f"{found['metadata']['name']} was scaled to {replicas}, which no user asked for"


class OneInstanceEach:
    """The safety predicate of NstanceMachines: no id is sent to a server before its object stores it, and no object has two instances."""

    def __init__(self, farm: Farm) -> None:
        self._farm = farm
        self._places: dict[str, set[str]] = {}
        self._heard: dict[str, int] = {}
        self._maker: dict[str, str] = {}

    def __call__(self) -> None:
        for entry in self._farm.lab.server.store.list(("infrastructure.cluster.x-k8s.io", "nstancemachines")):
            metadata = entry.object()["metadata"]
            place = metadata.get("annotations", {}).get(MachinesAnnotation.INSTANCE)
            if place:
                self._places.setdefault(place, set()).add(metadata["uid"])
        alive = set()
        for name, shard in self._farm.world.shards.items():
            begun = self._heard.get(name, 0)
            self._heard[name] = len(shard.calls)
            for call in shard.calls[begun:]:
                if call.method == "CreateInstance":
                    sent = f"{name}/{call.request.instance_id}"  # type: ignore[attr-defined]  # the message of this method
                    assert sent in self._places, f"{sent} was created before it was stored"
                    self._maker.setdefault(sent, min(self._places[sent]))
            for one in shard.state.fleet.instances.values():
                if not one.managed and one.status not in (DELETING, DELETED):
                    alive.add(f"{name}/{one.id}")
        makers = [self._maker[one] for one in alive if one in self._maker]
        assert len(makers) == len(set(makers)), f"an object has two instances: {sorted(alive)}"


class OneMachineEach:
    """The safety predicate of pods on demand: a Pod's uid never has two Machines, not even while a Machine is being deleted."""

    def __init__(self, farm: Farm) -> None:
        self._farm = farm

    def __call__(self) -> None:
        for group in ("cluster.x-k8s.io", "infrastructure.cluster.x-k8s.io"):
            plural = "machines" if group == "cluster.x-k8s.io" else "nstancemachines"
            names: dict[str, list[str]] = {}
            for entry in self._farm.lab.server.store.list((group, plural)):
                metadata = entry.object()["metadata"]
                uid = metadata.get("labels", {}).get(MachinesLabel.POD_UID)
                if uid:
                    names.setdefault(uid, []).append(metadata["name"])
            twice = {uid: found for uid, found in names.items() if len(found) > 1}
            assert not twice, f"pods have two {plural}: {twice}"


class IdsStay:
    """The safety predicate of pools: the id of a Node stays published while its instance runs, drains included.

    Cluster API deletes the Node of a removed id.
    """

    def __init__(self, farm: Farm) -> None:
        self._farm = farm
        self._published: dict[str, set[str]] = {}

    def __call__(self) -> None:
        running = self._farm.running_ids()
        for entry in self._farm.lab.server.store.list(("infrastructure.cluster.x-k8s.io", "nstancemachinepools")):
            found = entry.object()
            uid, ids = found["metadata"]["uid"], set(found["spec"].get("providerIDList", ()))
            if "deletionTimestamp" in found["metadata"]:
                continue
            lost = {one for one in self._published.get(uid, set()) - ids if one.rpartition("/")[2] in running}
            assert not lost, f"{found['metadata']['name']} dropped {sorted(lost)}, whose instances run"
            self._published[uid] = {one for one in ids if "/" in one}


class NodesStay:
    """The safety predicate of removed Nodes: a Node that a drain marked exists as long as its instance runs."""

    def __init__(self, farm: Farm) -> None:
        self._farm = farm
        self._marked: dict[str, str] = {}

    def __call__(self) -> None:
        found = {}
        for entry in self._farm.lab.server.store.list(("", "nodes")):
            metadata = entry.object()["metadata"]
            if MachinesLabel.DRAINED_BY in metadata.get("labels", {}):
                found[metadata["uid"]] = metadata.get("annotations", {}).get(MachinesAnnotation.INSTANCE, "")
        running = {
            f"{name}/{one.id}"
            for name, shard in self._farm.world.shards.items()
            for one in shard.state.fleet.instances.values()
            if one.status == RUNNING
        }
        lost = sorted(place for uid, place in self._marked.items() if uid not in found and place in running)
        assert not lost, f"the Nodes of {lost} were deleted, whose instances run"
        self._marked = found


class NothingIsLost:
    """The safety predicate of drains: a drain is acknowledged when no pod is left on the Node, or shortly before the deletion. An instance
    that was never drained may be acknowledged only if it has no pod.
    """

    def __init__(self, farm: Farm) -> None:
        self._farm = farm
        self._heard: dict[str, int] = {}
        self._occupied: dict[str, list[str]] = {}
        self.acknowledged: dict[str, int] = {}

    def __call__(self) -> None:
        for name, shard in self._farm.world.shards.items():
            begun = self._heard.get(name, 0)
            self._heard[name] = len(shard.calls)
            for call in shard.calls[begun:]:
                if call.method == "AcknowledgeDrained":
                    instance = call.request.instance_id  # type: ignore[attr-defined]  # the message of this method
                    self._check(name, shard.state.fleet.instances[instance], call.time)
        # Calls before the next write are checked against the pods after this write.
        self._occupied = self._pods()

    def _check(self, shard: str, one: Instance, time: float) -> None:
        place = f"{shard}/{one.id}"
        self.acknowledged[place] = self.acknowledged.get(place, 0) + 1
        left = self._occupied.get(one.provider_id, [])
        assert not left or time >= self._farm.gives_up(one), f"{place} was acknowledged with {left} at {time}"

    def _pods(self) -> dict[str, list[str]]:
        store = self._farm.lab.server.store
        nodes = {}
        for entry in store.list(("", "nodes")):
            node = entry.object()
            nodes[node["metadata"]["name"]] = node["spec"].get("providerID", "").rpartition("/")[2]
        found: dict[str, list[str]] = {}
        for entry in store.list(("", "pods")):
            pod = entry.object()
            owners = [one["kind"] for one in pod["metadata"].get("ownerReferences", ())]
            if "DaemonSet" not in owners and pod["spec"].get("nodeName") in nodes:
                found.setdefault(nodes[pod["spec"]["nodeName"]], []).append(pod["metadata"]["name"])
        return found


class AcknowledgedInTime:
    """The safety predicate of the ends of drains: each drain is acknowledged before the server deletes its instance, whatever its outcome.

    The predicate covers drains whose shard had a single session from a listing before the drain is given up until a listing after the
    deletion: a stopped process or a closed connection cannot acknowledge.
    """

    def __init__(self, farm: Farm) -> None:
        self._farm = farm
        self._ended: set[tuple[str, float]] = set()

    def __call__(self) -> None:
        now = asyncio.get_running_loop().time()
        for name, shard in self._farm.world.shards.items():
            for one in shard.state.fleet.instances.values():
                if one.last_drain is None:
                    continue
                place, delete = f"{name}/{one.id}", self._farm.at(one.last_drain.delete_at)
                drain = place, round(delete)
                if now < delete and one.status in (DELETING, DELETED):
                    self._ended.add(drain)  # acknowledged, or deleted by a call
                elif now > delete + _LOOKS_BACK and drain not in self._ended:
                    self._ended.add(drain)
                    begun = self._farm.at(one.last_drain.started)
                    told = any(begun <= time <= delete for time in self._farm.acknowledgements(name, one))
                    held = self._one_session(name, self._farm.gives_up(one) - 1, delete)
                    assert told or not held, f"{place} was not acknowledged before it was deleted at {delete}"

    def _one_session(self, shard: str, begin: float, end: float) -> bool:
        """Tell whether an operator listed groups shortly before and after, and followed instances in between without a restart."""
        lists, streams = [], []
        for call in self._farm[shard].calls:
            if call.method == "ListGroups" and call.outcome is CallOutcome.ANSWERED:
                lists.append(call.time)
            elif call.method == "WatchInstances":
                streams.append(call.time)
        first = max((time for time in lists if time < begin), default=-math.inf)
        last = min((time for time in lists if time > end), default=math.inf)
        if first < begin - _LOOKS_BACK or last > end + _LOOKS_BACK:
            return False
        return any(time <= first + 1 for time in streams) and not any(first + 1 < time <= last + 1 for time in streams)


class Farm:
    """A cluster of Nstance with its operator in a lab. `document` has the shards that the ConfigMap names."""

    def __init__(self, lab: Lab, *shards: str) -> None:
        self.lab = lab
        self.world = NstanceWorld(random=lab.rng())
        for name in shards or ("a", "b", "c"):
            self.world.add_shard(name)
        self.document: tuple[str, ...] = tuple(self.world.shards)
        self.scaled: dict[str, set[int]] = {}
        # Without the connection and the control plane that the operator provides: Cluster API notices the least then.
        self.settings = MachineSettings(
            namespace=lab.namespace,
            cluster_id="acme",
            tenant="blue",
            control_plane_stub=False,
            workload_account="",
            poll=_POLL,
            on_demand_allowances=(OnDemandAllowance(namespaces=("web",), groups=("workers",), instance_types=("g5",)),),
        )
        lab.always.append(KubernetesDecides(self))
        lab.always.append(OneInstanceEach(self))
        lab.always.append(IdsStay(self))
        lab.always.append(OneMachineEach(self))
        lab.always.append(NodesStay(self))
        self.drains = NothingIsLost(self)
        lab.always.append(AcknowledgedInTime(self))
        self._begun: dict[str, int] = {}
        lab.always.append(self.drains)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.world.close()

    def __getitem__(self, name: str) -> NstanceShard:
        return self.world.shards[name]

    def build(self, manager: Manager) -> None:
        standbys = [one.manager for one in self.lab.replicas() if one.manager not in self.lab.managers]
        if not any(one.leads for one in standbys):  # a running leader knows the shards' groups already
            self._begun = {name: len(shard.calls) for name, shard in self.world.shards.items()}

        async def dialed(tls: TlsMaterial) -> Dial:
            return dial(self.world, tls)

        machines.install(manager, self.settings, dial=dialed, entropy=self.lab.rng().randbytes, random=self.lab.rng())

    async def prepare(self) -> None:
        """Install the objects that the operator expects, except the document of shards."""
        await install_crds(self.lab.client, [*definitions(), *(crd(model) for model in KINDS)])
        space, names = self.lab.namespace, self.settings.identity_names
        ca = {"ca.crt": self.world.authority.certificate.decode()}
        await self.lab.client.create(CONFIG_MAP.new(names.ca_configmap, space, data=ca))
        await self.give_nonce()

    async def give_nonce(self) -> None:
        """Create the Secret with a nonce, as an administrator does. The nonce outlives the longest downtime of the operator in a plan."""
        nonce = base64.b64encode(self.world.nonce(life=timedelta(days=1)).encode()).decode()
        name = self.settings.identity_names.nonce_secret
        await self.lab.client.create(SECRET.new(name, self.lab.namespace, data={"nonce.jwt": nonce}))

    async def start(self, *, wait: bool = True) -> Farm:
        """Run the operator, and wait for a report of every shard in the document."""
        await self.prepare()
        await self.write_document()
        await self.operate()
        if wait:
            await self.cluster(lambda found: is_true(found.find_condition("ShardsReachable")))
        return self

    async def operate(self) -> None:
        """Run the operator, also again after `lab.stop()`."""
        # Do not wait for readiness: the first writes precede it, and a plan may end the process at any of them.
        await self.lab.start(self.build, settings=ManagerSettings(strict=True), wait=False)

    async def start_core(self, *, kubeconfig: bool = True) -> None:
        """Start the double of Cluster API's core, with the kubeconfig that it needs to pair Nodes."""
        core = CapiCore(self.lab.config, infrastructure=INFRASTRUCTURE, random=self.lab.rng())
        await self.lab.enter(core)
        if not kubeconfig:
            return
        data, labels = {"value": base64.b64encode(b"kubeconfig").decode()}, {CLUSTER_LABEL: NAME}
        await self.lab.client.create(SECRET.new(f"{NAME}-kubeconfig", self.lab.namespace, labels=labels, data=data))

    async def create_machine(self, name: str, *, failure_domain: str = "", group: str = "workers", **spec: Any) -> None:
        """Create an NstanceMachine with its Machine, as a user does."""
        await self.lab.create(NstanceMachine.decode({"metadata": {"name": name}, "spec": {"groupRef": group, **spec}}))
        await self.create_owner(name, failure_domain=failure_domain)

    async def create_owner(self, name: str, *, failure_domain: str = "") -> None:
        """Create the Machine of an NstanceMachine."""
        group = NstanceMachine.kind_of_resource().group
        reference = {"apiGroup": group, "kind": "NstanceMachine", "name": name}
        whole = {"clusterName": NAME, "bootstrap": {"dataSecretName": ""}, "infrastructureRef": reference}
        if failure_domain:
            whole["failureDomain"] = failure_domain
        await self.lab.create(MACHINE.new(name, spec=whole))

    async def machine(
        self, name: str, test: Callable[[NstanceMachine], bool] | None = None, *, timeout: float = 200.0
    ) -> NstanceMachine:
        """Wait until a test holds of an NstanceMachine; by default until its instance runs."""
        return await self.lab.until(
            NstanceMachine, name, test or (lambda one: is_true(one.find_condition("Ready"))), timeout=timeout
        )

    def crash_at(self, method: str, number: int, fault: CallFault) -> list[str]:
        """Kill the operator at a call of the servers, counted from 1 over all shards; returns a list that has the shard's name after the
        kill.

        The empty method matches every method.
        """
        crashed: list[str] = []
        seen = 0

        def chooser(shard: str, called: str) -> CallFault | None:
            nonlocal seen
            if method not in ("", called) or crashed:
                return None
            seen += 1
            if seen < number:
                return None
            crashed.append(shard)
            self.lab.crash()
            return fault

        for name, shard in self.world.shards.items():
            shard.faults.chooser = partial(chooser, name)
        return crashed

    def on_demand(self) -> dict[str, str]:
        """Return the status of each instance that was created on demand, by `shard/id`."""
        return {
            f"{name}/{one.id}": one.status
            for name, shard in self.world.shards.items()
            for one in shard.state.fleet.instances.values()
            if not one.managed
        }

    async def add_instance(self, shard: str, *, node: str = "", group: str = "workers") -> Instance:
        """Return the first instance of a group that runs on a shard, and create its Node."""
        fleet = self[shard].state.fleet

        def running() -> list[Instance]:
            return [one for one in fleet.counting(self.world.tenant, group) if one.status == RUNNING]

        await self.until(lambda: bool(running()))
        found = running()[0]
        if node:
            await self.add_node(node, f"aws:///us-west-2{shard}/{found.provider_id}")
        return found

    def drain(self, shard: str, instance: Instance, reason: str = "spot-interruption") -> None:
        """Begin a drain on the server."""
        self[shard].state.fleet.drain(instance, reason)

    def listed(self, shard: str) -> bool:
        """Tell whether a shard has sent its groups to the leader since the operator's last start."""
        calls = self[shard].calls[self._begun.get(shard, 0) :]
        return any(one.method == "ListGroups" and one.outcome is CallOutcome.ANSWERED for one in calls)

    def at(self, moment: datetime) -> float:
        """Return the loop's time for a moment of the wall clock."""
        return asyncio.get_running_loop().time() + (moment - wall_clock()).total_seconds()

    def gives_up(self, instance: Instance) -> float:
        """Return the earliest loop time of an acknowledgement with pods left, for the instance's last drain; infinity without a drain."""
        drain = instance.last_drain
        if drain is None:
            return math.inf
        left = (drain.delete_at - drain.started).total_seconds()
        times = drain_times(drain.delete_at, drain.started, timeout=left, margin=self.settings.drain_margin)
        # The clock of an event has microseconds, and the time of the loop does not.
        return self.at(drain.started) + times.give_up - 0.01

    def acknowledgements(self, shard: str, instance: Instance) -> list[float]:
        """Return when a drain was acknowledged."""
        return [
            call.time
            for call in self[shard].calls
            if call.method == "AcknowledgeDrained" and call.request.instance_id == instance.id  # type: ignore[attr-defined]  # the message of this method
        ]

    async def add_pod(self, name: str, node: str, *, grace: int = 0, **metadata: Any) -> None:
        """Create a pod that runs on a Node; with a grace period it ends when the test deletes it."""
        spec = {
            "nodeName": node,
            "terminationGracePeriodSeconds": grace,
            "containers": [{"name": "main", "image": "busybox"}],
        }
        await self.lab.create(POD.decode({"metadata": {"name": name, **metadata}, "spec": spec}))
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": rfc3339(wall_clock())}
        await self.lab.patch(POD, name, {"status": {"phase": "Running", "conditions": [ready]}}, subresource="status")

    async def demand(self, name: str, namespace: str = "", *, group: str = "workers", **annotations: str) -> Object:
        """Create a pod that requests an instance of its own; returns it as stored."""
        asks = {MachinesAnnotation.ON_DEMAND_GROUPS[0]: group, **annotations}
        metadata = {"name": name, "namespace": namespace or self.lab.namespace, "annotations": asks}
        spec = {"containers": [{"name": "main", "image": "busybox"}], "restartPolicy": "Never"}
        return await self.lab.create(POD.decode({"metadata": metadata, "spec": spec}))

    async def finish(self, pod: Object, phase: str = "Succeeded") -> None:
        """End a pod, as its kubelet does."""
        await self.lab.client.patch(
            POD, pod.name, pod.namespace, patch={"status": {"phase": phase}}, style="merge", subresource="status"
        )

    async def end(self, pod: Object) -> None:
        """Delete a pod without a grace period."""
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
        await self.lab.client.raw("DELETE", path, body={"gracePeriodSeconds": 0})

    async def machines_of(self, pod: Object) -> list[Object]:
        """Return the Machines of a pod as they are stored."""
        labels = f"{MachinesLabel.POD_UID}={pod.metadata.uid}"
        return list((await self.lab.client.list(MACHINE, labels=labels)).items)

    async def add_budget(self, name: str, *, allowed: int, **labels: str) -> None:
        """Create a PodDisruptionBudget that lets so many pods be evicted."""
        await self.lab.create(BUDGET.new(name, spec={"minAvailable": 1, "selector": {"matchLabels": labels}}))
        await self.allow(name, allowed)

    async def allow(self, name: str, allowed: int) -> None:
        """Write the status of a budget, as its controller does."""
        made = await self.lab.get(BUDGET, name)
        status = {
            "observedGeneration": made.metadata.generation,
            "disruptionsAllowed": allowed,
            "currentHealthy": 1 + allowed,
            "desiredHealthy": 1,
            "expectedPods": 1 + allowed,
        }
        await self.lab.patch(BUDGET, name, {"status": status}, subresource="status")

    async def write_document(self, *names: str, data: dict[str, str] | None = None) -> None:
        """Name these shards in the ConfigMap; without names the shards of `document`."""
        self.document = names or self.document
        chosen = data or {name: f"{name}.nstance:8993" for name in self.document}
        body = CONFIG_MAP.new(self.settings.shards_configmap, self.lab.namespace, data=chosen)
        await self.lab.client.apply(CONFIG_MAP, body.to_dict(), manager="admin", force=True)

    async def cluster(self, test: Callable[[NstanceCluster], bool], *, timeout: float = 200.0) -> NstanceCluster:
        return await self.lab.until(NstanceCluster, NAME, test, timeout=timeout)

    async def pool(
        self, name: str = "workers", test: Callable[[NstanceMachinePool], bool] | None = None, *, timeout: float = 200.0
    ) -> NstanceMachinePool:
        """Wait until a test holds of a pool; by default until it is Ready for its generation."""
        return await self.lab.until(NstanceMachinePool, name, test or settled, timeout=timeout)

    async def create_pool(self, name: str = "workers", replicas: int | None = 3, **spec: Any) -> None:
        """Create a pool with its MachinePool, as a user does."""
        whole = {"group": name, "shards": list(self.document), "template": "std", **spec}
        made = NstanceMachinePoolSpec.model_validate(whole)
        await self.lab.create(NstanceMachinePool.new(name, spec=made))
        if replicas is not None:
            await self.create_machine_pool(name, replicas)

    async def create_machine_pool(self, name: str, replicas: int, *, pool: str = "") -> None:
        group = NstanceMachinePool.kind_of_resource().group
        reference = {"apiGroup": group, "kind": "NstanceMachinePool", "name": pool or name}
        machine = {"clusterName": NAME, "bootstrap": {"dataSecretName": ""}, "infrastructureRef": reference}
        spec = {"clusterName": NAME, "replicas": replicas, "template": {"spec": machine}}
        await self.lab.create(MACHINE_POOL.new(name, spec=spec))

    async def scale(self, name: str, replicas: int) -> None:
        self.scaled.setdefault(name, set()).add(replicas)
        await self.lab.patch(MACHINE_POOL, name, {"spec": {"replicas": replicas}})

    async def pause(self, paused: bool) -> None:
        await self.lab.patch(CLUSTER, NAME, {"spec": {"paused": paused}})

    async def add_node(self, name: str, provider_id: str, **addresses: str) -> None:
        """Create a Node; with addresses by type its kubelet reports them."""
        await self.lab.client.create(NODE.new(name, spec={"providerID": provider_id}))
        if addresses:
            await self.show_addresses(name, **addresses)

    async def add_nodes(self, name: str, number: int, *, timeout: float = 400.0) -> None:
        """Let running instances of a pool join as Nodes, until Cluster API has paired so many: other instances may replace the first."""
        joined: list[str] = []
        limit = self.lab.limit(timeout)
        try:
            async with asyncio.timeout(limit):
                while True:
                    pool = await self.lab.get(NstanceMachinePool, name)
                    for one in sorted({*pool.spec.provider_id_list} & self.running_ids() - {*joined}):
                        await self.add_node(f"n{len(joined)}", f"aws:///us-west-2a/{one}")
                        joined.append(one)
                    if len((await self.lab.get(MACHINE_POOL, name)).status.get("nodeRefs", ())) == number:
                        return
                    await asyncio.sleep(1.0)
        except TimeoutError:
            raise AssertionError(f"not {number} Nodes of {name} were paired within {limit:g} s: {joined}") from None

    def running_ids(self) -> set[str]:
        """Return the provider ids of the running instances."""
        fleets = (shard.state.fleet.instances.values() for shard in self.world.shards.values())
        return {one.provider_id for fleet in fleets for one in fleet if one.status == RUNNING}

    async def show_addresses(self, name: str, **addresses: str) -> None:
        """Write the addresses of a Node, by type, as its kubelet does."""
        shown = [{"type": type_, "address": address} for type_, address in addresses.items()]
        await self.lab.client.patch(
            NODE, name, patch={"status": {"addresses": shown}}, style="merge", subresource="status"
        )

    def sizes(self, group: str = "workers") -> dict[str, int]:
        """Return the size of a group on each shard that has it."""
        found = {name: shard.groups.get(group) for name, shard in self.world.shards.items()}
        return {name: one.spec.size for name, one in found.items() if one is not None}

    def set_static(self, name: str, size: int, *, group: str = "workers", **spec: Any) -> None:
        self[name].set_static(group, GroupSpec("std", size, subnet_pool="private", **spec))

    async def until(self, holds: Callable[[], bool], *, timeout: float = 200.0) -> None:
        limit = self.lab.limit(timeout)
        try:
            async with asyncio.timeout(limit):
                while not holds():
                    await asyncio.sleep(0.2)
        except TimeoutError:
            raise AssertionError(f"it did not hold within {limit:g} s: {holds}") from None


def is_true(condition: Condition | None) -> bool:
    return condition is not None and condition.is_true


def settled(pool: NstanceMachinePool) -> bool:
    ready = pool.find_condition("Ready")
    return ready is not None and ready.is_true and ready.observed_generation == pool.metadata.generation
