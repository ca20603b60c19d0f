"""Which Operations the events of other objects wake: only the Operations that wait for that very object."""

from typing import Any

import pytest
from apps.operations import Operations, has_object, shows

from konverge.crds.ops_v1alpha1 import Operation
from konverge.kinds import kind_of
from konverge.objects import Object
from konverge.reconcilers.apps.kinds import HELM_RELEASE
from konverge.reconcilers.apps.operations.engines.velero.kinds import BACKUP_STORAGE_LOCATION
from konverge.reconcilers.apps.operations.engines.workflow import WORKFLOW_TEMPLATE
from konverge.reconcilers.apps.operations.settings import OperationSettings
from konverge_testing import Lab, install_crds
from konverge_testing.argo import argo_crds
from konverge_testing.flux import flux_crds
from konverge_testing.velero import velero_crds

TARGETS, EVENTS = 4, 5
HOOK = {"hookName": "migrate"}
RELEASE = {"interval": "5m", "chartRef": {"kind": "OCIRepository", "name": "shop"}}
LOCATION = {"provider": "aws", "objectStorage": {"bucket": "backups"}}


async def started(lab: Lab) -> Operations:
    """Run the controller with targets that offer everything, and their releases, which no controller has deployed."""
    await install_crds(lab.client, [*flux_crds(), *velero_crds(), *argo_crds()])
    ops = await Operations(lab).start(OperationSettings(velero_namespace=lab.namespace))
    for number in range(TARGETS):
        await ops.target(f"app-{number}")
        await lab.create(HELM_RELEASE.new(f"app-{number}", lab.namespace, spec=RELEASE))
    return ops


async def poke(lab: Lab, *found: Object) -> None:
    """Change a label of each object a few times."""
    for number in range(EVENTS):
        for one in found:
            await lab.patch(kind_of(one), one.name, {"metadata": {"labels": {"poke": str(number)}}})
        await lab.settled()


def reconciles(lab: Lab) -> int:
    """The number of all reconciles of Operations."""
    found = lab.metrics.reconcile_total.collect()
    return int(sum(one.value for family in found for one in family.samples if one.name.endswith("_total")))


@pytest.mark.parametrize(
    ("type_", "engine", "parameters", "reason"),
    [
        pytest.param("Upgrade", "helm", {"targetVersion": "1.1.0"}, "AwaitingApproval", id="approval"),
        pytest.param("Migration", "helmHookJob", HOOK, "HookRequiresRelease", id="release"),
        pytest.param("Runbook", "workflow", {"workflowTemplate": "absent"}, "DependencyMissing", id="template"),
        pytest.param("Backup", "velero", {"storageLocation": "absent"}, "DependencyMissing", id="location"),
    ],
)
async def test_an_event_wakes_the_operations_that_wait_for_its_object(
    lab: Lab, type_: str, engine: str, parameters: dict[str, Any], reason: str
) -> None:
    ops = await started(lab)
    for number in range(TARGETS):
        approval: dict[str, Any] = {"approvals": {"required": True}} if reason == "AwaitingApproval" else {}
        await ops.create(f"op-{number}", type_, engine, target=f"app-{number}", parameters=parameters, **approval)
        await ops.until(f"op-{number}", shows("Blocked", "True", reason))
    releases = [await lab.get(HELM_RELEASE, f"app-{number}") for number in range(TARGETS)]
    place = await lab.create(BACKUP_STORAGE_LOCATION.new("other", lab.namespace, spec=LOCATION))
    template = await lab.create(WORKFLOW_TEMPLATE.new("other", lab.namespace, spec={}))
    await lab.settled()
    before = reconciles(lab)
    await poke(lab, *releases, place, template)
    woken = reconciles(lab) - before
    events = EVENTS * TARGETS
    assert woken == (events if reason == "HookRequiresRelease" else 0), f"{woken} reconciles"


async def test_the_object_that_operations_wait_for_starts_them(lab: Lab) -> None:
    ops = await started(lab)
    for number in range(TARGETS):
        wanted = {"workflowTemplate": "wanted"}
        await ops.create(f"op-{number}", "Runbook", "workflow", target=f"app-{number}", parameters=wanted)
        await ops.until(f"op-{number}", shows("Blocked", "True", "DependencyMissing"))
    await lab.create(WORKFLOW_TEMPLATE.new("wanted", lab.namespace, spec={}))
    for number in range(TARGETS):
        await lab.until(Operation, f"op-{number}", has_object, timeout=5)
