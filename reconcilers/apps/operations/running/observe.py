"""The observation of a started Operation: the request to its engine, and the object at the place derived from the Operation's UID.

Guarantees: decides nothing. Live reads are limited to objects whose cache is missing or may lag.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from konverge.crds.ops_v1alpha1 import EngineRef, Operation
from konverge.errors import Forbidden, RetryAfter
from konverge.kinds import Kind, kind_of
from konverge.objects import Object
from konverge.reconcilers.apps.operations import report
from konverge.reconcilers.apps.operations.child import edited_by, find_in_list, own_ref
from konverge.reconcilers.apps.operations.engine_request import Engines, absent, denied, request_for, target_of
from konverge.reconcilers.apps.operations.engines.engine import EngineBlocked, EngineRequest, Target
from konverge.reconcilers.apps.operations.engines.registry import EngineRow
from konverge.reconcilers.apps.operations.engines.silence import last_write
from konverge.reconcilers.apps.operations.kinds import INSTANCE
from konverge.reconcilers.apps.operations.moments import Memory
from konverge.reconcilers.apps.operations.running.give_up import Stop
from konverge.reconcilers.shared.delays import READ_AGAIN

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["RunningOperation", "observe", "observe_last_write", "observe_stored"]


@dataclass(frozen=True, slots=True)
class RunningOperation:
    """A started Operation, the request to its engine, and the reference to its object."""

    operation: Operation
    row: EngineRow
    target: Target
    request: EngineRequest
    kind: Kind[Object]
    ref: EngineRef
    stop: Stop
    blind: EngineBlocked | None = None
    """The missing right to watch the object, if any: its cache is out of date, so the object is read live."""
    served: bool = True
    """Whether the cluster serves the kind of the object."""

    @property
    def edits(self) -> bool:
        """Whether the engine edits the target, and creates no object."""
        return self.kind == INSTANCE

    @property
    def corrected(self) -> EngineRef | None:
        """The reference to report, None if the status has it."""
        return None if self.ref == self.operation.status.engine_ref else self.ref

    def has_begun(self, stored: Object | None) -> bool:
        """Whether the stored object was created, or edited, by this Operation."""
        return stored is not None and (not self.edits or edited_by(stored, self.operation))

    def begun_with(self, stored: Object) -> RunningOperation:
        """Return the Operation with the UID of its object, and with the generation of an edited object."""
        metadata = stored.metadata
        generation = metadata.generation if self.edits else self.ref.generation
        ref = self.ref.model_copy(update={"uid": metadata.uid, "generation": generation})
        return replace(self, ref=ref, request=replace(self.request, generation=generation))


async def observe(
    operation: Operation, row: EngineRow, engines: Engines, memory: Memory, ctx: Context[Operation]
) -> RunningOperation:
    """Read the target and the related objects; raises RetryAfter while it is unknown whether the cluster serves the kind."""
    status, metadata, name = operation.status, operation.metadata, operation.spec.target_ref.name
    instance = ctx.cache(INSTANCE).find(operation.namespace, name)
    target = Target(operation.namespace, name, "") if instance is None else target_of(instance)
    request = await engines.request(operation, row, target, ctx, live=False)
    if isinstance(request, EngineBlocked):
        request = request_for(operation, target, engines.settings, ctx.now())
    kind = row.engine.kind(request)
    ref = own_ref(kind, row.engine.place(request), status.engine_ref)
    now = ctx.now()
    blind = denied(kind, ctx)
    return RunningOperation(
        operation,
        row,
        target,
        replace(request, generation=ref.generation, outputs=status.outputs),
        kind,
        ref,
        Stop(operation, memory.starts.of(metadata.uid, status.started_at, metadata.created, now), now),
        blind,
        served=blind is not None or absent(kind, ctx) is None,
    )


async def observe_stored(running: RunningOperation, ctx: Context[Operation]) -> tuple[Object | None, Forbidden | None]:
    """Return the stored object; without the right to get it, return it from a list, together with the error.

    The Operation still claims it. Raises Forbidden if it may not be listed either: its existence is unknown then.
    """
    operation, ref = running.operation, running.ref
    namespace = ref.namespace or ""
    try:
        _check_still_claimed(operation, await ctx.live(Operation).find(operation.namespace, operation.name))
        return await ctx.live(running.kind).find(namespace, ref.name), None
    except Forbidden as error:
        try:
            _check_still_claimed(operation, await find_in_list(Operation, operation.namespace, operation.name, ctx))
            return await find_in_list(running.kind, namespace, ref.name, ctx), error
        except Forbidden:
            raise error from None


def _check_still_claimed(operation: Operation, stored: Operation | None) -> None:
    """Raise RetryAfter unless the stored Operation has the name of its object and no record of its creation: a cache may lag."""
    same = (
        stored is not None
        and stored.metadata.uid == operation.metadata.uid
        and stored.status.started_at == operation.status.started_at
        and stored.status.engine_ref == operation.status.engine_ref
        and not stored.finished
    )
    if not same:
        raise RetryAfter(READ_AGAIN, "the Operation changed since it was read; reading it again")


async def observe_last_write(
    running: RunningOperation, child: Object, memory: Memory, patience: timedelta, ctx: Context[Operation]
) -> tuple[EngineRequest, EngineBlocked | None]:
    """Return the request with the last change of the object: as this process saw it, or, once that is long ago, by its managedFields.

    Also returns the missing right for that, if any: the request has no last change then, so no engine is reported as silent.
    """
    kind, metadata, request, now = kind_of(child), child.metadata, running.request, ctx.now()
    if kind == INSTANCE:  # edited, not created: its controller is this operator
        return request, running.blind
    lacking = (denied(ref.kind, ctx) for ref in request.related.objects if not ref.live)
    blind = running.blind or next((blocked for blocked in lacking if blocked is not None), None)
    if blind is not None:
        return request, blind
    related = (
        Object(dict(content)).metadata.resource_version for content in request.related.objects.values() if content
    )
    version = " ".join((metadata.resource_version, *related))
    seen = memory.writes.of(running.operation.metadata.uid, version, now)
    if seen.stored is None and now - running.stop.started < patience:
        seen.stored = now
    if seen.stored is None or now - seen.at >= patience:
        try:
            stored = await ctx.live(kind).find(metadata.namespace, metadata.name)
        except Forbidden as error:
            blind = report.missing_right(error)
            if blind is None:
                raise
            return request, blind
        lost = stored is None or stored.metadata.uid != metadata.uid
        seen.stored = now if stored is None or lost else last_write(stored.to_dict(), now)
        if stored is None or stored.metadata.resource_version != metadata.resource_version:
            seen.at = now  # the cache lags
    return replace(request, written=seen.stored, watched=seen.at), None
