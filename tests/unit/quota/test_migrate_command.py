"""`konverge quota migrate` on the tenant of Capsule's page, with a double of Capsule."""

from collections.abc import AsyncIterator
from fractions import Fraction
from random import Random

import pytest
import pytest_asyncio
import yaml
from quota.capsule import PODS, QUOTA, Capsule, documents, migration_world
from quota.capsule import TENANT as TENANTS

from konverge import quantities
from konverge.client import Client
from konverge.crds import crd
from konverge.crds.quota_v1beta2 import ResourcePool, ResourcePoolClaim
from konverge.daemon.quota import apply_migration, print_migration, tenant_seen
from konverge.errors import Invalid, KonvergeError
from konverge.reconcilers.quota.migrate import Migration, plan
from konverge_testing import ApiServer, install_crds

TENANT = "migration"


@pytest_asyncio.fixture
async def client() -> AsyncIterator[Client]:
    async with (
        ApiServer(random=Random(1)) as server,
        Client(server.config(), name="admin", random=Random(2)) as opened,
    ):
        yield opened


@pytest_asyncio.fixture
async def capsule(client: Client) -> Capsule:
    await install_crds(client, [crd(ResourcePool), crd(ResourcePoolClaim)])
    return await migration_world(client)


async def planned(client: Client, headroom: Fraction = Fraction(0)) -> Migration:
    return plan(await tenant_seen(client, TENANT), headroom=headroom)


def of(migration: Migration, namespace: str) -> dict[str, dict[str, object]]:
    return {claim.name: claim.to_dict()["spec"] for claim in migration.claims if claim.namespace == namespace}


@pytest.mark.usefixtures("capsule")
async def test_the_migration_makes_the_pools_of_capsules_page(client: Client) -> None:
    migration = await planned(client)
    wanted = {pool["metadata"]["name"]: pool for pool in documents("2_pools.yaml")}
    assert {pool.name: pool.to_dict() for pool in migration.pools} == wanted
    assert migration.notes == ()


@pytest.mark.usefixtures("capsule")
async def test_the_migration_makes_the_claims_of_capsules_page(client: Client) -> None:
    migration = await planned(client)
    wanted = {claim["metadata"]["name"]: claim["spec"] for claim in documents("3_claims.yaml")}
    assert of(migration, "migration-dev") == wanted
    assert sorted({claim.namespace for claim in migration.claims}) == sorted(PODS)
    assert of(migration, "migration-prod")["pods"] == {"pool": "migration-size", "claim": {"pods": "2"}}


@pytest.mark.usefixtures("capsule")
async def test_the_quotas_that_it_reads_are_those_of_capsules_page(client: Client) -> None:
    first, second = await client.list(QUOTA, "migration-dev")
    assert (first.metadata.name, second.metadata.name) == ("capsule-migration-0", "capsule-migration-1")
    assert quantities.written(quantities.read(first.data["status"]["hard"])) == {
        "limits.cpu": "1500m",
        "limits.memory": "1536Mi",
        "requests.cpu": "1500m",
        "requests.memory": "1536Mi",
    }
    assert first.data["status"]["used"] == documents("3_claims.yaml")[0]["spec"]["claim"]
    assert (second.data["status"]["hard"], second.data["status"]["used"]) == ({"pods": "3"}, {"pods": "3"})


@pytest.mark.usefixtures("capsule")
async def test_claims_are_applied_before_pools_and_a_second_time_changes_nothing(client: Client) -> None:
    migration = await planned(client)
    dry = await apply_migration(client, migration, dry_run=True)
    assert list(await client.list(ResourcePool)) == []
    first = await apply_migration(client, migration)
    assert dry == first
    assert [name for name, _ in first] == [
        *[f"resourcepoolclaim/{name} in {space}" for space in PODS for name in ("compute", "pods")],
        *("resourcepool/migration-compute", "resourcepool/migration-size"),
    ]
    assert {result for _, result in first} == {"created"}
    assert {result for _, result in await apply_migration(client, migration)} == {"unchanged"}
    changed = await apply_migration(client, await planned(client, Fraction(1, 10)))
    assert ("resourcepoolclaim/compute in migration-dev", "configured") in changed


@pytest.mark.usefixtures("capsule")
async def test_it_prints_in_the_order_in_which_it_applies(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    migration = await planned(client)
    print_migration(migration, TENANT, "yaml")
    printed = [
        f"{document['kind'].lower()}/{document['metadata']['name']}"
        for document in yaml.safe_load_all(capsys.readouterr().out)
    ]
    applied = [name.split(" ")[0] for name, _ in await apply_migration(client, migration, dry_run=True)]
    assert printed == applied


@pytest.mark.usefixtures("capsule")
async def test_an_allocated_claim_is_not_changed_by_a_second_migration(client: Client) -> None:
    await apply_migration(client, await planned(client))
    bound = {"type": "Bound", "status": "True", "reason": "Succeeded", "message": "Claimed resources"}
    body = {
        "apiVersion": "capsule.clastix.io/v1beta2",
        "kind": "ResourcePoolClaim",
        "metadata": {"name": "compute", "namespace": "migration-dev"},
        "status": {"condition": {**bound, "lastTransitionTime": "2030-01-01T00:00:00Z"}},
    }
    await client.apply(ResourcePoolClaim, body, subresource="status")
    with pytest.raises(Invalid, match="release it first"):
        await apply_migration(client, await planned(client, Fraction(1, 10)))


async def test_capsule_removes_its_quotas_when_the_tenant_asks_for_none(client: Client, capsule: Capsule) -> None:
    [tenant] = documents("5_tenant.yaml")
    stored = await client.apply(TENANTS, tenant)
    assert not stored.data["spec"]["resourceQuotas"]
    await capsule.pass_(TENANT)
    assert [quota for namespace in PODS for quota in await client.list(QUOTA, namespace)] == []
    with pytest.raises(KonvergeError, match="there is nothing to migrate"):
        await planned(client)


async def test_a_missing_tenant_is_reported_with_the_names_of_those_that_exist(client: Client) -> None:
    with pytest.raises(
        KonvergeError, match=r"the cluster serves no Tenant in capsule.clastix.io/v1beta2: Capsule, whose quotas"
    ):
        await tenant_seen(client, "solar")
    await install_crds(client, documents("0_crds.yaml"))
    with pytest.raises(KonvergeError, match=r"there is no Tenant solar \(tenants: none\)"):
        await tenant_seen(client, "solar")
    for name in ("wind", "water"):
        await client.create(TENANTS.new(name, spec={}))
    with pytest.raises(KonvergeError, match=r"there is no Tenant solar \(tenants: water, wind\)"):
        await tenant_seen(client, "solar")
