"""Which instances of a pool are deleted, and how many are created: the pure decision."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from konverge.reconcilers.pools.kinds import INSTANCE
from konverge.reconcilers.pools.members import Member, member_of
from konverge.reconcilers.pools.pool.decide import (
    EXCESS,
    EXPIRED,
    FAILED,
    STALE,
    PoolLimits,
    PoolState,
    age_limits,
    decide_pool,
)

NOW = datetime(2030, 1, 2, 12, tzinfo=UTC)
LIMITS = PoolLimits()


def member(name: str, minutes: float = 120, phase: str = "Ready", **more: object) -> Member:
    made = Member(name, "ns", f"uid-{name}", "1", NOW - timedelta(minutes=minutes), phase)
    return replace(made, **more)  # type: ignore[arg-type]  # fields by name


def many(number: int, **more: object) -> tuple[Member, ...]:
    return tuple(replace(member(f"m{place:02}", 1000 - place), **more) for place in range(number))  # type: ignore[arg-type]  # fields by name


def deleted(state: PoolState) -> dict[str, str]:
    return {one.member.name: one.why for one in decide_pool(state, NOW, LIMITS).delete}


@pytest.mark.parametrize(
    ("members", "recent", "expected"),
    [
        ((), 0, 10),
        ((), 4, 6),
        ((), 10, 0),
        (many(20), 0, 5),
        (many(25), 0, 0),
        (many(20, taken=True), 0, 10),
        (many(20, deleting=True), 0, 10),
        (many(20, phase="Failed"), 0, 10),
        (tuple(member(f"n{place}", 0.5) for place in range(7)), 0, 3),
    ],
)
def test_pool_of_25_creates_what_is_missing_within_its_window(
    members: tuple[Member, ...], recent: int, expected: int
) -> None:
    made = tuple((f"gone{place}", NOW - timedelta(seconds=30)) for place in range(recent))
    state = PoolState(replicas=25, members=members, recent=made)
    assert decide_pool(state, NOW, LIMITS).create == expected


def test_creations_leave_the_window_after_a_minute_and_the_plan_says_when() -> None:
    made = tuple((f"gone{place}", NOW - timedelta(seconds=50)) for place in range(10))
    plan = decide_pool(PoolState(replicas=25, recent=made), NOW, LIMITS)
    assert (plan.create, plan.again) == (0, timedelta(seconds=11))
    later = decide_pool(PoolState(replicas=25, recent=made), NOW + timedelta(seconds=11), LIMITS)
    assert later.create == 10


END = datetime.max.replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("state", "create"),
    [
        (PoolState(replicas=25, recent=(("a", END),)), 9),
        (PoolState(replicas=25, members=(member("a", phase="Creating", created=END),)), 9),
        (PoolState(replicas=25, members=(member("a", phase="Degraded", unready_since=END),)), 10),
    ],
    ids=["a creation", "an instance", "an instance that is ready no more"],
)
def test_timestamps_at_the_calendar_end_do_not_disturb_the_plan(state: PoolState, create: int) -> None:
    plan = decide_pool(state, NOW, LIMITS)
    assert (plan.create, plan.delete) == (create, ())


@pytest.mark.parametrize(
    ("minutes", "recorded", "expected", "again"),
    [(0.5, (), {}, 1), (0.5, ("a",), {"a": EXCESS}, None), (1, (), {"a": EXCESS}, None)],
)
def test_instance_is_deleted_within_its_window_only_after_its_creation_is_recorded(
    minutes: float, recorded: tuple[str, ...], expected: dict[str, str], again: float | None
) -> None:
    state = PoolState(replicas=0, members=(member("a", minutes),), recorded=frozenset(recorded), max_age=timedelta(0))
    assert deleted(state) == expected
    assert decide_pool(state, NOW, LIMITS).again == (None if again is None else timedelta(seconds=again))


def test_of_too_many_the_failed_go_first_and_then_the_oldest() -> None:
    members = (*many(4), member("new", 1), member("bad", 5, "Failed"))
    assert deleted(PoolState(replicas=3, members=members)) == {"bad": EXCESS, "m00": EXCESS, "m01": EXCESS}


def test_an_assigned_instance_is_never_deleted() -> None:
    members = many(9, taken=True, phase="Failed", stamp="old")
    state = PoolState(replicas=0, members=members, digest="new", observed_digest="old", recreate=True)
    assert deleted(state) == {}


def test_without_its_profile_a_pool_neither_creates_nor_deletes() -> None:
    plan = decide_pool(PoolState(replicas=1, members=many(3), digest=None), NOW, LIMITS)
    assert (plan.create, plan.delete, plan.counts.ready) == (0, (), 3)


@pytest.mark.parametrize(
    ("phase", "minutes", "fails"),
    [
        ("Failed", 1, True),
        ("Provisioning", 29, False),
        ("Provisioning", 31, True),
        ("", 31, True),
        ("Ready", 31, False),
    ],
)
def test_an_instance_that_failed_or_hangs_is_replaced(phase: str, minutes: float, fails: bool) -> None:
    state = PoolState(replicas=1, members=(member("a", minutes, phase),))
    assert deleted(state) == ({"a": FAILED} if fails else {})
    held = replace(state, replace_after=NOW + timedelta(seconds=40))
    plan = decide_pool(held, NOW, LIMITS)
    assert plan.delete == ()
    assert not fails or plan.again == timedelta(seconds=40)


@pytest.mark.parametrize(
    ("phase", "unready", "fails", "again"),
    [
        ("Degraded", 29, False, 1),
        ("Degraded", 30, True, None),
        ("Degraded", None, True, None),
        ("Ready", 31, False, None),
        ("Provisioning", 1, True, None),
    ],
)
def test_spare_that_is_no_longer_ready_fails_after_the_deadline(
    phase: str, unready: float | None, fails: bool, again: float | None
) -> None:
    since = None if unready is None else NOW - timedelta(minutes=unready)
    state = PoolState(replicas=1, members=(member("a", 120, phase, unready_since=since),), max_age=timedelta(0))
    plan = decide_pool(state, NOW, LIMITS)
    assert {one.member.name: one.why for one in plan.delete} == ({"a": FAILED} if fails else {})
    assert plan.counts.failed == int(fails)
    assert plan.again == (None if again is None else timedelta(minutes=again))


READY_SINCE = {"lastTransitionTime": "2030-01-02T11:00:00Z", "reason": "Ready", "message": ""}


@pytest.mark.parametrize(
    ("conditions", "since"),
    [
        ([], None),
        ([{"type": "Ready", "status": "False", **READY_SINCE}], datetime(2030, 1, 2, 11, tzinfo=UTC)),
        ([{"type": "Ready", "status": "Unknown", **READY_SINCE}], datetime(2030, 1, 2, 11, tzinfo=UTC)),
        ([{"type": "Ready", "status": "True", **READY_SINCE}], None),
        ([{"type": "Ready", "status": "False", **READY_SINCE, "lastTransitionTime": "yesterday"}], None),
        ([{"type": "DatabaseReady", "status": "False", **READY_SINCE}], None),
    ],
)
def test_a_member_is_unready_since_the_last_transition_of_its_condition_ready(
    conditions: list[dict[str, str]], since: datetime | None
) -> None:
    found = INSTANCE.new("a", "ns").to_dict() | {"status": {"phase": "Degraded", "conditions": conditions}}
    assert member_of(INSTANCE.decode(found), NOW).unready_since == since


@pytest.mark.parametrize(("replicas", "expected"), [(1, 1), (3, 1), (8, 2), (12, 3)])
def test_a_quarter_of_a_pool_is_replaced_at_a_time(replicas: int, expected: int) -> None:
    members = many(replicas, stamp="old")
    state = PoolState(replicas=replicas, members=members, digest="new", observed_digest="old", recreate=True)
    assert list(deleted(state).values()) == [STALE] * expected
    assert deleted(replace(state, recreate=False)) == {}
    rolling = replace(
        state,
        members=(
            *members[expected:],
            *(member(f"n{place}", 1, "Provisioning", stamp="new") for place in range(expected)),
        ),
    )
    assert deleted(rolling) == {}, "the replacements are not ready yet"


def test_stale_instances_that_are_not_ready_go_first_and_cost_nothing() -> None:
    members = (
        *many(6, stamp="old"),
        member("x", 5, "Provisioning", stamp="old"),
        member("y", 4, "Provisioning", stamp="old"),
    )
    state = PoolState(replicas=8, members=members, digest="new", observed_digest="old", recreate=True)
    assert deleted(state) == {"x": STALE, "y": STALE}


@pytest.mark.parametrize(
    ("stamp", "observed", "stale"),
    [
        ("", None, False),
        ("", "new", False),
        ("", "old", True),
        ("old", None, True),
        ("old", "new", True),
        ("new", "old", False),
    ],
)
def test_an_instance_without_a_stamp_is_as_old_as_the_recorded_digest(
    stamp: str, observed: str | None, stale: bool
) -> None:
    state = PoolState(replicas=1, members=many(1, stamp=stamp), digest="new", observed_digest=observed, recreate=True)
    plan = decide_pool(state, NOW, LIMITS)
    assert bool(plan.delete) == stale
    # Only if the recorded digest is still needed to find a stale instance, the new digest is not recorded yet.
    assert plan.digest == (None if stale and not stamp else "new")


def test_instances_expire_one_after_the_other_although_they_were_created_together() -> None:
    state = PoolState(replicas=40, members=many(40), max_age=timedelta(hours=10))
    limits = set(age_limits(state.members, timedelta(hours=10)))
    assert len(limits) == 40
    assert timedelta(hours=9) < min(limits) < timedelta(hours=9.2)
    assert timedelta(hours=9.8) < max(limits) <= timedelta(hours=10)
    old = replace(state, max_age=timedelta(hours=1))
    assert list(deleted(old).values()) == [EXPIRED] * 10
    assert deleted(replace(state, max_age=timedelta(0))) == {}


def test_an_age_beyond_every_calendar_never_expires() -> None:
    plan = decide_pool(PoolState(replicas=1, members=many(1), max_age=timedelta.max), NOW, LIMITS)
    assert (plan.delete, plan.again) == ((), timedelta(days=7))


@pytest.mark.parametrize(
    ("minutes", "phase", "expected"),
    [(5, "Ready", {}), (11, "Ready", {"old": EXPIRED}), (11, "Degraded", {"old": EXPIRED}), (11, "Provisioning", {})],
)
def test_short_maximum_age_does_not_replace_instances_before_they_are_ready(
    minutes: float, phase: str, expected: dict[str, str]
) -> None:
    state = PoolState(replicas=1, members=(member("old", minutes, phase),), max_age=timedelta(milliseconds=1))
    assert deleted(state) == expected
