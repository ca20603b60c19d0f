"""P3 on a real control plane: two processes, neither of which elects a leader, serve the same claims; objects and audit log are the judges."""

from __future__ import annotations

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
from konverge.crds.pools_v1alpha1 import Nextcloud, NextcloudInstance
from konverge.errors import NotFound
from konverge.objects import Object
from konverge.reconcilers.pools.kinds import INSTANCE
from konverge.reconcilers.pools.words import InstanceReason, PoolsCondition, PoolsLabel
from konverge.testing import ControlPlane, install_crds
from konverge.testing.proxy import ProxiedRequest

pytestmark = pytest.mark.control_plane

SECONDS: Final = 60 * PATIENCE
NAMESPACE: Final = "pools-race"
TIER: Final = "race"
INSTANCES: Final = 10
CLAIMS: Final = 100
_OPERATOR: Final = Path(__file__).parents[2] / "support" / "pools" / "claim_operator.py"


class Rivals(Fleet):
    """Processes with all controllers of pools and claims."""

    def operator(self, name: str, kubeconfig: Path) -> Operator:
        return Operator(
            (
                f"{_OPERATOR}:build",
                *("--kubeconfig", str(kubeconfig), "--log-format", "json", "--name", "konverge"),
                *("--metrics", "127.0.0.1:0", "--health", "127.0.0.1:0"),
            ),
            self.folder / f"{name}.log",
            environment={"INSTANCES": self.namespace, "PYTHONPATH": str(_OPERATOR.parents[1])},
        )


def is_lock(call: ProxiedRequest) -> bool:
    """Whether a request is a write that takes an instance: a patch of one that does not come from server-side apply."""
    return call.method == "PATCH" and call.resource == "nextcloudinstances" and "force" not in call.query


async def instance(client: Client, number: int) -> None:
    labels = {PoolsLabel.ASSIGNED: PoolsLabel.FALSE, "tier": TIER}
    await client.create(INSTANCE.new(f"one-{number}", NAMESPACE, labels=labels, spec={}))


async def make_ready(client: Client, number: int) -> None:
    patch = {"status": {"phase": "Ready"}}
    await client.patch(INSTANCE, f"one-{number}", NAMESPACE, patch=patch, style="merge", subresource="status")


async def claim(client: Client, number: int) -> None:
    spec = {"poolSelector": {"matchLabels": {"tier": TIER}}, "ingress": {"host": f"claim-{number}.example.com"}}
    metadata = {"name": f"claim-{number}", "namespace": NAMESPACE}
    await client.create(Nextcloud.decode({"metadata": metadata, "spec": spec}))


async def reasons(client: Client) -> Counter[str]:
    found = (await client.list(Nextcloud, NAMESPACE)).items
    said = (one.find_condition(PoolsCondition.INSTANCE_ASSIGNED) for one in found)
    return Counter(one.reason for one in said if one is not None)


async def until_reasons(client: Client, wanted: dict[str, int]) -> None:
    found: Counter[str] = Counter()
    try:
        async with asyncio.timeout(SECONDS):
            while (found := await reasons(client)) != Counter(wanted):
                await asyncio.sleep(0.3)
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
    """Return the writes of these users that would take an instance, with their answers."""
    found = (one for one in audited(plane, namespace=NAMESPACE) if one.user in users)
    return [one for one in found if is_lock(one.call) and not one.subresource]


async def test_p3_of_100_claims_of_two_processes_on_10_instances_exactly_10_win_and_each_instance_has_one_tenant(
    audited_plane: ControlPlane, tmp_path: Path
) -> None:
    plane = audited_plane
    await plane.create_namespace(NAMESPACE)
    config = await ClientConfig.from_kubeconfig(plane.kubeconfig)
    fleet = Rivals(plane, NAMESPACE, tmp_path, lease=(0, 0, 0))
    async with Client(config, name="test-user") as client:
        await install_crds(client, [crd(one) for one in KINDS])
        await asyncio.gather(*(instance(client, number) for number in range(INSTANCES)))
        await asyncio.gather(*(claim(client, number) for number in range(CLAIMS)))
        async with fleet.member("one") as one, fleet.member("two") as two:
            await until_reasons(client, {InstanceReason.POOL_EXHAUSTED: CLAIMS})
            # Each write that takes an instance is held up, so that both processes have chosen before the first arrives.
            for member in (one, two):
                member.proxy.delay(is_lock, 1.0)
            await asyncio.gather(*(make_ready(client, number) for number in range(INSTANCES)))
            wanted = {InstanceReason.ASSIGNED: INSTANCES, InstanceReason.POOL_EXHAUSTED: CLAIMS - INSTANCES}
            await until_reasons(client, wanted)
            found = await until_applied(client)
            users = {one.user, two.user}
        winners = {
            one.name: one.status.instance_ref.name
            for one in (await client.list(Nextcloud, NAMESPACE)).items
            if one.status.instance_ref is not None
        }
        for claimed in (await client.list(Nextcloud, NAMESPACE)).items:
            await _free(client, Nextcloud, claimed.name)
        for each in found:
            await _free(client, NextcloudInstance, each.name)
        with pytest.raises(NotFound):
            await client.get(INSTANCE, "the-end", NAMESPACE)
        end = f"/apis/k8s.bnerd.com/v1alpha1/namespaces/{NAMESPACE}/nextcloudinstances/the-end"
        await until_audited(plane, ProxiedRequest("GET", end))
    assert len(winners) == INSTANCES
    assert {name: holder for holder, name in winners.items()} == {
        one.name: one.spec["claimRef"]["name"] for one in found
    }
    assert {one.get("status", "phase") for one in found} == {"Ready"}
    log = locks(plane, users)
    taken = Counter(one.name for one in log if one.code == 200)
    assert taken == Counter({one.name: 1 for one in found}), "an instance was taken by one write, and no two"
    assert {one.user for one in log} == users, "both processes tried"
    assert {one.code for one in log} == {200, 409}, "and met each other"


async def _free(client: Client, what: type[Nextcloud | NextcloudInstance], name: str) -> None:
    """Delete an object, which holds up no other test of this server."""
    await client.patch(what, name, NAMESPACE, patch={"metadata": {"finalizers": None}}, style="merge")
    await client.delete(what, name, NAMESPACE)
