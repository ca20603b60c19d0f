"""The webhook of Operations rejects early what the reconciler would reject, and admits everything that may work one day."""

from typing import Any

import pytest
from apps.operations import Operations, shows

from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.crds.ops_v1alpha1 import Operation
from konverge.errors import Invalid
from konverge.objects import Object
from konverge.reconcilers import apps
from konverge.reconcilers.apps.operations.admission import validating_webhook
from konverge.reconcilers.apps.operations.engines.registry import ROWS
from konverge.reconcilers.apps.operations.kinds import INSTANCE
from konverge.reconcilers.apps.operations.settings import OperationSettings
from konverge_testing import Lab, admit, install_crds
from konverge_testing.argo import argo_crds
from konverge_testing.velero import velero_crds
from konverge_testing.volsync import volsync_crds


def nested(levels: int) -> dict[str, Any]:
    """Return nested maps with so many levels."""
    found: dict[str, Any] = {}
    for _ in range(levels - 1):
        found = {"a": found}
    return found


WEBHOOK = validating_webhook(OperationSettings(), ROWS)
REPOSITORY = {"repository": {"secretName": "repo"}}
RESTIC = {"pvc": "data", **REPOSITORY}

INVALID: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "no such engine for the type": ("Backup", "job", {}, "no engine job performs a Backup here"),
    "a job without an image": ("RunCommand", "job", {}, "parameters.image is missing or not a text"),
    "a job with an unknown parameter": ("RunCommand", "job", {"image": "a", "imagee": "b"}, "parameters.imagee is not known"),
    "a job with a bad environment": ("RunCommand", "job", {"image": "a", "env": 3}, "parameters.env is neither a map"),
    "a job with a bad limit": ("Runbook", "job", {"image": "a", "backoffLimit": -1}, "parameters.backoffLimit is not a whole number"),
    "a hook without a name": ("Migration", "helmHookJob", {}, "parameters.hookName is missing or not a text"),
    "two names of a deadline": (
        "Migration",
        "helmHookJob",
        {"hookName": "a", "timeoutSeconds": 1, "activeDeadlineSeconds": 1},
        "mean the same; write one of them",
    ),
    "an upgrade to nothing": ("Upgrade", "helm", {}, "parameters.targetVersion or parameters.valuesPatch is needed"),
    "an upgrade to a range": ("Upgrade", "helm", {"targetVersion": "1.x"}, "is not one exact version"),
    "an unknown parameter of velero": ("Backup", "velero", {"tll": "1h"}, "parameters.tll: unknown; the engine knows"),
    "a retention that is no duration": ("Backup", "velero", {"retention": "soon"}, "parameters.retention: write a duration"),
    "a restore of nothing": ("Restore", "velero", {}, "parameters.backupName: required"),
    "a restore into another namespace": (
        "Restore",
        "velero",
        {"backupName": "a", "namespaceMapping": {"web": "other"}},
        "parameters.namespaceMapping: an Operation restores the namespace",
    ),
    "a restore of Operations": (
        "Restore",
        "velero",
        {"backupName": "a", "includedResources": ["operations.ops.vworkspace.io"]},
        "cannot be restored",
    ),
    "a workflow without a template": ("Runbook", "workflow", {}, "workflowTemplate is required"),
    "a template of an impossible name": ("Runbook", "workflow", {"template": "A b"}, "parameters.template"),
    "parameters of 101 levels": ("Upgrade", "helm", {"valuesPatch": nested(100)}, "spec.parameters has more than 100 levels"),
    "a copy of no volume": ("Backup", "volsync", REPOSITORY, "parameters.pvc: required"),
    "a scheduled copy": ("Backup", "volsync", {**RESTIC, "schedule": "@daily"}, "schedule: an Operation is one run"),
    "a restore that retains": ("Restore", "volsync", {**RESTIC, "retain": {"daily": 1}}, "parameters.retain: only a source has it"),
}  # fmt: skip
VALID: dict[str, tuple[str, str, dict[str, Any]]] = {
    "a command": ("RunCommand", "job", {"image": "a", "exclusive": True}),
    "a hook that may not exist": ("Migration", "helmHookJob", {"hookName": "a"}),
    "an upgrade of a target that may be a placeholder": ("Upgrade", "helm", {"targetVersion": "1.2.3"}),
    "a backup into a location that may not exist": ("Backup", "velero", {"storageLocation": "s3", "retention": "30d"}),
    "a restore of a backup that may not exist": ("Restore", "velero", {"backupName": "a"}),
    "a template that may not exist": ("Runbook", "workflow", {"workflowTemplate": "a"}),
    "a copy of a volume that may not exist": ("Backup", "volsync", RESTIC),
}


