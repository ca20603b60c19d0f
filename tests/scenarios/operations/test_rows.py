"""The rows of docs/reference/operations.md#rows: the order of Operations on one target, and the results that no later event changes."""

import asyncio
import json
from collections import Counter
from typing import Any

import pytest
from apps.operations import FREE, JOB, JOBS_FOR_ALL, Operations, completed, phase, shows

from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.crds.ops_v1alpha1 import Operation
from konverge.reconcilers.apps.operations.waiting.turns import LEASE, holders_of, lease_name
from konverge.reconcilers.apps.operations.words import OpAnnotation
from konverge_testing.apiserver.faults.rules import Match, Refuse, Rule, Stale

WAITS = shows("Blocked", "True", "ConflictingOperation")


async def jobs(ops: Operations) -> set[str]:
    """Return the Operations that have a Job."""
    found = await ops.lab.client.list(JOB, ops.lab.namespace)
    return {job.metadata.annotation("ops.vworkspace.io/operation-name").rpartition("/")[2] for job in found}


async def test_x1_a_restore_waits_for_a_running_backup_and_starts_by_itself(ops: Operations) -> None:
    await ops.start(rows=JOBS_FOR_ALL)
    await ops.target()
    await ops.create("backup", "Backup")
    await ops.run_job("backup")
    await ops.until("backup", phase("Running"))
    await ops.create("restore", "Restore")
    waits = await ops.until("restore", phase("Pending"), WAITS)
    assert "Operation backup" in waits.condition("Blocked").message
    for _ in range(3):
        ops.lab.manager.runner("operation").resync_now()
        await ops.lab.settled()
    assert (await ops.get("backup")).status.phase == "Running"
    assert await jobs(ops) == {"backup"}
    await ops.complete("backup")
    await ops.job_of("restore")
    assert (await ops.get("restore")).condition("Blocked").is_false
    await ops.complete("restore")


async def test_x2_operation_never_leaves_a_terminal_phase_or_calls_its_engine_again(ops: Operations) -> None:
    await ops.start(rows=JOBS_FOR_ALL)
    await ops.target()
    await ops.create("backup", "Backup")
    done = await ops.complete("backup")
    await ops.create("restore", "Restore")
    await ops.run_job("restore")
    await ops.until("restore", phase("Running"))
    job = await ops.job_of("backup")
    await ops.lab.delete(JOB, job.name)
    await ops.lab.stop()
    await ops.start(rows=JOBS_FOR_ALL)
    await ops.lab.settled()
    await ops.lab.delete(ApplicationInstance, "shop")
    await ops.lab.until_gone(ApplicationInstance, "shop")
    await ops.lab.settled()
    after = await ops.get("backup")
    assert after.metadata.resource_version == done.metadata.resource_version
    assert await jobs(ops) == {"restore"}
    assert (await ops.get("restore")).status.phase == "Running"


@pytest.mark.parametrize(
    ("running", "waiting"),
    [("Restore", "Upgrade"), ("Upgrade", "Restore"), ("Restore", "Restore"), ("Migration", "Upgrade")],
)
async def test_x3_the_conflict_matrix_is_symmetric(ops: Operations, running: str, waiting: str) -> None:
    await ops.start(rows=JOBS_FOR_ALL)
    await ops.target()
    await ops.create("first", running)
    await ops.run_job("first")
    await ops.until("first", phase("Running"))
    await ops.create("second", waiting)
    await ops.until("second", WAITS)
    assert await jobs(ops) == {"first"}


async def test_x11_simultaneous_operations_start_one_after_another_in_order(ops: Operations) -> None:
    await ops.start(rows=JOBS_FOR_ALL)
    await ops.target()
    names = [f"restore-{number}" for number in range(5)]
    await asyncio.gather(*(ops.create(name, "Restore") for name in names))
    started: list[str] = []
    for _ in names:
        await ops.lab.settled()
        now = await jobs(ops)
        assert len(now) == len(started) + 1, "only one more than those that have ended"
        (name,) = now - set(started)
        started.append(name)
        await ops.complete(name)
    uids = [(await ops.get(name)).metadata.uid for name in started]
    assert uids == sorted(uids), "all have one creationTimestamp, so the UID decides"


