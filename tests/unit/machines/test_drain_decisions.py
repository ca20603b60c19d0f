"""Which pods a drain waits for, and for how long."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from konverge.client.requests import Request
from konverge.client.retry import may_repeat
from konverge.client.status import status_error
from konverge.errors import EvictionRefused, TooManyRequests
from konverge.objects import Object
from konverge.reconcilers.machines.drains.decide import (
    EmptyNode,
    NodeStep,
    NodeUnclear,
    NoNode,
    node_step,
    pods_left,
    removable_instance,
)
from konverge.reconcilers.machines.drains.observe import ObservedNodes
from konverge.reconcilers.machines.drains.timeout import drain_times, timeout_report
from konverge.reconcilers.machines.instances.ownership import InstancePlace

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def pod(name: str, *, owner: tuple[str, str] | None = None, phase: str = "Running", **metadata: Any) -> Object:
    references = (
        [{"apiVersion": owner[0], "kind": owner[1], "name": "o", "uid": "u", "controller": True}] if owner else []
    )
    whole = {"name": name, "namespace": "web", "uid": name, "ownerReferences": references, **metadata}
    return Object({"apiVersion": "v1", "kind": "Pod", "metadata": whole, "status": {"phase": phase}})


@pytest.mark.parametrize(
    ("seen", "evicted", "ending"),
    [
        (pod("plain"), True, False),
        (pod("replica", owner=("apps/v1", "ReplicaSet")), True, False),
        (pod("pending", phase="Pending"), True, False),
        (pod("daemon", owner=("apps/v1", "DaemonSet")), False, False),
        (pod("other-daemon", owner=("apps.kruise.io/v1", "DaemonSet")), True, False),
        (pod("mirror", annotations={"kubernetes.io/config.mirror": "x"}), False, False),
        (pod("done", phase="Succeeded"), False, False),
        (pod("failed", phase="Failed"), False, False),
        (pod("going", deletionTimestamp="2026-01-01T00:00:00Z"), False, True),
    ],
    ids=lambda value: value.name if isinstance(value, Object) else "",
)
def test_daemons_mirrors_and_finished_pods_stay_and_ending_ones_are_waited_for(
    seen: Object, evicted: bool, ending: bool
) -> None:
    found = pods_left([seen])
    assert (bool(found.evict), bool(found.ending)) == (evicted, ending)
    assert len(found) == evicted + ending


@given(st.integers(-1000, 10_000), st.floats(0.1, 600))
def test_drain_times_out_before_deletion_and_never_in_its_first_three_quarters(left: int, margin: float) -> None:
    times = drain_times(NOW + timedelta(seconds=left), NOW, timeout=300, margin=margin)
    assert times.delete == left
    assert times.give_up <= times.delete
    assert times.give_up >= min(left, left * 0.75)


def node(name: str = "n1", *, ready: str = "", **metadata: Any) -> Object:
    conditions = [{"type": "Ready", "status": ready}] if ready else []
    whole = {"name": name, "uid": name, "annotations": {"nstance.dev/instance": "a/i-1"}, **metadata}
    return Object({"apiVersion": "v1", "kind": "Node", "metadata": whole, "status": {"conditions": conditions}})


@pytest.mark.parametrize(
    ("observed", "step"),
    [
        (ObservedNodes(), NoNode()),
        (ObservedNodes((node(),)), EmptyNode(node())),
        (
            ObservedNodes((node(),), foreign=True),
            NodeUnclear("provider id i-0a is recorded for another shard, so its Node is not drained"),
        ),
        (
            ObservedNodes((node("n2"), node("n1"))),
            NodeUnclear("provider id i-0a names several Nodes, so none is drained: n1, n2"),
        ),
    ],
    ids=["none", "own", "foreign", "several"],
)
def test_only_the_single_node_of_an_own_instance_is_drained(observed: ObservedNodes, step: NodeStep) -> None:
    assert node_step("i-0a", observed) == step


@pytest.mark.parametrize(
    ("marked", "instance"),
    [
        (node(), InstancePlace("a", "i-1")),
        (node(ready="False"), InstancePlace("a", "i-1")),
        (node(ready="Unknown"), InstancePlace("a", "i-1")),
        (node(ready="True"), None),
        (node(deletionTimestamp="2026-01-01T00:00:00Z"), None),
        (node(annotations={}), None),
        (node(annotations={"nstance.dev/instance": "no place"}), None),
    ],
    ids=["new", "not-ready", "unknown", "ready", "deleting", "unmarked", "malformed"],
)
def test_a_node_is_removable_only_if_its_kubelet_reports_no_more(
    marked: Object, instance: InstancePlace | None
) -> None:
    assert removable_instance(marked) == instance


def test_a_drain_that_timed_out_reports_the_pods_that_are_left() -> None:
    report = timeout_report(2)
    assert (report.reason, report.warning) == ("DrainTimedOut", True)
    assert report.message == "2 pods are left, and the instance is about to be deleted"


def test_without_a_time_the_default_holds() -> None:
    assert drain_times(None, NOW, timeout=300, margin=15).delete == 300


def test_budget_refusal_is_a_result_and_other_429s_are_retried() -> None:
    """Five tries for each pod with a blocking budget would delay the other pods."""
    said = b'{"kind":"Status","code":429,"reason":"TooManyRequests","message":"Cannot evict pod.","details":{"causes":[%s]}}'
    budget = status_error(said % b'{"reason":"DisruptionBudget","message":"it needs 1 healthy pods"}', code=429)
    busy = status_error(said % b"", code=429)
    assert isinstance(budget, EvictionRefused)
    assert budget.causes == (("", "it needs 1 healthy pods"),)
    assert type(busy) is TooManyRequests
    request = Request(method="POST", path="/", repeatable=True)
    assert (may_repeat(request, budget, 1), may_repeat(request, busy, 1)) == (False, True)
