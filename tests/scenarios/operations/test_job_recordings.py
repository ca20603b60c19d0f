"""The 19 recordings of the Job controller through the translation, line by line, and through the whole reconciler.

`ENDS` has the end of each recording, `NEVER` the states and reasons that must not appear on the way (table in
tests/recordings/job/README.md).
"""

from typing import Any

import pytest
from apps.operations import FREE, JOB, Operations, phase
from recordings import lines, scenarios

from konverge.crds.ops_v1alpha1 import Operation
from konverge.reconcilers.apps.operations.engines.job_status import observe_job
from konverge_testing import Lab

SCENARIOS = scenarios("job")

SUCCEEDED, GONE = ("Succeeded", "EngineCompleted"), ("Running", "EngineStarted")
ENDS: dict[str, tuple[str, str]] = {
    "active-deadline": ("Failed", "DeadlineExceeded"),
    "backoff-limit": ("Failed", "BackoffLimitExceeded"),
    "backoff-limit-slow-pod": ("Failed", "BackoffLimitExceeded"),
    "complete": SUCCEEDED,
    "created-suspended": SUCCEEDED,
    "deleted-background": GONE,
    "deleted-foreground": GONE,
    "deleted-no-policy": GONE,
    "failed-indexes": ("Failed", "FailedIndexes"),
    "fails-once-then-completes": SUCCEEDED,
    "pod-deleted-by-hand": SUCCEEDED,
    "pod-failure-policy": ("Failed", "PodFailurePolicy"),
    "pod-never-scheduled": ("Failed", "DeadlineExceeded"),
    "pod-refused-by-quota": SUCCEEDED,
    "success-policy-lag": SUCCEEDED,
    "suspend-and-resume": SUCCEEDED,
    "suspend-as-cancel": ("Cancelled", "UserCancelled"),
    "ttl": SUCCEEDED,
    "ttl-zero-failed": ("Failed", "BackoffLimitExceeded"),
}
CANCELLED = {"suspend-as-cancel"}
"""The scenarios in which an Operation was cancelled; elsewhere others suspended or deleted the Job."""
SUSPENDS = {"created-suspended", "suspend-and-resume"}


def jobs(scenario: str) -> list[tuple[str, dict[str, Any]]]:
    """Return type and object of each event of the Job."""
    return [(line.type, line.object) for line in lines("job", scenario) if line.object]


def states(scenario: str) -> list[tuple[str, str]]:
    asked = scenario in CANCELLED
    found = [observe_job(job, asked_to_cancel=asked) for _, job in jobs(scenario)]
    return [(one.state.value, one.reason) for one in found]


def test_each_recording_has_its_end_here() -> None:
    assert set(ENDS) == set(SCENARIOS)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_recording_ends_as_its_table_says(scenario: str) -> None:
    assert states(scenario)[-1] == ENDS[scenario]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_only_the_last_condition_of_a_recording_is_an_end(scenario: str) -> None:
    """An end appears only after Complete or Failed, or, for a cancelled Job, after the end of its last pod; no end is taken back."""
    final = {"Succeeded", "Failed", "Cancelled"}
    seen = [state for state, _ in states(scenario)]
    ends = [state for state in seen if state in final]
    assert len(set(ends)) <= 1
    assert seen[len(seen) - len(ends) :] == ends
    for (state, _), (_, job) in zip(states(scenario), jobs(scenario), strict=True):
        status = job.get("status", {})
        last = {"Complete", "Failed"} & {one["type"] for one in status.get("conditions", ())}
        if state in final:
            assert last or (scenario in CANCELLED and not status.get("active") and not status.get("terminating"))
        elif last:
            raise AssertionError(f"{last} is an end")


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_started_job_is_never_pending_again_unless_suspended(scenario: str) -> None:
    seen = states(scenario)
    begun = [state for state, _ in seen].index("Running")
    back = {reason for state, reason in seen[begun:] if state == "Accepted"}
    assert back <= ({"Suspended", "EngineNotStarted"} if scenario in SUSPENDS else set())


@pytest.mark.parametrize("scenario", sorted(CANCELLED))
def test_a_cancelled_job_stops_before_it_is_cancelled(scenario: str) -> None:
    seen = states(scenario)
    assert ("Running", "Stopping") in seen
    assert seen.index(("Running", "Stopping")) < seen.index(("Cancelled", "UserCancelled"))


# --- through the whole reconciler ------------------------------------------------------------------------------------------------


async def play(ops: Operations, scenario: str) -> None:
    """Write the recorded states into the Operation's Job, one after the other, as its controller did."""
    job = await ops.job_of()
    for type_, recorded in jobs(scenario):
        if type_ == "DELETED" or recorded["metadata"].get("deletionTimestamp"):
            await ops.lab.delete(JOB, job.name)
            return
        found = await ops.lab.get(JOB, job.name)
        if scenario not in CANCELLED and bool(found.spec.get("suspend")) != bool(recorded["spec"].get("suspend")):
            await ops.lab.patch(JOB, job.name, {"spec": {"suspend": recorded["spec"].get("suspend")}})
            found = await ops.lab.get(JOB, job.name)
        elif scenario in CANCELLED and recorded["spec"].get("suspend") and not (await ops.get()).spec.cancel:
            await ops.lab.patch(Operation, "run", {"spec": {"cancel": True}})
            found = await ops.lab.until(JOB, job.name, lambda one: one.spec.get("suspend") is True)
        data = found.to_dict()
        data["status"] = recorded.get("status", {})
        await ops.lab.client.replace(JOB.decode(data), subresource="status")
        await ops.lab.settled()


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_a_recording_through_the_whole_reconciler_ends_in_its_phase(lab: Lab, scenario: str) -> None:
    ops = await Operations(lab).start(FREE)
    await ops.target()
    await ops.create()
    await play(ops, scenario)
    wanted, reason = ("Failed", "EngineObjectLost") if ENDS[scenario] == GONE else ENDS[scenario]
    found = await lab.until(Operation, "run", phase(wanted), timeout=120)
    assert found.condition({"Succeeded": "Succeeded", "Failed": "Failed"}.get(wanted, wanted)).reason == reason