async def test_status_writes_of_a_queued_operation_do_not_depend_on_position(ops: Operations) -> None:
    writes: Counter[str] = Counter()

    def count(_call: Any, about: Any, _response: Any) -> None:
        if (about.resource, about.subresource, about.verb) == ("operations", "status", "patch"):
            writes[about.name] += 1

    await ops.start(rows=JOBS_FOR_ALL)
    await ops.target()
    names = [f"restore-{number}" for number in range(8)]
    for name in names:
        await ops.create(name, "Restore")
        await asyncio.sleep(1)
    ops.lab.server.on_call.append(count)
    last = await ops.get(names[-1])
    assert last.condition("Blocked").message == "waits in line: older Operations of its target go first"
    assert "Operation restore-0 has" in (await ops.get(names[1])).condition("Blocked").message
    for name in names:
        await ops.complete(name)
    assert writes[names[-1]] == writes[names[2]], writes


async def test_x11_two_replicas_cannot_both_start_a_conflicting_operation(ops: Operations) -> None:
    """The second process has not seen the first process's writes; the Lease stops it."""
    await ops.start(rows=JOBS_FOR_ALL)
    await ops.target()
    await ops.create("first", "Restore")
    await ops.job_of("first")
    lease = await ops.lab.get(LEASE, lease_name(ops.lab.namespace))
    assert [one.name for one in holders_of(lease)] == ["first"]
    # The status of the first Operation is lost, as for a stale reader: the Lease still names it.
    await ops.lab.stop()
    stored = await ops.get("first")
    await ops.lab.patch(Operation, "first", {"status": None}, subresource="status")
    await ops.create("second", "Restore")
    await ops.start(rows=JOBS_FOR_ALL)
    await ops.lab.settled()
    assert stored.status.engine_ref is not None
    found = await ops.lab.client.list(JOB, ops.lab.namespace)
    assert [job.name for job in found] == [stored.status.engine_ref.name]


EDITED: tuple[str, ...] = (
    "not JSON",
    '{"uid": "5"}',
    '["x", 5, null]',
    "[" * 5_000,
    '[{"uid": 5, "name": null, "target": 5, "type": [], "exclusive": "x", "since": 7}]',
    '[{"uid": "5", "name": "", "target": "shop", "type": "Restore", "exclusive": true, "since": "x"}]',
    '[{"uid": "5", "name": "../pods", "target": "shop", "type": "Restore", "exclusive": true, "since": "x"}]',
    '[{"uid": "5", "name": "gone", "target": "shop", "type": "Restore", "exclusive": true, "since": "x"}]',
)


@pytest.mark.parametrize("holders", EDITED)
async def test_edited_lease_neither_stops_nor_starts_an_operation(ops: Operations, holders: str) -> None:
    await ops.start(rows=JOBS_FOR_ALL)
    await ops.target()
    await ops.create("first", "Restore")
    await ops.job_of("first")
    await ops.lab.patch(
        LEASE, lease_name(ops.lab.namespace), {"metadata": {"annotations": {OpAnnotation.HOLDERS: holders}}}
    )
    await ops.create("second", "Restore")
    await ops.until("second", WAITS)
    await ops.complete("first")
    await ops.complete("second")


