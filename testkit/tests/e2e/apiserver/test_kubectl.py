"""The commands of kubectl that people use, on the in-memory server and on a real server: both produce the same output."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from kubectl_runner import Kubectl

CONFIG = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "shop", "labels": {"app": "shop"}},
    "data": {"color": "red"},
}

DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "labels": {"app": "web"}},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "example.com/web:1", "ports": [{"containerPort": 80}]}]},
        },
    },
}

WELDER = {
    "type": "object",
    "description": "A welder that works.",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["task"],
            "properties": {
                "task": {"type": "string", "description": "What it works on.", "minLength": 1},
                "speed": {"type": "integer", "default": 3, "maximum": 10},
            },
        },
        "status": {
            "type": "object",
            "properties": {
                "phase": {"type": "string"},
                "conditions": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["type"],
                    "items": {
                        "type": "object",
                        "required": ["type", "status"],
                        "properties": {"type": {"type": "string"}, "status": {"type": "string"}},
                    },
                },
            },
        },
    },
}


def manifest(group: str) -> dict[str, Any]:
    columns = [
        {"name": "Task", "type": "string", "jsonPath": ".spec.task"},
        {"name": "Speed", "type": "integer", "jsonPath": ".spec.speed", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": WELDER},
        "subresources": {"status": {}},
        "additionalPrinterColumns": columns,
    }
    names = {
        "kind": "Welder",
        "plural": "welders",
        "singular": "welder",
        "shortNames": ["wd"],
        "categories": ["machines"],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"welders.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


@asynccontextmanager
async def defined(kubectl: Kubectl) -> AsyncIterator[str]:
    """Install a CRD of the test's own, and remove it at the end; yields its group.

    Other tests on this server have no kind `Welder`, and no group with this kind is left over: short names would have two meanings.
    """
    group = f"{kubectl.namespace}.example.com"
    found = ("api-resources", "-o", "name", f"--api-group={group}", "--cached=false")
    await kubectl("apply", "-f", "-", stdin=manifest(group))
    try:
        await kubectl("wait", "--for=condition=Established", f"crd/welders.{group}", "--timeout=60s")
        async with asyncio.timeout(60):  # a real server serves a CRD a moment after Established
            while f"welders.{group}" not in await kubectl(*found):
                pass
        yield group
    finally:
        await kubectl("delete", "crd", f"welders.{group}", "--ignore-not-found", "--timeout=60s")
        async with asyncio.timeout(60):
            while f"welders.{group}" in await kubectl(*found):
                pass


def welder(group: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": f"{group}/v1", "kind": "Welder", "metadata": {"name": "r1"}, "spec": spec}


async def test_get_prints_tables_names_and_whole_objects(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", stdin=CONFIG)
    await kubectl("create", "configmap", "other", "--from-literal=a=1", "--from-literal=b=2")
    table = rows(await kubectl("get", "configmaps", "shop", "other"))
    assert table[0] == ["NAME", "DATA", "AGE"]
    assert [row[:2] for row in table[1:]] == [["shop", "1"], ["other", "2"]]
    assert (await kubectl("get", "cm", "-l", "app=shop", "-o", "name")).split() == ["configmap/shop"]
    assert (await kubectl("get", "cm", "--field-selector=metadata.name=other", "-o", "name")).split() == [
        "configmap/other"
    ]
    assert await kubectl("get", "cm", "shop", "-o", "jsonpath={.data.color}") == "red"
    assert "color: red" in await kubectl("get", "cm", "shop", "-o", "yaml")
    assert [kubectl.namespace, "shop"] in [row[:2] for row in rows(await kubectl("get", "cm", "-A"))]
    assert rows(await kubectl("get", "cm", "shop", "--show-labels"))[1][-1] == "app=shop"
    assert rows(await kubectl("get", "cm", "-L", "app", "shop"))[1][-1] == "shop"
    assert "No resources found" in (await kubectl.run("get", "secrets", "-l", "a=b")).err
    assert 'configmaps "no" not found' in await kubectl.refused("get", "cm", "no")
    assert 'the server doesn\'t have a resource type "nothings"' in await kubectl.refused("get", "nothings")


async def test_get_prints_the_columns_of_builtin_kinds(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", stdin=DEPLOYMENT)
    head, row = rows(await kubectl("get", "deployment", "web", "-o", "wide"))
    assert head == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE", "CONTAINERS", "IMAGES", "SELECTOR"]
    assert [row[0], row[1], *row[5:]] == ["web", "0/2", "web", "example.com/web:1", "app=web"]
    await kubectl("create", "secret", "generic", "key", "--from-literal=a=1")
    assert rows(await kubectl("get", "secret", "key"))[1][:3] == ["key", "Opaque", "1"]
    await kubectl("create", "service", "clusterip", "web", "--tcp=80:8080", "--clusterip=None")
    assert rows(await kubectl("get", "service", "web"))[1][:5] == ["web", "ClusterIP", "None", "<none>", "80/TCP"]
    assert "deployment.apps/web" in await kubectl("get", "all")
    namespace = rows(await kubectl("get", "namespace", kubectl.namespace))
    assert [row[:2] for row in namespace] == [["NAME", "STATUS"], [kubectl.namespace, "Active"]]


async def test_get_in_order_and_with_columns_of_ones_own(kubectl: Kubectl) -> None:
    for name, size in (("b", "1"), ("a", "2"), ("c", "3")):
        await kubectl("create", "configmap", name, f"--from-literal=size={size}")
        await kubectl("label", "configmap", name, "mine=yes")
    chosen = ("get", "cm", "-l", "mine=yes")
    assert (await kubectl(*chosen, "-o", "name", "--sort-by=.data.size")).split() == [
        "configmap/b",
        "configmap/a",
        "configmap/c",
    ]
    columns = await kubectl(*chosen, "--no-headers", "-o", "custom-columns=N:.metadata.name,S:.data.size")
    assert rows(columns) == [["a", "2"], ["b", "1"], ["c", "3"]]
    assert (await kubectl(*chosen, "--chunk-size=2", "-o", "name")).split() == [
        f"configmap/{name}" for name in ("a", "b", "c")
    ]


async def test_get_watches_what_happens(kubectl: Kubectl) -> None:
    watching = await kubectl.start("get", "configmaps", "-l", "seen", "-w", "--output-watch-events", "--no-headers")
    assert watching.stdout is not None
    await kubectl("create", "configmap", "a")
    seen = []
    async with asyncio.timeout(20):
        for command in (("label", "cm", "a", "seen=1"), ("label", "cm", "a", "more=1"), ("delete", "cm", "a")):
            await kubectl(*command)
            seen.append((await watching.stdout.readline()).decode().split()[:2])
    watching.terminate()
    await watching.communicate()
    assert seen == [["ADDED", "a"], ["MODIFIED", "a"], ["DELETED", "a"]]


async def test_describe_tells_about_objects_and_their_events(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", stdin=CONFIG)
    told = await kubectl("describe", "configmap", "shop")
    assert [
        line for line in ("Name:         shop", "Labels:       app=shop", "color:", "red") if line not in told
    ] == []
    uid = (await kubectl.read("cm", "shop"))["metadata"]["uid"]
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "shop.1"},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "namespace": kubectl.namespace,
            "name": "shop",
            "uid": uid,
        },
        "reason": "Painted",
        "message": "it is red now",
        "type": "Normal",
        "source": {"component": "painter"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 1,
    }
    await kubectl("create", "-f", "-", stdin=event)
    told = await kubectl("describe", "configmap", "shop")
    assert "Painted" in told
    assert "it is red now" in told
    assert "Painted" in await kubectl("events", "--for=configmap/shop")
    await kubectl("create", "-f", "-", stdin=DEPLOYMENT)
    told = await kubectl("describe", "deployment", "web")
    assert "Image:         example.com/web:1" in told
    assert "Replicas:               2 desired" in told
    assert "Status:       Active" in await kubectl("describe", "namespace", kubectl.namespace)


async def test_apply_creates_configures_and_leaves_alone(kubectl: Kubectl, tmp_path: Path) -> None:
    file = tmp_path / "shop.json"
    file.write_text(json.dumps(CONFIG))
    assert await kubectl("apply", "-f", str(file)) == "configmap/shop created\n"
    assert await kubectl("apply", "-f", str(file)) == "configmap/shop unchanged\n"
    file.write_text(json.dumps({**CONFIG, "data": {"size": "9"}}))
    assert "+  size:" in (await kubectl.run("diff", "-f", str(file))).out
    assert await kubectl("apply", "-f", str(file), "--dry-run=server") == "configmap/shop configured (server dry run)\n"
    assert (await kubectl.read("cm", "shop"))["data"] == {"color": "red"}
    assert await kubectl("apply", "-f", str(file)) == "configmap/shop configured\n"
    assert (await kubectl.read("cm", "shop"))["data"] == {"size": "9"}


async def test_apply_merges_lists_of_builtin_kinds_by_their_keys(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    side = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "example.com/side:1"}]}}}}
    await kubectl("patch", "deployment", "web", "-p", json.dumps(side))
    changed = json.loads(json.dumps(DEPLOYMENT).replace("web:1", "web:2"))
    assert await kubectl("apply", "-f", "-", stdin=changed) == "deployment.apps/web configured\n"
    containers = (await kubectl.read("deployment", "web"))["spec"]["template"]["spec"]["containers"]
    assert {one["name"]: one["image"] for one in containers} == {
        "web": "example.com/web:2",
        "side": "example.com/side:1",
    }


async def test_apply_on_the_servers_side_tells_whose_field_it_is(kubectl: Kubectl) -> None:
    apply = ("apply", "--server-side", "-f", "-")
    assert await kubectl(*apply, "--field-manager=a", stdin=CONFIG) == "configmap/shop serverside-applied\n"
    blue = {**CONFIG, "data": {"color": "blue"}}
    told = await kubectl.refused(*apply, "--field-manager=b", stdin=blue)
    assert 'conflict with "a": .data.color' in told
    await kubectl(*apply, "--field-manager=b", "--force-conflicts", stdin=blue)
    found = await kubectl.read("cm", "shop", "--show-managed-fields")
    owners = {entry["manager"]: entry["fieldsV1"] for entry in found["metadata"]["managedFields"]}
    assert found["data"] == {"color": "blue"}
    assert owners["a"] == {"f:metadata": {"f:labels": {"f:app": {}}}}
    assert owners["b"] == {"f:data": {"f:color": {}}, "f:metadata": {"f:labels": {"f:app": {}}}}


async def test_an_unknown_field_is_refused_by_kubectls_strictness(kubectl: Kubectl) -> None:
    wrong = {**CONFIG, "spec": {"a": 1}}
    told = await kubectl.refused("create", "-f", "-", stdin=wrong)
    assert 'strict decoding error: unknown field "spec"' in told
    ran = await kubectl.run("create", "-f", "-", "--validate=warn", stdin=wrong)
    assert (ran.code, 'unknown field "spec"' in ran.err) == (0, True)


async def test_edit_opens_an_editor_and_sends_what_changed(kubectl: Kubectl, tmp_path: Path) -> None:
    await kubectl("create", "-f", "-", stdin=CONFIG)
    editor = tmp_path / "editor.sh"
    editor.write_text('#!/bin/sh\nsed -i s/red/green/ "$1"\n')
    editor.chmod(0o755)
    assert await kubectl("edit", "configmap", "shop", EDITOR=str(editor)) == "configmap/shop edited\n"
    assert (await kubectl.read("cm", "shop"))["data"] == {"color": "green"}
    ran = await kubectl.run("edit", "configmap", "shop", EDITOR=str(editor))
    assert "cancelled" in ran.out + ran.err


async def test_delete_waits_until_an_object_is_gone(kubectl: Kubectl) -> None:
    for name in "abcd":
        await kubectl("create", "configmap", name)
        await kubectl("label", "configmap", name, f"first={'yes' if name in 'ab' else 'no'}")
    assert await kubectl("delete", "cm", "-l", "first=yes") == (
        f'configmap "a" deleted from {kubectl.namespace} namespace\nconfigmap "b" deleted from {kubectl.namespace} namespace\n'
    )
    assert 'configmaps "a" not found' in await kubectl.refused("delete", "cm", "a")
    assert await kubectl("delete", "cm", "a", "--ignore-not-found") == ""
    await kubectl("patch", "cm", "c", "--type=merge", "-p", '{"metadata":{"finalizers":["example.com/hold"]}}')
    deleting = asyncio.create_task(kubectl("delete", "cm", "c", "--timeout=30s"))
    await kubectl("wait", "--for=jsonpath={.metadata.deletionTimestamp}", "cm/c", "--timeout=20s")
    assert not deleting.done()
    await kubectl("patch", "cm", "c", "--type=json", "-p", '[{"op":"remove","path":"/metadata/finalizers"}]')
    await deleting
    await kubectl("delete", "cm", "d", "--dry-run=server")
    assert (await kubectl("get", "cm", "-l", "first", "-o", "name")).split() == ["configmap/d"]


async def test_delete_of_an_owner_takes_or_leaves_what_it_owns(kubectl: Kubectl) -> None:
    for owner, child in (("o1", "c1"), ("o2", "c2")):
        await kubectl("create", "configmap", owner)
        uid = (await kubectl.read("cm", owner))["metadata"]["uid"]
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": uid}
        metadata = {"name": child, "ownerReferences": [reference]}
        await kubectl("create", "-f", "-", stdin={"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    await kubectl("delete", "cm", "o1", "--cascade=foreground", "--timeout=30s")
    await kubectl("delete", "cm", "o2", "--cascade=orphan", "--timeout=30s")
    assert 'configmaps "c1" not found' in await kubectl.refused("get", "cm", "c1")
    assert "ownerReferences" not in (await kubectl.read("cm", "c2"))["metadata"]


async def test_explain_reads_the_schemas_of_builtin_kinds(kubectl: Kubectl) -> None:
    told = await kubectl("explain", "deployment.spec.replicas")
    assert rows(told)[:4] == [["GROUP:", "apps"], ["KIND:", "Deployment"], ["VERSION:", "v1"], []]
    assert "FIELD: replicas <integer>" in told
    assert "data\t<map[string]string>" in await kubectl("explain", "configmap")
    assert 'field "no" does not exist' in await kubectl.refused("explain", "configmap.no")
    assert "containers\t<[]Container> -required-" in await kubectl("explain", "pod", "--recursive")


async def test_explain_reads_the_older_schema_in_protobuf(kubectl: Kubectl) -> None:
    """OpenAPISchema() of client-go fetches it too, and accepts no other form."""
    told = await kubectl("explain", "pod.spec.containers.ports", "--output=plaintext-openapiv2")
    assert rows(told)[:2] == [["KIND:", "Pod"], ["VERSION:", "v1"]]
    assert "RESOURCE: ports <[]Object>" in told
    assert "containerPort\t<integer> -required-" in told
    async with defined(kubectl):
        told = await kubectl("explain", "welder.spec", "--output=plaintext-openapiv2")
        assert "task\t<string> -required-" in told
        assert "speed\t<integer>" in told


async def test_wait_ends_when_a_condition_holds(kubectl: Kubectl) -> None:
    async with defined(kubectl) as group:
        await kubectl("create", "-f", "-", stdin=welder(group, task="weld"))
        waiting = asyncio.create_task(kubectl("wait", "--for=condition=Ready", "welder/r1", "--timeout=30s"))
        status = {"status": {"phase": "Up", "conditions": [{"type": "Ready", "status": "True"}]}}
        patch = ("patch", "welder", "r1", "--subresource=status", "--type=merge", "-p", json.dumps(status))
        await kubectl(*patch)
        assert await waiting == f"welder.{group}/r1 condition met\n"
        await kubectl("wait", "--for=jsonpath={.status.phase}=Up", "welder/r1", "--timeout=20s")
        assert "timed out waiting" in await kubectl.refused("wait", "--for=condition=Gone", "welder/r1", "--timeout=1s")
        waiting = asyncio.create_task(kubectl("wait", "--for=delete", "welder/r1", "--timeout=30s"))
        await kubectl("delete", "welder", "r1")
        await waiting


async def test_patch_in_its_three_styles(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", stdin=CONFIG)
    assert await kubectl("patch", "cm", "shop", "-p", '{"data":{"a":"1"}}') == "configmap/shop patched\n"
    assert await kubectl("patch", "cm", "shop", "-p", '{"data":{"a":"1"}}') == "configmap/shop patched (no change)\n"
    await kubectl("patch", "cm", "shop", "--type=merge", "-p", '{"data":{"color":null}}')
    await kubectl("patch", "cm", "shop", "--type=json", "-p", '[{"op":"add","path":"/data/b","value":"2"}]')
    assert (await kubectl.read("cm", "shop"))["data"] == {"a": "1", "b": "2"}
    wrong = '[{"op":"test","path":"/data/b","value":"3"}]'
    told = await kubectl.refused("patch", "cm", "shop", "--type=json", "-p", wrong)
    assert "the server rejected our request due to an error in our request" in told


async def test_labels_and_annotations_are_set_and_taken_away(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", stdin=CONFIG)
    assert await kubectl("label", "cm", "shop", "tier=front") == "configmap/shop labeled\n"
    assert "already has a value" in await kubectl.refused("label", "cm", "shop", "tier=back")
    await kubectl("label", "cm", "shop", "tier=back", "app-", "--overwrite")
    assert await kubectl("annotate", "cm", "shop", "note=hello") == "configmap/shop annotated\n"
    metadata = (await kubectl.read("cm", "shop"))["metadata"]
    assert (metadata["labels"], metadata["annotations"]) == ({"tier": "back"}, {"note": "hello"})
    assert 'Invalid value: "-x"' in await kubectl.refused(
        "patch", "cm", "shop", "-p", '{"metadata":{"labels":{"tier":"-x"}}}'
    )


async def test_scale_goes_through_the_subresource(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", stdin=DEPLOYMENT)
    assert await kubectl("scale", "deployment/web", "--replicas=5") == "deployment.apps/web scaled\n"
    found = await kubectl.read("deployment", "web")
    assert (found["spec"]["replicas"], found["metadata"]["generation"]) == (5, 2)
    told = await kubectl.refused("scale", "deployment/web", "--replicas=1", "--current-replicas=2")
    assert "Expected replicas to be 2, was 5" in told
    scale = json.loads(await kubectl("get", "deployment", "web", "--subresource=scale", "-o", "json"))
    assert (scale["kind"], scale["spec"], scale["status"]["selector"]) == ("Scale", {"replicas": 5}, "app=web")


async def test_auth_tells_who_one_is_and_what_one_may(kubectl: Kubectl) -> None:
    assert await kubectl("auth", "can-i", "delete", "secrets") == "yes\n"
    assert "system:masters" in await kubectl("auth", "whoami")
    await kubectl("create", "serviceaccount", "reader")
    await kubectl("create", "role", "reader", "--verb=get,list", "--resource=configmaps")
    await kubectl("create", "rolebinding", "reader", "--role=reader", f"--serviceaccount={kubectl.namespace}:reader")
    reader = f"--as=system:serviceaccount:{kubectl.namespace}:reader"
    ran = await kubectl.run("auth", "can-i", "delete", "secrets", reader)
    assert (ran.code, ran.out) == (1, "no\n")
    for _ in range(50):  # a real server's RBAC needs a moment for a new binding
        ran = await kubectl.run("auth", "can-i", "list", "configmaps", reader)
        if ran.code == 0:
            break
    assert ran.out == "yes\n"
    listed = rows(await kubectl("auth", "can-i", "--list", reader))
    assert ["configmaps", "[]", "[]", "[get", "list]"] in listed
    told = await kubectl.refused("get", "secrets", reader)
    user = f"system:serviceaccount:{kubectl.namespace}:reader"
    assert (
        f'secrets is forbidden: User "{user}" cannot list resource "secrets" in API group "" '
        f'in the namespace "{kubectl.namespace}"'
    ) in told


async def test_a_token_of_a_service_account_opens_the_door(kubectl: Kubectl) -> None:
    await kubectl("create", "serviceaccount", "welder")
    token = (await kubectl("create", "token", "welder", "--duration=1h")).strip()
    # A client certificate of the kubeconfig would win over the token.
    config = json.loads(kubectl.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    path = kubectl.home / f"{kubectl.namespace}.kubeconfig"
    path.touch(mode=0o600)
    path.write_text(json.dumps(config))
    found = json.loads(await kubectl("auth", "whoami", "-o", "json", KUBECONFIG=str(path)))["status"]["userInfo"]
    path.unlink()
    assert found["username"] == f"system:serviceaccount:{kubectl.namespace}:welder"
    assert f"system:serviceaccounts:{kubectl.namespace}" in found["groups"]


async def test_a_crds_objects_are_printed_explained_and_checked(kubectl: Kubectl) -> None:
    async with defined(kubectl) as group:
        found = rows(await kubectl("api-resources", f"--api-group={group}", "--no-headers"))
        assert found == [["welders", "wd", f"{group}/v1", "true", "Welder"]]
        assert await kubectl("apply", "-f", "-", stdin=welder(group, task="weld")) == f"welder.{group}/r1 created\n"
        head, row = rows(await kubectl("get", "wd", "-o", "wide"))
        assert (head, row[:3]) == (["NAME", "TASK", "SPEED", "AGE"], ["r1", "weld", "3"])
        assert f"welder.{group}/r1" in await kubectl("get", "machines", "-o", "name")
        told = await kubectl("explain", "welder.spec")
        assert "task\t<string> -required-" in told
        assert "What it works on." in told
        told = await kubectl("describe", "welder", "r1")
        assert "Task:   weld" in told
        told = await kubectl.refused("apply", "-f", "-", stdin=welder(group, task="", speed=11))
        assert 'The Welder "r1" is invalid' in told
        assert "spec.speed: Invalid value: 11: spec.speed in body should be less than or equal to 10" in told
        assert 'unknown field "spec.color"' in await kubectl.refused(
            "apply", "-f", "-", stdin=welder(group, task="a", color=1)
        )
        await kubectl("delete", "crd", f"welders.{group}", "--timeout=30s")
        told = await kubectl.refused("get", f"welders.{group}")
        assert "doesn't have a resource type" in told or "could not find the requested resource" in told


async def test_resources_of_the_server_are_listed(kubectl: Kubectl) -> None:
    names = (await kubectl("api-resources", "-o", "name")).split()
    wanted = {
        "configmaps",
        "deployments.apps",
        "leases.coordination.k8s.io",
        "customresourcedefinitions.apiextensions.k8s.io",
    }
    assert wanted <= set(names)
    assert {"v1", "apps/v1", "rbac.authorization.k8s.io/v1"} <= set((await kubectl("api-versions")).split())
    assert json.loads(await kubectl("version", "-o", "json"))["serverVersion"]["major"] == "1"
    assert await kubectl("get", "--raw", "/readyz") == "ok"


async def test_a_namespace_goes_with_what_is_in_it(kubectl: Kubectl) -> None:
    name = f"{kubectl.namespace}-b"
    await kubectl("create", "namespace", name)
    await kubectl("create", "configmap", "a", "-n", name)
    await kubectl("delete", "namespace", name, "--timeout=60s")
    assert f'namespaces "{name}" not found' in await kubectl.refused("get", "namespace", name)
    assert f'namespaces "{name}" not found' in await kubectl.refused("create", "configmap", "a", "-n", name)


async def test_replace_and_create_say_what_is_in_their_way(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", stdin=CONFIG)
    assert 'configmaps "shop" already exists' in await kubectl.refused("create", "-f", "-", stdin=CONFIG)
    stored = await kubectl.read("cm", "shop")
    assert await kubectl("replace", "-f", "-", stdin={**CONFIG, "data": {"a": "1"}}) == "configmap/shop replaced\n"
    told = await kubectl.refused("replace", "-f", "-", stdin=stored)
    assert "the object has been modified; please apply your changes to the latest version and try again" in told
    await kubectl("replace", "--force", "-f", "-", stdin=CONFIG)
    assert (await kubectl.read("cm", "shop"))["data"] == {"color": "red"}


@pytest.mark.parametrize("output", ["yaml", "json"])
async def test_the_output_of_get_can_be_applied_again(kubectl: Kubectl, output: str) -> None:
    await kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    printed = await kubectl("get", "deployment", "web", "-o", output)
    assert await kubectl("apply", "-f", "-", stdin=printed) in {
        "deployment.apps/web unchanged\n",
        "deployment.apps/web configured\n",
    }
