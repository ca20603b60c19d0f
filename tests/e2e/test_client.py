"""The client against a real kube-apiserver."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from every_character import Page, differences
from msgspec.structs import replace

from konverge.client import (
    Client,
    ClientConfig,
    ClientSettings,
    ListQuery,
    ResourceInfo,
    WatchQuery,
    WriteState,
    credentials,
    missing_rule,
    status_error,
)
from konverge.clock import rfc3339, wall_clock
from konverge.crds import crd
from konverge.errors import (
    AlreadyExists,
    ApplyConflict,
    BadRequest,
    Conflict,
    Expired,
    FieldConflict,
    Forbidden,
    Invalid,
    NotFound,
    NotServed,
    TooManyRequests,
    Unauthorized,
)
from konverge.kinds import kind
from konverge.metrics import Metrics
from konverge.objects import compare_versions
from konverge_testing import ControlPlane, install_crds

pytestmark = pytest.mark.control_plane

CONFIG_MAP = kind("v1", "ConfigMap")
NAMESPACE = kind("v1", "Namespace")
DEPLOYMENT = kind("apps/v1", "Deployment")
CRD = kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
ROLE = kind("rbac.authorization.k8s.io/v1", "Role")
BINDING = kind("rbac.authorization.k8s.io/v1", "RoleBinding")
WRITER = "someone"


@pytest.fixture
async def client(admin_kubeconfig: Path) -> AsyncIterator[Client]:
    config = await ClientConfig.from_kubeconfig(admin_kubeconfig, environ={})
    async with Client(config, name="tester") as made:
        yield made


def deployment(namespace: str, **spec: Any) -> dict[str, Any]:
    labels = {"app": "shop"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "shop:1"}]}}
    return {
        "metadata": {"name": "shop", "namespace": namespace},
        "spec": {"selector": {"matchLabels": labels}, "template": pod, **spec},
    }


# -- reading and writing


async def test_an_object_is_made_read_and_missed(client: Client, namespace: str) -> None:
    made = await client.create(CONFIG_MAP.new("a", namespace, data={"x": "y"}), writer=WRITER)
    assert (await client.get(CONFIG_MAP, "a", namespace)).to_dict() == made.to_dict()
    (write,) = client.ledger.pending(WRITER)
    assert (write.state, write.version, write.uid) == (
        WriteState.DONE,
        made.metadata.resource_version,
        made.metadata.uid,
    )
    with pytest.raises(AlreadyExists):
        await client.create(CONFIG_MAP.new("a", namespace))
    with pytest.raises(NotFound, match=f'get configmaps {namespace}/b: configmaps "b" not found'):
        await client.get(CONFIG_MAP, "b", namespace)
    with pytest.raises(NotFound, match="namespaces"):
        await client.create(CONFIG_MAP.new("a", "no-such-namespace"))


async def test_the_server_may_choose_the_name(client: Client, namespace: str) -> None:
    new = CONFIG_MAP.decode({"metadata": {"generateName": "a-", "namespace": namespace}})
    made = await client.create(new, writer=WRITER)
    assert made.name.startswith("a-")
    assert [write.name for write in client.ledger.pending(WRITER)] == [made.name]


async def test_a_list_comes_in_pages_of_one_version(client: Client, namespace: str) -> None:
    for name in "abcde":
        await client.create(CONFIG_MAP.new(name, namespace, labels={"kind": "vowel" if name in "ae" else "other"}))
    small = Client(client.config, name="tester", settings=ClientSettings(page_size=2))
    async with small:
        found = await small.list(CONFIG_MAP, namespace, labels="kind")
        assert [item.name for item in found] == list("abcde")
        assert [item.name for item in await small.list(CONFIG_MAP, namespace, labels="kind=vowel")] == ["a", "e"]
        assert [item.name for item in await small.list(CONFIG_MAP, fields="metadata.name=c")] == ["c"]
        assert all(item.kind_name == "ConfigMap" for item in found)
        info, query = await small.resource(CONFIG_MAP), ListQuery(namespace=namespace, limit=2)
        page = await small.list_page(info, query)
        assert len(page.items) == 2
        # Promised for pages that a token connects, whatever is written in between ("the resourceVersion of the collection remains constant
        # across each response", API concepts, "Retrieving large results sets in chunks"; KEP-365). Another list, such as `found`, has a
        # version of its own: the version of the last write to the whole store, by any client.
        await client.create(CONFIG_MAP.new("in-between", namespace))
        following = await small.list_page(info, replace(query, continue_=page.continue_))
        assert following.resource_version == page.resource_version
        assert compare_versions(page.resource_version, found.resource_version) in (0, 1)


async def test_metadata_comes_without_the_body(client: Client, namespace: str) -> None:
    made = await client.create(CONFIG_MAP.new("a", namespace, labels={"x": "y"}, data={"big": "z" * 1000}))
    assert await client.get_metadata(CONFIG_MAP, "a", namespace) == made.metadata
    info = await client.resource(CONFIG_MAP)
    page = await client.list_page(info, ListQuery(namespace=namespace, metadata_only=True))
    assert all(b"zzz" not in bytes(item) for item in page.items)
    assert any(json.loads(bytes(item))["metadata"]["name"] == "a" for item in page.items)


async def test_a_replacement_of_an_old_version_conflicts(client: Client, namespace: str) -> None:
    old = await client.create(CONFIG_MAP.new("a", namespace, data={"x": "1"}))
    changed = CONFIG_MAP.decode({**old.to_dict(), "data": {"x": "2"}})
    assert (await client.replace(changed, writer=WRITER)).get("data", "x") == "2"
    client.ledger.forget(WRITER)
    with pytest.raises(Conflict) as caught:
        await client.replace(changed, writer=WRITER)
    assert not isinstance(caught.value, ApplyConflict)
    assert client.ledger.pending(WRITER) == ()


async def test_every_code_point_in_keys_and_values_is_stored_unchanged(client: Client, namespace: str) -> None:
    await install_crds(client, [crd(Page)])
    assert await differences(client, namespace) == []


async def test_the_three_styles_of_patch(client: Client, namespace: str) -> None:
    await client.apply(DEPLOYMENT, deployment(namespace))
    merged = await client.patch(
        DEPLOYMENT, "shop", namespace, patch={"spec": {"replicas": 3, "paused": None}}, style="merge"
    )
    assert merged.spec["replicas"] == 3
    container = {"name": "sidecar", "image": "side:1"}
    strategic = await client.patch(
        DEPLOYMENT,
        "shop",
        namespace,
        patch={"spec": {"template": {"spec": {"containers": [container]}}}},
        style="strategic",
    )
    assert sorted(one["name"] for one in strategic.spec["template"]["spec"]["containers"]) == ["main", "sidecar"]
    guarded = [
        {"op": "test", "path": "/spec/replicas", "value": 3},
        {"op": "replace", "path": "/spec/replicas", "value": 4},
    ]
    replaced = await client.patch(DEPLOYMENT, "shop", namespace, patch=guarded, style="json")
    assert replaced.spec["replicas"] == 4
    with pytest.raises(Invalid):
        await client.patch(DEPLOYMENT, "shop", namespace, patch=guarded, style="json")


async def test_a_dry_run_changes_nothing(client: Client, namespace: str) -> None:
    tried = await client.create(CONFIG_MAP.new("a", namespace), dry_run=True, writer=WRITER)
    assert tried.metadata.uid
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAP, "a", namespace)
    await client.create(CONFIG_MAP.new("a", namespace))
    assert await client.delete(CONFIG_MAP, "a", namespace, dry_run=True)
    await client.get(CONFIG_MAP, "a", namespace)
    assert client.ledger.statistics().pending == 0


async def test_object_that_breaks_the_schema_is_invalid_with_the_field_named(client: Client, namespace: str) -> None:
    with pytest.raises(Invalid) as caught:
        await client.apply(DEPLOYMENT, deployment(namespace, replicas=-1))
    assert [field for field, _ in caught.value.causes] == ["spec.replicas"]
    with pytest.raises(BadRequest, match="not a known field selector"):
        await client.list(CONFIG_MAP, namespace, fields="spec.mode=on")


# -- server-side apply


async def test_an_apply_makes_changes_and_owns(client: Client, namespace: str) -> None:
    made = await client.apply(DEPLOYMENT, deployment(namespace, replicas=2), writer=WRITER)
    (entry,) = made.get("metadata", "managedFields")
    assert (entry["manager"], entry["operation"]) == ("tester", "Apply")
    again = await client.apply(DEPLOYMENT, deployment(namespace, replicas=2, paused=None), writer=WRITER)
    assert again.metadata.resource_version == made.metadata.resource_version
    dropped = await client.apply(DEPLOYMENT, deployment(namespace), writer=WRITER)
    assert dropped.spec["replicas"] == 1  # it has no owner any more, so the default returns
    assert client.ledger.pending(WRITER)[0].version == dropped.metadata.resource_version


async def test_an_apply_conflict_names_manager_and_field_and_force_takes(client: Client, namespace: str) -> None:
    await client.apply(DEPLOYMENT, deployment(namespace, replicas=2))
    with pytest.raises(ApplyConflict) as caught:
        await client.apply(DEPLOYMENT, deployment(namespace, replicas=3), manager="other", writer=WRITER)
    assert caught.value.conflicts == (FieldConflict(manager="tester", field=".spec.replicas"),)
    assert caught.value.conflicts[0].field == ".spec.replicas"
    assert client.ledger.pending(WRITER) == ()
    taken = await client.apply(DEPLOYMENT, deployment(namespace, replicas=3), manager="other", force=True)
    assert taken.spec["replicas"] == 3


async def test_conflicts_inside_lists_and_with_updates_are_named_too(client: Client, namespace: str) -> None:
    await client.apply(DEPLOYMENT, deployment(namespace))
    image = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "shop:2"}]
    await client.patch(DEPLOYMENT, "shop", namespace, patch=image, style="json")
    with pytest.raises(ApplyConflict) as caught:
        await client.apply(DEPLOYMENT, deployment(namespace), manager="other")
    assert caught.value.conflicts == (
        FieldConflict(manager="tester", field='.spec.template.spec.containers[name="main"].image'),
    )


async def test_the_status_is_applied_through_its_subresource(client: Client, namespace: str) -> None:
    made = await client.apply(DEPLOYMENT, deployment(namespace))
    assert (await client.resource(DEPLOYMENT)).has_status
    now = rfc3339(wall_clock())
    condition = {"type": "Shown", "status": "True", "reason": "x", "lastTransitionTime": now, "lastUpdateTime": now}
    intent = {"metadata": {"name": "shop", "namespace": namespace}, "status": {"conditions": [condition]}}
    found = await client.apply(DEPLOYMENT, intent, subresource="status", writer=WRITER)
    assert found.condition("Shown").is_true
    assert found.metadata.generation == made.metadata.generation
    assert [one.get("subresource") for one in found.get("metadata", "managedFields")] == [None, "status"]
    with pytest.raises(NotFound):
        await client.apply(
            CONFIG_MAP, {"metadata": {"name": "a", "namespace": namespace}}, subresource="status", writer=WRITER
        )


async def test_an_apply_with_a_version_is_a_lock(client: Client, namespace: str) -> None:
    made = await client.apply(CONFIG_MAP, {"metadata": {"name": "a", "namespace": namespace}, "data": {"x": "1"}})
    locked = {"metadata": {**_identity(made.data), "resourceVersion": made.metadata.resource_version}}
    await client.apply(CONFIG_MAP, {**locked, "data": {"x": "2"}})
    with pytest.raises(Conflict):
        await client.apply(CONFIG_MAP, {**locked, "data": {"x": "3"}})


def _identity(data: dict[str, Any]) -> dict[str, str]:
    return {"name": data["metadata"]["name"], "namespace": data["metadata"]["namespace"]}


# -- deletion


async def test_a_deletion_checks_the_uid_and_tells_whether_there_was_anything(client: Client, namespace: str) -> None:
    made = await client.create(CONFIG_MAP.new("a", namespace))
    with pytest.raises(Conflict, match="UID"):
        await client.delete(CONFIG_MAP, "a", namespace, uid="00000000-0000-0000-0000-000000000000", writer=WRITER)
    with pytest.raises(Conflict, match="ResourceVersion"):
        await client.delete(CONFIG_MAP, "a", namespace, resource_version="1", writer=WRITER)
    assert client.ledger.pending(WRITER) == ()
    assert await client.delete(CONFIG_MAP, "a", namespace, uid=made.metadata.uid, writer=WRITER) is True
    (write,) = client.ledger.pending(WRITER)
    assert (write.state, write.uid) == (WriteState.DELETED, made.metadata.uid)
    assert await client.delete(CONFIG_MAP, "a", namespace, uid=made.metadata.uid) is False


async def test_a_deletion_that_waits_for_finalizers_is_a_change(client: Client, namespace: str) -> None:
    held = CONFIG_MAP.decode({"metadata": {"name": "a", "namespace": namespace, "finalizers": ["example.com/hold"]}})
    await client.create(held)
    assert await client.delete(CONFIG_MAP, "a", namespace, writer=WRITER)
    now = await client.get(CONFIG_MAP, "a", namespace)
    assert now.metadata.deleting
    (write,) = client.ledger.pending(WRITER)
    assert (write.state, write.version) == (WriteState.DONE, now.metadata.resource_version)
    await client.patch(CONFIG_MAP, "a", namespace, patch={"metadata": {"finalizers": None}}, style="merge")
    assert await client.delete(CONFIG_MAP, "a", namespace) is False


# -- watching


async def test_streaming_list_ends_with_its_bookmark_and_continues_as_a_watch(client: Client, namespace: str) -> None:
    for name in "ab":
        await client.create(CONFIG_MAP.new(name, namespace))
    info = await client.resource(CONFIG_MAP)
    query = WatchQuery(namespace=namespace, send_initial_events=True, timeout_seconds=60, idle_seconds=60.0)
    seen: list[tuple[str, str]] = []
    async with client.watch(info, query) as stream, asyncio.timeout(60):
        async for events in stream:
            for event in events:
                metadata = json.loads(bytes(event.object))["metadata"]
                seen.append((event.type, metadata.get("name", "")))
                if event.type == "BOOKMARK" and metadata.get("annotations") == {"k8s.io/initial-events-end": "true"}:
                    await client.create(CONFIG_MAP.new("c", namespace))
            if ("ADDED", "c") in seen:  # other objects' events may arrive in the same lines
                break
    names = [name for _, name in seen if name != "kube-root-ca.crt"]
    assert sorted(names[:2]) == ["a", "b"]
    assert names[2:] == ["", "c"]
    assert stream.bytes_read > 0


async def test_a_watch_of_metadata_carries_no_bodies(client: Client, namespace: str) -> None:
    await client.create(CONFIG_MAP.new("a", namespace, data={"big": "z" * 1000}))
    query = WatchQuery(
        namespace=namespace,
        fields="metadata.name=a",
        send_initial_events=True,
        timeout_seconds=60,
        idle_seconds=60.0,
        metadata_only=True,
    )
    async with client.watch(await client.resource(CONFIG_MAP), query) as stream, asyncio.timeout(60):
        async for events in stream:
            found = json.loads(bytes(events[0].object))
            break
    assert found["kind"] == "PartialObjectMetadata"
    assert "data" not in found


async def test_a_watch_ends_when_the_server_says_so(client: Client, namespace: str) -> None:
    listed = await client.list(CONFIG_MAP, namespace)
    query = WatchQuery(
        namespace=namespace, resource_version=listed.resource_version, timeout_seconds=1, idle_seconds=60.0
    )
    async with client.watch(await client.resource(CONFIG_MAP), query) as stream, asyncio.timeout(60):
        async for _ in stream:
            pass


# -- discovery


def widgets(group: str) -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {
        "plural": "widgets",
        "singular": "widget",
        "kind": "Widget",
        "listKind": "WidgetList",
        "shortNames": ["wg"],
    }
    return {
        "metadata": {"name": f"widgets.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


async def test_the_warnings_of_lists_and_watches_are_counted(admin_kubeconfig: Path, namespace: str) -> None:
    metrics, endpoints = Metrics(), kind("v1", "Endpoints")
    config = await ClientConfig.from_kubeconfig(admin_kubeconfig)
    async with Client(config, name="reader", metrics=metrics) as client:
        version = (await client.list(endpoints, namespace)).resource_version
        query = WatchQuery(namespace=namespace, resource_version=version, timeout_seconds=1, idle_seconds=60)
        async with client.watch(await client.resource(endpoints), query):
            pass
    assert metrics.registry.get_sample_value("konverge_request_warnings_total", {"host": config.host}) == 2


async def test_a_crd_that_comes_and_goes_is_noticed(admin_kubeconfig: Path, namespace: str) -> None:
    group = f"{namespace}.example.com"
    widget = kind(f"{group}/v1", "Widget")
    config = await ClientConfig.from_kubeconfig(admin_kubeconfig, environ={})
    async with Client(config, name="tester", settings=ClientSettings(discovery_absent_seconds=0.05)) as client:
        with pytest.raises(NotServed, match=f"no Widget in {group}/v1"):
            await client.resource(widget)
        await client.apply(CRD, widgets(group))
        info = await _eventually_served(client, widget)
        assert (info.plural, info.namespaced, info.short_names) == ("widgets", True, ("wg",))
        made = await client.create(widget.decode({"metadata": {"name": "a", "namespace": namespace}}))
        assert (await client.get(widget, "a", namespace)).metadata.uid == made.metadata.uid
        with pytest.raises(NotFound):
            await client.get(widget, "b", namespace)

        await client.delete(CRD, f"widgets.{group}")
        async with asyncio.timeout(90):
            while True:
                try:
                    await client.list(widget, namespace)
                except NotServed:
                    break
                await asyncio.sleep(0.05)
        with pytest.raises(NotServed):
            await client.resource(widget)


async def test_a_version_that_the_server_forgot_is_expired(client: Client, namespace: str) -> None:
    group = f"{namespace}.example.com"
    widget = kind(f"{group}/v1", "Widget")
    await client.apply(CRD, widgets(group))  # its watch cache begins now, long after version 1
    query = WatchQuery(namespace=namespace, resource_version="1", timeout_seconds=60, idle_seconds=60.0)
    async with Client(client.config, name="tester", settings=ClientSettings(discovery_absent_seconds=0.05)) as fresh:
        info = await _eventually_served(fresh, widget)
        await fresh.list(widget, namespace)  # waits for the storage of the new kind
        with pytest.raises(Expired):
            await _watched_once_stored(fresh, info, query)
    await client.delete(CRD, f"widgets.{group}")


async def _watched_once_stored(client: Client, info: ResourceInfo, query: WatchQuery) -> None:
    """Raise the error of the first event; retries while the server prepares the storage of a new kind."""
    async with asyncio.timeout(90):
        while True:
            with contextlib.suppress(TooManyRequests):
                async with client.watch(info, query) as stream:
                    async for events in stream:
                        assert [event.type for event in events] == ["ERROR"]
                        raise status_error(events[0].object)
            await asyncio.sleep(0.1)


async def _eventually_served(client: Client, widget: Any) -> Any:
    async with asyncio.timeout(90):
        while True:
            try:
                return await client.resource(widget)
            except NotServed:
                await asyncio.sleep(0.05)


async def test_discovery_knows_scope_and_subresources(client: Client) -> None:
    info = await client.resource(DEPLOYMENT)
    assert (info.plural, info.singular, info.namespaced) == ("deployments", "deployment", True)
    assert info.subresources == {"scale", "status"}
    assert {"get", "list", "watch", "patch"} <= info.verbs
    assert not (await client.resource(NAMESPACE)).namespaced


# -- rights and credentials


async def test_a_denial_names_the_rule_and_the_rule_mends_it(
    control_plane: ControlPlane, client: Client, namespace: str
) -> None:
    path = await control_plane.service_account_kubeconfig(namespace, "reader")
    async with Client(await ClientConfig.from_kubeconfig(path, environ={}), name="reader") as reader:
        with pytest.raises(Forbidden) as caught:
            await reader.apply(DEPLOYMENT, deployment(namespace), writer=WRITER)
        assert reader.ledger.pending(WRITER) == ()
        rule = missing_rule(caught.value)
        assert rule == {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["create", "patch"]}
        with pytest.raises(Forbidden) as caught:
            await reader.list(CONFIG_MAP)
        assert missing_rule(caught.value) == {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}
        with pytest.raises(Forbidden) as caught:
            await reader.raw("GET", "/metrics")
        assert missing_rule(caught.value) == {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}

        await _grant(client, namespace, "reader", rule)
        async with asyncio.timeout(60):
            while True:
                try:
                    assert (await reader.apply(DEPLOYMENT, deployment(namespace))).name == "shop"
                    break
                except Forbidden:
                    await asyncio.sleep(0.05)


async def _grant(client: Client, namespace: str, account: str, rule: dict[str, Any]) -> None:
    await client.create(ROLE.decode({"metadata": {"name": account, "namespace": namespace}, "rules": [rule]}))
    binding = {
        "metadata": {"name": account, "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": account},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }
    await client.create(BINDING.decode(binding))


REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


async def whoami(client: Client) -> str:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = json.loads(await client.raw("POST", REVIEW, body=body, repeatable=True))
    return str(answer["status"]["userInfo"]["username"])


async def test_a_pod_speaks_as_its_service_account_and_follows_its_token(
    control_plane: ControlPlane, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "LOOK_SECONDS", 0.0)
    await control_plane.service_account_files(tmp_path, namespace=namespace, name="pod")
    config = await ClientConfig.load(mount=tmp_path, environ=control_plane.environment)
    assert config.namespace == namespace
    async with Client(config, name="pod") as client:
        assert await whoami(client) == f"system:serviceaccount:{namespace}:pod"
        await control_plane.service_account_files(tmp_path, namespace=namespace, name="other")
        assert await whoami(client) == f"system:serviceaccount:{namespace}:other"


async def test_a_token_that_is_refused_is_read_again_within_the_same_call(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    await control_plane.service_account_files(tmp_path, namespace=namespace, name="pod")
    good = (tmp_path / "token").read_text()
    (tmp_path / "token").write_text("refused")
    async with Client(ClientConfig.in_cluster(mount=tmp_path, environ=control_plane.environment), name="pod") as client:
        with pytest.raises(Unauthorized):
            await whoami(client)
        (tmp_path / "token").write_text(good)
        assert await whoami(client) == f"system:serviceaccount:{namespace}:pod"


async def test_a_user_of_a_certificate_may_impersonate(control_plane: ControlPlane, tmp_path: Path) -> None:
    import yaml

    plain = control_plane.user_kubeconfig("jane", groups=("system:masters",))
    async with Client(await ClientConfig.from_kubeconfig(plain, environ={}), name="t") as client:
        assert await whoami(client) == "jane"
    data = yaml.safe_load(plain.read_text())
    data["users"][0]["user"] |= {"as": "paul", "as-groups": ["dev"]}
    (tmp_path / "config").write_text(yaml.safe_dump(data))
    async with Client(await ClientConfig.from_kubeconfig(tmp_path / "config", environ={}), name="t") as client:
        assert await whoami(client) == "paul"


async def test_an_authority_that_did_not_sign_is_refused(control_plane: ControlPlane) -> None:
    import trustme

    from konverge.errors import Unreachable

    config = ClientConfig.direct(control_plane.url, token="t", ca=trustme.CA().cert_pem.bytes())
    async with Client(config, name="t", settings=ClientSettings(attempts=1)) as client:
        with pytest.raises(Unreachable, match="did not sign"):
            await client.raw("GET", "/version")
