"""The migration of docs/reference/capsule.md#the-page-of-capsule on a real control plane, step by step.

Pods are counted by the real quota controller, the pools are served by the family, Capsule is a double. One namespace is moved by hand, as the page shows it, the others by the command.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio
import yaml
from quota.capsule import EXAMPLE, NAMESPACE, PODS, TENANT, Capsule, documents, migration_world, pod, until
from quota.plane import cells

from konverge.client import Client, ClientConfig
from konverge.crds import crd
from konverge.crds.quota_v1beta2 import ResourcePool, ResourcePoolClaim
from konverge.errors import Forbidden
from konverge.reconcilers import quota
from konverge.runtime import Manager
from konverge_testing import ControlPlane, install_crds

pytestmark = pytest.mark.control_plane

DEV = "migration-dev"
ASSIGNED = "Claimed resources"
NOT_FOUND = 'ResourcePool.capsule.clastix.io "{}" not found'
QUOTAS = {
    "capsule-migration-0": (
        "requests.cpu: 375m/1500m, requests.memory: 384Mi/1536Mi",
        "limits.cpu: 375m/1500m, limits.memory: 384Mi/1536Mi",
    ),
    "capsule-migration-1": ("pods: 3/3", ""),
}
"""REQUEST and LIMIT of migration-dev before the migration, as the page shows them."""
POOL_QUOTAS = {
    "capsule-pool-migration-compute": (
        "requests.cpu: 375m/375m, requests.memory: 384Mi/384Mi",
        "limits.cpu: 375m/375m, limits.memory: 384Mi/384Mi",
    ),
    "capsule-pool-migration-size": ("pods: 3/3", ""),
}
"""The rows that the pools add."""


@pytest_asyncio.fixture
async def capsule(admin: Client, admin_kubeconfig: Path) -> AsyncIterator[Capsule]:
    """Capsule, with the page's tenant, beside the family; cluster-wide objects are removed at the end."""
    await install_crds(admin, [crd(ResourcePool), crd(ResourcePoolClaim)])
    manager = Manager("konverge", await ClientConfig.load(kubeconfig=str(admin_kubeconfig)))
    quota.install(manager)
    try:
        async with manager:
            await manager.wait_ready(timeout=60)
            try:
                yield await migration_world(admin)
            finally:
                for pool in await admin.list(ResourcePool):
                    await admin.delete(ResourcePool, pool.name)

                async def gone() -> bool:
                    return not (await admin.list(ResourcePool)).items

                await until(gone, "the pools are gone, which takes the family")
    finally:
        await admin.delete(TENANT, "migration")
        for namespace in PODS:
            await admin.delete(NAMESPACE, namespace)


