"""The rights of the client's verbs for scripts and pods, on a real API server: exactly the documented rules, by the audit log.

The rights of `konverge plan` are the operator's (test_plan.py).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from dataclasses import dataclass, replace
from typing import Any

import pytest
from audit import Right, audited, rights_of, until_audited

import konverge as kv
from konverge.client import Client, ClientConfig, ResourceInfo, WatchQuery, WatchStream, missing_rule
from konverge.client.credentials import FixedCredentials
from konverge.daemon import storage
from konverge.errors import BadRequest, NotFound
from konverge.rbac import cluster_role
from konverge.runtime.http.access import SUBJECT_ACCESS_REVIEWS, is_allowed
from konverge_testing import ControlPlane, install_crds
from konverge_testing.proxy import ProxiedRequest

pytestmark = pytest.mark.control_plane

NAMESPACE = "client-rights"
CONFIG_MAP, POD, ACCOUNT = kv.kind("v1", "ConfigMap"), kv.kind("v1", "Pod"), kv.kind("v1", "ServiceAccount")
ROLE, BINDING = (kv.kind("rbac.authorization.k8s.io/v1", name) for name in ("ClusterRole", "ClusterRoleBinding"))
GAUGE = kv.kind("rights.example.com/v1", "Gauge", plural="gauges", namespaced=True)
DEFINITION = "gauges.rights.example.com"
OPEN: dict[str, Any] = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}


class WatchingClient(Client):
    """A client whose first watch can be awaited."""

    watching: asyncio.Event

    def watch(self, info: ResourceInfo, query: WatchQuery) -> AbstractAsyncContextManager[WatchStream]:
        self.watching.set()
        return super().watch(info, query)

    async def changed(self, waiting: Awaitable[object], change: Callable[[], Awaitable[object]]) -> None:
        """Change something as soon as the watch begins, and wait for the end of a call."""
        call, begun = asyncio.ensure_future(waiting), asyncio.ensure_future(self.watching.wait())
        await asyncio.wait({call, begun}, return_when=asyncio.FIRST_COMPLETED)
        begun.cancel()
        if not call.done():
            await change()
        await call


async def pages(client: WatchingClient, _: Client) -> None:
    assert [page async for page in client.pages(CONFIG_MAP, NAMESPACE)]


async def follow(client: WatchingClient, admin: Client) -> None:
    async with aclosing(client.follow(CONFIG_MAP, NAMESPACE, fields="metadata.name=a")) as events:
        assert (await anext(events)).type == "ADDED"
        await client.changed(anext(events), lambda: touch(admin))


async def wait_until(client: WatchingClient, admin: Client) -> None:
    states: list[kv.Object] = []

    def second(state: kv.Object) -> bool:
        states.append(state)
        return len(states) > 1

    await client.changed(client.wait_until(CONFIG_MAP, "a", second, NAMESPACE), lambda: touch(admin))


async def wait_until_deleted(client: WatchingClient, admin: Client) -> None:
    await admin.get_or_create(CONFIG_MAP.new("b", NAMESPACE))
    await client.changed(
        client.wait_until_deleted(CONFIG_MAP, "b", NAMESPACE), lambda: admin.delete(CONFIG_MAP, "b", NAMESPACE)
    )


async def touch(admin: Client) -> None:
    labels = {"touched": str(asyncio.get_running_loop().time())}
    await admin.patch(CONFIG_MAP, "a", NAMESPACE, patch={"metadata": {"labels": labels}}, style="merge")


async def logs(client: WatchingClient, _: Client) -> None:
    assert [line async for line in client.logs("shop", NAMESPACE)] == []


async def delete_collection(client: WatchingClient, _: Client) -> None:
    assert list(await client.delete_collection(CONFIG_MAP, NAMESPACE, labels="app=none")) == []


async def run(client: WatchingClient, _: Client) -> None:
    with suppress(BadRequest):  # after the authorization: the pod has no node
        await client.run("shop", NAMESPACE, ["ls"])


async def port_forward(client: WatchingClient, _: Client) -> None:
    with suppress(BadRequest):
        async with client.port_forward("shop", NAMESPACE, 80):
            pass


@dataclass(frozen=True)
class Verb:
    call: Callable[[WatchingClient, Client], Awaitable[None]]
    resource: str
    needed: tuple[str, ...]
    """The documented verbs of RBAC."""
    in_the_log: tuple[str, ...] = ()
    """The verbs of the audit log, if others: kube-apiserver checks `create` of a websocket without a line in the log."""


VERBS = [
    Verb(pages, "configmaps", ("list",)),
    Verb(follow, "configmaps", ("list", "watch")),
    Verb(wait_until, "configmaps", ("list", "watch")),
    Verb(wait_until_deleted, "configmaps", ("list", "watch")),
    Verb(logs, "pods/log", ("get",)),
    Verb(delete_collection, "configmaps", ("deletecollection",)),
    Verb(run, "pods/exec", ("create", "get"), ("get",)),
    Verb(port_forward, "pods/portforward", ("create", "get"), ("get",)),
]


@pytest.fixture
async def admin(audited_plane: ControlPlane) -> AsyncIterator[Client]:
    async with Client(await ClientConfig.from_kubeconfig(audited_plane.kubeconfig), name="test-admin") as client:
        await audited_plane.create_namespace(NAMESPACE)
        await client.get_or_create(ACCOUNT.new("default", NAMESPACE))
        await client.get_or_create(CONFIG_MAP.new("a", NAMESPACE))
        spec = {"containers": [{"name": "app", "image": "x"}], "automountServiceAccountToken": False}
        await client.get_or_create(POD.new("shop", NAMESPACE, spec=spec))
        yield client


async def restricted(plane: ControlPlane, admin: Client, user: str, rules: tuple[kv.Rule, ...]) -> WatchingClient:
    """Return a client with the rights of these rules, as soon as the API server enforces them."""
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
    await admin.create(ROLE.decode(cluster_role(user, rules)))
    await admin.create(BINDING.decode({"metadata": {"name": user}, "roleRef": reference, "subjects": [subject]}))
    for rule in rules:
        main, _, subresource = rule.resources[0].partition("/")
        about = {"group": rule.group, "resource": main, "subresource": subresource, "verb": rule.verbs[-1]}
        about |= {"name": rule.names[0]} if rule.names else {"namespace": NAMESPACE}
        spec = {"user": user, "resourceAttributes": about}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        async with asyncio.timeout(60):
            while not is_allowed(json.loads(await admin.raw("POST", SUBJECT_ACCESS_REVIEWS, body=review))):
                await asyncio.sleep(0.02)
    own = await ClientConfig.from_kubeconfig(plane.kubeconfig)
    headers = (("Impersonate-User", user),)
    source = FixedCredentials(replace(await own.source.current(), headers=headers))
    client = WatchingClient(ClientConfig(server=own.server, source=source, tls=own.tls), name=user)
    client.watching = asyncio.Event()
    return client


async def used(plane: ControlPlane, admin: Client, user: str, expected: frozenset[Right]) -> set[Right]:
    """Return the rights that a user needed according to the audit log, as soon as they include the expected rights."""
    with pytest.raises(NotFound):
        await admin.get(CONFIG_MAP, f"end-of-{user}", NAMESPACE)
    await until_audited(plane, ProxiedRequest("GET", f"/api/v1/namespaces/{NAMESPACE}/configmaps/end-of-{user}"))
    async with asyncio.timeout(60):
        while not (rights := {right for line in audited(plane, agent=user) for right in line.rights}) >= expected:
            await asyncio.sleep(0.05)  # a watch is logged when the API server has noticed its end
    return rights


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.call.__name__)
async def test_a_verb_needs_exactly_its_documented_rights(
    audited_plane: ControlPlane, admin: Client, verb: Verb
) -> None:
    name = f"rights-{verb.call.__name__.replace('_', '-')}"
    async with await restricted(audited_plane, admin, name, (kv.Rule("", (verb.resource,), verb.needed),)) as client:
        await verb.call(client, admin)
    expected = frozenset((each, verb.resource) for each in verb.in_the_log or verb.needed)
    assert await used(audited_plane, admin, name, expected) == expected
    for missing in verb.needed:
        left = tuple(each for each in verb.needed if each != missing)
        rules = (kv.Rule("", (verb.resource,), left),) if left else ()
        async with await restricted(audited_plane, admin, f"without-{missing}-{name}", rules) as client:
            with pytest.raises(kv.Forbidden) as caught:
                await verb.call(client, admin)
        rule = missing_rule(caught.value)
        assert rule is not None
        assert rule["resources"] == [verb.resource]
        assert missing in rule["verbs"]


def definition(stored: str) -> dict[str, Any]:
    """Return a definition with two versions."""
    versions = [{"name": name, "served": True, "storage": name == stored, "schema": OPEN} for name in ("v1beta1", "v1")]
    names = {"kind": "Gauge", "plural": "gauges"}
    spec = {"group": "rights.example.com", "scope": "Namespaced", "names": names, "versions": versions}
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    return {**head, "metadata": {"name": DEFINITION}, "spec": spec}


async def test_a_migration_needs_exactly_the_printed_rights(audited_plane: ControlPlane, admin: Client) -> None:
    await install_crds(admin, [definition("v1beta1")])
    await admin.create(GAUGE.new("g", NAMESPACE))
    patch = {"spec": definition("v1")["spec"]}
    await admin.patch(storage.DEFINITION, DEFINITION, patch=patch, style="merge")
    rules = storage.rights_of([definition("v1")])
    async with await restricted(audited_plane, admin, "rights-migration", rules) as client:
        result = await storage.migrate_kind(client, DEFINITION)
    assert (result.before, result.objects, result.failures) == (("v1beta1", "v1"), 1, [])
    expected = rights_of(rule.to_dict() for rule in rules)
    assert await used(audited_plane, admin, "rights-migration", expected) == expected
