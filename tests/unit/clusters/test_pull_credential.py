"""The credential of pull mode belongs to the control plane that issued it."""

import asyncio

import pytest
from pull_kit import OPERATOR, TOKEN, World
from pull_lab import Plane, is_, phase

from konverge.crds.ops_v1alpha1 import Cluster
from konverge.reconcilers.clusters.agent_state import AgentConfig, Step
from konverge.reconcilers.clusters.kinds import SECRET
from konverge.reconcilers.clusters.secrets import server_of
from konverge.reconcilers.clusters.transport import PlaneTransport
from konverge_testing import Lab
from konverge_testing.agent_server import AgentServer

ISSUER = "ops.vworkspace.io/control-plane"
CREDENTIAL = "vworkspace-agent-credentials"
EVIL = "https://evil.example.net"


class TwoPlanes(Plane):
    """A lab with a control plane at a second address."""

    def __init__(self, lab: Lab) -> None:
        super().__init__(lab)
        self.evil = AgentServer("east", tokens=("token-of-evil", TOKEN), random=lab.rng())

    def connect(self, config: AgentConfig) -> PlaneTransport:
        return (self.evil if server_of(config.endpoint) == EVIL else self.plane).connect()


def used(cluster: Cluster) -> bool:
    return cluster.spec.registration_token is None and phase("Connected")(cluster)


@pytest.fixture
async def planes(lab: Lab) -> TwoPlanes:
    planes = TwoPlanes(lab)
    await planes.start()
    await planes.until(used)
    return planes


@pytest.mark.parametrize(
    "endpoint", [EVIL, f"{EVIL}:443/plane.example.com", "http://localhost:8080", "https://plane.example.com:8443"]
)
async def test_changed_endpoint_receives_no_request(planes: TwoPlanes, endpoint: str) -> None:
    await planes.patch({"spec": {"controlPlaneEndpoint": endpoint}})
    cluster = await planes.until(is_("Authenticated", "False", "CredentialMissing"))
    assert "issued by https://plane.example.com" in cluster.condition("Authenticated").message
    assert cluster.status.phase == "Pending"
    requests = len(planes.plane.exchanges)
    await asyncio.sleep(3600)
    assert planes.evil.exchanges == []
    assert len(planes.plane.exchanges) == requests, "another port or scheme is another control plane"
    await planes.patch({"spec": {"controlPlaneEndpoint": "https://plane.example.com/"}})
    await planes.until(phase("Connected"))


async def test_used_token_is_not_sent_to_another_control_plane(planes: TwoPlanes) -> None:
    await planes.lab.create(SECRET.new("token", stringData={"registrationToken": TOKEN}))
    await planes.patch({"spec": {"controlPlaneEndpoint": EVIL, "registrationTokenSecretRef": {"name": "token"}}})
    await planes.until(is_("Authenticated", "False", "CredentialMissing"))
    await asyncio.sleep(3600)
    assert planes.evil.exchanges == []


async def test_new_token_registers_with_another_control_plane_without_the_old_credential(planes: TwoPlanes) -> None:
    old = planes.plane.state.valid
    await planes.patch({"spec": {"controlPlaneEndpoint": EVIL, "registrationToken": "token-of-evil"}})
    await planes.until(lambda found: used(found) and planes.evil.state.registrations == 1)
    stored = await planes.lab.get(SECRET, CREDENTIAL)
    assert stored.metadata.annotation(ISSUER) == EVIL
    assert old
    assert all(old not in str(exchange.request.credential) for exchange in planes.evil.exchanges)


async def test_new_address_of_the_same_control_plane_is_written_by_an_administrator(planes: TwoPlanes) -> None:
    planes.evil.state.__dict__.update(planes.plane.state.__dict__)  # one control plane behind two addresses
    await planes.patch({"spec": {"controlPlaneEndpoint": EVIL}})
    await planes.until(is_("Authenticated", "False", "CredentialMissing"))
    await planes.lab.patch(SECRET, CREDENTIAL, {"metadata": {"annotations": {ISSUER: EVIL}}})
    await planes.until(phase("Connected"))


async def test_credential_of_an_earlier_release_is_bound_at_its_first_use() -> None:
    async with World() as world:
        agent = await world.start()
        await world.plane.until(lambda: agent.state.step is Step.CONNECTED)
        await world.kill()
        forgotten = {"metadata": {"annotations": {ISSUER: None}}}
        await world.client.patch(SECRET, CREDENTIAL, OPERATOR, patch=forgotten, style="merge")
        agent = await world.start(token="", token_digest="")
        await world.plane.until(lambda: agent.state.step is Step.CONNECTED)
        stored = await world.secret(CREDENTIAL)
        assert stored.metadata.annotation(ISSUER) == "https://plane.example.com"
