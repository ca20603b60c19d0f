"""The life of Operations under the lab's faults: `make test` quickly, `make lab` with every plan.

After every write: no two objects of Operations that exclude each other run for a target; an Operation has never created two objects; a
terminal phase never changes.
"""

import asyncio
from typing import Any

import pytest
from apps.job_controller import JobController
from apps.operation_safety import Safety
from apps.operations import JOB, JOBS_FOR_ALL, Operations, phase, shows

from konverge.crds.ops_v1alpha1 import Operation
from konverge_testing import Lab
from konverge_testing.apiserver.faults.rules import Match, Refuse, Rule

FEW = 18
"""Plans of each scenario in quick mode: the scenarios of a file take turns with the kinds of fault. `make lab` runs all plans."""


def forget_uids(data: dict[str, Any]) -> None:
    """Remove what depends on the UID of an Operation or its Job, or on the time of a reconcile."""
    status = data.get("status") or {}
    for name in ("engineRef", "outputs", "logsRef", "startedAt", "finishedAt"):
        status.pop(name, None)
    for condition in status.get("conditions", ()):
        condition.pop("message", None)


def started(found: Operation) -> bool:
    return found.status.started_at is not None


async def start(lab: Lab, **played: Any) -> Operations:
    Safety(lab)
    lab.may_differ(
        Operation, forget_uids, why="names and times of Jobs depend on UIDs and on how long the process was down"
    )
    lab.may_differ(JOB, why="an Operation that was made anew has another Job, and one whose Job was deleted has none")
    ops = await Operations(lab).start(rows=JOBS_FOR_ALL)
    await lab.enter(JobController(lab.config, lab.namespace, random=lab.rng(), **played))
    await ops.target()
    return ops


@pytest.mark.scenario(quick=FEW)
async def test_a_command_runs_and_ends_and_its_operation_is_deleted(lab: Lab) -> None:
    ops = await start(lab)
    await ops.create()
    await ops.until("run", phase("Succeeded"))
    await lab.delete(Operation, "run")
    await lab.until_gone(Operation, "run")


@pytest.mark.scenario(quick=FEW)
async def test_a_restore_waits_for_a_backup_and_follows_it(lab: Lab) -> None:
    ops = await start(lab)
    await ops.create("backup", "Backup")
    await ops.until("backup", started)
    await ops.create("restore", "Restore")
    await ops.until("restore", phase("Succeeded"))
    await ops.until("backup", phase("Succeeded"))


@pytest.mark.scenario(quick=FEW)
async def test_an_operation_is_cancelled_while_it_runs_and_the_next_one_starts(lab: Lab) -> None:
    ops = await start(lab, seconds=1e6)
    await ops.create("first", "Restore")
    await ops.until("first", started)
    await ops.create("second", "Restore", timeoutSeconds=60)
    await lab.patch(Operation, "first", {"spec": {"cancel": True}})
    await ops.until("first", phase("Cancelled"))
    await lab.until(Operation, "second", shows("Failed", "True", "Timeout"), timeout=120)


DENIED = (
    'jobs.batch is forbidden: User "konverge" cannot create resource "jobs" in API group "batch" in the namespace "lab"'
)


@pytest.mark.scenario(quick=FEW)
async def test_two_operations_without_job_rights_release_their_leases_and_run_later(lab: Lab) -> None:
    ops = await start(lab)
    refuse = Refuse(status=403, reason="Forbidden", message=DENIED)
    denied = Rule(Match(verbs=("create",), resources=("jobs.batch",), user_agent="konverge*"), refuse)
    lab.server.faults.add(denied)
    for name in ("first", "second"):
        await ops.create(name, "Restore")
        await lab.until(Operation, name, shows("Blocked", "True"), timeout=60)
    await asyncio.sleep(200)
    lab.server.faults.remove(denied)
    for name in ("first", "second"):
        await lab.until(Operation, name, lambda found: found.finished, timeout=300)
