"""The agent of one Cluster: registers, fetches jobs, carries them out, reports results and status.

    _work    credential (register, rotate) -> journal -> status of every object -> jobs of the journal -> poll, with events in parallel
    failure  pauses from one second on, then `_work` from the beginning
    stop     until the Cluster or the credential changes

`plane_session.py` has the requests and the credential, `job_worker.py` the jobs, `event_sender.py` the reports of status.

Guarantees: the agent runs until it is cancelled, which may be at any point, and a successor continues from the journal. No credential is in
a log line, in its state or in an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Final

from konverge.clock import wall_clock
from konverge.errors import ApiError, KonvergeError, NotLeading
from konverge.logs import get_logger
from konverge.objects import Object
from konverge.reconcilers.clusters.agent_state import AgentConfig, AgentState, StateReport, Step
from konverge.reconcilers.clusters.event_sender import EventSender
from konverge.reconcilers.clusters.events import EventBuffer
from konverge.reconcilers.clusters.execute import Executor
from konverge.reconcilers.clusters.job_limits import Gates
from konverge.reconcilers.clusters.job_worker import JobWorker
from konverge.reconcilers.clusters.metrics import PullMetrics
from konverge.reconcilers.clusters.plane_session import RETRY_AFTER_MOST, PlaneSession, SessionFailed, Stopped
from konverge.reconcilers.clusters.protocol import StatusEvent
from konverge.reconcilers.clusters.secrets import JournalStore, SecretStore
from konverge.reconcilers.clusters.transport import PlaneTransport
from konverge.reconcilers.clusters.words import FIELD_MANAGER
from konverge.tasks import wait_first
from konverge.words import LogKey

if TYPE_CHECKING:
    from konverge.client import Client

__all__ = ["Agent"]

_SOONEST: Final = 1.0


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
        self._transport = transport
        self._random = random
        self._metrics = metrics
        self._settings = settings = config.settings
        self._failures = 0
        self._log = log = get_logger("konverge.apps.agent").bind(**{LogKey.NAME: config.owner.name})
        self._now = now
        self._report = StateReport(metrics, changed=changed, now=now)
        cluster_id = config.owner.cluster_id
        self._session = session = PlaneSession(
            config,
            secret=SecretStore(client, config.owner, config.namespace, settings.credentials_secret),
            transport=transport,
            report=self._report,
            random=random,
            now=now,
            log=log,
        )
        self._events = EventSender(
            session,
            settings,
            cluster_id=cluster_id,
            statuses=statuses,
            changed=changed,
            metrics=metrics,
            random=random,
            log=log,
        )
        self._jobs = JobWorker(
            session,
            JournalStore(SecretStore(client, config.owner, config.namespace, settings.journal_secret)),
            Executor(
                client, manager=f"{manager}.{FIELD_MANAGER}", cluster_id=cluster_id, rotate=session.rotate, now=now
            ),
            Gates(
                cluster_id=cluster_id,
                namespaces=settings.namespaces,
                denied=(config.namespace, *settings.denied_namespaces),
                most_bytes=settings.most_job,
            ),
            settings,
            worked=self._worked,
            metrics=metrics,
            random=random,
            now=now,
            log=log,
        )

    @property
    def state(self) -> AgentState:
        """The state that the reconciler of the Cluster reports."""
        return self._report.state

    @property
    def buffer(self) -> EventBuffer:
        """The events that wait for the control plane."""
        return self._events.buffer

    def record(self, event: StatusEvent) -> None:
        """Take an event for the control plane."""
        self._events.record(event)

    async def run(self) -> None:
        """Work until cancelled."""
        self._report.show(1 if self.state.step is Step.CONNECTED else 0)
        try:
            while True:
                delay = await self._until_failure()
                await asyncio.sleep(delay)
        finally:
            self._metrics.agent_ended()
            await self._transport.close()

    async def _until_failure(self) -> float:
        """Work until an error; return the seconds to wait before the next start."""
        try:
            await self._work()
        except Stopped as stop:
            self._log.warning(
                "the agent stops until its Cluster or its credential changes", **{LogKey.CAUSE: stop.reason}
            )
            self._report.show(-1)
            self._report.enter(Step.STOPPED, reason=stop.reason, message=str(stop))
            await asyncio.get_running_loop().create_future()
        except NotLeading:
            raise
        except KonvergeError as error:
            self._failures += 1
            after = (error.retry_after or 0.0) if isinstance(error, SessionFailed) else 0.0
            pause = min(_SOONEST * 2.0 ** min(self._failures - 1, 30), self._settings.retry_most.total_seconds())
            delay = max(min(after, RETRY_AFTER_MOST), pause * self._random.uniform(1.0, 1.5))
            if self._failures == 1:
                self._log.warning(
                    "the control plane is tried again", **{LogKey.ERROR: _words(error), LogKey.DELAY: delay}
                )
            self._report.show(0)
            self._report.enter(Step.DISCONNECTED, message=_words(error))
            self._report.waits(self._now() + timedelta(seconds=min(after, RETRY_AFTER_MOST)) if after else None)
            return delay
        return _SOONEST

    async def _work(self) -> None:
        await self._session.authenticate()
        await self._jobs.load()
        await self._events.replay()
        rotations = self._session.repeat_rotation(lambda: self.config.rotate)
        await wait_first(self._events.run(), self._jobs.run(), rotations)

    def _worked(self) -> None:
        self._failures = 0


def _words(error: KonvergeError) -> str:
    """Return the part of an error that may be shown; texts of the API server may quote the request."""
    return f"{error.request}: status {error.status} {error.reason}" if isinstance(error, ApiError) else str(error)
