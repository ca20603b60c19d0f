"""A status, a label and an annotation of another writer lead to no object, no hold and no wake-up elsewhere."""

import asyncio
from typing import Any

import pytest
from apps.operations import FREE, JOB, JOBS_FOR_ALL, Operations, completed, has_object, phase, shows

from konverge.clock import rfc3339, wall_clock
from konverge.crds import crd
from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.crds.ops_v1alpha1 import Operation
from konverge.errors import Invalid
from konverge.kinds import kind
from konverge.objects import Object
from konverge.reconcilers.apps.operations.engine_request import request_for
from konverge.reconcilers.apps.operations.engines.engine import Target, child_name
from konverge.reconcilers.apps.operations.install import controller
from konverge.reconcilers.apps.operations.metrics import OperationMetrics
from konverge.reconcilers.apps.operations.waiting.turns import LEASE, holders_of, lease_name
from konverge.reconcilers.apps.operations.words import OpAnnotation, OpLabel
from konverge.runtime import Manager, ManagerSettings
from konverge_testing import Lab, install_crds
from konverge_testing.apiserver.faults.rules import Freeze, Match, Rule

EVENT = kind("events.k8s.io/v1", "Event", namespaced=True, plural="events")
PODS = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}}}
VICTIM = "victim"


@pytest.fixture
async def ops(lab: Lab) -> Operations:
    """The controller of Operations in all namespaces, as the daemon runs it."""
    await install_crds(lab.client, [crd(Operation), crd(ApplicationInstance)])
    await lab.namespace_also(VICTIM)

    def build(manager: Manager) -> None:
        manager.add(controller(FREE, rows=JOBS_FOR_ALL, metrics=OperationMetrics.within(manager.metrics)))

    await lab.start(build, name="konverge", settings=ManagerSettings(namespace=None, strict=True))
    ops = Operations(lab)
    await ops.target()
    return ops


async def forge(ops: Operations, **status: Any) -> None:
    await ops.lab.patch(Operation, "run", {"status": status}, subresource="status")


def _ref(job: Object, **changes: Any) -> dict[str, Any]:
    metadata = job.metadata
    ref = {"apiVersion": "batch/v1", "kind": "Job", "name": metadata.name, "namespace": metadata.namespace}
    return {**ref, "uid": metadata.uid, **changes}


async def payroll(ops: Operations, namespace: str, operation: Operation, *, marked: bool) -> Object:
    """Create a Job without an Operation; `marked`: with the label and the annotation of this Operation."""
    marks: dict[str, Any] = {}
    if marked:
        marks["labels"] = {OpLabel.OPERATION: operation.metadata.uid}
        marks["annotations"] = {OpAnnotation.OPERATION_NAME: f"{operation.namespace}/{operation.name}"}
    return await ops.lab.client.create(JOB.new("payroll", namespace, spec=PODS, **marks))


STOPS: dict[str, dict[str, Any]] = {
    "cancel": {"spec": {"cancel": True}},
    "timeout": {"spec": {"timeoutSeconds": 1}},
    "annotation": {"metadata": {"annotations": {"ops.vworkspace.io/cancel": "true"}}},
}


@pytest.mark.parametrize("marked", [False, True], ids=["unmarked", "marked"])
@pytest.mark.parametrize("where", ["own", VICTIM])
@pytest.mark.parametrize("stop", [*STOPS, "deletion"])
async def test_forged_engine_ref_reaches_no_other_object(ops: Operations, stop: str, where: str, marked: bool) -> None:
    operation = await ops.create()
    own = await ops.job_of()
    theirs = await payroll(ops, ops.lab.namespace if where == "own" else where, operation, marked=marked)
    await forge(ops, engineRef=_ref(theirs))
    if stop == "deletion":
        await ops.lab.delete(Operation, "run")
    else:
        await ops.lab.patch(Operation, "run", STOPS[stop])
    await asyncio.sleep(30)
    after = await ops.lab.get(JOB, theirs.name, theirs.namespace)
    assert after.metadata.resource_version == theirs.metadata.resource_version
    assert (await ops.lab.get(JOB, own.name)).spec.get("suspend") is True, "the object of the Operation is stopped"


