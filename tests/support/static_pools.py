"""Edits of an NstanceMachinePool whose group is static, which the API server itself must accept or refuse, on any of the two servers."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any, Final

from conformance.targets import Target

from konverge.crds import crd
from konverge.crds.machines_v1beta1 import GROUP, NstanceMachinePool

__all__ = ["CASES", "SPEC", "Edit", "play", "play_all"]

SPEC: Final[dict[str, Any]] = {
    "group": "workers",
    "template": "std",
    "shards": ["a", "b"],
    "subnets": ["private"],
    "vars": {"x": "1"},
}
_PATH: Final = f"/apis/{GROUP}/v1beta1/namespaces/default/nstancemachinepools"
_STATIC: Final[dict[str, Any]] = {"isStatic": True, "template": "std", "subnets": ["private"]}


@dataclass(frozen=True)
class Edit:
    """A change of the spec of a stored pool; `refused` is the field that the refusal names, "" if the change is accepted."""

    change: dict[str, Any]
    refused: str = ""
    spec: dict[str, Any] = field(default_factory=dict)
    """Changes of the spec before."""
    status: dict[str, Any] = field(default_factory=lambda: _STATIC)


WRONG: Final = {"template": "gpu", "subnets": ["public"]}
MANY: Final = [f"s{number}" for number in range(64)]
CASES: Final = {
    "another template": Edit({"template": "gpu"}, "spec.template"),
    "no template": Edit({"template": None}, "spec.template"),
    "a template for the first time": Edit({"template": "gpu"}, "spec.template", {"template": None}),
    "the template of the servers": Edit({"template": "std"}, "", {"template": None}),
    "a wrong template is set right": Edit({"template": "std"}, "", WRONG),
    "a wrong template is taken out": Edit({"template": None}, "", WRONG),
    "a wrong template becomes another": Edit({"template": "arm"}, "spec.template", WRONG),
    "other subnets": Edit({"subnets": ["public"]}, "spec.subnets"),
    "no subnets": Edit({"subnets": None}, "spec.subnets"),
    "wrong subnets are set right": Edit({"subnets": ["private"]}, "", WRONG),
    "wrong subnets are taken out": Edit({"subnets": None}, "", WRONG),
    "wrong subnets become others": Edit({"subnets": ["third"]}, "spec.subnets", WRONG),
    "a shard less": Edit({"shards": ["a"]}, "spec.shards"),
    "a shard more": Edit({"shards": ["a", "b", "c"]}, "spec.shards"),
    "the shards in another order": Edit({"shards": ["b", "a"]}),
    "the most shards in another order": Edit({"shards": MANY[::-1]}, "", {"shards": MANY}),
    "another instance type and other vars": Edit({"instanceType": "c7", "vars": None}),
    "provider ids": Edit({"providerIDList": ["i-0a"]}),
    "a template without a status": Edit({"template": "gpu", "shards": ["c"]}, "", {}, {}),
    "a template of a dynamic group": Edit({"template": "gpu", "shards": ["c"]}, "", {}, {**_STATIC, "isStatic": False}),
    "a template that no status shows": Edit({"template": "gpu"}, "spec.template", {}, {"isStatic": True}),
}


async def _send(target: Target, method: str, path: str, body: Any = None) -> tuple[int, dict[str, Any]]:
    headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "static-pools/1.0"}
    reply = await target.send(method, path, headers, b"" if body is None else json.dumps(body).encode())
    return reply.status, json.loads(reply.body)


async def play(target: Target, edit: Edit) -> tuple[int, str]:
    """Store the pool, change its spec, and remove it; returns the status and message of the change."""
    metadata, kind = {"name": "workers"}, {"apiVersion": f"{GROUP}/v1beta1", "kind": "NstanceMachinePool"}
    status, stored = await _send(target, "POST", _PATH, {**kind, "metadata": metadata, "spec": _set(SPEC, edit.spec)})
    assert status == 201, stored
    try:
        if edit.status:
            status, stored = await _send(target, "PUT", f"{_PATH}/workers/status", {**stored, "status": edit.status})
            assert status == 200, stored
        changed = {**stored, "spec": _set(stored["spec"], edit.change)}
        status, answer = await _send(target, "PUT", f"{_PATH}/workers", changed)
        return status, str(answer.get("message", ""))
    finally:
        await _send(target, "DELETE", f"{_PATH}/workers")


def _set(spec: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**spec, **change}.items() if value is not None}


async def play_all(target: Target) -> dict[str, tuple[int, str]]:
    """Install the definition, and play all cases."""
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    status, answer = await _send(target, "POST", definitions, crd(NstanceMachinePool))
    assert status in {201, 409}, answer
    await _served(target)
    return {name: await play(target, edit) for name, edit in CASES.items()}


async def _served(target: Target) -> None:
    """Wait until the kind is served and its rules are in force."""
    async with asyncio.timeout(180):
        while (await target.send("GET", _PATH, {"Accept": "application/json"}, b"")).status != 200:
            await asyncio.sleep(0.1)
        while (await play(target, CASES["another template"]))[0] != 422:
            await asyncio.sleep(0.1)
