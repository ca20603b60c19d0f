"""The control plane and the kubeconfig that the operator gives to Cluster API."""

import asyncio
import base64
import json
from typing import Any

import pytest
from machines_lab import NAME, Farm, is_true

from konverge.crds.machines_v1beta1 import NstanceControlPlane
from konverge.kinds import kind
from konverge.objects import Object
from konverge.reconcilers.machines.kinds import CLUSTER, MACHINE, NODE, SECRET
from konverge.reconcilers.machines.settings import MachineSettings
from konverge.reconcilers.machines.words import MachinesAnnotation
from konverge_testing.capi.kinds import CLUSTER_LABEL
from konverge_testing.loop import CLOCK_ERROR

ACCOUNT = kind("v1", "ServiceAccount", namespaced=True, plural="serviceaccounts")
KUBECONFIG = f"{NAME}-kubeconfig"


@pytest.fixture
def connecting(farm: Farm) -> Farm:
    """A farm with the default settings, before its operator runs. Its shards are polled seldom: polls would take most of these tests."""
    farm.settings = MachineSettings(namespace=farm.lab.namespace, cluster_id="acme", tenant="blue", poll=900.0)
    for name in farm.world.shards:
        farm.set_static(name, 0)
    return farm


async def start(farm: Farm, *, account: bool = True) -> None:
    if account:
        await give_account(farm)
    await farm.start()
    await farm.start_core(kubeconfig=False)


async def give_account(farm: Farm) -> None:
    await farm.lab.create(ACCOUNT.new(farm.settings.workload_account))


def text_of(secret: Object) -> dict[str, Any]:
    return dict(json.loads(base64.b64decode(secret.get("data", "value"))))


async def user_of(farm: Farm, secret: Object) -> str:
    """Return the user of a kubeconfig's token, "" if the API server rejects it."""
    token = text_of(secret)["users"][0]["user"]["token"]
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    answer = json.loads(await farm.lab.client.raw("POST", "/apis/authentication.k8s.io/v1/tokenreviews", body=review))
    return str(answer["status"].get("user", {}).get("username", ""))


async def test_by_default_cluster_api_sees_nodes_and_removes_a_deleted_machines_node(connecting: Farm) -> None:
    """As in the recording control-plane-stub; without a control plane Cluster API ignores Nodes, and the Node of a Machine stays."""
    await start(connecting)
    lab = connecting.lab
    stub = await lab.until(NstanceControlPlane, NAME, lambda one: one.status.initialization is not None)
    assert stub.condition("Available").is_true
    assert stub.status.external_managed_control_plane is True
    cluster = await lab.until(CLUSTER, NAME, lambda one: is_true(one.find_condition("ControlPlaneInitialized")))
    assert cluster.spec["controlPlaneRef"] == {
        "apiGroup": "infrastructure.cluster.x-k8s.io",
        "kind": "NstanceControlPlane",
        "name": NAME,
    }
    await lab.until(CLUSTER, NAME, lambda one: is_true(one.find_condition("RemoteConnectionProbe")), timeout=60)
    await connecting.create_machine("m1")
    bare = (await connecting.machine("m1")).status.provider_id
    await connecting.add_node("n1", f"aws:///us-west-2a/{bare}")
    await lab.until(MACHINE, "m1", lambda one: one.status.get("phase") == "Running", timeout=2)
    await lab.delete(MACHINE, "m1")
    await lab.until_gone(MACHINE, "m1", timeout=100)
    assert not (await lab.client.list(NODE)).items


async def test_a_control_plane_that_was_deleted_is_made_anew(connecting: Farm) -> None:
    await start(connecting)
    lab = connecting.lab
    first = await lab.until(NstanceControlPlane, NAME, lambda one: one.status.initialization is not None)
    await lab.delete(NstanceControlPlane, NAME)
    await lab.until(
        NstanceControlPlane,
        NAME,
        lambda one: one.metadata.uid != first.metadata.uid and one.status.initialization is not None,
        timeout=60,
    )


async def test_a_cluster_that_exists_gets_no_control_plane(connecting: Farm) -> None:
    await connecting.prepare()
    reference = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "NstanceCluster", "name": NAME}
    before = await connecting.lab.create(CLUSTER.new(NAME, spec={"infrastructureRef": reference}))
    await connecting.write_document()
    await connecting.operate()
    await connecting.lab.until(NstanceControlPlane, NAME, lambda one: one.status.initialization is not None)
    await asyncio.sleep(120)
    assert (await connecting.lab.get(CLUSTER, NAME)).spec == before.spec


