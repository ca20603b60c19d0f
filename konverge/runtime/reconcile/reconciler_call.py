"""The call of a reconciler: its private copy of the object, its status editor, its deadline and its thread.

A stored object is an input: an exception of its model ends this object's reconcile and no other.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from contextvars import copy_context
from functools import partial
from typing import Any

import msgspec
from pydantic import ValidationError

from konverge.client import LEFT_OUT
from konverge.crds.status import Status, readable
from konverge.errors import ConditionError, InvalidObject, NotAnOutcome, ReconcileTimeout
from konverge.fields import Owner
from konverge.informers import Cached
from konverge.keys import Key
from konverge.objects import Object
from konverge.outcome import Done, Outcome, RequeueAfter
from konverge.runtime.builder.builder import Controller
from konverge.runtime.observability.history import ReconcileLog
from konverge.runtime.reconcile.context import Context
from konverge.runtime.reconcile.failure_report import TOO_DEEP
from konverge.runtime.reconcile.finalizers import FinalizerStep
from konverge.runtime.reconcile.services import ReconcileServices
from konverge.runtime.reconcile.status import Ours, StatusEditor
from konverge.words import LogKey

__all__ = ["ReconcilerCall", "StatusEditors", "check_outcome", "decode_object"]


def decode_object(key: Key, cached: Cached, model: type[Any] | None) -> tuple[Any, InvalidObject | None]:
    """Return the object for the reconciler, and the error if its stored form does not decode."""
    try:
        if LEFT_OUT not in cached.body:
            return cached.decode(key.kind), None
        invalid = InvalidObject(f"{key.kind.kind} {key.path}", ".", TOO_DEEP)
    except InvalidObject as error:
        invalid = error
    except Exception as error:  # noqa: BLE001  # a stored object is an input, whatever its model raises
        problem = TOO_DEEP if isinstance(error, RecursionError) else f"decoding it failed with {type(error).__name__}"
        invalid = InvalidObject(f"{key.kind.kind} {key.path}", ".", problem)
        invalid.__cause__ = error
    undecoded = getattr(model, "undecoded", None)
    try:
        data = cached.data()
    except RecursionError:
        data = {"metadata": msgspec.to_builtins(cached.metadata)}
    return (Object(data) if undecoded is None else undecoded(data, invalid)), invalid


class StatusEditors:
    """Creates the status editor of each reconcile of one controller."""

    def __init__(self, spec: Controller[Any], services: ReconcileServices) -> None:
        self._declared = spec.conditions
        # The status of a kind that this controller did not declare belongs to the kind's own controller.
        self._shares_status = spec.conditions is None or (bool(spec.status_suffix) and not spec.status_shared)
        self._owner = Owner(services.manager, "Apply", "status")
        self._now = services.wall_clock
        self._strict = services.strict

    def create(self, cached: Cached, object_: Any, log: ReconcileLog) -> StatusEditor[Any]:
        """Return the editor of the stored status."""
        try:
            previous = cached.status()
        except RecursionError:
            previous = {}  # an unreadable status is written again
        status = getattr(object_, "status", None)

        def complain(error: ConditionError) -> None:
            log.bound.warning("a condition was cut to what the API accepts", **{LogKey.ERROR: str(error)})

        return StatusEditor(
            previous=previous,
            draft=partial(_model_draft, type(status), previous)
            if isinstance(status, Status)
            else partial(_copy, previous),
            generation=cached.metadata.generation,
            declared=self._declared,
            now=self._now(),
            strict=self._strict,
            ours=Ours.of((cached.owned or {}).get(self._owner)) if self._shares_status else None,
            complain=complain,
        )


def _copy(stored: Mapping[str, Any]) -> dict[str, Any]:
    copied: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(stored))
    return copied


def _model_draft(model: type[Status], stored: Mapping[str, Any]) -> Status:
    """Return a status that equals the stored status and shares nothing with it."""
    try:
        return model.model_validate(_copy(stored))
    except ValidationError:
        return readable(model, stored)


class ReconcilerCall:
    """Calls the reconciler of one controller."""

    def __init__(self, spec: Controller[Any], services: ReconcileServices) -> None:
        self._spec = spec
        self._services = services
        self._limit = spec.numbers.timeout
        # Looked up once for all reconciles.
        self._verbs: dict[FinalizerStep, tuple[str, Any, bool]] = {}

    async def run(self, step: FinalizerStep, object_: Any, ctx: Context[Any]) -> Outcome | Exception:
        """Call `reconcile` or `finalize` under the deadline, and return its outcome or exception. The context is closed afterwards."""
        verb, method, is_coroutine = self._verbs.get(step) or self._verb(step)
        limit = self._limit
        try:
            async with asyncio.timeout(limit) as deadline:
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
        self, method: Callable[[Any, Any], Any], object_: Any, ctx: Context[Any], deadline: asyncio.Timeout
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
