"""The fixtures `admin` and `client_for`, on the session's control plane."""

import pytest

from konverge.client import Client
from konverge.errors import Forbidden
from konverge.kinds import kind
from konverge_testing import ControlPlane
from konverge_testing.clients import ClientFor

pytestmark = pytest.mark.control_plane

CONFIG_MAP = kind("v1", "ConfigMap")
NODE = kind("v1", "Node")
READ = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}


async def test_the_admin_may_do_everything(admin: Client, namespace: str) -> None:
    await admin.create(CONFIG_MAP.new("one", namespace, data={"a": "1"}))
    assert (await admin.get(CONFIG_MAP, "one", namespace)).name == "one"


async def test_client_has_exactly_the_rights_it_was_created_with(
    admin: Client, client_for: ClientFor, namespace: str
) -> None:
    await admin.create(CONFIG_MAP.new("one", namespace))
    reader = await client_for("reader", rules=[READ])
    assert (await reader.get(CONFIG_MAP, "one", namespace)).name == "one"
    with pytest.raises(Forbidden):
        await reader.delete(CONFIG_MAP, "one", namespace)
    with pytest.raises(Forbidden):
        await reader.list(CONFIG_MAP)


async def test_two_clients_of_one_test_have_different_rights(client_for: ClientFor, namespace: str) -> None:
    nobody = await client_for("nobody")
    everywhere = await client_for("everywhere", cluster_rules=[{**READ, "resources": ["nodes"]}])
    assert not list(await everywhere.list(NODE))
    with pytest.raises(Forbidden):
        await nobody.list(NODE)


async def test_cluster_wide_rights_granted_by_a_test_end_with_it(
    control_plane: ControlPlane, client_for: ClientFor, namespace: str
) -> None:
    listed = await control_plane.kubectl("get", "clusterroles,clusterrolebindings", "--output=name")
    assert "-everywhere" not in listed, "the test before this one left something"
    await client_for("everywhere", cluster_rules=[READ])
    listed = await control_plane.kubectl("get", "clusterroles,clusterrolebindings", "--output=name")
    assert listed.count(f"{namespace}-everywhere") == 2
