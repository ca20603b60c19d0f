"""The pipeline of one reconcile: from a cached object to the outcome for the queue.

Each step is a function in a file of this folder, and each may end the reconcile:

    1. finalizer    ignore, add the finalizer, reconcile or finalize    finalizers.py
    2. decode       a private copy of the cached object                 reconciler_call.py
    3. editor       the status that the reconcile will write            reconciler_call.py, status.py
    4. context      the reads and writes of the reconciler              context.py (children.py applies the children)
    5. reconciler   `reconcile` or `finalize` under the deadline        reconciler_call.py
    6. failure      a condition that reports or clears a failure        failure_report.py
    7. status       one apply, and an Event for each transition         status_write.py

The outcome becomes a requeue in `konverge.runtime.controller.requeue`. An exception of a step ends its own reconcile and nothing else.
"""

from __future__ import annotations

from typing import Any

import msgspec

from konverge.informers import Cached
from konverge.keys import Key
from konverge.outcome import Done, Outcome
from konverge.runtime.builder.builder import Controller
from konverge.runtime.consistency.own_writes import StalenessBarrier
from konverge.runtime.observability.history import ReconcileLog
from konverge.runtime.reconcile.context import Context
from konverge.runtime.reconcile.failure_report import FailureReport
from konverge.runtime.reconcile.finalizers import Finalizers, FinalizerStep
from konverge.runtime.reconcile.reconciler_call import ReconcilerCall, StatusEditors, decode_object
from konverge.runtime.reconcile.services import ReconcileServices
from konverge.runtime.reconcile.status_write import StatusWriter
from konverge.runtime.reconcile.trace import ReconcileTrace

__all__ = ["ReconcilePipeline", "Result"]


class Result(msgspec.Struct, frozen=True):
    """The end of one reconcile; `invalid`: the object did not decode."""

    ended: Outcome | Exception
    trace: ReconcileTrace
    invalid: bool = False


class ReconcilePipeline:
    """Runs the reconciles of one controller, without knowledge of its queue. Constructing it does nothing."""

    def __init__(self, spec: Controller[Any], services: ReconcileServices) -> None:
        self._spec = spec
        self._services = services
        self.barrier = StalenessBarrier(spec.name, services.client, services.caches, services.own_versions)
        self._finalizers = Finalizers(spec, services)
        self._editors = StatusEditors(spec, services)
        self._call = ReconcilerCall(spec, services)
        self._failures = FailureReport(spec)
        self._status = StatusWriter(spec, services, self.barrier, self._failures)

    async def run(
        self, key: Key, cached: Cached, reasons: tuple[str, ...], log: ReconcileLog, epoch: int = 0
    ) -> Result:
        """Reconcile a cached object. Only a cancellation leaves it as an exception."""
        trace = ReconcileTrace(key, self.barrier.writer(key), epoch)
        try:
            return await self._run_steps(key, cached, reasons, log, trace)
        except Exception as error:  # noqa: BLE001  # containment: one key's failure is an outcome, whatever it is
            return Result(error, trace)

    async def _run_steps(
        self, key: Key, cached: Cached, reasons: tuple[str, ...], log: ReconcileLog, trace: ReconcileTrace
    ) -> Result:
        """Run the steps in order; see the table of the module."""
        step, refused = await self._finalizers.begin(key, cached, trace)
        if step is FinalizerStep.IGNORE or (step is FinalizerStep.ADD and refused is None):
            return Result(Done(), trace)
        object_, invalid = decode_object(key, cached, self._spec.model)
        editor = self._editors.create(cached, object_, log)
        ctx: Context[Any] = Context(
            self._services,
            object_=object_,
            trace=trace,
            reasons=reasons,
            status=editor,
            metadata=cached.metadata,
            log=log,
        )
        if refused is not None:
            return Result(await self._refused(key, cached, ctx, refused), trace)
        if invalid is not None and step is FinalizerStep.RECONCILE:
            self._failures.report_invalid(ctx, invalid)
            return Result(await self._status.write(key, cached, ctx, Done()), trace, invalid=True)
        ended = await self._call.run(step, object_, ctx)
        if step is FinalizerStep.FINALIZE and isinstance(ended, Done):
            refused = await self._finalizers.end(key, cached, trace)
            ended = ended if refused is None else await self._refused(key, cached, ctx, refused)
        else:
            self._failures.report(ctx, ended, reconciled=step is FinalizerStep.RECONCILE)
            ended = await self._status.write(key, cached, ctx, ended)
        if not isinstance(ended, Exception):
            self._failures.forget(key)
        return Result(ended, trace, invalid=invalid is not None)

    async def _refused(self, key: Key, cached: Cached, ctx: Context[Any], error: Exception) -> Outcome | Exception:
        """Report a refused change of the finalizer, if the status shows the error."""
        message = self._failures.message(key, error)
        if message is None:
            return error
        self._failures.set_failed(ctx, message)
        return await self._status.write(key, cached, ctx, error)

    def forget(self, key: Key) -> None:
        """Drop the failures of a deleted object."""
        self._failures.forget(key)
