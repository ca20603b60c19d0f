"""Pull mode on a real control plane: what only its server-side apply can show, the conflict with another manager (row X10)."""

import pytest
from pull_kit import ensure
from pull_lab import Plane, gone

from konverge.crds.ops_v1alpha1 import Cluster
from konverge.reconcilers.clusters.kinds import APPLICATION_INSTANCE, SECRET
from konverge.reconcilers.clusters.protocol import Outcome
from konverge_testing import Lab

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(240, func_only=True)]


async def test_x10_foreign_field_is_a_conflict_and_deleted_cluster_removes_its_secrets(lab: Lab) -> None:
    here = Plane(lab, namespace="default", wait=2)
    await here.start()
    try:
        payload = {**ensure(), "namespace": lab.namespace}
        payload["spec"]["release"]["namespace"] = lab.namespace
        made = await here.plane.result(here.plane.submit("intent", payload))
        await lab.patch(APPLICATION_INSTANCE, "shop", {"spec": {"chart": {"version": "1.5.0"}}})
        chart = {**payload["spec"]["chart"], "version": "2.0.0"}
        newer = {**payload, "spec": {**payload["spec"], "chart": chart}}
        refused = await here.plane.result(here.plane.submit("intent", newer))
        stored = await lab.get(APPLICATION_INSTANCE, "shop")
        unchanged = {**payload, "spec": {**payload["spec"], "chart": {**chart, "version": "1.5.0"}}}
        agreed = await here.plane.result(here.plane.submit("intent", unchanged))
    finally:
        await lab.client.delete(Cluster, "east")
        await gone(lab, "east")
    assert made.outcome is Outcome.SUCCEEDED
    assert refused.outcome is Outcome.CONFLICT
    assert [one.path for one in refused.conflicts] == [".spec.chart.version"]
    assert stored.get("spec", "chart", "version") == "1.5.0"
    assert agreed.outcome is Outcome.SUCCEEDED  # both managers own the value now
    secrets = {one.name for one in await lab.client.list(SECRET, "default")}
    assert not secrets & {"vworkspace-agent-credentials", "vworkspace-agent-journal"}