async def test_the_kubeconfig_is_renewed_before_its_token_ends(connecting: Farm) -> None:
    await start(connecting)
    lab, farm = connecting.lab, connecting
    first = await lab.until(SECRET, KUBECONFIG, lambda one: True, timeout=60)
    assert first.metadata.label(CLUSTER_LABEL) == NAME
    assert first.get("type") == "cluster.x-k8s.io/secret"
    assert await user_of(farm, first) == f"system:serviceaccount:{lab.namespace}:nstance-capi-workload"
    assert text_of(first)["clusters"][0]["cluster"]["server"] == lab.client.config.server
    await asyncio.sleep(45 * 60)
    assert (await lab.get(SECRET, KUBECONFIG)).metadata.resource_version == first.metadata.resource_version
    for _ in range(3):
        await asyncio.sleep(45 * 60)
        assert await user_of(farm, await lab.get(SECRET, KUBECONFIG)), "its token has ended"
    assert not await user_of(farm, first)


@pytest.mark.parametrize("hours", [-24, -12, -0.75, 6], ids="the clock is {} hours ahead".format)
async def test_leader_with_a_wrong_clock_renews_the_kubeconfig_before_token_expiry(
    connecting: Farm, hours: float
) -> None:
    await start(connecting)
    lab, farm = connecting.lab, connecting
    await lab.until(SECRET, KUBECONFIG, lambda one: True, timeout=60)
    await asyncio.sleep(40 * 60)
    await lab.stop()
    error = CLOCK_ERROR.set(hours * 3600)
    try:
        await farm.operate()
    finally:
        CLOCK_ERROR.reset(error)
    seen = set()
    for _ in range(12):
        await asyncio.sleep(15 * 60)
        found = await lab.get(SECRET, KUBECONFIG)
        assert await user_of(farm, found), "its token has ended"
        seen.add(found.metadata.resource_version)
    assert len(seen) <= 6, "it is renewed more often than its life asks for"


@pytest.mark.parametrize("hours", [-24, -13], ids="the clock is {} hours ahead".format)
async def test_a_leader_whose_clock_is_slow_renews_its_certificate_before_it_expires(farm: Farm, hours: float) -> None:
    farm.settings = farm.settings.model_copy(update={"poll": 900.0})  # a day of polls would take most of the test
    await farm.start()
    await asyncio.sleep(11 * 3600)
    await farm.lab.stop()
    error = CLOCK_ERROR.set(hours * 3600)
    try:
        await farm.operate()
    finally:
        CLOCK_ERROR.reset(error)
    await asyncio.sleep(14 * 3600)
    renewed = [call for name in farm.world.shards for call in farm[name].calls if call.method == "RenewCertificate"]
    assert [call.time < 24 * 3600 for call in renewed] == [True]  # the first certificate lasts a day, the second a year


@pytest.mark.parametrize("data", [{"value": base64.b64encode(b"theirs").decode()}, {}])
async def test_the_kubeconfig_of_an_administrator_is_left_alone(connecting: Farm, data: dict[str, str]) -> None:
    lab = connecting.lab
    before = await lab.create(SECRET.new(KUBECONFIG, labels={CLUSTER_LABEL: NAME}, data=data))
    await start(connecting)
    await asyncio.sleep(2 * 3600)
    assert (await lab.get(SECRET, KUBECONFIG)).metadata.resource_version == before.metadata.resource_version


async def test_a_kubeconfig_that_was_spoilt_is_written_anew(connecting: Farm) -> None:
    await start(connecting)
    lab = connecting.lab
    for spoilt in (
        {"metadata": {"labels": {CLUSTER_LABEL: None}}},
        {"data": {"value": base64.b64encode(b"{}").decode()}},
        {"metadata": {"annotations": {MachinesAnnotation.TOKEN_EXPIRY: "soon"}}},
    ):
        await lab.until(SECRET, KUBECONFIG, lambda one: True, timeout=60)
        await lab.patch(SECRET, KUBECONFIG, spoilt)
        await asyncio.sleep(60)
        mended = await lab.get(SECRET, KUBECONFIG)
        assert mended.metadata.label(CLUSTER_LABEL) == NAME
        assert await user_of(connecting, mended)


async def test_missing_account_delays_only_the_kubeconfig_until_the_account_exists(
    connecting: Farm, caplog: pytest.LogCaptureFixture
) -> None:
    await start(connecting, account=False)
    await asyncio.sleep(120)
    told = [one.getMessage() for one in caplog.records if KUBECONFIG in str(one.__dict__)]
    assert len(told) == 1, "told once"
    await give_account(connecting)
    await connecting.lab.until(SECRET, KUBECONFIG, lambda one: True, timeout=60)


async def test_without_an_account_in_the_settings_no_kubeconfig_is_made(connecting: Farm) -> None:
    connecting.settings = connecting.settings.model_copy(update={"workload_account": ""})
    await start(connecting, account=False)
    await asyncio.sleep(120)
    assert await connecting.lab.find(SECRET, KUBECONFIG) is None
