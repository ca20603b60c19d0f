from typing import Any

import pytest

from konverge.client import Ledger, Write, WriteState
from konverge.kinds import kind

SECRET = kind("v1", "Secret")
DEPLOYMENT = kind("apps/v1", "Deployment")
ME, OTHER = ("backup", "a"), ("restore", "b")


def states(ledger: Ledger, writer: Any = ME) -> list[tuple[str, WriteState, str]]:
    return [(write.name, write.state, write.version) for write in ledger.pending(writer)]


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


def test_a_write_goes_from_in_flight_to_done(ledger: Ledger) -> None:
    pending = ledger.begin(ME, SECRET, "web", "a")
    assert states(ledger) == [("a", WriteState.IN_FLIGHT, "")]
    pending.settle("7", "u-1")
    assert states(ledger) == [("a", WriteState.DONE, "7")]
    assert ledger.pending(ME)[0].uid == "u-1"
    assert ledger.pending(OTHER) == ()


def test_of_several_writes_to_an_object_only_the_newest_is_pending(ledger: Ledger) -> None:
    ledger.begin(ME, SECRET, "web", "a").settle("7", "u")
    ledger.begin(ME, SECRET, "web", "b").settle("8", "u")
    ledger.begin(ME, SECRET, "web", "a").settle("9", "u")
    assert sorted(states(ledger)) == [("a", WriteState.DONE, "9"), ("b", WriteState.DONE, "8")]


def test_answers_that_arrive_out_of_order_do_not_turn_versions_back(ledger: Ledger) -> None:
    first = ledger.begin(ME, SECRET, "web", "a")
    second = ledger.begin(ME, SECRET, "web", "a")
    first.settle("12", "u")
    assert states(ledger) == [("a", WriteState.IN_FLIGHT, "")]
    second.settle("9", "u")
    assert states(ledger) == [("a", WriteState.DONE, "12")]


def test_versions_of_another_incarnation_do_not_count(ledger: Ledger) -> None:
    ledger.begin(ME, SECRET, "web", "a").settle("12", "u-1")
    ledger.begin(ME, SECRET, "web", "a").settle("9", "u-2")
    assert ledger.pending(ME)[0].uid == "u-2"


def test_versions_that_cannot_be_compared_go_by_the_order_of_the_writes(ledger: Ledger) -> None:
    ledger.begin(ME, SECRET, "web", "a").settle("zz", "u")
    ledger.begin(ME, SECRET, "web", "a").settle("aa", "u")
    assert states(ledger) == [("a", WriteState.DONE, "aa")]


def test_a_failed_write_leaves_the_earlier_pending_write(ledger: Ledger) -> None:
    ledger.begin(ME, SECRET, "web", "a").settle("7", "u")
    ledger.begin(ME, SECRET, "web", "a").failed()
    assert states(ledger) == [("a", WriteState.DONE, "7")]
    ledger.begin(OTHER, SECRET, "web", "a").failed()
    assert ledger.pending(OTHER) == ()


def test_a_lost_answer_stays_unknown_until_a_later_write_is_answered(ledger: Ledger) -> None:
    ledger.begin(ME, SECRET, "web", "a").settle("7", "u")
    ledger.begin(ME, SECRET, "web", "a").unknown()
    assert states(ledger) == [("a", WriteState.UNKNOWN, "")]
    ledger.begin(ME, SECRET, "web", "a").failed()
    assert states(ledger) == [("a", WriteState.UNKNOWN, "")]
    ledger.begin(ME, SECRET, "web", "a").settle("9", "u")
    assert states(ledger) == [("a", WriteState.DONE, "9")]


def test_unknown_write_older_than_an_acknowledged_write_does_not_count(ledger: Ledger) -> None:
    slow = ledger.begin(ME, SECRET, "web", "a")
    ledger.begin(ME, SECRET, "web", "a").settle("9", "u")
    slow.unknown()
    assert states(ledger) == [("a", WriteState.DONE, "9")]


def test_a_settled_write_that_was_hidden_by_an_unknown_one_comes_back(ledger: Ledger) -> None:
    ledger.begin(ME, SECRET, "web", "a").settle("7", "u")
    ledger.begin(ME, SECRET, "web", "a").unknown()
    ledger.seen(ME, ledger.pending(ME)[0])
    assert states(ledger) == [("a", WriteState.DONE, "7")]
    ledger.seen(ME, ledger.pending(ME)[0])
    assert ledger.statistics().writers == 0


def test_a_deletion_is_pending_with_its_uid(ledger: Ledger) -> None:
    ledger.begin(ME, SECRET, "web", "a").deleted("u-1")
    assert ledger.pending(ME)[0] == Write(SECRET, "web", "a", WriteState.DELETED, uid="u-1", number=1)


