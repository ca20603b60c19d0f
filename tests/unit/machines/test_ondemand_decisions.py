"""Pods on demand: the demand of a Pod, the names and labels of its objects, and the next step as a table."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from konverge.objects import Metadata, Object
from konverge.reconcilers.machines.kinds import MACHINE, POD
from konverge.reconcilers.machines.ondemand.decide import OnDemandAction, OnDemandStep, next_steps
from konverge.reconcilers.machines.ondemand.demand import (
    Demand,
    MadeObject,
    PodRef,
    PodState,
    demand_of,
    made_object,
    pod_state,
)
from konverge.reconcilers.machines.ondemand.observe import ObservedPods
from konverge.reconcilers.machines.ondemand.render import infrastructure, machine, machine_name, pod_labels
from konverge.reconcilers.machines.words import MachinesAnnotation

JOB = PodRef("web", "job", "u1")
LATER = PodRef("web", "job", "u2")
"""A Pod that replaced JOB under its name."""
OTHER = PodRef("shop", "job", "u3")
HASHED = machine_name(OTHER, with_namespace=True)
NAME = "on-demand-job"
GROUP_WORD = "on-demand.nstance.dev/group"


def an_object(pod: PodRef | None = JOB, name: str = NAME, *, deleting: bool = False) -> MadeObject:
    return MadeObject(name, f"of-{name}", pod, deleting)


def seen(*demands: PodRef, infra: Any = (), machines: Any = (), group: str = "gpu") -> ObservedPods:
    return ObservedPods(tuple(Demand(pod, group) for pod in demands), tuple(infra), tuple(machines))


@pytest.mark.parametrize(
    ("annotations", "wanted"),
    [
        ({}, None),
        ({GROUP_WORD: ""}, None),
        ({GROUP_WORD: " gpu "}, ("gpu", "")),
        ({GROUP_WORD: "gpu", "on-demand.nstance.dev/instance-type": "g5"}, ("gpu", "g5")),
        ({"nstance.dev/on-demand-group": "gpu", "nstance.dev/on-demand-instance-type": "g5"}, ("gpu", "g5")),
        ({GROUP_WORD: "gpu", "nstance.dev/on-demand-group": "old"}, ("gpu", "")),
        ({"on-demand.nstance.dev/instance-type": "g5"}, None),
    ],
)
def test_pod_requests_an_instance_by_annotations_of_documents_or_code(
    annotations: dict[str, str], wanted: tuple[str, str] | None
) -> None:
    found = demand_of(Metadata(name="job", namespace="web", uid="u1", annotations=annotations))
    assert (None if found is None else (found.group, found.instance_type)) == wanted


def a_pod(phase: str = "Pending", node: str = "", uid: str = "u1", **metadata: Any) -> Object:
    return POD.decode(
        {
            "metadata": {"name": "job", "namespace": "web", "uid": uid, **metadata},
            "spec": {"nodeName": node} if node else {},
            "status": {"phase": phase},
        }
    )


@pytest.mark.parametrize(
    ("pod", "state"),
    [
        (a_pod(), PodState.WAITING),
        (a_pod(node="n1"), PodState.SCHEDULED),
        (a_pod("Running", "n1"), PodState.SCHEDULED),
        (a_pod("Succeeded", "n1"), PodState.ENDED),
        (a_pod("Failed"), PodState.ENDED),
        (a_pod(deletionTimestamp="2026-01-01T00:00:00Z"), PodState.SCHEDULED),
        (a_pod("Failed", "n1", deletionTimestamp="2026-01-01T00:00:00Z"), PodState.ENDED),
        (a_pod(uid="u2"), PodState.ENDED),
        (None, PodState.ENDED),
    ],
)
def test_finished_or_deleted_pod_has_ended_and_unscheduled_pod_waits(pod: Object | None, state: PodState) -> None:
    assert pod_state(pod, "u1") is state


def test_name_beyond_63_characters_is_hashed_and_the_annotation_keeps_it_whole() -> None:
    long = [PodRef("web", "x" * 100 + end, "u1") for end in ("a", "b")]
    names = {machine_name(pod) for pod in long}
    assert len(names) == 2
    assert {len(name) for name in names} == {63}
    assert len({pod_labels(pod)["nstance.dev/pod-name"] for pod in long}) == 2
    assert all(len(value) <= 63 for pod in long for value in pod_labels(pod).values())
    whole = machine(Demand(long[0], "gpu"), name=names.pop(), namespace="ops", cluster="acme--blue")
    assert made_object(whole.metadata).pod == long[0]


def test_machine_name_of_63_characters_is_kept_and_64_is_cut() -> None:
    assert machine_name(PodRef("web", "x" * 53, "u1")) == "on-demand-" + "x" * 53
    assert len(machine_name(PodRef("web", "x" * 54, "u1"))) == 63
    assert not machine_name(PodRef("web", "x" * 41 + "." * 20, "u1")).rpartition("-")[0].endswith(".")


def test_the_machine_has_all_that_its_schema_requires_and_no_owner() -> None:
    demand = Demand(JOB, "gpu", "g5")
    made = machine(demand, name=NAME, namespace="ops", cluster="acme--blue").to_dict()
    assert made["spec"] == {
        "clusterName": "acme--blue",
        "bootstrap": {"dataSecretName": ""},
        "infrastructureRef": {
            "apiGroup": "infrastructure.cluster.x-k8s.io",
            "kind": "NstanceMachine",
            "name": NAME,
        },
    }
    below = infrastructure(demand, name=NAME, namespace="ops", cluster="acme--blue")
    assert (below.spec.group, below.spec.instance_type) == ("gpu", "g5")
    assert "ownerReferences" not in made["metadata"]
    assert not below.metadata.owner_references
    assert made["metadata"]["labels"] == {
        "cluster.x-k8s.io/cluster-name": "acme--blue",
        "nstance.dev/pod-namespace": "web",
        "nstance.dev/pod-name": "job",
        "nstance.dev/pod-uid": "u1",
    }
    assert below.metadata.labels == made["metadata"]["labels"]


def test_object_without_its_annotation_is_known_by_labels_unless_cut() -> None:
    for name, known in (("job", JOB), ("x" * 100, PodRef("", "", "u1"))):
        pod = PodRef("web", name, "u1")
        whole = machine(Demand(pod, "gpu"), name=NAME, namespace="ops", cluster="acme--blue").to_dict()
        del whole["metadata"]["annotations"][MachinesAnnotation.POD]
        assert made_object(MACHINE.decode(whole).metadata).pod == known


WAITS, SCHEDULED, ENDED = PodState.WAITING, PodState.SCHEDULED, PodState.ENDED
HERE, GOES = an_object(), an_object(deleting=True)
DELETE_MACHINE, DELETE_INFRA = (OnDemandAction.DELETE_MACHINE, NAME), (OnDemandAction.DELETE_INFRASTRUCTURE, NAME)
REPLACE = (OnDemandAction.REPLACE_MACHINE, NAME)
BOTH, ONE = (OnDemandAction.CREATE_BOTH, NAME), (OnDemandAction.CREATE_MACHINE, NAME)


@pytest.mark.parametrize(
    ("infra", "owner", "waits", "scheduled", "ended"),
    [
        # NstanceMachine, Machine, then the step in each state of the Pod
        (None, None, BOTH, None, None),
        (HERE, None, ONE, None, DELETE_INFRA),
        (GOES, None, None, None, None),
        (None, HERE, REPLACE, None, DELETE_MACHINE),
        (HERE, HERE, None, None, DELETE_MACHINE),
        (GOES, HERE, None, None, DELETE_MACHINE),
        (None, GOES, None, None, None),
        (HERE, GOES, None, None, None),
        (GOES, GOES, None, None, None),
    ],
)
def test_the_step_of_a_pod_follows_from_its_state_and_its_objects(
    infra: MadeObject | None,
    owner: MadeObject | None,
    waits: tuple[OnDemandAction, str] | None,
    scheduled: tuple[OnDemandAction, str] | None,
    ended: tuple[OnDemandAction, str] | None,
) -> None:
    found = seen(JOB, infra=[infra] if infra else [], machines=[owner] if owner else [])
    for state, wanted in ((WAITS, waits), (SCHEDULED, scheduled), (ENDED, ended)):
        steps = [(step.action, step.name) for step in next_steps(found, {JOB: state})]
        assert steps == ([wanted] if wanted else []), state


@pytest.mark.parametrize("action", OnDemandAction)
def test_each_step_because_an_object_is_missing_is_known_as_such(action: OnDemandAction) -> None:
    taken_for_what_is_there = {OnDemandAction.DELETE_MACHINE, OnDemandAction.REFUSE}
    assert OnDemandStep(action, JOB).rests_on_absence is (action not in taken_for_what_is_there)


@pytest.mark.parametrize("state", [SCHEDULED, WAITS])
def test_a_pod_whose_annotation_was_removed_keeps_its_machine_until_it_ends(state: PodState) -> None:
    found = seen(infra=[an_object()], machines=[an_object()])
    assert next_steps(found, {JOB: state}) == ()
    assert [step.action for step in next_steps(found, {JOB: ENDED})] == [OnDemandAction.DELETE_MACHINE]


def test_pod_with_the_name_of_a_former_pod_waits_for_its_objects() -> None:
    states = {JOB: ENDED, LATER: WAITS}
    before = next_steps(seen(LATER, infra=[an_object()], machines=[an_object()]), states)
    assert [(step.action, step.pod) for step in before] == [(OnDemandAction.DELETE_MACHINE, JOB)]
    assert next_steps(seen(LATER, infra=[an_object(deleting=True)]), states) == ()
    after = next_steps(seen(LATER), {LATER: WAITS})
    assert [(step.action, step.pod, step.name) for step in after] == [(OnDemandAction.CREATE_BOTH, LATER, NAME)]


def test_pods_of_one_name_in_two_namespaces_get_machines_of_two_names() -> None:
    at_once = next_steps(seen(JOB, OTHER), {JOB: WAITS, OTHER: WAITS})
    assert {(step.pod, step.name) for step in at_once} == {
        (OTHER, NAME),
        (JOB, machine_name(JOB, with_namespace=True)),
    }
    later = next_steps(seen(JOB, OTHER, infra=[HERE], machines=[HERE]), {JOB: WAITS, OTHER: WAITS})
    assert [(step.pod, step.name) for step in later] == [(OTHER, HASHED)]


def test_machine_of_a_user_is_never_touched_and_its_name_skipped() -> None:
    foreign = an_object(None)
    [step] = next_steps(seen(OTHER, infra=[foreign], machines=[foreign]), {OTHER: WAITS})
    assert (step.action, step.name) == (OnDemandAction.CREATE_BOTH, HASHED)


def test_edited_annotation_loses_no_machine_of_an_existing_pod() -> None:
    moved = an_object(PodRef("web", "elsewhere", "u1"))
    found = seen(JOB, infra=[moved], machines=[moved])
    assert found.pods == {JOB}
    assert next_steps(found, {JOB: WAITS}) == ()


PODS = [PodRef(space, name, f"{space}-{name}-{number}") for space in "ab" for name in "xy" for number in (1, 2)]


@given(data=st.data())
def test_every_waiting_pod_ends_with_one_machine_and_never_has_two(data: st.DataObject) -> None:
    """Steps are interrupted at any point, as by a crash; deletions complete at any later time."""
    infra: dict[str, MadeObject] = {}
    owners: dict[str, MadeObject] = {}
    # At most one Pod of a name exists in a namespace: the others have ended.
    present = {(pod.namespace, pod.name): data.draw(st.integers(0, 2)) for pod in PODS}
    for _ in range(data.draw(st.integers(1, 8))):
        place = data.draw(st.sampled_from(sorted(present)))
        present[place] = data.draw(st.integers(0, 2))
        _play(infra, owners, present, cut=data.draw(st.integers(0, 6)))
        for gone in data.draw(st.lists(st.sampled_from(sorted(infra.keys() | owners.keys()) or ["-"]), max_size=2)):
            _collect(infra, owners, gone)
    for _ in range(8):
        _play(infra, owners, present, cut=100)
        for name in sorted(infra.keys() | owners.keys()):
            _collect(infra, owners, name)
    wanted = {pod.uid for pod in PODS if present[pod.namespace, pod.name] == int(pod.uid[-1])}
    for made in (infra, owners):
        assert sorted(one.pod.uid for one in made.values() if one.pod) == sorted(wanted)


def _play(
    infra: dict[str, MadeObject], owners: dict[str, MadeObject], present: dict[tuple[str, str], int], *, cut: int
) -> None:
    there = [pod for pod in PODS if present[pod.namespace, pod.name] == int(pod.uid[-1])]
    states = {pod: WAITS if pod in there else ENDED for pod in PODS}
    for step in next_steps(seen(*there, infra=infra.values(), machines=owners.values()), states)[:cut]:
        _apply(step, infra, owners, half=cut == 1)
    uids = [one.pod.uid for one in owners.values() if one.pod]
    assert len(uids) == len(set(uids)), f"two Machines for one Pod: {uids}"


def _apply(step: OnDemandStep, infra: dict[str, MadeObject], owners: dict[str, MadeObject], *, half: bool) -> None:
    name = step.name
    if step.action is OnDemandAction.CREATE_BOTH:
        assert name not in infra
        assert name not in owners
        infra[name] = an_object(step.pod, name)
        if half:
            return
    if step.creates:
        owners[name] = an_object(step.pod, name)
    elif step.action in (OnDemandAction.DELETE_MACHINE, OnDemandAction.REPLACE_MACHINE):
        owners[name] = an_object(step.pod, name, deleting=True)
    elif step.action is OnDemandAction.DELETE_INFRASTRUCTURE:
        infra[name] = an_object(step.pod, name, deleting=True)


def _collect(infra: dict[str, MadeObject], owners: dict[str, MadeObject], name: str) -> None:
    """Complete the deletion of a pair, the infrastructure first, as Cluster API does."""
    if name in owners and owners[name].deleting:
        if name in infra:
            del infra[name]
        else:
            del owners[name]
    elif name in infra and infra[name].deleting:
        del infra[name]
