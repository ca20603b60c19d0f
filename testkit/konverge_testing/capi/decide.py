"""The writes of the core of Cluster API to a Cluster, a MachinePool or a Machine, from the objects as they are. Pure.

The functions take objects as plain JSON data and return merge patches. They are compared with recordings of the core controller of
v1.12.11 in `testkit/tests/unit/kit/test_capi_recordings.py`; docs/reference/machines.md#the-core-of-cluster-api holds the facts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from konverge_testing.capi.kinds import CLUSTER_LABEL, INITIALIZED, MANAGED_REPLICAS, PAUSED

__all__ = [
    "Json",
    "adoption",
    "cluster_changes",
    "condition",
    "initialized",
    "machine_changes",
    "pairs",
    "paused",
    "pool_changes",
    "retired",
]

Json: TypeAlias = dict[str, Any]


def condition(manifest: Mapping[str, Any], type_: str) -> Json:
    """Return a condition of an object; an empty one if it has none."""
    conditions = (manifest.get("status") or {}).get("conditions") or ()
    return next((item for item in conditions if item["type"] == type_), {})


def initialized(cluster: Mapping[str, Any]) -> bool:
    """Return whether the control plane of a Cluster is initialized: only then are its Nodes watched."""
    return bool(condition(cluster, INITIALIZED).get("status") == "True")


def paused(manifest: Mapping[str, Any], cluster: Mapping[str, Any]) -> str:
    """Return why an object is paused, "" if it is not."""
    if cluster["spec"].get("paused"):
        return "Cluster spec.paused is set to true"
    return (
        f"{manifest['kind']} has the {PAUSED} annotation"
        if PAUSED in (manifest["metadata"].get("annotations") or {})
        else ""
    )


def adoption(infra: Mapping[str, Any], owner: Mapping[str, Any], cluster: str) -> Json | None:
    """Return the patch that sets an owner as the controller of its infrastructure; None if another object is its controller."""
    mine = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata = infra["metadata"]
    others = [
        owner_reference
        for owner_reference in metadata.get("ownerReferences") or ()
        if owner_reference["uid"] != mine["uid"]
    ]
    # A recreated owner replaces the reference to its predecessor of the same name.
    others = [other for other in others if (other["kind"], other["name"]) != (mine["kind"], mine["name"])]
    if any(other.get("controller") for other in others):
        return None
    wanted = [*others, mine]
    labelled = (metadata.get("labels") or {}).get(CLUSTER_LABEL) == cluster
    if labelled and wanted == metadata.get("ownerReferences"):
        return {}
    return {"metadata": {"labels": {CLUSTER_LABEL: cluster}, "ownerReferences": wanted}}


def _mirror(
    infra: Mapping[str, Any] | None, kind: str, *, done: bool, reached: bool, noun: str
) -> tuple[str, str, str]:
    """Return status, reason and message of InfrastructureReady."""
    if infra is None:
        return (
            ("False", "ObjectDeleted", f"{kind} has been deleted while the {noun} still exists")
            if done
            else ("False", "ObjectDoesNotExist", f"{kind} does not exist")
        )
    shown = condition(infra, "Ready")
    if shown:
        return shown["status"], shown["reason"], shown.get("message", "")
    if reached:
        return "True", "Ready", ""
    return "False", "NotReady", f"{kind} status.initialization.provisioned is false"


def cluster_changes(
    cluster: Json, infra: Json | None, plane: Json | None = None, *, connected: bool
) -> tuple[Json, Json, list[tuple[str, str, str, str]]]:
    """Return a Cluster's spec patch, status patch and conditions; `plane` is its control plane, if any.

    Failure domains in the form of a map, as of v1beta1, fail the whole reconcile, and only the log reports it.
    """
    spec: Json = {}
    status: Json = {}
    shown = (infra or {}).get("status") or {}
    if isinstance(shown.get("failureDomains"), dict):
        return spec, status, []
    reached = bool((shown.get("initialization") or {}).get("provisioned"))
    before = cluster.get("status") or {}
    done = bool((before.get("initialization") or {}).get("infrastructureProvisioned"))
    if reached:
        endpoint = ((infra or {}).get("spec") or {}).get("controlPlaneEndpoint") or {}
        if endpoint and not (cluster["spec"].get("controlPlaneEndpoint") or {}).get("host"):
            spec["controlPlaneEndpoint"] = endpoint
        status["failureDomains"] = shown.get("failureDomains")
        status["initialization"] = {"infrastructureProvisioned": True}
    if cluster["metadata"].get("deletionTimestamp"):
        status["phase"] = "Deleting"
    else:
        endpoint = spec.get("controlPlaneEndpoint") or cluster["spec"].get("controlPlaneEndpoint") or {}
        status["phase"] = "Provisioned" if (done or reached) and endpoint.get("host") else "Provisioning"
    kind = cluster["spec"]["infrastructureRef"]["kind"]
    conditions = [("InfrastructureReady", *_mirror(infra, kind, done=done, reached=reached, noun="cluster"))]
    conditions.append(
        ("RemoteConnectionProbe", "True", "ProbeSucceeded", "")
        if connected
        else ("RemoteConnectionProbe", "False", "ProbeFailed", "Remote connection not established yet")
    )
    if plane is not None and not initialized(cluster):
        begun = ((plane.get("status") or {}).get("initialization") or {}).get("controlPlaneInitialized")
        state = (
            ("True", "Initialized", "") if begun else ("False", "NotInitialized", "Control plane not yet initialized")
        )
        conditions.append((INITIALIZED, *state))
    elif not condition(cluster, INITIALIZED):
        message = "Waiting for the first control plane machine to have status.nodeRef set"
        conditions.append((INITIALIZED, "False", "NotInitialized", message))
    return spec, status, conditions


def pairs(ids: Iterable[str], nodes: Iterable[Json]) -> list[Json]:
    """Return the Nodes whose provider id is exactly one of these, in the order of the ids."""
    result = {node.get("spec", {}).get("providerID"): node for node in nodes}
    return [result[item] for item in ids if item in result]


def retired(pool: Json, ids: Iterable[str], nodes: Iterable[Json]) -> list[Json]:
    """Return a MachinePool's paired Nodes whose id has left the list: they are deleted.

    An empty list retires none while the MachinePool wants replicas.
    """
    kept = set(ids)
    before = {node_ref["name"] for node_ref in (pool.get("status") or {}).get("nodeRefs") or ()}
    if not kept and pool["spec"].get("replicas", 0):
        return []
    return [
        node
        for node in nodes
        if node["metadata"]["name"] in before and node.get("spec", {}).get("providerID") not in kept
    ]


def _ready(node: Mapping[str, Any]) -> bool:
    return bool(condition(node, "Ready").get("status") == "True")


def pool_changes(pool: Json, infra: Json | None, nodes: list[Json], *, connected: bool) -> tuple[Json, Json, bool]:
    """Return the spec patch, the status patch, and whether Nodes are missing, so that the reconcile is repeated later."""
    spec: Json = {}
    status: Json = {}
    shown = {} if infra is None else infra.get("status") or {}
    before = pool.get("status") or {}
    provisioned = (
        bool(shown.get("ready"))
        if infra is not None
        else bool((before.get("initialization") or {}).get("infrastructureProvisioned"))
    )
    status["initialization"] = {"bootstrapDataSecretCreated": True, "infrastructureProvisioned": provisioned}
    ids = list(pool["spec"].get("providerIDList") or ())
    count, refs = before.get("replicas", 0), [node_ref["name"] for node_ref in before.get("nodeRefs") or ()]
    ready = sum(_ready(node) for node in nodes if node["metadata"]["name"] in refs)
    if connected and provisioned and infra is not None:
        listed = list(infra["spec"].get("providerIDList") or ())
        replicas = shown.get("replicas", 0)
        if listed or not replicas:
            if listed != ids:
                spec["providerIDList"] = ids = listed
            count = replicas
            status |= dict.fromkeys(("replicas", "readyReplicas", "availableReplicas"), replicas)
        if ids or not pool["spec"].get("replicas", 0):
            paired = pairs(ids, nodes)
            refs = [node["metadata"]["name"] for node in paired]
            status["nodeRefs"] = [_reference(node) for node in paired]
            ready = sum(_ready(node) for node in paired)
        else:
            ready = 0
    wanted = pool["spec"].get("replicas", 0)
    if pool["metadata"].get("deletionTimestamp"):
        status["phase"] = "Deleting"
    elif not provisioned:
        status["phase"] = "Provisioning"
    else:
        status["phase"] = "ScalingUp" if wanted > ready else "ScalingDown" if wanted < ready else "Running"
        if wanted != ready and MANAGED_REPLICAS in (pool["metadata"].get("annotations") or {}):
            status["phase"] = "Scaling"
    return spec, status, bool(refs) and ready != count


def _reference(node: Json) -> Json:
    return {"apiVersion": "v1", "kind": "Node", "name": node["metadata"]["name"], "uid": node["metadata"]["uid"]}


def machine_changes(
    machine: Json, infra: Json | None, nodes: list[Json], *, connected: bool
) -> tuple[Json, Json, list[tuple[str, str, str, str]], Json | None]:
    """Return a Machine's spec patch, status patch, conditions and Node."""
    spec: Json = {}
    status: Json = {}
    before = machine.get("status") or {}
    done = bool((before.get("initialization") or {}).get("infrastructureProvisioned"))
    shown = {} if infra is None else infra.get("status") or {}
    reached = bool((shown.get("initialization") or {}).get("provisioned"))
    provider_id = ((infra or {}).get("spec") or {}).get("providerID")
    if infra is not None and (reached or done) and provider_id:
        for name in ("providerID", "failureDomain"):
            value = infra["spec"].get(name)
            if value and value != machine["spec"].get(name):
                spec[name] = value
        status["initialization"] = {"infrastructureProvisioned": True}
        if shown.get("addresses"):
            status["addresses"] = shown["addresses"]
        done = True
    result = pairs([provider_id or machine["spec"].get("providerID") or ""], nodes) if connected and done else []
    node = result[0] if result else None
    if node is not None:
        status["nodeRef"] = {"name": node["metadata"]["name"]}
    if machine["metadata"].get("deletionTimestamp"):
        status["phase"] = "Deleting"
    elif done:
        status["phase"] = "Running" if node is not None or before.get("nodeRef") else "Provisioned"
    else:
        status["phase"] = "Pending"
    kind = machine["spec"]["infrastructureRef"]["kind"]
    deleting = bool(machine["metadata"].get("deletionTimestamp"))
    mirrored = _mirror(infra, kind, done=done, reached=reached and bool(provider_id), noun="Machine")
    if infra is None and deleting:
        mirrored = "False", "ObjectDeleted", f"{kind} has been deleted"
    return spec, status, [("InfrastructureReady", *mirrored)], node
