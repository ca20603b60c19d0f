"""The pipeline of one reconcile: from a cached object to the outcome for the queue.

Each step may end the reconcile:

    1. finalizer    ignore, add the finalizer, reconcile or finalize    `Finalizers`
    2. decode       a private copy of the cached object                 `decode_object`
    3. editor       the status that the reconcile will write            `StatusEditors` in status_step.py, reconcile/status.py
    4. context      the reads and writes of the reconciler              reconcile/context.py (children.py: the children)
    5. reconciler   `reconcile` or `finalize` under the deadline        `ReconcilerCall`
    6. failure      a condition that reports or clears a failure        `FailureReport` in status_step.py
    7. status       one apply, and an Event for each transition         `StatusWriter` in status_step.py

The outcome becomes a requeue in `konverge.runtime.controller.aftermath`. An exception of a step ends its own reconcile and nothing else. A
stored object is an input: an exception of its model ends this object's reconcile and no other.

A finalizer is added before the first reconcile, and removed once `finalize` is done. Rules (tested on a real server): a JSON patch adds the
finalizer and tests the state that the cache showed; an object under deletion never gets a finalizer. A JSON patch that tests the list
removes it. A deleted object, or another uid, counts as removed.

Source: https://kubernetes.io/docs/concepts/overview/working-with-objects/finalizers/. An object under deletion takes no new finalizer:
https://github.com/kubernetes/kubernetes/issues/32339, https://github.com/kubernetes-sigs/cluster-api/issues/8946
"""

from __future__ import annotations

import asyncio
import enum
import inspect
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from functools import partial
from typing import Any

import msgspec

from konverge.client import LEFT_OUT
from konverge.errors import (
    Conflict,
    Forbidden,
    Invalid,
    InvalidObject,
    NotAnOutcome,
    NotFound,
    ReconcileTimeout,
    RetryAfter,
)
from konverge.informers import Cached
from konverge.keys import Key
from konverge.objects import Metadata, MetadataObject, Object
from konverge.outcome import Done, Outcome, RequeueAfter
from konverge.runtime.builder.builder import Controller
from konverge.runtime.consistency.own_writes import StalenessBarrier
from konverge.runtime.controller.failure_message import TOO_DEEP
from konverge.runtime.controller.pauses import Pauses
from konverge.runtime.controller.status_step import FailureReport, StatusEditors, StatusWriter
from konverge.runtime.reconcile.context import Context
from konverge.runtime.reconcile.services import ReconcileServices
from konverge.runtime.reconcile.trace import ReconcileLog, ReconcileTrace
from konverge.tasks import Deadline, Deadlines

__all__ = ["FinalizerStep", "ReconcilePipeline", "Result", "adding", "check_outcome", "next_step", "removing"]


class Result(msgspec.Struct, frozen=True):
    """The end of one reconcile; `invalid`: the object did not decode."""

    ended: Outcome | Exception
    trace: ReconcileTrace
    invalid: bool = False


class ReconcilePipeline:
    """Runs the reconciles of one controller, without knowledge of its queue. Constructing it does nothing."""

    def __init__(self, spec: Controller[Any], services: ReconcileServices, pauses: Pauses | None) -> None:
        self._spec = spec
        self._services = services
        self._pauses = pauses
        self.barrier = StalenessBarrier(spec.name, services.client, services.caches.informers, services.own_versions)
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
        pauses = self._pauses
        pause = None if pauses is None else pauses.of(cached.metadata)
        step, refused = await self._finalizers.begin(key, cached, trace, paused=pause is not None)
        if step is FinalizerStep.IGNORE or (step is FinalizerStep.ADD and refused is None):
            return Result(Done(), trace)
        object_, invalid = decode_object(key, cached, self._spec)
        editor = self._editors.create(cached, object_, log)
        ctx: Context[Any] = Context(
            self._services,
            object_=object_,
            trace=trace,
            reasons=reasons,
            status=editor,
            metadata=cached.metadata,
            log=log,
            paused="" if pause is None else pause.message,
        )
        if refused is not None:
            return Result(await self._refused(key, cached, ctx, refused), trace)
        if pauses is not None:
            pauses.show(editor, pause)
        if invalid is not None and step is FinalizerStep.RECONCILE:
            self._failures.report_invalid(ctx, invalid)
            return Result(await self._status.write(key, cached, ctx, Done()), trace, invalid=True)
        if pauses is not None and pause is not None and not (pauses.observing and step is FinalizerStep.RECONCILE):
            return Result(await self._status.write(key, cached, ctx, Done()), trace)
        ended = await self._call.run(step, object_, ctx)
        if step is FinalizerStep.FINALIZE and isinstance(ended, Done):
            refused = await self._finalizers.end(key, cached, trace)
            ended = ended if refused is None else await self._refused(key, cached, ctx, refused)
        else:
            self._failures.report(ctx, ended, reconciled=step is FinalizerStep.RECONCILE)
            ended = await self._status.write(key, cached, ctx, ended)
        if not isinstance(ended, Exception):
            self._failures.streaks.succeeded(key)
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
        self._failures.streaks.succeeded(key)


