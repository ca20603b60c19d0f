"""The status of a reconcile: its editor, the report of a failure in it, and one apply at the end.

An Event is recorded for each transition of a condition. A status that would not change is not sent. Nothing is written if the object was
deleted. No object is retried in silence: a condition reports a failed reconcile (`konverge.runtime.controller.failure_message`).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Hashable, Mapping
from functools import partial
from typing import Any, Final

import msgspec
from pydantic import ValidationError

from konverge.conditions import cut_condition, find_condition
from konverge.crds import CustomResource
from konverge.crds.defaults import filled
from konverge.crds.resource import status_defaults, status_maps
from konverge.crds.status import Status, readable
from konverge.errors import ConditionError, Conflict, Forbidden, InvalidObject, NotFound, UsageError, stack_of
from konverge.fields import Owner, has_nulls
from konverge.informers import Cached
from konverge.keys import Key
from konverge.objects import compare_versions
from konverge.outcome import Outcome, RequeueAfter
from konverge.runtime.apply.applier import StatusResult
from konverge.runtime.builder.builder import Controller
from konverge.runtime.consistency.own_writes import StalenessBarrier, only_own_changes, only_status_changed
from konverge.runtime.controller.failure_message import failure_message, is_mistake
from konverge.runtime.reconcile.context import Context
from konverge.runtime.reconcile.services import ReconcileServices
from konverge.runtime.reconcile.status import Ours, StatusEditor, UnreadStatus, transitions
from konverge.runtime.reconcile.trace import ReconcileLog
from konverge.words import ConditionType, EventType, LogKey, Reason

__all__ = ["ABNORMAL", "FailureReport", "FailureStreaks", "StatusEditors", "StatusWriter", "failure_condition"]

_CHANGED: Final = 1.0
"""Seconds until an object that changed during its reconcile is reconciled again. The event of the change normally precedes."""

ABNORMAL: Final = frozenset({"Blocked", "Degraded", "Failed", "Stalled"})
"""Condition types whose transition to True is a Warning."""
_TRIES_BEFORE_REPORT = 5
"""The least number of failed tries in a row after which a passing error is reported."""
_SECONDS_BEFORE_REPORT = 10.0
"""The least time from the first to the last of these tries: five tries take 0.2 s."""
_MOST_KEYS = 10_000
"""The number of keys whose failures are remembered; the key with the oldest failure is dropped first."""


class StatusEditors:
    """Creates the status editor of each reconcile of one controller."""

    def __init__(self, spec: Controller[Any], services: ReconcileServices) -> None:
        self._declared = spec.conditions
        # The status of a kind that this controller did not declare belongs to the kind's own controller.
        self._shares_status = spec.conditions is None or (bool(spec.status_suffix) and not spec.status_shared)
        self._owner = Owner(services.manager, "Apply", "status")
        self._now = services.wall_clock
        self._strict = services.strict
        self._metadata_only = spec.metadata_only

    def create(self, cached: Cached, object_: Any, log: ReconcileLog) -> StatusEditor[Any]:
        """Return the editor of the stored status."""
        if self._metadata_only:
            return UnreadStatus(f"{object_.kind_name} {object_.metadata.path}", now=self._now(), strict=self._strict)
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


def _copy(stored: Mapping[str, Any], without: Collection[str] = ()) -> dict[str, Any]:
    part = {name: value for name, value in stored.items() if name not in without} if without else stored
    copied: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(part))
    return copied


def _model_draft(model: type[Status], stored: Mapping[str, Any], without: Collection[str]) -> Status:
    """Return a status that equals the stored status, the fields `without` aside, and shares nothing with it."""
    left_out = [model.model_fields[name].alias or name for name in without if name in model.model_fields]
    try:
        return model.model_validate(_copy(stored, left_out))
    except ValidationError:
        return readable(model, stored)


class FailureStreaks:
    """The number and the duration of each key's failures since its last success; bounded, and only of this process.

    >>> streaks = FailureStreaks()
    >>> [streaks.failed("a", now) for now in (0.0, 0.1, 0.3, 0.7, 5.0, 12.0)]
    [False, False, False, False, False, True]
    >>> streaks.succeeded("a"), streaks.failed("a", 13.0)
    (None, False)
    """

    def __init__(self) -> None:
        self._streaks: OrderedDict[Hashable, tuple[float, int]] = OrderedDict()

    def failed(self, key: Hashable, now: float) -> bool:
        """Count one failure of a key; return whether its failures are many and last long enough to be reported."""
        since, tries = self._streaks.get(key, (now, 0))
        self._streaks[key] = (since, tries + 1)
        if len(self._streaks) > _MOST_KEYS:
            self._streaks.popitem(last=False)
        return tries + 1 >= _TRIES_BEFORE_REPORT and now - since >= _SECONDS_BEFORE_REPORT

    def succeeded(self, key: Hashable) -> None:
        """Drop the failures of a key."""
        self._streaks.pop(key, None)


def failure_condition(spec: Controller[Any]) -> tuple[str, bool]:
    """Return type and status of the condition that reports a failure: Ready False, else the condition of `invalid_as` True, else ""."""
    if ConditionType.READY in (spec.conditions or ()):
        return ConditionType.READY, False
    return (spec.invalid or ("", ""))[0], True


class FailureReport:
    """Reports the failures of one controller in the status of its objects."""

    def __init__(self, spec: Controller[Any]) -> None:
        self._spec = spec
        self._condition = failure_condition(spec)
        self.streaks = FailureStreaks()

    def message(self, key: Key, error: Exception) -> str | None:
        """Count a failure of the key, and return the message that the status shows for it, None if it shows none."""
        return failure_message(error, repeated=self.streaks.failed(key, asyncio.get_running_loop().time()))

    def report(self, ctx: Context[Any], ended: Outcome | Exception, *, reconciled: bool) -> None:
        """Report a failure, or clear an earlier failure if the object was `reconciled` without an exception."""
        if isinstance(ended, Exception):
            if is_mistake(ended):  # do not trust what it set: a forgotten await may precede the error
                ctx.status.start_over()
            message = self.message(ctx.key, ended)
            if message is not None:
                self.set_failed(ctx, message)
        elif reconciled:
            editor: StatusEditor[Any] = ctx.status
            if self._spec.invalid is not None:
                self._clear_invalid(editor, *self._spec.invalid)
            self._clear_failed(editor)

    def set_failed(self, ctx: Context[Any], message: str) -> None:
        """Report in the status that the reconcile failed."""
        message = cut_condition(Reason.RECONCILE_FAILED, message)[1]
        report = self._spec.failure_report
        if report is None:
            self._set_condition(ctx.status, message)
            return
        try:
            report(ctx.object, ctx, message)
        except Exception as error:  # noqa: BLE001  # user code: its failure must not hide the failure that it reports
            ctx.trace.contained = error
            ctx.log.error("the function of .reports_failure raised", **{LogKey.STACK: stack_of(error)})

    def report_invalid(self, ctx: Context[Any], error: InvalidObject) -> None:
        """Set the conditions of an object that does not decode. Its children stay untouched, and only a change of the object helps."""
        message = f"{error.field}: {error.problem}"
        type_, reason = self._spec.invalid or ("", Reason.VALIDATION_FAILED)
        if type_:
            ctx.status.set_condition(type_, True, reason, message)
        if self._spec.failure_report is not None:
            self.set_failed(ctx, message)
        elif ConditionType.READY in (self._spec.conditions or ()):
            ctx.status.set_condition(ConditionType.READY, False, reason, message)
        ctx.log.warning("a stored object does not decode", error=str(error))

    def _set_condition(self, editor: StatusEditor[Any], message: str) -> None:
        """Set the failure condition, unless the reconciler itself reported a failure in it."""
        type_, status = self._condition
        if not type_:
            return
        present = editor.find(type_)
        if editor.was_set(type_) and present is not None and present.is_true is status:
            return
        editor.set_condition(type_, status, Reason.RECONCILE_FAILED, message)

    def _clear_failed(self, editor: StatusEditor[Any]) -> None:
        """Remove the report of an earlier failure, unless this reconcile set the condition."""
        for stale in editor.before:
            if (
                stale.reason == Reason.RECONCILE_FAILED
                and stale.type == self._condition[0]
                and not editor.was_set(stale.type)
            ):
                editor.remove_condition(stale.type)

    def _clear_invalid(self, editor: StatusEditor[Any], type_: str, reason: str) -> None:
        """Reset the runtime's own condition once the object decodes again, unless this reconcile set that condition."""
        stale = find_condition(editor.before, type_)
        if stale is not None and stale.is_true and stale.reason == reason and not editor.was_set(type_):
            editor.set_condition(type_, False, Reason.VALID, "the object decodes again")


