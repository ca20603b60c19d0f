"""Operations on two targets under random events: created, cancelled, deleted, their Jobs ended or deleted, the process restarted.

After every write no two objects are at work on one target whose Operations exclude each other, none was made twice for one Operation, and
no phase leaves a terminal one. In the end every Operation has ended: none waits for ever.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest
from apps.job_controller import JobController
from apps.operation_safety import Safety
from apps.operations import JOB, JOBS_FOR_ALL, Operations
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from konverge.crds.ops_v1alpha1 import Operation
from konverge.testing import Lab
from konverge.testing.lab.plans import Plan
from konverge.testing.lab.runs import run

pytestmark = pytest.mark.slow

TYPES = ("Backup", "Restore", "Upgrade", "Migration", "RunCommand")


@dataclass(frozen=True)
class Event:
    """One event: `which` chooses among the Operations that exist, or a target."""

    do: str
    which: int = 0
    type: str = "Backup"
    exclusive: bool = False
    seconds: float = 0.0


EVENTS = st.builds(
    Event,
    do=st.sampled_from(["create"] * 6 + ["cancel", "delete", "lose", "restart", "wait", "wait"]),
    which=st.integers(0, 5),
    type=st.sampled_from(TYPES),
    exclusive=st.sampled_from([False, False, False, True]),
    seconds=st.sampled_from([0.0, 0.1, 3.0, 40.0]),
)


async def _happens(ops: Operations, event: Event, number: int) -> None:
    found = sorted((one.name for one in await ops.lab.client.list(Operation, ops.lab.namespace)), key=str)
    if event.do == "create":
        # Every third one fails, by its name (`_fails`).
        await ops.create(
            f"op-{number}",
            event.type,
            target=("one", "two")[event.which % 2],
            parameters={"image": "busybox", "exclusive": event.exclusive},
        )
    elif event.do == "restart":
        await ops.lab.stop()
        await asyncio.sleep(event.seconds)
        await ops.start(rows=JOBS_FOR_ALL)
    elif event.do == "wait":
        await asyncio.sleep(event.seconds)
    elif not found:
        return
    elif event.do == "cancel":
        await ops.lab.patch(Operation, found[event.which % len(found)], {"spec": {"cancel": True}})
    elif event.do == "delete":
        await ops.lab.delete(Operation, found[event.which % len(found)])
    else:
        jobs = list(await ops.lab.client.list(JOB, ops.lab.namespace))
        if jobs:
            await ops.lab.delete(JOB, jobs[event.which % len(jobs)].name)


def _fails(job: str) -> bool:
    return int(job.split("-")[1]) % 3 == 0


@settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)
@given(events=st.lists(EVENTS, min_size=4, max_size=16), lasts=st.sampled_from([1.0, 20.0, 90.0]))
def test_operations_that_exclude_each_other_never_work_at_once_and_none_waits_for_ever(
    events: list[Event], lasts: float
) -> None:
    async def scenario(lab: Lab) -> None:
        Safety(lab)
        ops = await Operations(lab).start(rows=JOBS_FOR_ALL)
        await lab.enter(JobController(lab.config, lab.namespace, seconds=lasts, fails=_fails, random=lab.rng()))
        await ops.target("one")
        await ops.target("two")
        for number, event in enumerate(events):
            await _happens(ops, event, number)
        for _ in range(3 * len(events)):
            left = [one for one in await lab.client.list(Operation, lab.namespace) if not one.finished or one.deleting]
            if not left:
                return
            await asyncio.sleep(lasts + 60)
        raise AssertionError(f"{', '.join(one.name for one in left)} did not end: {left[0].conditions}")

    assert run(scenario, Plan(name="as it is")).problems == []