class FinalizerStep(enum.Enum):
    """The step that an object needs before `reconcile` may see it."""

    RECONCILE = "reconcile"
    ADD = "add the finalizer, then wait for the event"
    FINALIZE = "finalize"
    IGNORE = "ignore: it is being deleted and not held by us"


def next_step(metadata: Metadata, finalizer: str, *, also_deleting: bool = False) -> FinalizerStep:
    """Decide by deletionTimestamp and finalizers; `finalizer` "" means that the controller declared none.

    With `also_deleting` a controller without a finalizer reconciles objects under deletion too.
    """
    held = bool(finalizer) and finalizer in metadata.finalizers
    if metadata.deleting and not also_deleting:
        return FinalizerStep.FINALIZE if held else FinalizerStep.IGNORE
    return FinalizerStep.RECONCILE if held or not finalizer else FinalizerStep.ADD


def adding(metadata: Metadata, finalizer: str) -> list[dict[str, Any]]:
    """Return the JSON patch that adds a finalizer to exactly this version of the list."""
    guard = {"op": "test", "path": "/metadata/uid", "value": metadata.uid}
    if metadata.finalizers:
        return [
            guard,
            {"op": "test", "path": "/metadata/finalizers", "value": list(metadata.finalizers)},
            {"op": "add", "path": "/metadata/finalizers/-", "value": finalizer},
        ]
    return [
        guard,
        {"op": "test", "path": "/metadata/resourceVersion", "value": metadata.resource_version},
        {"op": "add", "path": "/metadata/finalizers", "value": [finalizer]},
    ]


def removing(metadata: Metadata, finalizer: str) -> list[dict[str, Any]]:
    """Return the JSON patch that removes a finalizer from exactly this list."""
    position = metadata.finalizers.index(finalizer)
    return [
        {"op": "test", "path": "/metadata/uid", "value": metadata.uid},
        {"op": "test", "path": f"/metadata/finalizers/{position}", "value": finalizer},
        {"op": "remove", "path": f"/metadata/finalizers/{position}"},
    ]


class Finalizers:
    """The finalizer of one controller."""

    def __init__(self, spec: Controller[Any], services: ReconcileServices) -> None:
        self._spec = spec
        self._services = services

    async def begin(
        self, key: Key, cached: Cached, trace: ReconcileTrace, *, paused: bool
    ) -> tuple[FinalizerStep, Exception | None]:
        """Return the step of an object, and the error if its finalizer could not be added. A paused object gets no finalizer."""
        spec = self._spec
        step = next_step(cached.metadata, spec.finalizer_name, also_deleting=spec.also_deleting)
        if step is not FinalizerStep.ADD:
            return step, None
        if paused or (spec.may_hold is not None and not spec.may_hold(cached.metadata, self._services.caches)):
            return FinalizerStep.RECONCILE, None  # the condition or the reconciler reports why
        trace.write(f"add finalizer to {key}")
        try:
            await self._patch(key, adding(cached.metadata, spec.finalizer_name), trace)
        except (Invalid, Forbidden) as error:
            return step, None if "being deleted" in error.message else error
        except Exception as error:  # noqa: BLE001  # counted and retried as the outcome of the reconcile
            return step, error
        return step, None

    async def end(self, key: Key, cached: Cached, trace: ReconcileTrace) -> Exception | None:
        """Remove the finalizer; return the error if it could not be removed."""
        trace.writes.append(f"remove finalizer from {key}")
        try:
            await self._patch(key, removing(cached.metadata, self._spec.finalizer_name), trace)
        except Exception as error:  # noqa: BLE001  # counted and retried as the outcome of the reconcile
            return error
        return None

    async def _patch(self, key: Key, patch: list[dict[str, Any]], trace: ReconcileTrace) -> None:
        try:
            await self._services.client.patch(
                key.kind, key.name, key.namespace, patch=patch, style="json", writer=trace.writer
            )
        except NotFound:
            return
        except Invalid as error:
            if error.causes:
                raise  # the stored object no longer fits its schema, or is under deletion
            # A failed test of the patch is a conflict with another status code; the event of the change follows.
            race = Conflict(error.message, status=error.status)
            raise RetryAfter(1, f"{key} changed while its finalizers were patched: {error.message}") from race


