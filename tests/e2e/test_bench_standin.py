"""The stand-in of the benchmark responds as the real kube-apiserver to the same requests, up to versions, uids and times."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from peers import building
from peers.cluster import APPLY, MERGE, RealServer, Server, connected, stand_in
from peers.objects import CRD, ITEMS, item, item_name

from konverge.client.requests import METADATA, METADATA_LIST
from konverge_testing import ControlPlane

NAMESPACE = "wire"
ITEM = ITEMS.format(NAMESPACE)
ONE, TWO = item(1, NAMESPACE), item(2, NAMESPACE)
FIRST = f"{ITEM}/{item_name(1)}"
MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
TIME = "2030-01-01T00:00:00Z"
VOLATILE = {
    "resourceVersion",
    "uid",
    "creationTimestamp",
    "time",
    "deletionTimestamp",
    "continue",
    "storageVersionHash",
}


@dataclass(frozen=True)
class Step:
    """A request of the script; `{version}` in a body is the version of the object in the response to the step `version_of`."""

    name: str
    code: int
    method: str
    path: str
    body: Any = None
    form: str = "application/json"
    version_of: str = ""
    accept: str = "application/json"


def conditions(*types: str, reason: str = "InStep") -> dict[str, Any]:
    """A status apply with these conditions."""
    common = {"status": "False", "reason": reason, "message": "in place", "lastTransitionTime": TIME}
    status = {"observedGeneration": 2, "conditions": [{"type": each, **common} for each in types]}
    return {"apiVersion": ONE["apiVersion"], "kind": "Item", "metadata": {"name": item_name(1)}, "status": status}


def config(name: str, version: str = "", **data: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": NAMESPACE, **({"resourceVersion": version} if version else {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def lease(holder: str, version: str = "") -> dict[str, Any]:
    metadata = {"name": "leader", "namespace": NAMESPACE, **({"resourceVersion": version} if version else {})}
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


STATUS = f"{FIRST}/status?fieldManager={{}}&force={{}}"
OWNED = f"{MAPS}/owned?fieldManager=peer&force={{}}"
HELD = config("held", a="1") | {
    "metadata": {"name": "held", "namespace": NAMESPACE, "finalizers": ["example.com/hold"]}
}
SCRIPT = (
    Step("create", 201, "POST", ITEM, ONE),
    Step("create another", 201, "POST", ITEM, TWO),
    Step("create again", 409, "POST", ITEM, ONE),
    Step("create in no namespace", 404, "POST", ITEMS.format("nowhere"), item(1, "nowhere")),
    Step("get", 200, "GET", FIRST),
    Step("get what is not there", 404, "GET", f"{ITEM}/none"),
    Step("merge patch", 200, "PATCH", f"{FIRST}?fieldManager=hand", {"spec": {"revision": 2}}, MERGE),
    Step("merge patch without a change", 200, "PATCH", f"{FIRST}?fieldManager=hand", {"spec": {"revision": 2}}, MERGE),
    Step("merge patch of an old version", 409, "PATCH", f"{FIRST}?fieldManager=hand",
         {"metadata": {"resourceVersion": "{version}"}, "spec": {"revision": 3}}, MERGE, "create"),
    Step("status apply", 200, "PATCH", STATUS.format("peer", "true"), conditions("Stalled", "Ready"), APPLY),
    Step("status apply without a change", 200, "PATCH", STATUS.format("peer", "true"), conditions("Stalled", "Ready"), APPLY),
    Step("status apply of other values", 200, "PATCH", STATUS.format("peer", "true"), conditions("Stalled", "Ready", reason="Later"), APPLY),
    Step("status apply by another manager", 409, "PATCH", STATUS.format("other", "false"), conditions("Stalled", reason="Mine"), APPLY),
    Step("forced status apply by another manager", 200, "PATCH", STATUS.format("other", "true"), conditions("Stalled", reason="Mine"), APPLY),
    Step("status apply with fewer conditions", 200, "PATCH", STATUS.format("peer", "true"), conditions("Stalled", reason="Mine"), APPLY),
    Step("status apply of an old version", 409, "PATCH", STATUS.format("peer", "true"),
         conditions("Ready") | {"metadata": {"name": item_name(1), "resourceVersion": "{version}"}}, APPLY, "create"),
    Step("status apply to no object", 404, "PATCH", f"{ITEM}/none/status?fieldManager=peer&force=true",
         conditions("Ready") | {"metadata": {"name": "none"}}, APPLY),
    Step("apply creates", 201, "PATCH", OWNED.format("false"), config("owned", a="1", b="2"), APPLY),
    Step("apply with fewer fields", 200, "PATCH", OWNED.format("false"), config("owned", a="1"), APPLY),
    Step("edit by hand", 200, "PATCH", f"{MAPS}/owned?fieldManager=hand", {"data": {"a": "x"}}, MERGE),
    Step("apply with a conflict", 409, "PATCH", OWNED.format("false"), config("owned", a="1"), APPLY),
    Step("forced apply", 200, "PATCH", OWNED.format("true"), config("owned", a="1"), APPLY),
    Step("update", 200, "PUT", f"{MAPS}/owned?fieldManager=hand", config("owned", "{version}", a="1", c="3"), version_of="forced apply"),
    Step("update of an old version", 409, "PUT", f"{MAPS}/owned?fieldManager=hand", config("owned", "{version}", a="2"), version_of="forced apply"),
    Step("delete", 200, "DELETE", f"{MAPS}/owned"),
    Step("delete again", 404, "DELETE", f"{MAPS}/owned"),
    Step("create with a finalizer", 201, "POST", f"{MAPS}?fieldManager=hand", HELD),
    Step("delete with a finalizer", 200, "DELETE", f"{MAPS}/held"),
    Step("remove the finalizer", 200, "PATCH", f"{MAPS}/held?fieldManager=hand", {"metadata": {"finalizers": None}}, MERGE),
    Step("get after the last finalizer", 404, "GET", f"{MAPS}/held"),
    Step("lease", 201, "POST", f"{LEASES}?fieldManager=hand", lease("first")),
    Step("take the lease", 200, "PUT", f"{LEASES}/leader?fieldManager=hand", lease("me", "{version}"), version_of="lease"),
    Step("take the lease too late", 409, "PUT", f"{LEASES}/leader?fieldManager=hand", lease("me", "{version}"), version_of="lease"),
    Step("create with a label", 201, "POST", f"{MAPS}?fieldManager=hand", config("seen", v="1") | {"metadata": {"name": "seen", "namespace": NAMESPACE, "labels": {"a": "b"}}}),
    Step("change what a label selects", 200, "PATCH", f"{MAPS}/seen?fieldManager=hand", {"data": {"v": "2"}}, MERGE),
    Step("remove the label", 200, "PATCH", f"{MAPS}/seen?fieldManager=hand", {"metadata": {"labels": None}, "data": {"v": "3"}}, MERGE),
    Step("list", 200, "GET", ITEM),
    Step("a page", 200, "GET", f"{ITEM}?limit=1"),
    Step("metadata of an object", 200, "GET", FIRST, accept=METADATA),
    Step("metadata of all objects", 200, "GET", ITEM, accept=METADATA_LIST),
    Step("metadata of a built-in kind", 200, "GET", LEASES, accept=METADATA_LIST),
    Step("patch that returns the metadata", 200, "PATCH", f"{MAPS}/seen?fieldManager=hand", {"metadata": {"labels": {"a": "c"}}}, MERGE, accept=METADATA),
    Step("list by a label", 200, "GET", f"{ITEM}?labelSelector=app%3Dnothing"),
    Step("list by name", 200, "GET", f"{ITEM}?fieldSelector=metadata.name%3D{item_name(2)}"),
    Step("list of a built-in kind", 200, "GET", LEASES),
    Step("kinds of a group", 200, "GET", "/apis/bench.konverge.dev/v1"),
    Step("an unknown group", 404, "GET", "/apis/unknown.konverge.dev/v1"),
    Step("an unknown kind", 404, "GET", "/apis/bench.konverge.dev/v1/namespaces/wire/nothings"),
    Step("delete an item", 200, "DELETE", FIRST),
)  # fmt: skip
WATCHES = {
    "watch with the initial state": f"{ITEM}?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1",
    "watch from a version": f"{ITEM}?watch=true&timeoutSeconds=1&resourceVersion=",
    "watch of a label": f"{MAPS}?watch=true&timeoutSeconds=1&labelSelector=a%3Db&resourceVersion=",
}


def masked(value: Any) -> Any:
    """A body without what differs from one server to the next; lists of managers in the order of their names."""
    if isinstance(value, dict):
        found: dict[str, Any] = {
            key: f"<{key}>" if key in VOLATILE and each else masked(each) for key, each in value.items()
        }
        found.pop("shortNames", None)
        if "managedFields" in found:
            found["managedFields"].sort(
                key=lambda each: (each["manager"], each["operation"], each.get("subresource", ""))
            )
        if "causes" in found:
            found["causes"].sort(key=json.dumps)
        return found
    return [masked(each) for each in value] if isinstance(value, list) else value


async def stranger(server: Server) -> dict[str, Any]:
    """The response of a server to a token that it does not know."""
    url, wrong = f"https://{server.host}:{server.port}{ITEM}", {"Authorization": "Bearer wrong"}
    async with aiohttp.ClientSession() as session, session.get(url, headers=wrong, ssl=False) as answer:
        return {"code": answer.status, "body": await answer.json()}


async def played(server: Server) -> dict[str, Any]:
    """The responses of a server to the script: for each step the status code, the headers that clients read, and the masked body."""
    found: dict[str, Any] = {}
    versions: dict[str, str] = {}
    async with connected(server) as cluster:
        crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        await cluster.send("POST", crd, CRD)
        await cluster.send(
            "POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        )
        async with asyncio.timeout(60):
            while True:
                with contextlib.suppress(aiohttp.ClientResponseError):
                    begin = (await cluster.send("GET", ITEM))["metadata"]["resourceVersion"]
                    break
                await asyncio.sleep(0.1)
        for step in SCRIPT:
            data = json.dumps(step.body).replace("{version}", versions.get(step.version_of, "")) if step.body else None
            async with cluster.session.request(
                step.method, step.path, data=data, headers={"Content-Type": step.form, "Accept": step.accept}
            ) as answer:
                text = await answer.text()
                body = json.loads(text) if answer.content_type == "application/json" else text
            if isinstance(body, dict):
                versions[step.name] = body.get("metadata", {}).get("resourceVersion", "")
            headers = {name: answer.headers.get(name) for name in ("Content-Type", "Cache-Control")}
            found[step.name] = {"code": answer.status, "headers": headers, "body": masked(body)}
        for name, path in WATCHES.items():
            async with cluster.session.get(path + (begin if path.endswith("=") else "")) as answer:
                lines = [masked(json.loads(line)) async for line in answer.content]
            found[name] = {"code": answer.status, "headers": answer.headers.get("Content-Type"), "body": lines}
        found["a wrong token"] = await stranger(server)
        await cluster.send("DELETE", f"{crd}/{CRD['metadata']['name']}")
    return found


@pytest.fixture(scope="module")
def program() -> Path:
    found = building.programs({building.STAND_IN}, os.environ, print)
    if building.STAND_IN not in found:
        pytest.skip("the stand-in of the benchmark cannot be built: no Go")
    return found[building.STAND_IN]


@pytest.fixture(scope="module")
def answers(program: Path, control_plane: ControlPlane) -> tuple[dict[str, Any], dict[str, Any]]:
    async def both() -> tuple[dict[str, Any], dict[str, Any]]:
        real = await played(RealServer(control_plane, control_plane.host, control_plane.port))
        async with stand_in(program) as server:
            return real, await played(server)

    return asyncio.run(both())


@pytest.mark.parametrize("name", [*(step.name for step in SCRIPT), *WATCHES, "a wrong token"])
def test_stand_in_responds_as_the_real_server(answers: tuple[dict[str, Any], dict[str, Any]], name: str) -> None:
    real, ours = answers
    assert ours[name] == real[name]


@pytest.mark.parametrize("step", SCRIPT, ids=lambda step: step.name)
def test_script_plays_what_it_names(answers: tuple[dict[str, Any], dict[str, Any]], step: Step) -> None:
    assert answers[0][step.name]["code"] == step.code
