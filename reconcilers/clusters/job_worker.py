"""Fetches jobs from the control plane by long poll, carries them out one after the other, and reports their results.

    journal -> ack -> effect -> journal -> result -> journal; `journal.py` has the reasons

A job that the API server does not carry out is put aside and tried again with growing pauses, until it expires. In the pauses, jobs of
other objects are carried out; jobs of the same object wait, so that an older state never overwrites a younger state.

If the journal is full, a new job is tried before it has an entry. A completed job needs no entry. A failed job stays unacknowledged with
the control plane until it is retried, or until it replaces an entry that has waited for `give_up`. The next poll requests the jobs after it
(`sweep.py`), so that failing jobs keep no other job out.

Guarantees: it may be cancelled at any point, and a successor continues from the journal: no job is lost and no job is carried out twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from random import Random
from typing import Any, Final

import structlog

from konverge.errors import KonvergeError, NotLeading
from konverge.reconcilers.clusters import protocol
from konverge.reconcilers.clusters.attempts import Attempts
from konverge.reconcilers.clusters.batch import Delivered, read_batch
from konverge.reconcilers.clusters.execute import Executor, final_result
from konverge.reconcilers.clusters.give_up import given_up, job_to_give_up
from konverge.reconcilers.clusters.job_limits import Gates
from konverge.reconcilers.clusters.jobs import JobRefusal, Task, read_job, result_of
from konverge.reconcilers.clusters.journal import Journal, JournalEntry
from konverge.reconcilers.clusters.metrics import PullMetrics
from konverge.reconcilers.clusters.plane_session import (
    CONFLICT,
    OK,
    REFUSED,
    PlaneSession,
    RotationRefused,
    SessionFailed,
)
from konverge.reconcilers.clusters.protocol import JobResult, Outcome, read
from konverge.reconcilers.clusters.results import expired, repetition
from konverge.reconcilers.clusters.room import Room
from konverge.reconcilers.clusters.secrets import JournalStore
from konverge.reconcilers.clusters.settings import Settings
from konverge.reconcilers.clusters.sweep import Place, Sweep, place_of
from konverge.reconcilers.clusters.transport import NoResponse
from konverge.reconcilers.clusters.words import UNKNOWN_KIND, JobReason
from konverge.words import LogKey

__all__ = ["JobWorker"]

_SOONEST: Final = 1.0
_MOST_ASKED: Final = 100
"""Jobs of one poll at most, while no delivered job has a place to wait."""


class JobWorker:
    """`load` reads the journal and has to be called before `run`; `worked` is called after each poll with a readable response."""

    def __init__(
        self,
        session: PlaneSession,
        store: JournalStore,
        executor: Executor,
        gates: Gates,
        settings: Settings,
        *,
        worked: Callable[[], None],
        metrics: PullMetrics,
        random: Random,
        now: Callable[[], datetime],
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        self._session = session
        self._store = store
        self._executor = executor
        self._gates = gates
        self._settings = settings
        self._worked = worked
        self._metrics = metrics
        self._random = random
        self._now = now
        self._log = log
        self._journal = Journal()
        self._room = Room(settings.most_pending)
        self._attempts = Attempts(random)
        self._sweep = Sweep()

    async def load(self) -> None:
        """Read the stored journal."""
        self._journal = await self._store.load()
        self._attempts = Attempts(self._random, stored=self._journal.entries, now=_time())
        self._sweep = Sweep()

    async def run(self) -> None:
        """Finish the jobs of the journal, then poll until cancelled."""
        await self._resume()
        limit = self._settings.most_pending
        while True:
            await self._work_off()
            wait = self._attempts.next_due(_time(), most=self._settings.wait)  # the retry then follows the poll
            query = {"cluster": self._gates.cluster_id, "wait": str(wait), "limit": str(limit)}
            if self._sweep.after:
                query["after"] = self._sweep.after
            try:
                response = await self._session.call("GET", "/jobs", query=query, wait=wait)
            except NoResponse as error:
                if not error.too_large or limit == 1:
                    raise
                limit = 1  # one at a time, so that the jobs that are small enough get through
                continue
            if response.status != OK and self._sweep.after:  # it may refuse a parameter that it does not know
                self._sweep = Sweep()
                continue
            if response.status != OK:
                raise SessionFailed(f"the control plane responds to the poll for jobs with status {response.status}")
            try:
                jobs = read_batch(response.body)
            except protocol.Malformed as error:
                if limit > 1:
                    limit = 1  # as above
                    continue
                raise SessionFailed(f"{error}; remove its oldest job from the control plane, or repair it") from None
            self._worked()
            if self._sweep.is_repeated_by(str(job.raw.get("id")) for job in jobs):
                self._sweep = Sweep()
            new = await self._take(jobs, full=len(jobs) >= limit)
            # If no delivered job has a place, further jobs may be behind these.
            most = self._settings.most_pending if new or len(jobs) < limit else _MOST_ASKED
            limit = min(limit * 2, most)
            if not new:
                # A control plane that does not wait, or repeats itself, is not polled in a loop.
                await asyncio.sleep(_SOONEST)

    async def _resume(self) -> None:
        """Finish the jobs of the journal, except for jobs that the control plane has dropped since then."""
        for entry in self._journal.entries:
            begun = entry.result is not None or entry.uid
            if not begun and not await self._ack(entry.job_id):
                await self._drop(entry.job_id)
        await self._work_off()

    async def _take(self, jobs: Iterable[Delivered], *, full: bool) -> bool:
        """Carry out the jobs of a response; returns whether any was new. `full`: there may be others behind them."""
        now, behind = self._now(), self._sweep.behind
        fresh: list[JournalEntry] = []
        tried: list[JournalEntry] = []
        repeated: list[str] = []
        direct: list[tuple[str, JobResult]] = []
        left = set(behind)  # by jobs without a place: a younger job of such an object must not overtake them
        seen: list[str] = []
        places: dict[str, Place] = {}
        for job in jobs:
            task = read_job(job.raw, self._gates, now, job.problem)
            job_id, key = (
                (task.job_id, task.key) if isinstance(task, JobRefusal) else (task.job.id, task.job.idempotency_key)
            )
            seen.append(job_id)
            known = self._journal.by_key(key) if key else None
            if job_id and self._journal.entry(job_id) is not None:
                repeated.append(job_id)
            elif known is not None or any(entry.key == key for entry in (*fresh, *tried)):
                direct.append((job_id, repetition(known, job_id, key, now)))
            elif isinstance(task, JobRefusal) and not self._attempts.waits(job_id):
                self._refused(task)
                if job_id:
                    direct.append((job_id, result_of(task, now)))
            else:
                entry = JournalEntry(job_id=job_id, key=key, raw=job.raw)
                place = None if isinstance(task, JobRefusal) else place_of(task)
                if place is not None:
                    places[job_id] = place
                if place not in left and self._room.fits(self._journal, (*fresh, entry)):
                    fresh.append(entry)
                elif place not in behind and self._room.fits_for_a_try(self._journal, entry):
                    tried.append(entry)
                elif place not in left and await self._makes_room((*fresh, entry)):
                    fresh.append(entry)
                if place is not None and entry not in fresh:
                    left.add(place)
        if fresh:
            await self._accept(fresh)
        for job_id in (*repeated, *(entry.job_id for entry in fresh)):
            if not await self._ack(job_id):
                await self._drop(job_id)
        for job_id, result in direct:
            # Not acknowledged before: an acknowledged job is in the journal, and a crash would lose this result.
            await self._report(job_id, result)
        new = await self._work_off(tuple(tried)) or bool(fresh)
        self._turn_over(seen, places, full=full)
        return new

    def _turn_over(self, seen: list[str], places: Mapping[str, Place], *, full: bool) -> None:
        """Continue behind the jobs of a page that have no place; `places` are the objects of the jobs that were not refused."""
        unplaced = [job_id for job_id in places if self._is_left(job_id)]
        self._sweep.behind.update(places[job_id] for job_id in unplaced)
        if self._sweep.ends_with(seen, left=len(unplaced) + seen.count(""), full=full):
            # The control plane no longer offers the other jobs.
            self._attempts.forget_all_but(self._sweep.seen | {entry.job_id for entry in self._journal.entries})
            self._sweep = Sweep()

    def _is_left(self, job_id: str) -> bool:
        """Tell whether a job that was delivered has neither a place in the journal nor a result."""
        return self._journal.entry(job_id) is None and all(
            finished.job_id != job_id for finished in self._journal.finished
        )

    async def _accept(self, fresh: list[JournalEntry]) -> None:
        self._attempts.placed((entry.job_id for entry in fresh), _time())
        await self._write(self._journal.accepted(fresh))

    async def _try(self, entry: JournalEntry, held: set[Place], *, again: bool) -> bool:
        """Carry out a job that has no place to wait, unless it failed before (`again`: this is its next try); returns whether it is done.

        The job is in the journal during the try, and is removed without a trace if it fails: the control plane delivers it again, since it
        was not acknowledged. A deletion that has begun stays in the journal: without its uid, a new object of the name could not be
        distinguished.
        """
        waits = self._attempts.waits(entry.job_id) and not again
        if waits or not self._room.fits_for_a_try(self._journal, entry):
            held.add(_place_of(entry, self._gates))
            return False
        await self._write(self._journal.accepted((entry,)))
        if await self._advance(entry, held, again=True):
            return True
        stored = self._journal.entry(entry.job_id)
        assert stored is not None
        if not stored.uid:
            await self._write(self._journal.dropped(entry.job_id))
            if not await self._makes_room((entry,)):
                return False
            await self._write(self._journal.accepted((entry,)))
        self._attempts.placed((entry.job_id,), _time())
        if not await self._ack(entry.job_id):
            await self._drop(entry.job_id)
        return False

    def _refused(self, refusal: JobRefusal) -> None:
        self._log.warning("a job is refused", **{LogKey.CAUSE: refusal.reason})
        self._metrics.jobs.labels(kind=UNKNOWN_KIND, outcome=str(refusal.outcome)).inc()

    async def _makes_room(self, fresh: tuple[JournalEntry, ...]) -> bool:
        """Return whether the journal takes these entries, after giving up jobs that have waited too long for another attempt.

        Their results are stored before they are sent, like all results.
        """
        while not self._room.fits(self._journal, fresh):
            if len(fresh) > self._settings.most_pending:
                return False
            entry = job_to_give_up(self._journal, self._attempts, self._settings.give_up, _time())
            if entry is None:
                return False
            if entry.result is None:
                await self._write(self._journal.done(entry.job_id, self._given_up(entry)))
            stored = self._journal.entry(entry.job_id)
            assert stored is not None
            await self._advance(stored, set())
            await self._write(self._journal)
        return True

    def _given_up(self, entry: JournalEntry) -> JobResult:
        job = read(protocol.Job, entry.raw)
        self._log.warning("a job is given up, the journal is full", **{LogKey.CAUSE: JobReason.GIVEN_UP})
        self._metrics.jobs.labels(kind=job.kind, outcome=str(Outcome.FAILED)).inc()
        return given_up(entry, self._now())

    async def _write(self, journal: Journal) -> None:
        """Store the journal; an error restarts the agent, because the journal may be stored or not."""
        try:
            await self._store.save(journal)
        except NotLeading:
            raise
        except KonvergeError as error:
            raise SessionFailed(f"the journal of jobs could not be written ({type(error).__name__})") from None
        self._journal = journal

    async def _drop(self, job_id: str) -> None:
        """Forget a job that the control plane has dropped."""
        self._attempts.dropped(job_id)
        await self._write(self._journal.dropped(job_id))

    async def _ack(self, job_id: str) -> bool:
        """Acknowledge a job; returns whether the control plane still knows it."""
        response = await self._session.call("POST", f"/jobs/{job_id}/ack")
        return response.status < REFUSED or response.status == CONFLICT

    async def _report(self, job_id: str, result: JobResult) -> None:
        """Send a result; a control plane that does not know the job, or has a result, needs none."""
        await self._session.call("POST", f"/jobs/{job_id}/result", result)

    async def _work_off(self, tried: tuple[JournalEntry, ...] = ()) -> bool:
        """Carry out and report the jobs of the journal, in the order of their delivery, then one failed job that is due.

        An attempt that fails takes seconds, so more than one attempt would hold up new jobs of the control plane. `tried`: jobs
        that have no place to wait; returns whether one of them was carried out.
        """
        held: set[Place] = set()
        finished = [await self._advance(entry, held) for entry in self._journal.entries]
        entry = self._attempts.due_first(self._journal.entries, _time())
        if entry is not None:
            # No job of its object precedes it: all earlier jobs were finished before its first try.
            finished.append(await self._advance(entry, set(), again=True))
        again = self._attempts.due_first(tried, _time())
        done = [await self._try(entry, held, again=entry is again) for entry in tried]
        if any(finished) or any(done):
            settings = self._settings
            await self._write(self._journal.pruned(self._now(), settings.retention, settings.most_remembered))
        return any(done)

    async def _advance(self, entry: JournalEntry, held: set[Place], *, again: bool = False) -> bool:
        """Carry out and report a job, unless it waits; returns whether it is finished."""
        result = entry.result
        if result is None:
            result = await self._outcome(entry, held, again=again)
            if result is None:
                return False
            await self._write(self._journal.done(entry.job_id, result))
        await self._report(entry.job_id, result)
        self._attempts.ended(entry.job_id)
        self._journal = self._journal.delivered(entry.job_id, _expiry(entry.raw))
        return True

    async def _outcome(self, entry: JournalEntry, held: set[Place], *, again: bool) -> JobResult | None:
        """Carry out a job; None if it waits for its next attempt (`again`: this is it), or behind a job of the same object, in `held`."""
        waits = self._attempts.waits(entry.job_id)
        # A deletion that has begun is completed, however late it is, and a job that was tried here has a result of its own.
        begun = entry.uid or waits
        task = read_job(entry.raw, self._gates, datetime.min.replace(tzinfo=UTC) if begun else self._now())
        if isinstance(task, JobRefusal):
            self._refused(task)
            return result_of(task, self._now())
        place = place_of(task)
        if place in held or (waits and not again):
            held.add(place)
            return None
        result = await self._carried_out(task, entry.uid)
        if result is None:
            held.add(place)
            return None
        self._metrics.jobs.labels(kind=task.job.kind, outcome=str(result.outcome)).inc()
        self._metrics.lag.set(max((self._now() - task.job.created_at).total_seconds(), 0.0))
        return result

    async def _carried_out(self, task: Task, uid: str) -> JobResult | None:
        """Try a job once; None if it is to be tried again."""
        job_id = task.job.id

        async def note(uid: str) -> None:
            await self._write(self._journal.started(job_id, uid))

        try:
            return await self._executor.run(task, uid=uid, note=note, resumed=self._attempts.may_have_begun(job_id))
        except (SessionFailed, NoResponse, NotLeading):
            raise
        except RotationRefused as error:
            late = words = str(error)
        except KonvergeError as error:
            final = final_result(task, error, self._now())
            if final is not None:
                return final
            late = f"the API server did not carry it out in time ({type(error).__name__})"
            words = f"the API server is tried again ({type(error).__name__})"
        if task.job.expires_at <= self._now():
            return expired(task, late, self._now())
        self._attempts.began(job_id)
        await self._session.call("POST", f"/jobs/{job_id}/status", protocol.JobStatus(state="retrying", message=words))
        self._attempts.failed(job_id, _time())
        return None


def _time() -> float:
    return asyncio.get_running_loop().time()


def _place_of(entry: JournalEntry, gates: Gates) -> Place:
    """Return the object of a job that was read before, whether or not it has expired since."""
    task = read_job(entry.raw, gates, datetime.min.replace(tzinfo=UTC))
    assert not isinstance(task, JobRefusal)
    return place_of(task)


def _expiry(raw: Mapping[str, Any]) -> datetime:
    return read(protocol.Job, raw).expires_at
