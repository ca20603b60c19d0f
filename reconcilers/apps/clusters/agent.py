"""The agent of one Cluster: registers, fetches jobs, carries them out, reports results and status.

    _work    credential (register, rotate) -> journal -> status of every object -> what the journal left -> poll, and events beside it
    job      journal -> ack -> effect -> journal -> result -> journal; `journal.py` says why
    401      the credential is read again once, then the agent stops; 403 stops it; 404 drops what was to be said; 409 is a success;
             429 waits for Retry-After; 5xx and no response: pauses from one second on, then `_work` from the beginning

Guarantees: it ends only by being cancelled, at any point, and a successor goes on from the journal. No credential is in a log line, in its
state or in an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from random import Random
from typing import TYPE_CHECKING, Any, Final

from konverge.clock import rfc3339, wall_clock
from konverge.errors import ApiError, KonvergeError, NotLeading
from konverge.logs import get_logger
from konverge.objects import Object
from konverge.reconcilers.apps.clusters import protocol
from konverge.reconcilers.apps.clusters.batch import Delivered, read_batch
from konverge.reconcilers.apps.clusters.events import EventBuffer, snapshot
from konverge.reconcilers.apps.clusters.execute import Executor, final_result
from konverge.reconcilers.apps.clusters.jobs import Gates, JobRefusal, Task, read_job, result_of
from konverge.reconcilers.apps.clusters.journal import Finished, Journal, JournalEntry
from konverge.reconcilers.apps.clusters.metrics import PullMetrics
from konverge.reconcilers.apps.clusters.protocol import API, MOST_EVENTS, JobResult, Outcome, StatusEvent, read, write
from konverge.reconcilers.apps.clusters.secrets import (
    AgentCredentials,
    JournalStore,
    SecretOwner,
    SecretStore,
    credentials_of,
)
from konverge.reconcilers.apps.clusters.settings import Settings
from konverge.reconcilers.apps.clusters.transport import NoResponse, PlaneRequest, PlaneResponse, PlaneTransport
from konverge.reconcilers.apps.clusters.words import FIELD_MANAGER, UNKNOWN_KIND, Authenticated, JobReason, Mode
from konverge.tasks import wait_first
from konverge.words import LogKey

if TYPE_CHECKING:
    from konverge.client import Client

__all__ = ["Agent", "AgentConfig", "AgentState", "Step"]

_SOONEST: Final = 1.0
_JOB_RETRY_MOST: Final = 30.0
_RETRY_AFTER_MOST: Final = 3600.0
_JOURNAL_BYTES: Final = 600 * 1024
"""Bytes of unfinished jobs that the journal takes: with the finished ones below what a Secret holds."""
_OK, _CREATED, _UNAUTHORIZED, _FORBIDDEN, _CONFLICT, _TOO_MANY = 200, 201, 401, 403, 409, 429
_REDIRECTED, _REFUSED, _FAILED = 300, 400, 500


class Step(StrEnum):
    """The state of an agent."""

    STARTING = "starting"
    REGISTERING = "registering"
    CONNECTED = "connected"
    DISCONNECTED = "disconnected"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """The control plane of a Cluster, and what is to be done once: register by a token, replace the credential."""

    owner: SecretOwner
    endpoint: str
    namespace: str
    token: str = field(default="", repr=False)
    token_digest: str = ""
    rotate: str = ""
    """The request to replace the credential; empty: none."""
    settings: Settings

    def needs_restart(self, running: AgentConfig) -> bool:
        """Tell whether an agent with another configuration has to begin anew."""
        once: dict[str, Any] = {"token": "", "token_digest": "", "rotate": ""}
        return (
            replace(self, **once) != replace(running, **once)
            or self.token_digest not in ("", running.token_digest)
            or self.rotate not in ("", running.rotate)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentState:
    """The state that the reconciler of the Cluster reports."""

    step: Step = Step.STARTING
    last_round_trip: datetime | None = None
    credentials: AgentCredentials | None = None
    reason: str = ""
    """Why it stopped: a reason of Authenticated."""
    message: str = ""


class _Stopped(Exception):
    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class _Failed(KonvergeError):
    """The control plane does not work at present."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Agent:
    """Runs until it is cancelled. `statuses` returns the objects whose status is reported, `changed` is called with each new state."""

    def __init__(
        self,
        config: AgentConfig,
        *,
        client: Client,
        manager: str,
        transport: PlaneTransport,
        random: Random,
        metrics: PullMetrics,
        statuses: Callable[[], Iterable[Object]],
        changed: Callable[[], None],
        now: Callable[[], datetime] = wall_clock,
    ) -> None:
        self.config = config
        self.state = AgentState()
        self.buffer = EventBuffer(config.settings.event_buffer)
        self._transport = transport
        self._random = random
        self._metrics = metrics
        self._statuses = statuses
        self._changed = changed
        self._now = now
        self._settings = config.settings
        self._cluster_id = config.owner.cluster_id
        self._recorded = asyncio.Event()
        self._failures = 0
        self._credentials: AgentCredentials | None = None
        self._secret = SecretStore(client, config.owner, config.namespace, config.settings.credentials_secret)
        self._store = JournalStore(SecretStore(client, config.owner, config.namespace, config.settings.journal_secret))
        self._journal = Journal()
        self._gates = Gates(
            cluster_id=self._cluster_id,
            namespaces=config.settings.namespaces,
            closed=(config.namespace, "kube-system", "kube-public", "kube-node-lease"),
            most_bytes=config.settings.most_job,
        )
        self._executor = Executor(
            client,
            manager=f"{manager}.{FIELD_MANAGER}",
            cluster_id=self._cluster_id,
            rotate=self._rotate,
            now=now,
        )
        self._log = get_logger("konverge.apps.agent").bind(**{LogKey.NAME: config.owner.name})

    # --- life ----------------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Work until cancelled."""
        self._show(1 if self.state.step is Step.CONNECTED else 0)
        try:
            while True:
                delay = await self._until_failure()
                await asyncio.sleep(delay)
        finally:
            self._metrics.agent_ended()
            await self._transport.close()

    async def _until_failure(self) -> float:
        """Work until something fails; return the seconds after which to begin anew."""
        try:
            await self._work()
        except _Stopped as stop:
            self._log.warning(
                "the agent stops until its Cluster or its credential changes", **{LogKey.CAUSE: stop.reason}
            )
            self._show(-1)
            self._enter(Step.STOPPED, reason=stop.reason, message=str(stop))
            await asyncio.get_running_loop().create_future()
        except NotLeading:
            raise
        except KonvergeError as error:
            self._failures += 1
            after = (error.retry_after or 0.0) if isinstance(error, _Failed) else 0.0
            pause = min(_SOONEST * 2.0 ** min(self._failures - 1, 30), self._settings.retry_most.total_seconds())
            delay = max(min(after, _RETRY_AFTER_MOST), pause * self._random.uniform(1.0, 1.5))
            if self._failures == 1:
                self._log.warning(
                    "the control plane is tried again", **{LogKey.ERROR: _words(error), LogKey.DELAY: delay}
                )
            self._show(0)
            self._enter(Step.DISCONNECTED, message=_words(error))
            return delay
        return _SOONEST

    async def _work(self) -> None:
        await self._authenticate()
        self._journal = await self._store.load()
        await self._replay()
        await wait_first(self._send_events(), self._poll())

    def record(self, event: StatusEvent) -> None:
        """Take an event for the control plane."""
        before = self.buffer.overflowed
        self.buffer.add(event)
        self._metrics.buffered.set(len(self.buffer) / self.buffer.capacity)
        self._recorded.set()
        if self.buffer.overflowed != before:
            self._changed()

    def _enter(self, step: Step, *, reason: str = "", message: str = "") -> None:
        state = replace(self.state, step=step, reason=reason, message=message, credentials=self._credentials)
        if state != self.state:
            self.state = state
            self._changed()

    def _show(self, value: int) -> None:
        self._metrics.connectivity.labels(mode=Mode.PULL).set(value)

    # --- requests ------------------------------------------------------------------------------------------------------------

    async def _send(
        self, method: str, path: str, body: protocol.PlaneMessage | None, query: Mapping[str, str], wait: float
    ) -> tuple[str, PlaneResponse]:
        credential = "" if self._credentials is None else self._credentials.credential
        request = PlaneRequest(
            method=method,
            path=API + path,
            query=query,
            body=None if body is None else write(body),
            credential=credential,
            timeout=wait + self._settings.timeout.total_seconds(),
            most=self._settings.most_response,
        )
        while True:
            response = await self._transport.send(request)
            if response.status != _TOO_MANY:
                return credential, response
            self._responded(connected=False)
            pause = max(response.retry_after or 0.0, _SOONEST)
            await asyncio.sleep(min(pause, _RETRY_AFTER_MOST) + self._random.uniform(0.0, 1.0))

    async def _call(
        self,
        method: str,
        path: str,
        body: protocol.PlaneMessage | None = None,
        *,
        query: Mapping[str, str] | None = None,
        wait: float = 0.0,
    ) -> PlaneResponse:
        """Send a request with the credential; returns a response of the ranges 2xx and 4xx, without 401, 403 and 429."""
        credential, response = await self._send(method, path, body, query or {}, wait)
        if response.status == _UNAUTHORIZED:
            stored = credentials_of(await self._secret.find())
            if stored is None or stored.credential == credential:
                raise _Stopped(_why_unauthorized(response), "the control plane refuses the credential")
            self._credentials = stored
            _, response = await self._send(method, path, body, query or {}, wait)
            if response.status == _UNAUTHORIZED:
                raise _Stopped(_why_unauthorized(response), "the control plane refuses the credential")
        if response.status == _FORBIDDEN:
            raise _Stopped(
                Authenticated.CONTROL_PLANE_AUTHENTICATION_FAILED,
                "the control plane forbids this cluster to work with it",
            )
        if response.status >= _FAILED or _REDIRECTED <= response.status < _REFUSED:
            raise _Failed(f"the control plane responds with status {response.status}", response.retry_after)
        self._responded()
        return response

    def _responded(self, *, connected: bool = True) -> None:
        self.state = replace(self.state, last_round_trip=self._now())
        if connected and self.state.step is not Step.CONNECTED:
            self._show(1)
            self._enter(Step.CONNECTED)

    # --- credentials ---------------------------------------------------------------------------------------------------------

    async def _authenticate(self) -> None:
        """Read the credential; register if there is none, or a new token; replace it if that was asked for."""
        stored = credentials_of(await self._secret.find())
        if stored is not None and stored.cluster_id != self._cluster_id:
            stored = None
        new_token = self.config.token and (stored is None or stored.token_digest != self.config.token_digest)
        if new_token:
            stored = await self._register()
        if stored is None:
            raise _Stopped(Authenticated.CREDENTIAL_MISSING, "there is no credential, and no token to register with")
        self._use(stored)
        if self.config.rotate:
            try:
                await self._rotate(self.config.rotate)
            except _Stopped as stop:
                raise _Stopped(Authenticated.ROTATION_FAILED, str(stop)) from None

    def _use(self, credentials: AgentCredentials) -> None:
        self._credentials = credentials
        self.state = replace(self.state, credentials=credentials)

    async def _register(self) -> AgentCredentials:
        self._enter(Step.REGISTERING)
        request = protocol.Register(cluster_id=self._cluster_id, registration_token=self.config.token)
        self._credentials = None
        _, response = await self._send("POST", "/register", request, {}, 0.0)
        if response.status >= _FAILED or _REDIRECTED <= response.status < _REFUSED:
            raise _Failed(f"the control plane responds to the registration with status {response.status}")
        if response.status >= _REFUSED:
            why = "the token was used before" if response.status == _CONFLICT else f"status {response.status}"
            raise _Stopped(Authenticated.REGISTRATION_FAILED, f"the control plane refuses the registration: {why}")
        self._log.info("the cluster is registered")
        stamp = rfc3339(self._now())
        return await self._save(
            response,
            AgentCredentials(
                credential="",
                cluster_id=self._cluster_id,
                token_digest=self.config.token_digest,
                registered_at=stamp,
                issued_at=stamp,
                # A credential that came with a registration is new, so a rotation asked for at the same time is done.
                rotated_for=self.config.rotate,
            ),
        )

    async def _save(self, response: PlaneResponse, about: AgentCredentials) -> AgentCredentials:
        """Store the credential of a response before it is used for the first time."""
        try:
            issued = read(protocol.Credential, response.body)
        except protocol.Malformed as error:
            raise _Failed(str(error)) from None
        if issued.cluster_id != self._cluster_id:
            raise _Stopped(Authenticated.REGISTRATION_FAILED, "the credential is for another cluster")
        return await self._secret.save_credentials(replace(about, credential=issued.credential), now=self._now())

    async def _rotate(self, request: str) -> None:
        """Replace the credential, unless that was done for this request."""
        stored = credentials_of(await self._secret.find())
        if stored is None:
            raise _Stopped(Authenticated.CREDENTIAL_MISSING, "the Secret with the credential is gone")
        if stored.rotated_for != request:
            response = await self._call("POST", "/credentials/rotate", protocol.Rotate(cluster_id=self._cluster_id))
            if response.status != _OK:
                raise _Stopped(
                    Authenticated.ROTATION_FAILED,
                    f"the control plane responds to the rotation with status {response.status}",
                )
            stamp = rfc3339(self._now())
            stored = await self._save(response, replace(stored, issued_at=stamp, rotated_for=request))
            self._log.info("the credential is replaced")
        self._use(stored)
        self._changed()

    # --- events --------------------------------------------------------------------------------------------------------------

    async def _replay(self) -> None:
        """Send the present status of every object: events may have been lost while the control plane did not respond."""
        present = tuple(snapshot(self._statuses()))
        for first in range(0, max(len(present), 1), MOST_EVENTS):
            await self._post_events(present[first : first + MOST_EVENTS], 0)

    async def _post_events(self, events: tuple[StatusEvent, ...], dropped: int) -> None:
        batch = protocol.EventBatch(cluster_id=self._cluster_id, events=events, dropped=dropped)
        response = await self._call("POST", "/events", batch)
        if response.status >= _REFUSED and response.status != _CONFLICT:
            self._log.warning("the control plane refuses events; they are dropped", **{LogKey.COUNT: len(events)})

    async def _send_events(self) -> None:
        if len(self.buffer):  # left by an attempt that failed
            self._recorded.set()
        while True:
            await self._recorded.wait()
            if len(self.buffer) < MOST_EVENTS:
                await asyncio.sleep(self._settings.event_pause.total_seconds())
            self._recorded.clear()
            lost = False
            while len(self.buffer):
                dropped = self.buffer.dropped
                last, events = self.buffer.first(MOST_EVENTS)
                await self._post_events(events, dropped)
                self.buffer.sent(last, dropped)
                lost = lost or dropped > 0
            self._metrics.buffered.set(0)
            if lost:
                self._changed()
                await self._replay()

    # --- jobs ----------------------------------------------------------------------------------------------------------------

    async def _poll(self) -> None:
        await self._resume()
        limit = self._settings.most_pending
        while True:
            wait = self._settings.wait
            query = {"cluster": self._cluster_id, "wait": str(wait), "limit": str(limit)}
            try:
                response = await self._call("GET", "/jobs", query=query, wait=wait)
            except NoResponse as error:
                if not error.too_large or limit == 1:
                    raise
                limit = 1  # one at a time, so that the jobs that are small enough come through
                continue
            if response.status != _OK:
                raise _Failed(f"the control plane responds to the poll for jobs with status {response.status}")
            try:
                jobs = read_batch(response.body)
            except protocol.Malformed as error:
                if limit > 1:
                    limit = 1  # as above
                    continue
                raise _Failed(f"{error}; remove its oldest job from the control plane, or repair it") from None
            self._failures = 0
            limit = min(limit * 2, self._settings.most_pending)
            if not await self._take(jobs):
                await asyncio.sleep(
                    _SOONEST
                )  # a control plane that does not wait, or repeats itself, is not asked in a loop

    async def _resume(self) -> None:
        """Finish what the journal left, except for jobs that the control plane has dropped meanwhile."""
        for entry in self._journal.entries:
            begun = entry.result is not None or entry.uid
            if not begun and not await self._ack(entry.job_id):
                await self._write(self._journal.dropped(entry.job_id))
        await self._finish(tuple(entry.job_id for entry in self._journal.entries), resumed=True)

    async def _take(self, jobs: Iterable[Delivered]) -> bool:
        """Carry out the jobs of a response; returns whether any was new."""
        now = self._now()
        fresh: list[JournalEntry] = []
        repeated: list[str] = []
        direct: list[tuple[str, JobResult]] = []
        for job in jobs:
            found = read_job(job.raw, self._gates, now, job.problem)
            job_id, key = (
                (found.job_id, found.key)
                if isinstance(found, JobRefusal)
                else (found.job.id, found.job.idempotency_key)
            )
            known = self._journal.by_key(key) if key else None
            if job_id and self._journal.entry(job_id) is not None:
                repeated.append(job_id)
            elif known is not None or any(entry.key == key for entry in fresh):
                direct.append((job_id, _repetition(known, job_id, key, now)))
            elif isinstance(found, JobRefusal):
                self._refused(found)
                if job_id:
                    direct.append((job_id, result_of(found, now)))
            elif self._fits((*fresh, entry := JournalEntry(job_id=job_id, key=key, raw=job.raw))):
                fresh.append(entry)
        if fresh:
            await self._write(self._journal.accepted(fresh))
        for job_id in (*repeated, *(entry.job_id for entry in fresh)):
            if not await self._ack(job_id):
                await self._write(self._journal.dropped(job_id))
        for job_id, result in direct:
            # Not acknowledged before: that would say that the journal has it, and a crash would lose its result.
            await self._report(job_id, result)
        await self._finish(tuple(entry.job_id for entry in fresh), resumed=False)
        return bool(fresh)

    def _refused(self, refusal: JobRefusal) -> None:
        self._log.warning("a job is refused", **{LogKey.CAUSE: refusal.reason})
        self._metrics.jobs.labels(kind=UNKNOWN_KIND, outcome=str(refusal.outcome)).inc()

    def _fits(self, fresh: tuple[JournalEntry, ...]) -> bool:
        """Tell whether the journal has room for these entries; those without room are not acknowledged, so they come again."""
        whole = self._journal.accepted(fresh)
        return len(whole.entries) <= self._settings.most_pending and whole.size() <= _JOURNAL_BYTES

    async def _write(self, journal: Journal) -> None:
        """Store the journal; after an error the agent begins anew, because it may be stored or not."""
        try:
            await self._store.save(journal)
        except NotLeading:
            raise
        except KonvergeError as error:
            raise _Failed(f"the journal of jobs could not be written ({type(error).__name__})") from None
        self._journal = journal

    async def _ack(self, job_id: str) -> bool:
        """Acknowledge a job; returns whether the control plane still knows it."""
        response = await self._call("POST", f"/jobs/{job_id}/ack")
        return response.status < _REFUSED or response.status == _CONFLICT

    async def _report(self, job_id: str, result: JobResult) -> None:
        """Send a result; a control plane that does not know the job, or has a result, needs none."""
        await self._call("POST", f"/jobs/{job_id}/result", result)

    async def _finish(self, job_ids: tuple[str, ...], *, resumed: bool) -> None:
        """Carry out these jobs of the journal, one after the other, and report them."""
        delivered = self._journal
        for job_id in job_ids:
            entry = self._journal.entry(job_id)
            if entry is None:
                continue  # dropped
            if entry.result is None:
                result = await self._outcome(entry, resumed=resumed)
                await self._write(self._journal.done(job_id, result))
            else:
                result = entry.result
            await self._report(job_id, result)
            delivered = self._journal = self._journal.delivered(job_id, _expiry(entry.raw))
        if job_ids:
            settings = self._settings
            await self._write(delivered.pruned(self._now(), settings.retention, settings.most_remembered))

    async def _outcome(self, entry: JournalEntry, *, resumed: bool) -> JobResult:
        """Carry out a job until it has a result."""
        # A deletion that was begun is ended, however late it is.
        moment = datetime.min.replace(tzinfo=UTC) if entry.uid else self._now()
        task = read_job(entry.raw, self._gates, moment)
        if isinstance(task, JobRefusal):
            self._refused(task)
            return result_of(task, self._now())
        result = await self._carried_out(task, entry.uid, resumed=resumed)
        self._metrics.jobs.labels(kind=task.job.kind, outcome=str(result.outcome)).inc()
        self._metrics.lag.set(max((self._now() - task.job.created_at).total_seconds(), 0.0))
        return result

    async def _carried_out(self, task: Task, uid: str, *, resumed: bool) -> JobResult:
        async def note(found: str) -> None:
            await self._write(self._journal.started(task.job.id, found))

        delay = _SOONEST
        while True:
            try:
                return await self._executor.run(task, uid=uid, note=note, resumed=resumed)
            except (_Failed, NoResponse, NotLeading):
                raise
            except KonvergeError as error:
                final = final_result(task, error, self._now())
                if final is not None:
                    return final
                if task.job.expires_at <= self._now():
                    return JobResult(
                        idempotency_key=task.job.idempotency_key,
                        outcome=Outcome.FAILED,
                        reason=JobReason.EXPIRED,
                        message=f"the API server did not carry it out in time ({type(error).__name__})",
                        object=task.reference,
                        finished_at=self._now(),
                    )
                words = f"the API server is tried again ({type(error).__name__})"
            resumed = True  # a write whose response was lost may have been done
            entry = self._journal.entry(task.job.id)
            uid = uid if entry is None else entry.uid
            await self._call("POST", f"/jobs/{task.job.id}/status", protocol.JobStatus(state="retrying", message=words))
            await asyncio.sleep(delay * self._random.uniform(1.0, 1.5))
            delay = min(delay * 2, _JOB_RETRY_MOST)


