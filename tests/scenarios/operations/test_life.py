"""Preconditions, cancelling, deadlines, loss and retention of one Operation."""

import asyncio
import hashlib
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from apps.hook_release import HOOKS, SECRET, deploy, record
from apps.lab import EVENT
from apps.operations import (
    FREE,
    JOB,
    JOBS_FOR_ALL,
    Operations,
    completed,
    has_object,
    phase,
    shows,
    suspended,
)

from konverge.clock import wall_clock
from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.crds.ops_v1alpha1 import CANCEL, Operation
from konverge.errors import Invalid
from konverge.reconcilers.apps.operations.engines.registry import ROWS
from konverge.reconcilers.apps.operations.settings import OperationSettings
from konverge.reconcilers.apps.operations.waiting.approval import claim_for, spec_digest
from konverge_testing.apiserver.faults.rules import Match, Refuse, Rule
from konverge_testing.loop import CLOCK_ERROR

RESTORES = FREE.model_copy(update={"approval_types": frozenset({"Restore"})})


async def cancel(ops: Operations, name: str = "run") -> None:
    await ops.lab.patch(Operation, name, {"spec": {"cancel": True}})


async def stopped(ops: Operations, name: str = "run") -> None:
    """Wait until the Job was suspended, and let it end its pods."""
    job = await ops.job_of(name)
    await ops.lab.until(JOB, job.name, lambda found: found.spec.get("suspend") is True)
    await ops.write_job(job, suspended(terminating=1))
    await ops.lab.settled()
    assert (await ops.get(name)).status.phase == "Running"
    await ops.write_job(job, suspended())


# --- before the start ------------------------------------------------------------------------------------------------------------


async def test_an_operation_waits_for_its_target_and_starts_when_it_comes(ops: Operations) -> None:
    await ops.start()
    await ops.create()
    await ops.until("run", phase("Pending"), shows("Accepted", "False", "TargetNotFound"))
    await ops.target()
    await ops.job_of()


@pytest.mark.parametrize("type_", ["Restore", "Upgrade"])
@pytest.mark.parametrize("end", ["Ready", "failed"])
async def test_a_repair_waits_while_its_target_is_in_transition(ops: Operations, type_: str, end: str) -> None:
    await ops.start(rows=JOBS_FOR_ALL)
    await ops.target(ready=False, reason="Upgrading")
    await ops.create("run", type_)
    found = await ops.until("run", shows("Blocked", "True", "TargetNotReady"))
    assert "ApplicationInstance shop has Ready=False/Upgrading" in found.condition("Blocked").message
    assert "as soon as it is Ready or has failed" in found.condition("Blocked").message
    await ops.ready(ready=end == "Ready", reason="HelmReleaseReady" if end == "Ready" else "HelmReleaseFailed")
    await ops.job_of()


async def test_a_migration_waits_until_its_target_is_ready(ops: Operations) -> None:
    await ops.start(rows=JOBS_FOR_ALL)
    await ops.target(ready=False, reason="HelmReleaseFailed")
    await ops.create("run", "Migration")
    found = await ops.until("run", shows("Blocked", "True", "TargetNotReady"))
    assert "has Ready=False/HelmReleaseFailed; mend it" in found.condition("Blocked").message
    await ops.ready()
    await ops.job_of()


@pytest.mark.parametrize(
    "blocked_by", ["no target", "no Ready", "a rollout", "a failure", "no capability", "a deletion"]
)
async def test_the_digest_to_approve_is_shown_whatever_else_blocks(ops: Operations, blocked_by: str) -> None:
    await ops.start(OperationSettings(approval_types=frozenset({"Restore", "Migration"})), rows=JOBS_FOR_ALL)
    if blocked_by == "a deletion":
        await ops.target()
        await ops.lab.patch(ApplicationInstance, "shop", {"metadata": {"finalizers": ["example.com/held"]}})
        await ops.lab.delete(ApplicationInstance, "shop")
    elif blocked_by == "no capability":
        await ops.target(offers={"backup": "velero"})
    elif blocked_by == "no Ready":
        await ops.target(ready=None)
    elif blocked_by != "no target":
        await ops.target(ready=False, reason="Upgrading" if blocked_by == "a rollout" else "HelmReleaseFailed")
    made = await ops.create("run", "Migration" if blocked_by == "a failure" else "Restore")
    found = await ops.until("run", shows("Blocked", "True", "TargetNotReady"))
    assert spec_digest(made) in found.condition("Blocked").message
    assert "spec.approvals.claim" in found.condition("Blocked").message


