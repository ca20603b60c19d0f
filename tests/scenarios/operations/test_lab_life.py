"""Approval and retention of Operations, and an upgrade, under the lab's faults: `make test` quickly, `make lab` with every plan.

After every write: no two objects of Operations that exclude each other run for a target; an Operation has never created two objects; a
terminal phase never changes; no Operation begins without an approval of its current parameters.
"""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from apps.job_controller import JobController
from apps.lab import QUICK
from apps.operation_safety import Safety
from apps.operations import FREE, JOB, JOBS_FOR_ALL, Operations, has_object, phase, shows

from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.crds.ops_v1alpha1 import Operation
from konverge.reconcilers import apps
from konverge.reconcilers.apps.operations.settings import OperationSettings
from konverge.reconcilers.apps.operations.waiting.approval import claim_for
from konverge_testing import Lab, install_crds
from konverge_testing.flux import HelmController, World, flux_crds

FEW = 12
"""Plans of each scenario in quick mode: the lives are long. `make lab` runs all plans."""


def forget_uids(data: dict[str, Any]) -> None:
    """Remove what depends on the UID of an Operation or its Job, or on the time of a reconcile."""
    status = data.get("status") or {}
    for name in ("engineRef", "outputs", "logsRef", "startedAt", "finishedAt"):
        status.pop(name, None)
    for condition in status.get("conditions", ()):
        condition.pop("message", None)


async def start(lab: Lab, settings: OperationSettings) -> Operations:
    Safety(lab)
    lab.may_differ(
        Operation, forget_uids, why="names and times of Jobs depend on UIDs and on how long the process was down"
    )
    lab.may_differ(JOB, why="an Operation that was made anew has another Job, and one whose Job was deleted has none")
    ops = await Operations(lab).start(settings, rows=JOBS_FOR_ALL, cluster_id="east")
    await lab.enter(JobController(lab.config, lab.namespace, random=lab.rng()))
    await ops.target()
    return ops


async def approve(lab: Lab, approved: Operation) -> None:
    claim = claim_for(approved, cluster="east", expires=datetime(2040, 1, 1, tzinfo=UTC))
    await lab.patch(Operation, approved.name, {"spec": {"approvals": {"claim": claim}}})


@pytest.mark.scenario(quick=FEW)
async def test_an_operation_that_was_changed_after_its_approval_waits_for_another_one(lab: Lab) -> None:
    def only_what_was_approved() -> None:
        for entry in lab.server.store.list(("batch", "jobs")):
            (container,) = entry.object()["spec"]["template"]["spec"]["containers"]
            assert container["image"] == "restic:2", "a Job runs what was not approved"

    lab.always.append(only_what_was_approved)
    ops = await start(lab, FREE.model_copy(update={"approval_types": frozenset({"Restore"})}))
    first = await ops.create("restore", "Restore", parameters={"image": "restic:1"})
    await ops.until("restore", shows("Blocked", "True", "AwaitingApproval"))
    changed = await lab.patch(Operation, "restore", {"spec": {"parameters": {"image": "restic:2"}}})
    await approve(lab, first)
    await ops.until("restore", lambda found: "for another digest" in _said(found))
    await approve(lab, changed)
    await ops.until("restore", phase("Succeeded"))


def _said(found: Operation) -> str:
    blocked = found.find_condition("Blocked")
    return "" if blocked is None else blocked.message


@pytest.mark.scenario(quick=FEW)
async def test_finished_operations_are_deleted_after_their_ttl_or_by_history_limit(lab: Lab) -> None:
    ops = await start(lab, FREE.model_copy(update={"history_limit": 1}))
    await ops.create("short", "Backup", ttlSecondsAfterFinished=20)
    await lab.until_gone(Operation, "short", timeout=120)
    await ops.create("older", "Upgrade")
    await ops.until("older", phase("Succeeded"))
    await asyncio.sleep(2)  # of virtual time: ends are compared in whole seconds
    await ops.create("younger", "Upgrade")
    await lab.until_gone(Operation, "older", timeout=120)
    await ops.until("younger", phase("Succeeded"))