def test_seen_ignores_a_write_that_a_later_one_has_replaced(ledger: Ledger) -> None:
    ledger.begin(ME, SECRET, "web", "a").settle("7", "u")
    (old,) = ledger.pending(ME)
    pending = ledger.begin(ME, SECRET, "web", "a")
    ledger.seen(ME, old)
    ledger.seen(ME, ledger.pending(ME)[0])
    assert states(ledger) == [("a", WriteState.IN_FLIGHT, "")]
    pending.settle("8", "u")
    ledger.seen(ME, old)
    assert states(ledger) == [("a", WriteState.DONE, "8")]
    ledger.seen(OTHER, ledger.pending(ME)[0])
    ledger.seen(ME, ledger.pending(ME)[0])
    assert ledger.pending(ME) == ()


def test_a_ticket_counts_once(ledger: Ledger) -> None:
    pending = ledger.begin(ME, SECRET, "web", "a")
    pending.settle("7", "u")
    pending.unknown()
    pending.failed()
    pending.deleted("u")
    assert states(ledger) == [("a", WriteState.DONE, "7")]


def test_a_generated_name_replaces_the_empty_one(ledger: Ledger) -> None:
    first, second = (ledger.begin(ME, SECRET, "web", "") for _ in range(2))
    assert [write.state for write in ledger.pending(ME)] == [WriteState.IN_FLIGHT]
    first.settle("7", "u-1", "a-1")
    second.settle("8", "u-2", "a-2")
    assert states(ledger) == [("a-1", WriteState.DONE, "7"), ("a-2", WriteState.DONE, "8")]
    assert ledger.writer_of(SECRET, "web", "") is None
    assert ledger.writer_of(SECRET, "web", "a-2") == ME


def test_the_last_writer_is_known_across_api_versions(ledger: Ledger) -> None:
    ledger.begin(ME, DEPLOYMENT, "web", "a").settle("7", "u")
    assert ledger.writer_of(kind("apps/v1beta1", "Deployment"), "web", "a") == ME
    assert ledger.writer_of(kind("other/v1", "Deployment"), "web", "a") is None
    ledger.begin(OTHER, DEPLOYMENT, "web", "a").unknown()
    assert ledger.writer_of(DEPLOYMENT, "web", "a") == OTHER


def test_a_failed_write_does_not_change_the_last_writer(ledger: Ledger) -> None:
    ledger.begin(OTHER, SECRET, "web", "a").failed()
    assert ledger.writer_of(SECRET, "web", "a") is None
    ledger.begin(ME, SECRET, "web", "a").settle("7", "u")
    ledger.begin(OTHER, SECRET, "web", "a").failed()
    assert ledger.writer_of(SECRET, "web", "a") == ME
    ledger.begin(ME, SECRET, "web", "a").failed()
    assert ledger.writer_of(SECRET, "web", "a") == ME


def test_an_object_that_is_gone_has_no_writer(ledger: Ledger) -> None:
    ledger.begin(ME, SECRET, "web", "a").settle("7", "u")
    ledger.begin(OTHER, SECRET, "web", "a").deleted("u")
    assert ledger.writer_of(SECRET, "web", "a") is None


def test_the_memory_of_writers_is_bounded_and_forgets_the_oldest() -> None:
    ledger = Ledger(max_last_writers=3)
    for name in "abcd":
        ledger.begin(ME, SECRET, "web", name).settle("1", "u")
    ledger.begin(ME, SECRET, "web", "b").settle("2", "u")
    ledger.begin(ME, SECRET, "web", "e").settle("2", "u")
    known = [name for name in "abcde" if ledger.writer_of(SECRET, "web", name) is not None]
    assert known == ["b", "d", "e"]


def test_forgetting_an_actor_leaves_no_trace_of_it_and_all_of_others(ledger: Ledger) -> None:
    ledger.begin(ME, SECRET, "web", "a").settle("1", "u")
    ledger.begin(ME, SECRET, "web", "b").unknown()
    ledger.begin(OTHER, SECRET, "web", "c").settle("1", "u")
    flying = ledger.begin(ME, SECRET, "web", "d")
    ledger.forget(ME)
    assert states(ledger) == [("d", WriteState.IN_FLIGHT, "")]
    flying.settle("9", "u")
    assert ledger.pending(ME) == ()
    assert [ledger.writer_of(SECRET, "web", name) for name in "abc"] == [None, None, OTHER]
    assert states(ledger, OTHER) == [("c", WriteState.DONE, "1")]


def test_statistics_count_the_entries_of_the_ledger(ledger: Ledger) -> None:
    ledger.begin(ME, SECRET, "web", "a").settle("1", "u")
    ledger.begin(ME, SECRET, "web", "b").unknown()
    ledger.begin(OTHER, SECRET, "web", "c")
    found = ledger.statistics()
    assert (found.writers, found.pending, found.in_flight, found.unknown, found.last_writers) == (2, 3, 1, 1, 3)
