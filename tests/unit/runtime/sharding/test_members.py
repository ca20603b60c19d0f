"""A replica judges a ring only by its own observations of the Leases and its own clock."""

import itertools
import math
from dataclasses import replace

import pytest

from konverge.runtime.election.record import LeaseRecord
from konverge.runtime.sharding.decision import MemberState
from konverge.runtime.sharding.members import MemberLease, Membership
from konverge.runtime.sharding.settings import ShardingSettings

SETTINGS = ShardingSettings(mode="hash")
HELD = LeaseRecord("a_1", 15, "2026-11-23T11:00:00.000000Z", "2026-11-23T11:59:00.000000Z", 1)
RELEASED = LeaseRecord("", 1, transitions=1)


def ring(*names: str) -> Membership:
    found = Membership(SETTINGS)
    for name in names:
        found.observe(name, MemberLease(HELD), 0.0, initial=True)
    return found


def renewed(number: int) -> LeaseRecord:
    return LeaseRecord("a_1", 15, HELD.acquired, f"renewal {number}", 1)


def test_member_expires_after_one_duration_and_is_dead_after_two() -> None:
    found = ring("a", "b")
    for now, state in ((14.9, "ready"), (15.0, "expired"), (29.9, "expired"), (30.0, "dead")):
        found.observe_all({"a": MemberLease(HELD), "b": MemberLease(renewed(int(now)))}, asked=now, now=now)
        assert found.state_of("a").value == state
        assert found.live(now) == (("a", "b") if state != "dead" else ("b",))


def test_member_expires_only_by_requested_leases_and_not_by_silence() -> None:
    found = ring("a")
    assert found.live(1000.0) == ("a",)
    assert found.state_of("a") is MemberState.READY
    assert found.look_at(5.0) == 15.0
    found.observe_all({"a": MemberLease(renewed(1))}, asked=1000.0, now=1000.0)
    assert found.state_of("a") is MemberState.READY


def test_a_late_event_that_shows_no_renewal_makes_no_member_dead() -> None:
    found = ring("a")
    found.observe("a", MemberLease(HELD, draining=True), 40.0)
    assert found.state_of("a") is MemberState.DRAINING


@pytest.mark.parametrize("duration", [0, 1, 14])
def test_duration_shortened_by_hand_does_not_hasten_a_members_death(duration: int) -> None:
    found = ring("a")
    edited = LeaseRecord("a_1", duration, HELD.acquired, HELD.renewed, 1)
    found.observe("a", MemberLease(edited), 1.0)
    for now, state in ((15.9, "ready"), (30.9, "expired"), (31.0, "dead")):
        found.observe_all({"a": MemberLease(edited)}, asked=now, now=now)
        assert found.state_of("a").value == state


def test_a_dead_member_stays_dead_whatever_its_lease_says_later() -> None:
    found = ring("a")
    found.observe_all({"a": MemberLease(HELD)}, asked=30.0, now=30.0)
    found.observe_all({"a": MemberLease(renewed(1))}, asked=31.0, now=31.0)
    assert found.state_of("a") is MemberState.DEAD
    assert found.live(100.0) == ()


def test_released_member_leaves_at_once_and_draining_member_only_keeps_objects() -> None:
    found = ring("a", "b")
    found.observe("a", MemberLease(renewed(1), draining=True), 5.0)
    assert (found.state_of("a"), found.live(5.0)) == (MemberState.DRAINING, ("b",))
    found.observe("a", MemberLease(RELEASED, draining=True), 6.0)
    assert found.state_of("a") is MemberState.RELEASED


def test_a_deleted_lease_makes_a_member_dead_only_after_two_durations() -> None:
    found = ring("a", "b")
    found.observe_all({"b": MemberLease(renewed(1))}, asked=10.0, now=10.0)
    assert found.state_of("a") is MemberState.READY
    found.observe_all({"b": MemberLease(renewed(2))}, asked=30.0, now=30.0)
    assert found.state_of("a") is MemberState.DEAD