class StatusWriter:
    """Writes the statuses of one controller."""

    def __init__(
        self, spec: Controller[Any], services: ReconcileServices, barrier: StalenessBarrier, failures: FailureReport
    ) -> None:
        self._services = services
        self._controller = spec.name
        self._barrier = barrier
        self._failures = failures
        self._owner = Owner(services.manager, "Apply", "status")
        self._is_declared = spec.conditions is not None
        self._defaults = status_defaults(_model_of(spec)) if self._is_declared else None
        self._maps = status_maps(_model_of(spec)) if self._is_declared else frozenset[str]()
        self._dropped = spec.dropped

    async def write(
        self, key: Key, cached: Cached, ctx: Context[Any], ended: Outcome | Exception
    ) -> Outcome | Exception:
        """Write the status, and return the outcome. A failed write becomes the outcome unless the reconcile failed before."""
        failed = isinstance(ended, Exception)
        try:
            try:
                await self._apply(key, cached, ctx, failed=failed)
            except Exception as error:
                expected = isinstance(error, (Forbidden, Conflict))
                message = None if failed or expected else self._failures.message(key, error)
                if (
                    message is not None
                ):  # the stored status, with the report of the refusal, replaces the refused status
                    ctx.status.start_over()
                    self._failures.set_failed(ctx, message)
                    await self._apply(key, cached, ctx, failed=True)
                raise
        except Conflict:
            if failed:
                return ended
            ctx.log.debug(
                "the object changed during its reconcile; it is reconciled again before its status is written"
            )
            return RequeueAfter(_CHANGED)
        except Exception as error:  # noqa: BLE001  # counted and retried as the outcome of the reconcile
            if failed:
                ctx.log.warning("the status could not be written after a failed reconcile", error=str(error))
                return ended
            return error
        return ended

    async def _apply(self, key: Key, cached: Cached, ctx: Context[Any], *, failed: bool) -> None:
        """Apply the status once.

        Errors: Conflict if the object changed since it was reconciled, or was deleted and created again.
        """
        editor: StatusEditor[Any] = ctx.status
        if editor.skipped:
            return
        shape = None
        if not self._is_declared and editor.asks_for_shape:
            shape = await self._services.client.condition_shape(key.kind)
        status = await self._settled(key, editor.intent(failed=failed or ctx.paused != "", shape=shape))
        status = {name: value for name, value in status.items() if value != {} or name not in self._maps}
        if not status and self._owner not in (cached.owned or {}):
            return
        if self._dropped is not None and (unseen := self._dropped.named_in({"status": status})):
            raise UsageError(
                f"controller {self._controller!r} sets {unseen} of {key}, which its cache drops, so a change of it would not be seen: "
                "take the path out of drop"
            )
        expected, previous = status, editor.previous
        if self._defaults is not None:
            expected = filled(status, self._defaults)  # as the server stores it
            status = status if editor.split else expected
        # The version keeps a successor of the same name from this status: the status endpoint of custom resources ignores the uid
        # (kube-apiserver 1.36, tried).
        version = self._barrier.version_after_own_writes(key, cached)
        metadata = {"name": key.name, "uid": cached.metadata.uid, "resourceVersion": version}
        if key.namespace:
            metadata["namespace"] = key.namespace
        intent = {"apiVersion": key.kind.api_version, "kind": key.kind.kind, "metadata": metadata, "status": status}
        try:
            response = await self._services.applier.apply_status(
                key,
                intent,
                cached=cached,
                manager=self._services.manager,
                writer=ctx.trace.writer,
                stored=previous,
                check=partial(self._check_version, key, cached, version),
            )
        except NotFound:
            return
        if response is None:
            await self._remove_rest(key, metadata, editor.left_over(previous), ctx)
            return
        ctx.trace.writes.append("status")
        if self._dropped is not None:
            response = StatusResult.of(self._dropped.strip(response.body))  # as the cache will show it
        version = response.metadata.resource_version
        # An object that was still at the reconciled version has no other change.
        locked = metadata["resourceVersion"] == cached.metadata.resource_version
        if only_own_changes(previous, response.status or {}, expected) and (
            locked or only_status_changed(cached, response.metadata, response.body)
        ):
            self._services.own_versions.add(key, version)
        _record_transitions(editor, ctx)
        seen = {"uid": metadata["uid"], "resourceVersion": version}
        await self._remove_rest(key, seen, editor.left_over(response.status or {}), ctx)

    def _check_version(self, key: Key, cached: Cached, version: str) -> None:
        """Raise Conflict, as the server would, if the cache already shows a later version than the status would name."""
        latest = self._services.caches.cached(key, partial=True)
        if latest is None or latest is cached:
            return
        shown = latest.metadata.resource_version
        if latest.metadata.uid != cached.metadata.uid or (compare_versions(shown, version) or 0) > 0:
            raise Conflict(f"{key} was at version {version} when it was reconciled, and is at {shown}")

    async def _settled(self, key: Key, status: dict[str, Any]) -> dict[str, Any]:
        """Return a status without the nulls that the schema does not allow."""
        if not has_nulls(status):
            return status
        body = await self._services.client.settle_nulls(key.kind, {"status": status})
        settled: dict[str, Any] = body["status"]
        return settled

    async def _remove_rest(self, key: Key, seen: Mapping[str, str], rest: dict[str, Any], ctx: Context[Any]) -> None:
        """Remove the fields that the apply could not remove because another manager owns them too, at this version of the object."""
        if not rest:
            return
        metadata = {"uid": seen["uid"], "resourceVersion": seen["resourceVersion"]}
        try:
            await self._services.client.patch(
                key.kind,
                key.name,
                key.namespace,
                patch={"metadata": metadata, "status": rest},
                style="merge",
                subresource="status",
                writer=ctx.trace.writer,
            )
        except NotFound:
            return
        ctx.trace.writes.append("status of others")


def _record_transitions(editor: StatusEditor[Any], ctx: Context[Any]) -> None:
    """Record an Event for each transition, except for those that the reconciler has reported itself."""
    for change in transitions(editor.before, editor.conditions):
        after = change.after
        if ctx.has_reported(after.reason or after.type):
            continue
        kind = EventType.WARNING if after.type in ABNORMAL and after.is_true else EventType.NORMAL
        note = f"{after.type}={after.status}" + (f": {after.message}" if after.message else "")
        ctx.event(after.reason or after.type, note, type_=kind, action=after.type)


def _model_of(spec: Controller[Any]) -> type[CustomResource[Any, Any]]:
    assert spec.model is not None, "only a class declares conditions"
    return spec.model
