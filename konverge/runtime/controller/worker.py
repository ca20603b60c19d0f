"""The work on one key, as steps in order, from the queue to the requeue.

    1. barrier      the caches show our own writes, else the key waits
    2. admission    the gate of the controller, if any, admits the object (`konverge.runtime.hooks.object_gate`)
    3. fence        this process may still write, else the key is retried
    4. reconcile    `konverge.runtime.controller.pipeline`; events of the key are held back until its end
    5. aftermath    requeue, metrics, log and history

A step that refuses the key ends the work, and decides when the key runs next. A cancellation puts the key back in the queue.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from contextlib import nullcontext
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from konverge.client import Fence
from konverge.clock import wall_clock
from konverge.errors import NotLeading
from konverge.informers import Cached
from konverge.keys import Key
from konverge.runtime.builder.builder import Controller
from konverge.runtime.consistency.own_writes import BarrierWaits, StalenessBarrier
from konverge.runtime.controller.aftermath import Action, ReconcileReports, RequeueDecision, requeue_decision
from konverge.runtime.controller.event_handlers import EventHandlers
from konverge.runtime.controller.metrics import ControllerMetrics
from konverge.runtime.controller.pipeline import Result
from konverge.runtime.controller.watches import ControllerWatches
from konverge.runtime.hooks.object_gate import ObjectGate
from konverge.runtime.hooks.tap import Pipeline
from konverge.runtime.observability.failures import Failure
from konverge.runtime.observability.record import ReconcileRecord
from konverge.runtime.reconcile.services import ManagerServices
from konverge.runtime.reconcile.trace import ReconcileLog
from konverge.words import Why
from konverge.workqueue import Item, WorkQueue

if TYPE_CHECKING:
    from konverge.runtime.controller.tracing import KeyTracing

__all__ = ["KeyWorker"]


_UNWATCHED: Final = nullcontext()


class _Run(NamedTuple):
    """One reconcile of an item: its identity in the log, and its start by the loop and by the wall clock."""

    item: Item[Key]
    reasons: tuple[str, ...]
    reconcile_id: str
    log: ReconcileLog
    started: float
    wall_started: datetime


class KeyWorker:
    """Works on the keys of one controller's queue. Each of its `run` tasks is a worker."""

    def __init__(
        self,
        spec: Controller[Any],
        services: ManagerServices,
        queue: WorkQueue[Key],
        *,
        watches: ControllerWatches,
        events: EventHandlers,
        barrier: StalenessBarrier,
        reconcile: Pipeline[Result],
        gate: ObjectGate | None,
        metrics: ControllerMetrics,
        reports: ReconcileReports,
        forget: Callable[[Key], None],
        log: Any,
        tracing: KeyTracing | None = None,
    ) -> None:
        self._name = spec.name
        self._shared = services
        self._queue = queue
        self._watches = watches
        self._events = events
        self._barrier = barrier
        self._reconcile = reconcile
        self._gate = gate
        self._metrics = metrics
        self._reports = reports
        self._forget = forget
        self._log = log
        self._tracing = tracing
        self._barrier_waits = BarrierWaits(spec.numbers.barrier)

    async def run(self) -> None:
        """Work on one key after the other until the queue is shut down."""
        metrics, monitor, tracing, share = self._metrics, self._shared.event_loop, self._tracing, self._shared.slice
        task = asyncio.current_task()
        assert task is not None
        async for item in self._queue:
            metrics.active += 1
            try:
                if share is not None and not share.may_begin():
                    await share.wait()
                with _UNWATCHED if monitor is None else monitor.note(task, self._name, item.key):
                    await (self._work(item) if tracing is None else tracing.work(item, self._work))
            except asyncio.CancelledError:
                self._queue.add(item.key, reason=Why.INTERRUPTED, priority=item.priority)
                raise
            except Exception as error:  # noqa: BLE001  # containment: a bug of this library affects one key; logged, counted, retried
                metrics.defect()
                self._reports.defect(item.key, error)
                self.observe(item.key, error)
                self._queue.add_rate_limited(item.key, reason=Why.RETRY, priority=item.priority)
            finally:
                metrics.active -= 1
                self._queue.done(item.key)

    async def _work(self, item: Item[Key]) -> None:
        """Take the steps in order; see the table of the module."""
        key = item.key
        cached = await self._pass_barrier(item)
        if cached is None:
            return
        epoch = 0
        if self._gate is not None:
            epoch = await self._admit(self._gate, key, cached)
            if not epoch:
                return
        if self._shared.fence is not None and not self._may_write(self._shared.fence):
            if self._gate is not None:
                self._gate.leave(key, cached.metadata)
            self._queue.add_rate_limited(key, reason=Why.INTERRUPTED, priority=item.priority)
            return
        run = self._begin(item)
        try:
            running = self._reconcile(key, cached, run.reasons, run.log, epoch)
            if self._tracing is not None:
                running = self._tracing.reconcile(running, key, cached, run.reasons, run.reconcile_id)
            result = await running
        finally:
            self._events.release(key)
            if self._gate is not None:
                self._gate.leave(key, cached.metadata)
        self._finish(run, result)

    # --- barrier -------------------------------------------------------------------------------------------------------------

    async def _pass_barrier(self, item: Item[Key]) -> Cached | None:
        """Return the cached object; None if the key waits, or its object was deleted."""
        key, store = item.key, self._watches.primary.store
        if store.get(key.namespace, key.name) is not None and await self._must_wait(item):
            return None
        # Read after the barrier, which may have called the server: the reconcile sees the state that the barrier compared.
        cached = store.get(key.namespace, key.name)
        if cached is None:
            self._forget(key)
            self._metrics.gone()
        return cached

    async def _must_wait(self, item: Item[Key]) -> bool:
        """Delay the reconcile while the cache is behind our own writes; after the limit it runs nevertheless, and is counted."""
        key, waits, barrier = item.key, self._barrier_waits, self._barrier
        behind = await barrier.behind(key)
        if not behind:
            if key in waits:
                self._metrics.waited("shown")
            return False
        pause = waits.pause(key, item.reasons, asyncio.get_running_loop().time())
        if pause is None:
            self._metrics.waited("timeout")
            self._log.warning(
                "the cache stays behind own writes; the reconcile runs all the same", key=key.path, waits_for=behind
            )
            barrier.stop_waiting(key)
            return False
        self._metrics.waits()
        self._queue.add_after(key, pause, reason=Why.BARRIER, priority=item.priority)
        return True

    # --- admission and fence -------------------------------------------------------------------------------------------------

    async def _admit(self, gate: ObjectGate, key: Key, cached: Cached) -> int:
        """Return the epoch of an admitted object; 0 if the object is retried or forgotten, or the gate enqueues it later."""
        admission = await gate.admit(key, cached.metadata)
        if not admission.epoch:
            if admission.retry_after is not None:
                self._queue.add_after(key, admission.retry_after, reason=Why.OWNER_CHANGED)
            elif not admission.waits:
                self._forget(key)
        return admission.epoch

    def _may_write(self, fence: Fence) -> bool:
        """Return whether the fence is open: a paused process may wake within its term, and must not begin a reconcile."""
        try:
            fence.check()
        except NotLeading:
            return False
        return True

    # --- reconcile and aftermath ---------------------------------------------------------------------------------------------

    def _begin(self, item: Item[Key]) -> _Run:
        """Hold back the events of the key, and return the identity of this reconcile."""
        key, shared = item.key, self._shared
        started, wall_started = asyncio.get_running_loop().time(), wall_clock()
        reasons = self._barrier_waits.take(key, item.reasons)
        reconcile_id = f"{shared.random.getrandbits(48):012x}"
        log = ReconcileLog(self._log, key, reconcile_id, reasons)
        self._events.held_back[key] = []
        if shared.observer is not None:
            shared.observer.reconciling(self._name, key, reasons)
        return _Run(item, reasons, reconcile_id, log, started, wall_started)

    def _finish(self, run: _Run, result: Result) -> None:
        """Requeue the key, and count, log and record the reconcile."""
        item, key = run.item, run.item.key
        decision, trace = requeue_decision(result.ended), result.trace
        if decision.interrupted:
            self._queue.add_rate_limited(key, reason=Why.INTERRUPTED, priority=item.priority)
            return
        duration = asyncio.get_running_loop().time() - run.started
        next_run = self._requeue(item, decision)
        if trace.look_again < math.inf:
            self._queue.add_after(key, trace.look_again, reason=Why.HELD, priority=item.priority)
        self._metrics.reconciled(decision, duration, run.reasons, invalid=result.invalid)
        record = ReconcileRecord(
            key=key,
            reconcile_id=run.reconcile_id,
            started=run.wall_started,
            duration=duration,
            reasons=run.reasons,
            outcome=type(result.ended).__name__,
            error=str(decision.error) if decision.error else "",
            writes=tuple(trace.writes),
            skipped=trace.skipped,
            next_run=next_run,
        )
        self._reports.reconciled(run.log, decision, record, failures=self._queue.failures)
        if self._shared.observer is not None:
            self._shared.observer.reconciled(self._name, record)
        if decision.error is not None:
            self.observe(key, decision.error, retried=decision.action is Action.BACK_OFF)
        if trace.contained is not None:
            self.observe(key, trace.contained, part=", its function of .reports_failure")

    def _requeue(self, item: Item[Key], decision: RequeueDecision) -> str:
        """Requeue the key as decided; return when it runs next, in words."""
        key, queue = item.key, self._queue
        match decision.action:
            case Action.FORGET:
                queue.forget(key)
                return "when something changes"
            case Action.FORGET_AND_ADD_AFTER:
                queue.forget(key)
                queue.add_after(key, decision.delay, reason=Why.REQUEUE_AFTER, priority=item.priority)
                return f"in {decision.delay:g} s"
            case Action.ADD_AFTER:
                queue.add_after(key, decision.delay, reason=f"{Why.RETRY}: {decision.error}", priority=item.priority)
                return f"in {decision.delay:g} s"
            case Action.BACK_OFF:
                delay = queue.add_rate_limited(
                    key, reason=f"{Why.RETRY}: {type(decision.error).__name__}", priority=item.priority
                )
                return (
                    "when something changes" if delay is None else f"in {delay:.3g} s (failure {queue.failures(key)})"
                )

    def observe(self, key: Key, error: BaseException, *, part: str = "", retried: bool = False) -> None:
        """Report a contained exception to the observer of a test."""
        if self._shared.observer is not None:
            where = f"{self._name}{part}"
            self._shared.observer.failed(Failure(where=where, key=key, error=error, retried=retried))

    def forget(self, key: Key) -> None:
        """Drop the wait of a deleted object."""
        self._barrier_waits.forget(key)
