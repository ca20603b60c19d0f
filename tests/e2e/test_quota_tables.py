"""The tables of Capsule's page, on a real control plane: the tables of kubectl cell by cell (AGE aside), and its metrics.

The tables here are copied from the page; kubectl has changed the order of its columns since. Typing errors of the page are corrected:
`capsule-pool-exmaple`, and QueueExhausted where PoolExhausted is explained (docs/reference/capsule.md#the-page-of-capsule).
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from quota.capsule import PODS, Capsule, documents, migration_world
from quota.capsule import TENANT as TENANT_KIND
from quota.lab import POD
from quota.plane import Plane

pytestmark = pytest.mark.control_plane

EXAMPLES = Path(__file__).parents[1] / "unit" / "quota" / "capsule_examples"
MIGRATION = Path(__file__).parents[2] / "examples" / "quota_migration"
CLAIMS = ("resourcepoolclaims", "--all-namespaces")


def example(name: str) -> str:
    return (EXAMPLES / name).read_text()


def claim(name: str, pool: str, namespace: str, **amounts: str) -> str:
    """Return the YAML of a claim; `memory` is short for requests.memory."""
    wanted = ", ".join(f"requests.{resource}: {amount}" for resource, amount in amounts.items())
    return (
        "---\napiVersion: capsule.clastix.io/v1beta2\nkind: ResourcePoolClaim\n"
        f"metadata: {{name: {name}, namespace: {namespace}}}\nspec: {{pool: {pool}, claim: {{{wanted}}}}}\n"
    )


SAMPLER = """\
apiVersion: capsule.clastix.io/v1beta2
kind: ResourcePool
metadata:
  name: sampler
spec:
  config: {{orderedQueue: {ordered}}}
  quota:
    hard:
      limits.cpu: "2"
      limits.memory: 2Gi
      requests.cpu: "2"
      requests.memory: 2Gi
      requests.storage: 512Mi
  selectors:
  - matchLabels:
      capsule.clastix.io/tenant: sampler
