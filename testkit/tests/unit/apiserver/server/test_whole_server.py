"""The in-memory API server as its users use it: through the client, on virtual time, all rooms together."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest
import pytest_asyncio

from konverge.client import Client
from konverge.errors import ApiError, Conflict, Forbidden, NotFound
from konverge.kinds import kind
from konverge_testing import ApiServer
from konverge_testing.apiserver.faults.rules import Drop, Match, Refuse, Rule
from konverge_testing.apiserver.requests import ADMIN, Call
from konverge_testing.loop import CLOCK_ERROR

CONFIG_MAP = kind("v1", "ConfigMap")
NAMESPACE = kind("v1", "Namespace", namespaced=False)
POD = kind("v1", "Pod")
QUOTA = kind("v1", "ResourceQuota")
MUTATING = kind("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", namespaced=False)
VALIDATING = kind("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", namespaced=False)
CONTAINER = {"name": "c", "image": "registry.example.com/c:1"}


@pytest_asyncio.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer(random=Random(1)) as running:
        yield running


@pytest_asyncio.fixture
async def client(server: ApiServer) -> AsyncIterator[Client]:
    async with Client(server.config(), name="somebody", random=Random(2)) as opened:
        yield opened


async def at_rest(server: ApiServer) -> None:
    """Wait until no controller of the server has anything to do."""
    async with asyncio.timeout(5):
        while not server.idle:
            await asyncio.sleep(0.01)


def hook(url: str) -> list[dict[str, Any]]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}
    return [
        {
            "name": "hook.example.com",
            "rules": [rule],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": url},
        }
    ]


def answer(review: dict[str, Any], **response: Any) -> dict[str, Any]:
    return {**review, "response": {"uid": review["request"]["uid"], "allowed": True, **response}}


async def test_a_mutating_webhook_of_this_process_changes_what_is_stored(server: ApiServer, client: Client) -> None:
    async def label(review: dict[str, Any]) -> dict[str, Any]:
        patch = [{"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}}]
        encoded = base64.b64encode(json.dumps(patch).encode()).decode()
        return answer(review, patchType="JSONPatch", patch=encoded)

    server.webhooks["https://hooks.example.com/label"] = label
    await client.create(MUTATING.new("label", webhooks=hook("https://hooks.example.com/label")))
    stored = await client.create(CONFIG_MAP.new("a", "default", data={"x": "1"}))
    assert stored.metadata.labels == {"seen": "yes"}


async def test_a_validating_webhook_refuses_with_its_own_words(server: ApiServer, client: Client) -> None:
    async def refuse(review: dict[str, Any]) -> dict[str, Any]:
        return answer(review, allowed=False, status={"message": "not on a Sunday", "code": 403})

    server.webhooks["https://hooks.example.com/refuse"] = refuse
    await client.create(VALIDATING.new("refuse", webhooks=hook("https://hooks.example.com/refuse")))
    with pytest.raises(Forbidden, match=r'admission webhook "hook\.example\.com" denied the request: not on a Sunday'):
        await client.create(CONFIG_MAP.new("a", "default"))
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAP, "a", "default")


async def test_a_webhook_that_hangs_is_given_up_after_its_virtual_time(server: ApiServer, client: Client) -> None:
    async def hang(review: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(86_400)
        return answer(review)

    server.webhooks["https://hooks.example.com/hang"] = hang
    await client.create(VALIDATING.new("hang", webhooks=hook("https://hooks.example.com/hang")))
    with pytest.raises(ApiError, match="failed calling webhook"):
        await client.create(CONFIG_MAP.new("a", "default"))


async def test_server_times_do_not_follow_the_wrong_clock_of_a_client(client: Client) -> None:
    before = await client.create(CONFIG_MAP.new("before", "default"))
    error = CLOCK_ERROR.set(-86_400.0)
    try:
        after = await client.create(CONFIG_MAP.new("after", "default"))
        assert CLOCK_ERROR.get() == -86_400.0
    finally:
        CLOCK_ERROR.reset(error)
    assert after.metadata.creation_timestamp == before.metadata.creation_timestamp


async def test_a_quota_holds_and_gives_back_what_is_deleted(server: ApiServer, client: Client) -> None:
    await client.create(QUOTA.new("two", "default", spec={"hard": {"pods": "2"}}))
    for name in ("a", "b"):
        await client.create(POD.new(name, "default", spec={"containers": [CONTAINER]}))
    with pytest.raises(Forbidden, match="exceeded quota: two, requested: pods=1, used: pods=2, limited: pods=2"):
        await client.create(POD.new("c", "default", spec={"containers": [CONTAINER]}))
    await client.delete(POD, "a", "default")
    async with asyncio.timeout(5):
        while (await client.get(QUOTA, "two", "default")).get("status", "used", "pods") != "1":
            await asyncio.sleep(0.01)
    await client.create(POD.new("c", "default", spec={"containers": [CONTAINER]}))


async def test_children_follow_their_owner_and_a_namespace_takes_all_with_it(server: ApiServer, client: Client) -> None:
    await client.create(NAMESPACE.new("web"))
    owner = await client.create(CONFIG_MAP.new("owner", "web"))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.metadata.uid}
    child = {"metadata": {"name": "child", "namespace": "web", "ownerReferences": [reference]}}
    await client.create(CONFIG_MAP.decode({"apiVersion": "v1", "kind": "ConfigMap", **child}))
    await client.delete(CONFIG_MAP, "owner", "web")
    await at_rest(server)
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAP, "child", "web")
    await client.create(CONFIG_MAP.new("other", "web"))
    await client.delete(NAMESPACE, "web")
    await at_rest(server)
    with pytest.raises(NotFound):
        await client.get(NAMESPACE, "web")


async def test_write_with_a_lost_response_is_stored_and_refused_write_is_not(server: ApiServer, client: Client) -> None:
    await client.create(CONFIG_MAP.new("a", "default", data={"x": "1"}))
    intent = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}
    lost = server.faults.add(Rule(Match(verbs=("apply",)), Drop(moment="after"), count=1))
    await client.apply(CONFIG_MAP, {**intent, "data": {"y": "2"}})  # repeated by the client, which changes nothing
    assert len(lost.hits) == 1
    assert (await client.get(CONFIG_MAP, "a", "default")).get("data", "y") == "2"
    server.faults.add(Rule(Match(verbs=("apply",)), Refuse(409), count=1))
    with pytest.raises(Conflict):
        await client.apply(CONFIG_MAP, {**intent, "data": {"y": "3"}})
    assert (await client.get(CONFIG_MAP, "a", "default")).get("data", "y") == "2"


async def test_the_same_seed_gives_the_same_uids_and_names() -> None:
    async def made() -> list[tuple[str, str]]:
        async with ApiServer(random=Random(7)) as one, Client(one.config(), name="x") as user:
            data = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-", "namespace": "default"}}
            stored = [await user.create(CONFIG_MAP.decode(data)) for _ in range(3)]
            return [(thing.name, thing.metadata.uid) for thing in stored]

    assert await made() == await made()


async def evict(server: ApiServer, name: str, **options: Any) -> tuple[int, str]:
    """Evict a pod; returns the status code and the message of the response."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}}
    path = f"/api/v1/namespaces/default/pods/{name}/eviction"
    call = Call.of(
        "POST", path, json.dumps({**body, "deleteOptions": options}).encode(), content_type="application/json"
    )
    call.user = ADMIN
    found = await server.handle(call)
    return found.status, json.loads(found.body).get("message", "")


