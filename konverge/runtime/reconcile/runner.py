"""One reconcile: from a key to the outcome for the queue.

Its steps, each of which may end it: decide by deletionTimestamp and finalizer; decode the object; call `reconcile` or `finalize` under a
deadline; write the status once. An exception of a reconciler ends its own reconcile and nothing else.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import msgspec
from pydantic import ValidationError

from konverge.client import LEFT_OUT
from konverge.conditions import find_condition
from konverge.crds import CustomResource
from konverge.crds.defaults import filled
from konverge.crds.resource import status_defaults, status_maps
from konverge.crds.status import Status, readable
from konverge.errors import (
    ConditionError,
    Conflict,
    Forbidden,
    Invalid,
    InvalidObject,
    NotFound,
    ReconcileTimeout,
    RetryAfter,
)
from konverge.fields import Owner, has_nulls
from konverge.informers import Cached
from konverge.keys import Key
from konverge.objects import Object
from konverge.outcome import Done, Outcome, RequeueAfter
from konverge.runtime.apply.changes import only_own_changes, only_status_changed
from konverge.runtime.builder.builder import Controller
from konverge.runtime.consistency.barrier import StalenessBarrier
from konverge.runtime.observability.history import ReconcileLog
from konverge.runtime.reconcile.containment import (
    TOO_DEEP,
    FailureStreaks,
    clear_failed,
    failing,
    failure_message,
    is_mistake,
    report_failure,
)
from konverge.runtime.reconcile.context import Context
from konverge.runtime.reconcile.finalizers import FinalizerStep, adding, next_step, removing
from konverge.runtime.reconcile.outcomes import checked
from konverge.runtime.reconcile.services import ReconcileServices
from konverge.runtime.reconcile.status import Ours, StatusEditor, transitions
from konverge.runtime.reconcile.trace import ReconcileTrace
from konverge.words import ConditionType, EventType, LogKey, Reason

__all__ = ["ABNORMAL", "ReconcileRunner", "Result"]

_CHANGED = 1.0
"""Seconds until an object that changed during its reconcile is reconciled again. The event of the change normally comes first."""

ABNORMAL = frozenset({"Blocked", "Degraded", "Failed", "Stalled"})
"""Condition types whose becoming True is a Warning."""


class Result(msgspec.Struct, frozen=True):
    """The end of one reconcile; `invalid`: the object did not decode."""

    ended: Outcome | Exception
    trace: ReconcileTrace
    invalid: bool = False


class ReconcileRunner:
    """Runs the reconciles of one controller, without knowledge of its queue. Constructing it does nothing."""

    def __init__(
        self,
        spec: Controller[Any],
        services: ReconcileServices,
    ) -> None:
        self._spec = spec
        self.barrier = StalenessBarrier(spec.name, services.client, services.caches, services.own_versions)
        self._services = services
        self._owner = Owner(services.manager, "Apply", "status")
        self._limit = spec.numbers.timeout
        self._telling = failing(spec)
        self._streaks = FailureStreaks()
        self._defaults = None if spec.conditions is None else status_defaults(_model_of(spec))
        self._maps = frozenset[str]() if spec.conditions is None else status_maps(_model_of(spec))
        # Looked up once and not in each reconcile.
        self._verbs: dict[FinalizerStep, tuple[str, Any, bool]] = {}

    # --- the reconcile -------------------------------------------------------------------------------------------------------

    async def run(
        self, key: Key, cached: Cached, reasons: tuple[str, ...], log: ReconcileLog, epoch: int = 0
    ) -> Result:
        """Reconcile an object that the cache holds. Only cancellation leaves it as an exception."""
        trace = ReconcileTrace(key, self.barrier.writer(key), epoch)
        try:
            step = next_step(cached.metadata, self._spec.finalizer_name, also_deleting=self._spec.also_deleting)
            if step is FinalizerStep.IGNORE:
                return Result(Done(), trace)
            if step is FinalizerStep.ADD and not self._may_hold(cached):
                step = FinalizerStep.RECONCILE  # its reconciler shows why
            refused: Exception | None = None
            if step is FinalizerStep.ADD:
                try:
                    await self._add_finalizer(key, cached, trace)
                except Exception as error:  # noqa: BLE001  # counted and retried as the pass's outcome
                    refused = error
                else:
                    return Result(Done(), trace)
            object_, invalid = self._decode(key, cached)
            ctx = self._context(cached, object_, trace, reasons, log)
            if refused is not None:
                return Result(await self._refused(key, cached, ctx, refused), trace)
            if invalid is not None and step is FinalizerStep.RECONCILE:
                return await self._invalid(key, cached, ctx, invalid)
            ended = await self._after(step, key, cached, ctx, await self._call(step, object_, ctx))
            if not isinstance(ended, Exception):
                self._streaks.succeeded(key)
            return Result(ended, trace, invalid=invalid is not None)
        except Exception as error:  # noqa: BLE001  # containment: one key's failure is an outcome, whatever it is
            return Result(error, trace)

    def _decode(self, key: Key, cached: Cached) -> tuple[Any, InvalidObject | None]:
        try:
            if LEFT_OUT not in cached.body:
                return cached.decode(key.kind), None
            invalid = InvalidObject(f"{key.kind.kind} {key.path}", ".", TOO_DEEP)
        except InvalidObject as error:
            invalid = error
        except Exception as error:  # noqa: BLE001  # what is stored is an input, whatever a model makes of it
            problem = (
                TOO_DEEP if isinstance(error, RecursionError) else f"decoding it failed with {type(error).__name__}"
            )
            invalid = InvalidObject(f"{key.kind.kind} {key.path}", ".", problem)
            invalid.__cause__ = error
        undecoded = getattr(self._spec.model, "undecoded", None)
        try:
            data = cached.data()
        except RecursionError:
            data = {"metadata": msgspec.to_builtins(cached.metadata)}
        return (Object(data) if undecoded is None else undecoded(data, invalid)), invalid

    def _context(
        self, cached: Cached, object_: Any, trace: ReconcileTrace, reasons: tuple[str, ...], log: ReconcileLog
    ) -> Context[Any]:
        try:
            previous = cached.status()
        except RecursionError:
            previous = {}  # it cannot be read, and is rebuilt
        status = getattr(object_, "status", None)
        # The status of a kind that this controller did not declare belongs to its own controller, apart from what is set here.
        split = self._spec.conditions is None or (bool(self._spec.status_suffix) and not self._spec.status_shared)

        def complain(error: ConditionError) -> None:
            log.bound.warning("a condition was cut to what the API accepts", **{LogKey.ERROR: str(error)})

        editor: StatusEditor[Any] = StatusEditor(
            previous=previous,
            draft=partial(_drafted, type(status), previous)
            if isinstance(status, Status)
            else partial(_copied, previous),
            generation=cached.metadata.generation,
            declared=self._spec.conditions,
            now=self._services.wall_clock(),
            strict=self._services.strict,
            ours=Ours.of((cached.owned or {}).get(self._owner)) if split else None,
            complain=complain,
        )
        return Context(
            self._services,
            object_=object_,
            trace=trace,
            reasons=reasons,
            status=editor,
            metadata=cached.metadata,
            log=log,
        )

    async def _call(self, step: FinalizerStep, object_: Any, ctx: Context[Any]) -> Outcome | Exception:
        """Call `reconcile` or `finalize` under the deadline; what it raises is what it came to. Afterwards its context is closed."""
        verb, method, is_coroutine = self._verbs.get(step) or self._verb(step)
        limit = self._limit
        try:
            async with asyncio.timeout(limit) as deadline:
                if is_coroutine:
                    returned = await method(object_, ctx)
                else:
                    returned = await self._in_thread(method, object_, ctx, deadline)
            outcome = checked(self._spec.name, verb, returned)
            ctx.finish()
            if self._services.observer is not None:
                self._services.observer.check_reconcile()
        except TimeoutError as error:
            if not deadline.expired():
                return error
            ctx.close("it took too long")
            return ReconcileTimeout(f"{verb} of {ctx.key} took longer than {limit:g} s and was cancelled")
        except Exception as error:  # noqa: BLE001  # what a reconciler raises is its outcome
            return error
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # Let through, it would end the worker without a word, and with it the controller.
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
        found = self._verbs[step] = (verb, method, inspect.iscoroutinefunction(method))
        return found

    async def _in_thread(
        self, method: Callable[[Any, Any], Any], object_: Any, ctx: Context[Any], deadline: asyncio.Timeout
    ) -> Any:
        """Run a blocking reconciler. A cancellation closes its context, so that nothing more is sent.

        At the deadline the key stays in work until the thread has really ended; a stop does not wait for the thread.
        """
        call = asyncio.get_running_loop().run_in_executor(self._services.threads.executor(), method, object_, ctx)
        try:
            returned = await asyncio.shield(call)
        except asyncio.CancelledError:
            ctx.close("it was cancelled")
            call.add_done_callback(partial(_log_exception, ctx.log))
            if deadline.expired():
                await asyncio.wait({call})
            raise
        return await returned if isinstance(returned, Awaitable) else returned

    # --- after ---------------------------------------------------------------------------------------------------------------

    async def _after(
        self, step: FinalizerStep, key: Key, cached: Cached, ctx: Context[Any], ended: Outcome | Exception
    ) -> Outcome | Exception:
        if step is FinalizerStep.FINALIZE and isinstance(ended, Done):
            try:
                await self._remove_finalizer(key, cached, ctx.trace)
            except Exception as error:  # noqa: BLE001  # counted and retried as the pass's outcome
                return await self._refused(key, cached, ctx, error)
            return ended
        if isinstance(ended, Exception):
            if is_mistake(ended):  # nothing that it set can be trusted: a forgotten await may stand before it
                ctx.status.start_over()
            report_failure(self._spec, ctx, self._failure_words(key, ended))
        elif step is FinalizerStep.RECONCILE:
            self._clear_invalid(ctx)
            clear_failed(ctx.status, self._telling)
        return await self._written(key, cached, ctx, ended)

    def _failure_words(self, key: Key, error: Exception) -> str | None:
        """Count a failure of the key, and return the message that the status shows for it, None if it shows none."""
        return failure_message(error, repeated=self._streaks.failed(key, asyncio.get_running_loop().time()))

    async def _refused(self, key: Key, cached: Cached, ctx: Context[Any], error: Exception) -> Outcome | Exception:
        """Report a failed change of the finalizer, if the status shows it."""
        words = self._failure_words(key, error)
        if words is None:
            return error
        report_failure(self._spec, ctx, words)
        return await self._written(key, cached, ctx, error)

    def forget(self, key: Key) -> None:
        """Drop the failures of an object that no longer exists."""
        self._streaks.succeeded(key)

    async def _written(
        self, key: Key, cached: Cached, ctx: Context[Any], ended: Outcome | Exception
    ) -> Outcome | Exception:
        """Write the status. Its failure becomes the outcome unless the reconcile had failed before."""
        failed = isinstance(ended, Exception)
        try:
            try:
                await self.write_status(key, cached, ctx, failed=failed)
            except Exception as error:
                expected = isinstance(error, (Forbidden, Conflict))
                words = None if failed or expected else self._failure_words(key, error)
                if words is not None:  # it cannot be written, or is refused: then the stored one is, with what is wrong
                    ctx.status.start_over()
                    report_failure(self._spec, ctx, words)
                    await self.write_status(key, cached, ctx, failed=True)
                raise
        except Conflict:
            if failed:
                return ended
            ctx.log.debug(
                "the object changed during its reconcile; it is reconciled again before its status is written"
            )
            return RequeueAfter(_CHANGED)
        except Exception as error:  # noqa: BLE001  # counted and retried as the pass's outcome
            if failed:
                ctx.log.warning("the status could not be written after a failed reconcile", error=str(error))
                return ended
            return error
        return ended

    async def write_status(self, key: Key, cached: Cached, ctx: Context[Any], *, failed: bool) -> None:
        """Apply the status once and record an Event for each transition; nothing is written if the object is gone.

        Errors: Conflict if the object is at another version than the reconcile saw, or was deleted and created again.
        """
        editor: StatusEditor[Any] = ctx.status
        if editor.skipped:
            return
        shape = None
        if self._spec.conditions is None and editor.asks_for_shape:
            shape = await self._services.client.condition_shape(key.kind)
        status = await self._settled(key, editor.intent(failed=failed, shape=shape))
        status = {name: value for name, value in status.items() if value != {} or name not in self._maps}
        if not status and self._owner not in (cached.owned or {}):
            return
        said = status
        if self._defaults is not None:
            said = filled(status, self._defaults)  # as the server will store it
            status = status if editor.split else said
        # The version is what keeps a successor of the same name from being given this status: a uid alone is not looked at
        # by the status endpoint of custom resources (kube-apiserver 1.36, tried).
        metadata = {
            "name": key.name,
            "uid": cached.metadata.uid,
            "resourceVersion": self.barrier.version_after_own_writes(key, cached),
        }
        if key.namespace:
            metadata["namespace"] = key.namespace
        intent = {"apiVersion": key.kind.api_version, "kind": key.kind.kind, "metadata": metadata, "status": status}
        try:
            answer = await self._services.applier.apply_status(
                key, intent, cached=cached, manager=self._services.manager, writer=ctx.trace.writer
            )
        except NotFound:
            return
        if answer is None:
            await self._take_out(key, metadata, editor.left_over(editor.previous), ctx)
            return
        ctx.trace.writes.append("status")
        # An object that was still at the version of this reconcile holds no other change.
        locked = metadata["resourceVersion"] == cached.version
        if only_own_changes(editor.previous, answer.status or {}, said) and (
            locked or only_status_changed(cached, answer.metadata, answer.body)
        ):
            self._services.own_versions.add(key, answer.metadata.resource_version)
        for change in transitions(editor.before, editor.conditions):
            after = change.after
            if ctx.has_reported(after.reason or after.type):
                continue
            kind = EventType.WARNING if after.type in ABNORMAL and after.is_true else EventType.NORMAL
            note = f"{after.type}={after.status}" + (f": {after.message}" if after.message else "")
            ctx.event(after.reason or after.type, note, type_=kind, action=after.type)
        seen = {"uid": metadata["uid"], "resourceVersion": answer.metadata.resource_version}
        await self._take_out(key, seen, editor.left_over(answer.status or {}), ctx)

    async def _settled(self, key: Key, status: dict[str, Any]) -> dict[str, Any]:
        """Return a status without the nulls that the schema does not allow."""
        if not has_nulls(status):
            return status
        settled = await self._services.client.settle_nulls(key.kind, {"status": status})
        found: dict[str, Any] = settled["status"]
        return found

    async def _take_out(self, key: Key, seen: Mapping[str, str], left: dict[str, Any], ctx: Context[Any]) -> None:
        """Take out of the status what the apply left there because another manager wrote it too, at this version of the object."""
        if not left:
            return
        metadata = {"uid": seen["uid"], "resourceVersion": seen["resourceVersion"]}
        try:
            await self._services.client.patch(
                key.kind,
                key.name,
                key.namespace,
                patch={"metadata": metadata, "status": left},
                style="merge",
                subresource="status",
                writer=ctx.trace.writer,
            )
        except NotFound:
            return
        ctx.trace.writes.append("status of others")

    async def _invalid(self, key: Key, cached: Cached, ctx: Context[Any], error: InvalidObject) -> Result:
        """Set the conditions of an object that does not decode. Its children stay untouched, and only a change of it can help."""
        message = f"{error.field}: {error.problem}"
        editor: StatusEditor[Any] = ctx.status
        declared = self._spec.conditions or ()
        type_, reason = self._spec.invalid or ("", Reason.VALIDATION_FAILED)
        if type_:
            editor.set_condition(type_, True, reason, message)
        if self._spec.failure_report is not None:
            report_failure(self._spec, ctx, message)
        elif ConditionType.READY in declared:
            editor.set_condition(ConditionType.READY, False, reason, message)
        ctx.log.warning("a stored object does not decode", error=str(error))
        ended = await self._written(key, cached, ctx, Done())
        return Result(ended, ctx.trace, invalid=True)

    def _clear_invalid(self, ctx: Context[Any]) -> None:
        """Reset the runtime's own condition once the object decodes again, unless this reconcile set that condition itself."""
        editor: StatusEditor[Any] = ctx.status
        for type_, reason in (self._spec.invalid,) if self._spec.invalid else ():
            stale = find_condition(editor.before, type_)
            if stale is not None and stale.is_true and stale.reason == reason and not editor.was_set(type_):
                editor.set_condition(type_, False, Reason.VALID, "the object decodes again")

    # --- finalizers ----------------------------------------------------------------------------------------------------------

    def _may_hold(self, cached: Cached) -> bool:
        may_hold = self._spec.may_hold
        return may_hold is None or may_hold(cached.metadata, self._services.caches)

    async def _add_finalizer(self, key: Key, cached: Cached, trace: ReconcileTrace) -> None:
        patch = adding(cached.metadata, self._spec.finalizer_name)
        trace.write(f"add finalizer to {key}")
        try:
            await self._patch_finalizers(key, patch, trace)
        except (Invalid, Forbidden) as error:
            if "being deleted" not in error.message:
                raise

    async def _remove_finalizer(self, key: Key, cached: Cached, trace: ReconcileTrace) -> None:
        patch = removing(cached.metadata, self._spec.finalizer_name)
        trace.writes.append(f"remove finalizer from {key}")
        await self._patch_finalizers(key, patch, trace)

    async def _patch_finalizers(self, key: Key, patch: list[dict[str, Any]], trace: ReconcileTrace) -> None:
        try:
            await self._services.client.patch(
                key.kind, key.name, key.namespace, patch=patch, style="json", writer=trace.writer
            )
        except NotFound:
            return
        except Invalid as error:
            if error.causes:
                raise  # the stored object breaks its schema by now, or is under deletion
            # A test of the patch did not hold, which is a conflict by another status: the event of the change is on its way.
            race = Conflict(error.message, status=error.status)
            raise RetryAfter(1, f"{key} changed while its finalizers were patched: {error.message}") from race


def _model_of(spec: Controller[Any]) -> type[CustomResource[Any, Any]]:
    assert spec.model is not None, "only a class declares conditions"
    return spec.model


def _copied(stored: Mapping[str, Any]) -> dict[str, Any]:
    copied: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(stored))
    return copied


def _drafted(model: type[Status], stored: Mapping[str, Any]) -> Status:
    """Return a status that equals the one of the object as it was stored, and shares nothing with it."""
    try:
        return model.model_validate(_copied(stored))
    except ValidationError:
        return readable(model, stored)


def _log_exception(log: Any, call: asyncio.Future[Any]) -> None:
    if not call.cancelled() and call.exception() is not None:
        log.warning("a cancelled reconcile raised", error=repr(call.exception()))