"""


# --- ResourceQuotas --------------------------------------------------------------------------------------------------------------

DEFAULTS = """
NAME                     AGE   REQUEST                 LIMIT
capsule-pool-example     3s    requests.storage: 0/0
"""
NO_DEFAULTS = """
NAME                     AGE     REQUEST           LIMIT
capsule-pool-example     2m47s
"""
DEFAULTS_ZERO = """
NAME                     AGE   REQUEST                                                                                             LIMIT
capsule-pool-example     10h   count/persistentvolumeclaims: 0/3, requests.cpu: 0/0, requests.memory: 0/0, requests.storage: 0/0   limits.cpu: 0/0, limits.memory: 0/0
"""
QUOTAS = {
    "pool_defaults.yaml": DEFAULTS,
    "pool_without_defaults.yaml": NO_DEFAULTS,
    "pool_defaults_zero.yaml": DEFAULTS_ZERO,
}


@pytest.mark.parametrize("name", QUOTAS)
async def test_the_quota_of_a_pool_without_claims_is_printed_as_required(here: Plane, name: str) -> None:
    await here.named("example-one", tenant="example")
    await here.start()
    assert await here.apply(example(name)) == "resourcepool.capsule.clastix.io/example created\n"
    await here.shows(QUOTAS[name], "resourcequota", "-n", "example-one")
    await here.shows("NAME      CLAIMS   NAMESPACES   AGE\nexample   0        1            3s", "quotapool")


# --- ResourcePoolClaims ----------------------------------------------------------------------------------------------------------

NOT_FOUND = """
NAMESPACE    NAME                POOL   STATUS     REASON   MESSAGE                                              AGE
solar-test   get-me-cpu                 Assigned   Failed   ResourcePool.capsule.clastix.io "sample" not found   12s
"""
EXHAUSTED = """
NAMESPACE    NAME         POOL      STATUS   REASON          MESSAGE                                                          AGE
solar-test   get-mem      sampler   Bound    PoolExhausted   requested: requests.memory=2Gi, available: requests.memory=1Gi   9m19s
"""
SKIPPED = """
NAMESPACE    NAME            POOL      STATUS   REASON          MESSAGE                                                            AGE
solar-test   get-me-cpu      sampler   Bound    PoolExhausted   requested: requests.memory=2Gi, available: requests.memory=512Mi   16m
solar-test   skip-the-line   sampler   Bound    Succeeded       Claimed resources                                                  2s
"""
QUEUED = """
NAMESPACE    NAME         POOL      STATUS   REASON           MESSAGE                                                     AGE
solar-test   get-mem      sampler   Bound    QueueExhausted   requested: requests.memory=2Gi, queued: requests.memory=1Gi   9m19s
"""
METRICS = """
# HELP capsule_pool_available Current resource availability for a given resource in a resource pool
# TYPE capsule_pool_available gauge
capsule_pool_available{pool="sampler",resource="limits.cpu"} 2
capsule_pool_available{pool="sampler",resource="limits.memory"} 2.147483648e+09
capsule_pool_available{pool="sampler",resource="requests.cpu"} 2
capsule_pool_available{pool="sampler",resource="requests.memory"} 1.610612736e+09
capsule_pool_available{pool="sampler",resource="requests.storage"} 5.36870912e+08
# HELP capsule_pool_limit Current resource limit for a given resource in a resource pool
# TYPE capsule_pool_limit gauge
capsule_pool_limit{pool="sampler",resource="limits.cpu"} 2
capsule_pool_limit{pool="sampler",resource="limits.memory"} 2.147483648e+09
capsule_pool_limit{pool="sampler",resource="requests.cpu"} 2
capsule_pool_limit{pool="sampler",resource="requests.memory"} 2.147483648e+09
capsule_pool_limit{pool="sampler",resource="requests.storage"} 5.36870912e+08
# HELP capsule_pool_resource Type of resource being used in a resource pool
# TYPE capsule_pool_resource gauge
capsule_pool_resource{pool="sampler",resource="limits.cpu"} 1
capsule_pool_resource{pool="sampler",resource="limits.memory"} 1
capsule_pool_resource{pool="sampler",resource="requests.cpu"} 1
capsule_pool_resource{pool="sampler",resource="requests.memory"} 1
capsule_pool_resource{pool="sampler",resource="requests.storage"} 1
# HELP capsule_pool_usage Current resource usage for a given resource in a resource pool
# TYPE capsule_pool_usage gauge
capsule_pool_usage{pool="sampler",resource="limits.cpu"} 0
capsule_pool_usage{pool="sampler",resource="limits.memory"} 0
capsule_pool_usage{pool="sampler",resource="requests.cpu"} 0
capsule_pool_usage{pool="sampler",resource="requests.memory"} 5.36870912e+08
capsule_pool_usage{pool="sampler",resource="requests.storage"} 0
# HELP capsule_pool_namespace_usage Current resources claimed on namespace basis for a given resource in a resource pool for a specific namespace
# TYPE capsule_pool_namespace_usage gauge
capsule_pool_namespace_usage{pool="sampler",resource="requests.memory",target_namespace="solar-test"} 5.36870912e+08
# HELP capsule_claim_condition The current condition status of a claim.
# TYPE capsule_claim_condition gauge
capsule_claim_condition{condition="Assigned",name="large",pool="sampler",reason="PoolExhausted",status="False",target_namespace="solar-prod"} 1
capsule_claim_condition{condition="Assigned",name="skip-the-line",pool="sampler",reason="Succeeded",status="True",target_namespace="solar-test"} 0
capsule_claim_condition{condition="Bound",name="large",pool="sampler",reason="PoolExhausted",status="False",target_namespace="solar-prod"} 0
capsule_claim_condition{condition="Bound",name="skip-the-line",pool="sampler",reason="Succeeded",status="True",target_namespace="solar-test"} 1
"""
"""As the page prints it, but for the claim that waits: it has 1 on Assigned, and not on Bound, where dashboards count what is bound."""


@pytest_asyncio.fixture
async def solar(here: Plane) -> Plane:
    await here.named("solar-test", "solar-prod", tenant="sampler")
    await here.start()
    return here


async def test_a_claim_whose_pool_is_missing_is_printed_as_required(solar: Plane) -> None:
    await solar.apply(example("claim_get_me_cpu.yaml"))
    await solar.shows(NOT_FOUND, *CLAIMS)


async def test_waiting_claims_and_line_skipping_claim_are_printed_as_required(solar: Plane) -> None:
    await solar.apply(SAMPLER.format(ordered="false"))
    await solar.apply(claim("base", "sampler", "solar-prod", memory="1Gi"))
    await solar.bound("solar-prod", "base")
    await solar.apply(claim("get-mem", "sampler", "solar-test", memory="2Gi"))
    await solar.shows(EXHAUSTED, *CLAIMS, within="solar-test")
    await solar.kubectl("delete", "resourcepoolclaim", "get-mem", "-n", "solar-test")
    await solar.apply(claim("get-me-cpu", "sampler", "solar-test", memory="2Gi"))
    await solar.says("solar-test", "get-me-cpu", "PoolExhausted")
    await solar.apply(example("claim_skip_the_line.yaml"))
    await solar.shows(SKIPPED, *CLAIMS, within="solar-test")


async def test_a_claim_behind_another_in_an_ordered_queue_is_printed_as_required(solar: Plane) -> None:
    await solar.apply(SAMPLER.format(ordered="true"))
    await solar.apply(claim("base", "sampler", "solar-prod", memory="1536Mi"))
    await solar.bound("solar-prod", "base")
    await solar.apply(claim("first", "sampler", "solar-prod", memory="1Gi"))
    await solar.says("solar-prod", "first", "PoolExhausted", "available: requests.memory=512Mi")
    await solar.apply(claim("get-mem", "sampler", "solar-test", memory="2Gi"))
    await solar.shows(QUEUED, *CLAIMS, within="solar-test")
    await solar.apply(claim("other-resource", "sampler", "solar-test", cpu="1"))
    await solar.bound("solar-test", "other-resource")


async def test_the_metrics_of_the_requirement_have_its_values_after_its_story(solar: Plane) -> None:
    await solar.apply(SAMPLER.format(ordered="false"))
    await solar.apply(claim("large", "sampler", "solar-prod", memory="10Gi"))
    await solar.says("solar-prod", "large", "PoolExhausted")
    await solar.apply(example("claim_skip_the_line.yaml"))
    await solar.bound("solar-test", "skip-the-line")
    await solar.says("solar-prod", "large", "PoolExhausted", "available: requests.memory=1536Mi")
    await solar.lab.settled()
    wanted = {family.name: family for family in text_string_to_metric_families(METRICS)}
    shown = text_string_to_metric_families(generate_latest(solar.lab.metrics.registry).decode())
    found = {family.name: family for family in shown if family.name in wanted}
    assert len(wanted) == 6
    assert found.keys() == wanted.keys()
    for name, family in wanted.items():
        assert (found[name].documentation, found[name].type) == (family.documentation, family.type)
        values = [
            {(tuple(sorted(one.labels.items())), one.value) for one in each.samples} for each in (found[name], family)
        ]
        assert values[0] == values[1], name


# --- the migration ---------------------------------------------------------------------------------------------------------------

BEFORE = """
NAME                  AGE     REQUEST                                                   LIMIT
capsule-migration-0   5m21s   requests.cpu: 375m/1500m, requests.memory: 384Mi/1536Mi   limits.cpu: 375m/1500m, limits.memory: 384Mi/1536Mi
capsule-migration-1   5m21s   pods: 3/3
"""
CLAIMED = """
NAME      POOL   STATUS     REASON   MESSAGE                                                         AGE
compute          Assigned   Failed   ResourcePool.capsule.clastix.io "migration-compute" not found   2s
pods             Assigned   Failed   ResourcePool.capsule.clastix.io "migration-size" not found      2s
"""
BOUND = """
NAME      POOL                STATUS   REASON      MESSAGE             AGE
compute   migration-compute   Bound    Succeeded   Claimed resources   4m9s
pods      migration-size      Bound    Succeeded   Claimed resources   4m9s
"""
BOTH = """
NAME                             AGE    REQUEST                                                   LIMIT
capsule-migration-0              23m    requests.cpu: 375m/1500m, requests.memory: 384Mi/1536Mi   limits.cpu: 375m/1500m, limits.memory: 384Mi/1536Mi
capsule-migration-1              23m    pods: 3/3

