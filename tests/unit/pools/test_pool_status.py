"""The status of a pool as a plan: conditions, Events, and when the pool is reconciled again."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from konverge.crds.pools_v1alpha1 import NextcloudPool
from konverge.outcome import Done, Outcome, RequeueAfter
from konverge.reconcilers.pools.members import Member
from konverge.reconcilers.pools.pool.decide import EXCESS, STALE, PoolCounts, PoolPlan, PoolState, Removal
from konverge.reconcilers.pools.pool.memory import PoolMemory
from konverge.reconcilers.pools.pool.observe import ObservedNextcloudPool, PoolProfile
from konverge.reconcilers.pools.pool.record import Census, MemberRecord
from konverge.reconcilers.pools.pool.status import MemberWrites, plan_deleting, plan_status
from konverge.reconcilers.pools.settings import PoolSettings
from konverge.reconcilers.pools.words import PoolReason, PoolsCondition, PoolsEvent, UnrecordedReason
from konverge.reconcilers.shared.delays import NEXT_STEP, READ_AGAIN
from konverge.runtime import Plan

NOW: Final = datetime(2030, 1, 1, tzinfo=UTC)
RETRY: Final = timedelta(minutes=1)
MEMBER: Final = Member("a", "clouds", "uid-a", "1", NOW)
NO_PROFILE: Final = PoolProfile("", {}, "")
NO_WRITES: Final = MemberWrites()
FULL: Final = PoolCounts(ready=2, unassigned=2)


def pool(**status: Any) -> NextcloudPool:
    return NextcloudPool.decode(
        {"metadata": {"name": "small", "uid": "p"}, "spec": {"replicas": 2, "template": {}}, "status": status}
    )


def observed(profile: PoolProfile = NO_PROFILE, *, look_alikes: int = 0, **status: Any) -> ObservedNextcloudPool:
    record = MemberRecord(pool="small", namespace="clouds", digests={})
    return ObservedNextcloudPool(
        pool(**status), record, profile, Census((), ("uid-a",), look_alikes, unseen=False), assigned=0
    )


def planned(
    plan: PoolPlan, writes: MemberWrites = NO_WRITES, seen: ObservedNextcloudPool | None = None, **state: Any
) -> Plan[Any]:
    wanted = PoolState(**{"replicas": 2, **state})
    return plan_status(observed() if seen is None else seen, wanted, plan, writes, NOW, RETRY)


def draft_of(plan: Plan[Any]) -> Any:
    assert plan.draft is not None
    return plan.draft


def reasons(plan: Plan[Any]) -> dict[str, str]:
    return {update.type: update.reason for update in plan.set_conditions}


@pytest.mark.parametrize(
    ("plan", "writes", "state", "reason"),
    [
        (PoolPlan(counts=FULL), MemberWrites(), {}, PoolReason.SETTLED),
        (PoolPlan(create=1), MemberWrites(), {}, PoolReason.CREATING),
        (PoolPlan(create=1), MemberWrites(refused="quota"), {}, PoolReason.CREATE_FAILED),
        (PoolPlan(create=1), MemberWrites(refused="quota"), {"refusal": "not listed"}, PoolReason.NAMESPACE_NOT_LISTED),
        (PoolPlan(delete=(Removal(MEMBER, EXCESS),)), MemberWrites(), {}, PoolReason.TRIMMING),
        (PoolPlan(delete=(Removal(MEMBER, STALE),)), MemberWrites(), {}, PoolReason.ROLLING),
        (PoolPlan(counts=FULL, stale=1), MemberWrites(), {"recreate": True}, PoolReason.ROLLING),
        (PoolPlan(counts=FULL, stale=1), MemberWrites(), {}, PoolReason.SETTLED),
        (PoolPlan(counts=PoolCounts(ready=1)), MemberWrites(), {}, PoolReason.WAITING),
        (PoolPlan(counts=PoolCounts(ready=1)), MemberWrites(), {"digest": None}, PoolReason.SETTLED),
    ],
)
def test_progressing_reports_the_first_work_that_is_not_done(
    plan: PoolPlan, writes: MemberWrites, state: dict[str, Any], reason: str
) -> None:
    assert reasons(planned(plan, writes, **state))[PoolsCondition.PROGRESSING] == reason


@pytest.mark.parametrize(
    ("ready", "reason"), [(0, PoolReason.EMPTY), (1, PoolReason.FILLING), (2, PoolReason.FULL), (3, PoolReason.FULL)]
)
def test_ready_compares_ready_instances_with_the_wanted_number(ready: int, reason: str) -> None:
    assert reasons(planned(PoolPlan(counts=PoolCounts(ready=ready))))[PoolsCondition.READY] == reason


@pytest.mark.parametrize(
    ("plan", "writes", "outcome"),
    [
        (PoolPlan(), MemberWrites(), Done()),
        (PoolPlan(again=RETRY * 5), MemberWrites(), RequeueAfter(RETRY * 5)),
        (PoolPlan(again=RETRY * 5), MemberWrites(changed=True), RequeueAfter(READ_AGAIN)),
        (PoolPlan(create=2), MemberWrites(("uid-b",), changed=True), RequeueAfter(NEXT_STEP)),
        (PoolPlan(), MemberWrites(chosen=True), RequeueAfter(NEXT_STEP)),
        (PoolPlan(create=2), MemberWrites(("uid-b",), "quota", changed=True), RequeueAfter(RETRY)),
    ],
)
def test_a_refusal_waits_longest_and_the_next_creation_shortest(
    plan: PoolPlan, writes: MemberWrites, outcome: Outcome
) -> None:
    assert planned(plan, writes).outcome == outcome


def test_created_instances_are_members_at_once() -> None:
    plan = planned(PoolPlan(create=1), MemberWrites(("uid-b",)))
    assert draft_of(plan).members == ("uid-a", "uid-b")
    assert [event.reason for event in plan.events] == [PoolsEvent.INSTANCE_CREATED]


def test_look_alikes_are_reported_by_one_event() -> None:
    first = planned(PoolPlan(counts=FULL), seen=observed(look_alikes=1))
    assert reasons(first)[PoolsCondition.UNRECORDED] == UnrecordedReason.LOOK_ALIKES
    assert [event.reason for event in first.events] == [UnrecordedReason.LOOK_ALIKES]
    known = {"type": PoolsCondition.UNRECORDED, "status": "True", "reason": UnrecordedReason.LOOK_ALIKES}
    assert planned(PoolPlan(counts=FULL), seen=observed(look_alikes=1, conditions=[known])).events == ()
    assert planned(PoolPlan(counts=FULL)).remove_conditions == (PoolsCondition.UNRECORDED,)


@pytest.mark.parametrize(
    ("digest", "before", "after"),
    [("new", "old", "new"), ("old", "old", None), (None, "old", None)],
)
def test_a_profile_is_recorded_when_its_digest_changes(digest: str | None, before: str, after: str | None) -> None:
    stored = {"name": "p", "digest": before, "observedAt": "2029-01-01T00:00:00Z"}
    seen = observed(PoolProfile("p", {}, digest), observedProfile=stored)
    draft = draft_of(planned(PoolPlan(digest=digest), seen=seen))
    assert (draft.observed_profile.digest if "observed_profile" in draft.model_fields_set else None) == after


def test_a_deleted_pool_waits_for_its_unassigned_instances() -> None:
    plan = plan_deleting(pool(), PoolCounts(unassigned=2), 2, RETRY)
    assert reasons(plan) == {PoolsCondition.READY: PoolReason.DELETING}
    assert (draft_of(plan).unassigned, plan.outcome) == (2, RequeueAfter(RETRY))


def test_each_round_of_failed_instances_doubles_the_pause_up_to_its_limit() -> None:
    settings, memory, pauses = PoolSettings(replace_backoff=60, replace_backoff_limit=200), PoolMemory(), []
    for _ in range(3):
        memory.pause_replacements(settings, NOW)
        assert memory.replace_after is not None
        pauses.append((memory.replace_after - NOW).total_seconds())
    assert pauses == [60, 120, 200]
    memory.end_pause()
    assert replace(memory) == PoolMemory()
