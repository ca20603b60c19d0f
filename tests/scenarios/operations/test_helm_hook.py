"""Jobs that a chart declares as hooks, read from the record that Helm keeps of the release."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import pytest
from apps.operations import JOB, Operations, phase, shows

from konverge.kinds import kind
from konverge.reconcilers.apps.kinds import HELM_RELEASE
from konverge.testing import install_crds
from konverge.testing.flux import flux_crds

SECRET = kind("v1", "Secret", namespaced=True, plural="secrets")
MIGRATE = """
apiVersion: batch/v1
kind: Job
metadata:
  name: shop-migrate
  labels: {app: shop, job-name: shop-migrate}
  annotations: {helm.sh/hook: pre-upgrade, helm.sh/hook-delete-policy: hook-succeeded, note: kept}
spec:
  backoffLimit: 2
  selector: {matchLabels: {controller-uid: "1"}}
  manualSelector: true
  template:
    metadata:
      labels: {controller-uid: "1", app: shop}
    spec:
      restartPolicy: Never
      containers:
        - name: migrate
          image: shop:1.0.0
          env: [{name: PASSWORD, value: hunter2}]
"""
LAUGHS = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 13))
"""A few hundred characters that name 10^12 values."""
HOOKS: list[dict[str, Any]] = [
    {"name": "shop-migrate", "kind": "Job", "manifest": MIGRATE, "events": ["pre-upgrade"]},
    {"name": "shop-config", "kind": "ConfigMap", "manifest": "kind: ConfigMap"},
    {"name": "broken", "kind": "Job", "manifest": "a: *hunter2"},
    {"name": "laughs", "kind": "Job", "manifest": f"{MIGRATE}{LAUGHS}"},
    {"name": "cycle", "kind": "Job", "manifest": f"{MIGRATE}a: &a [*a]"},
    {"name": "deep", "kind": "Job", "manifest": "[" * 5000},
    {"name": "elsewhere", "kind": "Job", "manifest": MIGRATE.replace("metadata:\n", "metadata:\n  namespace: x\n", 1)},
]


def record(hooks: list[dict[str, Any]], *, packed: bool = True) -> str:
    text = json.dumps({"hooks": hooks, "config": {"password": "hunter2"}}).encode()
    return base64.b64encode(base64.b64encode(gzip.compress(text) if packed else text)).decode()


async def start(ops: Operations, *, deployed: str = "deployed", secret: str | None = "") -> None:
    await install_crds(ops.lab.client, flux_crds())
    await ops.start()
    await ops.target()
    release = await ops.lab.create(
        HELM_RELEASE.new(
            "shop", ops.lab.namespace, spec={"interval": "5m", "chartRef": {"kind": "OCIRepository", "name": "shop"}}
        )
    )
    history = [
        {
            "name": "shop",
            "namespace": ops.lab.namespace,
            "version": 3,
            "status": deployed,
            "chartName": "shop",
            "chartVersion": "1.0.0",
            "configDigest": "x",
            "digest": "x",
            "firstDeployed": "2030-01-01T00:00:00Z",
            "lastDeployed": "2030-01-01T00:00:00Z",
        }
    ]
    await ops.lab.patch(
        HELM_RELEASE,
        release.name,
        {"status": {"history": history, "storageNamespace": ops.lab.namespace}},
        subresource="status",
    )
    if secret is not None:
        data = {"release": base64.b64encode(secret.encode()).decode() if secret else record(HOOKS)}
        await ops.lab.create(
            SECRET.new("sh.helm.release.v1.shop.v3", ops.lab.namespace, type="helm.sh/release.v1", data=data)
        )


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
async def test_a_hook_that_cannot_be_run_fails_without_a_job_and_without_a_value(
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
