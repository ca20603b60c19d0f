"""Objects of the kinds of Nstance that the API server itself must accept or reject: one table for the in-memory server and the real one."""

from typing import Any

from crd_cases import Case, Table

from konverge.crds import CustomResource
from konverge.crds.machines_v1beta1 import (
    GROUP,
    NstanceCluster,
    NstanceControlPlane,
    NstanceMachine,
    NstanceMachinePool,
    NstanceMachineTemplate,
    NstanceShardGroup,
)

Json = dict[str, Any]

KINDS: tuple[type[CustomResource[Any, Any]], ...] = (
    NstanceCluster,
    NstanceControlPlane,
    NstanceMachine,
    NstanceMachinePool,
    NstanceMachineTemplate,
    NstanceShardGroup,
)


def _object(kind: str, spec: Json) -> Json:
    return {"apiVersion": f"{GROUP}/v1beta1", "kind": f"Nstance{kind}", "metadata": {"name": "x"}, "spec": spec}


def _case(kind: str, spec: Json, words: str = "", **status: Any) -> Case:
    return Case(_object(kind, spec), words, status=status)


def _change(kind: str, before: Json, after: Json, words: str = "") -> Case:
    return Case(_object(kind, before), words, after={"spec": after})


def _template(spec: Json, **labels: str) -> Json:
    return {"template": {"metadata": {"labels": {"a": "b", **labels}}, "spec": spec}}


POOL = {"group": "workers", "shards": ["us-west-2b", "us-west-2a"]}
WHOLE_POOL = {**POOL, "template": "std", "instanceType": "c7.large", "vars": {"a": ""}, "subnets": ["x"], "providerIDList": ["i-1"]}  # fmt: skip
SHARD_GROUP = {"group": "workers", "shard": "us-west-2a", "size": 2}
SYNCED: Json = {
    "providerIDs": ["i-1"],
    "config": {"template": "std", "vars": {"a": "b"}},
    "lastSyncTime": "2030-01-01T00:00:00Z",
}
MACHINE: Json = {"groupRef": {"name": "workers"}, "vars": {"zone": "a"}}
BY_OBJECT = {"groupRef": {"name": "workers"}, "providerID": "aws:///a/i-1", "failureDomain": "a"}
ADDRESS = {"type": "InternalIP", "address": "10.0.0.2"}
STAYS = "the specification of a template cannot be changed"

CASES: dict[str, Case] = {
    "an empty cluster": _case("Cluster", {}),
    "a provisioned cluster with its shards": _case("Cluster", {"controlPlaneEndpoint": {"host": "10.0.0.1", "port": 6443}}, initialization={"provisioned": True}, failureDomains=[{"name": "us-west-2a", "controlPlane": True}]),
    "a shard twice": _case("Cluster", {}, "Duplicate value", failureDomains=[{"name": "a"}, {"name": "a"}]),
    "failure domains as a map": _case("Cluster", {}, "must be of type array", failureDomains={"a": {}}),
    "a pool": _case("MachinePool", POOL, ready=True, replicas=0, isStatic=False, observedOwnerGeneration=3),
    "a pool with everything": _case("MachinePool", WHOLE_POOL, template="std", subnets=["x"]),
    "a pool with two subnets": _case("MachinePool", {**POOL, "subnets": ["x", "y"]}, "must have at most 1 item"),
    "a pool without shards": _case("MachinePool", {**POOL, "shards": []}, "should have at least 1 items"),
    "a pool without a group": _case("MachinePool", {"shards": ["a"]}, "spec.group: Required value"),
    "a pool with an empty group": _case("MachinePool", {**POOL, "group": ""}, "should be at least 1 chars long"),
    "a shard group": _case("ShardGroup", SHARD_GROUP, **SYNCED),
    "a shard group of fewer than none": _case("ShardGroup", {**SHARD_GROUP, "size": -1}, "greater than or equal to 0"),
    "a machine of a group by name": _case("Machine", {"groupRef": "workers"}, instanceID="knc1", shard="a"),
    "a machine of a group by object": _case("Machine", BY_OBJECT, providerID="i-1", failureDomain="a", addresses=[ADDRESS]),
    "a machine without a group": _case("Machine", {}, "spec.groupRef: Required value"),
    "a template": _case("MachineTemplate", _template({"groupRef": "workers"}), capacity={"cpu": "2"}, nodeInfo={"architecture": "amd64"}),
}  # fmt: skip
"""Objects that are created, each with a status."""

CHANGES: dict[str, Case] = {
    "a machine": _change("Machine", MACHINE, {**MACHINE, "instanceType": "c7.large"}),
    **{
        name: _change("MachineTemplate", _template(MACHINE), after, words)
        for name, after, words in (
            ("a template that stays", _template(MACHINE), ""),
            ("the labels of a template", _template(MACHINE, c="d"), ""),
            ("the group of a template", _template({**MACHINE, "groupRef": {"name": "gpu"}}), STAYS),
            ("the form of the group of a template", _template({**MACHINE, "groupRef": "workers"}), STAYS),
            ("a new field of a template", _template({**MACHINE, "instanceType": "c7.large"}), STAYS),
            ("a field that leaves a template", _template({"groupRef": MACHINE["groupRef"]}), STAYS),
            ("a variable of a template", _template({**MACHINE, "vars": {"zone": "b"}}), STAYS),
        )
    },
}
"""Objects whose spec is changed."""

TABLE = Table(KINDS, {**CASES, **CHANGES})