def operation(type_: str, engine: str, parameters: Any, name: str = "run", **more: Any) -> Object:
    target = {"apiVersion": "apps.vworkspace.io/v1alpha1", "kind": "ApplicationInstance", "name": "shop"}
    spec = {"targetRef": target, "type": type_, "engine": engine, "parameters": parameters, **more}
    return Object(Operation.decode({"metadata": {"name": name, "namespace": "web"}, "spec": spec}).to_dict())


@pytest.mark.parametrize("case", INVALID, ids=str)
async def test_an_operation_that_can_never_work_is_refused(case: str) -> None:
    type_, engine, parameters, said = INVALID[case]
    answer = await admit(WEBHOOK, operation(type_, engine, parameters))
    assert not answer.allowed
    assert said in answer.message


@pytest.mark.parametrize("case", VALID, ids=str)
async def test_an_operation_that_waits_for_another_object_is_admitted(case: str) -> None:
    assert (await admit(WEBHOOK, operation(*VALID[case]))).allowed


async def test_the_reconciler_says_the_same_of_each_and_accepts_the_rest(lab: Lab) -> None:
    await install_crds(lab.client, [*velero_crds(), *argo_crds(), *volsync_crds()])
    here = await Operations(lab).start(OperationSettings(require_capability=False))
    wrong = {f"wrong-{number}": case[:3] for number, case in enumerate(INVALID.values())}
    right = {f"right-{number}": case for number, case in enumerate(VALID.values())}
    for name, (type_, engine, parameters) in {**wrong, **right}.items():
        await here.create(name, type_, engine, parameters=parameters)
    for name, (type_, engine, parameters) in wrong.items():
        found = await here.until(name, shows("Failed", "True", "PreconditionFailed"))
        accepted = found.find_condition("Accepted")
        assert accepted is not None
        assert accepted.status == "False"
        given = operation(type_, engine, parameters, name)
        given.data["metadata"]["namespace"] = lab.namespace
        assert accepted.message == (await admit(WEBHOOK, given)).message
    for name in right:
        found = await here.until(name, shows("Blocked", "True", "TargetNotReady"))
        assert not found.finished


@pytest.mark.parametrize(
    ("before", "after", "allowed"),
    [
        pytest.param({"image": "a"}, {"image": "b"}, True, id="other parameters"),
        pytest.param({"image": "a"}, {"imagee": "b"}, False, id="parameters that can never work"),
        pytest.param({"imagee": "a"}, {"imagee": "a"}, True, id="wrong ones that were stored earlier"),
    ],
)
async def test_an_update_is_checked_if_it_changes_the_parameters(before: Any, after: Any, allowed: bool) -> None:
    old = operation("RunCommand", "job", before)
    answer = await admit(WEBHOOK, operation("RunCommand", "job", after, cancel=True), old=old)
    assert answer.allowed is allowed


async def test_an_approval_of_another_digest_is_admitted_and_waits() -> None:
    old = operation("RunCommand", "job", {"image": "a"})
    claim: dict[str, Any] = {"approvals": {"required": True, "claim": '{"digest": "sha256:other"}'}}
    assert (await admit(WEBHOOK, operation("RunCommand", "job", {"image": "a"}, **claim), old=old)).allowed


