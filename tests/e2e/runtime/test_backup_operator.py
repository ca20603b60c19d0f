"""The program of the README and its life: a user's first operator on a real API server."""

from types import ModuleType
from typing import Any

import pytest

import konverge as kv
from konverge.kinds import kind
from konverge_testing import Lab

pytestmark = pytest.mark.control_plane

CRON_JOB = kind("batch/v1", "CronJob")
SECRET = kind("v1", "Secret")
EVENT = kind("events.k8s.io/v1", "Event")


def backup(module: ModuleType, name: str = "nightly", **spec: Any) -> Any:
    return module.Backup.new(name, spec=module.BackupSpec(schedule="0 3 * * *", **spec))


async def ready(lab: Lab, module: ModuleType, name: str = "nightly") -> Any:
    await lab.start(module.build)
    await lab.create(SECRET.new("target", data={"url": "czM6Ly9i"}))
    await lab.create(backup(module, name))
    return await lab.until(module.Backup, name, kv.is_true("Ready"))


async def test_a_backup_waits_for_its_secret(lab: Lab, backup_operator: ModuleType) -> None:
    await lab.start(backup_operator.build)
    await lab.create(backup(backup_operator))
    waiting = await lab.until(backup_operator.Backup, "nightly", kv.is_false("Ready"))
    assert waiting.condition("Ready").reason == "SecretMissing"
    await lab.create(SECRET.new("target", data={"url": "czM6Ly9i"}))
    done = await lab.until(backup_operator.Backup, "nightly", kv.is_true("Ready"))
    assert done.status.cron_job == "nightly"
    assert done.status.observed_generation == done.generation


async def test_the_child_is_owned_and_follows_the_spec(lab: Lab, backup_operator: ModuleType) -> None:
    owner = await ready(lab, backup_operator)
    job = await lab.get(CRON_JOB, "nightly")
    reference = job.metadata.controller
    assert reference is not None
    assert (reference.uid, reference.kind, reference.block_owner_deletion) == (owner.uid, "Backup", True)
    await lab.patch(backup_operator.Backup, "nightly", {"spec": {"schedule": "0 4 * * *"}})
    await lab.until(CRON_JOB, "nightly", lambda job: job.spec["schedule"] == "0 4 * * *")


async def test_a_child_deleted_by_hand_comes_back(lab: Lab, backup_operator: ModuleType) -> None:
    await ready(lab, backup_operator)
    before = (await lab.get(CRON_JOB, "nightly")).metadata.uid
    await lab.delete(CRON_JOB, "nightly")
    await lab.until(CRON_JOB, "nightly", lambda job: job.metadata.uid != before)


async def test_edited_own_field_is_reverted_and_foreign_field_is_left(lab: Lab, backup_operator: ModuleType) -> None:
    await ready(lab, backup_operator)
    await lab.patch(CRON_JOB, "nightly", {"spec": {"schedule": "1 1 * * *", "suspend": True}})
    job = await lab.until(CRON_JOB, "nightly", lambda job: job.spec["schedule"] == "0 3 * * *")
    assert job.spec["suspend"] is True


async def test_nothing_is_written_at_rest(lab: Lab, backup_operator: ModuleType) -> None:
    await ready(lab, backup_operator)
    await lab.settled()
    sent = lab.metrics.registry.get_sample_value
    before = sent("konverge_applies_total", {"controller": "backup", "kind": "CronJob", "result": "sent"})
    version = (await lab.get(backup_operator.Backup, "nightly")).metadata.resource_version
    runner = lab.manager.runner("backup")
    for _ in range(10):
        runner.resync_now()
        await lab.settled(quiet=0.1)
    assert sent("konverge_applies_total", {"controller": "backup", "kind": "CronJob", "result": "sent"}) == before
    assert (await lab.get(backup_operator.Backup, "nightly")).metadata.resource_version == version
    assert runner.history.recent()[-1].writes == ()


async def test_a_restart_finds_everything_in_place_and_writes_nothing(lab: Lab, backup_operator: ModuleType) -> None:
    await ready(lab, backup_operator)
    await lab.settled()
    await lab.stop()
    await lab.start(backup_operator.build)
    await lab.settled()
    passes = lab.manager.runner("backup").history.recent()
    assert passes
    assert all(record.writes == () for record in passes), passes


async def test_every_transition_is_one_event(lab: Lab, backup_operator: ModuleType) -> None:
    await lab.start(backup_operator.build)
    await lab.create(backup(backup_operator))
    await lab.until(backup_operator.Backup, "nightly", kv.is_false("Ready"))
    await lab.create(SECRET.new("target", data={"url": "czM6Ly9i"}))
    await lab.until(backup_operator.Backup, "nightly", kv.is_true("Ready"))
    await lab.settled()
    await lab.stop()
    events = [
        event
        for event in (await lab.client.list(EVENT, lab.namespace)).items
        if event.get("regarding", "kind") == "Backup"
    ]
    assert sorted(event.get("reason") for event in events) == ["Scheduled", "SecretMissing"]
    assert {event.get("reportingController") for event in events} == {"lab"}


async def test_deletion_collects_the_child(lab: Lab, backup_operator: ModuleType) -> None:
    await ready(lab, backup_operator)
    await lab.delete(backup_operator.Backup, "nightly")
    await lab.until_gone(CRON_JOB, "nightly", timeout=75)  # the collector looks for new kinds of owners twice a minute


async def test_the_reasons_of_a_reconcile_are_known(lab: Lab, backup_operator: ModuleType) -> None:
    await ready(lab, backup_operator)
    await lab.settled()
    reasons = [reason for record in lab.manager.runner("backup").history.recent() for reason in record.reasons]
    assert "created" in reasons
    assert any(reason.startswith("owned CronJob") for reason in reasons)
    [told] = lab.manager.explain("bk", lab.namespace, "nightly")
    assert told["reconciles"][0]["outcome"] == "Done"