def decode_object(key: Key, cached: Cached, spec: Controller[Any]) -> tuple[Any, InvalidObject | None]:
    """Return the object for the reconciler, and the error if its stored form does not decode."""
    if spec.metadata_only:
        return MetadataObject.of(key.kind.api_version, key.kind.kind, cached.metadata), None
    try:
        if LEFT_OUT not in cached.body:
            return cached.decode(key.kind, spec.dropped), None
        invalid = InvalidObject(f"{key.kind.kind} {key.path}", ".", TOO_DEEP)
    except InvalidObject as error:
        invalid = error
    except Exception as error:  # noqa: BLE001  # a stored object is an input, whatever its model raises
        problem = TOO_DEEP if isinstance(error, RecursionError) else f"decoding it failed with {type(error).__name__}"
        invalid = InvalidObject(f"{key.kind.kind} {key.path}", ".", problem)
        invalid.__cause__ = error
    undecoded = getattr(spec.model, "undecoded", None)
    try:
        data = cached.data()
    except RecursionError:
        data = {"metadata": msgspec.to_builtins(cached.metadata)}
    return (Object(data) if undecoded is None else undecoded(data, invalid)), invalid


class ReconcilerCall:
    """Calls the reconciler of one controller."""

    def __init__(self, spec: Controller[Any], services: ReconcileServices) -> None:
        self._spec = spec
        self._services = services
        self._limit = spec.numbers.timeout
        self._deadlines = Deadlines()
        # Looked up once for all reconciles.
        self._verbs: dict[FinalizerStep, tuple[str, Any, bool]] = {}

    async def run(self, step: FinalizerStep, object_: Any, ctx: Context[Any]) -> Outcome | Exception:
        """Call `reconcile` or `finalize` under the deadline, and return its outcome or exception. The context is closed afterwards."""
        verb, method, is_coroutine = self._verbs.get(step) or self._verb(step)
        limit = self._limit
        try:
            with Deadline(self._deadlines, asyncio.get_running_loop().time() + limit) as deadline:
                if is_coroutine:
                    returned = await method(object_, ctx)
                else:
                    returned = await self._in_thread(method, object_, ctx, deadline)
            outcome = check_outcome(self._spec.name, verb, returned)
            ctx.trace.check_awaited(self._spec.name)
            if self._services.observer is not None:
                self._services.observer.check_reconcile()
        except TimeoutError as error:
            if not deadline.expired():
                return error
            ctx.close("it took too long")
            return ReconcileTimeout(f"{verb} of {ctx.key} took longer than {limit:g} s and was cancelled")
        except Exception as error:  # noqa: BLE001  # an exception of the reconciler is its outcome
            return error
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # Without this return the cancellation would end the worker and the controller in silence.
            failure = RuntimeError(
                f"{verb} of {ctx.key} let a cancellation through: something that it awaited was cancelled"
            )
            failure.__cause__ = error
            return failure
        finally:
            ctx.close("it is over")
        return outcome

    def _verb(self, step: FinalizerStep) -> tuple[str, Any, bool]:
        verb = "finalize" if step is FinalizerStep.FINALIZE else "reconcile"
        method = getattr(self._spec.reconciler, verb)
        entry = self._verbs[step] = (verb, method, inspect.iscoroutinefunction(method))
        return entry

    async def _in_thread(
        self, method: Callable[[Any, Any], Any], object_: Any, ctx: Context[Any], deadline: Deadline
    ) -> Any:
        """Run a blocking reconciler. A cancellation closes its context, so that nothing more is sent.

        At the deadline the key stays in work until the thread has ended; a stop does not wait for the thread.
        """
        # The thread sees the context variables of the reconcile, as with asyncio.to_thread; so does what it waits for.
        called = partial(copy_context().run, method, object_, ctx)
        call = asyncio.get_running_loop().run_in_executor(self._services.threads.executor(), called)
        try:
            returned = await asyncio.shield(call)
        except asyncio.CancelledError:
            ctx.close("it was cancelled")
            call.add_done_callback(partial(_log_exception, ctx.log))
            if deadline.expired():
                await asyncio.wait({call})
            raise
        return await returned if isinstance(returned, Awaitable) else returned


def check_outcome(controller: str, verb: str, returned: Any) -> Outcome:
    """Return the outcome of `reconcile` or `finalize`. Any other value raises NotAnOutcome, which names the legal outcomes."""
    if isinstance(returned, Done | RequeueAfter):
        return returned
    raise NotAnOutcome(
        f"{verb} of controller {controller!r} returned {returned!r}, which is no Outcome; end with return Done() or "
        "return RequeueAfter(seconds), or raise: RetryAfter(seconds), Terminal(message), or any exception to back off"
    )


def _log_exception(log: Any, call: asyncio.Future[Any]) -> None:
    if not call.cancelled() and call.exception() is not None:
        log.warning("a cancelled reconcile raised", error=repr(call.exception()))
