"""Objects of the kinds of Nstance that the API server itself must accept or reject: one table for the in-memory server and the real one."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from conformance.targets import Target

from konverge.crds import CustomResource, crd, declaration_of
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

Case = tuple[type[CustomResource[Any, Any]], dict[str, Any], dict[str, Any], str]
"""Kind, spec, status ({}: not written), and a part of the refusal of the last write; "": it must be accepted."""

POOL = {"group": "workers", "shards": ["us-west-2b", "us-west-2a"]}
SHARD_GROUP = {"group": "workers", "shard": "us-west-2a", "size": 2}

CASES: dict[str, Case] = {
    "an empty cluster": (NstanceCluster, {}, {}, ""),
    "a provisioned cluster with its shards": (
        NstanceCluster,
        {"controlPlaneEndpoint": {"host": "10.0.0.1", "port": 6443}},
        {"initialization": {"provisioned": True}, "failureDomains": [{"name": "us-west-2a", "controlPlane": True}]},
        "",
    ),
    "a shard twice": (NstanceCluster, {}, {"failureDomains": [{"name": "a"}, {"name": "a"}]}, "Duplicate value"),
    "failure domains as a map": (NstanceCluster, {}, {"failureDomains": {"a": {}}}, "must be of type array"),
    "a pool": (
        NstanceMachinePool,
        POOL,
        {"ready": True, "replicas": 0, "isStatic": False, "observedOwnerGeneration": 3},
        "",
    ),
    "a pool with everything": (
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
    "a pool with two subnets": (NstanceMachinePool, {**POOL, "subnets": ["x", "y"]}, {}, "must have at most 1 item"),
    "a pool without shards": (NstanceMachinePool, {**POOL, "shards": []}, {}, "should have at least 1 items"),
    "a pool without a group": (NstanceMachinePool, {"shards": ["a"]}, {}, "spec.group: Required value"),
    "a pool with an empty group": (NstanceMachinePool, {**POOL, "group": ""}, {}, "should be at least 1 chars long"),
    "a shard group": (
        NstanceShardGroup,
        SHARD_GROUP,
        {
            "providerIDs": ["i-1"],
            "config": {"template": "std", "vars": {"a": "b"}},
            "lastSyncTime": "2030-01-01T00:00:00Z",
        },
        "",
    ),
    "a shard group of fewer than none": (
        NstanceShardGroup,
        {**SHARD_GROUP, "size": -1},
        {},
        "greater than or equal to 0",
    ),
    "a machine of a group by name": (NstanceMachine, {"groupRef": "workers"}, {"instanceID": "knc1", "shard": "a"}, ""),
    "a machine of a group by object": (
        NstanceMachine,
        {"groupRef": {"name": "workers"}, "providerID": "aws:///a/i-1", "failureDomain": "a"},
        {"providerID": "i-1", "failureDomain": "a", "addresses": [{"type": "InternalIP", "address": "10.0.0.2"}]},
        "",
    ),
    "a machine without a group": (NstanceMachine, {}, {}, "spec.groupRef: Required value"),
    "a template": (
        NstanceMachineTemplate,
        {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"groupRef": "workers"}}},
        {"capacity": {"cpu": "2"}, "nodeInfo": {"architecture": "amd64"}},
        "",
    ),
}


MACHINE = {"groupRef": {"name": "workers"}, "vars": {"zone": "a"}}

Change = tuple[type[CustomResource[Any, Any]], dict[str, Any], dict[str, Any], str]
"""Kind, its spec before and after a change, and a part of the refusal of the change; "": it must be accepted."""


def template(spec: dict[str, Any], **labels: str) -> dict[str, Any]:
    return {"template": {"metadata": {"labels": {"a": "b", **labels}}, "spec": spec}}


_STAYS = "the specification of a template cannot be changed"
CHANGES: dict[str, Change] = {
    "a template that stays": (NstanceMachineTemplate, template(MACHINE), template(MACHINE), ""),
    "the labels of a template": (NstanceMachineTemplate, template(MACHINE), template(MACHINE, c="d"), ""),
    "the group of a template": (
        NstanceMachineTemplate,
        template(MACHINE),
        template({**MACHINE, "groupRef": {"name": "gpu"}}),
        _STAYS,
    ),
    "the form of the group of a template": (
        NstanceMachineTemplate,
        template(MACHINE),
        template({**MACHINE, "groupRef": "workers"}),
        _STAYS,
    ),
    "a new field of a template": (
        NstanceMachineTemplate,
        template(MACHINE),
        template({**MACHINE, "instanceType": "c7.large"}),
        _STAYS,
    ),
    "a field that leaves a template": (
        NstanceMachineTemplate,
        template(MACHINE),
        template({"groupRef": MACHINE["groupRef"]}),
        _STAYS,
    ),
    "a variable of a template": (
        NstanceMachineTemplate,
        template(MACHINE),
        template({**MACHINE, "vars": {"zone": "b"}}),
        _STAYS,
    ),
    "a machine": (NstanceMachine, MACHINE, {**MACHINE, "instanceType": "c7.large"}, ""),
}


async def ask(target: Target) -> dict[str, tuple[int, str, dict[str, Any]]]:
    """Install the definitions and play the cases and changes; returns status, message and stored document of each last write."""

    async def send(method: str, path: str, body: Any = None) -> tuple[int, dict[str, Any]]:
        headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "machines-cases/1.0"}
        reply = await target.send(method, path, headers, b"" if body is None else json.dumps(body).encode())
        return reply.status, json.loads(reply.body) if "json" in reply.content_type else {}

    def at(kind: type[CustomResource[Any, Any]]) -> str:
        return f"/apis/{GROUP}/v1beta1/namespaces/default/{declaration_of(kind).plural}"

    for kind in KINDS:
        status, document = await send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd(kind))
        assert status in {201, 409}, document
    async with asyncio.timeout(180):
        for kind in KINDS:
            while (await send("GET", at(kind)))[0] != 200:
                await asyncio.sleep(0.1)
    found: dict[str, tuple[int, str, dict[str, Any]]] = {}
    for name, (kind, spec, stated, _) in CASES.items():
        body = {"apiVersion": f"{GROUP}/v1beta1", "kind": kind.__name__, "metadata": {"name": "x"}, "spec": spec}
        status, document = await send("POST", at(kind), body)
        if status == 201 and stated:
            status, document = await send("PUT", f"{at(kind)}/x/status", {**document, "status": stated})
        found[name] = (
            status,
            str(document.get("message", "")),
            {"spec": document.get("spec"), "status": document.get("status")},
        )
        await send("DELETE", f"{at(kind)}/x")
    for name, (kind, before, after, _) in CHANGES.items():
        body = {"apiVersion": f"{GROUP}/v1beta1", "kind": kind.__name__, "metadata": {"name": "x"}, "spec": before}
        status, document = await send("POST", at(kind), body)
        assert status == 201, document
        status, document = await send("PUT", f"{at(kind)}/x", {**document, "spec": after})
        found[name] = status, str(document.get("message", "")), {"spec": document.get("spec")}
        await send("DELETE", f"{at(kind)}/x")
    return found
