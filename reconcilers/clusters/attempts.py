"""When the jobs of one agent are tried again, and since when each of them waits. Pure: the caller passes the times, in seconds.

A job that the API server did not carry out gets a pause, which doubles with each attempt. The process keeps this in memory only: a
successor tries each job of the journal at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from random import Random
from typing import Final

from konverge.reconcilers.clusters.journal import JournalEntry

__all__ = ["Attempts"]

_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 30.0


@dataclass(frozen=True, slots=True)
class _Retry:
    """When a job that failed is tried again, and the pause after that."""

    due: float
    pause: float


class Attempts:
    """The attempts of all jobs that this process knows.

    >>> attempts = Attempts(Random(1))
    >>> attempts.failed("a", now=100.0)
    >>> attempts.waits("a"), attempts.next_due(100.0, most=20)
    (True, 1)
    """

    def __init__(self, random: Random, *, stored: Iterable[JournalEntry] = (), now: float = 0.0) -> None:
        """`stored`: the jobs of the journal; an earlier process may have begun each."""
        self._random = random
        self._retries: dict[str, _Retry] = {}
        self._since = {entry.job_id: now for entry in stored}
        """When each job of the journal got its place, or was found there by this process."""
        self._begun = set(self._since)

    def placed(self, job_ids: Iterable[str], now: float) -> None:
        """Record that jobs got their place in the journal."""
        self._since |= dict.fromkeys(job_ids, now)

    def began(self, job_id: str) -> None:
        """Record that a job was tried: its write may have been done even if the response was lost."""
        self._begun.add(job_id)

    def failed(self, job_id: str, now: float) -> None:
        """Record that a job was not carried out and is tried again."""
        before = self._retries.get(job_id)
        pause = _FIRST_PAUSE if before is None else before.pause
        due = now + pause * self._random.uniform(1.0, 1.5)
        self._retries[job_id] = _Retry(due, min(pause * 2, _LONGEST_PAUSE))

    def waits(self, job_id: str) -> bool:
        """Tell whether a job failed before, and is tried again when its pause is over."""
        return job_id in self._retries

    def may_have_begun(self, job_id: str) -> bool:
        """Tell whether this process or an earlier process may have begun a job."""
        return job_id in self._begun

    def next_due(self, now: float, *, most: int) -> int:
        """Return for how many whole seconds no job is due, `most` at most."""
        return min((most, *(max(int(retry.due - now), 0) for retry in self._retries.values())))

    def due_first(self, entries: Iterable[JournalEntry], now: float) -> JournalEntry | None:
        """Return the job of these whose next attempt has been due for longest; None if none is due."""
        retries = self._retries
        due = [entry for entry in entries if entry.job_id in retries and retries[entry.job_id].due <= now]
        return min(due, key=lambda entry: retries[entry.job_id].due, default=None)

    def first_placed_by(self, moment: float, entries: Iterable[JournalEntry]) -> JournalEntry | None:
        """Return the first of these jobs that had its place at that time."""
        return next((entry for entry in entries if self._since.get(entry.job_id, moment) <= moment), None)

    def ended(self, job_id: str) -> None:
        """Forget a job that is finished."""
        self.dropped(job_id)
        self._begun.discard(job_id)

    def dropped(self, job_id: str) -> None:
        """Forget when a job that the control plane has dropped is tried again."""
        self._retries.pop(job_id, None)
        self._since.pop(job_id, None)

    def forget_all_but(self, job_ids: Collection[str]) -> None:
        """Forget the attempts of all other jobs."""
        self._retries = {job_id: retry for job_id, retry in self._retries.items() if job_id in job_ids}
        self._begun.intersection_update(job_ids)
