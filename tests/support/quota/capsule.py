"""A stand-in for Capsule's quotas of a tenant with `spec.resourceQuotas`, as far as a migration needs them; and the tenant of its page.

    Capsule.pass_      one level-triggered pass: label and list namespaces, create, resize or remove the tenant's ResourceQuotas
    migration_world    the tenant `migration` with pods in three namespaces, as the migration begins
    (docs/reference/capsule.md#the-page-of-capsule)

With scope Tenant each namespace may use what the others leave: `hard` is the item's hard minus the others' use.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from konverge import quantities
from konverge.client import Client
from konverge.errors import AlreadyExists, Forbidden
from konverge.kinds import kind
from konverge.objects import Object
from konverge_testing import install_crds

EXAMPLE = Path(__file__).parents[3] / "examples" / "quota_migration"
TENANT = kind("capsule.clastix.io/v1beta2", "Tenant", namespaced=False, plural="tenants")
NAMESPACE = kind("v1", "Namespace", namespaced=False)
QUOTA = kind("v1", "ResourceQuota")
POD = kind("v1", "Pod")
LABEL = "capsule.clastix.io/tenant"
PODS: Mapping[str, int] = {"migration-dev": 3, "migration-prod": 2, "migration-test": 2}
"""How many pods run in each namespace of the tenant of Capsule's page; the numbers of its tables follow from them."""
_EACH = {"cpu": "125m", "memory": "128Mi"}
_PATIENCE = 30.0
_LOOK = 0.1


def documents(name: str) -> list[dict[str, Any]]:
    """Return the documents of a file of the example."""
    return [document for document in yaml.safe_load_all((EXAMPLE / name).read_text()) if document]


async def until(done: Any, what: str) -> None:
    """Wait until an async check returns something true."""
    try:
        async with asyncio.timeout(_PATIENCE):
            while not await done():
                await asyncio.sleep(_LOOK)
    except TimeoutError:
        raise AssertionError(f"not within {_PATIENCE:g} s: {what}") from None


class Capsule:
    """Capsule's controller of tenant quotas, one reconcile at a time."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def pass_(self, tenant: str) -> None:
        """Bring the tenant's quotas to its spec."""
        found = await self.client.get(TENANT, tenant)
        asked = (found.data["spec"].get("resourceQuotas") or {}).get("items") or []
        members = [namespace.metadata.name for namespace in await self._members(tenant)]
        status = {"namespaces": sorted(members), "size": len(members), "state": "Active"}
        await self.client.apply(
            TENANT, {**_head(found), "status": status}, manager="capsule", force=True, subresource="status"
        )
        there = {
            (quota.metadata.namespace, quota.metadata.name): quota
            for name in members
            for quota in await self.client.list(QUOTA, name)
            if quota.metadata.name.startswith(f"capsule-{tenant}-")
        }
        for (namespace, name), _ in there.items():
            if int(name.rpartition("-")[2]) >= len(asked):
                await self.client.delete(QUOTA, name, namespace)
        for index, item in enumerate(asked):
            await self._share(f"capsule-{tenant}-{index}", item, members, there)

    async def _members(self, tenant: str) -> list[Object]:
        return list(await self.client.list(NAMESPACE, labels=f"{LABEL}={tenant}"))

    async def _share(
        self, name: str, item: Mapping[str, Any], members: list[str], there: Mapping[tuple[str, str], Object]
    ) -> None:
        hard = quantities.read(item["hard"])
        used = {
            member: quantities.read(there[member, name].data.get("status", {}).get("used"))
            if (member, name) in there
            else {}
            for member in members
        }
        for member in members:
            left = hard
            for other in members:
                left = left if other == member else quantities.subtracted(left, quantities.masked(used[other], hard))
            body = {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": {"name": name, "namespace": member},
                "spec": {**item, "hard": quantities.written(left)},
            }
            await self.client.apply(QUOTA, body, manager="capsule", force=True)

    async def counted(self, tenant: str) -> None:
        """Reconcile until every quota of the tenant has counted its use."""

        async def agree() -> bool:
            await self.pass_(tenant)
            quotas = [quota for name in PODS for quota in await self.client.list(QUOTA, name)]
            return all(
                quota.data.get("status", {}).get("hard") == quota.data["spec"].get("hard")
                and quota.data["status"].get("used") is not None
                for quota in quotas
            )

        for _ in range(2):  # the first round's counts change what the others may use
            await until(agree, "the quotas of the tenant are counted")


def _head(found: Object) -> dict[str, Any]:
    return {
        "apiVersion": found.data["apiVersion"],
        "kind": found.data["kind"],
        "metadata": {"name": found.metadata.name},
    }


def pod(name: str, namespace: str) -> Object:
    """A pod with the amounts of Capsule's page."""
    container = {
        "name": "c",
        "image": "registry.example.com/c:1",
        "resources": {"requests": dict(_EACH), "limits": dict(_EACH)},
    }
    return POD.new(name, namespace, spec={"containers": [container], "automountServiceAccountToken": False})


async def migration_world(client: Client) -> Capsule:
    """Create the tenant of Capsule's page, its namespaces, Capsule's quotas and seven pods; return Capsule."""
    await install_crds(client, documents("0_crds.yaml"))
    [tenant] = documents("1_tenant.yaml")
    await client.apply(TENANT, {key: value for key, value in tenant.items() if key != "status"})
    capsule = Capsule(client)
    for namespace in PODS:
        await client.create(NAMESPACE.new(namespace, labels={LABEL: tenant["metadata"]["name"]}))
    await until(lambda: _accounts(client), "every namespace has its service account")
    await capsule.pass_(tenant["metadata"]["name"])
    for namespace, count in PODS.items():
        for number in range(count):
            await _placed(client, pod(f"p-{number}", namespace))
    await capsule.counted(tenant["metadata"]["name"])
    return capsule


async def _accounts(client: Client) -> bool:
    accounts = kind("v1", "ServiceAccount")
    return all(["default" in {found.metadata.name for found in await client.list(accounts, name)} for name in PODS])


async def _placed(client: Client, wanted: Object) -> None:
    """Create a pod as soon as quota admission allows it: a new quota allows nothing before its first count."""

    async def made() -> bool:
        try:
            await client.create(wanted)
        except Forbidden:
            return False
        except AlreadyExists:
            return True
        return True

    await until(made, f"pod {wanted.metadata.path} is admitted")
