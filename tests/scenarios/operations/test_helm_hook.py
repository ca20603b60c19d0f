"""Jobs that a chart declares as hooks, read from the record that Helm keeps of the release."""

import json
from typing import Any

import pytest
from apps.hook_release import HOOKS, SECRET, deploy, record
from apps.operations import JOB, Operations, phase, shows

from konverge.reconcilers.apps.kinds import HELM_RELEASE


async def start(ops: Operations, **release: Any) -> None:
    await ops.start()
    await ops.target()
    await deploy(ops.lab, **release)


async def migrate(ops: Operations, hook: str = "shop-migrate", **parameters: Any) -> None:
    await ops.create("run", "Migration", "helmHookJob", parameters={"hookName": hook, **parameters})


async def test_the_hook_is_cloned_without_what_ties_it_to_helm(ops: Operations) -> None:
    await start(ops)
    await migrate(ops, activeDeadlineSeconds=60)
    job = await ops.job_of()
    assert job.name.startswith("run-")
    assert job.metadata.label("ops.vworkspace.io/hook-name") == "shop-migrate"
    assert job.metadata.label("app") == "shop"
    assert job.metadata.label("job-name") == ""
    assert not [key for key in job.metadata.annotations or {} if key.startswith("helm.sh/")]
    assert job.metadata.annotation("note") == "kept"
    assert (job.spec["backoffLimit"], job.spec["activeDeadlineSeconds"]) == (2, 60)
    assert job.get("spec", "template", "spec", "containers", 0, "image") == "shop:1.0.0"
    assert job.get("spec", "template", "metadata", "labels", "app") == "shop"
    done = await ops.complete()
    assert done.status.outputs == {"jobName": job.name}


@pytest.mark.parametrize(
    ("hook", "reason"),
    [
        ("unknown", "HookNotFound"),
        ("shop-config", "HookUnsupportedKind"),
        ("broken", "PreconditionFailed"),
        ("laughs", "PreconditionFailed"),
        ("cycle", "PreconditionFailed"),
        ("deep", "PreconditionFailed"),
        ("elsewhere", "PreconditionFailed"),
    ],
)
async def test_hook_that_cannot_run_fails_without_a_job_and_without_values(
    ops: Operations, hook: str, reason: str
) -> None:
    await start(ops)
    await migrate(ops, hook)
    found = await ops.until("run", phase("Failed"), shows("Failed", "True", reason))
    assert "hunter2" not in str(found.to_dict())
    assert list(await ops.lab.client.list(JOB, ops.lab.namespace)) == []


async def test_without_a_deployed_release_the_operation_waits_for_it(ops: Operations) -> None:
    await start(ops, deployed="failed")
    await migrate(ops)
    await ops.until("run", shows("Blocked", "True", "HookRequiresRelease"))
    release = await ops.lab.get(HELM_RELEASE, "shop")
    history = [{**release.get("status", "history", 0), "status": "deployed"}]
    await ops.lab.patch(HELM_RELEASE, "shop", {"status": {"history": history}}, subresource="status")
    await ops.job_of()


async def test_a_missing_record_blocks_and_its_coming_is_noticed(ops: Operations) -> None:
    await start(ops, secret=None)
    await migrate(ops)
    await ops.until("run", shows("Blocked", "True", "MissingSecret"))
    await ops.lab.create(
        SECRET.new("sh.helm.release.v1.shop.v3", ops.lab.namespace, data={"release": record(HOOKS, packed=False)})
    )
    await ops.lab.until(type(await ops.get()), "run", lambda found: found.status.started_at is not None, timeout=60)


async def test_a_record_that_cannot_be_read_fails_the_operation(ops: Operations) -> None:
    await start(ops, secret="nonsense")
    await migrate(ops)
    await ops.until("run", phase("Failed"), shows("Failed", "True", "PreconditionFailed"))


ESCAPES: dict[str, dict[str, Any]] = {
    "hostNetwork": {"hostNetwork": True},
    "hostPID": {"hostPID": True},
    "hostIPC": {"hostIPC": True},
    "hostPath": {"volumes": [{"name": "node", "hostPath": {"path": "/"}}]},
    "privileged": {"containers": [{"name": "a", "image": "a", "securityContext": {"privileged": True}}]},
    "capabilities.add": {
        "initContainers": [{"name": "a", "image": "a", "securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}]
    },
    "hostPort": {"containers": [{"name": "a", "image": "a", "ports": [{"hostPort": 80, "containerPort": 80}]}]},
}


def hook_with(pod: dict[str, Any]) -> dict[str, Any]:
    spec = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}], **pod}
    job = {"kind": "Job", "metadata": {"name": "hook"}, "spec": {"template": {"spec": spec}}}
    return {"name": "hook", "kind": "Job", "manifest": json.dumps(job)}


async def run_hook(ops: Operations, pod: dict[str, Any]) -> None:
    await start(ops, secret=None)
    data = {"release": record([hook_with(pod)])}
    await ops.lab.create(SECRET.new("sh.helm.release.v1.shop.v3", ops.lab.namespace, data=data))
    await migrate(ops, "hook")


@pytest.mark.parametrize("field", ESCAPES)
async def test_a_hook_that_reaches_for_the_node_is_refused(ops: Operations, field: str) -> None:
    await run_hook(ops, ESCAPES[field])
    found = await ops.until("run", phase("Failed"), shows("Failed", "True", "PreconditionFailed"))
    assert f"sets {field}, which" in found.condition("Failed").message
    assert list(await ops.lab.client.list(JOB, ops.lab.namespace)) == []


async def test_a_hook_with_capabilities_of_the_baseline_runs(ops: Operations) -> None:
    added = {"securityContext": {"capabilities": {"add": ["NET_BIND_SERVICE"]}}}
    await run_hook(ops, {"containers": [{"name": "a", "image": "a", **added}]})
    await ops.job_of()
    await ops.complete()
