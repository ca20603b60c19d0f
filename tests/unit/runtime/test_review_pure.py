"""Pure decisions of the runtime: ties, claims, the barrier outside of a selection, events of foreign writes."""

from types import SimpleNamespace
from typing import Any

import pytest

from konverge.client import Write, WriteState
from konverge.informers import Selection
from konverge.keys import Key
from konverge.kinds import kind
from konverge.metrics import Metrics
from konverge.objects import Metadata
from konverge.outcome import Done
from konverge.rbac import plural_of
from konverge.runtime.apply.owners import Claims, owner_of
from konverge.runtime.consistency.own_writes import View, look, only_own_changes
from konverge.runtime.controller.aftermath import requeue_decision
from konverge.runtime.controller.metrics import ControllerMetrics
from konverge.words import Why

BACKUP = kind("example.com/v2", "Backup")
NODE = kind("v1", "Node")
CONFIG_MAP = kind("v1", "ConfigMap")


@pytest.mark.parametrize(
    ("what", "annotation", "path"),
    [
        (BACKUP, "example.com/v1/Backup/web/nightly", "web/nightly"),
        (BACKUP, "example.com/v2/Backup/web/nightly", "web/nightly"),
        (NODE, "v1/Node/n1", "n1"),
        (CONFIG_MAP, "v1/ConfigMap/web/a", "web/a"),
        (BACKUP, "other.example.com/v2/Backup/web/nightly", None),
        (BACKUP, "example.com/v2/Restore/web/nightly", None),
        (CONFIG_MAP, "example.com/v1/ConfigMap/web/a", None),
        (BACKUP, "example.com/v2/Backup", None),
        (BACKUP, "", None),
    ],
)
def test_a_back_reference_outlives_the_version_of_its_owner(what: Any, annotation: str, path: str | None) -> None:
    found = owner_of(what, Metadata(annotations={"konverge.dev/owner": annotation}))
    assert (None if found is None else found.path) == path


def child(name: str) -> Key:
    return Key("", CONFIG_MAP, "web", name)


def test_child_is_claimed_until_its_owner_or_controller_disappears() -> None:
    claims, owner = Claims(), Key("", BACKUP, "web", "nightly")
    claims.take(child("a"), "first", owner)
    assert (claims.other(child("a"), "second"), claims.other(child("a"), "first")) == ("first", "")
    claims.forget("first", owner)
    assert claims.other(child("a"), "second") == ""
    claims.take(child("a"), "first", owner)
    claims.take(child("b"), "second", owner)
    claims.release("first")
    assert (claims.other(child("a"), "third"), claims.other(child("b"), "third")) == ("", "second")
    claims.release("second")
    assert (len(claims), claims._owners) == (0, {})


def test_claims_are_bounded() -> None:
    claims = Claims(limit=3)
    for number in range(10):
        claims.take(child(str(number)), "first", Key("", BACKUP, "web", str(number)))
    assert (len(claims), len(claims._owners)) == (3, 3)
    assert claims.other(child("9"), "second") == "first"
    assert claims.other(child("0"), "second") == ""


@pytest.mark.parametrize(
    ("selection", "cached", "view"),
    [
        (Selection(CONFIG_MAP), None, View.BEHIND),
        (Selection(CONFIG_MAP, namespace="web"), None, View.BEHIND),
        (Selection(CONFIG_MAP, namespace="other"), None, View.UNWATCHED),
        (Selection(CONFIG_MAP, labels="a=b"), None, View.UNCERTAIN),
        (Selection(CONFIG_MAP, labels="a=b"), object(), View.BEHIND),
    ],
)
def test_the_barrier_knows_what_a_cache_will_never_hold(selection: Selection, cached: Any, view: View) -> None:
    store = SimpleNamespace(synced=True, shows=lambda *_: False, get=lambda *_: cached)
    informer: Any = SimpleNamespace(store=store, selection=selection)
    assert look(Write(CONFIG_MAP, "web", "a", WriteState.DONE, "7", "uid"), informer) is view


def condition(type_: str, status: str) -> dict[str, str]:
    return {"type": type_, "status": status}


@pytest.mark.parametrize(
    ("before", "after", "intent", "holds"),
    [
        ({}, {"parts": 1}, {"parts": 1}, True),
        ({"note": "x"}, {"note": "x", "parts": 1}, {"parts": 1}, True),
        ({"note": "x"}, {"note": "y", "parts": 1}, {"parts": 1}, False),
        ({}, {"note": "y", "parts": 1}, {"parts": 1}, False),
        ({"note": "x"}, {"parts": 1}, {"parts": 1}, False),
        ({"a": {"b": 1, "c": 1}}, {"a": {"b": 2, "c": 1}}, {"a": {"b": 2}}, True),
        ({"a": {"b": 1, "c": 1}}, {"a": {"b": 2, "c": 2}}, {"a": {"b": 2}}, False),
        (
            {"conditions": [condition("Theirs", "True")]},
            {"conditions": [condition("Theirs", "True"), condition("Ready", "True")]},
            {"conditions": [condition("Ready", "True")]},
            True,
        ),
        (
            {"conditions": [condition("Theirs", "True")]},
            {"conditions": [condition("Theirs", "False"), condition("Ready", "True")]},
            {"conditions": [condition("Ready", "True")]},
            False,
        ),
        ({"list": [1]}, {"list": [1, 2]}, {}, False),
        ({"list": [1]}, {"list": [1, 2]}, {"list": [1, 2]}, True),
        ({"parts": 1}, None, None, False),
        ({}, None, None, False),
        ({}, {"conditions": [condition("Ready", "True")]}, {"conditions": [condition("Ready", "True")]}, True),
        ({}, {"conditions": [condition("Ready", "True")], "x": 1}, {"conditions": [condition("Ready", "True")]}, False),
        ({"conditions": "mangled"}, {"conditions": [condition("Ready", "True")]}, {"conditions": []}, False),
    ],
)
def test_a_change_by_others_is_distinguished_from_our_own_status(
    before: Any, after: Any, intent: Any, holds: bool
) -> None:
    assert only_own_changes(before, after, intent) is holds


@pytest.mark.parametrize(
    ("name", "plural"),
    [("Endpoints", "endpoints"), ("Ingress", "ingresses"), ("NetworkPolicy", "networkpolicies"), ("Job", "jobs")],
)
def test_plurals_are_guessed_as_kubernetes_does(name: str, plural: str) -> None:
    assert plural_of(kind("v1", name)) == plural


def test_every_cause_of_a_reconcile_is_counted_under_its_own_words() -> None:
    words = {word for name, word in vars(Why).items() if name.isupper()}
    metrics = Metrics()
    counted = ControllerMetrics(metrics, "backup", workers=1)
    for word in words:
        decision = requeue_decision(Done())
        counted.reconciled(decision, 0.1, (f"{word}: Secret web/shop",), invalid=False)
    [family] = metrics.reasons.collect()
    assert {one.labels["reason"]: one.value for one in family.samples if one.name.endswith("_total")} == dict.fromkeys(
        words, 1
    )
