"""Replicas of the daemon with the rights that the chart gives for each mode of sharding, on the in-memory API server, in virtual time.

Every action that needs a right happens: replicas join, die, stop and are replaced, Leases are edited, objects are created, changed and
deleted.
"""

import asyncio
from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from helm_template import NAMESPACE, Rendered, Template, merged

from konverge.client import Client, ClientConfig
from konverge.crds import all_manifests
from konverge.crds.workspaces_v1alpha1 import WorkspaceClaim
from konverge.daemon.config import load
from konverge.daemon.engine import manager_settings
from konverge.daemon.families import installed_settings
from konverge.daemon.programs import fill
from konverge.errors import NotReady
from konverge.kinds import kind
from konverge.objects import Object
from konverge.runtime import Manager
from konverge.runtime.election.record import LEASE
from konverge.words import Reason
from konverge_testing import ApiServer, VirtualTimeLoop, install_crds
from konverge_testing.apiserver.requests import Call, Response, User
from konverge_testing.in_process import in_process
from konverge_testing.lab.process import Wire, killable

EVENT = kind("events.k8s.io/v1", "Event")
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:konverge"
GROUPS = ("system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}", "system:authenticated")
RBAC = "rbac.authorization.k8s.io"
OF_RBAC = ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
MODES = ("leader", "hash", "coordinator", "ordinal")
VALUES: dict[str, Any] = {
    "replicas": 3,
    "election": {"enabled": False},
    "families": {"apps": {"enabled": False}, "workspaces": {"enabled": True}},
    "settings": {"workspaces": {"provider": "memory"}},
}
"""The claims of workspaces are shared, and the pools of the family quota have a leader beside the ring."""


class Daemons:
    """Replicas of the daemon that a chart renders, each with the rights of its ServiceAccount."""

    def __init__(self, server: ApiServer, rendered: Rendered) -> None:
        self._server = server
        loaded = load(installed_settings(), flags={}, environ=rendered.environment)
        assert loaded.warnings == ()
        self._settings = loaded.settings
        self.running: dict[str, tuple[Manager, Wire]] = {}
        self.denied: Counter[tuple[str, str]] = Counter()
        self.sent: set[tuple[str, str]] = set()

    async def _handle(self, call: Call) -> Response:
        response = await self._server.handle(call)
        about = (call.method, call.path.partition("?")[0])
        self.sent.add(about)
        if response.status == 403:
            self.denied[about] += 1
        return response

    def _config(self, wire: Wire) -> ClientConfig:
        return killable(in_process(self._handle, user=User(ACCOUNT, GROUPS), namespace=NAMESPACE), wire)

    async def start(self, name: str) -> None:
        wire = Wire(lambda: 0)
        settings = replace(manager_settings(self._settings), instance=name)
        manager = Manager("konverge", self._config(wire), settings=settings, random=Random(name))
        await fill(manager, None, self._settings)
        self.running[name] = manager, wire
        await manager.start()
        await manager.wait_ready(timeout=120)

    def kill(self, name: str) -> None:
        self.running[name][1].cut()

    async def stop(self, name: str) -> None:
        manager, wire = self.running.pop(name)
        wire.alive = True
        await manager.stop()