def target(mode: str = "managed", inline: dict[str, Any] | None = None) -> Object:
    """Return the target of an Upgrade, as in the webhook's cache."""
    chart = {"sourceType": "helm", "url": "https://charts.example.com", "name": "shop", "version": "1.0.0"}
    managed = {
        "chart": chart,
        "release": {"name": "shop", "namespace": "web"},
        "values": {"source": "inline", "inline": inline or {}},
    }
    spec = {"mode": mode, "appRef": {"catalogId": "shop"}, **(managed if mode == "managed" else {})}
    return INSTANCE.new("shop", "web", spec=spec)


PATCH = {"db": {"password": "hunter2"}}
REFUSED_BEFORE = {"token": "hunter2"}


@pytest.mark.parametrize(
    ("stored", "parameters", "word"),
    [
        pytest.param(target(), {"valuesPatch": PATCH}, "spec.values.inline.db.password", id="a secret"),
        pytest.param(target(), {"valuesPatch": {"db": {"passwordSecretRef": "a"}}}, "", id="a reference"),
        pytest.param(target(inline=PATCH), {"valuesPatch": {"db": None}}, "", id="a secret is removed"),
        pytest.param(
            target(inline=REFUSED_BEFORE), {"targetVersion": "1.1.0"}, "", id="a secret that was there before"
        ),
        pytest.param(target(inline=REFUSED_BEFORE), {"valuesPatch": PATCH}, "inline.db.password", id="another secret"),
        pytest.param(target(), {"targetVersion": "6.6.6"}, "version 6.6.6 of chart shop is forbidden", id="a version"),
        pytest.param(target("placeholder"), {"targetVersion": "1.1.0"}, "is a placeholder", id="a placeholder"),
        pytest.param(None, {"valuesPatch": PATCH}, "", id="no target yet"),
    ],
)
async def test_the_edit_of_a_known_target_is_checked(stored: Object | None, parameters: Any, word: str) -> None:
    instances = apps.Settings.model_validate({"forbidden_versions": [{"chart": "shop", "versions": ">=6.0.0"}]})
    webhook = validating_webhook(OperationSettings(), ROWS, instances)
    cache = () if stored is None else (stored,)
    answer = await admit(webhook, operation("Upgrade", "helm", parameters), cache=cache)
    assert answer.allowed is (not word)
    assert word in answer.message
    assert "hunter2" not in answer.message


async def test_an_engine_that_is_switched_off_is_refused() -> None:
    only = validating_webhook(OperationSettings(), tuple(row for row in ROWS if row.engine.name == "job"))
    assert (await admit(only, operation("RunCommand", "job", {"image": "a"}))).allowed
    answer = await admit(only, operation("Backup", "velero", {}))
    assert answer.message.startswith("no engine velero performs a Backup here; there are: Migration by job")


async def test_the_api_server_refuses_at_admission_and_admits_a_conflict(lab: Lab) -> None:
    settings = apps.Settings(check_at_admission=True)
    await lab.start(lambda manager: apps.install(manager, settings), name="konverge")
    here = Operations(lab)
    with pytest.raises(Invalid, match=r"parameters\.image is missing"):
        await here.create("wrong", parameters={})
    assert await lab.find(Operation, "wrong") is None
    instance = {"mode": "placeholder", "appRef": {"catalogId": "shop"}}
    offers = {"ops.vworkspace.io/runcommand": "job"}
    await lab.create(
        ApplicationInstance.decode({"metadata": {"name": "shop", "annotations": offers}, "spec": instance})
    )
    await here.create_account()
    alone = {"image": "a", "exclusive": True}
    await here.create("first", parameters=alone)
    await here.job_of("first")
    await here.create("second", parameters=alone)
    await here.until("second", shows("Blocked", "True", "ConflictingOperation"))
    with pytest.raises(Invalid, match="parameters cannot be changed"):
        await lab.patch(Operation, "first", {"spec": {"parameters": {"image": "b"}}})