def forget_releases(data: dict[str, Any]) -> None:
    """Remove Flux's history of a release, and annotations with the UID of a source."""
    for name in ("applied-source", "applied-chart-digest", "last-applied-generation"):
        (data["metadata"].get("annotations") or {}).pop(f"vworkspace.io/{name}", None)
    # A release that has been waiting for long, after an outage for instance, gets a reconcile request for Flux.
    (data["metadata"].get("annotations") or {}).pop("reconcile.fluxcd.io/requestedAt", None)
    if data["kind"] == "HelmRelease" and "status" in data:
        standing = [{"type": one["type"], "status": one["status"]} for one in data["status"].get("conditions", ())]
        data["status"] = {"conditions": standing}
    if data["kind"] == "Operation":
        forget_uids(data)
        for name in (
            "phase",
            "conditions",
        ):  # Failed if its target was replaced in between; the scenario reads the reason
            data.get("status", {}).pop(name, None)


def succeeded_or_target_replaced(found: Operation) -> bool:
    """Another client may replace the instance in between: the old instance is missing then, or Blocked until its predecessor's release is
    deleted.
    """
    lost = any(shows("Failed", "True", reason)(found) for reason in ("EngineObjectLost", "PolicyDenied"))
    return phase("Succeeded")(found) or lost


def _version(lab: Lab) -> str:
    for entry in lab.server.store.list(("apps.vworkspace.io", "applicationinstances")):
        return str(entry.object()["spec"]["chart"]["version"])
    return ""


@pytest.mark.scenario(quick=FEW)
async def test_an_upgrade_changes_the_instance_once_and_the_version_stays(lab: Lab) -> None:
    versions: list[str] = []

    def only_forwards() -> None:
        now = _version(lab)
        if now and now != (versions[-1] if versions else ""):
            versions.append(now)
        assert versions in ([], ["1.0.0"], ["1.0.0", "1.1.0"]), f"the version went {' -> '.join(versions)}"

    lab.always.append(only_forwards)
    await start_helm(lab)
    await lab.create(upgrade("1.1.0"))
    await lab.until(Operation, "up", succeeded_or_target_replaced, timeout=60)


@pytest.mark.scenario(quick=FEW)
async def test_upgrade_whose_chart_never_loads_is_cancelled_and_next_upgrade_starts(lab: Lab) -> None:
    world = World()
    registry = {"sourceType": "oci", "url": "oci://charts.example.com"}
    await start_helm(lab, world, chart=registry, settled_types=frozenset())
    world.versions = {"1.0.0"}
    await lab.create(upgrade("1.1.0"))
    await lab.until(Operation, "up", lambda found: found.finished or has_object(found), timeout=60)
    await lab.create(upgrade("1.0.0", "back"))
    await lab.patch(Operation, "up", {"spec": {"cancel": True}})
    await lab.until(Operation, "up", lambda found: found.finished, timeout=120)
    await lab.until(Operation, "back", succeeded_or_target_replaced, timeout=120)


def upgrade(version: str, name: str = "up") -> Operation:
    target = {"apiVersion": "apps.vworkspace.io/v1alpha1", "kind": "ApplicationInstance", "name": "shop"}
    given = {"targetRef": target, "type": "Upgrade", "engine": "helm", "parameters": {"targetVersion": version}}
    return Operation.decode({"metadata": {"name": name}, "spec": given})


REPOSITORY = {"sourceType": "helm", "url": "https://charts.example.com"}


async def start_helm(
    lab: Lab, world: World | None = None, *, chart: dict[str, str] = REPOSITORY, **settings: Any
) -> None:
    """Start the family with Flux below it, and create an instance."""
    Safety(lab)
    lab.may_differ(None, forget_releases, why="what Flux reports of the past of a release depends on the faults")
    lab.skip_plans(
        "applicationinstances*: recreate by hand *",
        why="an Upgrade ends with the instance that it was accepted for: its successor is another target",
    )
    await install_crds(lab.client, flux_crds())
    await lab.enter(HelmController(lab.config, namespace=lab.namespace, world=world, random=lab.rng()))
    only_helm = QUICK.model_copy(update={"operations": OperationSettings(engines=frozenset({"helm"}), **settings)})
    await lab.start(lambda manager: apps.install(manager, only_helm), name="konverge")
    spec = {
        "appRef": {"catalogId": "shop"},
        "chart": {**chart, "name": "shop", "version": "1.0.0"},
        "release": {"name": "shop", "namespace": lab.namespace},
        "values": {"source": "inline", "inline": {"replicas": 1}},
    }
    metadata = {"name": "shop", "annotations": {"ops.vworkspace.io/upgrade": "helm"}}
    await lab.create(ApplicationInstance.decode({"metadata": metadata, "spec": spec}))
