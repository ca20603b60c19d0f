"""A controller at work: its caches, its queue, its workers.

Promises: starts by itself when its CRD appears and its rights suffice, and says meanwhile what is missing; nothing that is missing for
it stops others. One worker at most works on a key. On stop the queue takes nothing new, running passes end or are cancelled after the
limit, and no task remains.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache, partial
from random import Random
from typing import Any

from prometheus_client import Counter

from konverge.client import Client
from konverge.clock import wall_clock
from konverge.errors import InvalidObject, UsageError, stack_of
from konverge.informers import Change, InformerSet
from konverge.keys import Key
from konverge.kinds import Kind
from konverge.logs import get_logger
from konverge.metrics import RESULTS, Metrics
from konverge.outcome import Done
from konverge.runtime.apply.applier import Applier
from konverge.runtime.apply.owners import Claims
from konverge.runtime.builder.builder import Controller, Watched
from konverge.runtime.builder.rules import may_read_live
from konverge.runtime.cache.readers import Caches
from konverge.runtime.consistency.barrier import pause
from konverge.runtime.consistency.own_versions import OwnVersions
from konverge.runtime.controller.condition_counts import ConditionCounts
from konverge.runtime.controller.denials import Denials
from konverge.runtime.controller.precondition import Precondition
from konverge.runtime.controller.queue_metrics import PrometheusQueue
from konverge.runtime.controller.requests import (
    INITIAL_PRIORITY,
    ReconcileRequest,
    requests_for_object,
    requests_for_owner,
    requests_mapped,
)
from konverge.runtime.controller.requeue import Action, RequeueDecision, requeue_decision
from konverge.runtime.controller.watches import ControllerWatches
from konverge.runtime.observability.event_loop import EventLoopMonitor
from konverge.runtime.observability.history import History, ReconcileLog, ReconcileRecord, takes_debug
from konverge.runtime.observability.readiness import ControllerReport, State
from konverge.runtime.reconcile.runner import ReconcileRunner, Result
from konverge.runtime.reconcile.services import Announce, ReconcileServices
from konverge.tasks import Broadcast, wait_first
from konverge.words import LogKey, Why
from konverge.workqueue import Item, ItemExponential, Throttle, WorkQueue

__all__ = ["ControllerRunner", "ManagerServices"]

_AT_ONCE = 500
_WORDS = (
    *(Why.INITIAL, Why.CREATED, Why.CHANGED, Why.DELETED, Why.OWNED, Why.WATCHED, Why.REQUEUE_AFTER, Why.RETRY),
    *(Why.HELD, Why.BARRIER, Why.RESYNC, Why.ASKED),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerServices:
    """What the manager gives to each of its controllers."""

    manager: str
    client: Client
    informers: InformerSet
    metrics: Metrics
    random: Random
    stalls: EventLoopMonitor
    announce: Callable[[Kind[Any], Key, Any], Announce]
    namespace: str | None
    strict: bool
    drain: float
    started: asyncio.Event
    """Set once this process may write: at once, or (later) when it leads."""
    readiness: Broadcast = field(default_factory=Broadcast)
    """Notified when the report of a controller may have changed."""
    claims: Claims = field(default_factory=Claims)
    """Which controller applies which child."""


@dataclass(slots=True)
class _Waiting:
    since: float
    reasons: tuple[str, ...] = ()


class ControllerRunner:
    """Runs one controller until it is stopped. `run` is its one task; constructing it starts nothing."""

    def __init__(self, spec: Controller[Any], services: ManagerServices) -> None:
        self.spec = spec
        self.state = State.STARTING
        self.history = History()
        self._denials = Denials(services.readiness.notify)
        self._services = services
        self._feeds = ControllerWatches(spec, services.informers, services.namespace, services.readiness.notify)
        self._deferred: dict[Key, list[Change]] = {}
        self._waiting: dict[Key, _Waiting] = {}
        self._own_versions = OwnVersions()
        self._threads: ThreadPoolExecutor | None = None
        self._stopping = asyncio.Event()
        self._last_error = ""
        numbers = spec.numbers
        self._queue_metrics = PrometheusQueue(services.metrics, spec.name)
        self.queue: WorkQueue[Key] = WorkQueue(
            limiter=ItemExponential(base=numbers.base_delay, cap=numbers.max_delay),
            throttle=Throttle(min_interval=numbers.min_interval, debounce=numbers.debounce),
            metrics=self._queue_metrics,
        )
        self._queue_metrics.open()
        self.caches = Caches(spec.name, self._feeds.informers)
        suffix = f".{spec.status_suffix}" if spec.status_suffix else ""
        loop = asyncio.get_running_loop()
        self._applier = Applier(services.client, controller=spec.name, metrics=services.metrics, now=loop.time)
        own = ReconcileServices(
            controller=spec.name,
            kind=spec.kind,
            client=services.client,
            caches=self.caches,
            applier=self._applier,
            manager=services.manager + suffix,
            owned=frozenset(owned.kind for owned in spec.owned),
            wall_clock=wall_clock,
            serves=self.serves,
            claims=services.claims,
            may_read_live=partial(may_read_live, spec),
            statuses={kind: f"{services.manager}.{suffix}" for kind, suffix in spec.statuses},
            announce=services.announce,
        )
        self._reconciles = ReconcileRunner(
            spec,
            own,
            strict=services.strict,
            executor=self._executor,
            announce=lambda key, metadata: services.announce(spec.kind, key, metadata),
            echo=self._own_versions.add,
        )
        self._log = get_logger("konverge.controller").bind(**{LogKey.CONTROLLER: spec.name})
        self._conditions = ConditionCounts(services.metrics, spec.name, spec.counted)
        self._debugs = takes_debug(self._log)
        self._gate = Precondition(spec.gate, spec.kind, services.client, self._log, changed=services.readiness.notify)
        self._init_metrics()

    def _init_metrics(self) -> None:
        metrics, name = self._services.metrics, self.spec.name
        self._results = {result: metrics.reconcile_total.labels(controller=name, result=result) for result in RESULTS}
        self._errors = metrics.reconcile_errors.labels(controller=name)
        self._terminal = metrics.terminal_errors.labels(controller=name)
        self._panics = metrics.panics.labels(controller=name)
        self._timeouts = metrics.timeouts.labels(controller=name)
        self._seconds = metrics.reconcile_seconds.labels(controller=name)
        self._working = 0
        # Computed when it is scraped; two managers that share their metrics may have a controller of this name each.
        self._together: list[ControllerRunner] = metrics.shared.setdefault((ControllerRunner, name), [])
        together = self._together
        metrics.active_workers.labels(controller=name).set_function(
            lambda: sum(runner._working for runner in tuple(together))
        )
        self._stale = metrics.stale_skips.labels(controller=name)
        self._reasons: dict[str, Counter] = {}
        self._decode_errors = metrics.decode_errors.labels(controller=name)
        metrics.max_concurrent.labels(controller=name).set(self.spec.numbers.concurrency)

    # --- life ----------------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Wait for the caches, work, and end in order when stopped. Raises only what is a bug of the runtime."""
        self._together.append(self)
        try:
            self._feeds.open(self._conditions.open(self._on_primary), self._on_owned, self._on_watched)
            await wait_first(self._synced(), self._stopping.wait())
            if not self._stopping.is_set():
                self._enter(State.WAITING)
                await wait_first(self._services.started.wait(), self._stopping.wait())
            if not self._stopping.is_set():
                await wait_first(self._gate.opened(), self._stopping.wait())
            if not self._stopping.is_set():
                await self._work()
        finally:
            self._enter(State.STOPPED)
            self._together.remove(self)
            self._feeds.close()
            self._conditions.close()
            self._queue_metrics.close()
            if self._threads is not None:
                self._threads.shutdown(wait=False, cancel_futures=True)

    async def _work(self) -> None:
        self._enter(State.RUNNING)
        self._log.info("controller started", workers=self.spec.numbers.concurrency)
        async with asyncio.TaskGroup() as tasks:
            workers = [
                tasks.create_task(self._worker(), name=f"konverge worker {self.spec.name}/{number}")
                for number in range(self.spec.numbers.concurrency)
            ]
            watcher = tasks.create_task(
                self._feeds.watch_optional(self._enqueue_all), name=f"konverge feeds {self.spec.name}"
            )
            resync = tasks.create_task(self._resync(), name=f"konverge resync {self.spec.name}")
            await self._stopping.wait()
            self._enter(State.DRAINING)
            watcher.cancel()
            resync.cancel()
            if not await self.queue.drain(timeout=self._services.drain):
                self._log.warning("passes did not end in time and are cancelled", count=self.queue.statistics().working)
            for worker in workers:
                worker.cancel()

    def stop(self) -> None:
        """Make `run` drain and return."""
        self._stopping.set()
        self.queue.shut_down()

    def _enter(self, state: State) -> None:
        self.state = state
        self._services.readiness.notify()

    def _executor(self) -> Executor:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(
                self.spec.numbers.concurrency, thread_name_prefix=f"konverge-{self.spec.name}"
            )
        return self._threads

    # --- caches --------------------------------------------------------------------------------------------------------------

    async def _synced(self) -> None:
        self._enter(State.SYNCING)
        await self._feeds.synced()

    def serves(self, kind: Kind[Any]) -> bool:
        """Tell whether a declared kind is served and its cache complete."""
        return self._feeds.serves(kind)

    # --- what requests for passes ------------------------------------------------------------------------------------------------

    def _on_primary(self, change: Change) -> None:
        key = Key("", self.spec.kind, change.namespace, change.name)
        held = self._deferred.get(key)
        if held is not None:
            held.append(change)
            return
        own = self._own_versions.of(key)
        self._enqueue(requests_for_object(self.spec, change, own))
        if own and change.new is not None:
            self._own_versions.seen(key, change.new.metadata.resource_version)

    def _on_owned(self, watch: Watched, change: Change) -> None:
        if change.new is None:
            self._applier.forget(Key("", watch.kind, change.namespace, change.name))
        self._enqueue(requests_for_owner(self.spec, watch, change, namespaced=self._feeds.namespaced))

    def _on_watched(self, watch: Watched, change: Change) -> None:
        self._enqueue(requests_mapped(watch, change, self.caches, odd=self._odd))

    def _odd(self, error: InvalidObject) -> None:
        self._log.warning("a watched object does not decode; nobody is woken for it", **{LogKey.ERROR: str(error)})

    def _enqueue(self, requests: Iterable[ReconcileRequest]) -> None:
        for ask in requests:
            if ask.key.kind != self.spec.kind:
                raise UsageError(
                    f"a map function of controller {self.spec.name!r} gave {ask.key}; it must give keys of "
                    f"{self.spec.kind.group_kind}, as caches({self.spec.kind.kind}).keys(...) does"
                )
            self.queue.add(self._own_key(ask.key), reason=ask.reason, priority=ask.priority)

    def _own_key(self, key: Key) -> Key:
        """Return the key with this controller's own kind: an equal one may decode to something else than the reconciler's model."""
        own = self.spec.kind
        return key if key.kind is own else Key(key.cluster, own, key.namespace, key.name)

    def ask(self, key: Key, reason: str = Why.ASKED) -> None:
        """ReconcileRequest for a pass of a key from outside (a test, `/debug`)."""
        self.queue.add(self._own_key(key), reason=reason)

    async def _enqueue_all(self, reason: str) -> None:
        """ReconcileRequest for every object, and give the event loop its turn in between."""
        kind = self.spec.kind
        for number, (namespace, name) in enumerate(self._feeds.primary.store.keys(), start=1):
            self.queue.add(Key("", kind, namespace, name), reason=reason, priority=INITIAL_PRIORITY)
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)

    async def _resync(self) -> None:
        period = self.spec.numbers.resync
        while period > 0:
            await asyncio.sleep(period * self._services.random.uniform(0.9, 1.1))
            await self._enqueue_all(Why.RESYNC)

    def resync_now(self) -> None:
        """Visit every object once, as the periodic resync does, but all in one turn of the event loop: for tests."""
        for namespace, name in self._feeds.primary.store.keys():  # noqa: SIM118  # a method of the store, no dict
            self.queue.add(Key("", self.spec.kind, namespace, name), reason=Why.RESYNC, priority=INITIAL_PRIORITY)

    # --- work ----------------------------------------------------------------------------------------------------------------

    async def _worker(self) -> None:
        async for item in self.queue:
            self._working += 1
            task = asyncio.current_task()
            assert task is not None
            try:
                with self._services.stalls.note(task, self.spec.name, item.key):
                    await self._contained(item)
            finally:
                self._working -= 1
                self.queue.done(item.key)

    async def _contained(self, item: Item[Key]) -> None:
        """Work on one key; a defect of this library on it is told and retried, and hits no other key."""
        try:
            await self._one(item)
        except Exception as error:  # noqa: BLE001  # containment: told with its trace, counted, retried
            self._panics.inc()
            self._last_error = f"{item.key}: {error}"
            self._log.error("the runtime failed on a key", key=item.key.path, stack=stack_of(error))
            self.queue.add_rate_limited(item.key, reason=Why.RETRY, priority=item.priority)

    async def _one(self, item: Item[Key]) -> None:
        key = item.key
        if self._feeds.primary.store.get(key.namespace, key.name) is not None and await self._must_wait(item):
            return
        # Read after the barrier, which may have asked the server: the pass sees what the barrier judged.
        cached = self._feeds.primary.store.get(key.namespace, key.name)
        if cached is None:
            self._gone(key)
            return
        loop = asyncio.get_running_loop()
        started, wall = loop.time(), wall_clock()
        waiting = self._waiting.pop(key, None)
        reasons = item.reasons if waiting is None else tuple(dict.fromkeys((*waiting.reasons, *item.reasons)))
        reconcile_id = f"{self._services.random.getrandbits(48):012x}"
        log = ReconcileLog(self._log, key, reconcile_id, reasons)
        # Events of the key are kept until its pass has ended, as the queue would: then it is known which of them was our own echo.
        # That of a write often comes before its answer; added at once, it would run the key again, past its backoff.
        self._deferred[key] = []
        try:
            result = await self._reconciles.run(key, cached, reasons, log)
        finally:
            for change in self._deferred.pop(key):
                self._on_primary(change)
        verdict = requeue_decision(result.ended)
        duration = loop.time() - started
        next_run = self._act(item, verdict)
        if result.trace.look_again < math.inf:
            self.queue.add_after(key, result.trace.look_again, reason=Why.HELD, priority=item.priority)
        if result.invalid:
            self._decode_errors.inc()
        self._count(verdict, duration, reasons)
        record = ReconcileRecord(
            key=key,
            reconcile_id=reconcile_id,
            started=wall,
            duration=duration,
            reasons=reasons,
            outcome=type(result.ended).__name__,
            error=str(verdict.error) if verdict.error else "",
            writes=tuple(result.trace.writes),
            skipped=result.trace.skipped,
            next_run=next_run,
        )
        self.history.add(record)
        rule = self._denials.note(key, verdict.error)
        self._tell(log, rule, verdict, result, record)

    async def _must_wait(self, item: Item[Key]) -> bool:
        """Put the pass off while the cache is behind our own writes; after the limit let it run and count that."""
        key = item.key
        behind = await self._reconciles.barrier.behind(key)
        now = asyncio.get_running_loop().time()
        waiting = self._waiting.get(key)
        barrier = self._services.metrics.barrier_waits
        if not behind:
            if waiting is not None:
                barrier.labels(controller=self.spec.name, result="shown").inc()
            return False
        if waiting is None:
            waiting = self._waiting[key] = _Waiting(now)
        waited = now - waiting.since
        if waited >= self.spec.numbers.barrier:
            barrier.labels(controller=self.spec.name, result="timeout").inc()
            self._log.warning(
                "the cache stays behind own writes; the pass runs all the same", key=key.path, waits_for=behind
            )
            self._reconciles.barrier.stop_waiting(key)
            self._own_versions.forget(key)  # its late echo is news to a pass that ran without it
            return False
        waiting.reasons = tuple(dict.fromkeys((*waiting.reasons, *item.reasons)))
        self._stale.inc()
        self.queue.add_after(key, pause(waited), reason=Why.BARRIER, priority=item.priority)
        return True

    def _gone(self, key: Key) -> None:
        self.queue.forget(key)
        self._waiting.pop(key, None)
        self._own_versions.forget(key)
        self._applier.forget(key)
        self._reconciles.barrier.forget(key)
        self._services.claims.forget(self.spec.name, key)
        if self._last_error.startswith(f"{key}: "):
            self._last_error = ""
        self.history.forget(key)
        self._denials.forget(key)
        self._results["success"].inc()

    def _act(self, item: Item[Key], verdict: RequeueDecision) -> str:
        """Do to the queue what the verdict says; returns when the key runs next, in words."""
        key, queue = item.key, self.queue
        match verdict.action:
            case Action.FORGET:
                queue.forget(key)
                return "when something changes"
            case Action.FORGET_AND_ADD_AFTER:
                queue.forget(key)
                queue.add_after(key, verdict.delay, reason=Why.REQUEUE_AFTER, priority=item.priority)
                return f"in {verdict.delay:g} s"
            case Action.ADD_AFTER:
                queue.add_after(key, verdict.delay, reason=f"{Why.RETRY}: {verdict.error}", priority=item.priority)
                return f"in {verdict.delay:g} s"
            case Action.BACK_OFF:
                delay = queue.add_rate_limited(
                    key, reason=f"{Why.RETRY}: {type(verdict.error).__name__}", priority=item.priority
                )
                return (
                    "when something changes" if delay is None else f"in {delay:.3g} s (failure {queue.failures(key)})"
                )

    def _count(self, verdict: RequeueDecision, duration: float, reasons: tuple[str, ...]) -> None:
        self._results[verdict.result].inc()
        self._seconds.observe(duration)
        for word in {_word(reason) for reason in reasons}:
            self._reason(word).inc()
        if not verdict.failed:
            return
        self._errors.inc()
        if verdict.terminal:
            self._terminal.inc()
        if verdict.timeout:
            self._timeouts.inc()
        if verdict.unexpected:
            self._panics.inc()

    def _reason(self, word: str) -> Counter:
        """Return the counter of a reason; a series begins with its first pass."""
        counter = self._reasons.get(word)
        if counter is None:
            counter = self._reasons[word] = self._services.metrics.reasons.labels(
                controller=self.spec.name, reason=word
            )
        return counter

    def _tell(
        self,
        log: ReconcileLog,
        rule: dict[str, Any] | None,
        verdict: RequeueDecision,
        result: Result,
        record: ReconcileRecord,
    ) -> None:
        if verdict.failed:
            self._last_error = f"{record.key}: {verdict.error}"
            log.bound.error(
                "reconcile failed",
                error=str(verdict.error),
                error_type=type(verdict.error).__name__,
                next_run=record.next_run,
                failures=self.queue.failures(record.key),
                **({LogKey.STACK: stack_of(verdict.error)} if verdict.unexpected else {}),
                **({LogKey.RULE: rule} if rule is not None else {}),
            )
        elif self._debugs:
            log.bound.debug(
                "reconciled" if record.writes else "reconciled, nothing to do",
                writes=list(record.writes),
                outcome=record.outcome,
                duration_seconds=round(record.duration, 4),
            )
        if isinstance(result.ended, Done) and not verdict.failed and self._last_error.startswith(f"{record.key}: "):
            self._last_error = ""

    # --- what is told --------------------------------------------------------------------------------------------------------

    def report(self) -> ControllerReport:
        """Return whether this controller works, and if not why, in words that say what to do."""
        return ControllerReport(
            name=self.spec.name,
            state=self.state,
            problems=(*self._feeds.problems(), *self._gate.obstacles, *self._denials.obstacles),
            last_error=self._last_error,
        )


@lru_cache(maxsize=1024)  # the same few, for nearly all passes
def _word(reason: str) -> str:
    """The first words of a reason, without names: a label value of bounded variety."""
    return next((word for word in _WORDS if reason.startswith(word)), "other")
