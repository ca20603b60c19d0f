"""The migration of the requirement on a real control plane: its pods are counted by the real quota controller, Capsule is a double.

What is here: steps 1 to 3 and 5, and the command as a program. Step 4, claims that become Bound, needs the controllers.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
import yaml
from quota_capsule import PODS, QUOTA, TENANT, Capsule, documents, migration_world

from konverge.client import Client
from konverge.crds import crd
from konverge.crds.quota_v1beta2 import ResourcePool, ResourcePoolClaim
from konverge.kinds import kind
from konverge.testing import ControlPlane, install_crds

pytestmark = pytest.mark.control_plane


@pytest_asyncio.fixture
async def capsule(admin: Client) -> AsyncIterator[Capsule]:
    """Capsule, with the requirement's tenant; what belongs to the whole cluster is removed at the end."""
    await install_crds(admin, [crd(ResourcePool), crd(ResourcePoolClaim)])
    yield await migration_world(admin)
    for pool in await admin.list(ResourcePool):
        await admin.delete(ResourcePool, pool.name)
    await admin.delete(TENANT, "migration")
    for namespace in PODS:
        await admin.delete(kind("v1", "Namespace", namespaced=False), namespace)


async def migrate(kubeconfig: Path, *words: str) -> tuple[int, str, str]:
    """Run the command for the tenant as a program; return its exit code and what it wrote."""
    process = await asyncio.create_subprocess_exec(
        *(str(Path(sys.executable).parent / "konverge"), "quota", "migrate", "--kubeconfig", str(kubeconfig), *words),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def test_the_requirements_tenant_is_migrated_by_the_command(
    control_plane: ControlPlane, admin: Client, admin_kubeconfig: Path, capsule: Capsule
) -> None:
    code, out, err = await migrate(admin_kubeconfig, "--tenant", "migration")
    assert (code, err) == (0, "")
    printed = list(yaml.safe_load_all(out))
    pools = [document for document in printed if document["kind"] == "ResourcePool"]
    in_dev = [document for document in printed if document["metadata"].get("namespace") == "migration-dev"]
    assert pools == documents("2_pools.yaml")
    assert in_dev == documents("3_claims.yaml")

    told = await control_plane.kubectl("apply", "--server-side", "--dry-run=server", "-f", "-", stdin=out)
    assert told.count("serverside-applied") == len(printed) == 2 + 2 * len(PODS)

    code, out, err = await migrate(admin_kubeconfig, "--tenant", "migration", "--apply", "-o", "json")
    assert (code, err) == (0, "")
    assert {entry["result"] for entry in json.loads(out)} == {"created"}
    code, out, err = await migrate(admin_kubeconfig, "--tenant", "migration", "--apply")
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == "resourcepool/migration-size unchanged"

    [tenant] = documents("5_tenant.yaml")
    await admin.apply(TENANT, tenant)
    await capsule.pass_("migration")
    assert not [quota for namespace in PODS for quota in await admin.list(QUOTA, namespace)]
    code, out, err = await migrate(admin_kubeconfig, "--tenant", "migration")
    assert (code, out) == (1, "")
    assert err == "Error: Tenant migration has no spec.resourceQuotas.items: there is nothing to migrate\n"