async def test_forged_engine_ref_is_corrected_and_reported_without_its_content(ops: Operations) -> None:
    operation = await ops.create()
    own = await ops.job_of()
    theirs = await payroll(ops, VICTIM, operation, marked=True)
    await forge(ops, engineRef=_ref(theirs))
    found = await ops.until(
        "run", lambda one: one.status.engine_ref is not None and one.status.engine_ref.name == own.name
    )
    assert found.status.engine_ref is not None
    assert found.status.engine_ref.uid == own.metadata.uid
    await asyncio.sleep(5)
    notes = [
        str(one.get("note")) for one in await ops.lab.client.list(EVENT) if one.get("reason") == "EngineRefCorrected"
    ]
    assert len(notes) == 1
    assert f"Job {ops.lab.namespace}/{own.name}" in notes[0]
    assert VICTIM not in notes[0]
    await ops.complete()


@pytest.mark.parametrize("forged", ["kind", "no reference", "no uid", "another uid", "generation"])
async def test_damaged_engine_ref_makes_no_second_object(ops: Operations, forged: str) -> None:
    await ops.create()
    own = await ops.job_of()
    ref: dict[str, dict[str, Any] | None] = {
        "kind": _ref(own, apiVersion="v1", kind="Secret", name="token"),
        "no reference": None,
        "no uid": _ref(own, uid=None),
        "another uid": _ref(own, uid="another"),
        "generation": _ref(own, generation=7),
    }
    await forge(ops, engineRef=ref[forged])
    await asyncio.sleep(5)
    await ops.write_job(own, completed())
    await ops.until("run", phase("Succeeded"))
    assert [job.metadata.uid for job in await ops.lab.client.list(JOB, ops.lab.namespace)] == [own.metadata.uid]


async def test_label_that_was_removed_from_the_object_loses_no_end(ops: Operations) -> None:
    await ops.create()
    own = await ops.job_of()
    await ops.lab.patch(JOB, own.name, {"metadata": {"labels": {OpLabel.OPERATION: None}}})
    await ops.write_job(own, completed())
    await ops.lab.patch(Operation, "run", {"metadata": {"labels": {"wakes": "it"}}})
    await ops.until("run", phase("Succeeded"))


@pytest.mark.parametrize("digest", ["sha256:0", None], ids=["another spec", "an earlier release"])
async def test_object_of_another_spec_is_not_taken_over(ops: Operations, digest: str | None) -> None:
    operation = await ops.create(target="later")
    job = await _made_for(ops, operation, digest)
    await ops.target("later")
    if digest is None:
        await ops.until("run", has_object)
        await ops.write_job(job, completed())
        await ops.until("run", phase("Succeeded"))
    else:
        found = await ops.until("run", phase("Failed"), shows("Failed", "True", "PreconditionFailed"))
        assert "is not of this Operation; delete it" in found.condition("Failed").message


async def _made_for(ops: Operations, operation: Operation, digest: str | None) -> Object:
    """Create an Operation's Job under its name, before the operator does."""
    request = request_for(operation, Target(operation.namespace, "later", ""), FREE, wall_clock())
    annotations = {OpAnnotation.OPERATION_NAME: f"{operation.namespace}/{operation.name}"}
    if digest is not None:
        annotations[OpAnnotation.SPEC_DIGEST] = digest
    labels = {OpLabel.OPERATION: operation.metadata.uid}
    return await ops.lab.create(
        JOB.new(child_name(request), ops.lab.namespace, labels=labels, annotations=annotations, spec=PODS)
    )


@pytest.mark.parametrize("with_ref", [True, False], ids=["with engineRef", "without engineRef"])
async def test_forged_start_passes_no_precondition_by(ops: Operations, with_ref: bool) -> None:
    """A status that claims the hold has no entry in the Lease of the operator's namespace."""
    operation = await ops.create(approvals={"required": True})
    await ops.until("run", shows("Blocked", "True", "AwaitingApproval"))
    ref = {"apiVersion": "batch/v1", "kind": "Job", "name": "run-1", "namespace": operation.namespace}
    await forge(ops, phase="Pending", startedAt=rfc3339(wall_clock()), engineRef=ref if with_ref else None)
    found = await ops.until("run", shows("Blocked", "True", "AwaitingApproval"), lambda one: not one.status.started_at)
    assert found.status.engine_ref is None
    await asyncio.sleep(60)
    assert list(await ops.lab.client.list(JOB, ops.lab.namespace)) == []


async def test_forged_later_start_makes_no_second_object(ops: Operations) -> None:
    """The Lease records the first start, and since then the object may have been created and removed."""
    await ops.create()
    await ops.complete()
    job = (await ops.lab.client.list(JOB, ops.lab.namespace)).items[0]
    await ops.lab.delete(JOB, job.name)
    await asyncio.sleep(2 * 86_400)
    await ops.lab.stop()
    await forge(ops, phase="Pending", finishedAt=None, startedAt=rfc3339(wall_clock()), engineRef=None)
    await ops.run(rows=JOBS_FOR_ALL, crds=False)
    found = await ops.until("run", phase("Failed"))
    assert found.condition("Failed").reason == "EngineObjectLost"
    assert list(await ops.lab.client.list(JOB, ops.lab.namespace)) == []


