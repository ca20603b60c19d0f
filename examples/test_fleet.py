"""The test of an operator with small caches: drift of a Secret whose content is not cached, and a field that no cache holds."""

import pytest
from fleet_operator import ISOLATED, NAMESPACE, NODE, POLICY, POOL, SECRET, Fleet, FleetSpec, build

import konverge as kv
from konverge.errors import FieldDropped
from konverge_testing import Lab

EVERYWHERE = kv.ManagerSettings(namespace=None, strict=True)


@pytest.mark.scenario(quick=30)
async def test_a_fleet_keeps_its_token_and_counts_nodes_without_their_images(lab: Lab) -> None:
    await lab.start(build, settings=EVERYWHERE)
    await lab.create(Fleet.new("red", spec=FleetSpec(pool="red")))
    await lab.until(Fleet, "red", kv.is_true("Ready"))
    token = (await lab.get(SECRET, "red-join")).get("data", "token")
    await lab.patch(SECRET, "red-join", {"data": {"token": "ZHJpZnQ="}})
    await lab.until(SECRET, "red-join", lambda secret: secret.get("data", "token") == token)
    await lab.create(NODE.new("a", labels={POOL: "red"}))
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "images": [{"names": ["example.com/shop:1"]}]}
    await lab.patch(NODE, "a", {"status": ready}, subresource="status")
    await lab.until(Fleet, "red", lambda fleet: fleet.status.nodes == 1)


async def test_a_read_of_the_images_of_a_node_is_refused(lab: Lab) -> None:
    await lab.start(build, settings=EVERYWHERE)
    await lab.create(NODE.new("a"))
    await lab.settled()
    with pytest.raises(FieldDropped, match=r"status\.images of Node a was read"):
        lab.manager.cache(NODE).get("", "a").get("status", "images")


@pytest.mark.scenario(quick=30)
async def test_each_isolated_namespace_has_a_policy(lab: Lab) -> None:
    await lab.start(build, settings=EVERYWHERE)
    await lab.patch(NAMESPACE, lab.namespace, {"metadata": {"labels": {ISOLATED: "true"}}})
    await lab.until(POLICY, "isolated", lambda policy: policy.spec["policyTypes"] == ["Ingress"])
    await lab.patch(POLICY, "isolated", {"spec": {"policyTypes": ["Egress"]}})
    await lab.until(POLICY, "isolated", lambda policy: policy.spec["policyTypes"] == ["Ingress"])
