"""The double of Cluster API's core acts like the recorded controller.

Each recording is played: the double gets the actions of users and the provider, step by step at the recorded times. At the end of each step
every object must match the recorded object: owners, label, finalizers, phases, ids, replicas, paired Nodes, conditions, and whether it
exists.
"""

import json
from typing import Any

import pytest
from capi_replay import KINDS, NAMES, NOT_PLAYED, CapiReplay
from recordings import lines, scenarios

from konverge.crds.machines_v1beta1 import NstanceMachine
from konverge.reconcilers.machines.instances.indexes import owner_of
from konverge_testing import Lab
from konverge_testing.capi.defaults import machine_defaults, machine_pool_defaults


@pytest.mark.parametrize("name", NAMES)
async def test_the_double_does_what_the_core_was_recorded_doing(lab: Lab, name: str) -> None:
    compared = await CapiReplay(lab, name).run()
    assert len(compared) >= 2
    for text, recorded, played in compared:
        if text.startswith("set-up"):
            continue  # the recordings continue before the core has seen everything
        for at in recorded.keys() | played.keys():
            assert played.get(at) == recorded.get(at), f"{at} at the end of {text!r}"


def objects(name: str) -> list[dict[str, Any]]:
    """Return every version of every object in a recording, in order."""
    return [line.object for line in lines("capi", name) if line.object]


def test_every_recording_is_played_or_listed_with_a_reason() -> None:
    present = set(scenarios("capi"))
    assert len(present) == 32
    assert set(NAMES) | NOT_PLAYED.keys() == present
    assert not set(NAMES) & NOT_PLAYED.keys()
    assert all(NOT_PLAYED.values())


@pytest.mark.parametrize("name", NAMES)
def test_every_kind_of_a_recording_that_is_played_has_a_player(name: str) -> None:
    assert {made["kind"] for made in objects(name)} <= KINDS.keys()


def test_defaults_of_the_capi_double_equal_the_recorded_webhook_defaults() -> None:
    names = set()
    for made in objects("pool-defaults"):
        if made["kind"] not in ("MachinePool", "Machine") or made["metadata"]["name"] in names:
            continue
        names.add(made["metadata"]["name"])
        given = json.loads(json.dumps(made))
        given["metadata"].pop("labels")
        given["spec"].pop("replicas", None)
        machine = given["spec"]["template"]["spec"] if made["kind"] == "MachinePool" else given["spec"]
        machine.pop("deletion")
        completed = machine_pool_defaults(given) if made["kind"] == "MachinePool" else machine_defaults(given)
        assert (completed["spec"], completed["metadata"]["labels"]) == (made["spec"], made["metadata"]["labels"])
    assert names == {"d1", "d2", "d3", "d6", "e2", "e5"}


def test_an_infrastructure_machine_of_a_machine_set_waits_for_its_machine() -> None:
    """A MachineSet owns its clone first; later the Machine owns it."""
    owners = []
    for made in objects("machineset-clones"):
        if made["kind"] == "NstanceMachine" and made["metadata"]["name"] == "ms-77w4r":
            references = made["metadata"].get("ownerReferences") or []
            clone = NstanceMachine.decode({"metadata": made["metadata"], "spec": {"groupRef": "workers"}})
            found = owner_of(clone)
            owners.append((tuple(one["kind"] for one in references), None if found is None else found.name))
    assert (("MachineSet",), None) in owners
    assert (("Machine",), "ms-77w4r") in owners
    assert {found for kinds, found in owners if "Machine" not in kinds} == {None}
