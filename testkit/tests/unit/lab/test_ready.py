"""`lab.ready` plays the controllers of workloads and the kubelet: in memory no other code writes the statuses of workloads."""

from typing import Any

import pytest

import konverge as kv
from konverge.errors import UsageError
from konverge.kinds import Kind
from konverge_testing import Lab
from konverge_testing.lab import Plan, Unmet
from konverge_testing.lab.ready import is_ready
from konverge_testing.lab.runs import run

LABELS = {"app": "web"}
POD_SPEC = {"containers": [{"name": "web", "image": "example.com/web:1"}]}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": POD_SPEC}
SELECTED = {"selector": {"matchLabels": LABELS}, "template": TEMPLATE}
DEPLOYMENT = kv.kind("apps/v1", "Deployment")
JOB = kv.kind("batch/v1", "Job")
POD = kv.kind("v1", "Pod")

WORKLOADS: dict[str, tuple[Kind[Any], dict[str, Any], dict[str, Any]]] = {
    "Deployment": (DEPLOYMENT, {**SELECTED, "replicas": 2}, {"readyReplicas": 2, "availableReplicas": 2}),
    "no replicas": (DEPLOYMENT, {**SELECTED, "replicas": 0}, {}),
    "ReplicaSet": (kv.kind("apps/v1", "ReplicaSet"), {**SELECTED, "replicas": 3}, {"readyReplicas": 3}),
    "StatefulSet": (
        kv.kind("apps/v1", "StatefulSet"),
        {**SELECTED, "serviceName": "web"},
        {"readyReplicas": 1, "currentRevision": "web-revision-1"},
    ),
    "DaemonSet": (kv.kind("apps/v1", "DaemonSet"), SELECTED, {"numberReady": 1, "desiredNumberScheduled": 1}),
    "Job": (
        JOB,
        {"template": {"spec": {**POD_SPEC, "restartPolicy": "Never"}}, "completions": 2, "parallelism": 2},
        {"succeeded": 2},
    ),
    "Pod": (POD, POD_SPEC, {"phase": "Running", "podIP": "10.0.0.1"}),
}


def true(object_: kv.Object) -> set[str]:
    return {one["type"] for one in object_.status.get("conditions") or () if one["status"] == "True"}


@pytest.mark.parametrize("name", WORKLOADS)
async def test_each_workload_becomes_ready_in_a_line(lab: Lab, name: str) -> None:
    what, spec, status = WORKLOADS[name]
    created = await lab.create(what.new("web", spec=spec))
    assert not is_ready(created)
    ready = await lab.ready(what, "web")
    assert is_ready(ready)
    assert status.items() <= ready.status.items()
    stored = await lab.get(what, "web")
    assert stored.status == ready.status


async def test_conditions_of_a_ready_workload_are_true(lab: Lab) -> None:
    expected = {
        DEPLOYMENT: {"Available", "Progressing"},
        JOB: {"SuccessCriteriaMet", "Complete"},
        POD: {"PodScheduled", "Initialized", "ContainersReady", "Ready"},
    }
    for name in ("Deployment", "Job", "Pod"):
        what, spec, _ = WORKLOADS[name]
        await lab.create(what.new("web", spec=spec))
        assert true(await lab.ready(what, "web")) == expected[what]


async def test_a_workload_becomes_ready_again_after_a_change_and_after_a_deletion(lab: Lab) -> None:
    what, spec, _ = WORKLOADS["Deployment"]
    await lab.create(what.new("web", spec=spec))
    await lab.ready(what, "web", seconds=30)
    changed = await lab.patch(what, "web", {"spec": {"replicas": 5}})
    assert not is_ready(changed)
    assert (await lab.until(what, "web", is_ready, timeout=60)).status["readyReplicas"] == 5
    await lab.delete(what, "web")
    await lab.until_gone(what, "web")
    await lab.create(what.new("web", spec=spec))
    assert (await lab.until(what, "web", is_ready, timeout=60)).status["readyReplicas"] == 2


async def test_a_workload_that_never_exists_is_unmet(lab: Lab) -> None:
    with pytest.raises(Unmet, match=r"Deployment lab/web: waited 21 s for to be ready"):
        await lab.ready(DEPLOYMENT, "web")


async def test_a_failed_job_stays_failed(lab: Lab) -> None:
    what, spec, _ = WORKLOADS["Job"]
    await lab.create(what.new("web", spec=spec))
    failed = [{"type": type_, "status": "True"} for type_ in ("FailureTarget", "Failed")]
    times = {"startTime": "2026-01-01T00:00:00Z"}
    await lab.patch(what, "web", {"status": {**times, "conditions": failed}}, subresource="status")
    with pytest.raises(Unmet):
        await lab.ready(what, "web")
    assert "Complete" not in true(await lab.get(what, "web"))


async def test_other_kinds_are_refused_with_what_to_do(lab: Lab) -> None:
    with pytest.raises(UsageError, match=r"it knows DaemonSet, Deployment, .* lab\.patch\(KIND"):
        await lab.ready(kv.kind("v1", "Service"), "web")


def test_a_plan_that_recreates_the_workload_finds_it_ready_again() -> None:
    what, spec, _ = WORKLOADS["Deployment"]

    async def scenario(lab: Lab) -> None:
        await lab.start(lambda manager: None)
        await lab.create(what.new("web", spec=spec))
        await lab.ready(what, "web")
        await lab.delete(what, "web")
        await lab.create(what.new("web", spec=spec))

    done = run(scenario, Plan(name="reference"))
    assert done.problems == []
    assert done.state["deployments.apps lab/web"]["status"]["readyReplicas"] == 2
