"""The input and the output of a contestant, and the observer's test for an object that is up to date."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from baselines.bare_loop import Loop
from baselines.peer import Item, Metadata, Spec, Status, Told, due
from peers import observer
from peers.protocol import Ready, Stats, environment, parse


@pytest.mark.parametrize("line", ["", "a log line", "[1]", '{"level": "info"}', b"\xff\xfe"])
def test_a_line_that_is_not_of_the_protocol_is_passed_over(line: str | bytes) -> None:
    assert parse(line) is None


def test_a_ready_line_brings_versions_and_settings() -> None:
    line = {"peer": "ready", "synced": False, "stalls": True, "versions": {"x": "1"}, "settings": {"workers": 10}}
    assert parse(json.dumps(line)) == Ready(False, True, {"x": "1"}, {"workers": 10})


def test_stalls_are_reported_only_by_contestants_that_can() -> None:
    assert parse('{"peer": "stats", "errors": 3}') == Stats(3.0, None, None)
    assert parse('{"peer": "stats", "errors": 0, "stall_ms": 2.5, "work_ms": 1.5}') == Stats(0.0, 2.5, 1.5)
    assert parse('{"peer": "stats", "turn_ms": 0.5}') == Stats(0.0, turn_ms=0.5)


def test_an_unknown_word_of_a_contestant_is_refused() -> None:
    with pytest.raises(ValueError, match="'done'"):
        parse('{"peer": "done"}')


def test_a_contestant_gets_nothing_of_the_harness_own_settings() -> None:
    base = {"PATH": "/bin", "HOME": "/home", "GOGC": "400", "KUBERNETES_SERVICE_HOST": "elsewhere", "PYTHONPATH": "x"}
    made = environment(
        base,
        kubeconfig=Path("k"),
        mount=Path("m"),
        address=("127.0.0.1", 6443),
        namespace="bench",
        workers=50,
        owners=True,
        extra={"PEER_VARIANT": "typed"},
    )
    assert made == {
        "PATH": "/bin",
        "HOME": "/home",
        "PYTHONPATH": str(Path(__file__).parents[3]),
        "KUBECONFIG": "k",
        "PEER_MOUNT": "m",
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": "6443",
        "PEER_NAMESPACE": "bench",
        "PEER_WORKERS": "50",
        "PEER_MODE": "owners",
        "PEER_VARIANT": "typed",
    }


# --- the observer -------------------------------------------------------------------------------------------------------------


def event(generation: int, observed: int, *, condition: int | None = None, type_: str = "MODIFIED") -> bytes:
    conditions = [{"type": "Stalled", "observedGeneration": observed if condition is None else condition}]
    status = {"observedGeneration": observed, "conditions": conditions}
    metadata = {"name": "one", "generation": generation, "resourceVersion": "7"}
    return json.dumps({"type": type_, "object": {"metadata": metadata, "status": status}}).encode()


def initial_end(version: str) -> bytes:
    metadata = {"resourceVersion": version, "annotations": {"k8s.io/initial-events-end": "true"}}
    return json.dumps({"type": "BOOKMARK", "object": {"metadata": metadata}}).encode()


def test_an_item_is_in_step_when_status_and_condition_have_the_generation() -> None:
    items = observer.Items()
    items.wait_for({"one": 2})
    items.take(event(2, 1))
    items.take(event(2, 2, condition=1))
    assert items.missing == 1
    items.take(event(2, 2))
    assert items.missing == 0


def test_a_mark_is_settled_by_the_first_event_that_has_its_generation() -> None:
    items = observer.Items()
    items.mark("one", 2, 0.0)
    items.mark("one", 3, 0.0)
    items.take(event(3, 2))
    assert (len(items.latencies), items.open_marks) == (1, 1)
    items.take(event(3, 3))
    assert (len(items.latencies), items.open_marks) == (2, 0)


def test_a_status_that_came_before_the_answer_has_no_latency() -> None:
    items = observer.Items()
    items.take(event(2, 2))
    items.mark("one", 2, items.seen["one"] + 1.0)
    assert items.latencies == [0.0]


def test_the_end_of_the_initial_state_does_not_count_as_an_object() -> None:
    items = observer.Items()
    items.take(initial_end("12"))
    assert items.begun.is_set()
    assert items.version == "12"
    assert items.observed == {}


@pytest.mark.parametrize(
    "of",
    [observer.Items, lambda: Loop(mock.create_autospec(Told, instance=True, workers=10))],
    ids=["observer", "bare loop"],
)
def test_a_stream_that_breaks_off_in_the_initial_state_begins_anew(of: Callable[[], Any]) -> None:
    """The initial state is ordered by name, so a resume from a version would miss objects for ever."""
    follower = of()
    follower.take(event(1, 1, type_="ADDED"))
    assert follower.version == ""
    follower.take(initial_end("12"))
    assert follower.version == "12"
    follower.take(event(1, 1))
    assert follower.version == "7"


def test_an_error_in_the_stream_makes_the_observer_begin_anew() -> None:
    items = observer.Items()
    items.take(initial_end("12"))
    items.take(b'{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","code":410}}')
    assert items.version == ""


def test_a_child_is_restored_by_a_version_after_the_harm() -> None:
    maps = observer.Maps()

    def seen(version: int, value: str, type_: str = "MODIFIED") -> None:
        metadata = {"name": "child", "resourceVersion": str(version)}
        maps.take(json.dumps({"type": type_, "object": {"metadata": metadata, "data": {"value": value}}}).encode())

    seen(5, "child")
    maps.mark("child", 6, 0.0)
    seen(6, "by hand")
    assert maps.open_marks == 1
    seen(7, "child", "DELETED")
    assert maps.open_marks == 1
    seen(8, "child", "ADDED")
    assert (maps.open_marks, len(maps.latencies)) == (0, 1)


# --- the work, as the contestants in Python do it ------------------------------------------------------------------------------


def applied(body: bytes | None) -> Status:
    assert body is not None
    status = json.loads(body)["status"]
    return Status(observed_generation=status["observedGeneration"], conditions=status["conditions"])


def test_an_applied_object_is_not_due_again() -> None:
    item = Item(Metadata(name="one", generation=3), Spec(revision=9))
    item.status = applied(due(item))
    assert due(item) is None


def test_a_condition_keeps_its_time_when_only_the_generation_moves() -> None:
    item = Item(Metadata(name="one", generation=3), Spec(revision=9))
    item.status = applied(due(item))
    item.status.conditions[0]["lastTransitionTime"] = "2020-01-01T00:00:00Z"
    item.metadata.generation = 4
    assert applied(due(item)).conditions[0]["lastTransitionTime"] == "2020-01-01T00:00:00Z"
