"""End states are compared under masks: differences of any two runs are ignored, everything else is compared."""

from typing import Any

import pytest

from konverge.errors import UsageError
from konverge.kinds import kind
from konverge_testing.lab.allowances import Allowances, Mask
from konverge_testing.lab.masks import masked, state_of

WIDGETS = ("example.com", "widgets")
MAPS = ("", "configmaps")
WIDGET = kind("example.com/v1", "Widget")


def made(kind_: str, name: str, uid: str, **more: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "lab", "uid": uid, "resourceVersion": uid * 2, "generation": 3}
    metadata["creationTimestamp"] = "2030-01-01T00:00:00Z"
    return {"kind": kind_, "metadata": metadata | more.pop("metadata", {}), **more}


def state(*, uid: str, at: str, owner: str = "", **status: Any) -> dict[str, Any]:
    reference = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "one", "uid": owner or uid}
    child = made("ConfigMap", "part", f"{uid}-child", metadata={"ownerReferences": [reference]}, data={"of": uid})
    widget = made("Widget", "one", uid, status={"observedGeneration": 3, "since": at, **status})
    return state_of({(WIDGETS, "lab", "one"): widget, (MAPS, "lab", "part"): child})


def test_uids_versions_and_times_of_two_runs_are_not_compared() -> None:
    assert state(uid="u1", at="2030-01-01T00:00:01Z") == state(uid="u2", at="2031-02-03T04:05:06.789+01:00")


def test_the_names_of_a_state_are_resource_and_place() -> None:
    assert list(state(uid="u1", at="x")) == ["configmaps lab/part", "widgets.example.com lab/one"]


def test_a_uid_is_shown_as_the_object_that_has_it() -> None:
    seen = state(uid="u1", at="x")["configmaps lab/part"]
    assert seen["data"] == {"of": "uid of Widget one"}
    assert seen["metadata"]["ownerReferences"][0]["uid"] == "Widget one"


def test_the_uid_of_a_missing_owner_is_masked_as_such() -> None:
    seen = state(uid="u1", at="x", owner="gone")["configmaps lab/part"]
    assert seen["metadata"]["ownerReferences"][0]["uid"] == "nobody"


@pytest.mark.parametrize(("observed", "shown"), [(3, "current"), (2, "behind"), ("3", "3")])
def test_an_observed_generation_is_compared_as_current_or_behind(observed: Any, shown: str) -> None:
    widget = made("Widget", "one", "u1", status={"observedGeneration": observed})
    assert masked(widget, {})["status"] == {"observedGeneration": shown}


def test_a_declared_path_is_dropped_in_lists_too_and_nothing_beside_it() -> None:
    widget = made("Widget", "one", "u1", status={"parts": [{"run": 1, "n": 1}, {"run": 2, "n": 2}], "run": 5})
    paths = [("status", "parts", "run"), ("status", "nothing", "there")]
    assert masked(widget, {}, paths)["status"] == {"parts": [{"n": 1}, {"n": 2}], "run": 5}


@pytest.mark.parametrize("resource", [("events.k8s.io", "events"), ("coordination.k8s.io", "leases")])
def test_events_and_leases_are_not_compared(resource: tuple[str, str]) -> None:
    assert state_of({(resource, "lab", "x"): made("Event", "x", "u1")}) == {}


def test_masking_leaves_the_object_as_it_was() -> None:
    widget = made("Widget", "one", "u1", status={"since": "2030-01-01T00:00:00Z", "run": 1})
    before = repr(widget)
    masked(widget, {"u1": "Widget one"}, [("status", "run")])
    assert repr(widget) == before


@pytest.mark.parametrize(
    ("of", "parts", "left"),
    [
        (None, ("status.run",), {"n": 1}),
        (kind("example.com/v2", "Widget"), ("status.run", "status.n"), {}),
        (kind("example.com/v1", "Widget"), (lambda data: data["status"].pop("n"),), {"run": 5}),
        (kind("other.com/v1", "Widget"), ("status.run",), {"n": 1, "run": 5}),
        (kind("example.com/v1", "Gadget"), ("status.run",), {"n": 1, "run": 5}),
    ],
    ids=["of every kind", "of the kind in another version", "by a function", "of another group", "of another kind"],
)
def test_parts_that_may_differ_are_dropped_from_objects_of_their_kind_alone(
    of: Any, parts: tuple[Any, ...], left: dict[str, int]
) -> None:
    widget = made("Widget", "one", "u1", status={"run": 5, "n": 1}, apiVersion="example.com/v1")
    [seen] = state_of({(WIDGETS, "lab", "one"): widget}, [Mask(of, parts, "a test")]).values()
    assert seen["status"] == left


def test_objects_of_a_kind_that_may_differ_are_not_compared() -> None:
    widget = made("Widget", "one", "u1", apiVersion="example.com/v1")
    mask = Mask(WIDGET, (), "a test")
    assert state_of({(WIDGETS, "lab", "one"): widget}, [mask]) == {}


@pytest.mark.parametrize(
    ("declare", "words"),
    [
        (lambda lab: lab.may_differ(None, "status", why=" "), "say why"),
        (lambda lab: lab.may_stay_gone(WIDGET, why=""), "say why"),
        (lambda lab: lab.skip_plans("*", why=""), "say why"),
        (lambda lab: lab.may_differ(None, why="all"), "name a kind"),
    ],
)
def test_a_difference_is_allowed_for_a_reason_only_and_never_everywhere(declare: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        declare(Allowances())