def _words(error: KonvergeError) -> str:
    """Return what may be shown of an error; texts of the API server may quote what was sent to it."""
    return f"{error.request}: status {error.status} {error.reason}" if isinstance(error, ApiError) else str(error)


def _why_unauthorized(response: PlaneResponse) -> str:
    """Return the reason for a 401; the control plane's words are not passed on, because they may quote the credential."""
    try:
        told = read(protocol.PlaneProblem, response.body).reason
    except protocol.Malformed:
        told = ""
    expired = Authenticated.CREDENTIAL_EXPIRED
    return expired if told == expired else Authenticated.CREDENTIAL_REJECTED


def _expiry(raw: Mapping[str, Any]) -> datetime:
    return read(protocol.Job, raw).expires_at


def _repetition(known: JournalEntry | Finished | None, job_id: str, key: str, now: datetime) -> JobResult:
    """Return the result of a job whose key is known: its own once more, or noop for another job of the same key."""
    if isinstance(known, Finished) and known.job_id == job_id:
        return JobResult(
            idempotency_key=key,
            outcome=known.outcome,
            reason=known.reason,
            finished_at=datetime.fromtimestamp(known.at, UTC),
        )
    return JobResult(
        idempotency_key=key,
        outcome=Outcome.NOOP,
        reason=JobReason.DUPLICATE,
        message="a job with this idempotency key was carried out before",
        finished_at=now,
    )
