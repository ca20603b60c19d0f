"""When a job that the API server rejected is retried."""

from datetime import timedelta
from random import Random

from konverge.reconcilers.clusters.attempts import Attempts
from konverge.reconcilers.clusters.give_up import job_to_give_up
from konverge.reconcilers.clusters.journal import Journal, JournalEntry


def entry(job_id: str) -> JournalEntry:
    return JournalEntry(job_id=job_id, key=job_id, raw={})


class Shortest(Random):
    """A random source that always draws the shortest pause."""

    def uniform(self, a: float, b: float) -> float:
        return a


def pauses(attempts: Attempts, times: int) -> list[int]:
    found = list[int]()
    for number in range(times):
        attempts.failed("a", now=1000.0 * number)
        found.append(attempts.next_due(1000.0 * number, most=60))
    return found


def test_the_pauses_of_a_job_double_up_to_half_a_minute() -> None:
    assert pauses(Attempts(Shortest()), 7) == [1, 2, 4, 8, 16, 30, 30]


def test_finished_or_dropped_job_starts_with_the_first_delay_again() -> None:
    attempts = Attempts(Shortest())
    pauses(attempts, 3)
    attempts.ended("a")
    assert pauses(attempts, 2) == [1, 2]
    attempts.dropped("a")
    assert pauses(attempts, 1) == [1]


def test_the_job_that_has_been_due_for_longest_is_tried_first() -> None:
    attempts = Attempts(Shortest())
    for number, job_id in enumerate("cab"):
        attempts.failed(job_id, now=float(number))
    jobs = [entry(job_id) for job_id in "abcd"]
    assert attempts.due_first(jobs, now=0.5) is None
    assert attempts.due_first(jobs, now=2.5) == entry("c")
    assert attempts.due_first(jobs[:2], now=10.0) == entry("a")


def test_jobs_of_the_stored_journal_may_have_begun_before_this_process() -> None:
    attempts = Attempts(Shortest(), stored=[entry("a")], now=100.0)
    attempts.placed(["b"], now=50.0)
    assert [attempts.may_have_begun(job_id) for job_id in "ab"] == [True, False]
    assert attempts.first_placed_by(99.0, map(entry, "ab")) == entry("b")
    attempts.ended("a")
    assert not attempts.may_have_begun("a")


def test_attempts_of_jobs_that_are_no_longer_offered_are_forgotten() -> None:
    attempts = Attempts(Shortest())
    for job_id in "ab":
        attempts.began(job_id)
        attempts.failed(job_id, now=0.0)
    attempts.forget_all_but({"b"})
    assert [(attempts.waits(job_id), attempts.may_have_begun(job_id)) for job_id in "ab"] == [
        (False, False),
        (True, True),
    ]


def test_the_oldest_job_that_has_waited_too_long_is_given_up() -> None:
    attempts, journal = Attempts(Shortest()), Journal().accepted((entry("a"), entry("b"), entry("c")))
    for job_id, now in (("a", 2.0), ("b", 1.0), ("c", 3.0)):
        attempts.placed([job_id], now=now)
    chosen = [job_to_give_up(journal, attempts, timedelta(seconds=10), now) for now in (10.9, 11.0, 12.0)]
    assert chosen == [None, entry("b"), entry("a")]
