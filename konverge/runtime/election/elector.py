"""The shell of the election: it reads and watches one Lease, takes, renews and releases it.

    acquire   read; free -> take it; else sleep until it may be free, or until the watch shows a change
    lead      renew every `retry_seconds`; a success moves the fence to `renew_seconds` after the request was sent
    lost      the fence closes: another holder was seen, or no renewal succeeded in time

Guarantees: the fence is closed before `lost` returns, and at the deadline even if this code does not get to run. Requests of
reconciles delay no renewal: the election has its own client, with deadlines that leave time for a second try. A standby notices a
released lease at once, by the watch; without the right to watch, at its next read. Labels and annotations of the Lease are not
changed, except for the labels of its creation: each renewal writes them.

Caveats: renewals run on the loop of the reconciles. A reconcile that blocks the loop for `renew_seconds` costs the lease, as it
should: no other reconcile runs during that time. The stall is reported with its stack well before (docs/adr/0012).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Mapping
from random import Random
from types import TracebackType
from typing import Any, Protocol, Self

from konverge.client import Client, ClientConfig, ClientSettings, WatchEvent, WatchQuery, decode_object
from konverge.clock import WallClock, boot_clock, wall_clock
from konverge.errors import AlreadyExists, Conflict, Forbidden, KonvergeError, NotFound
from konverge.logs import get_logger
from konverge.metrics import Metrics
from konverge.objects import Metadata, Object
from konverge.runtime.election.candidate import Candidate, Create, SeenLease, Update, WaitUntil
from konverge.runtime.election.fence import LeaseFence
from konverge.runtime.election.record import LEASE, LeaseRecord
from konverge.runtime.election.settings import ElectionSettings
from konverge.words import LogKey

__all__ = ["LeaseElection", "LeaseWitness"]

_WATCH_SECONDS = 300
_IDLE_SECONDS = 75.0
_JITTER = 1.2
"""A standby reads the Lease every retry period, times 1 to 1 plus this: client-go's JitterFactor."""
_PAUSE = 0.5
"""Seconds at most until the next read after a lost conflict."""
_RELEASE_TRIES = 3
_SENT = 8
"""The number of sent records that are kept: a record that is not among them is another writer's edit."""
_BETWEEN_RENEWALS = 0.2
"""Seconds at least between two renewals, however often others want to see one."""
_CLOCK_JUMP = 5.0
"""Wall-clock jump between two renewals, in seconds, that is logged: NTP moves the clock by less."""
_SHOWN = 253
"""The number of shown characters of a foreign holder: the API allows any text."""


class LeaseWitness(Protocol):
    """Receives foreign changes of a Lease that this process holds, and other anomalies."""

    def stands_by(self, lease: str, holder: str) -> None:
        """Called when this process waits for the Lease of this name, which another process holds."""

    def clock_jumped(self, seconds: float) -> None:
        """Called when the wall clock of this process has jumped by so many seconds since the renewal before."""

    def recreated(self, lease: Metadata) -> None:
        """Called when this process has created its deleted Lease again."""

    def edited(self, lease: Metadata, what: str) -> None:
        """Called after another writer's change of the Lease, `what`; if the change ends the term, the fence has closed before."""

    def lost(self, cause: str) -> None:
        """Called when the lease is lost, after the fence has closed."""


