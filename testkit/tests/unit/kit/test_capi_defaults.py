"""The webhooks of the double set the same defaults on MachinePools and Machines as Cluster API in the recordings."""

from typing import Any

import pytest

from konverge_testing import Lab, install_crds
from konverge_testing.capi import definitions, install_core
from konverge_testing.capi.defaults import machine_defaults, machine_pool_defaults
from konverge_testing.capi.kinds import MACHINE, MACHINE_POOL

GROUP = "infrastructure.cluster.x-k8s.io"
MIN, MAX = (f"cluster.x-k8s.io/cluster-api-autoscaler-node-group-{one}-size" for one in ("min", "max"))


def machine_spec() -> dict[str, Any]:
    reference = {"apiGroup": GROUP, "kind": "NstanceMachine", "name": "m"}
    return {"clusterName": "c1", "bootstrap": {"dataSecretName": ""}, "infrastructureRef": reference}


@pytest.mark.parametrize(
    ("annotations", "given", "expected"),
    [
        ({}, None, 1),
        ({MIN: "3", MAX: "5"}, None, 3),
        ({MIN: "3"}, None, 1),
        ({MAX: "5"}, None, 1),
        ({MIN: "3", MAX: "5"}, 0, 0),
        ({}, 7, 7),
    ],
)
def test_replicas_are_one_or_the_least_that_both_annotations_allow(
    annotations: dict[str, str], given: int | None, expected: int
) -> None:
    spec: dict[str, Any] = {"clusterName": "c1", "template": {"spec": machine_spec()}}
    if given is not None:
        spec["replicas"] = given
    made = machine_pool_defaults({"metadata": {"name": "p", "annotations": annotations}, "spec": spec})
    assert made["spec"]["replicas"] == expected
    assert made["metadata"]["labels"] == {"cluster.x-k8s.io/cluster-name": "c1"}
    assert made["spec"]["template"]["spec"]["deletion"] == {"nodeDeletionTimeoutSeconds": 10}


def test_a_timeout_that_is_given_stays() -> None:
    made = machine_defaults(
        {"metadata": {"name": "m"}, "spec": {**machine_spec(), "deletion": {"nodeDeletionTimeoutSeconds": 0}}}
    )
    assert made["spec"]["deletion"] == {"nodeDeletionTimeoutSeconds": 0}


async def test_the_webhooks_write_the_defaults(lab: Lab) -> None:
    await install_crds(lab.client, definitions())
    await lab.start(lambda manager: install_core(manager, infrastructure=(), defaults=True), crds=False)
    spec = {"clusterName": "c1", "template": {"spec": machine_spec()}}
    pool = await lab.create(MACHINE_POOL.new("p", spec=spec))
    assert pool.spec["replicas"] == 1
    assert pool.metadata.label("cluster.x-k8s.io/cluster-name") == "c1"
    emptied = await lab.patch(MACHINE_POOL, "p", {"spec": {"replicas": None}})
    assert emptied.spec["replicas"] == 1
    machine = await lab.create(MACHINE.new("m", spec=machine_spec()))
    assert machine.spec["deletion"] == {"nodeDeletionTimeoutSeconds": 10}
