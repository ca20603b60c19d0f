"""A tenant with the chart's role on a real control plane: the role as the API server applies it, and the real garbage collector.

The attacks themselves are in tests/scenarios/trust, on the in-memory API server.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
import pytest_asyncio
from quota.lab import CPU
from quota.plane import Plane, open_plane
from trust.snapshots import Snapshot, differences, flat, part_of
from trust.tenants import Tenant, edit_rules

from konverge.client import Client, ClientConfig
from konverge.crds import crd
from konverge.crds.catalogue import own_resources
from konverge.crds.quota_v1beta2 import ResourcePool, ResourcePoolClaim
from konverge.errors import Forbidden
from konverge.kinds import kind_of
from konverge.reconcilers.quota.kinds import RESOURCE_QUOTA
from konverge_testing import ControlPlane, Lab, install_crds
from konverge_testing.rights import grant

pytestmark = pytest.mark.control_plane

VERBS = ("create", "update", "patch", "delete", "deletecollection")


@pytest_asyncio.fixture
async def here(lab: Lab, control_plane: ControlPlane) -> AsyncIterator[Plane]:
    async with open_plane(lab, control_plane) as plane:
        yield plane


@pytest_asyncio.fixture
async def mallory(here: Plane, control_plane: ControlPlane) -> AsyncIterator[Tenant]:
    """A ServiceAccount with the role in the attacker's namespace; the victim has a claim beside it."""
    await install_crds(here.lab.client, [crd(model) for model in own_resources()])
    await here.start("attacker", "victim")
    await here.pool(hard={CPU: 8})
    await here.claim("victim", "main", {CPU: 2})
    await here.bound("victim", "main")
    where = here.ns("attacker")
    await asyncio.to_thread(grant, control_plane.blocking.api, where, "mallory", edit_rules(), ())
    kubeconfig = await control_plane.service_account_kubeconfig(where, "mallory")
    async with AsyncExitStack() as stack:
        config = await ClientConfig.from_kubeconfig(kubeconfig)
        yield Tenant(await stack.enter_async_context(Client(config, name="mallory")), where)


async def victims(here: Plane) -> Snapshot:
    """Return the victim's objects."""
    found = {}
    for kind in (kind_of(ResourcePoolClaim), RESOURCE_QUOTA):
        for one in (await here.lab.client.list(kind, here.ns("victim"))).items:
            data = one.to_dict()
            part = part_of(f"{kind.plural}.{kind.group}".rstrip("."), data, here.ns("victim"))
            assert part is not None
            found[kind.plural or "", one.namespace, one.name] = dict(flat(part))
    return Snapshot(found)


async def allowed(tenant: Tenant, namespace: str, group: str, resource: str, verb: str) -> bool:
    """Ask the API server whether the tenant may do this."""
    plural, _, subresource = resource.partition("/")
    attributes = {"group": group, "resource": plural, "verb": verb, "namespace": namespace, "subresource": subresource}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {name: value for name, value in attributes.items() if value}},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

    return bool(json.loads(await tenant.client.raw("POST", path, body=review, repeatable=True))["status"]["allowed"])


async def test_the_role_of_tenants_holds_in_one_namespace_for_their_kinds_only(here: Plane, mallory: Tenant) -> None:
    tenants = {"applicationinstances", "operations", "nextclouds", "resourcepoolclaims"}
    for model in own_resources():
        kind: Any = kind_of(model)
        plural = str(kind.plural)
        for namespace in (mallory.namespace, here.ns("victim"), "kube-system", ""):
            may = {verb for verb in VERBS if await allowed(mallory, namespace, kind.group, plural, verb)}
            own = namespace == mallory.namespace and plural in tenants | {"workspaceclaims"}
            assert may == (set(VERBS) if own else set()), (plural, namespace)
        for subresource in ("status", "finalizers", "scale"):
            assert not await allowed(mallory, mallory.namespace, kind.group, f"{plural}/{subresource}", "patch")


async def test_owner_references_and_names_of_a_tenant_leave_the_victims_objects(here: Plane, mallory: Tenant) -> None:
    before = await victims(here)
    victim = await here.lab.client.get(ResourcePoolClaim, "main", here.ns("victim"))
    pool = await here.lab.client.get(ResourcePool, "p")
    owners = (
        (victim.name, victim.metadata.uid, "ResourcePoolClaim"),
        (pool.name, pool.metadata.uid, "ResourcePool"),
    )
    for number, (name, uid, kind) in enumerate(owners):
        reference = {
            "apiVersion": "capsule.clastix.io/v1beta2",
            "kind": kind,
            "name": name,
            "uid": uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
        metadata = {
            "name": f"owned-{number}",
            "ownerReferences": [reference],
            "labels": {"projectcapsule.dev/pool": "p"},
        }
        await mallory.create(ResourcePoolClaim, {"metadata": metadata, "spec": {"pool": "p", "claim": {CPU: 1}}})
    await mallory.create(ResourcePoolClaim, {"metadata": {"name": "main"}, "spec": {"pool": "p", "claim": {CPU: 1}}})
    await here.bound("attacker", "main")
    await mallory.apply(ResourcePoolClaim, "main", {"spec": {"pool": "p", "claim": {CPU: 1}}})
    with pytest.raises(Forbidden):
        await mallory.patch(ResourcePoolClaim, "main", {"status": {"pool": {"name": "p"}}}, subresource="status")
    with pytest.raises(Forbidden):
        await mallory.delete(ResourcePoolClaim, "main", here.ns("victim"))
    await mallory.delete_all(ResourcePoolClaim)
    async with asyncio.timeout(60):
        while (await here.lab.client.list(ResourcePoolClaim, mallory.namespace)).items:
            await asyncio.sleep(0.1)
        while mallory.namespace in (await here.lab.client.get(ResourcePool, "p")).status.claims:
            await asyncio.sleep(0.1)
    assert differences(before, await victims(here), before.objects) == []
