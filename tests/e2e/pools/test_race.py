"""P3 and P5 on a real control plane: processes race for the same instances; objects and audit log judge."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Final

import pytest
from audit import Audited, audited, until_audited
from fleet import Fleet
from operators import Operator
from patience import PATIENCE
from pools.crd_cases import KINDS

from konverge.client import Client, ClientConfig
from konverge.crds import crd
from konverge.crds.pools_v1alpha1 import Nextcloud, NextcloudInstance, NextcloudPool
from konverge.errors import NotFound
from konverge.objects import Object
from konverge.reconcilers.pools.kinds import INSTANCE
from konverge.reconcilers.pools.words import InstanceReason, PoolsCondition, PoolsLabel
from konverge_testing import ControlPlane, install_crds
from konverge_testing.proxy import ProxiedRequest

pytestmark = pytest.mark.control_plane

SECONDS: Final = 60 * PATIENCE
NAMESPACE: Final = "pools-race"
MEMBERS: Final = ("one", "two")
POOLS: Final = "pools"
INSTANCES: Final = 10
CLAIMS: Final = 100
ALL: Final = {"from": "All"}
SELECTOR: Final = {"tier": "race", "zone": "a"}
_OPERATOR: Final = Path(__file__).parents[2] / "support" / "pools" / "claim_operator.py"


def tenant(member: str) -> str:
    return f"{NAMESPACE}-{member}"


class Rivals(Fleet):
    """Processes without leader election: POOLS has the pools, and each other process the Nextclouds of a tenant."""

    def operator(self, name: str, kubeconfig: Path) -> Operator:
        return Operator(
            (
                f"{_OPERATOR}:{'pools' if name == POOLS else 'build'}",
                *("--kubeconfig", str(kubeconfig), "--log-format", "json", "--name", "konverge"),
                *("--metrics", "127.0.0.1:0", "--health", "127.0.0.1:0", "--debug", "127.0.0.1:0"),
            ),
            self.folder / f"{name}.log",
            environment={"INSTANCES": self.namespace, "TENANT": tenant(name), "PYTHONPATH": str(_OPERATOR.parents[1])},
        )


def is_lock(call: ProxiedRequest) -> bool:
    """Whether a request is a write that takes an instance: a patch of an instance other than a server-side apply."""
    return call.method == "PATCH" and call.resource == "nextcloudinstances" and "force" not in call.query


def is_delete(call: ProxiedRequest) -> bool:
    """Whether a request deletes an instance."""
    return call.method == "DELETE" and call.resource == "nextcloudinstances"


async def instance(client: Client, number: int) -> str:
    """Create an instance that is ready; returns its UID."""
    labels, spec = {PoolsLabel.ASSIGNED: PoolsLabel.FALSE, **SELECTOR}, {"reclaimPolicy": "Delete"}
    created = await client.create(INSTANCE.new(f"one-{number}", NAMESPACE, labels=labels, spec=spec))
    patch = {"status": {"phase": "Ready"}}
    await client.patch(INSTANCE, f"one-{number}", NAMESPACE, patch=patch, style="merge", subresource="status")
    return created.metadata.uid


async def pool_of(client: Client, members: list[str]) -> None:
    """Create a pool with these members in its record; no process fills the pool."""
    await client.create(NextcloudPool.decode({"metadata": {"name": "race"}, "spec": {"allowedNamespaces": ALL}}))
    record = {"status": {"members": members}}
    await client.patch(NextcloudPool, "race", patch=record, style="merge", subresource="status")


async def claim(client: Client, number: int, selector: dict[str, str] = SELECTOR) -> None:
    spec = {"poolSelector": {"matchLabels": selector}, "ingress": {"host": f"claim-{number}.example.com"}}
    metadata = {"name": f"claim-{number}", "namespace": tenant(MEMBERS[number % 2])}
    await client.create(Nextcloud.decode({"metadata": metadata, "spec": spec}))


async def claims(client: Client) -> list[Nextcloud]:
    return [one for member in MEMBERS for one in (await client.list(Nextcloud, tenant(member))).items]


async def until_reasons(client: Client, wanted: dict[str, int]) -> None:
    found: Counter[str] = Counter()
    try:
        async with asyncio.timeout(SECONDS):
            while found != Counter(wanted):
                await asyncio.sleep(0.3)
                said = [one.find_condition(PoolsCondition.INSTANCE_ASSIGNED) for one in await claims(client)]
                found = Counter(one.reason for one in said if one is not None)
    except TimeoutError:
        raise AssertionError(f"{dict(found)} instead of {wanted}") from None


async def until_applied(client: Client) -> list[Object]:
    """Wait until each taken instance has the host that its claim wants, and return the instances."""
    async with asyncio.timeout(SECONDS):
        while True:
            found = (await client.list(INSTANCE, NAMESPACE)).items
            hosts = {one.name: one.get("spec", "ingress", "host", default="") for one in found}
            if hosts == {one.name: f"{one.spec['claimRef']['name']}.example.com" for one in found}:
                return found
            await asyncio.sleep(0.3)


def locks(plane: ControlPlane, users: set[str]) -> list[Audited]:
    """Return the writes of these users that would take an instance, with their responses."""
    found = (one for one in audited(plane, namespace=NAMESPACE) if one.user in users)
    return [one for one in found if is_lock(one.call) and not one.subresource]


async def test_p3_100_claims_of_two_processes_on_10_instances_have_10_winners(
    audited_plane: ControlPlane, tmp_path: Path
) -> None:
    plane = audited_plane
    for namespace in (NAMESPACE, *map(tenant, MEMBERS)):
        await plane.create_namespace(namespace)
    config = await ClientConfig.from_kubeconfig(plane.kubeconfig)
    fleet = Rivals(plane, NAMESPACE, tmp_path, lease=(0, 0, 0))
    async with Client(config, name="test-user") as client:
        await install_crds(client, [crd(one) for one in KINDS])
        await pool_of(client, await asyncio.gather(*(instance(client, number) for number in range(INSTANCES))))
        async with fleet.member(MEMBERS[0]) as one, fleet.member(MEMBERS[1]) as two:
            # Each write that takes an instance is delayed, so that many processes have chosen the instance before the first write arrives.
            for member in (one, two):
                member.proxy.delay(is_lock, 0.3)
            await asyncio.gather(*(claim(client, number) for number in range(CLAIMS)))
            wanted = {InstanceReason.ASSIGNED: INSTANCES, InstanceReason.POOL_EXHAUSTED: CLAIMS - INSTANCES}
            await until_reasons(client, wanted)
            found = await until_applied(client)
            users = {one.user, two.user}
        winners = {
            (each.namespace, each.name): each.status.instance_ref.name
            for each in await claims(client)
            if each.status.instance_ref is not None
        }
        await client.delete(NextcloudPool, "race")
        for each in await claims(client):
            await _free(client, Nextcloud, each.name, each.namespace)
        for taken in found:
            await _free(client, NextcloudInstance, taken.name, NAMESPACE)
        with pytest.raises(NotFound):
            await client.get(INSTANCE, "the-end", NAMESPACE)
        end = f"/apis/k8s.bnerd.com/v1alpha1/namespaces/{NAMESPACE}/nextcloudinstances/the-end"
        await until_audited(plane, ProxiedRequest("GET", end))
    assert len(winners) == INSTANCES
    held = {(each.spec["claimRef"]["namespace"], each.spec["claimRef"]["name"]): each.name for each in found}
    assert held == winners
    log = locks(plane, users)
    won = Counter(each.name for each in log if each.code == 200)
    assert won == Counter(winners.values()), "an instance was taken by one write, and no two"
    assert {each.user for each in log} == users, "both processes tried"
    assert {each.code for each in log} == {200, 409}
    lost = {each.name: {other.user for other in log if other.name == each.name} for each in log if each.code == 409}
    assert users in lost.values(), "and met at an instance"


async def test_p5_shrinking_pool_keeps_the_instance_claimed_during_its_delete(
    audited_plane: ControlPlane, tmp_path: Path
) -> None:
    plane, name = audited_plane, "p5"
    for namespace in (NAMESPACE, tenant(MEMBERS[0])):
        await plane.create_namespace(namespace)
    config = await ClientConfig.from_kubeconfig(plane.kubeconfig)
    fleet = Rivals(plane, NAMESPACE, tmp_path, lease=(0, 0, 0))
    async with Client(config, name="test-user") as client:
        await install_crds(client, [crd(one) for one in KINDS])
        async with fleet.member(POOLS) as pools, fleet.member(MEMBERS[0]):
            template = {"metadata": {"labels": {"tier": name}}}
            spec = {"replicas": 1, "allowedNamespaces": ALL, "template": template}
            await client.create(NextcloudPool.decode({"metadata": {"name": name}, "spec": spec}))
            spare = await until_one(client, name)
            ready = {"status": {"phase": "Ready"}}
            await client.patch(INSTANCE, spare.name, NAMESPACE, patch=ready, style="merge", subresource="status")
            await until_pool(client, name, ready=1, assigned=0)
            pools.proxy.delay(is_delete, 10)
            await client.patch(NextcloudPool, name, patch={"spec": {"replicas": 0}}, style="merge")
            async with asyncio.timeout(SECONDS):
                while not pools.proxy.under_way(is_delete):
                    await asyncio.sleep(0.05)
            await claim(client, CLAIMS, {"tier": name})  # of the first member
            await until_reasons(client, {InstanceReason.ASSIGNED: 1})
            async with asyncio.timeout(SECONDS):
                while pools.proxy.under_way(is_delete):
                    await asyncio.sleep(0.1)
            await until_pool(client, name, ready=0, assigned=1)
            kept = await client.get(INSTANCE, spare.name, NAMESPACE)
            user = pools.user
        await _free(client, Nextcloud, f"claim-{CLAIMS}", tenant(MEMBERS[0]))
        await _free(client, NextcloudInstance, spare.name, NAMESPACE)
        await client.patch(NextcloudPool, name, patch={"metadata": {"finalizers": None}}, style="merge")
        await client.delete(NextcloudPool, name)
        end = f"/apis/k8s.bnerd.com/v1alpha1/namespaces/{NAMESPACE}/nextcloudinstances/{spare.name}"
        await until_audited(plane, ProxiedRequest("DELETE", end))
    assert (kept.metadata.uid, kept.metadata.deleting) == (spare.metadata.uid, False)
    assert kept.spec["claimRef"]["name"] == f"claim-{CLAIMS}"
    found = audited(plane, namespace=NAMESPACE)
    deletes = [each.code for each in found if each.name == spare.name and each.verb == "delete" and each.user == user]
    assert deletes == [409]


async def until_one(client: Client, pool: str) -> Object:
    """Wait for the instance of a pool."""
    async with asyncio.timeout(SECONDS):
        while True:
            found = await client.list(INSTANCE, NAMESPACE, labels=f"{PoolsLabel.POOL}={pool}")
            if found.items:
                return found.items[0]
            await asyncio.sleep(0.1)


async def until_pool(client: Client, name: str, *, ready: int, assigned: int) -> None:
    """Wait for the numbers of a pool."""
    async with asyncio.timeout(SECONDS):
        while True:
            status = (await client.get(NextcloudPool, name)).status
            if (status.ready, status.assigned) == (ready, assigned):
                return
            await asyncio.sleep(0.1)


async def _free(client: Client, what: type[Nextcloud | NextcloudInstance], name: str, namespace: str) -> None:
    """Delete an object without blocking other tests of this server."""
    await client.patch(what, name, namespace, patch={"metadata": {"finalizers": None}}, style="merge")
    await client.delete(what, name, namespace)