async def test_an_eviction_is_admitted_once_and_takes_the_pod_away(server: ApiServer, client: Client) -> None:
    asked: list[tuple[str, str]] = []

    async def note(review: dict[str, Any]) -> dict[str, Any]:
        request = review["request"]
        asked.append((request["operation"], request["kind"]["kind"]))
        return answer(review)

    server.webhooks["https://hooks.example.com/note"] = note
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["pods/eviction", "pods"]}
    webhooks = [{**hook("https://hooks.example.com/note")[0], "rules": [rule]}]
    await client.create(POD.new("a", "default", spec={"containers": [CONTAINER]}))
    await client.create(VALIDATING.new("note", webhooks=webhooks))
    assert (await evict(server, "a"))[0] == 201
    assert asked == [("CREATE", "Eviction")]
    with pytest.raises(NotFound):
        await client.get(POD, "a", "default")


async def test_an_eviction_of_another_version_is_refused_and_changes_nothing(server: ApiServer, client: Client) -> None:
    pod = await client.create(POD.new("a", "default", spec={"containers": [CONTAINER]}))
    code, message = await evict(server, "a", preconditions={"resourceVersion": "1"})
    assert code == 409
    assert "the ResourceVersion in the precondition (1) does not match" in message
    assert (await client.get(POD, "a", "default")).metadata.resource_version == pod.metadata.resource_version


async def test_a_server_without_controllers_collects_nothing_and_leaves_deleted_namespaces_terminating() -> None:
    """As with envtest, where kube-controller-manager does not run."""
    async with (
        ApiServer(random=Random(1), service_accounts="off", controllers=False) as server,
        Client(server.config(), name="somebody", random=Random(2)) as client,
    ):
        await client.create(NAMESPACE.new("web"))
        await client.create(CONFIG_MAP.new("kept", "web"))
        await client.delete(NAMESPACE, "web")
        await asyncio.sleep(60)
        assert (await client.get(NAMESPACE, "web")).status["phase"] == "Terminating"
        assert (await client.get(CONFIG_MAP, "kept", "web")).name == "kept"
        assert (await client.list(kind("v1", "ServiceAccount"), "default")).items == []
