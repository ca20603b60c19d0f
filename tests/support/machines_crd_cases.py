"""Objects of the kinds of Nstance that the API server itself must accept or reject: one table for the in-memory server and the real one."""

from __future__ import annotations

from typing import Any

from conformance.targets import Target
from crd_cases import Answer, Case, Server

from konverge.crds import CustomResource, crd
from konverge.crds.machines_v1beta1 import (
    GROUP,
    NstanceCluster,
    NstanceControlPlane,
    NstanceMachine,
    NstanceMachinePool,
    NstanceMachineTemplate,
    NstanceShardGroup,
)

KINDS: tuple[type[CustomResource[Any, Any]], ...] = (
    NstanceCluster,
    NstanceControlPlane,
    NstanceMachine,
    NstanceMachinePool,
    NstanceMachineTemplate,
    NstanceShardGroup,
)


def _object(kind: type[CustomResource[Any, Any]], spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/v1beta1", "kind": kind.__name__, "metadata": {"name": "x"}, "spec": spec}


def _case(kind: type[CustomResource[Any, Any]], spec: dict[str, Any], status: dict[str, Any], words: str) -> Case:
    return Case(_object(kind, spec), words, status=status)


def _change(kind: type[CustomResource[Any, Any]], before: dict[str, Any], after: dict[str, Any], words: str) -> Case:
    return Case(_object(kind, before), words, after={"spec": after})


POOL = {"group": "workers", "shards": ["us-west-2b", "us-west-2a"]}
SHARD_GROUP = {"group": "workers", "shard": "us-west-2a", "size": 2}

CASES: dict[str, Case] = {
    "an empty cluster": _case(NstanceCluster, {}, {}, ""),
    "a provisioned cluster with its shards": _case(
        NstanceCluster,
        {"controlPlaneEndpoint": {"host": "10.0.0.1", "port": 6443}},
        {"initialization": {"provisioned": True}, "failureDomains": [{"name": "us-west-2a", "controlPlane": True}]},
        "",
    ),
    "a shard twice": _case(NstanceCluster, {}, {"failureDomains": [{"name": "a"}, {"name": "a"}]}, "Duplicate value"),
    "failure domains as a map": _case(NstanceCluster, {}, {"failureDomains": {"a": {}}}, "must be of type array"),
    "a pool": _case(
        NstanceMachinePool,
        POOL,
        {"ready": True, "replicas": 0, "isStatic": False, "observedOwnerGeneration": 3},
        "",
    ),
    "a pool with everything": _case(
        NstanceMachinePool,
        {
            **POOL,
            "template": "std",
            "instanceType": "c7.large",
            "vars": {"a": ""},
            "subnets": ["x"],
            "providerIDList": ["i-1"],
        },
        {"template": "std", "subnets": ["x"]},
        "",
    ),
    "a pool with two subnets": _case(
        NstanceMachinePool, {**POOL, "subnets": ["x", "y"]}, {}, "must have at most 1 item"
    ),
    "a pool without shards": _case(NstanceMachinePool, {**POOL, "shards": []}, {}, "should have at least 1 items"),
    "a pool without a group": _case(NstanceMachinePool, {"shards": ["a"]}, {}, "spec.group: Required value"),
    "a pool with an empty group": _case(
        NstanceMachinePool, {**POOL, "group": ""}, {}, "should be at least 1 chars long"
    ),
    "a shard group": _case(
        NstanceShardGroup,
        SHARD_GROUP,
        {
            "providerIDs": ["i-1"],
            "config": {"template": "std", "vars": {"a": "b"}},
            "lastSyncTime": "2030-01-01T00:00:00Z",
        },
        "",
    ),
    "a shard group of fewer than none": _case(
        NstanceShardGroup,
        {**SHARD_GROUP, "size": -1},
        {},
        "greater than or equal to 0",
    ),
    "a machine of a group by name": _case(
        NstanceMachine, {"groupRef": "workers"}, {"instanceID": "knc1", "shard": "a"}, ""
    ),
    "a machine of a group by object": _case(
        NstanceMachine,
        {"groupRef": {"name": "workers"}, "providerID": "aws:///a/i-1", "failureDomain": "a"},
        {"providerID": "i-1", "failureDomain": "a", "addresses": [{"type": "InternalIP", "address": "10.0.0.2"}]},
        "",
    ),
    "a machine without a group": _case(NstanceMachine, {}, {}, "spec.groupRef: Required value"),
    "a template": _case(
        NstanceMachineTemplate,
        {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"groupRef": "workers"}}},
        {"capacity": {"cpu": "2"}, "nodeInfo": {"architecture": "amd64"}},
        "",
    ),
}


MACHINE = {"groupRef": {"name": "workers"}, "vars": {"zone": "a"}}


def template(spec: dict[str, Any], **labels: str) -> dict[str, Any]:
    return {"template": {"metadata": {"labels": {"a": "b", **labels}}, "spec": spec}}


_STAYS = "the specification of a template cannot be changed"
CHANGES: dict[str, Case] = {
    "a template that stays": _change(NstanceMachineTemplate, template(MACHINE), template(MACHINE), ""),
    "the labels of a template": _change(NstanceMachineTemplate, template(MACHINE), template(MACHINE, c="d"), ""),
    "the group of a template": _change(
        NstanceMachineTemplate,
        template(MACHINE),
        template({**MACHINE, "groupRef": {"name": "gpu"}}),
        _STAYS,
    ),
    "the form of the group of a template": _change(
        NstanceMachineTemplate,
        template(MACHINE),
        template({**MACHINE, "groupRef": "workers"}),
        _STAYS,
    ),
    "a new field of a template": _change(
        NstanceMachineTemplate,
        template(MACHINE),
        template({**MACHINE, "instanceType": "c7.large"}),
        _STAYS,
    ),
    "a field that leaves a template": _change(
        NstanceMachineTemplate,
        template(MACHINE),
        template({"groupRef": MACHINE["groupRef"]}),
        _STAYS,
    ),
    "a variable of a template": _change(
        NstanceMachineTemplate,
        template(MACHINE),
        template({**MACHINE, "vars": {"zone": "b"}}),
        _STAYS,
    ),
    "a machine": _change(NstanceMachine, MACHINE, {**MACHINE, "instanceType": "c7.large"}, ""),
}


async def ask(target: Target) -> dict[str, Answer]:
    """Install the definitions, and return the response to each case and change."""
    server = Server(target)
    await server.define(*map(crd, KINDS))
    return await server.play_all({**CASES, **CHANGES})
