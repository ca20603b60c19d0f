"""The place of an instance, its id, and the meaning of its state: the decisions as tables, and their properties."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from konverge.crds.machines_v1beta1 import NstanceMachine
from konverge.objects import Object
from konverge.outcome import RequeueAfter
from konverge.reconcilers.machines.instances.decide import (
    condition_reason,
    node_of,
    plan_end,
    plan_failure,
    plan_instance,
    plan_node_reference,
    plan_status,
)
from konverge.reconcilers.machines.instances.observe import ObservedInstance
from konverge.reconcilers.machines.instances.ownership import InstancePlace, NotPlaced, instance_id
from konverge.reconcilers.machines.instances.places import PlaceRequest, choose_place
from konverge.reconcilers.machines.settings import MachineSettings
from konverge.reconcilers.machines.shards.failures import FailureKind, ShardFailure
from konverge.reconcilers.machines.shards.messages import InstanceState

BORN = datetime(2026, 11, 24, tzinfo=UTC)
ASKED = PlaceRequest("u1", BORN, "workers", document=("a", "b", "c"), reachable=("a", "b", "c"))
UIDS = st.uuids().map(str)
FULL = "aws:///us-west-2a/i-0a"


@pytest.mark.parametrize(
    ("asked", "reason", "words"),
    [
        (replace(ASKED, has_machine=False), "WaitingForMachine", "waits for the Machine"),
        (replace(ASKED, group="No Group"), "Invalid", "groupRef 'No Group' is not the name of a group"),
        (replace(ASKED, group=""), "Invalid", "groupRef ''"),
        (replace(ASKED, document=None), "WaitingForShard", "document of shards"),
        (replace(ASKED, failure_domain="nowhere"), "Invalid", "does not name nowhere"),
        (replace(ASKED, reachable=()), "WaitingForShard", "waits for a shard"),
        (replace(ASKED, reachable=("z",)), "WaitingForShard", "waits for a shard"),
    ],
)
def test_an_instance_without_a_place_waits_and_says_for_what(asked: PlaceRequest, reason: str, words: str) -> None:
    found = choose_place(asked)
    assert isinstance(found, NotPlaced)
    assert found.reason == reason
    assert words in found.message


def test_the_failure_domain_is_the_shard_even_while_it_cannot_be_reached() -> None:
    found = choose_place(replace(ASKED, failure_domain="b", reachable=("a",)))
    assert found == InstancePlace("b", instance_id("u1", BORN))


@given(UIDS, st.permutations(["a", "b", "c"]))
def test_placement_depends_on_the_object_and_not_on_shard_order(uid: str, shards: list[str]) -> None:
    asked = replace(ASKED, uid=uid)
    found = choose_place(replace(asked, document=shards, reachable=shards))
    assert found == choose_place(asked)
    assert isinstance(found, InstancePlace)
    assert InstancePlace.parse(str(found)) == found


def test_places_spread_over_the_shards() -> None:
    places = [choose_place(replace(ASKED, uid=f"uid-{number}")) for number in range(300)]
    counts = [sum(isinstance(one, InstancePlace) and one.shard == name for one in places) for name in "abc"]
    assert min(counts) > 60


@given(UIDS, UIDS, st.integers(0, 10**6))
def test_ids_are_ordered_by_time_differ_among_objects_and_are_identifiers(first: str, second: str, later: int) -> None:
    one = instance_id(first, BORN)
    assert re.fullmatch(r"[a-z0-9]{31}", one)
    assert one == instance_id(first, BORN)
    assert (one == instance_id(second, BORN)) is (first == second)
    assert later == 0 or one < instance_id(second, BORN + timedelta(seconds=later))


@pytest.mark.parametrize("text", ["", "a", "a/", "/b", "a/b/c"])
def test_an_annotation_that_names_no_place_is_none(text: str) -> None:
    assert InstancePlace.parse(text) is None


@pytest.mark.parametrize(
    ("state", "published", "nodes", "expected"),
    [
        (InstanceState("pending"), "", [], (False, "InstanceStarting", "", False)),
        (InstanceState("running"), "", [], (False, "InstanceStarting", "", False)),
        (InstanceState("running", "i-0a"), "", [], (True, "InstanceRunning", "i-0a", True)),
        (InstanceState("running", "i-0a"), "", [FULL], (True, "InstanceRunning", FULL, True)),
        (InstanceState("running", "i-0a"), FULL, [], (True, "InstanceRunning", FULL, True)),
        (InstanceState("pending", "i-0a"), "", [], (False, "InstanceStarting", "i-0a", False)),
        (InstanceState("stopped", "i-0a"), FULL, [], (False, "InstanceStopped", FULL, False)),
        (InstanceState("deleting", "i-0a"), FULL, [], (False, "InstanceStopped", FULL, False)),
        (InstanceState(""), "", [], (False, "InstanceStarting", "", False)),
        (InstanceState("running"), FULL, [FULL], (False, "InstanceStarting", "", False)),  # a user wrote the id
        (InstanceState("running", "i-0b"), FULL, [FULL], (True, "InstanceRunning", "i-0b", True)),
    ],
)
def test_only_a_running_instance_with_a_provider_id_is_ready(
    state: InstanceState, published: str, nodes: list[str], expected: tuple[bool, str, str, bool]
) -> None:
    plan = plan_instance(state, provisioned=False, published=published, node_ids=nodes)
    assert (plan.ready, plan.reason, plan.provider_id, plan.provisioned) == expected
    assert not plan.ended


@pytest.mark.parametrize("state", [None, InstanceState("deleted"), InstanceState("terminated", "i-0a")])
def test_an_instance_that_is_gone_has_ended_and_keeps_what_was_published(state: InstanceState | None) -> None:
    plan = plan_instance(state, provisioned=True, published=FULL)
    assert (plan.ended, plan.ready, plan.provisioned, plan.provider_id) == (True, False, True, FULL)


STATES = st.sampled_from(
    ["pending", "running", "stopping", "stopped", "suspending", "suspended", "deleting", "repairing", "unknown"]
)


@given(st.lists(st.tuples(STATES, st.sampled_from(["", "i-0a"]), st.lists(st.sampled_from([FULL, "i-0b"])))))
def test_provisioned_and_the_id_of_a_node_stay_once_they_were_there(
    seen: list[tuple[str, str, list[str]]],
) -> None:
    provisioned, published, recorded = False, "", ""
    for status, provider_id, nodes in seen:
        plan = plan_instance(
            InstanceState(status, provider_id),
            provisioned=provisioned,
            recorded=recorded,
            published=published,
            node_ids=nodes,
        )
        assert plan.provisioned >= provisioned
        assert not plan.provisioned or plan.provider_id, "provisioned without an id"
        assert published != FULL or plan.provider_id == FULL
        provisioned, published, recorded = plan.provisioned, plan.provider_id, provider_id or recorded


@given(st.text(max_size=400))
def test_any_reason_of_a_server_becomes_a_reason_that_the_api_accepts(said: str) -> None:
    made = condition_reason(said)
    assert re.fullmatch(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", made)
    assert len(made) <= 1024


SETTINGS = MachineSettings()
PLACE = InstancePlace("a", "knc1")
NODE = Object(
    {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1"},
        "spec": {"providerID": FULL},
        "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]},
    }
)


def machine(**metadata: dict[str, str]) -> NstanceMachine:
    whole = {"name": "m1", "namespace": "ops", **metadata}
    return NstanceMachine.model_validate({"metadata": whole, "spec": {"groupRef": "workers"}})


def observed(state: InstanceState | None, *, group: str = "", foreign: bool = False) -> ObservedInstance:
    return ObservedInstance(machine(), PLACE, state, group, foreign, (NODE,))


def owner(**parts: object) -> Object:
    metadata = {"name": "m1", "namespace": "ops", "uid": "u9", "resourceVersion": "7"}
    return Object({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": metadata, **parts})


def test_a_running_instance_is_published_before_it_counts_as_provisioned() -> None:
    plan = plan_status(observed(InstanceState("running", "i-0a")), SETTINGS)
    (apply,) = plan.applies
    assert apply.object.to_dict()["spec"] == {"providerID": FULL, "failureDomain": "a"}
    assert plan.draft is not None
    assert plan.draft.initialization is not None
    assert (plan.draft.ready, plan.draft.provider_id, plan.draft.addresses[0].address) == (True, "i-0a", "10.0.0.1")
    assert plan.outcome == RequeueAfter(SETTINGS.instance_poll)


@pytest.mark.parametrize(
    ("seen", "reason", "node"),
    [
        (observed(InstanceState("running", "i-0a")), "InstanceRunning", "n1"),
        (observed(InstanceState("running", "i-0a"), group="workers"), "ForeignInstance", ""),
        (observed(InstanceState("running", "i-0a"), foreign=True), "ProviderError", ""),
        (observed(None), "ServerDeleted", ""),
    ],
    ids=["own", "of-a-group", "of-another-shard", "deleted"],
)
def test_only_an_own_instance_shows_its_node(seen: ObservedInstance, reason: str, node: str) -> None:
    plan = plan_status(seen, SETTINGS)
    assert plan.set_conditions[0].reason == reason
    assert bool(plan.applies) == bool(node)
    assert node_of(seen) == node


@pytest.mark.parametrize(
    ("named", "patched"),
    [
        (owner(), True),
        (owner(status={"nodeRef": {"name": "n0"}}), False),
        (owner(metadata={"name": "m1", "deletionTimestamp": "2026-01-01T00:00:00Z"}), False),
        (None, False),
    ],
    ids=["unnamed", "named", "deleting", "none"],
)
def test_a_machine_gets_its_node_once(named: Object | None, patched: bool) -> None:
    plan = plan_node_reference("n1", named)
    assert bool(plan.patches) == patched
    assert all(patch.expect is named and patch.subresource == "status" for patch in plan.patches)


def test_without_a_machine_the_infrastructure_of_a_deleted_instance_is_deleted() -> None:
    (delete,) = plan_end(machine(), None).deletes
    assert delete.name == "m1"


@pytest.mark.parametrize(
    ("kind", "reason", "events"),
    [
        (FailureKind.UNREACHABLE, "ShardUnreachable", 0),
        (FailureKind.INVALID, "Invalid", 1),
        (FailureKind.FAILED, "ProviderError", 1),
    ],
)
def test_the_pod_of_a_refused_instance_gets_an_event(kind: FailureKind, reason: str, events: int) -> None:
    refused = machine(labels={"nstance.dev/pod-uid": "u1"}, annotations={"nstance.dev/pod": "web/job"})
    plan = plan_failure(refused, ShardFailure("a", kind, "no capacity"))
    assert [(update.reason, update.message) for update in plan.set_conditions] == [(reason, "no capacity")]
    assert [event.about.path for event in plan.events if event.about is not None] == ["web/job"] * events
    assert not any("no capacity" in event.message for event in plan.events), "a server's text is for the operator"
