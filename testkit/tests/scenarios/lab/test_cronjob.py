"""The CronJob of the kubebuilder tutorial: an operator that depends on the clock, and whose end state depends on time and history.

https://book.kubebuilder.io/cronjob-tutorial/controller-implementation
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Literal, Self

import pytest

import konverge as kv
from konverge.clock import from_rfc3339, rfc3339, wall_clock
from konverge_testing import Lab

JOB = kv.kind("batch/v1", "Job")
DUE = "batch.tutorial.kubebuilder.io/scheduled-at"


class CronJobSpec(kv.Model):
    every_minutes: int
    """The tutorial has a schedule in the form of cron, which adds a parser and no decision."""
    image: str
    """The tutorial has the template of a Job."""
    starting_deadline_seconds: int | None = None
    concurrency_policy: Literal["Allow", "Forbid", "Replace"] = "Allow"
    suspend: bool = False
    successful_jobs_history_limit: int = 3


class CronJobStatus(kv.Status):
    active: list[str] | None = None
    last_schedule_time: str | None = None


@kv.resource("batch.tutorial.kubebuilder.io/v1", conditions=("Ready",))
class CronJob(kv.CustomResource[CronJobSpec, CronJobStatus]):
    """Jobs at fixed times."""


def is_finished(job: kv.Object) -> bool:
    conditions = job.get("status", "conditions", default=None) or ()
    return any(one["type"] in ("Complete", "Failed") and one["status"] == "True" for one in conditions)


def due_of(job: kv.Object) -> str:
    return (job.metadata.annotations or {})[DUE]


def last_due(cron: CronJob, created: datetime, now: datetime) -> datetime | None:
    """Return the time of the last missed Job that may still be started."""
    period = timedelta(minutes=cron.spec.every_minutes)
    due = now - (now - datetime(2030, 1, 1, tzinfo=UTC)) % period
    deadline = cron.spec.starting_deadline_seconds
    if due <= created or (deadline is not None and now - due > timedelta(seconds=deadline)):
        return None
    return due


class CronJobReconciler:
    async def reconcile(self, cron: CronJob, ctx: kv.Context[CronJob]) -> kv.Outcome:
        now = ctx.now()
        jobs = sorted(ctx.cache(JOB).by_index("owner", cron.metadata.uid), key=due_of)
        active = [job for job in jobs if not is_finished(job)]
        finished = [job for job in jobs if is_finished(job)]
        for job in finished[: max(0, len(finished) - cron.spec.successful_jobs_history_limit)]:
            await ctx.delete(JOB, job.name, job.namespace)
        times = [due_of(job) for job in jobs] + [cron.status.last_schedule_time or ""]
        ctx.status.draft.last_schedule_time = max(times) or None
        ctx.status.draft.active = [job.name for job in active] or None
        ctx.status.set_condition("Ready", True, "Suspended" if cron.spec.suspend else "Scheduled")
        if cron.spec.suspend:
            return kv.Done()
        period = timedelta(minutes=cron.spec.every_minutes)
        pause = period - (now - datetime(2030, 1, 1, tzinfo=UTC)) % period
        due = last_due(cron, from_rfc3339(cron.metadata.creation_timestamp or ""), now)
        if due is not None and rfc3339(due) > max(times):
            if active and cron.spec.concurrency_policy == "Forbid":
                return kv.RequeueAfter(pause.total_seconds())
            for job in active if cron.spec.concurrency_policy == "Replace" else ():
                await ctx.delete(JOB, job.name, job.namespace)
            await ctx.own(job_of(cron, due))
            ctx.status.draft.last_schedule_time = rfc3339(due)
        return kv.RequeueAfter(pause.total_seconds())


def job_of(cron: CronJob, due: datetime) -> kv.Object:
    name = f"{cron.name}-{int(due.timestamp())}"  # an equal time gives an equal name, so no Job is created twice
    container = {"name": "job", "image": cron.spec.image}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return JOB.new(name, cron.namespace, annotations={DUE: rfc3339(due)}, spec={"template": template})


def build(manager: kv.Manager) -> None:
    manager.add(kv.Controller.of(CronJob).owns(JOB).reconciled_by(CronJobReconciler()))


class JobRunner:
    """Replaces the Job controller and the kubelet: a Job is complete after a minute."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab

    async def __aenter__(self) -> Self:
        self._task = asyncio.get_running_loop().create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(300)
            for job in (await self._lab.client.list(JOB, self._lab.namespace)).items:
                begun = job.metadata.creation_timestamp or ""
                if not is_finished(job) and wall_clock() - from_rfc3339(begun) >= timedelta(minutes=1):
                    await self._complete(job.name, begun)

    async def _complete(self, name: str, begun: str) -> None:
        now = rfc3339(wall_clock())
        conditions = [
            {"type": kind, "status": "True", "lastProbeTime": now, "lastTransitionTime": now}
            for kind in ("SuccessCriteriaMet", "Complete")
        ]
        status = {"startTime": begun, "completionTime": now, "succeeded": 1, "conditions": conditions}
        try:
            await self._lab.patch(JOB, name, {"status": status}, subresource="status")
        except kv.NotFound:
            pass  # deleted in the meantime


HISTORY = 2


@pytest.mark.scenario
async def test_cron_job_starts_at_each_due_time_and_keeps_recent_jobs(lab: Lab) -> None:
    lab.may_differ(JOB, why="which moments had a Job depends on when the process was up")
    lab.clock_ends(after=4 * 3600.0 + 20 * 60.0)  # between two moments that are due
    moment = "a process that was down, or an object that was made anew, starts its Job at another moment"
    lab.may_differ(CronJob, "status.lastScheduleTime", "status.active", why=moment)
    lab.skip_plans("the namespace is deleted *", why="nothing can be scheduled in it")

    def never_too_many() -> None:
        jobs = lab.server.store.list(("batch", "jobs"), lab.namespace)
        assert len(jobs) <= HISTORY + 2, f"{len(jobs)} Jobs"

    lab.always.append(never_too_many)
    await lab.enter(JobRunner(lab))
    await lab.start(build)
    spec = CronJobSpec(
        every_minutes=60,
        image="example.com/hello:1",
        concurrency_policy="Forbid",
        successful_jobs_history_limit=HISTORY,
    )
    await lab.create(CronJob.new("hello", spec=spec))
    await asyncio.sleep(3600)
    await lab.until(CronJob, "hello", lambda cron: bool(cron.status.last_schedule_time))


def test_cron_job_skips_a_time_missed_beyond_the_starting_deadline() -> None:
    spec = CronJobSpec(every_minutes=30, image="example.com/hello:1", starting_deadline_seconds=60)
    cron = CronJob.new("hello", "web", spec=spec)
    morning, noon = (datetime(2030, 1, 1, hour, tzinfo=UTC) for hour in (0, 12))
    assert last_due(cron, morning, noon + timedelta(seconds=59)) == noon
    assert last_due(cron, morning, noon + timedelta(seconds=61)) is None
    assert last_due(cron, noon, noon + timedelta(seconds=1)) is None
