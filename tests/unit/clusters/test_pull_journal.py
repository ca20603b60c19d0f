"""The bounds of the journal of jobs, in age, number and bytes, and its stored form."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pull_kit import World, ensure

from konverge.reconcilers.clusters.journal import Finished, Journal, JournalEntry, key_digest
from konverge.reconcilers.clusters.protocol import JobResult, Malformed, Outcome

NOW = datetime(2026, 1, 10, 12, tzinfo=UTC)
WEEK = timedelta(days=7)
RESULT = JobResult(idempotency_key="k", outcome=Outcome.SUCCEEDED, reason="Applied", finished_at=NOW)


def finished(name: str, *, age: timedelta = timedelta(0), expires: timedelta = timedelta(days=1)) -> Finished:
    at = int((NOW - age).timestamp())
    return Finished(
        digest=key_digest(name),
        job_id=name,
        outcome=Outcome.SUCCEEDED,
        reason="Applied",
        at=at,
        expires=int((NOW + expires).timestamp()),
    )


@pytest.mark.parametrize(
    ("jobs", "most", "kept"),
    [
        pytest.param([finished("a"), finished("b")], 2, ["a", "b"], id="as many as may be remembered"),
        pytest.param([finished("a"), finished("b"), finished("c")], 2, ["b", "c"], id="one too many: the oldest goes"),
        pytest.param(
            [finished("a"), finished("b", expires=-timedelta(hours=1)), finished("c")],
            2,
            ["a", "c"],
            id="one that has expired goes before an older one that could be repeated",
        ),
        pytest.param(
            [finished("a", age=WEEK), finished("b", age=WEEK - timedelta(seconds=1))], 9, ["b"], id="older than a week"
        ),
        pytest.param([finished(name) for name in "abcdef"], 1, ["f"], id="far too many"),
    ],
)
def test_finished_jobs_are_remembered_for_bounded_time_and_in_bounded_number(
    jobs: list[Finished], most: int, kept: list[str]
) -> None:
    pruned = Journal(finished=tuple(jobs)).pruned(NOW, WEEK, most)
    assert [one.job_id for one in pruned.finished] == kept
    for name in kept:
        assert pruned.by_key(name) is not None


def test_pruning_takes_no_job_that_is_not_finished() -> None:
    entry = JournalEntry(job_id="open", key="k", raw={"id": "open"})
    assert Journal(entries=(entry,)).pruned(NOW + 100 * WEEK, WEEK, 0).entries == (entry,)


def test_a_journal_is_read_as_it_was_stored() -> None:
    open_job = JournalEntry(job_id="1", key="k-1", raw={"id": "1", "payload": {"a": [1, None]}}, uid="u-1")
    done = JournalEntry(job_id="2", key="k-2", raw={"id": "2"}, result=RESULT)
    journal = Journal((open_job, done), (finished("3"), finished("4")))
    assert Journal.decode(journal.encode()) == journal
    assert Journal.decode({}) == Journal()


@pytest.mark.parametrize("part", ["jobs", "finished"])
@pytest.mark.parametrize(
    "content", [b"{", b"7", b"[1]", b'[{"id": 1}]', b'[["digest", "id", "no outcome", "r", 1, 2]]']
)
def test_a_stored_journal_that_cannot_be_read_says_how_to_begin_anew(part: str, content: bytes) -> None:
    with pytest.raises(Malformed, match="delete its Secret to begin with an empty one"):
        Journal.decode({part: content})


def heavy(name: str, kilobytes: int) -> dict[str, Any]:
    """Return a job of about this size with values that differ from every other job's."""
    return ensure(name, values={"source": "inline", "inline": {"text": name * (1024 * kilobytes // len(name))}})


async def test_jobs_beyond_the_journal_bytes_wait_for_the_jobs_before_them() -> None:
    """Six jobs of 200 kB are more than the Secret of the journal holds: its limit is the size limit of an object."""
    sizes: list[int] = []
    async with World(most_response=4 * 1024 * 1024) as world:
        unsubscribe = world.server.store.subscribe(("", "secrets"), lambda event: sizes.append(len(event.entry.raw)))
        jobs = [world.plane.submit("intent", heavy(f"shop-{number}", 200)) for number in range(6)]
        await world.start()
        outcomes = [(await world.plane.result(job)).outcome for job in jobs]
        unsubscribe()
    assert outcomes == [Outcome.SUCCEEDED] * len(jobs)
    assert 2 * 200 * 1024 < max(sizes) < 1024 * 1024