class LeaseElection:
    """The election by one Lease. Use it with `async with`; entering starts the watch, leaving releases the lease.

    `name` is the manager's, for the User-Agent and the metrics; `labels` are the Lease's labels. `witness` is called if another writer
    changes the Lease while this process holds it.
    """

    def __init__(
        self,
        config: ClientConfig,
        settings: ElectionSettings,
        *,
        name: str,
        host: str,
        metrics: Metrics,
        random: Random,
        clock: WallClock = wall_clock,
        labels: Mapping[str, str] | None = None,
        witness: LeaseWitness | None = None,
    ) -> None:
        self.settings = settings
        self._labels = dict(labels or {})
        self._witness = witness
        self._sent: deque[LeaseRecord] = deque(maxlen=_SENT)
        self.lease_name = settings.lease_of(name)
        self.namespace = settings.namespace or config.namespace or "default"
        self.identity = f"{settings.identity or host}_{random.getrandbits(64):016x}"
        loop = asyncio.get_running_loop()
        self.fence = LeaseFence(boot_clock())
        self._now = loop.time
        self._clock = clock
        self._clock_ahead: float | None = None
        self._random = random
        limit = max(1.0, settings.renew_seconds / 2)
        self._client = Client(
            config,
            name=name,
            settings=ClientSettings(request_timeout=limit, connect_timeout=limit, call_timeout=limit, attempts=1),
            metrics=metrics,
            random=random,
        )
        self._candidate = Candidate(self.identity, settings)
        self._news = asyncio.Event()
        self._watching = False
        self._problem = ""
        self._tasks: set[asyncio.Task[None]] = set()
        self._holding: asyncio.Task[None] | None = None
        self._renewal_due = 0.0
        self._tried_at = 0.0
        self._leader = metrics.leader.labels(name=name)
        self._slow_path = metrics.leader_slowpath.labels(name=name)
        self._renewal = metrics.lease_renew_seconds.labels(name=name)
        self._losses = metrics.lease_losses.labels(name=name)
        self._leader.set(0)
        self._log = get_logger("konverge.election").bind(
            **{LogKey.NAMESPACE: self.namespace, LogKey.NAME: self.lease_name, LogKey.IDENTITY: self.identity}
        )

    def problem(self) -> str:
        """Return the problem of the election and its remedy; "" if it works."""
        return self._problem

    def holder(self) -> str:
        """Return the leader's identity, as far as known, shortened for messages; "" without a leader."""
        holder = self._candidate.holder[:_SHOWN]
        return "".join(character if character.isprintable() else "?" for character in holder)

    # --- life ----------------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        watch = asyncio.create_task(self._watch(), name=f"konverge election watch {self.lease_name}")
        self._tasks.add(watch)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.release()
        await self._client.close()

    async def acquire(self) -> None:
        """Return once this process leads."""
        shown = None
        while True:
            pause = await self._try() if await self._look() else None
            if self._leads():
                break
            if self.holder() != shown:
                shown = self.holder()
                self._log.info("standing by", **{LogKey.HOLDER: shown})
                if shown and self._witness is not None:
                    self._witness.stands_by(self.lease_name, shown)
            await self._sleep(pause)
        self._holding = asyncio.create_task(self._hold(), name=f"konverge election {self.lease_name}")
        self._leader.set(1)
        self._log.info("this process leads")

    async def lost(self) -> None:
        """Return once this process does not lead any more, after the fence has closed."""
        assert self._holding is not None
        await asyncio.wait({self._holding})

    async def release(self) -> None:
        """Give the lease back, if this process holds it, and end the watch. A failure is logged: the lease then expires."""
        self.fence.close()
        tasks = {*self._tasks, *({self._holding} if self._holding is not None else ())}
        self._tasks.clear()
        self._holding = None
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._leader.set(0)
        if self._candidate.in_doubt:
            await self._look()
        for _ in range(_RELEASE_TRIES):
            step = self._candidate.release(self._clock())
            if step is None:
                return
            try:
                await self._write(step)
            except Conflict:
                await self._look()
            except KonvergeError as error:
                self._log.warning("the lease was not released; it runs out by itself", **{LogKey.ERROR: str(error)})
                return
            else:
                self._candidate.give_up()
                self._log.info("the lease is released")
                return

    # --- leading -------------------------------------------------------------------------------------------------------------

    def _leads(self) -> bool:
        return self._candidate.leads and self.fence.open

    async def _hold(self) -> None:
        """Renew until the lease is lost."""
        settings, self._tried_at = self.settings, self._now()
        # The fence counts from the request: the response may have been late.
        spent = settings.renew_seconds - self.fence.remaining
        self._renewal_due = self._tried_at + max(0.0, settings.retry_seconds - max(0.0, spent))
        try:
            while self._leads():
                await self._wait_for_news(min(self._renewal_due, self._now() + self.fence.remaining))
                if self._leads() and (self._now() >= self._renewal_due or self._candidate.absent):
                    self._tried_at = self._now()
                    self._renewal_due = self._tried_at + self.settings.retry_seconds
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(self.fence.remaining):
                            await self._try()
        finally:
            self.fence.close()
            self._leader.set(0)
        self._losses.inc()
        cause = self._problem or self._cause()
        self._candidate.give_up()
        self._log.warning("this process does not lead any more; it stands by", **{LogKey.CAUSE: cause})
        if self._witness is not None:
            self._witness.lost(cause)

    def renew_soon(self) -> None:
        """Renew the lease at once, if this process holds it: for another process that has seen no renewal yet."""
        if self._leads():
            self._renewal_due = min(self._renewal_due, max(self._now(), self._tried_at + _BETWEEN_RENEWALS))
            self._news.set()

    def _cause(self) -> str:
        """Return why the lease is lost although no request failed."""
        if self._candidate.leads:
            seconds = self.settings.renew_seconds
            return (
                f"no renewal succeeded for {seconds:g} s: the API server is slow to answer, or this process was paused"
            )
        if self._candidate.holder == self.identity:
            return "another writer changed its record, as if it had been acquired anew"
        return f"it is held by {self.holder() or 'no replica'}"

    async def _wait_for_news(self, until: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                await self._news.wait()
        self._news.clear()

    # --- standing by ---------------------------------------------------------------------------------------------------------

    async def _sleep(self, until: float | None) -> None:
        """Wait for a change, until the lease may be free, and at most for the time between two reads."""
        settings, now = self.settings, self._now()
        look = settings.retry_seconds * (1 + _JITTER * self._random.random())
        if self._watching and until is not None:
            look = max(look, settings.lease_seconds)
        await self._wait_for_news(now + look if until is None else min(until, now + look))

    async def _look(self) -> bool:
        """Read the Lease; returns whether that succeeded."""
        try:
            lease = await self._client.get(LEASE, self.lease_name, self.namespace)
        except NotFound:
            self._candidate.observe_absence()
        except KonvergeError as error:
            self._failed(error)
            return False
        else:
            self._observe(lease)
            self._problem = ""
        return True

    async def _watch(self) -> None:
        """Watch the Lease for as long as this candidate lives."""
        while True:
            try:
                info = await self._client.resource(LEASE)
                query = WatchQuery(
                    namespace=self.namespace,
                    fields=f"metadata.name={self.lease_name}",
                    timeout_seconds=_WATCH_SECONDS,
                    idle_seconds=_IDLE_SECONDS,
                )
                async with self._client.watch(info, query) as stream:
                    self._watching = True
                    async for events in stream:
                        for event in events:
                            self._saw(event)
            except Forbidden:
                self._log.info("no right to watch the lease; it is read every few seconds")
                await asyncio.sleep(_WATCH_SECONDS)
            except KonvergeError:
                pass  # the reads report the problem
            finally:
                self._watching = False
                self._news.set()
            await asyncio.sleep(self.settings.retry_seconds * (1 + _JITTER * self._random.random()))

    def _saw(self, event: WatchEvent) -> None:
        if event.type not in {"ADDED", "MODIFIED", "DELETED"}:
            return
        lease = Object(decode_object(bytes(event.object)))
        if lease.name != self.lease_name:
            return
        if event.type == "DELETED":
            self._candidate.observe_absence(lease.metadata.resource_version)
        else:
            self._observe(lease)
        if self._candidate.holder != self.identity:
            self._news.set()

    # --- requests ------------------------------------------------------------------------------------------------------------

    async def _try(self) -> float | None:
        """Do the next step; returns the time of the step after it, None if the step failed."""
        step = self._candidate.next_step(self._now(), self._clock())
        if isinstance(step, WaitUntil):
            return step.time
        begun, fenced, led = self._now(), self.fence.now(), self._candidate.leads
        self._note_clock(begun)
        self._sent.append(step.record)
        try:
            lease = await self._write(step)
        except (AlreadyExists, Conflict, NotFound) as error:
            if isinstance(error, NotFound) and isinstance(step, Create):
                self._failed(error)  # the namespace of the Lease is missing
            self._slow_path.inc()
            await asyncio.sleep(_PAUSE * self._random.random())  # candidates that wrote at once get out of step
            await self._look()
            # Another writer edited the Lease, so this renewal has to be repeated.
            self._renewal_due = min(self._renewal_due, self._now() + _BETWEEN_RENEWALS)
            return None
        except (Exception, asyncio.CancelledError) as error:
            self._candidate.may_have_written(step.record)
            if not isinstance(error, KonvergeError):
                raise
            self._failed(error)
            return None
        self._problem = ""
        self._candidate.wrote(_seen(lease), self._now())
        if self._candidate.leads:
            self.fence.extend(fenced + self.settings.renew_seconds)
        self._renewal.observe(self._now() - begun)
        if led and isinstance(step, Create) and self._witness is not None:
            self._witness.recreated(lease.metadata)
        return None

    def _note_clock(self, now: float) -> None:
        """Compare the wall clock with the monotonic clock; only the monotonic clock judges the lease."""
        ahead = self._clock().timestamp() - now
        before, self._clock_ahead = self._clock_ahead, ahead
        if self._witness is not None and before is not None and abs(ahead - before) >= _CLOCK_JUMP:
            self._witness.clock_jumped(ahead - before)

    async def _write(self, step: Create | Update) -> Object:
        if isinstance(step, Create):
            lease = LEASE.new(self.lease_name, self.namespace)
            lease.data["spec"] = step.record.to_spec()
            if self._labels:
                lease.data["metadata"]["labels"] = self._labels
            return await self._client.create(lease)
        # A patch, since a replacement would drop foreign metadata; with the version it is a compare-and-swap.
        metadata: dict[str, Any] = {"resourceVersion": step.seen.version}
        if self._labels:  # others select the Lease by its labels: without them a live process would look dead
            metadata["labels"] = self._labels
        change = {"metadata": metadata, "spec": step.record.to_spec()}
        return await self._client.patch(LEASE, self.lease_name, self.namespace, patch=change, style="merge")

    def _observe(self, lease: Object) -> None:
        led = self._candidate.leads
        news = self._news_of(lease) if led else ""
        self._candidate.observe(_seen(lease), self._now())
        if led and not self._candidate.leads:
            self.fence.close()
            self._news.set()
        if news and self._witness is not None:
            self._witness.edited(lease.metadata, news)

    def _news_of(self, lease: Object) -> str:
        """Return another writer's change of the Lease that this process holds, "" without a change."""
        if self._candidate.is_old(lease.metadata.resource_version):
            return ""
        record = LeaseRecord.of(lease.data.get("spec"))
        labels = lease.metadata.labels or {}
        changed = [name for name, value in self._labels.items() if labels.get(name) != value]
        if record not in self._sent:
            changed = ["spec", *changed]
        return ", ".join(changed)

    def _failed(self, error: KonvergeError) -> None:
        if not self._problem:
            self._log.warning("the lease cannot be read or written", **{LogKey.ERROR: str(error)})
        self._problem = str(error)


def _seen(lease: Object) -> SeenLease:
    return SeenLease(lease.metadata.resource_version, LeaseRecord.of(lease.data.get("spec")))
