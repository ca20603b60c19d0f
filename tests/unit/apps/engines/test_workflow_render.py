"""Workflows as the engine renders them, its rejections, and its waits."""

from datetime import timedelta
from typing import Any

import pytest
from apps.engine_replay import request_of
from recordings import Json

from konverge.reconcilers.apps.operations.engines.engine import (
    EngineBlocked,
    EngineRequest,
    ObjectRef,
    Refused,
    Rendered,
)
from konverge.reconcilers.apps.operations.engines.workflow import (
    CLUSTER_WORKFLOW_TEMPLATE,
    WORKFLOW_TEMPLATE,
    WorkflowEngine,
)
from konverge.reconcilers.apps.operations.settings import OperationSettings

ENGINE = WorkflowEngine()
TEMPLATE = ObjectRef(WORKFLOW_TEMPLATE, "team", "runbook")


def rendered(request: EngineRequest) -> Json:
    found = ENGINE.render(request)
    assert isinstance(found, Rendered), found
    return found.object.to_dict()


def test_a_workflow_refers_to_its_template_in_the_operations_namespace() -> None:
    request = request_of("Runbook", {TEMPLATE: {"spec": {}}}, workflowTemplate="runbook")
    made = rendered(request)
    assert (made["kind"], made["metadata"]["namespace"]) == ("Workflow", "team")
    assert made["spec"] == {
        "workflowTemplateRef": {"name": "runbook"},
        "serviceAccountName": "vworkspace-operation-runner",
        "ttlStrategy": {"secondsAfterCompletion": 86400},
    }
    assert ENGINE.needs(request) == (TEMPLATE,)


def test_both_names_of_the_template_make_the_same_workflow() -> None:
    known: dict[ObjectRef, Json] = {TEMPLATE: {"spec": {}}}
    named: list[Json] = [{"workflowTemplate": "runbook"}, {"template": "runbook"}]
    one, two = (request_of("Runbook", known, **parameters) for parameters in named)
    assert rendered(one) == rendered(two)
    assert rendered(one)["spec"]["workflowTemplateRef"] == {"name": "runbook"}


def test_parameters_become_texts_sorted_by_name() -> None:
    made = rendered(
        request_of(
            "Runbook",
            {TEMPLATE: {"spec": {}}},
            template="runbook",
            workflowTemplateParameters={"b": 1, "a": True, "c": {"x": [1]}, "d": "text", "e": None},
            targetChartVersion="1.2.0",
            timeoutSeconds=60,
        )
    )
    assert made["spec"]["activeDeadlineSeconds"] == 60
    assert made["spec"]["arguments"]["parameters"] == [
        {"name": "a", "value": "true"},
        {"name": "b", "value": "1"},
        {"name": "c", "value": '{"x":[1]}'},
        {"name": "d", "value": "text"},
        {"name": "e", "value": "null"},
        {"name": "targetChartVersion", "value": "1.2.0"},
    ]


def test_a_cluster_template_is_asked_for_by_name() -> None:
    ref = ObjectRef(CLUSTER_WORKFLOW_TEMPLATE, "", "runbook")
    request = request_of("Runbook", {ref: {"spec": {}}}, workflowTemplate="runbook", clusterScope=True)
    assert ENGINE.needs(request) == (ref,)
    assert rendered(request)["spec"]["workflowTemplateRef"] == {"name": "runbook", "clusterScope": True}


def test_a_missing_template_is_waited_for_since_argo_would_end_the_workflow() -> None:
    found = ENGINE.render(request_of("Runbook", {TEMPLATE: None}, workflowTemplate="runbook"))
    assert found == EngineBlocked("DependencyMissing", "WorkflowTemplate runbook does not exist; create it")


@pytest.mark.parametrize(
    ("own", "asked", "account"),
    [
        ("", None, "vworkspace-operation-runner"),
        ("backup", None, "backup"),
        ("backup", "backup", "backup"),
        ("backup", "vworkspace-operation-runner", "vworkspace-operation-runner"),
        ("", "admin", None),
        ("backup", "admin", None),
    ],
)
def test_an_operation_gives_its_pods_no_rights_that_the_template_does_not(
    own: str, asked: str | None, account: str | None
) -> None:
    template = {"spec": {"serviceAccountName": own} if own else {}}
    named: Json = {"serviceAccountName": asked} if asked else {}
    request = request_of("Runbook", {TEMPLATE: template}, workflowTemplate="runbook", **named)
    if account is None:
        assert isinstance(ENGINE.render(request), Refused)
    else:
        assert rendered(request)["spec"]["serviceAccountName"] == account


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "workflowTemplate is required"),
        ({"workflowTemplate": "a", "template": "b"}, "name the same thing"),
        ({"workflowTemplate": "\x00"}, "parameters.workflowTemplate"),
        ({"template": "a\n"}, "parameters.template"),
        ({"template": "Runbook"}, "parameters.template"),
        ({"workflowTemplate": "a", "timeoutSeconds": 0}, "parameters.timeoutSeconds"),
        ({"workflowTemplate": "a", "cancelStrategy": "Kill"}, "parameters.cancelStrategy"),
        ({"workflowTemplate": "a", "workflowTemplateParameters": ["x"]}, "parameters.workflowTemplateParameters"),
        ({"workflowTemplate": "a", "entrypoint": "main"}, "parameters.entrypoint: unknown"),
    ],
)
def test_wrong_parameters_of_a_workflow_are_refused(parameters: Any, message: str) -> None:
    found = ENGINE.render(request_of("Runbook", **parameters))
    assert isinstance(found, Refused)
    assert message in found.message
    assert found.message.isprintable()


def test_a_workflow_is_kept_as_long_as_the_settings_say() -> None:
    settings = OperationSettings(job_ttl=timedelta(hours=2))
    made = rendered(request_of("Runbook", {TEMPLATE: {"spec": {}}}, settings=settings, workflowTemplate="runbook"))
    assert made["spec"]["ttlStrategy"] == {"secondsAfterCompletion": 7200}


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Succeeded", "outputs": "x"},
        {"phase": "Succeeded", "outputs": {"parameters": "x"}},
        {"phase": "Succeeded", "outputs": {"parameters": ["x", {"name": ["a" * 5000], "value": {}}, {}]}},
        {
            "phase": "Running",
            "nodes": {"a": "x", "b": {"type": "Suspend", "phase": "Running"}},
            "storedTemplates": {"a": "x"},
        },
        {
            "phase": "Running",
            "nodes": {"b": {"type": "Suspend", "phase": "Running"}},
            "storedTemplates": {"a": {"suspend": 1}},
        },
    ],
    ids=str,
)
def test_a_status_of_any_shape_is_read(status: Json) -> None:
    request = request_of("Runbook", workflowTemplate="runbook")
    child = {"metadata": {"name": "w", "namespace": "team"}, "spec": {}, "status": status}
    now = request.created + timedelta(minutes=5)
    seen = ENGINE.observe(request, child, asked_to_cancel=False, started=request.created, now=now)
    assert seen.state.value == status["phase"]
    assert all(len(name) <= 1024 for name in seen.outputs)
