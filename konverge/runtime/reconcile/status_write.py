"""The status step: one apply at the end of a reconcile, and one Event for each transition of a condition.

A status that would not change is not sent. Nothing is written if the object was deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from konverge.crds import CustomResource
from konverge.crds.defaults import filled
from konverge.crds.resource import status_defaults, status_maps
from konverge.errors import Conflict, Forbidden, NotFound
from konverge.fields import Owner, has_nulls
from konverge.informers import Cached
from konverge.keys import Key
from konverge.outcome import Outcome, RequeueAfter
from konverge.runtime.builder.builder import Controller
from konverge.runtime.consistency.own_writes import StalenessBarrier, only_own_changes, only_status_changed
from konverge.runtime.reconcile.context import Context
from konverge.runtime.reconcile.failure_report import FailureReport
from konverge.runtime.reconcile.services import ReconcileServices
from konverge.runtime.reconcile.status import StatusEditor, transitions
from konverge.words import EventType

__all__ = ["ABNORMAL", "StatusWriter"]

_CHANGED: Final = 1.0
"""Seconds until an object that changed during its reconcile is reconciled again. The event of the change normally precedes."""

ABNORMAL: Final = frozenset({"Blocked", "Degraded", "Failed", "Stalled"})
"""Condition types whose transition to True is a Warning."""


class StatusWriter:
    """Writes the statuses of one controller."""

    def __init__(
        self, spec: Controller[Any], services: ReconcileServices, barrier: StalenessBarrier, failures: FailureReport
    ) -> None:
        self._services = services
        self._barrier = barrier
        self._failures = failures
        self._owner = Owner(services.manager, "Apply", "status")
        self._is_declared = spec.conditions is not None
        self._defaults = status_defaults(_model_of(spec)) if self._is_declared else None
        self._maps = status_maps(_model_of(spec)) if self._is_declared else frozenset[str]()

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
        status = await self._settled(key, editor.intent(failed=failed, shape=shape))
        status = {name: value for name, value in status.items() if value != {} or name not in self._maps}
        if not status and self._owner not in (cached.owned or {}):
            return
        expected = status
        if self._defaults is not None:
            expected = filled(status, self._defaults)  # as the server stores it
            status = status if editor.split else expected
        # The version keeps a successor of the same name from this status: the status endpoint of custom resources ignores the uid
        # (kube-apiserver 1.36, tried).
        metadata = {
            "name": key.name,
            "uid": cached.metadata.uid,
            "resourceVersion": self._barrier.version_after_own_writes(key, cached),
        }
        if key.namespace:
            metadata["namespace"] = key.namespace
        intent = {"apiVersion": key.kind.api_version, "kind": key.kind.kind, "metadata": metadata, "status": status}
        try:
            response = await self._services.applier.apply_status(
                key, intent, cached=cached, manager=self._services.manager, writer=ctx.trace.writer
            )
        except NotFound:
            return
        if response is None:
            await self._remove_rest(key, metadata, editor.left_over(editor.previous), ctx)
            return
        ctx.trace.writes.append("status")
        version = response.metadata.resource_version
        # An object that was still at the reconciled version has no other change.
        locked = metadata["resourceVersion"] == cached.version
        if only_own_changes(editor.previous, response.status or {}, expected) and (
            locked or only_status_changed(cached, response.metadata, response.body)
        ):
            self._services.own_versions.add(key, version)
        _record_transitions(editor, ctx)
        seen = {"uid": metadata["uid"], "resourceVersion": version}
        await self._remove_rest(key, seen, editor.left_over(response.status or {}), ctx)

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
