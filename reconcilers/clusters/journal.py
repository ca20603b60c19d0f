"""The journal of jobs: the unfinished and the finished jobs, as one value that is stored at once. Pure.

    accepted --(delete: uid noted)--> started --> done --> delivered: only the key and the outcome remain

Guarantees: a job is stored before it is acknowledged, and its result before it is sent, so a crash at any point loses and repeats nothing:
a successor continues where the journal ends. Finished jobs are remembered under their idempotency keys for longer than the control plane
keeps jobs, and in a bounded number.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from konverge.reconcilers.clusters.protocol import JobResult, Malformed, Outcome, read

__all__ = ["JournalEntry", "Finished", "Journal", "key_digest"]

_JOBS: Final = "jobs"
_FINISHED: Final = "finished"


def key_digest(key: str) -> str:
    """Return the stored form of an idempotency key: its length never depends on the key."""
    return hashlib.sha256(key.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """An unfinished job: as it was delivered, and its progress."""

    job_id: str
    key: str
    raw: Mapping[str, Any]
    uid: str = ""
    """The uid of the object to delete: recorded before the deletion, so that a new object of the same name is spared."""
    result: JobResult | None = None
    """Set once the job is done, and until its result is delivered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A finished job."""

    digest: str
    job_id: str
    outcome: Outcome
    reason: str
    at: int
    """Seconds since 1970."""
    expires: int
    """When the job expires: from then on a repetition of it is refused anyway."""


@dataclass(frozen=True, slots=True)
class Journal:
    """The entries in the order of their delivery, and the finished jobs, the oldest first."""

    entries: tuple[JournalEntry, ...] = ()
    finished: tuple[Finished, ...] = ()

    def entry(self, job_id: str) -> JournalEntry | None:
        """Return the entry of a job."""
        return next((entry for entry in self.entries if entry.job_id == job_id), None)

    def by_key(self, key: str) -> JournalEntry | Finished | None:
        """Return the record of a job with this idempotency key."""
        digest = key_digest(key)
        pending = next((entry for entry in self.entries if entry.key == key), None)
        return pending or next((finished for finished in self.finished if finished.digest == digest), None)

    def size(self) -> int:
        """Return the bytes of the entries, as they are stored."""
        return len(self.encode()[_JOBS])

    def accepted(self, entries: Iterable[JournalEntry]) -> Journal:
        """Return the journal with new entries."""
        return replace(self, entries=(*self.entries, *entries))

    def started(self, job_id: str, uid: str) -> Journal:
        """Return the journal with the uid of the object that the job deletes."""
        return self._changed(job_id, uid=uid)

    def done(self, job_id: str, result: JobResult) -> Journal:
        """Return the journal with the result of a job."""
        return self._changed(job_id, result=result)

    def _changed(self, job_id: str, **changes: Any) -> Journal:
        return replace(
            self,
            entries=tuple(replace(entry, **changes) if entry.job_id == job_id else entry for entry in self.entries),
        )

    def dropped(self, job_id: str) -> Journal:
        """Return the journal without a job that the control plane does not know any more."""
        return replace(self, entries=tuple(entry for entry in self.entries if entry.job_id != job_id))

    def delivered(self, job_id: str, expires: datetime) -> Journal:
        """Return the journal with a job whose result was received, among the finished jobs."""
        entry = self.entry(job_id)
        if entry is None or entry.result is None:
            return self
        finished = Finished(
            digest=key_digest(entry.key),
            job_id=job_id,
            outcome=entry.result.outcome,
            reason=entry.result.reason,
            at=int(entry.result.finished_at.timestamp()),
            expires=int(expires.timestamp()),
        )
        return replace(self.dropped(job_id), finished=(*self.finished, finished))

    def pruned(self, now: datetime, retention: timedelta, most: int) -> Journal:
        """Return the journal without finished jobs older than `retention`, and `most` of them at most.

        If there are too many, expired jobs are removed first: a repeated job that has expired is refused without the journal.
        """
        moment = now.timestamp()
        kept = [finished for finished in self.finished if finished.at > moment - retention.total_seconds()]
        surplus = len(kept) - most
        if surplus > 0:
            order = sorted(range(len(kept)), key=lambda index: (kept[index].expires > moment, index))
            gone = set(order[:surplus])
            kept = [finished for index, finished in enumerate(kept) if index not in gone]
        return replace(self, finished=tuple(kept))

    def encode(self) -> dict[str, bytes]:
        """Return the journal as the data of a Secret."""
        jobs = [
            {
                "id": entry.job_id,
                "key": entry.key,
                "raw": entry.raw,
                "uid": entry.uid,
                "result": None if entry.result is None else entry.result.model_dump(mode="json", by_alias=True),
            }
            for entry in self.entries
        ]
        finished = [
            [finished.digest, finished.job_id, finished.outcome, finished.reason, finished.at, finished.expires]
            for finished in self.finished
        ]
        return {_JOBS: msgspec.json.encode(jobs), _FINISHED: msgspec.json.encode(finished)}

    @classmethod
    def decode(cls, data: Mapping[str, bytes]) -> Journal:
        """Return a stored journal; raises Malformed."""
        try:
            jobs = msgspec.json.decode(data.get(_JOBS) or b"[]")
            finished = msgspec.json.decode(data.get(_FINISHED) or b"[]")
            return cls(
                tuple(
                    JournalEntry(
                        job_id=str(job["id"]),
                        key=str(job["key"]),
                        raw=dict(job["raw"]),
                        uid=str(job["uid"]),
                        result=None if job["result"] is None else read(JobResult, job["result"]),
                    )
                    for job in jobs
                ),
                tuple(
                    Finished(
                        digest=str(digest),
                        job_id=str(job_id),
                        outcome=Outcome(outcome),
                        reason=str(reason),
                        at=int(at),
                        expires=int(expires),
                    )
                    for digest, job_id, outcome, reason, at, expires in finished
                ),
            )
        except (msgspec.DecodeError, KeyError, TypeError, ValueError):
            raise Malformed(
                "the journal of jobs cannot be read; delete its Secret to begin with an empty one"
            ) from None