capsule-pool-migration-compute   110s   requests.cpu: 375m/375m, requests.memory: 384Mi/384Mi     limits.cpu: 375m/375m, limits.memory: 384Mi/384Mi
capsule-pool-migration-size      110s   pods: 3/3
"""
AFTER = """
NAME                             AGE    REQUEST                                                 LIMIT
capsule-pool-migration-compute   130m   requests.cpu: 375m/375m, requests.memory: 384Mi/384Mi   limits.cpu: 375m/375m, limits.memory: 384Mi/384Mi
capsule-pool-migration-size      130m   pods: 3/3
"""


@pytest_asyncio.fixture
async def capsule(here: Plane) -> AsyncIterator[Capsule]:
    """Capsule with the page's tenant and its pods."""
    client = here.lab.client
    await here.without(*PODS)
    try:
        yield await migration_world(client)
    finally:
        await here.wiped()
        await client.delete(TENANT_KIND, "migration")
        await here.without(*PODS)


async def test_the_migration_of_the_requirement_prints_what_it_prints(here: Plane, capsule: Capsule) -> None:
    await here.start()
    dev = ("-n", "migration-dev")
    await here.shows(BEFORE, "resourcequota", *dev)
    await here.apply((MIGRATION / "3_claims.yaml").read_text())
    await here.shows(CLAIMED, "resourcepoolclaims", *dev)
    said = await here.apply((MIGRATION / "2_pools.yaml").read_text())
    assert said == "".join(
        f"resourcepool.capsule.clastix.io/{pool} created\n" for pool in ("migration-compute", "migration-size")
    )
    await here.shows(BOUND, "resourcepoolclaims", *dev)
    await here.shows(BOTH, "resourcequota", *dev)
    [tenant] = documents("5_tenant.yaml")
    await here.lab.client.apply(TENANT_KIND, tenant)
    await capsule.pass_("migration")
    await here.shows(AFTER, "resourcequota", *dev)
    assert len((await here.lab.client.list(POD, "migration-dev")).items) == 3
