"""Plays the actions of users and the provider in a recording of Cluster API, against its double, and compares the core's actions.

A change in a recording is the core's own if it is one of these: owner references, the label of the Cluster and the deletion of
infrastructure; annotations of Cluster API on Nodes, and the deletion of a Node whose id no infrastructure names any more; everything of
Clusters, MachinePools and Machines but their creation, deletion, pause and replicas, and the nodeRef of a Machine without a connection to
the cluster of the Nodes. All others are played.
"""

from __future__ import annotations

import asyncio
import base64
import copy
from dataclasses import dataclass, field

from recordings import Json, lines, scenarios

from konverge.clock import rfc3339, wall_clock
from konverge.errors import NotFound
from konverge.kinds import Kind, kind
from konverge.objects import Object
from konverge_testing import Lab, install_crds
from konverge_testing.capi import CapiCore, definitions
from konverge_testing.capi.kinds import CLUSTER, CLUSTER_LABEL, INITIALIZED, MACHINE, MACHINE_POOL, NODE, SECRET

NOT_PLAYED = {
    "contract-labels": "the double reads no labels of definitions; tests/unit/machines/test_kinds.py checks ours",
    "machineset-clones": "the double has no MachineSets; its NstanceMachines are read by a test of their own",
    "pool-defaults": "the double has only the defaults, not the validation of the webhooks; a test of their own reads them",
    "pool-machine-kind": "no pool of ours names an infrastructureMachineKind",
    "rbac-other-group": "the double has every right, and our kinds are in the group that Cluster API may read",
    "workload-kubeconfig-rbac": "the double has every right; docs/reference/machines.md has the rights that it needs",
}
"""The recordings that are left out, and why."""
NAMES = [name for name in scenarios("capi") if name not in NOT_PLAYED]
INFRA: dict[str, Kind[Object]] = {
    name: kind("infrastructure.cluster.x-k8s.io/v1beta1", name, namespaced=True, plural=f"{name.lower()}s")
    for name in ("NstanceCluster", "NstanceMachinePool", "NstanceMachine", "NstanceControlPlane")
}
CONFIG_MAP = kind("v1", "ConfigMap", namespaced=True, plural="configmaps")
CORE: dict[str, Kind[Object]] = {"Cluster": CLUSTER, "MachinePool": MACHINE_POOL, "Machine": MACHINE}
KINDS = {**INFRA, **CORE, "Node": NODE}
ANSWERS = ("answer of ", "nodeRef {name} written: ")
"""Remarks about something that was done before, which begin no step."""
Place = tuple[str, str]


@dataclass
class Step:
    """The events from one remark of the recording to the next."""

    time: float
    text: str
    events: list[tuple[str, Json]] = field(default_factory=list)


def steps(name: str) -> list[Step]:
    found: list[Step] = []
    for line in lines("capi", name):
        if line.step and not (found and line.step.startswith(ANSWERS)):
            found.append(Step(line.at, line.step))
        elif line.object:
            found[-1].events.append((line.type, line.object))
    return found


