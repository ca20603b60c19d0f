"""`clusterctl move` on the source: it pauses the Cluster, removes the finalizers of each object, and deletes it."""

import asyncio
from typing import Any

import pytest
from machines_lab import Farm

from konverge.crds.machines_v1beta1 import NstanceMachine, NstanceMachinePool, NstanceShardGroup
from konverge.reconcilers.machines.words import MachinesAnnotation

MOVED: dict[str, Any] = {
    "workers": NstanceMachinePool,
    "workers--a": NstanceShardGroup,
    "workers--b": NstanceShardGroup,
    "workers--c": NstanceShardGroup,
    "m1": NstanceMachine,
}
PAUSE = {"metadata": {"annotations": {MachinesAnnotation.PAUSED: ""}}}


@pytest.mark.parametrize("by_annotation", [False, True], ids=["a paused Cluster", "a paused object"])
async def test_moved_objects_get_no_finalizer_and_their_deletion_calls_no_server(
    farm: Farm, by_annotation: bool
) -> None:
    await farm.start()
    await farm.start_core()
    await farm.create_pool(replicas=3)
    await farm.pool()
    await farm.create_machine("m1")
    await farm.machine("m1")
    lab, sizes, instances = farm.lab, farm.sizes(), farm.on_demand()
    assert instances
    if by_annotation:
        for name in ("workers", "m1"):
            await lab.patch(MOVED[name], name, PAUSE)
    else:
        await farm.pause(True)
    await farm.pool(test=lambda one: one.condition("Paused").is_true)
    await farm.machine("m1", lambda one: one.condition("Paused").is_true)
    for name, kind in MOVED.items():
        assert (await lab.get(kind, name)).metadata.finalizers, "it was held until now"
        await lab.patch(kind, name, {"metadata": {"finalizers": None}})
    await asyncio.sleep(60)
    for name, kind in MOVED.items():
        assert (await lab.get(kind, name)).metadata.finalizers == (), f"{name} is held again"
    for name, kind in MOVED.items():
        await lab.client.delete(kind, name, lab.namespace)
        await lab.until_gone(kind, name, timeout=1)
    await asyncio.sleep(10)
    assert (farm.sizes(), farm.on_demand()) == (sizes, instances)


async def test_object_created_paused_is_held_before_any_request_for_it(farm: Farm) -> None:
    """The copies on the target of a move are paused until all copies exist."""
    await farm.start()
    await farm.start_core()
    await farm.pause(True)
    await farm.create_machine("m1")
    await farm.create_pool(replicas=3)
    await farm.machine("m1", lambda one: one.find_condition("Paused") is not None)
    await farm.pool(test=lambda one: one.find_condition("Paused") is not None)
    await asyncio.sleep(60)
    for name in ("m1", "workers"):
        assert (await farm.lab.get(MOVED[name], name)).metadata.finalizers == ()
    await farm.pause(False)
    await farm.machine("m1")
    await farm.pool()
    for name, kind in MOVED.items():
        assert (await farm.lab.get(kind, name)).metadata.finalizers, f"{name} is not held"
