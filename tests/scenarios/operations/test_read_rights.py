"""Operations of an operator that lacks a right to read: no Operation is reported as lost, and none runs twice.

An Operation whose object cannot exist gives up its hold on the target. If the object may exist, the Operation keeps the hold and reports
it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

import pytest
from apps.engine_shop import KINDS, EngineShop
from apps.operation_safety import UID
from apps.operations import COMMAND, JOB, completed, phase, shows
from apps.rights import LACKING, NarrowShop, deny, grant

from konverge.clock import rfc3339, wall_clock
from konverge.crds.ops_v1alpha1 import Operation
from konverge.kinds import kind
from konverge.reconcilers.apps.operations.waiting.turns import LEASE, holders_of, lease_name
from konverge_testing import Lab
from konverge_testing.apiserver.faults.rules import Match, Refuse, Rule
from konverge_testing.argo import Step

JOBS = ("jobs", "batch")
BACKUPS = ("backups", "velero.io")
SUCCEEDED = phase("Succeeded")
EVENT = kind("events.k8s.io/v1", "Event", namespaced=True, plural="events")
KEEPS = "it keeps its turn"


@pytest.fixture
async def shop(lab: Lab) -> AsyncIterator[EngineShop]:
    async with AsyncExitStack() as stack:
        yield await NarrowShop(lab, stack).open()


async def command(shop: EngineShop, name: str = "run", **parameters: Any) -> Operation:
    return await shop.create(name, parameters={**COMMAND, "exclusive": True, **parameters})


async def made_by(shop: EngineShop, operation: Operation, what: Any) -> list[str]:
    found = await shop.lab.client.list(what, shop.lab.namespace)
    return [one.name for one in found if one.metadata.label(UID) == operation.metadata.uid]


async def notes(shop: EngineShop, name: str) -> list[str]:
    """Return the texts of the Events about an Operation."""
    found = await shop.lab.client.list(EVENT, shop.lab.namespace)
    return [str(one.get("note")) for one in found if one.get("regarding", "name") == name]


Create = Callable[[EngineShop], Any]
OF_EACH: list[Any] = [
    pytest.param("Backup", *BACKUPS, lambda shop: shop.backup("it"), id="velero"),
    pytest.param("Workflow", "workflows", "argoproj.io", lambda shop: shop.runbook("it"), id="workflow"),
    pytest.param(
        "ReplicationSource", "replicationsources", "volsync.backube", lambda shop: shop.replicate("it"), id="volsync"
    ),
    pytest.param(
        "Backup", "operations", "ops.vworkspace.io", lambda shop: shop.backup("it"), id="the Operation itself"
    ),
]


@pytest.mark.parametrize(("kind_name", "resource", "group", "create"), OF_EACH)
async def test_operation_without_read_rights_releases_its_lease_and_creates_one_object_later(
    shop: EngineShop, kind_name: str, resource: str, group: str, create: Create
) -> None:
    denied = deny(shop.lab, "get", resource, group)
    made = await create(shop)
    found = await shop.until("it", LACKING)
    assert f"the operator lacks the right to get {resource} of API group {group}" in found.condition("Blocked").message
    back = await shop.lab.until(Operation, "it", lambda one: LACKING(one) and not one.status.started_at, timeout=120)
    assert back.status.engine_ref is None
    assert "it" not in [one.name for one in holders_of(await shop.lab.get(LEASE, lease_name(shop.lab.namespace)))]
    await asyncio.sleep(100)
    before = (await shop.lab.get(Operation, "it")).metadata.resource_version
    await asyncio.sleep(1800)
    after = await shop.lab.get(Operation, "it")
    assert after.metadata.resource_version == before, "no turn is taken for nothing"
    assert await made_by(shop, made, KINDS[kind_name]) == []
    grant(shop.lab, denied)
    await shop.lab.until(Operation, "it", SUCCEEDED, timeout=120)
    assert len(await made_by(shop, made, KINDS[kind_name])) == 1


async def test_another_operation_runs_while_an_operation_lacks_read_rights(shop: EngineShop) -> None:
    deny(shop.lab, "get", *BACKUPS)
    await shop.backup()
    await shop.until("backup", LACKING)
    await shop.replicate("back", "Restore")
    await shop.lab.until(Operation, "back", SUCCEEDED, timeout=150)
    assert LACKING(await shop.lab.get(Operation, "backup"))


async def claimed_by_an_earlier_process(shop: EngineShop, *, made: bool, days: int = 0) -> Operation:
    """Leave a command as after a crash between the creation of its Job and the report of it; returns the command."""
    operation = await command(shop)
    job = await shop.job_of()
    found = await shop.get()
    await shop.lab.stop()
    if not made:
        await shop.lab.delete(JOB, job.name)
        await shop.lab.until_gone(JOB, job.name)
    ref = {**found.to_dict()["status"]["engineRef"], "uid": None}
    status = {"phase": "Pending", "startedAt": rfc3339(wall_clock() - timedelta(days=days)), "engineRef": ref}
    await shop.lab.patch(Operation, "run", {"status": status}, subresource="status")
    return operation


async def test_object_created_by_an_earlier_process_is_recognized_without_read_rights(shop: EngineShop) -> None:
    operation = await claimed_by_an_earlier_process(shop, made=True)
    deny(shop.lab, "get", *JOBS)
    await shop.restarted()
    job = await shop.job_of()
    await asyncio.sleep(300)
    assert (await shop.get()).status.started_at, "its Job may be at work"
    await shop.write_job(job, completed())
    await shop.until("run", SUCCEEDED)
    assert await made_by(shop, operation, JOB) == [job.name]


@pytest.mark.parametrize("made", [True, False], ids=["its Job exists", "it has no Job"])
async def test_operation_with_a_possible_unseen_object_keeps_its_lease_and_reports_it(
    shop: EngineShop, made: bool
) -> None:
    operation = await claimed_by_an_earlier_process(shop, made=made)
    denied = [deny(shop.lab, verb, *JOBS) for verb in ("get", "list", "watch")]
    await shop.restarted(wait=False)
    found = await shop.until("run", LACKING)
    assert KEEPS in found.condition("Blocked").message
    await command(shop, "other")
    await asyncio.sleep(400)
    kept = await shop.get()
    assert (bool(kept.status.started_at), kept.status.phase) == (True, "Pending")
    assert not (await shop.get("other")).status.started_at
    assert any("get jobs of API group batch" in one and KEEPS in one for one in await notes(shop, "run"))
    grant(shop.lab, *denied)
    job = await shop.job_of()
    await shop.write_job(job, completed())
    await shop.until("run", SUCCEEDED)
    await shop.job_of("other")
    assert await made_by(shop, operation, JOB) == [job.name]


async def test_object_that_may_have_existed_is_not_created_a_second_time(shop: EngineShop) -> None:
    """A finished Job is kept for a day: later a list without the Job proves nothing."""
    operation = await claimed_by_an_earlier_process(shop, made=False, days=2)
    deny(shop.lab, "get", *JOBS)
    await shop.restarted()
    found = await shop.until("run", LACKING)
    assert KEEPS in found.condition("Blocked").message
    await asyncio.sleep(600)
    assert (await shop.get()).status.started_at
    assert await made_by(shop, operation, JOB) == []


async def test_object_missing_from_the_cache_is_not_lost_before_a_read(shop: EngineShop) -> None:
    await command(shop)
    job = await shop.job_of()
    denied = deny(shop.lab, "get", *JOBS)
    await shop.lab.delete(JOB, job.name)
    found = await shop.until("run", LACKING)
    assert KEEPS in found.condition("Blocked").message
    await asyncio.sleep(3600)
    assert (await shop.get()).status.phase in {"Pending", "Running"}
    grant(shop.lab, denied)
    await shop.lab.until(Operation, "run", phase("Failed"), timeout=120)
    assert shows("Failed", "True", "EngineObjectLost")(await shop.get())


async def test_a_job_that_ends_is_seen_without_the_right_to_watch_jobs(shop: EngineShop) -> None:
    await command(shop)
    job = await shop.run_job()
    denied = [deny(shop.lab, verb, *JOBS) for verb in ("list", "watch")]
    found = await shop.lab.until(Operation, "run", LACKING, timeout=1000)
    assert (found.status.phase, found.condition("Running").is_true) == ("Running", True)
    assert "the operator lacks the right to list, watch jobs of API group batch" in found.condition("Blocked").message
    await shop.write_job(job, completed())
    await shop.lab.until(Operation, "run", SUCCEEDED, timeout=60)
    assert len(denied) == 2


async def test_operation_of_an_unwatchable_engine_waits_without_a_lease_until_allowed(shop: EngineShop) -> None:
    denied = [deny(shop.lab, verb, *BACKUPS) for verb in ("list", "watch")]
    await asyncio.sleep(1000)  # until the open watch ends
    await shop.backup()
    found = await shop.until("backup", LACKING)
    assert not found.status.started_at
    assert "list, watch backups of API group velero.io" in found.condition("Blocked").message
    await shop.runbook()
    await shop.until("runbook", SUCCEEDED)
    grant(shop.lab, *denied)
    await shop.lab.until(Operation, "backup", SUCCEEDED, timeout=120)


async def test_engine_that_may_not_be_listed_blocks_only_its_own_operations(shop: EngineShop) -> None:
    await shop.lab.stop()
    denied = [deny(shop.lab, verb, *BACKUPS) for verb in ("list", "watch")]
    await shop.restarted(wait=False)
    await shop.backup()
    found = await shop.until("backup", LACKING)
    assert "list, watch backups of API group velero.io" in found.condition("Blocked").message
    await shop.runbook()
    await shop.until("runbook", SUCCEEDED)
    assert "backups" in str(shop.lab.manager.report()), "readiness names it as well"
    grant(shop.lab, *denied)
    await shop.lab.until(Operation, "backup", SUCCEEDED, timeout=120)


async def test_stopping_operation_does_not_end_while_its_object_may_exist_unlisted(shop: EngineShop) -> None:
    """The first list is rejected, then fails: the kind may exist, so its object may be running."""
    await command(shop)
    job = await shop.run_job()
    await shop.lab.stop()
    denied = [deny(shop.lab, verb, *JOBS) for verb in ("list", "watch")]
    await shop.restarted(wait=False)
    await shop.until("run", LACKING)
    failing = Rule(
        Match(verbs=("list", "watch"), resources=("jobs.batch",), user_agent="konverge *"), Refuse(status=503)
    )
    shop.lab.server.faults.add(failing)
    grant(shop.lab, *denied)
    await asyncio.sleep(120)
    await shop.cancel("run")
    await asyncio.sleep(120)
    assert (await shop.get()).status.phase == "Running"
    assert not (await shop.lab.get(JOB, job.name)).get("spec", "suspend")
    grant(shop.lab, failing)
    await shop.lab.until(Operation, "run", shows("Running", "True", "Stopping"), timeout=120)


async def test_end_in_the_cache_is_reported_without_the_right_to_read(shop: EngineShop) -> None:
    """After a restart the age of an object's last write is read live; a missing right for this read blocks no hold."""
    shop.velero.seconds[shop.lab.namespace] = 36_000.0
    await shop.backup()
    child = await shop.child("Backup", "backup")
    await asyncio.sleep(1200)
    await shop.lab.stop()
    await shop.kill_velero()
    denied = deny(shop.lab, "get", *BACKUPS)
    await shop.restarted()
    found = await shop.until("backup", LACKING)
    assert "get backups of API group velero.io" in found.condition("Blocked").message
    await shop.lab.stop()
    grant(shop.lab, denied)
    await shop.lab.patch(KINDS["Backup"], child.name, {"status": {"phase": "Completed"}})
    deny(shop.lab, "get", *BACKUPS)
    await shop.restarted()
    await shop.until("backup", SUCCEEDED)


async def test_a_cancel_is_sent_although_the_last_write_may_not_be_read(shop: EngineShop) -> None:
    shop.argo.steps["runbook"] = (Step("slow", seconds=36_000.0),)
    await shop.runbook()
    await shop.child("Workflow", "runbook")
    await asyncio.sleep(1200)
    await shop.lab.stop()
    deny(shop.lab, "get", "workflows", "argoproj.io")
    await shop.restarted()
    await shop.cancel("runbook")
    await shop.until("runbook", phase("Cancelled"))
