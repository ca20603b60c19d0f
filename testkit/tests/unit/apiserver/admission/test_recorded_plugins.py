"""Namespaces, pods and evictions as a real server treated them (see `tools/record/admission/recorder.py`)."""

import json
import random
from collections.abc import Awaitable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from stored_objects import Stored

from konverge_testing.apiserver.admission import Admission, AdmissionCall, check_namespace, evict
from konverge_testing.apiserver.admission.defaults import ServiceAccounts
from konverge_testing.apiserver.auth import attributes_of
from konverge_testing.apiserver.draws import Draws
from konverge_testing.apiserver.nodes import Node
from konverge_testing.apiserver.requests import Call
from konverge_testing.apiserver.resources import Resource, Version
from konverge_testing.apiserver.statuses import StatusError

Data = dict[str, Any]

RECORDED: Data = json.loads(Path(__file__).with_name("recorded.json").read_text())
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _namespace(name: str, phase: str = "Active") -> Data:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}, "status": {"phase": phase}}


def _resource(group: str, plural: str, kind: str) -> Resource:
    return Resource(group=group, plural=plural, kind=kind, versions=(Version("v1", Node({})),))


@pytest.mark.parametrize("case", RECORDED["namespaces"], ids=lambda case: f"{case['method']} {case['path']}")
def test_a_namespace_admits_the_objects_that_a_real_one_does(case: Data) -> None:
    wanted = attributes_of(Call.of(case["method"], case["path"]))
    body = case["body"]
    call = AdmissionCall(
        {"POST": "CREATE", "PUT": "UPDATE", "DELETE": "DELETE"}[case["method"]],  # type: ignore[arg-type]  # mypy sees strings
        _resource(wanted.group, wanted.resource, body["kind"] if body else "Namespace"),
        "v1",
        namespace=wanted.namespace,
        name=wanted.name or (body or {}).get("metadata", {}).get("name", ""),
        object=body,
    )
    objects = Stored([_namespace("ending", "Terminating")])
    assert _unnamed(_refused(call, objects)) == _unnamed(case["answer"])


def _refused(call: AdmissionCall, objects: Stored) -> Data | None:
    try:
        check_namespace(call, objects)
    except StatusError as error:
        return error.body()
    return None


def _unnamed(status: Data | None) -> Any:
    """Hide the name that a real server had generated before it rejected the object."""
    text = json.dumps(status)
    start = text.find("made-")
    return json.loads(text) if start < 0 else json.loads(text.replace(text[start : start + 10], "made-xxxxx"))


def _condition_times(conditions: list[Data] | None) -> list[Data]:
    return [{**each, "lastTransitionTime": "", "observedGeneration": 0} for each in conditions or ()]


def _shown(status: Data | None) -> Data:
    """Hide the times of a budget's status."""
    status = dict(status or {})
    status["conditions"] = _condition_times(status.get("conditions"))
    if "disruptedPods" in status:
        status["disruptedPods"] = sorted(status["disruptedPods"])
    return status


@pytest.mark.parametrize("case", RECORDED["evictions"], ids=lambda case: case["pod"]["metadata"]["name"])
def test_a_pod_is_evicted_or_kept_as_by_a_real_server(case: Data) -> None:
    verdict = evict(case["pod"], case["before"], NOW)
    if verdict.refused is not None:
        assert verdict.refused.body() == case["answer"]
    else:
        assert case["status"] == 201, case["answer"]
    after = {budget["metadata"]["name"]: budget.get("status") for budget in case["before"]}
    if verdict.budget:
        after[verdict.budget] = verdict.status
    assert {name: _shown(status) for name, status in after.items()} == {
        name: _shown(status) for name, status in case["after"].items()
    }


def _pod_admission(accounts: ServiceAccounts = "full") -> Admission:
    priority = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 1000,
    }
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "n"}}
    objects = Stored([_namespace("n"), account])
    objects.put({**priority, "preemptionPolicy": "PreemptLowerPriority"}, "priorityclasses")
    return Admission(objects, draws=Draws(random.Random(1)), service_accounts=accounts, clock=lambda: NOW)


async def _outcome(action: Awaitable[Any]) -> tuple[Any, Data | None]:
    """Return the result of an action, or the status of its rejection."""
    try:
        return await action, None
    except StatusError as error:
        return None, error.body()


_FILLED = ("tolerations", "priority", "preemptionPolicy", "priorityClassName", "serviceAccountName", "serviceAccount")


@pytest.mark.parametrize("case", RECORDED["defaults"], ids=lambda case: json.dumps(case["body"]["spec"]))
async def test_a_new_pod_gets_what_a_real_server_gives_it(case: Data) -> None:
    body = json.loads(json.dumps(case["body"]).replace("evictions", "n"))
    call = AdmissionCall("CREATE", _resource("", "pods", "Pod"), "v1", namespace="n", name="a", object=body)
    wanted = json.loads(json.dumps(case["answer"]).replace("evictions", "n"))
    pod, refused = await _outcome(_pod_admission().mutate(call))
    if refused is not None or wanted["kind"] == "Status":
        assert refused == wanted
        return
    spec, real = pod["spec"], wanted["spec"]
    assert {key: spec.get(key) for key in _FILLED} == {key: real.get(key) for key in _FILLED}
    assert _volumes(spec) == _volumes(real)
    assert "tolerations" not in body["spec"] or body["spec"]["tolerations"] == case["body"]["spec"]["tolerations"]


def _volumes(spec: Data) -> str:
    mounts = [container.get("volumeMounts") for container in spec["containers"]]
    text = json.dumps([mounts, spec.get("volumes")], sort_keys=True)
    name = (spec.get("volumes") or [{"name": "none"}])[0]["name"]
    return text.replace(name, "NAME")


async def test_without_the_account_plugin_a_pod_names_no_account() -> None:
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": []}}
    call = AdmissionCall("CREATE", _resource("", "pods", "Pod"), "v1", namespace="n", name="a", object=body)
    assert "serviceAccountName" not in (await _pod_admission("off").mutate(call))["spec"]
    assert (await _pod_admission("name").mutate(call))["spec"]["serviceAccountName"] == "default"
