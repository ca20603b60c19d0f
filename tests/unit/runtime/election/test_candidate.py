"""A candidate decides only by its own observations of the Lease and its own clock."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from konverge.errors import UsageError
from konverge.runtime.election.candidate import Candidate, Create, SeenLease, Update, WaitUntil
from konverge.runtime.election.record import LeaseRecord
from konverge.runtime.election.settings import ElectionSettings

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)
HELD = LeaseRecord("a", 15, "2026-11-23T11:00:00.000000Z", "2026-11-23T11:59:00.000000Z", 3)


def candidate() -> Candidate:
    return Candidate("b", ElectionSettings())


def leader(now: float = 100.0) -> Candidate:
    found = candidate()
    step = found.next_step(now, NOON)
    assert isinstance(step, Create)
    found.wrote(SeenLease("10", step.record), now)
    return found


def test_an_absent_lease_is_created() -> None:
    step = candidate().next_step(0.0, NOON)
    assert step == Create(LeaseRecord("b", 15, "2026-11-23T12:00:00.000000Z", "2026-11-23T12:00:00.000000Z", 1))


@pytest.mark.parametrize(
    ("record", "free_at"),
    [
        pytest.param(HELD, 115.0, id="a lease that is held"),
        pytest.param(
            replace(HELD, holder="b"), 115.0, id="a lease under the candidate's own name that it did not take itself"
        ),
        pytest.param(replace(HELD, holder=""), 115.0, id="a lease whose holder was emptied by hand"),
        pytest.param(replace(HELD, duration=40), 140.0, id="a holder with a longer duration"),
        pytest.param(replace(HELD, duration=0), 115.0, id="a holder that names no duration"),
        pytest.param(
            replace(HELD, renewed="1999-01-01T00:00:00.000000Z"), 115.0, id="a time of renewal that is long ago"
        ),
        pytest.param(replace(HELD, renewed="2099-01-01T00:00:00.000000Z"), 115.0, id="a time of renewal in the future"),
    ],
)
def test_a_candidate_waits_for_the_duration_from_the_change_that_it_saw(record: LeaseRecord, free_at: float) -> None:
    found = candidate()
    found.observe(SeenLease("7", record), 100.0)
    assert found.next_step(100.0, NOON) == WaitUntil(free_at)
    assert isinstance(found.next_step(free_at - 0.001, NOON), WaitUntil)
    step = found.next_step(free_at, NOON)
    assert isinstance(step, Update)
    assert (step.seen.version, step.record.holder, step.record.transitions) == ("7", "b", record.transitions + 1)


@pytest.mark.parametrize(
    "record", [replace(HELD, holder="", duration=1), LeaseRecord()], ids=["released", "never held"]
)
def test_a_free_lease_is_taken_at_once(record: LeaseRecord) -> None:
    found = candidate()
    found.observe(SeenLease("7", record), 100.0)
    assert isinstance(found.next_step(100.0, NOON), Update)


def test_holder_renewal_restarts_the_wait_and_a_label_change_does_not() -> None:
    found = candidate()
    found.observe(SeenLease("7", HELD), 100.0)
    found.observe(SeenLease("8", HELD), 110.0)
    assert found.next_step(111.0, NOON) == WaitUntil(115.0)
    found.observe(SeenLease("9", HELD.renewed_at(NOON)), 112.0)
    assert found.next_step(113.0, NOON) == WaitUntil(127.0)


def test_an_older_state_of_the_lease_is_ignored() -> None:
    found = leader()
    found.observe(SeenLease("9", HELD), 101.0)
    found.observe_absence("9")
    assert found.leads
    assert not found.absent


def test_deleted_lease_is_waited_out_by_others_and_recreated_by_its_holder() -> None:
    other = candidate()
    other.observe(SeenLease("7", HELD), 100.0)
    other.observe_absence()
    assert other.next_step(101.0, NOON) == WaitUntil(115.0)
    assert isinstance(other.next_step(115.0, NOON), Create)
    holder = leader()
    holder.observe_absence("11")
    later = NOON + timedelta(seconds=2)
    step = holder.next_step(102.0, later)
    assert isinstance(step, Create)
    assert (step.record.transitions, step.record.renewed) == (1, "2026-11-23T12:00:02.000000Z")


@pytest.mark.parametrize(
    "change",
    [{"holder": "x"}, {"holder": ""}, {"acquired": ""}, {"transitions": 9}],
    ids=["another holder", "no holder", "another begin", "another term"],
)
def test_a_leader_whose_term_was_changed_by_another_does_not_lead(change: dict[str, Any]) -> None:
    found = leader()
    step = found.next_step(102.0, NOON)
    assert isinstance(step, Update)
    found.observe(SeenLease("11", replace(step.record, **change)), 102.0)
    assert not found.leads


def test_a_take_over_whose_response_was_lost_is_recognised_and_renewed() -> None:
    found = candidate()
    step = found.next_step(100.0, NOON)
    assert isinstance(step, Create)
    found.may_have_written(step.record)
    before = found.leads
    found.observe(SeenLease("10", step.record), 105.0)
    assert (before, found.leads) == (False, True)
    renewal = found.next_step(105.0, NOON)
    assert isinstance(renewal, Update)
    assert renewal.record.same_term(step.record)


def test_takeover_with_a_lost_response_is_dropped_if_another_leads() -> None:
    found = candidate()
    step = found.next_step(100.0, NOON)
    assert isinstance(step, Create)
    found.may_have_written(step.record)
    found.observe(SeenLease("10", HELD), 105.0)
    found.observe(SeenLease("11", step.record), 106.0)
    assert not found.leads


def test_late_response_after_another_holder_was_seen_elects_no_leader() -> None:
    found = candidate()
    step = found.next_step(100.0, NOON)
    assert isinstance(step, Create)
    found.observe(SeenLease("11", HELD), 101.0)
    found.wrote(SeenLease("10", step.record), 102.0)
    assert not found.leads
    assert found.next_step(103.0, NOON) == WaitUntil(116.0)


def test_a_candidate_that_gave_up_waits_its_own_lease_out() -> None:
    found = leader(100.0)
    found.give_up()
    assert found.next_step(110.0, NOON) == WaitUntil(115.0)


def test_a_release_leaves_an_empty_holder_and_a_second_for_the_others() -> None:
    step = leader().release(NOON)
    assert step is not None
    assert (step.record.holder, step.record.duration, step.record.transitions) == ("", 1, 1)
    assert step.record.released
    assert candidate().release(NOON) is None


@pytest.mark.parametrize(
    "spec", [None, [], {"holderIdentity": 7, "leaseDurationSeconds": "x", "leaseTransitions": True}]
)
def test_a_malformed_record_counts_as_empty(spec: Any) -> None:
    assert LeaseRecord.of(spec) == LeaseRecord()


@pytest.mark.parametrize("number", [int("9" * 400), -1, 2**31], ids=["of 400 digits", "negative", "above 32 bits"])
def test_a_number_that_no_lease_can_hold_counts_as_absent(number: int) -> None:
    found = candidate()
    found.observe(SeenLease("7", LeaseRecord.of({"holderIdentity": "a", "leaseDurationSeconds": number})), 100.0)
    assert found.next_step(101.0, NOON) == WaitUntil(115.0)
    assert LeaseRecord.of({"leaseTransitions": number}).transitions == 0


def test_a_lease_with_the_greatest_number_of_transitions_can_still_be_taken() -> None:
    found = candidate()
    found.observe(SeenLease("7", LeaseRecord(transitions=2**31 - 1)), 100.0)
    step = found.next_step(100.0, NOON)
    assert isinstance(step, Update)
    assert step.record.transitions == 1


@pytest.mark.parametrize("name", ["my operator", "Shop", "a" * 254])
def test_manager_name_that_no_lease_can_have_is_an_error_with_remedy(name: str) -> None:
    with pytest.raises(UsageError, match=r"set election\.name"):
        ElectionSettings(enabled=True).lease_of(name)


def test_a_record_survives_its_form_in_the_api() -> None:
    assert LeaseRecord.of(HELD.to_spec()) == HELD


@pytest.mark.parametrize(
    "times",
    [
        {"lease_seconds": 10.0},
        {"renew_seconds": 2.4},
        {"renew_seconds": 16.0},
        {"retry_seconds": 0.0},
        {"lease_seconds": 0.9, "renew_seconds": 0.5, "retry_seconds": 0.1},
        {"lease_seconds": float("inf")},
        {"lease_seconds": float("nan")},
        {"lease_seconds": 1e300},
        {"renew_seconds": float("nan")},
        {"retry_seconds": -1.0},
        {"name": "Shop"},
        {"name": "a" * 254},
        {"name": "a\n"},
        {"namespace": "a.b"},
        {"namespace": "a" * 64},
        {"identity": "a\nb"},
        {"identity": "a" * 201},
    ],
    ids=lambda given: str(given)[:40],
)
def test_settings_that_permit_two_writers_or_no_leader_are_refused(times: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="election"):
        ElectionSettings(**times)