async def migrate(kubeconfig: Path, *words: str) -> tuple[int, str, str]:
    """Run the command for the tenant as a program; return its exit code and its output."""
    process = await asyncio.create_subprocess_exec(
        *(str(Path(sys.executable).parent / "konverge"), "quota", "migrate", "--kubeconfig", str(kubeconfig), *words),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def claims_of(plane: ControlPlane, namespace: str) -> dict[str, tuple[str, str, str, str]]:
    """Return kubectl's table of the claims of a namespace: POOL, STATUS, REASON and MESSAGE of each."""
    rows = cells(await plane.kubectl("get", "resourcepoolclaims", "-n", namespace))
    return {row["NAME"]: (row["POOL"], row["STATUS"], row["REASON"], row["MESSAGE"]) for row in rows}


async def quotas_of(plane: ControlPlane, namespace: str) -> dict[str, tuple[str, str]]:
    """Return kubectl's table of the ResourceQuotas of a namespace: REQUEST and LIMIT of each."""
    rows = cells(await plane.kubectl("get", "resourcequota", "-n", namespace))
    return {row["NAME"]: (row["REQUEST"], row["LIMIT"]) for row in rows}


async def prints(look: Callable[[], Awaitable[object]], wanted: object, what: str) -> None:
    """Wait until kubectl prints exactly this."""

    async def same() -> bool:
        return await look() == wanted

    await until(same, f"{what}: {wanted}")


async def test_the_requirements_tenant_is_migrated_step_by_step(
    control_plane: ControlPlane, admin: Client, admin_kubeconfig: Path, capsule: Capsule
) -> None:
    # 1. and 2.: the existing objects, and the output of the command for them
    assert await quotas_of(control_plane, DEV) == QUOTAS
    code, out, err = await migrate(admin_kubeconfig, "--tenant", "migration")
    assert (code, err) == (0, "")
    printed = list(yaml.safe_load_all(out))
    assert [document for document in printed if document["kind"] == "ResourcePool"] == documents("2_pools.yaml")
    assert [one for one in printed if one["metadata"].get("namespace") == DEV] == documents("3_claims.yaml")
    told = await control_plane.kubectl("apply", "--server-side", "--dry-run=server", "-f", "-", stdin=out)
    assert told.count("serverside-applied") == len(printed) == 2 + 2 * len(PODS)

    # 3.: claims of one namespace; they wait for their pools
    await control_plane.kubectl("apply", "-f", str(EXAMPLE / "3_claims.yaml"))
    waiting = {
        "compute": ("", "Assigned", "Failed", NOT_FOUND.format("migration-compute")),
        "pods": ("", "Assigned", "Failed", NOT_FOUND.format("migration-size")),
    }
    await prints(partial(claims_of, control_plane, DEV), waiting, "the claims fail until there are pools")

    # 4.: the pools; the claims become Bound, and the quotas of the pools exist beside Capsule's
    await control_plane.kubectl("apply", "-f", str(EXAMPLE / "2_pools.yaml"))
    bound = {
        "compute": ("migration-compute", "Bound", "Succeeded", ASSIGNED),
        "pods": ("migration-size", "Bound", "Succeeded", ASSIGNED),
    }
    await prints(partial(claims_of, control_plane, DEV), bound, "the claims are Bound")
    await prints(partial(quotas_of, control_plane, DEV), QUOTAS | POOL_QUOTAS, "the quotas of the pools are beside")
    await the_command_moves_the_others(control_plane, admin, admin_kubeconfig)

    # 5.: the tenant without quotas; only the pools' quotas are left, and hold
    [tenant] = documents("5_tenant.yaml")
    await admin.apply(TENANT, tenant)
    await capsule.pass_("migration")
    assert await quotas_of(control_plane, DEV) == POOL_QUOTAS
    for namespace in PODS:
        assert set(await quotas_of(control_plane, namespace)) == POOL_QUOTAS.keys()
        with pytest.raises(Forbidden, match="exceeded quota: capsule-pool-migration-"):
            await admin.create(pod("one-more", namespace))
    code, out, err = await migrate(admin_kubeconfig, "--tenant", "migration")
    assert (code, out) == (1, "")
    assert err == "Error: Tenant migration has no spec.resourceQuotas.items: there is nothing to migrate\n"


async def the_command_moves_the_others(plane: ControlPlane, admin: Client, kubeconfig: Path) -> None:
    """Migrate by the command instead of by hand for one namespace; a second run changes nothing."""
    code, out, err = await migrate(kubeconfig, "--tenant", "migration", "--apply", "-o", "json")
    assert (code, err) == (0, "")
    results = {entry["name"]: entry["result"] for entry in json.loads(out)}
    made = {f"resourcepoolclaim/{name} in {space}" for space in PODS for name in ("compute", "pods") if space != DEV}
    assert {name for name, result in results.items() if result == "created"} == made
    for namespace, count in PODS.items():
        await until(partial(_all_bound, plane, namespace), f"the claims of {namespace} are Bound")
        await prints(partial(_pods, plane, namespace), f"pods: {count}/{count}", f"the quota of {namespace}")

    async def recorded() -> bool:
        return [pool.status.claim_count for pool in await admin.list(ResourcePool)] == [len(PODS)] * 2

    await until(recorded, "both pools list a claim of each namespace")
    code, out, err = await migrate(kubeconfig, "--tenant", "migration", "--apply")
    assert (code, err) == (0, "")
    assert {line.rpartition(" ")[2] for line in out.splitlines()} == {"unchanged"}


async def _all_bound(plane: ControlPlane, namespace: str) -> bool:
    found = await claims_of(plane, namespace)
    return set(found) == {"compute", "pods"} and all(
        row[1:] == ("Bound", "Succeeded", ASSIGNED) for row in found.values()
    )


async def _pods(plane: ControlPlane, namespace: str) -> str:
    return (await quotas_of(plane, namespace))["capsule-pool-migration-size"][0]