async def install(client: Client, rendered: Rendered, *, without: str = "") -> None:
    await install_crds(client, all_manifests())
    head: dict[str, Any] = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": "system:discovery"}}
    rules = [{"nonResourceURLs": ["/api", "/api/*", "/apis", "/apis/*", "/version"], "verbs": ["get"]}]
    subjects = [{"apiGroup": RBAC, "kind": "Group", "name": "system:authenticated"}]
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "system:discovery"}
    await client.create(Object({**head, "kind": "ClusterRole", "rules": rules}))
    await client.create(Object({**head, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": subjects}))
    for one in rendered.objects:
        if one["kind"] in OF_RBAC and one["metadata"]["name"] != without:
            await client.create(Object(one))
    for one in rendered.all("StatefulSet"):
        await client.create(Object(one))


async def served(client: Client, count: int, within: float = 120.0) -> None:
    """Wait until there are so many claims, and all are ready."""
    async with asyncio.timeout(within):
        while True:
            found = await client.list(WorkspaceClaim)
            if len(found) == count and all(one.status.phase == "Ready" for one in found):
                return
            await asyncio.sleep(0.5)


async def claims(client: Client, *numbers: int) -> None:
    for number in numbers:
        await client.create(WorkspaceClaim.new(f"claim-{number}"))


async def edit_leases(client: Client) -> None:
    """Edit the Lease of each replica by hand, and delete it a while later: an Event follows each."""
    for lease in await client.list(LEASE, NAMESPACE):
        edited = {"spec": {"renewTime": "2020-01-01T00:00:00.000000Z"}}
        await client.patch(LEASE, lease.name, NAMESPACE, patch=edited, style="merge")
    await asyncio.sleep(20)
    for lease in await client.list(LEASE, NAMESPACE):
        await client.delete(LEASE, lease.name, NAMESPACE)
    await asyncio.sleep(20)


async def a_life(mode: str, rendered: Rendered) -> Daemons:
    """Run all events of replicas' lives, and return the requests of the replicas."""
    async with ApiServer(random=Random(1), namespaces=(NAMESPACE,), rbac=True) as server:
        async with Client(server.config(), name="test", random=Random(2)) as client:
            await install(client, rendered)
            daemons = Daemons(server, rendered)
            await asyncio.gather(*(daemons.start(f"konverge-{number}") for number in range(3)))
            await claims(client, *range(12))
            await served(client, 12)
            await edit_leases(client)
            daemons.kill("konverge-0")
            await asyncio.sleep(60)
            await daemons.stop("konverge-1")
            await daemons.start("konverge-1")
            if mode == "ordinal":  # the dead replica's share has no owner until its restart
                await daemons.stop("konverge-0")
                await daemons.start("konverge-0")
            await claims(client, *range(12, 18))
            await served(client, 18)
            await asyncio.sleep(700)  # the Lease of the dead member is deleted
            for number in range(6):
                await client.delete(WorkspaceClaim, f"claim-{number}")
            await served(client, 12)
            for lease in await client.list(
                LEASE, NAMESPACE
            ):  # each loses it, and reports that once it has joined again
                await client.patch(
                    LEASE, lease.name, NAMESPACE, patch={"spec": {"holderIdentity": "another"}}, style="merge"
                )
            await asyncio.sleep(90)
            events = await client.list(EVENT, NAMESPACE)
            daemons.sent |= {("EVENT", one.data["reason"]) for one in events}
            for name in list(daemons.running):
                await daemons.stop(name)
        return daemons


def virtual(work: Any) -> Any:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(work)


@pytest.mark.parametrize("mode", MODES)
def test_replicas_with_the_chart_rights_are_denied_nothing_in_each_mode(template: Template, mode: str) -> None:
    daemons = virtual(a_life(mode, template(merged(VALUES, {"sharding": {"mode": mode}}))))
    assert daemons.denied == {}
    verbs = {verb for verb, path in daemons.sent if "/leases" in path}
    assert verbs >= (
        {"GET", "POST", "PATCH", "DELETE"} if mode in ("hash", "coordinator") else {"GET", "POST", "PATCH"}
    )
    said = {reason for verb, reason in daemons.sent if verb == "EVENT"}
    of_leases = {Reason.SHARD_LEASE_EDITED, Reason.SHARD_LEASE_RECREATED, Reason.SHARD_MEMBERSHIP_LOST}
    assert said & of_leases == (of_leases if mode in ("hash", "coordinator") else set())
    assert any(path.endswith("/statefulsets") for _, path in daemons.sent) == (mode == "ordinal")


@pytest.mark.parametrize("mode", MODES)
def test_without_the_role_for_its_mode_a_replica_is_denied(template: Template, mode: str) -> None:
    rendered = template(merged(VALUES, {"sharding": {"mode": mode}}))

    async def begin() -> set[str]:
        async with ApiServer(random=Random(1), namespaces=(NAMESPACE,), rbac=True) as server:
            async with Client(server.config(), name="test", random=Random(2)) as client:
                await install(client, rendered, without="konverge-election")
            daemons = Daemons(server, rendered)
            with pytest.raises(NotReady):
                await daemons.start("konverge-0")
            await daemons.stop("konverge-0")
            return {path.split("/")[6] for _, path in daemons.denied}

    denied = virtual(begin())
    assert denied == {"leader": {"leases"}, "ordinal": {"leases", "statefulsets"}}.get(mode, {"leases"})
