"""The stand-in for CloudNativePG, beside what its recordings are compared with in tests/unit/pools/test_postgres.py."""

import asyncio

from konverge_testing import Lab, install_crds
from konverge_testing.cnpg import KINDS, CnpgOperator, CnpgWorld, cnpg_crds


async def test_cluster_that_is_created_again_at_once_gets_its_own_secret(lab: Lab) -> None:
    """The Secret of the former Cluster is deleted a moment after its owner: the next Cluster must not find the name taken."""
    cluster = KINDS["Cluster"].new("db", lab.namespace, spec={"instances": 1})
    await install_crds(lab.client, cnpg_crds())
    await lab.enter(CnpgOperator(lab.config, world=CnpgWorld(seconds=10.0), namespace=lab.namespace))
    await lab.client.create(cluster)
    for _ in range(100):  # no time passes: both create their Secrets at the same moment
        await asyncio.sleep(0)
    await lab.delete(KINDS["Cluster"], "db")
    again = await lab.client.create(cluster)
    await lab.until(KINDS["Cluster"], "db", lambda one: one.get("status", "readyInstances", default=0) == 1)
    await asyncio.sleep(5)
    secret = await lab.get(KINDS["Secret"], "db-app")
    assert [one.uid for one in secret.metadata.owner_references] == [again.metadata.uid]