@pytest.mark.parametrize("since", ["x", "2999-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
async def test_lease_of_an_operation_that_never_started_blocks_no_other_operation(ops: Operations, since: str) -> None:
    await ops.start(FREE.model_copy(update={"approval_types": frozenset({"Upgrade"})}), rows=JOBS_FOR_ALL)
    await ops.target()
    older = await ops.create("older", "Upgrade")
    await ops.until("older", shows("Blocked", "True", "AwaitingApproval"))
    holder = {
        "uid": older.metadata.uid,
        "name": "older",
        "target": "shop",
        "type": "Upgrade",
        "exclusive": False,
        "since": since,
    }
    await ops.lab.create(
        LEASE.new(
            lease_name(ops.lab.namespace), ops.lab.namespace, annotations={OpAnnotation.HOLDERS: json.dumps([holder])}
        )
    )
    await ops.create("younger", "Restore")
    await ops.complete("younger")


async def test_backups_and_commands_run_beside_each_other(ops: Operations) -> None:
    await ops.start(rows=JOBS_FOR_ALL)
    await ops.target()
    for name, type_ in {"a": "Backup", "b": "Backup", "c": "RunCommand", "d": "Runbook", "e": "Upgrade"}.items():
        await ops.create(name, type_)
    await ops.lab.settled()
    assert await jobs(ops) == set("abcde")


async def test_an_exclusive_command_runs_alone(ops: Operations) -> None:
    await ops.start(rows=JOBS_FOR_ALL)
    await ops.target()
    await ops.create("alone", parameters={"image": "busybox", "exclusive": True})
    await ops.job_of("alone")
    await ops.create("backup", "Backup")
    await ops.until("backup", WAITS)
    await ops.complete("alone")
    await ops.job_of("backup")


async def test_operations_of_different_targets_do_not_wait_for_each_other(ops: Operations) -> None:
    await ops.start(rows=JOBS_FOR_ALL)
    await ops.target("one")
    await ops.target("two")
    await ops.create("first", "Restore", target="one")
    await ops.create("second", "Restore", target="two")
    await ops.lab.settled()
    assert await jobs(ops) == {"first", "second"}


async def test_an_operation_that_cannot_start_lets_a_younger_one_overtake(ops: Operations) -> None:
    """The older Operation waits for an approval: it is not in the queue."""
    await ops.start(FREE.model_copy(update={"approval_types": frozenset({"Restore"})}), rows=JOBS_FOR_ALL)
    await ops.target()
    await ops.create("older", "Restore")
    await ops.until("older", shows("Blocked", "True", "AwaitingApproval"))
    await ops.create("younger", "Backup")
    await ops.job_of("younger")


async def test_job_that_ended_unseen_by_its_operation_is_not_created_again(ops: Operations) -> None:
    await ops.start()
    await ops.target()
    await ops.create()
    job = await ops.job_of()
    await ops.lab.stop()
    await ops.write_job(job, completed())
    await ops.start()
    await ops.until("run", phase("Succeeded"))
    assert [one.metadata.uid for one in await ops.lab.client.list(JOB, ops.lab.namespace)] == [job.metadata.uid]


async def test_a_younger_operation_does_not_supersede_one_that_waits(ops: Operations) -> None:
    """The original documents Cancelled/SupersededByOperation; here each Operation runs, one after the other."""
    await ops.start(rows=JOBS_FOR_ALL)
    await ops.target()
    await ops.create("runs", "Upgrade")
    await ops.job_of("runs")
    for name in ("older", "younger"):
        await ops.create(name, "Upgrade")
        await ops.until(name, WAITS)
        await asyncio.sleep(1)
    for name in ("runs", "older", "younger"):
        done = await ops.complete(name)
        assert done.find_condition("Cancelled") is None


async def test_a_process_that_begins_with_an_old_list_makes_no_second_object(ops: Operations) -> None:
    """A lagging API server returns the Operation as it was between the hold and the object; the object has ended since and was deleted."""
    await ops.start()
    await ops.target()
    refused = Rule(Match(verbs=("create",), resources=("jobs.batch",)), Refuse(status=500))
    ops.lab.server.faults.add(refused)
    await ops.create()
    turn = await ops.until("run", lambda found: found.status.engine_ref is not None)
    ops.lab.server.faults.remove(refused)
    job = await ops.job_of()
    done = await ops.complete()
    await ops.lab.delete(JOB, job.name)
    await ops.lab.until_gone(JOB, job.name)
    await ops.lab.stop()
    old = Stale(version=int(turn.metadata.resource_version), seconds=300)
    reads = Match(verbs=("list", "watch"), resources=("operations.ops.vworkspace.io",))
    ops.lab.server.faults.add(Rule(reads, old))
    calls: set[tuple[str, str]] = set()
    ops.lab.server.on_call.append(lambda _call, about, _: calls.add((about.verb, about.resource)))
    await ops.run()
    await asyncio.sleep(400)
    assert ("get", "operations") in calls, "it has been shown the old Operation, and reads the stored one"
    assert ("create", "jobs") not in calls
    assert (await ops.get()).metadata.resource_version == done.metadata.resource_version
