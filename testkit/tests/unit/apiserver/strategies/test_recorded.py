"""Replays the recorded forms of objects of built-in kinds on a real kube-apiserver against the strategies. See
tools/record/strategies.py."""

import copy
import json
import random
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from konverge_testing.apiserver import schemas
from konverge_testing.apiserver.catalog import builtin
from konverge_testing.apiserver.draws import Draws
from konverge_testing.apiserver.resources import Resource, Version
from konverge_testing.apiserver.statuses import FieldError, StatusError, invalid
from konverge_testing.apiserver.strategies import STRATEGIES, decode_errors, normalise

Data = dict[str, Any]

CASES: list[Data] = json.loads((Path(__file__).parent / "recorded.json").read_text())

_BY_SERVER = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")


@cache
def _resources() -> dict[tuple[str, str], Resource]:
    return {resource.id: resource for resource in builtin(STRATEGIES)}


def _found(case: Data) -> tuple[Resource, Version]:
    group, plural = case["resource"]
    resource = _resources()[group, plural]
    version = resource.version(case["version"])
    assert version is not None
    return resource, version


def _conformed(case: Data) -> Data:
    """Run the steps of the registry on a body, in order; the server's own metadata are taken from the recording."""
    resource, version = _found(case)
    data: Data = copy.deepcopy(case["request"])
    wrong = decode_errors(resource.kind, version.name, version.schema, data)
    if wrong is not None:
        raise wrong
    normalise(version.schema, data)
    resource.strategy.default(data)
    known = case.get("old") or case.get("stored") or {}
    for name in ("uid", "creationTimestamp"):
        if name in known.get("metadata", {}):
            data["metadata"][name] = known["metadata"][name]
    data["metadata"].setdefault("uid", "some-uid")
    if resource.namespaced:
        data["metadata"]["namespace"] = "default"
    return data


def _written(case: Data) -> Data:
    resource, _ = _found(case)
    strategy, new = resource.strategy, _conformed(case)
    old, sub = copy.deepcopy(case.get("old")), case.get("subresource", "")
    if old is None:
        strategy.prepare_create(new)
    elif sub == "status":
        strategy.prepare_status(new, old)
    else:
        strategy.prepare_update(new, old)

    errors: list[FieldError] = []
    if old is None:
        rule = getattr(strategy, "name_rule", "subdomain")
        errors += schemas.validate_metadata(new, namespaced=resource.namespaced, name_rule=rule)
    errors += strategy.validate(new, old, sub)
    if not errors and not sub and hasattr(strategy, "allocate"):
        errors += strategy.allocate(new, old, [], Draws(random.Random(1)).of("Service", new))
    if errors:
        raise invalid(resource.group, resource.kind, new["metadata"]["name"], errors)
    if strategy.generation and old is not None:
        moved = strategy.intent_changed(new, old)  # type: ignore[attr-defined]  # built-in kinds have it
        new["metadata"]["generation"] = old["metadata"]["generation"] + (moved and not sub)
    elif strategy.generation:
        new["metadata"]["generation"] = 1
    return new


_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_BY_ADMISSION = ("kubernetes.io/pvc-protection", "kubernetes.io/pv-protection")
_UNREADY = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def _without_admission(shown: Data) -> None:
    """Remove the fields that the admission plugins of a real server add to new objects."""
    kept = [name for name in shown["metadata"].pop("finalizers", []) if name not in _BY_ADMISSION]
    shown["metadata"].update({"finalizers": kept} if kept else {})
    if shown["kind"] == "Pod":
        for name in ("priority", "preemptionPolicy"):
            shown["spec"].pop(name, None)
        left = [each for each in shown["spec"].pop("tolerations", []) if each.get("key") not in _UNREADY]
        shown["spec"].update({"tolerations": left} if left else {})
        for condition in shown["status"].get("conditions", ()):
            condition.update({"lastTransitionTime": "now"} if condition.get("lastTransitionTime") else {})


def _masked(data: Data, case: Data) -> Data:
    shown = copy.deepcopy(data)
    _without_admission(shown)
    for name in _BY_SERVER:
        if name != "generation":
            shown["metadata"].pop(name, None)
    asked = case["request"].get("spec") or {}
    spec = shown.get("spec") or {}
    if case["resource"] == ["", "services"] and "old" not in case:
        for name in ("clusterIP", "clusterIPs"):
            if name in spec and name not in asked and "clusterIP" not in asked:
                spec[name] = "given"
        for port in spec.get("ports") or ():
            port.update({"nodePort": "given"} if "nodePort" in port else {})
    if "lastPhaseTransitionTime" in (shown.get("status") or {}):
        shown["status"]["lastPhaseTransitionTime"] = "now"
    return shown


def _ids(cases: list[Data]) -> list[str]:
    return [case["name"] for case in cases]


def _causes(refused: Data) -> list[tuple[str, str, str]]:
    return sorted(
        (each.get("field", ""), each["reason"], _UID.sub("some-uid", each["message"]))
        for each in refused.get("causes", ())
    )


STORED = [case for case in CASES if "stored" in case]
REFUSED = [case for case in CASES if "refused" in case]


@pytest.mark.parametrize("case", STORED, ids=_ids(STORED))
def test_an_object_is_stored_as_the_real_server_stores_it(case: Data) -> None:
    assert _masked(_written(case), case) == _masked(case["stored"], case)


@pytest.mark.parametrize("case", STORED, ids=_ids(STORED))
def test_the_warnings_are_those_of_the_real_server(case: Data) -> None:
    resource, version = _found(case)
    found = [] if case.get("subresource") else resource.strategy.warnings(_written(case), case.get("old"))
    assert [*([version.deprecated] if version.deprecated else []), *found] == case.get("warnings", [])


@pytest.mark.parametrize("case", REFUSED, ids=_ids(REFUSED))
def test_an_object_is_refused_as_the_real_server_refuses_it(case: Data) -> None:
    with pytest.raises(StatusError) as caught:
        _written(case)
    expected, body = case["refused"], caught.value.body()
    if len(expected.get("causes", ())) <= 1:
        assert _UID.sub("some-uid", caught.value.message) == _UID.sub("some-uid", expected["message"])
    assert _causes(body.get("details") or {}) == _causes(expected)
    assert caught.value.reason == expected["reason"]


@pytest.mark.parametrize("case", STORED, ids=_ids(STORED))
def test_a_stored_object_is_normal_already(case: Data) -> None:
    _, version = _found(case)
    data = copy.deepcopy(case["stored"])
    normalise(version.schema, data)
    assert data == case["stored"]