def test_name_without_a_lease_is_absent_after_two_durations_and_a_list() -> None:
    found = ring("a")
    assert found.await_absence(100.0)
    assert found.absence_due(100.0) == 130.0
    found.observe_all({"a": MemberLease(renewed(1))}, asked=129.0, now=129.0)
    assert not found.is_absent("x", 100.0)
    found.observe_all({"a": MemberLease(renewed(2))}, asked=130.0, now=130.0)
    assert found.is_absent("x", 100.0)
    assert not found.is_absent("x", 101.0)
    assert found.state_of("x") is MemberState.UNKNOWN


def test_name_with_a_seen_lease_is_not_absent_and_joins_normally() -> None:
    found = ring("a")
    found.await_absence(100.0)
    found.observe("x", MemberLease(HELD), 101.0)
    found.observe_all({"a": MemberLease(renewed(1)), "x": MemberLease(renewed(1))}, asked=130.0, now=130.0)
    assert not found.is_absent("x", 100.0)
    assert found.live(130.0) == ("a", "x")


def test_unknown_names_cost_no_memory_and_one_list_per_retry() -> None:
    found = ring()
    asked, now = [], 100.0
    for number in range(20_000):
        now += 0.01  # 200 s of names
        assert found.state_of(f"x{number}") is MemberState.UNKNOWN
        found.await_absence(now)
        if now >= found.look_at(now):
            asked.append(now)
            found.observe_all({}, asked=now, now=now)
    assert found.states() == {}
    spans = [after - before for before, after in itertools.pairwise(asked)]
    assert min(spans) >= SETTINGS.retry_seconds
    assert len(asked) <= 200 / SETTINGS.retry_seconds + 1


def test_lists_for_unknown_names_end_when_the_last_is_proved_absent() -> None:
    found = ring("a")
    found.observe("a", MemberLease(RELEASED), 1.0)
    for since in (100.0, 107.0, 101.0):
        found.await_absence(since)
    found.live(107.0)
    looks = []
    now = 107.0
    while (now := found.look_at(now)) < math.inf:
        looks.append(now)
        found.observe_all({}, asked=now, now=now)
    assert looks == [130.0, 135.0, 140.0]
    assert all(found.is_absent("x", since) for since in (100.0, 107.0, 101.0))


def test_members_that_join_within_the_debounce_are_counted_together() -> None:
    found = ring("a")
    found.observe("b", MemberLease(HELD), 100.0)
    found.observe("c", MemberLease(HELD), 102.0)
    assert found.live(104.9) == ("a",)
    assert found.look_at(104.0) <= 105.0
    assert found.live(105.0) == ("a", "b", "c")


def test_members_that_join_are_counted_at_once_when_another_leaves() -> None:
    found = ring("a", "b")
    found.observe("c", MemberLease(HELD), 100.0)
    found.observe("b", MemberLease(RELEASED), 101.0)
    assert found.live(101.0) == ("a", "c")


def test_a_ring_at_rest_asks_for_nothing_before_a_lease_is_overdue() -> None:
    found = ring("a")
    found.observe("a", MemberLease(renewed(1)), 5.0)
    assert found.look_at(6.0) == 20.0
    found.observe_all({"a": MemberLease(renewed(1))}, asked=20.0, now=20.0)
    assert found.look_at(20.0) == 35.0
    found.observe_all({"a": MemberLease(renewed(1))}, asked=35.0, now=35.0)
    assert found.live(35.0) == ()
    assert found.look_at(35.0) == math.inf


def test_the_lease_of_a_member_that_is_long_gone_is_outdated() -> None:
    found = ring("a", "b")
    found.observe("a", MemberLease(RELEASED), 5.0)
    assert found.outdated(600.0, 600.0) == ()
    assert found.outdated(606.0, 600.0) == ("a",)
    found.forget("a")
    assert found.states() == {"b": MemberState.READY}


