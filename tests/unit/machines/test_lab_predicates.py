"""The safety predicates of the lab of machines can fail: each is tried on a forbidden state, and on a similar allowed state."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from google.protobuf.empty_pb2 import Empty
from machines_lab import (
    AcknowledgedInTime,
    Farm,
    IdsStay,
    KubernetesDecides,
    NodesStay,
    NothingIsLost,
    OneInstanceEach,
    OneMachineEach,
)

from konverge.crds.machines_v1beta1 import NstanceMachine, NstanceMachinePool, NstanceMachinePoolSpec
from konverge.reconcilers.machines.kinds import NODE
from konverge.reconcilers.machines.wire import operator_pb2 as pb
from konverge.reconcilers.machines.words import MachinesAnnotation, MachinesLabel
from konverge.runtime import Manager
from konverge_testing import Lab
from konverge_testing.nstance import Call, CallOutcome
from konverge_testing.nstance.instances import Instance


@pytest.fixture
async def farm(lab: Lab) -> AsyncIterator[Farm]:
    made = Farm(lab)
    lab.always.clear()  # the test calls them
    await made.prepare()
    made.build(Manager("stopped", lab.config))
    yield made
    await made.world.close()


def now() -> float:
    return asyncio.get_running_loop().time()


async def imported(farm: Farm) -> None:
    """Store a pool as an import creates it."""
    spec = NstanceMachinePoolSpec(group="workers", shards=("a",))
    ours = {MachinesAnnotation.MANAGED_BY: MachinesAnnotation.OPERATOR}
    await farm.lab.create(NstanceMachinePool.new("workers", spec=spec, annotations=ours))


@pytest.mark.parametrize("outcome", CallOutcome)
async def test_an_import_is_refused_unless_every_shard_has_answered(farm: Farm, outcome: CallOutcome) -> None:
    for name in farm.document:
        ended = outcome if name == "b" else CallOutcome.ANSWERED
        farm[name].calls.append(Call(now(), "ListGroups", "blue", Empty(), ended))
    await imported(farm)
    if outcome is CallOutcome.ANSWERED:
        KubernetesDecides(farm)()
        return
    with pytest.raises(AssertionError, match=r"workers was imported before \['b'\] listed their groups"):
        KubernetesDecides(farm)()


async def test_import_that_relies_on_a_previous_operators_listings_is_refused(farm: Farm) -> None:
    for name in farm.document:
        farm[name].calls.append(Call(now(), "ListGroups", "blue", Empty(), CallOutcome.ANSWERED))
    farm.build(Manager("another", farm.lab.config))
    await imported(farm)
    with pytest.raises(AssertionError, match="was imported before"):
        KubernetesDecides(farm)()


async def occupied(farm: Farm) -> Instance:
    """Return an instance that runs, with a pod on its Node."""
    farm.set_static("a", 1)
    made = await farm.add_instance("a", node="n1")
    await farm.add_pod("web", "n1")
    return made


def acknowledge(farm: Farm, one: Instance) -> None:
    request = pb.DrainAckRequest(instance_id=one.id)
    farm["a"].calls.append(Call(now(), "AcknowledgeDrained", "blue", request, CallOutcome.ANSWERED))


@pytest.mark.parametrize("drained", [False, True], ids=["never drained", "drained by the server"])
async def test_acknowledgement_with_a_remaining_pod_is_refused_before_the_timeout(farm: Farm, drained: bool) -> None:
    one = await occupied(farm)
    if drained:
        farm["a"].state.fleet.drain(one, "scale-down")  # by no verb of the farm
    predicate = NothingIsLost(farm)
    predicate()
    acknowledge(farm, one)
    with pytest.raises(AssertionError, match=r"was acknowledged with \['web'\]"):
        predicate()


async def test_an_acknowledgement_is_allowed_shortly_before_the_deletion_and_without_pods(farm: Farm) -> None:
    one = await occupied(farm)
    farm.drain("a", one)
    predicate = NothingIsLost(farm)
    predicate()
    await asyncio.sleep(farm.gives_up(one) - now() - 1)
    acknowledge(farm, one)
    with pytest.raises(AssertionError, match="was acknowledged with"):
        predicate()
    await asyncio.sleep(1.1)
    acknowledge(farm, one)
    predicate()


@pytest.mark.parametrize(
    "story", ["never acknowledged", "acknowledged late", "acknowledged", "began anew", "no listing after it"]
)
async def test_drain_without_acknowledgement_in_time_is_refused_unless_session_ended(farm: Farm, story: str) -> None:
    one = await occupied(farm)
    predicate, calls = AcknowledgedInTime(farm), farm["a"].calls
    farm.drain("a", one)
    assert one.last_drain is not None
    delete = farm.at(one.last_drain.delete_at)
    calls.append(Call(now(), "WatchInstances", "blue", Empty(), CallOutcome.OPEN))
    while now() < delete + 130:
        if story != "no listing after it" or now() < delete:
            calls.append(Call(now(), "ListGroups", "blue", Empty(), CallOutcome.ANSWERED))
        if story == "acknowledged" and delete - 40 < now() < delete:
            acknowledge(farm, one)
        if story == "acknowledged late" and delete < now() < delete + 31:
            acknowledge(farm, one)
        if story == "began anew" and delete - 31 < now() < delete:
            calls.append(Call(now() + 5, "WatchInstances", "blue", Empty(), CallOutcome.OPEN))
        await asyncio.sleep(30)
    if "late" in story or "never" in story:
        with pytest.raises(AssertionError, match="was not acknowledged before it was deleted"):
            predicate()
    else:
        predicate()


def create_instance(farm: Farm, id: str) -> Instance:  # noqa: A002  # the word of the protocol
    """Record a call to shard a that creates an instance, and create the instance."""
    request = pb.CreateInstanceRequest(instance_id=id)
    farm["a"].calls.append(Call(now(), "CreateInstance", "blue", request, CallOutcome.ANSWERED))
    return farm["a"].state.fleet.create("blue", "workers", managed=False, id=id)


async def order(farm: Farm, name: str, place: str) -> NstanceMachine:
    annotations = {MachinesAnnotation.INSTANCE: place}
    made = {"metadata": {"name": name, "annotations": annotations}, "spec": {"groupRef": "workers"}}
    return await farm.lab.create(NstanceMachine.decode(made))


async def test_an_instance_is_refused_whose_id_no_object_has_stored(farm: Farm) -> None:
    predicate = OneInstanceEach(farm)
    await order(farm, "m1", "a/one")
    predicate()
    create_instance(farm, "one")
    predicate()
    create_instance(farm, "two")
    with pytest.raises(AssertionError, match="a/two was created before it was stored"):
        predicate()


async def test_a_second_instance_of_an_object_is_refused_while_the_first_lives(farm: Farm) -> None:
    predicate = OneInstanceEach(farm)
    await order(farm, "m1", "a/one")
    predicate()
    first = create_instance(farm, "one")
    predicate()
    again = {"metadata": {"annotations": {MachinesAnnotation.INSTANCE: "a/two"}}}
    await farm.lab.patch(NstanceMachine, "m1", again)
    predicate()
    create_instance(farm, "two")
    with pytest.raises(AssertionError, match="an object has two instances"):
        predicate()
    farm["a"].state.fleet.delete(first)
    predicate()


async def test_node_id_that_leaves_its_pool_before_its_instance_is_refused(farm: Farm) -> None:
    farm.set_static("a", 1)
    one = await farm.add_instance("a", node="n1")
    predicate = IdsStay(farm)
    await imported(farm)
    await farm.lab.patch(NstanceMachinePool, "workers", {"spec": {"providerIDList": [f"aws:///z/{one.provider_id}"]}})
    predicate()
    await farm.lab.patch(NstanceMachinePool, "workers", {"spec": {"providerIDList": [one.provider_id]}})
    with pytest.raises(AssertionError, match=r"workers dropped .*, whose instances run"):
        predicate()
    farm["a"].state.fleet.delete(one)
    predicate()


async def test_two_machines_of_one_pod_are_refused(farm: Farm) -> None:
    predicate = OneMachineEach(farm)
    for name in ("one", "two"):
        predicate()
        made = {"metadata": {"name": name, "labels": {MachinesLabel.POD_UID: "u"}}, "spec": {"groupRef": "workers"}}
        await farm.lab.create(NstanceMachine.decode(made))
    with pytest.raises(AssertionError, match="pods have two nstancemachines"):
        predicate()


async def test_a_node_that_a_drain_marked_is_missed_while_its_instance_runs(farm: Farm) -> None:
    farm.set_static("a", 1)
    one = await farm.add_instance("a", node="n1")
    predicate = NodesStay(farm)
    mark = {
        "labels": {MachinesLabel.DRAINED_BY: "acme--blue"},
        "annotations": {MachinesAnnotation.INSTANCE: f"a/{one.id}"},
    }
    await farm.lab.client.patch(NODE, "n1", patch={"metadata": mark}, style="merge")
    predicate()
    await farm.lab.client.delete(NODE, "n1")
    with pytest.raises(AssertionError, match="were deleted, whose instances run"):
        predicate()
    farm["a"].state.fleet.delete(one)
    predicate()
