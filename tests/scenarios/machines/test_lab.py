"""The life of pools under the lab's faults: `make test` once, `make lab` with every plan, with a crash before and after each write."""

from typing import Any

import pytest
from machines_lab import Farm

from konverge.crds.machines_v1beta1 import NstanceMachinePool, NstanceShardGroup
from konverge.reconcilers.machines.kinds import MACHINE_POOL
from konverge_testing import Lab


def forget(data: dict[str, Any]) -> None:
    """Remove random and timed fields: keys, certificates, provider ids, the time of the last sync; and the generation of a MachinePool,
    which starts at 1 after a recreation.
    """
    if data["kind"] in ("Secret", "ConfigMap"):
        data.pop("data", None)
    status = ("providerIDs", "lastSyncTime", "observedOwnerGeneration")
    for part, name in (("spec", "providerIDList"), *(("status", one) for one in status)):
        (data.get(part) or {}).pop(name, None)


async def guarded(lab: Lab) -> Farm:
    farm = await lab.enter(Farm(lab))
    lab.may_differ(None, forget, why="keys and ids are random")
    lab.skip_plans("the namespace is deleted *", why="it takes the document of shards and the authority")
    lab.skip_plans(
        "secrets*: delete by hand *", why="the nonce is used once: without its certificate a new one is needed"
    )
    lab.skip_plans("secrets*: recreate by hand *", why="as above")
    lab.skip_plans("machinepools*: delete by hand *", why="a MachinePool that a user deleted is not made again")
    lab.skip_plans("the CRD of *", why="nothing brings back the MachinePools of a user")
    return farm


@pytest.mark.scenario(quick=10)
async def test_a_pool_is_imported_scaled_and_another_is_made_and_deleted(lab: Lab) -> None:
    farm = await guarded(lab)
    farm.set_static("a", 2)
    farm.set_static("b", 1)
    await farm.start()
    await farm.pool("workers")
    await farm.create_pool("gpu", replicas=2, shards=["c", "a"])
    await farm.pool("gpu")
    await farm.scale("workers", 5)
    await farm.until(lambda: farm.sizes() == {"a": 3, "b": 2})
    await farm.pool("workers", timeout=400)
    await lab.delete(MACHINE_POOL, "gpu")
    await lab.delete(NstanceMachinePool, "gpu")
    await lab.until_gone(NstanceMachinePool, "gpu", timeout=200)
    assert farm.sizes("gpu") == {}
    await lab.until_gone(NstanceShardGroup, "gpu--a")