async def test_turns_are_kept_only_in_the_operators_namespace(ops: Operations) -> None:
    """A tenant's Lease with the name from an earlier release neither grants nor takes a hold."""
    lab = ops.lab
    await lab.create(LEASE.new("operations-shop", lab.namespace, annotations={OpAnnotation.HOLDERS: "[]"}))
    await ops.create("first", "Restore")
    await asyncio.sleep(1)  # two Operations created in the same second are ordered by their uids
    await ops.create("second", "Restore")
    await ops.job_of("first")
    (holder,) = holders_of(await lab.get(LEASE, lease_name(lab.namespace), lab.config.namespace))
    assert (holder.name, holder.target) == ("first", "shop")
    await ops.until("second", shows("Blocked", "True", "ConflictingOperation"))
    left = await lab.get(LEASE, "operations-shop")
    assert left.metadata.annotation(OpAnnotation.HOLDERS) == "[]"


async def test_operation_that_an_earlier_release_started_holds_the_next_up(ops: Operations) -> None:
    """Another process started it with another Lease, and the cache does not show that yet."""
    lab = ops.lab
    await ops.create("first", "Restore", approvals={"required": True})
    await ops.until("first", shows("Blocked", "True", "AwaitingApproval"))
    await ops.ready(ready=False, reason="Upgrading")
    await ops.create("second", "Restore")
    await ops.until("second", shows("Blocked", "True", "TargetNotReady"))
    frozen = Rule(Match(verbs=("watch",), resources=("operations.ops.vworkspace.io",)), Freeze(seconds=20), count=9)
    lab.server.faults.add(frozen)
    await asyncio.sleep(1)
    await lab.patch(
        Operation,
        "first",
        {"status": {"phase": "Running", "startedAt": rfc3339(wall_clock()), "engineRef": None}},
        subresource="status",
    )
    await ops.ready()
    await asyncio.sleep(10)
    assert not (await ops.get("second")).status.started_at


@pytest.mark.parametrize("where", [VICTIM, "own"])
async def test_object_wakes_only_operations_of_its_own_namespace(ops: Operations, where: str) -> None:
    operation = await ops.create()
    await ops.job_of()
    await ops.lab.settled()
    theirs = await payroll(ops, ops.lab.namespace if where == "own" else where, operation, marked=True)
    await ops.lab.settled()
    before, noise = _reconciles(ops), {"metadata": {"labels": {"more": "noise"}}}
    await ops.lab.client.patch(JOB, theirs.name, theirs.namespace, patch=noise, style="merge")
    await ops.lab.settled()
    assert _reconciles(ops) - before == (1 if where == "own" else 0)


def _reconciles(ops: Operations) -> float:
    name = "controller_runtime_reconcile_total"
    labels = {"controller": "operation"}
    samples = [
        one for metric in ops.lab.manager.metrics.registry.collect() for one in metric.samples if one.name == name
    ]
    return sum(one.value for one in samples if labels.items() <= one.labels.items())


@pytest.mark.parametrize("frozen", [False, True], ids=["not approved", "approved"])
async def test_operation_without_parameters_is_changed_and_stays_frozen(ops: Operations, frozen: bool) -> None:
    """A foreign program leaves the field out."""
    made = Operation.decode(
        {
            "metadata": {"name": "bare", "namespace": ops.lab.namespace},
            "spec": {
                "targetRef": {
                    "apiVersion": "apps.vworkspace.io/v1alpha1",
                    "kind": "ApplicationInstance",
                    "name": "none",
                },
                "type": "Restore",
                "engine": "velero",
                **({"approvals": {"claim": "x"}} if frozen else {}),
            },
        }
    ).to_dict()
    made["spec"].pop("parameters", None)
    await ops.lab.client.create(Object(made))
    given = {"spec": {"parameters": {"backupName": "a"}}}
    if frozen:
        with pytest.raises(Invalid, match="cannot be changed once"):
            await ops.lab.patch(Operation, "bare", given)
    else:
        await ops.lab.patch(Operation, "bare", given)
    await ops.lab.patch(Operation, "bare", {"spec": {"cancel": True}})
    await ops.until("bare", lambda one: one.finished)
