"""The tests of the tutorial: the decision by a table, the webhook without a server, and the operator in the lab (docs/tutorial/lab.md)."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import konverge as kv
from konverge.clock import rfc3339
from konverge_testing import Lab, Workloads, admit
from tutorial import build
from tutorial.clock import last_due, seconds_until_next
from tutorial.decide import decide
from tutorial.jobs import JOB, job_of
from tutorial.model import CronJob, CronJobSpec, JobTemplate
from tutorial.webhook import NAMESPACE, SHORTEST, WEBHOOK

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
POD = {"restartPolicy": "Never", "containers": [{"name": "hello", "image": "example.com/hello:1"}]}
HISTORY = 2


def cron_job(**fields: Any) -> CronJob:
    template = JobTemplate(spec={"template": {"spec": POD}})
    given: dict[str, Any] = {"every_minutes": 60, **fields}
    cron = CronJob.new("hello", "web", spec=CronJobSpec(job_template=template, **given))
    return CronJob.decode(
        {
            **cron.to_dict(),
            "metadata": {"name": "hello", "namespace": "web", "creationTimestamp": rfc3339(NOON - timedelta(days=1))},
        }
    )


def job(hour: int, result: str = "") -> kv.Object:
    data = job_of(cron_job(), NOON.replace(hour=hour)).to_dict()
    conditions = [{"type": result, "status": "True"}] if result else []
    return JOB.decode({**data, "status": {"conditions": conditions}})


@pytest.mark.parametrize(
    ("fields", "jobs", "starts", "deletes"),
    [
        ({}, [], True, []),
        ({}, [job(12)], False, []),
        ({}, [job(11)], True, []),
        ({"suspend": True}, [], False, []),
        ({"concurrency_policy": "Forbid"}, [job(11)], False, []),
        ({"concurrency_policy": "Forbid"}, [job(11, "Complete")], True, []),
        ({"concurrency_policy": "Replace"}, [job(11)], True, [11]),
        ({"successful_jobs_history_limit": 1}, [job(10, "Complete"), job(12, "Complete")], False, [10]),
        ({"failed_jobs_history_limit": 0}, [job(11, "Complete"), job(12, "Failed")], False, [12]),
    ],
)
def test_decision_follows_from_the_spec_and_the_jobs(
    fields: dict[str, Any], jobs: list[kv.Object], starts: bool, deletes: list[int]
) -> None:
    decision = decide(cron_job(**fields), jobs, NOON + timedelta(minutes=5))
    assert decision.due == (NOON if starts else None)
    assert [each.name for each in decision.deletes] == [job(hour).name for hour in deletes]


def test_time_missed_beyond_the_starting_deadline_is_skipped() -> None:
    spec = cron_job(every_minutes=30, starting_deadline_seconds=60).spec
    morning = NOON - timedelta(hours=12)
    assert last_due(spec, morning, NOON + timedelta(seconds=59)) == NOON
    assert last_due(spec, morning, NOON + timedelta(seconds=61)) is None
    assert last_due(spec, NOON, NOON + timedelta(seconds=1)) is None
    assert seconds_until_next(spec, NOON + timedelta(minutes=10)) == 20 * 60


@pytest.mark.asyncio
async def test_namespace_limits_how_often_a_job_starts() -> None:
    web = NAMESPACE.new("web", labels={SHORTEST: "30"})
    refused = await admit(WEBHOOK, cron_job(every_minutes=5), cache=[web])
    assert (refused.allowed, refused.message) == (False, "web allows a Job each 30 minutes")
    allowed = await admit(WEBHOOK, cron_job(starting_deadline_seconds=5), cache=[web])
    assert allowed.allowed
    assert len(allowed.warnings) == 1


async def test_jobs_of_a_deleted_cron_job_are_deleted(lab: Lab) -> None:
    await lab.start(build)
    cron = await lab.create(CronJob.new("hello", spec=cron_job(every_minutes=1).spec))
    await lab.until(CronJob, "hello", lambda cron: bool(cron.status.active), timeout=120)
    name = (await lab.get(CronJob, "hello")).status.active
    assert name
    await lab.delete(CronJob, cron.name)
    await lab.until_gone(JOB, name[0])


@pytest.mark.scenario
async def test_cron_job_starts_at_each_due_time_and_keeps_recent_jobs(lab: Lab) -> None:
    lab.may_differ(JOB, why="which moments had a Job depends on when the process was up")
    lab.clock_ends(after=4 * 3600.0 + 20 * 60.0)  # between two due times
    moment = "a process that was down, or a CronJob that was recreated, starts its Job at another moment"
    lab.may_differ(CronJob, "status.lastScheduleTime", "status.active", why=moment)
    lab.skip_plans("the namespace is deleted *", why="nothing can be scheduled in it")

    def never_too_many() -> None:
        jobs = lab.server.store.list(("batch", "jobs"), lab.namespace)
        assert len(jobs) <= HISTORY + 2, f"{len(jobs)} Jobs"

    lab.always.append(never_too_many)
    await lab.enter(Workloads(lab.config, JOB, namespace=lab.namespace, seconds=60, random=lab.rng()))
    await lab.start(build)
    spec = cron_job(concurrency_policy="Forbid", successful_jobs_history_limit=HISTORY).spec
    await lab.create(CronJob.new("hello", spec=spec))
    await asyncio.sleep(3600)
    slow = 26 * 3600  # the clock of a leader may be a day behind: it starts the first Job a day late
    await lab.until(CronJob, "hello", lambda cron: bool(cron.status.last_schedule_time), timeout=slow)