async def test_target_without_the_engine_is_named_with_the_annotation_to_write(ops: Operations) -> None:
    await ops.start()
    await ops.target(offers={"backup": "velero"})
    await ops.create()
    found = await ops.until("run", shows("Accepted", "False", "CapabilityMissing"))
    assert "ops.vworkspace.io/runcommand=job" in found.condition("Accepted").message


async def test_unknown_engine_fails_the_operation_and_lists_the_known_engines(ops: Operations) -> None:
    await ops.start()
    await ops.target()
    await ops.create("run", "Backup", "job")
    found = await ops.until("run", phase("Failed"), shows("Accepted", "False", "CapabilityMissing"))
    assert "RunCommand by job" in found.condition("Accepted").message
    assert found.condition("Failed").reason == "PreconditionFailed"


@pytest.mark.parametrize(
    ("parameters", "word"),
    [
        ({}, "parameters.image"),
        ({"image": "busybox", "comand": ["true"]}, "parameters.comand"),
        ({"image": "busybox", "command": "true"}, "parameters.command"),
        ({"image": "busybox", "activeDeadlineSeconds": 0}, "parameters.activeDeadlineSeconds"),
        ({"image": "busybox", "activeDeadlineSeconds": 5, "timeoutSeconds": 5}, "mean the same"),
        ({"image": "busybox", "env": [{"value": "hunter2"}]}, "parameters.env"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_parameters_that_can_never_work_fail_before_anything_is_made(
    ops: Operations, parameters: dict[str, Any], word: str
) -> None:
    await ops.start()
    await ops.target()
    await ops.create(parameters=parameters)
    found = await ops.until("run", phase("Failed"), shows("Accepted", "False", "ValidationFailed"))
    message = found.condition("Failed").message
    assert word in message
    assert "hunter2" not in message
    assert list(await ops.lab.client.list(JOB, ops.lab.namespace)) == []


async def test_an_approval_starts_the_operation_that_it_was_given_for(ops: Operations) -> None:
    await ops.start(RESTORES, rows=JOBS_FOR_ALL, cluster_id="east")
    await ops.target()
    made = await ops.create("run", "Restore")
    await ops.until("run", phase("Pending"), shows("Blocked", "True", "AwaitingApproval"))
    claim = claim_for(made, cluster="east", expires=wall_clock() + timedelta(hours=1))
    await ops.lab.patch(Operation, "run", {"spec": {"approvals": {"claim": claim}}})
    await ops.job_of()


@pytest.mark.parametrize("wrong", ["cluster", "namespace", "name", "digest", "expires", "text"])
async def test_an_approval_of_anything_else_is_none(ops: Operations, wrong: str) -> None:
    await ops.start(RESTORES, rows=JOBS_FOR_ALL, cluster_id="east")
    await ops.target()
    made = await ops.create("run", "Restore")
    other = await ops.create("other", "Restore", parameters={"image": "evil"})
    later = wall_clock() + timedelta(hours=1)
    claims = {
        "cluster": claim_for(made, cluster="west", expires=later),
        "namespace": claim_for(made, cluster="east", expires=later).replace(
            f'"namespace": "{made.namespace}"', '"namespace": "elsewhere"'
        ),
        "name": claim_for(other, cluster="east", expires=later),
        "digest": claim_for(other, cluster="east", expires=later).replace('"other"', '"run"'),
        "expires": claim_for(made, cluster="east", expires=wall_clock() - timedelta(seconds=1)),
        "text": "approved",
    }
    assert claims[wrong] != claim_for(made, cluster="east", expires=later)
    await ops.lab.patch(Operation, "run", {"spec": {"approvals": {"claim": claims[wrong]}}})
    await ops.lab.settled()
    found = await ops.get()
    assert shows("Blocked", "True", "AwaitingApproval")(found)
    assert found.status.started_at is None


@pytest.mark.parametrize("frozen_by", ["claim", "start"])
async def test_parameters_cannot_be_changed_once_approved_or_started(ops: Operations, frozen_by: str) -> None:
    await ops.start()
    await ops.target()
    if frozen_by == "claim":
        await ops.create(approvals={"required": True, "claim": "{}"})
    else:
        await ops.create()
        await ops.job_of()
    with pytest.raises(Invalid, match="parameters cannot be changed"):
        await ops.lab.patch(Operation, "run", {"spec": {"parameters": {"image": "evil"}}})


@pytest.mark.parametrize("change", [{"type": "Runbook"}, {"engine": "workflow"}, {"targetRef": {"name": "other"}}])
async def test_target_type_and_engine_cannot_be_changed(ops: Operations, change: dict[str, Any]) -> None:
    await ops.start()
    await ops.create()
    with pytest.raises(Invalid, match="cannot be changed"):
        await ops.lab.patch(Operation, "run", {"spec": change})


async def test_preconditions_are_reported_in_the_documented_order(ops: Operations) -> None:
    """A Migration by a hook that lacks everything: each remedy shows the next reason, and the last remedy starts it."""
    lab, hook = ops.lab, {"hookName": "shop-migrate"}
    hook_job = tuple(row for row in ROWS if row.engine.name == "helmHookJob")
    await ops.start(rows=(*JOBS_FOR_ALL, *hook_job), cluster_id="east")
    made = await ops.create("run", "Migration", "helmHookJob", parameters=hook, approvals={"required": True})
    await ops.until("run", shows("Accepted", "False", "TargetNotFound"), shows("Blocked", "True", "TargetNotReady"))
    await ops.target(ready=False, offers={"runcommand": "job"})
    window = {"ops.vworkspace.io/maintenance-window": "23:00-23:30"}
    await lab.patch(ApplicationInstance, "shop", {"metadata": {"annotations": window}})
    await ops.until("run", shows("Accepted", "True"), shows("Blocked", "True", "TargetNotReady"))
    await ops.create("alone", parameters={"image": "busybox", "exclusive": True})
    await ops.run_job("alone")
    await ops.ready()
    await ops.until("run", shows("Accepted", "False", "CapabilityMissing"))
    offers = {"ops.vworkspace.io/migration": "helmHookJob"}
    await lab.patch(ApplicationInstance, "shop", {"metadata": {"annotations": offers}})
    await ops.until("run", shows("Accepted", "True"), shows("Blocked", "True", "AwaitingApproval"))
    claim = claim_for(made, cluster="east", expires=wall_clock() + timedelta(hours=1))
    await lab.patch(Operation, "run", {"spec": {"approvals": {"claim": claim}}})
    await ops.until("run", shows("Blocked", "True", "ConflictingOperation"))
    await ops.complete("alone")
    await ops.until("run", shows("Blocked", "True", "DependencyMissing"))
    await deploy(lab, secret=None)
    await lab.until(Operation, "run", shows("Blocked", "True", "MissingSecret"), timeout=90)
    held = {"release": record(HOOKS, packed=False)}
    await lab.create(SECRET.new("sh.helm.release.v1.shop.v3", lab.namespace, data=held))
    await lab.until(Operation, "run", shows("Blocked", "True", "OutsideMaintenanceWindow"), timeout=90)
    await lab.patch(ApplicationInstance, "shop", {"metadata": {"annotations": dict.fromkeys(window)}})
    await ops.job_of()


# --- cancelling ------------------------------------------------------------------------------------------------------------------


async def test_an_operation_that_waits_is_cancelled_at_once(ops: Operations) -> None:
    await ops.start()
    await ops.create()
    await ops.until("run", phase("Pending"))
    await cancel(ops)
    found = await ops.until("run", phase("Cancelled"), shows("Cancelled", "True", "UserCancelled"))
    assert found.status.engine_ref is None


@pytest.mark.parametrize("by", ["field", "annotation"])
async def test_a_running_operation_is_cancelled_when_its_pods_have_ended(ops: Operations, by: str) -> None:
    await ops.start()
    await ops.target()
    await ops.create()
    await ops.run_job()
    await ops.until("run", phase("Running"))
    if by == "field":
        await cancel(ops)
    else:
        await ops.lab.patch(Operation, "run", {"metadata": {"annotations": {CANCEL: "true"}}})
    await stopped(ops)
    await ops.until("run", phase("Cancelled"), shows("Running", "False"), shows("Succeeded", "False"))


async def test_a_cancelled_operation_blocks_others_until_its_engine_has_stopped(ops: Operations) -> None:
    await ops.start(rows=JOBS_FOR_ALL)
    await ops.target()
    await ops.create("first", "Restore")
    await ops.run_job("first")
    await ops.until("first", phase("Running"))
    await ops.create("second", "Restore")
    await cancel(ops, "first")
    await ops.lab.settled()
    assert not has_object(await ops.get("second"))
    await stopped(ops, "first")
    await ops.until("first", phase("Cancelled"))
    await ops.job_of("second")


async def test_the_real_end_wins_over_a_cancel_that_came_too_late(ops: Operations) -> None:
    await ops.start()
    await ops.target()
    await ops.create()
    job = await ops.run_job()
    await ops.lab.stop()
    await cancel(ops)
    await ops.write_job(job, completed())
    await ops.start()
    await ops.until("run", phase("Succeeded"))


async def test_deleting_a_running_operation_cancels_it_first(ops: Operations) -> None:
    await ops.start()
    await ops.target()
    await ops.create()
    await ops.run_job()
    await ops.until("run", phase("Running"))
    await ops.lab.delete(Operation, "run")
    await stopped(ops)
    await ops.lab.until_gone(Operation, "run")


async def test_deleting_an_operation_that_never_started_is_over_at_once(ops: Operations) -> None:
    await ops.start()
    await ops.create()
    await ops.until("run", phase("Pending"))
    await ops.lab.delete(Operation, "run")
    await ops.lab.until_gone(Operation, "run")


async def test_an_operation_past_its_deadline_is_stopped_and_failed(ops: Operations) -> None:
    await ops.start()
    await ops.target()
    await ops.create(timeoutSeconds=60)
    await ops.run_job()
    await ops.until("run", phase("Running"))
    await asyncio.sleep(59)
    await stopped(ops)
    found = await ops.until("run", phase("Failed"), shows("Failed", "True", "Timeout"))
    assert "60 s" in found.condition("Failed").message


async def test_process_with_a_clock_behind_keeps_the_deadline_of_another_process(ops: Operations) -> None:
    await ops.start()
    await ops.target()
    await ops.create(timeoutSeconds=60)
    await ops.run_job()
    await ops.until("run", phase("Running"))
    await ops.lab.stop()
    token = CLOCK_ERROR.set(-86_400)
    try:
        await ops.start()
    finally:
        CLOCK_ERROR.reset(token)
    await asyncio.sleep(61)
    await stopped(ops)
    await ops.until("run", shows("Failed", "True", "Timeout"))


@pytest.mark.parametrize("status", [403, 409, 429, 500, 503, 504])
async def test_api_error_at_object_creation_is_retried_without_ending_the_operation(
    ops: Operations, status: int
) -> None:
    await ops.start()
    await ops.target()
    refused = Rule(Match(verbs=("create",), resources=("jobs.batch",)), Refuse(status=status), count=4)
    ops.lab.server.faults.add(refused)
    await ops.create()
    await ops.lab.until(Operation, "run", has_object, timeout=120)
    assert len(refused.hits) == 4
    (job,) = await ops.lab.client.list(JOB, ops.lab.namespace)
    assert job.name == (await ops.job_of()).name
    await ops.complete()


# --- the engine's object is lost ---------------------------------------------------------------------------------------------------


async def test_lost_engine_object_is_not_reported_as_deleted(ops: Operations) -> None:
    await ops.start(FREE.model_copy(update={"job_ttl": timedelta(minutes=20)}))
    await ops.target()
    ops.lab.server.faults.add(
        Rule(Match(verbs=("create",), resources=("jobs.batch",)), Refuse(status=500), count=1_000_000)
    )
    await ops.create()
    found = await ops.lab.until(Operation, "run", phase("Failed"), timeout=7_200)
    failed = found.condition("Failed")
    assert failed.reason == "EngineObjectLost"
    assert "it was never made, or it was made and removed since" in failed.message


async def test_a_lost_object_fails_the_operation_after_the_grace_time(ops: Operations) -> None:
    await ops.start()
    await ops.target()
    await ops.create()
    job = await ops.run_job()
    await ops.until("run", phase("Running"))
    await ops.lab.delete(JOB, job.name)
    await ops.until("run", phase("Running"), shows("Running", "True", "EngineObjectMissing"))
    found = await ops.lab.until(Operation, "run", phase("Failed"), timeout=90)
    assert found.condition("Failed").reason == "EngineObjectLost"
    assert list(await ops.lab.client.list(JOB, ops.lab.namespace)) == []


async def test_operation_recreated_under_its_name_has_an_object_of_its_own(ops: Operations) -> None:
    await ops.start()
    await ops.create()
    await ops.target()
    job = await ops.job_of()
    await ops.complete()
    await ops.lab.delete(Operation, "run")
    await ops.lab.until_gone(Operation, "run")
    await ops.lab.until_gone(JOB, job.name)
    await ops.create()
    assert (await ops.job_of()).name != job.name


async def test_foreign_object_of_the_same_name_is_not_adopted(ops: Operations) -> None:
    await ops.start()
    made = await ops.create()
    name = f"run-{hashlib.sha256(made.metadata.uid.encode()).hexdigest()[:10]}"
    pods = {"restartPolicy": "Never", "containers": [{"name": "theirs", "image": "busybox"}]}
    theirs = await ops.lab.create(JOB.new(name, ops.lab.namespace, spec={"template": {"spec": pods}}))
    await ops.target()
    found = await ops.until("run", phase("Failed"), shows("Failed", "True", "PreconditionFailed"))
    assert f"{ops.lab.namespace}/{name} exists and is not of this Operation" in found.condition("Failed").message
    await ops.lab.delete(Operation, "run")
    await ops.lab.until_gone(Operation, "run")
    assert (await ops.lab.get(JOB, name)).metadata.resource_version == theirs.metadata.resource_version


# --- retention --------------------------------------------------------------------------------------------------------------------


async def test_a_finished_operation_is_deleted_after_its_time_to_live(ops: Operations) -> None:
    await ops.start()
    await ops.target()
    await ops.create(ttlSecondsAfterFinished=30)
    await ops.complete()
    await asyncio.sleep(25)
    await ops.get()
    await ops.lab.until_gone(Operation, "run")


async def test_the_oldest_finished_operations_beyond_the_limit_are_deleted(ops: Operations) -> None:
    await ops.start(FREE.model_copy(update={"history_limit": 2}))
    await ops.target()
    for name in "abc":
        await ops.create(name)
        await ops.complete(name)
        await asyncio.sleep(2)
    await ops.lab.until_gone(Operation, "a")
    assert [(await ops.get(name)).name for name in "bc"] == ["b", "c"]


# --- at rest -----------------------------------------------------------------------------------------------------------------------


async def test_nothing_is_written_at_rest_and_each_transition_is_one_event(ops: Operations) -> None:
    await ops.start(OperationSettings())
    await ops.target()
    await ops.create("run")
    await ops.run_job()
    await ops.until("run", phase("Running"))
    running = await ops.get()
    for _ in range(3):
        ops.lab.manager.runner("operation").resync_now()
        await ops.lab.settled()
    assert (await ops.get()).metadata.resource_version == running.metadata.resource_version
    done = await ops.complete()
    for _ in range(3):
        ops.lab.manager.runner("operation").resync_now()
        await ops.lab.settled()
    assert (await ops.get()).metadata.resource_version == done.metadata.resource_version
    await ops.lab.stop()  # which sends the remaining Events
    events = [
        one for one in await ops.lab.client.list(EVENT, ops.lab.namespace) if one.get("regarding", "name") == "run"
    ]
    assert Counter((one.get("action"), one.get("reason")) for one in events) == {
        ("Accepted", "AdmissionPassed"): 1,
        ("Running", "EngineStarted"): 1,
        ("Running", "Finished"): 1,
        ("Succeeded", "EngineCompleted"): 1,
    }
    assert not [one for one in events if one.get("series")]
