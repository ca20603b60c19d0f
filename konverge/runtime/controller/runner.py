"""A controller at work: its life, its queue and its workers. `konverge.runtime.controller.worker` holds the steps of a worker.

Guarantees: it starts by itself when its CRD appears and its rights suffice; until then its report names what is missing, and other
controllers do not wait for it. At most one worker reconciles a key. It works while its process leads; if the lease is lost, running
reconciles are cancelled at once, their keys stay in the queue, and the controller stays ready: its caches and its queue stay up to
date. On stop the queue accepts nothing new, running reconciles end or are cancelled after the limit, and no task remains.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from konverge.errors import stack_of
from konverge.informers.delivery import Handler
from konverge.keys import Key
from konverge.logs import get_logger
from konverge.objects import Metadata
from konverge.runtime.builder.builder import Controller
from konverge.runtime.cache.readers import Caches
from konverge.runtime.controller.aftermath import History, ReconcileReports
from konverge.runtime.controller.event_handlers import EventHandlers
from konverge.runtime.controller.gate_host import GateHost
from konverge.runtime.controller.listeners import Listeners
from konverge.runtime.controller.metrics import ControllerMetrics, PrometheusQueue
from konverge.runtime.controller.object_counts import OwnObjects, counts_of
from konverge.runtime.controller.own_functions import GuardedLimiter, Priorities
from konverge.runtime.controller.pauses import Pauses
from konverge.runtime.controller.pipeline import ReconcilePipeline, Result
from konverge.runtime.controller.precondition import Precondition
from konverge.runtime.controller.services import services_of
from konverge.runtime.controller.watches import ControllerWatches
from konverge.runtime.controller.worker import KeyWorker
from konverge.runtime.hooks.tap import Pipeline
from konverge.runtime.observability.readiness import ControllerReport, State
from konverge.runtime.reconcile.services import ManagerServices
from konverge.tasks import wait_first
from konverge.words import LogKey, Why
from konverge.workqueue import ItemExponential, Throttle, WorkQueue

__all__ = ["ControllerRunner"]

_OLDEST_EVERY: Final = 10
"""One of so many reconciles is of the key that has waited longest, whatever its priority: the first list must not starve."""


class ControllerRunner:
    """Runs one controller until it is stopped. `run` is its one task; constructing it starts nothing."""

    def __init__(self, spec: Controller[Any], services: ManagerServices) -> None:
        self.spec = spec
        self.state = State.STARTING
        self._shared = services
        self._term = services.term
        self._fence = services.fence
        self._stopping = asyncio.Event()
        self._log = get_logger("konverge.controller").bind(**{LogKey.CONTROLLER: spec.name})
        numbers, changed = spec.numbers, services.readiness.notify
        self._queue_metrics = PrometheusQueue(services.metrics, spec.name)
        default: ItemExponential[Key] = ItemExponential(base=numbers.base_delay, cap=numbers.max_delay)
        self.queue: WorkQueue[Key] = WorkQueue(
            limiter=default if spec.limiter is None else GuardedLimiter(spec.limiter(), default, self._function_failed),
            oldest_every=_OLDEST_EVERY,
            throttle=Throttle(min_interval=numbers.min_interval, debounce=numbers.debounce),
            metrics=self._queue_metrics,
        )
        self._queue_metrics.open()
        self._watches = ControllerWatches(spec, services.informers, services.namespace, changed)
        tap, informers = services.tap, self._watches.informers
        if tap is None:
            self.caches = Caches(spec.name, informers, reorder=services.reorder)
        else:
            self.caches = tap.caches(spec.name, informers, reorder=services.reorder)
        self._services = services_of(spec, services, caches=self.caches, serves=self._watches.serves)
        self._pauses = (
            None
            if spec.pausable_by is None
            else Pauses(spec.pausable_by, spec.conditions, self.caches, self._watches.namespace_labels)
        )
        self._pipeline = ReconcilePipeline(spec, self._services, self._pauses)
        self._priorities = (
            None if spec.priority is None else Priorities(spec.priority, self._watches, self._function_failed)
        )
        reconcile: Pipeline[Result] = self._pipeline.run
        if tap is not None:
            reconcile = tap.around(spec.name, self._services.owned, self.caches, reconcile)
        host = GateHost(
            spec,
            services,
            self.queue,
            watches=self._watches,
            barrier=self._pipeline.barrier,
            priorities=self._priorities,
            enqueue_where=self._enqueue_where,
        )
        self._gate = None if services.gates is None else services.gates(host)
        self._tracing = None
        if services.tracing is not None:
            # Here, because it brings OpenTelemetry.
            from konverge.runtime.controller.tracing import KeyTracing

            self._tracing = KeyTracing(services.tracing, spec)
        self.events = EventHandlers(
            spec,
            self.queue,
            watches=self._watches,
            caches=self.caches,
            applier=self._services.applier,
            own_versions=self._services.own_versions,
            forget=self._forget,
            log=self._log,
            gate=self._gate,
            priorities=self._priorities,
            tracing=self._tracing,
        )
        self._metrics = ControllerMetrics(services.metrics, spec.name, workers=numbers.concurrency)
        own = None if self._gate is None else OwnObjects(self._gate.counts, lambda: self._term.leads)
        self._counts = counts_of(spec, services.metrics, own)
        self._reports = ReconcileReports(self._log, changed)
        self._worker = KeyWorker(
            spec,
            services,
            self.queue,
            watches=self._watches,
            events=self.events,
            barrier=self._pipeline.barrier,
            reconcile=reconcile,
            gate=self._gate,
            metrics=self._metrics,
            reports=self._reports,
            forget=self._forget,
            log=self._log,
            tracing=self._tracing,
        )
        self._listeners = Listeners(
            spec, services.client, self.caches, enqueue=self.events.enqueue, changed=changed, log=self._log
        )
        self._precondition = Precondition(spec.gate, spec.kind, services.client, self._log, changed=changed)

    @property
    def history(self) -> History:
        """The last reconciles."""
        return self._reports.history

    # --- life ----------------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Wait for the caches, work, and end in order when stopped. Raises only if the runtime has a bug."""
        self._metrics.open()
        events = self.events
        try:
            primary: Handler = events.on_primary
            owned, watched = events.on_owned, events.on_watched
            for counts in self._counts:
                primary = counts.open(primary)
            if self._shared.observer is not None:
                primary, owned, watched = self._observed(primary), self._observed(owned), self._observed(watched)
            self.events.standing_by = not self._term.leads
            self._watches.open(primary, owned, watched, select=None if self._gate is None else self._gate.select)
            if self._fence is not None:
                self._watches.count_catch_ups(self._shared.metrics)
            self._enter(State.SYNCING)
            await wait_first(self._watches.synced(), self._stopping.wait())
            if self._watches.absent:
                # One line in place of a warning for each kind, since an optional part may be left out on purpose.
                self._log.info(
                    "the cluster does not serve some optional kinds; they are used as soon as they are installed",
                    **{LogKey.KINDS: list(self._watches.absent)},
                )
            while not self._stopping.is_set():
                self._enter(State.WAITING)
                await wait_first(self._term.begun(), self._stopping.wait())
                await self._lead()
        finally:
            self._enter(State.STOPPED)
            self._metrics.close()
            self._watches.close()
            for counts in self._counts:
                counts.close()
            self._queue_metrics.close()
            self._services.threads.close()

    async def _lead(self) -> None:
        """Work until this process is stopped or does not lead any more."""
        await self._unless_interrupted(self._precondition.opened())
        if self._fence is not None:
            await self._unless_interrupted(self._watches.caught_up(self._shared.client, self._shared.metrics))
        if not self._interrupted:
            await self._work()

    @property
    def _interrupted(self) -> bool:
        return self._stopping.is_set() or not self._term.leads

    async def _unless_interrupted(self, step: Coroutine[Any, Any, None]) -> None:
        await wait_first(step, self._stopping.wait(), self._term.ended())

    async def _work(self) -> None:
        self._enter(State.RUNNING)
        name, concurrency = self.spec.name, self.spec.numbers.concurrency
        self._log.info("controller started", workers=concurrency)
        self.events.standing_by = False
        if self._term.number > 1:  # requeues of the former leader were lost with its memory
            await self.events.enqueue_all(Why.ELECTED)
        async with asyncio.TaskGroup() as tasks:
            workers = [
                tasks.create_task(self._worker.run(), name=f"konverge worker {name}/{number}")
                for number in range(concurrency)
            ]
            watcher = tasks.create_task(
                self._watches.watch_optional(self.events.enqueue_all), name=f"konverge watches {name}"
            )
            resync = tasks.create_task(self._resync(), name=f"konverge resync {name}")
            helpers = [watcher, resync]
            helpers += [
                tasks.create_task(run, name=f"konverge source {name}/{source}")
                for source, run in self._listeners.runs()
            ]
            if self._gate is not None:
                helpers.append(tasks.create_task(self._gate.run(), name=f"konverge gate {name}"))
            await wait_first(self._stopping.wait(), self._term.ended())
            for helper in helpers:
                helper.cancel()
            if self._stopping.is_set():
                self._enter(State.DRAINING)
                await wait_first(self._drain(), self._term.ended())
            else:  # the next term may have begun; this term ends nevertheless
                self.events.standing_by = True
                self._log.warning("this process does not lead any more: running reconciles are cancelled")
            for worker in workers:
                worker.cancel()
        if not self._stopping.is_set():
            self._reports.denials.clear()

    async def _enqueue_where(self, chosen: Callable[[Metadata], bool]) -> None:
        """Enqueue the objects that the gate chooses, and count the objects of this process again."""
        await self.events.enqueue_where(Why.OWNER_CHANGED, chosen)
        for counts in self._counts:
            await counts.recount(self._watches.primary.store)

    async def _drain(self) -> None:
        if not await self.queue.drain(timeout=self._shared.drain):
            self._log.warning("reconciles did not end in time and are cancelled", count=self.queue.statistics().working)

    def stop(self) -> None:
        """Make `run` drain and return."""
        self._stopping.set()
        self.queue.shut_down()

    def _enter(self, state: State) -> None:
        self.state = state
        self._shared.readiness.notify()

    async def _resync(self) -> None:
        period = self.spec.numbers.resync
        while period > 0:
            await asyncio.sleep(period * self._shared.random.uniform(0.9, 1.1))
            await self.events.enqueue_all(Why.RESYNC)

    def enqueue(self, key: Key, reason: str = Why.ASKED) -> None:
        """Enqueue a key from outside, for tests and `/debug`."""
        self.events.enqueue(key, reason)

    def pause_of(self, metadata: Metadata) -> str:
        """Return why an object is paused, "" if it is not."""
        pause = None if self._pauses is None else self._pauses.of(metadata)
        return "" if pause is None else pause.message

    def resync_now(self) -> None:
        """Enqueue every object in one iteration of the event loop, for tests."""
        self.events.resync_now()

    def report(self) -> ControllerReport:
        """Return whether this controller works, and if not, the obstacles and their remedies."""
        reports = self._reports
        # A standby has not called its gate; it is ready, or a rolling update would wait for it without an end.
        gated = self._precondition.obstacles if self._term.leads else ()
        return ControllerReport(
            name=self.spec.name,
            state=self.state,
            problems=(*self._watches.problems(), *self._listeners.problems, *gated, *reports.denials.obstacles),
            last_error=reports.last_error,
        )

    def _observed(self, handler: Callable[..., None]) -> Callable[..., None]:
        """Return the event handler; it reports an exception of a predicate or map function before the informer contains it."""

        def called(*event: Any) -> None:
            try:
                handler(*event)
            except Exception as error:
                *watched, change = event
                kind = watched[0].kind if watched else self.spec.kind
                key = Key("", kind, change.namespace, change.name)
                self._worker.observe(key, error, part=", a predicate or map function, for")
                raise

        return called

    def _function_failed(self, verb: str, key: Key, error: Exception) -> None:
        """Report the error of a function of the operator that decides about the queue."""
        self._log.error(
            "a function of the controller's declaration failed; the default is used",
            **{LogKey.HANDLER: verb, LogKey.KEY: key.path, LogKey.STACK: stack_of(error)},
        )
        self._worker.observe(key, error, part=f", its function of {verb}")

    def _forget(self, key: Key) -> None:
        """Drop the state of a deleted object."""
        services = self._services
        self.queue.forget(key)
        self._worker.forget(key)
        services.own_versions.forget(key)
        services.applier.forget(key)
        services.created_children.drop(key)
        self._pipeline.barrier.forget(key)
        self._pipeline.forget(key)
        services.claims.forget(self.spec.name, key)
        if self._tracing is not None:
            self._tracing.forget(key)
        self._reports.forget(key)