def _definition(name: str) -> Json:
    """Return the definition of an infrastructure kind with open fields, which the recordings used too."""
    group, plural = "infrastructure.cluster.x-k8s.io", f"{name.lower()}s"
    open_ = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": open_, "status": open_}}
    version = {"name": "v1beta1", "served": True, "storage": True, "subresources": {"status": {}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": name, "listKind": f"{name}List", "plural": plural, "singular": name.lower()},
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def place(made: Json) -> Place:
    return made["kind"], made["metadata"]["name"]


def _conditions(made: Json, *types: str) -> Json:
    found = {one["type"]: one for one in (made.get("status") or {}).get("conditions") or ()}
    return {
        name: (found[name]["status"], found[name]["reason"], found[name].get("message", ""))
        for name in types
        if name in found
    }


def shown(made: Json) -> Json:
    """Return the fields of an object that are compared."""
    metadata, spec, status = made["metadata"], made.get("spec") or {}, made.get("status") or {}
    owners = [(one["kind"], one["name"], one.get("controller", False)) for one in metadata.get("ownerReferences") or ()]
    common = {"owners": owners, "deleting": "deletionTimestamp" in metadata}
    if made["kind"] in INFRA:
        return {**common, "label": (metadata.get("labels") or {}).get(CLUSTER_LABEL)}
    if made["kind"] == "Node":
        mine = {"cluster-name", "cluster-namespace", "owner-kind", "owner-name", "machine"}
        found = {name.rpartition("/")[2]: value for name, value in (metadata.get("annotations") or {}).items()}
        found["cluster-namespace"] = "team" if "cluster-namespace" in found else ""  # the name in the recordings
        shown_ = {name: value for name, value in found.items() if name in mine and value}
        return {**shown_, "unschedulable": spec.get("unschedulable", False)}
    common["finalizers"] = metadata.get("finalizers") or []
    common["provisioned"] = bool((status.get("initialization") or {}).get("infrastructureProvisioned"))
    common["phase"] = status.get("phase")
    if made["kind"] == "Cluster":
        wanted: tuple[str, ...] = ("Paused", "InfrastructureReady", "RemoteConnectionProbe")
        if "controlPlaneRef" in spec:
            wanted += (INITIALIZED,)
        domains, endpoint = status.get("failureDomains") or [], spec.get("controlPlaneEndpoint")
        return {**common, "endpoint": endpoint, "domains": domains, **_conditions(made, *wanted)}
    if made["kind"] == "Machine":
        fields = {name: spec.get(name) for name in ("providerID", "failureDomain")}
        node, addresses = (status.get("nodeRef") or {}).get("name"), status.get("addresses")
        return {
            **common,
            **fields,
            "node": node,
            "addresses": addresses,
            **_conditions(made, "Paused", "InfrastructureReady"),
        }
    counts = {name: status.get(name) or 0 for name in ("replicas", "readyReplicas", "availableReplicas")}
    nodes = [one["name"] for one in status.get("nodeRefs") or ()]
    return {**common, **counts, "ids": spec.get("providerIDList") or [], "nodes": nodes, **_conditions(made, "Paused")}


class CapiReplay:
    """One recording, played against the double in the lab's namespace."""

    def __init__(self, lab: Lab, name: str) -> None:
        self.lab = lab
        self.steps = steps(name)
        self.recorded: dict[Place, Json] = {}
        self._connected = False

    async def run(self) -> list[tuple[str, dict[Place, Json], dict[Place, Json]]]:
        """Return for each step its text, and the objects of the recording and of the double at its end."""
        await install_crds(self.lab.client, [*definitions(), *(_definition(name) for name in INFRA)])
        core = CapiCore(self.lab.config, infrastructure=INFRA.values(), latency=0.5, random=self.lab.rng())
        await self.lab.enter(core)
        found = []
        ends = [step.time for step in self.steps[1:]] + [self.steps[-1].time + 40]
        for step, end in zip(self.steps, ends, strict=True):
            began = asyncio.get_running_loop().time()
            await self._remark(step.text)
            for type_, made in step.events:
                await self._play(type_, made)
            late = end - step.time - (asyncio.get_running_loop().time() - began)
            await asyncio.sleep(max(late, 2.5))
            found.append((step.text, {at: shown(made) for at, made in self.recorded.items()}, await self._present()))
        return found

    async def _present(self) -> dict[Place, Json]:
        found = {}
        for name, what in KINDS.items():
            for one in (await self.lab.client.list(what, self.lab.namespace if what.namespaced else None)).items:
                found[name, one.name] = shown({"kind": name, **one.to_dict()})
        return found

    async def _remark(self, text: str) -> None:
        if text == "label added":
            patch = {"metadata": {"labels": {CLUSTER_LABEL: "c1"}}}
            await self.lab.client.patch(SECRET, "c1-kubeconfig", self.lab.namespace, patch=patch, style="merge")
        made = (
            "kubeconfig Secret of this same API server",
            "kubeconfig Secret with label",
            "kubeconfig Secret created",
        )
        if any(one in text for one in made) and "no kubeconfig Secret" not in text:
            data = {"value": base64.b64encode(b"kubeconfig").decode()}
            labels, self._connected = {} if "WITHOUT the label" in text else {CLUSTER_LABEL: "c1"}, True
            await self.lab.client.create(SECRET.new("c1-kubeconfig", self.lab.namespace, labels=labels, data=data))

    # --- what users and the provider did -------------------------------------------------------------------------------------

    async def _play(self, type_: str, made: Json) -> None:
        before = self.recorded.get(place(made))
        if type_ == "DELETED":
            self.recorded.pop(place(made), None)
            await self._deleted(made)
            return
        self.recorded[place(made)] = made
        if before is None:
            await self._created(made)
        else:
            await self._changed(before, made)

    def _space(self, made: Json) -> str:
        return self.lab.namespace if KINDS[made["kind"]].namespaced else ""

    async def _created(self, made: Json) -> None:
        metadata = made["metadata"]
        kept = {
            name: metadata[name]
            for name in ("name", "labels", "annotations", "finalizers", "ownerReferences")
            if name in metadata
        }
        what = KINDS[made["kind"]]
        for one in kept.get(
            "ownerReferences", ()
        ):  # an owner that does not exist would let the garbage collector delete it
            if one["kind"] == "ConfigMap":
                there = await self.lab.client.create(CONFIG_MAP.new(one["name"], self.lab.namespace))
                kept["ownerReferences"] = [{**one, "uid": there.metadata.uid}]
        body = {
            "apiVersion": what.api_version,
            "kind": made["kind"],
            "metadata": copy.deepcopy(kept),
            "spec": made.get("spec") or {},
        }
        for name in ("finalizers", "ownerReferences"):
            if made["kind"] not in INFRA:
                body["metadata"].pop(name, None)
        if self._space(made):
            body["metadata"]["namespace"] = self._space(made)
        await self.lab.client.create(Object(body))
        if made["kind"] not in CORE and made.get("status"):
            await self._patch(made, {"status": made["status"]}, "status")

    async def _changed(self, before: Json, made: Json) -> None:
        if made["kind"] in INFRA:
            await self._infra_changed(before, made)
        elif made["kind"] == "Node":
            if made.get("status") != before.get("status"):
                await self._patch(made, {"status": {"conditions": made["status"]["conditions"]}}, "status")
        else:
            await self._core_changed(before, made)

    async def _infra_changed(self, before: Json, made: Json) -> None:
        if _began(before, made) and not self._owner_is_going():
            await self._delete(made)
            return
        if made.get("spec") != before.get("spec"):
            await self._patch(made, {"spec": _replacing(before.get("spec"), made.get("spec"))})
        if isinstance((made.get("status") or {}).get("failureDomains"), dict):
            await asyncio.sleep(3)  # the core needs time to see the object without them
        if made.get("status") != before.get("status"):
            await self._patch(made, {"status": _replacing(before.get("status"), made.get("status"))}, "status")
        old, new = before["metadata"], made["metadata"]
        if set(new.get("finalizers") or ()) - set(old.get("finalizers") or ()):
            await self._patch(made, {"metadata": {"finalizers": new["finalizers"]}})
        removed = [one for one in old.get("ownerReferences") or () if one not in (new.get("ownerReferences") or ())]
        if removed and removed[0]["kind"] == "ConfigMap":
            live = (await self.lab.get(KINDS[made["kind"]], new["name"])).to_dict()["metadata"]["ownerReferences"]
            kept = [{**one, "controller": False} if one["kind"] == "ConfigMap" else one for one in live]
            await self._patch(made, {"metadata": {"ownerReferences": kept}})
        elif removed:
            labels = dict.fromkeys((old.get("labels") or {}).keys() - (new.get("labels") or {}).keys())
            await self._patch(made, {"metadata": {"ownerReferences": new.get("ownerReferences"), "labels": labels}})

    async def _core_changed(self, before: Json, made: Json) -> None:
        if _began(before, made) and not (made["kind"] != "Cluster" and self._cluster_is_going()):
            await self._delete(made)
            return
        for name in ("paused", "replicas"):
            if made["spec"].get(name) != before["spec"].get(name):
                await self._patch(made, {"spec": {name: made["spec"].get(name)}})
        old, new = (one["metadata"].get("annotations") or {} for one in (before, made))
        if old != new:
            await self._patch(made, {"metadata": {"annotations": _replacing(old, new)}})
        node, known = ((one.get("status") or {}).get("nodeRef") for one in (made, before))
        if (
            made["kind"] == "Machine" and node != known and not self._connected
        ):  # the core pairs no Node, so the provider did
            await self._patch(made, {"status": {"nodeRef": node}}, "status")
        by_hand = [one for one in _all_conditions(made) if one["type"] == INITIALIZED and one["status"] == "True"]
        if "controlPlaneRef" in made["spec"]:
            by_hand = []  # the core has it from the control plane
        if by_hand and not any(one == by_hand[0] for one in _all_conditions(before)):
            await asyncio.sleep(3)  # the core needs time to write its conditions
            live = (await self.lab.get(CLUSTER, made["metadata"]["name"])).to_dict()
            others = [one for one in _all_conditions(live) if one["type"] != INITIALIZED]
            mine = {**by_hand[0], "lastTransitionTime": rfc3339(wall_clock())}
            await self._patch(made, {"status": {"conditions": [*others, mine]}}, "status")

    async def _deleted(self, made: Json) -> None:
        if made["kind"] in INFRA:
            if made["metadata"].get("deletionTimestamp"):
                await self._patch(made, {"metadata": {"finalizers": None}}, missing=True)
            elif not self._owner_is_going():
                await self._delete(made)
        elif made["kind"] == "Node" and made["spec"]["providerID"] in self._named():
            await self._delete(made)

    def _named(self) -> set[str]:
        specs = [one.get("spec") or {} for (what, _), one in self.recorded.items() if what in INFRA]
        return {one for spec in specs for one in (spec.get("providerIDList") or ())} | {
            spec["providerID"] for spec in specs if "providerID" in spec
        }

    def _cluster_is_going(self) -> bool:
        return any(
            "deletionTimestamp" in one["metadata"] for (what, _), one in self.recorded.items() if what == "Cluster"
        )

    def _owner_is_going(self) -> bool:
        return any("deletionTimestamp" in one["metadata"] for (what, _), one in self.recorded.items() if what in CORE)

    async def _delete(self, made: Json) -> None:
        await self.lab.client.delete(KINDS[made["kind"]], made["metadata"]["name"], self._space(made))

    async def _patch(self, made: Json, patch: Json, subresource: str = "", *, missing: bool = False) -> None:
        what, name = KINDS[made["kind"]], made["metadata"]["name"]
        try:
            await self.lab.client.patch(
                what, name, self._space(made), patch=patch, style="merge", subresource=subresource
            )
        except NotFound:
            if not missing:
                raise


def _began(before: Json, made: Json) -> bool:
    return "deletionTimestamp" in made["metadata"] and "deletionTimestamp" not in before["metadata"]


def _all_conditions(made: Json) -> list[Json]:
    return list((made.get("status") or {}).get("conditions") or ())


def _replacing(before: Json | None, after: Json | None) -> Json:
    """Return the merge patch from one state to another."""
    old, new = before or {}, after or {}
    found: Json = dict.fromkeys(old.keys() - new.keys())
    for name, value in new.items():
        if isinstance(value, dict) and isinstance(old.get(name), dict):
            found[name] = _replacing(old[name], value)
        elif old.get(name) != value:
            found[name] = value
    return found