@pytest.mark.parametrize("changed", [0.1, 0.7, 1000.3, 4711.9])
def test_check_at_its_due_time_settles_the_state_despite_rounding(changed: float) -> None:
    found = Membership(SETTINGS)
    found.observe("a", MemberLease(HELD), changed, initial=True)
    for state in (MemberState.EXPIRED, MemberState.DEAD):
        due = found.look_at(changed)
        found.observe_all({"a": MemberLease(HELD)}, asked=due, now=due)
        assert found.state_of("a") is state


@pytest.mark.parametrize(
    ("apart", "count", "counted"),
    [(0.0, 1, 3.0), (2.0, 2, 5.0), (2.0, 3, 7.0), (2.0, 40, 15.0), (0.5, 100, 15.0), (4.0, 40, 3.0)],
)
def test_repeated_joins_delay_the_count_by_five_join_times_at_most(apart: float, count: int, counted: float) -> None:
    found, joined, now = Membership(SETTINGS), 0, 0.0
    while True:
        if joined < count and now >= joined * apart:
            found.observe(f"b-{joined}", MemberLease(HELD), now)
            joined += 1
        if "b-0" in found.live(now):
            break
        now += 0.5
        assert now < 100.0
    assert now == counted


def test_the_longest_wait_begins_anew_with_the_first_member_after_a_count() -> None:
    found = ring("a")
    found.observe("b", MemberLease(HELD), 100.0)
    assert found.live(103.0) == ("a", "b")
    found.observe("c", MemberLease(HELD), 114.0)
    assert found.live(116.9) == ("a", "b")
    assert found.live(117.0) == ("a", "b", "c")


def test_longest_wait_restarts_after_a_member_left_and_all_were_counted() -> None:
    found = ring("a", "b")
    found.observe("c", MemberLease(HELD), 100.0)
    found.observe("b", MemberLease(RELEASED), 102.0)
    assert found.live(102.0) == ("a", "c")
    found.observe("d", MemberLease(HELD), 114.0)
    assert found.live(116.9) == ("a", "c")


NEWCOMER = MemberLease(HELD, joined=False, stops_after=10)


def test_newcomer_counts_once_its_lease_shows_its_judgement_of_all_others() -> None:
    found = ring("a")
    found.observe("b", NEWCOMER, 100.0)
    assert found.live(120.0) == ("a",)
    found.observe("b", replace(NEWCOMER, joined=True), 120.0)
    assert (found.live(122.9), found.live(123.0)) == (("a",), ("a", "b"))


def test_joined_member_stays_joined_and_detects_removal_of_its_mark() -> None:
    found = ring("a")
    found.observe("b", replace(NEWCOMER, joined=True), 100.0)
    assert found.live(103.0) == ("a", "b")
    found.observe("b", NEWCOMER, 104.0)
    assert found.live(200.0) == ("a", "b")
    assert (found.has_joined("b"), found.is_marked("b")) == (True, False)


@pytest.mark.parametrize(
    ("lease", "judged"),
    [
        pytest.param(MemberLease(renewed(1)), True, id="renewed"),
        pytest.param(MemberLease(RELEASED), True, id="released"),
        pytest.param(MemberLease(HELD, draining=True), False, id="annotated only"),
        pytest.param(MemberLease(HELD), False, id="unchanged"),
    ],
)
def test_newcomer_has_judged_a_member_that_renewed_or_released_its_lease(lease: MemberLease, judged: bool) -> None:
    found = ring("a")
    found.observe("a", lease, 3.0)
    assert found.has_judged_all() is judged


def test_newcomer_waits_for_no_other_newcomer_or_later_member() -> None:
    found = Membership(SETTINGS)
    found.observe("a", NEWCOMER, 0.0, initial=True)
    found.observe("b", MemberLease(HELD), 1.0)
    assert found.has_judged_all()


