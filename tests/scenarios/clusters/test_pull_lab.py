"""Pull mode under the lab's faults: `make test` once, `make lab` with every plan, with a crash before and after each write."""

import asyncio
from typing import Any

import pytest
from pull_kit import ensure
from pull_lab import Plane, gone, phase

from konverge.crds.ops_v1alpha1 import Cluster
from konverge.reconcilers.clusters.kinds import APPLICATION_INSTANCE
from konverge.reconcilers.clusters.protocol import Outcome
from konverge.reconcilers.clusters.words import JobReason
from konverge_testing import Lab


def forget_credentials(data: dict[str, Any]) -> None:
    """Remove random credentials, times of one-time actions, and the journal, which names uids."""
    if data["kind"] == "Secret":
        data.pop("data", None)
        data["metadata"].pop("annotations", None)
    if data["kind"] == "Cluster":
        status = data.get("status") or {}
        status.pop("lastHeartbeat", None)
        (status.get("credentialStatus") or {}).pop("registeredAt", None)


async def done(lab: Lab, here: Plane, payload: dict[str, Any]) -> None:
    """Send a job until it succeeds, as a control plane does: while the API server rejects requests, the job fails."""
    for _ in range(100):
        result = await here.plane.result(here.plane.submit("intent", payload), timeout=lab.limit(100_000))
        if result.outcome in (Outcome.SUCCEEDED, Outcome.NOOP) or result.reason == JobReason.NAMESPACE_MISSING:
            return  # only a plan deletes the namespace, and it stays deleted
        await asyncio.sleep(10)
    raise AssertionError(f"the job fails again and again: {result}")


@pytest.mark.scenario
async def test_a_cluster_is_registered_carries_out_jobs_and_is_deleted(lab: Lab) -> None:
    lab.may_differ(
        None, forget_credentials, why="credentials are drawn, and heartbeats depend on how long a fault lasts"
    )
    lab.skip_plans("clusters*: recreate by hand*", why="a token is used once, so another Cluster needs another token")
    lab.skip_plans("the CRD of applicationinstances*", why="the scenario itself reads instances")
    lab.skip_plans("secrets default/vworkspace-agent-journal: *", why="the journal is the only memory of jobs")
    here = Plane(lab, namespace="default")
    await here.start()
    await here.until(phase("Connected"))
    payload = {**ensure(), "namespace": lab.namespace}
    payload["spec"]["release"]["namespace"] = lab.namespace
    await done(lab, here, payload)
    await done(lab, here, {"intent": "delete-application-instance", "namespace": lab.namespace, "name": "shop"})
    await lab.until_gone(APPLICATION_INSTANCE, "shop")
    await here.until(lambda found: found.spec.registration_token is None)
    await lab.client.delete(Cluster, "east")
    await gone(lab, "east")
