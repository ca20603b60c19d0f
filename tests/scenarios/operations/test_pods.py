"""A Job whose pods cannot run: its Operation waits for the missing object, or reports the cause within a minute."""

import asyncio
from typing import Any

import pytest
from apps.operations import Operations, phase, shows

from konverge.clock import rfc3339, wall_clock
from konverge.crds.ops_v1alpha1 import Operation
from konverge.objects import Object
from konverge.reconcilers.apps.kinds import SERVICE_ACCOUNT
from konverge.reconcilers.apps.operations.pods import EVENT, POD
from konverge_testing import Lab
from konverge_testing.apiserver.faults.rules import Match, Refuse, Rule

RUNNER = "vworkspace-operation-runner"
CONTAINERS = [{"name": "command", "image": "busybox"}]


async def test_a_command_waits_for_its_service_account_and_starts_with_it(ops: Operations) -> None:
    await ops.start()
    await ops.target()
    await ops.lab.delete(SERVICE_ACCOUNT, RUNNER)
    await ops.create()
    found = await ops.until("run", shows("Blocked", "True", "DependencyMissing"))
    message = found.condition("Blocked").message
    assert f"ServiceAccount {ops.lab.namespace}/{RUNNER}, as which the pods run, does not exist" in message
    assert f"kubectl create serviceaccount {RUNNER} -n {ops.lab.namespace}" in message
    await ops.create_account()
    await ops.complete()


async def test_without_the_right_to_read_accounts_a_command_starts(ops: Operations) -> None:
    await ops.start()
    refused = Refuse(status=403, reason="Forbidden", message="no")
    ops.lab.server.faults.add(Rule(Match(verbs=("get",), resources=("serviceaccounts",)), refused))
    await ops.target()
    await ops.lab.delete(SERVICE_ACCOUNT, RUNNER)
    await ops.create()
    await ops.job_of()


async def event(lab: Lab, about: Object, reason: str, message: str) -> None:
    """Write an Event as the Job controller, the scheduler or a kubelet does."""
    place = {"kind": about.kind_name, "namespace": lab.namespace, "name": about.name, "uid": about.metadata.uid}
    data: dict[str, Any] = {
        "involvedObject": place,
        "reason": reason,
        "message": message,
        "type": "Warning",
        "lastTimestamp": rfc3339(wall_clock()),
    }
    await lab.client.create(EVENT.new(f"{about.name}.{reason.lower()}", lab.namespace, **data))


async def pod(lab: Lab, job: Object, status: dict[str, Any], name: str = "") -> Object:
    """Create a pod as the Job controller does, with a status."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job.name, "uid": job.metadata.uid, "controller": True}
    labels = {"batch.kubernetes.io/controller-uid": job.metadata.uid}
    made = POD.new(name or f"{job.name}-x", lab.namespace, labels=labels, spec={"containers": CONTAINERS})
    made.data["metadata"]["ownerReferences"] = [owner]
    await lab.client.create(made)
    return await lab.patch(POD, made.name, {"status": status}, subresource="status")


def waiting(reason: str, message: str) -> dict[str, Any]:
    """Return the status of a pod whose container waits."""
    state = {"waiting": {"reason": reason, **({"message": message} if message else {})}}
    container = {"name": "command", "image": "busybox", "imageID": "", "ready": False, "restartCount": 0}
    return {"phase": "Pending", "containerStatuses": [{**container, "state": state}]}


UNSCHEDULABLE = {
    "phase": "Pending",
    "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available"}
    ],
}
CAUSES: dict[str, tuple[dict[str, Any] | None, tuple[str, str] | None, str]] = {
    "quota": (None, ("FailedCreate", 'pods "x" is forbidden: exceeded quota'), "no pod can be created: pods"),
    "account": (None, ("FailedCreate", 'serviceaccount "runner" not found'), "no pod can be created: serviceaccount"),
    "schedule": (UNSCHEDULABLE, None, "its pod is not scheduled: 0/3 nodes are available"),
    "pull": (waiting("ImagePullBackOff", "Back-off pulling image"), None, "cannot start: ImagePullBackOff (Back-off"),
    "start": (waiting("CreateContainerConfigError", 'secret "a" not found'), None, "CreateContainerConfigError (secret"),
    "mount": (waiting("ContainerCreating", ""), ("FailedMount", 'configmap "a" not found'), "its pod cannot start: FailedMount"),
}  # fmt: skip


@pytest.mark.parametrize("case", CAUSES)
async def test_cause_of_a_job_without_pods_is_in_running_within_a_minute(ops: Operations, case: str) -> None:
    status, warning, word = CAUSES[case]
    lab = ops.lab
    await ops.start()
    await ops.target()
    await ops.create()
    job = await ops.job_of()
    began = wall_clock()
    await ops.write_job(job, {"startTime": rfc3339(began), "active": 0 if status is None else 1, "ready": 0})
    about = job if status is None else await pod(lab, job, status)
    if warning is not None:
        await event(lab, about, *warning)
    found = await lab.until(Operation, "run", shows("Running", "True", "PodsNotRunning"), timeout=60)
    assert word in found.condition("Running").message
    written = found.metadata.resource_version
    await asyncio.sleep(120)
    assert (await ops.get()).metadata.resource_version == written, "a cause that lasts is written once"
    await ops.write_job(job, {"startTime": rfc3339(began), "active": 1, "ready": 1})
    await ops.until("run", shows("Running", "True", "EngineStarted"))


async def test_without_the_right_to_list_pods_the_message_names_the_command(ops: Operations) -> None:
    refused = Refuse(status=403, reason="Forbidden", message="no")
    ops.lab.server.faults.add(Rule(Match(verbs=("list",), resources=("pods",)), refused))
    await ops.start()
    await ops.target()
    await ops.create()
    job = await ops.job_of()
    found = await ops.until("run", shows("Running", "False", "PodsNotRunning"))
    assert f"kubectl describe job {job.name}" in found.condition("Running").message
    await ops.complete()


async def test_a_job_with_many_failed_pods_costs_three_lists_for_each_look(ops: Operations) -> None:
    seen: list[str] = []
    await ops.start()
    await ops.target()
    await ops.create()
    job = await ops.job_of()
    await ops.write_job(job, {"startTime": rfc3339(wall_clock()), "active": 1, "ready": 0, "failed": 30})
    for number in range(30):
        await pod(ops.lab, job, {"phase": "Failed"}, name=f"failed-{number}")
    await asyncio.sleep(2)
    await pod(ops.lab, job, UNSCHEDULABLE)
    await ops.lab.until(Operation, "run", shows("Running", "True", "PodsNotRunning"), timeout=60)
    ops.lab.server.on_call.append(lambda _call, about, _response: seen.append(f"{about.verb} {about.resource}"))
    await asyncio.sleep(61)
    assert 2 <= seen.count("list pods") <= 4
    assert seen.count("list events") == 2 * seen.count("list pods")


async def test_a_job_that_runs_is_not_looked_into(ops: Operations) -> None:
    seen: list[str] = []
    ops.lab.server.on_call.append(lambda _call, about, _response: seen.append(f"{about.verb} {about.resource}"))
    await ops.start()
    await ops.target()
    await ops.create()
    await ops.run_job()
    await asyncio.sleep(120)
    await ops.until("run", phase("Running"))
    assert "list pods" not in seen