@pytest.mark.parametrize(
    ("lease", "dead_at"),
    [
        pytest.param(MemberLease(HELD, stops_after=10), 20.0, id="never seen to change"),
        pytest.param(MemberLease(HELD, stops_after=3), 20.0, id="stops sooner than this replica"),
        pytest.param(MemberLease(HELD, stops_after=12), 24.0, id="stops later than this replica"),
        pytest.param(MemberLease(HELD, stops_after=600), 30.0, id="a number that no settings allow"),
        pytest.param(MemberLease(HELD), 30.0, id="a version that does not show when it stops"),
    ],
)
def test_unchanged_lease_is_dead_after_twice_the_stop_time_of_its_holder(lease: MemberLease, dead_at: float) -> None:
    found = Membership(SETTINGS)
    found.observe("a", lease, 0.0, initial=True)
    assert not found.has_judged_all()
    for asked, state in ((dead_at - 0.1, MemberState.EXPIRED), (dead_at, MemberState.DEAD)):
        found.observe_all({"a": lease}, asked=asked, now=asked)
        assert found.state_of("a") is state
    assert found.has_judged_all()


def test_a_lease_that_was_seen_to_change_is_dead_after_two_durations() -> None:
    found = Membership(SETTINGS)
    found.observe("a", MemberLease(HELD, stops_after=10), 0.0, initial=True)
    found.observe("a", MemberLease(renewed(1), stops_after=10), 5.0)
    assert found.look_at(5.0) == 20.0
    for asked, state in ((34.9, MemberState.EXPIRED), (35.0, MemberState.DEAD)):
        found.observe_all({"a": MemberLease(renewed(1), stops_after=10)}, asked=asked, now=asked)
        assert found.state_of("a") is state


def test_lease_older_than_the_last_seen_is_not_a_renewal() -> None:
    found = Membership(SETTINGS)
    found.observe("a", MemberLease(renewed(2), version="12"), 0.0, initial=True)
    found.observe("a", MemberLease(renewed(1), version="11"), 1.0)
    assert not found.has_judged_all()
    found.observe("a", MemberLease(renewed(3), version="13"), 2.0)
    assert found.has_judged_all()


def test_dead_member_is_reported_until_release_and_remembered_after_lease_deletion() -> None:
    found = ring("a")
    found.observe_all({"a": MemberLease(HELD, version="7")}, asked=30.0, now=30.0)
    assert found.unreleased() == {"a": MemberLease(HELD, version="7")}
    found.observe("a", MemberLease(RELEASED, version="8"), 31.0)
    assert found.unreleased() == {}
    assert (found.outdated(91.0, 60.0), found.outdated(91.1, 60.0)) == ((), ("a",))
    found.note_deletion("a")
    assert found.outdated(100.0, 60.0) == ()
    assert found.state_of("a") is MemberState.DEAD
    assert (found.forget_gone(631.0, 600.0), found.forget_gone(631.1, 600.0)) == ((), ("a",))
    assert found.state_of("a") is MemberState.UNKNOWN


def test_lease_deleted_while_its_member_lives_is_judged_as_unchanged() -> None:
    found = ring("a")
    found.note_deletion("a")
    assert found.state_of("a") is MemberState.READY
    found.observe_all({}, asked=30.0, now=30.0)
    assert found.state_of("a") is MemberState.DEAD


@pytest.mark.parametrize(("other", "alone"), [(MemberLease(HELD), False), (MemberLease(RELEASED), True)])
def test_newcomer_counts_at_once_if_all_other_members_left(other: MemberLease, alone: bool) -> None:
    found = Membership(SETTINGS)
    found.observe("a", other, 0.0, initial=True)
    found.observe("b", NEWCOMER, 1.0)
    assert found.is_alone("b") is alone
    found.observe("b", replace(NEWCOMER, joined=True), 2.0, alone=found.is_alone("b"))
    assert ("b" in found.live(2.0)) is alone
