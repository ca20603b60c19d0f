"""The family machines at work in a lab: the actions use every right of the family, apart from the rights for rare events."""

import asyncio
import base64
import json

import pytest
from audit import Right
from nstance_server import NstanceProcess

from konverge.crds.machines_v1beta1 import NstanceMachine, NstanceMachinePool
from konverge.errors import Invalid
from konverge.objects import Object
from konverge.reconcilers.machines.kinds import CLUSTER, CONFIG_MAP, MACHINE, MACHINE_POOL, NODE, POD, SECRET
from konverge.reconcilers.machines.settings import MachineSettings
from konverge.reconcilers.machines.words import MachinesAnnotation
from konverge_testing import Lab
from konverge_testing.capi.kinds import CLUSTER_LABEL

_SETTINGS = MachineSettings(cluster_id="acme", tenant="blue")
_KUBECONFIG = f"{_SETTINGS.cluster_name}-kubeconfig"
_GROUP = "infrastructure.cluster.x-k8s.io"
_WRITTEN = ("nstancemachinepools", "nstancemachines", "nstanceshardgroups")

UNUSED_OF_MACHINES: dict[Right, str] = {
    **{("get", f"{one}.{_GROUP}"): "the barrier asks how an object stands whose cache cannot tell" for one in _WRITTEN},
    **{
        (
            "update",
            f"{one}.{_GROUP}/finalizers",
        ): "OwnerReferencesPermissionEnforcement asks for it of who sets blockOwnerDeletion"
        for one in _WRITTEN
    },
    (
        "delete",
        f"nstancemachines.{_GROUP}",
    ): "one is deleted by the operator if no Machine owns it: after a crash between the two, or if its Machine was taken away",
    (
        "get",
        "machinepools.cluster.x-k8s.io",
    ): "the barrier reads a MachinePool if the response to its creation was lost",
    ("get", "machines.cluster.x-k8s.io"): "a kind that is read live may be read by name, too",
    ("update", "secrets"): "the certificate is renewed after 12 hours",
    ("patch", "machines.cluster.x-k8s.io/status"): "Cluster API has written the Node of a Machine before",
}


async def scale_drain_and_demand(lab: Lab, servers: NstanceProcess) -> None:
    """Have a pool imported, scaled, drained and deleted, an instance created for a Machine and for a pod, and the kubeconfig repaired."""
    await _identify(lab, servers)
    await lab.until(CLUSTER, _SETTINGS.cluster_name, lambda one: "infrastructureRef" in one.spec, timeout=60)
    await _mend_kubeconfig(lab)
    await lab.until(MACHINE_POOL, "workers", lambda one: one.spec["replicas"] == 0, timeout=60)
    await lab.patch(MACHINE_POOL, "workers", {"spec": {"replicas": 2}})
    pool = await lab.until(NstanceMachinePool, "workers", lambda one: len(one.spec.provider_id_list) == 2, timeout=60)
    for one in pool.spec.provider_id_list:
        await lab.client.create(NODE.new(f"rights-{one}", spec={"providerID": f"aws:///z/{one}"}))
    await lab.until(MACHINE_POOL, "workers", lambda one: len(one.status.get("nodeRefs") or ()) == 2, timeout=60)
    await asyncio.gather(_drain(lab, servers, pool.spec.provider_id_list[0]), _order(lab), _demand(lab))
    with pytest.raises(Invalid, match="the group is static"):
        await lab.patch(NstanceMachinePool, "workers", {"spec": {"shards": ["a"]}})
    await lab.delete(MACHINE_POOL, "workers")
    await lab.until_gone(NstanceMachinePool, "workers", timeout=60)
    async with asyncio.timeout(60):  # Cluster API leaves the Nodes of a deleted pool to the operator
        while any(one.name.startswith("rights-") for one in (await lab.client.list(NODE)).items):
            await asyncio.sleep(0.1)


async def _identify(lab: Lab, servers: NstanceProcess) -> None:
    names, space = _SETTINGS.identity_names, lab.namespace
    await lab.client.create(CONFIG_MAP.new(names.ca_configmap, space, data={"ca.crt": servers.facts["ca"]}))
    nonce = base64.b64encode(servers.facts["nonce"].encode()).decode()
    await lab.client.create(SECRET.new(names.nonce_secret, space, data={"nonce.jwt": nonce}))
    document = {"cluster_id": "acme", "tenant": "blue", "shards": servers.facts["addresses"]}
    data = {"config.yaml": json.dumps(document)}
    await lab.client.create(CONFIG_MAP.new(_SETTINGS.shards_configmap, space, data=data))


async def _mend_kubeconfig(lab: Lab) -> None:
    await lab.until(SECRET, _KUBECONFIG, lambda one: True, timeout=60)
    await lab.patch(SECRET, _KUBECONFIG, {"metadata": {"labels": {CLUSTER_LABEL: None}}})

    def mended(found: Object) -> bool:
        return found.metadata.label(CLUSTER_LABEL) == _SETTINGS.cluster_name

    await lab.until(SECRET, _KUBECONFIG, mended, timeout=60)


async def _drain(lab: Lab, servers: NstanceProcess, provider_id: str) -> None:
    node = f"rights-{provider_id}"
    spec = {"nodeName": node, "terminationGracePeriodSeconds": 0, "containers": [{"name": "main", "image": "busybox"}]}
    await lab.create(POD.new("drained", spec=spec))
    await servers.drain(provider_id, seconds=60)
    await lab.until_gone(POD, "drained", timeout=60)
    async with asyncio.timeout(60):
        while not (await servers.drains())[provider_id].acknowledged:
            await asyncio.sleep(0.1)


async def _order(lab: Lab) -> None:
    """Have a Machine created and deleted, and then an NstanceMachine whose instance the server deletes."""
    await lab.create(NstanceMachine.decode({"metadata": {"name": "m1"}, "spec": {"groupRef": "workers"}}))
    reference = {"apiGroup": _GROUP, "kind": "NstanceMachine", "name": "m1"}
    spec = {"clusterName": _SETTINGS.cluster_name, "bootstrap": {"dataSecretName": ""}, "infrastructureRef": reference}
    await lab.create(MACHINE.new("m1", spec=spec))
    made = await lab.until(NstanceMachine, "m1", lambda one: one.status.ready is True, timeout=60)
    await lab.client.create(NODE.new("rights-m1", spec={"providerID": f"aws:///z/{made.status.provider_id}"}))
    await lab.until(MACHINE, "m1", lambda one: one.status.get("nodeRef") == {"name": "rights-m1"}, timeout=60)
    await lab.delete(MACHINE, "m1")
    await lab.until_gone(MACHINE, "m1", timeout=60)


async def _demand(lab: Lab) -> None:
    """Have an instance created for a pod, and released after the pod's end."""
    asks = {MachinesAnnotation.ON_DEMAND_GROUPS[0]: "workers"}
    spec = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}
    await lab.create(POD.new("waits", annotations=asks, spec=spec))
    await lab.until(NstanceMachine, "on-demand-waits", lambda one: one.status.ready is True, timeout=60)
    path = f"/api/v1/namespaces/{lab.namespace}/pods/waits"
    await lab.client.raw("DELETE", path, body={"gracePeriodSeconds": 0})
    await lab.until_gone(MACHINE, "on-demand-waits", timeout=60)
    await lab.until_gone(NstanceMachine, "on-demand-waits", timeout=60)
