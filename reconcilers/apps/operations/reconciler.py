"""The reconciler of Operations: the async shell around the pure decisions of this folder.

`reconcile` of an Operation that has ended only deletes it when its time has come. Before the start: preconditions, then the turn on the
target (a compare-and-swap, `lease.py`), then the name of the engine's object in the status. After the start: the object is created if it
was not, and its state is reported until it ends. `finalize`: an Operation that runs is cancelled; its end releases the finalizer.

Guarantees
- Level-triggered: a reconcile can be killed at any point and repeated. An object is created only while the stored status, read live, says
  that it was named and not yet created, and only for as long as an object that was created still exists (`Rendered.kept`). So no engine
  works twice for one Operation.
- A terminal phase is never left; neither its target nor other Operations are looked at again.
- Nothing is written at rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from konverge.clock import rfc3339
from konverge.crds.ops_v1alpha1 import EngineRef, Operation
from konverge.errors import AlreadyExists, BadRequest, Conflict, Invalid, NotServed, RetryAfter
from konverge.kinds import Kind
from konverge.metrics import Metrics
from konverge.objects import Object
from konverge.outcome import Done, Outcome, RequeueAfter
from konverge.reconcilers.apps.kinds import NAMESPACE
from konverge.reconcilers.apps.operations import report
from konverge.reconcilers.apps.operations.child import (
    edited_by,
    find_child,
    fits,
    is_of,
    ref_to,
    send_edit,
    stop_child,
    to_create,
)
from konverge.reconcilers.apps.operations.conflicts import contestant_of
from konverge.reconcilers.apps.operations.decide import check_target, check_turn, conflict, request_for, target_of
from konverge.reconcilers.apps.operations.engines.engine import (
    Edit,
    EngineBlocked,
    EngineRequest,
    EngineState,
    ObjectRef,
    Observation,
    Refused,
    Related,
    Rendered,
    Target,
    WaitForEnd,
)
from konverge.reconcilers.apps.operations.engines.registry import ROWS, EngineRow, row_of
from konverge.reconcilers.apps.operations.history import beyond_limit, expiry
from konverge.reconcilers.apps.operations.indexes import ACTIVE, ENDED, target_key
from konverge.reconcilers.apps.operations.kinds import INSTANCE, VIEW
from konverge.reconcilers.apps.operations.lease import take_turn
from konverge.reconcilers.apps.operations.metrics import OperationMetrics
from konverge.reconcilers.apps.operations.moments import LocalStarts, moment
from konverge.reconcilers.apps.operations.policy import check_policy, first_at_opening
from konverge.reconcilers.apps.operations.report import OpPlan
from konverge.reconcilers.apps.operations.settings import OperationSettings
from konverge.reconcilers.apps.operations.validate import refusal
from konverge.reconcilers.apps.operations.words import (
    AcceptedReason,
    BlockedReason,
    CancelledReason,
    FailedReason,
    RunningReason,
)
from konverge.reconcilers.shared.helm_release.redaction import without_values

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["OperationReconciler"]

_AT_ONCE: Final = timedelta(milliseconds=10)
_SOON: Final = timedelta(seconds=1)
_LOOK_AGAIN: Final = timedelta(seconds=30)
"""After this time an Operation looks again at objects that are not watched, and a finalizer at an engine that is silent."""
_ROUNDS: Final = 4
"""How often an engine may name further related objects."""


class OperationReconciler:
    """Performs Operations by their engines.

    >>> OperationReconciler(OperationSettings()).settings.velero_namespace
    'velero'
    """

    def __init__(
        self,
        settings: OperationSettings,
        *,
        cluster_id: str = "",
        rows: tuple[EngineRow, ...] = ROWS,
        metrics: OperationMetrics | None = None,
    ) -> None:
        self.settings = settings
        self.cluster_id = cluster_id
        self.rows = rows
        self._metrics = OperationMetrics(Metrics()) if metrics is None else metrics
        self._starts = LocalStarts()

    async def reconcile(self, operation: Operation, ctx: Context[Any]) -> Outcome:
        """Bring the Operation one step further, and report its state."""
        if operation.finished:
            return await self._keep(operation, ctx)
        plan = await self._step(operation, ctx)
        if _ends(plan) and isinstance(plan.outcome, Done):  # the own status write enqueues nothing
            ttl = operation.spec.ttl_seconds_after_finished
            if ttl is not None or self.settings.history_limit is not None:
                plan = replace(plan, outcome=RequeueAfter(max(timedelta(seconds=ttl or 0), _AT_ONCE)))
        return await self._carry_out(plan, operation, ctx)

    async def finalize(self, operation: Operation, ctx: Context[Any]) -> Outcome:
        """Cancel an Operation that runs; Done when its engine has stopped, or was never started."""
        if not operation.finished and operation.status.started_at is None:
            stored = await ctx.live(Operation).find(operation.namespace, operation.name)
            if stored is not None and stored.status.started_at is not None:
                return RequeueAfter(_SOON)  # the cache lags behind an earlier process
            return Done()
        if operation.finished:
            return Done()
        plan = await self._follow(operation, ctx)
        if not _ends(plan) and isinstance(plan.outcome, Done):
            plan = replace(plan, outcome=RequeueAfter(_LOOK_AGAIN))
        return await self._carry_out(plan, operation, ctx)

    async def _carry_out(self, plan: OpPlan, operation: Operation, ctx: Context[Any]) -> Outcome:
        outcome = await ctx.execute(plan)
        if _ends(plan):
            self._starts.forget(operation.metadata.uid)
        self._metrics.record(operation, plan.draft, ctx.now())
        return outcome

    async def _step(self, operation: Operation, ctx: Context[Any]) -> OpPlan:
        if operation.status.started_at is not None:
            return await self._follow(operation, ctx)
        if operation.asked_to_cancel:
            return report.ended(_cancelled("cancelled before it started"), operation.status, ctx.now())
        return await self._start(operation, ctx)

    # --- after the end -------------------------------------------------------------------------------------------------------

    async def _keep(self, operation: Operation, ctx: Context[Any]) -> Outcome:
        """Delete the Operation when its time has come, or when enough younger ones of its target have ended."""
        now, limit = ctx.now(), self.settings.history_limit
        end = expiry(operation, now)
        others = (
            []
            if limit is None
            else ctx.cache(VIEW).by_index(ENDED, target_key(operation.namespace, operation.spec.target_ref.name))
        )
        if (end is not None and end <= now) or beyond_limit(operation, map(contestant_of, others), limit):
            await ctx.delete(Operation, operation.name, operation.namespace, uid=operation.metadata.uid)
            return Done()
        await ctx.execute(report.restated(operation))
        return Done() if end is None else RequeueAfter(end - now)

    # --- before the start ----------------------------------------------------------------------------------------------------

    async def _start(self, operation: Operation, ctx: Context[Any]) -> OpPlan:
        now, namespace, spec = ctx.now(), operation.namespace, operation.spec
        wrong = refusal(operation, self.settings, self.rows, now)
        row = row_of(spec.type, spec.engine, self.rows)
        if wrong is not None or row is None:
            assert wrong is not None
            return report.refused(wrong.reason, wrong.message, now)
        instance = ctx.cache(INSTANCE).find(namespace, spec.target_ref.name)
        plan = check_target(operation, instance, self.settings, self.cluster_id, now)
        if plan is not None:
            return plan
        assert instance is not None
        mine = contestant_of(Object(operation.to_dict()))
        target = target_key(namespace, spec.target_ref.name)
        views = ctx.cache(VIEW)
        plan = check_turn(
            mine,
            map(contestant_of, views.by_index(ACTIVE, target)),
            now,
            ended=lambda: map(contestant_of, views.by_index(ENDED, target)),
        )
        if plan is not None:
            return plan
        made = await self._render(operation, row, target_of(instance), ctx)
        if isinstance(made, Refused):
            return _refused(made, operation, now)
        if isinstance(made, EngineBlocked):
            return report.waiting(made, outcome=RequeueAfter(_LOOK_AGAIN))
        annotations = await self._namespace_annotations(namespace, ctx)
        permission = check_policy(operation, dict(instance.metadata.annotations or {}), annotations, self.settings, now)
        if permission.plan is not None:
            return permission.plan
        older = first_at_opening(mine, map(contestant_of, views.by_index(ACTIVE, target)), permission.opened, now)
        if older is not None:
            return conflict(older[0].name, older[1])
        holder, wait = await take_turn(mine, namespace, instance, ctx)
        if holder:
            return conflict(holder, wait)
        return report.claimed(now, ref_to(made), made.outputs, RequeueAfter(_AT_ONCE))

    async def _namespace_annotations(self, namespace: str, ctx: Context[Any]) -> Mapping[str, str]:
        """Read the annotations of a namespace live: a watch would need rights on the namespaces of the whole cluster."""
        found = await ctx.live(NAMESPACE).find("", namespace) if self.settings.namespace_policy else None
        return {} if found is None else dict(found.metadata.annotations or {})

    async def _render(
        self, operation: Operation, row: EngineRow, target: Target, ctx: Context[Any]
    ) -> Rendered | Edit | Refused | EngineBlocked:
        request = await self._request(operation, row, target, ctx, live=True)
        if isinstance(request, EngineBlocked):
            return request
        kind = row.engine.kind(request)
        return row.engine.render(request) if ctx.serves(kind) else _not_served(kind)

    async def _request(
        self, operation: Operation, row: EngineRow, target: Target, ctx: Context[Any], *, live: bool
    ) -> EngineRequest | EngineBlocked:
        """Return the request with the related objects; those that are read live are left out if `live` is False."""
        request = request_for(operation, target, self.settings, ctx.now())
        objects: dict[ObjectRef, Mapping[str, Any] | None] = {}
        for _ in range(_ROUNDS):
            missing = [ref for ref in row.engine.needs(request) if ref not in objects and (live or not ref.live)]
            if not missing:
                break
            for ref in missing:
                if not ref.live and not ctx.serves(ref.kind):
                    return _not_served(ref.kind)
                if ref.live:
                    found = await ctx.live(ref.kind).find(ref.namespace, ref.name)
                else:
                    found = ctx.cache(ref.kind).find(ref.namespace, ref.name)
                objects[ref] = None if found is None else found.to_dict()
            request = replace(request, related=Related(dict(objects)))
        return request

    # --- after the start -----------------------------------------------------------------------------------------------------

    async def _follow(self, operation: Operation, ctx: Context[Any]) -> OpPlan:
        row = row_of(operation.spec.type, operation.spec.engine, self.rows)
        ref = operation.status.engine_ref
        if row is None or ref is None:
            message = "this operator has no engine for an Operation that an other one started; look for its effects"
            return report.ended(
                Observation(EngineState.FAILED, FailedReason.ENGINE_OBJECT_LOST, message), operation.status, ctx.now()
            )
        name = operation.spec.target_ref.name
        instance = ctx.cache(INSTANCE).find(operation.namespace, name)
        target = Target(operation.namespace, name, "") if instance is None else target_of(instance)
        request = await self._request(operation, row, target, ctx, live=False)
        if isinstance(request, EngineBlocked):
            request = request_for(operation, target, self.settings, ctx.now())
        request = replace(request, generation=ref.generation)
        kind = row.engine.kind(request)
        metadata, now = operation.metadata, ctx.now()
        stop = _Stop(operation, self._starts.of(metadata.uid, operation.status.started_at, metadata.created, now), now)
        if not fits(ref, kind):
            message = "status.engineRef names no object of this engine; look for the effects of the Operation"
            return report.ended(
                Observation(EngineState.FAILED, FailedReason.ENGINE_OBJECT_LOST, message), operation.status, ctx.now()
            )
        if not ctx.serves(kind):
            return _engine_gone(row, request, operation, kind, stop, ctx.now())
        if ref.uid is None:
            return await self._make(operation, row, target, request, ref, stop, ctx)
        child = await find_child(kind, ref, operation, ctx)
        return await self._observe(operation, row, request, ref, child, stop, ctx)

    async def _make(
        self,
        operation: Operation,
        row: EngineRow,
        target: Target,
        request: EngineRequest,
        ref: EngineRef,
        stop: _Stop,
        ctx: Context[Any],
    ) -> OpPlan:
        """Create the object, unless it was created already or must not be any more."""
        await _check_still_claimed(operation, ctx)
        kind = row.engine.kind(request)
        found = await ctx.live(kind).find(ref.namespace or "", ref.name)
        edits = kind == INSTANCE
        if found is not None and not edits and not is_of(found, operation):
            message = f"{kind.kind} {found.metadata.path} exists and is not of this Operation; delete it and try again"
            return report.ended(
                Observation(EngineState.FAILED, FailedReason.PRECONDITION_FAILED, message), operation.status, ctx.now()
            )
        if found is None or (edits and not edited_by(found, operation)):
            if stop.asked or stop.late:
                return report.ended(
                    stop.end(_cancelled("stopped before its engine began")), operation.status, ctx.now()
                )
            if edits and found is None:
                return report.ended(row.engine.lost(request, asked_to_cancel=False), operation.status, ctx.now())
            try:
                made = await self._create(operation, row, target, found, stop, ctx)
            except (Invalid, BadRequest) as error:
                message = f"the API server refuses the {kind.kind}: {without_values(str(error))}"
                return report.ended(
                    Observation(EngineState.FAILED, FailedReason.VALIDATION_FAILED, message),
                    operation.status,
                    ctx.now(),
                )
            except NotServed:
                made = _not_served(kind)
            except (AlreadyExists, Conflict):
                raise RetryAfter(1, f"{kind.kind} {ref.name} changed while it was made; reading it again") from None
            if isinstance(made, Refused):
                return report.ended(
                    Observation(EngineState.FAILED, made.reason, made.message), operation.status, ctx.now()
                )
            if made is None:
                return report.ended(row.engine.lost(request, asked_to_cancel=False), operation.status, ctx.now())
            if isinstance(made, EngineBlocked):
                waits = Observation(EngineState.ACCEPTED, RunningReason.ENGINE_NOT_STARTED, blocked=made)
                return report.observed(waits, operation.status, outcome=RequeueAfter(_LOOK_AGAIN))
            found = made
        metadata = found.metadata
        known = ref.model_copy(update={"uid": metadata.uid, **({"generation": metadata.generation} if edits else {})})
        return await self._observe(
            operation, row, replace(request, generation=known.generation), known, found, stop, ctx
        )

    async def _create(
        self,
        operation: Operation,
        row: EngineRow,
        target: Target,
        found: Object | None,
        stop: _Stop,
        ctx: Context[Any],
    ) -> Object | Refused | EngineBlocked | None:
        """Create or edit the object; None if it may have been created and removed since."""
        made = await self._render(operation, row, target, ctx)
        if isinstance(made, Rendered):
            if ctx.now() - stop.started > made.kept:
                return None
            return await ctx.client.create(to_create(operation, made, target, self.cluster_id))
        if isinstance(made, Edit):
            assert found is not None
            return await send_edit(operation, made, found, ctx)
        return made

    async def _observe(
        self,
        operation: Operation,
        row: EngineRow,
        request: EngineRequest,
        ref: EngineRef,
        child: Object | None,
        stop: _Stop,
        ctx: Context[Any],
    ) -> OpPlan:
        """Report the state of the object, and stop it if that is wanted."""
        now, engine, status = ctx.now(), row.engine, operation.status
        if child is None and not (stop.asked or stop.late):
            return _missing(row, request, operation, self.settings.missing_grace, now)
        if child is None:
            return report.ended(stop.end(engine.lost(request, asked_to_cancel=True)), status, now)
        seen = engine.observe(
            request, child.to_dict(), asked_to_cancel=stop.asked or stop.late, started=stop.started, now=now
        )
        if (stop.asked or stop.late) and not seen.state.final:
            action = engine.cancel(request, child.to_dict())
            after = await stop_child(action, child, ctx)
            if after is None:
                return report.ended(stop.end(engine.lost(request, asked_to_cancel=True)), status, now)
            seen = engine.observe(request, after.to_dict(), asked_to_cancel=True, started=stop.started, now=now)
            if isinstance(action, WaitForEnd) and not seen.state.final:
                seen = replace(seen, reason=RunningReason.STOPPING, message=action.message or seen.message)
        if seen.state.final:
            if seen.stop and not (stop.asked or stop.late):
                await stop_child(engine.cancel(request, child.to_dict()), child, ctx)
            return report.ended(stop.end(seen), status, now)
        waits = [wait for wait in (seen.recheck_after, stop.left) if wait is not None]
        outcome = RequeueAfter(max(min(waits), _AT_ONCE)) if waits else Done()
        return report.observed(seen, status, ref=None if ref == status.engine_ref else ref, outcome=outcome)


class _Stop:
    """Whether and why the object has to stop."""

    def __init__(self, operation: Operation, started: datetime, now: datetime) -> None:
        self.started = started
        self.asked = operation.asked_to_cancel or operation.deleting
        self._seconds = operation.spec.timeout_seconds
        limit = None if self._seconds is None else self.started + timedelta(seconds=self._seconds)
        self.late = limit is not None and limit <= now
        self.left = None if limit is None or self.late else limit - now

    def end(self, seen: Observation) -> Observation:
        """Return the end of the Operation: an object that the deadline stopped is Failed/Timeout."""
        if self.asked or not self.late or seen.state is not EngineState.CANCELLED:
            return seen
        message = f"stopped after {self._seconds} s (spec.timeoutSeconds): {seen.message}"
        return replace(seen, state=EngineState.FAILED, reason=FailedReason.TIMEOUT, message=message)


def _ends(plan: OpPlan) -> bool:
    return plan.draft is not None and plan.draft.finished_at is not None


def _cancelled(message: str) -> Observation:
    return Observation(EngineState.CANCELLED, CancelledReason.USER_CANCELLED, message)


def _not_served(kind: Kind[Object]) -> EngineBlocked:
    return EngineBlocked(
        BlockedReason.DEPENDENCY_MISSING,
        f"the cluster does not serve {kind.group_kind} {kind.version}; install the engine, and the Operation starts",
    )


def _refused(made: Refused, operation: Operation, now: datetime) -> OpPlan:
    if made.reason == FailedReason.VALIDATION_FAILED:
        return report.refused(AcceptedReason.VALIDATION_FAILED, made.message, now)
    return report.ended(Observation(EngineState.FAILED, made.reason, made.message), operation.status, now)


def _engine_gone(
    row: EngineRow, request: EngineRequest, operation: Operation, kind: Kind[Object], stop: _Stop, now: datetime
) -> OpPlan:
    """Return the plan while the cluster does not serve the kind: so its objects do not exist either."""
    if stop.asked or stop.late:
        return report.ended(stop.end(row.engine.lost(request, asked_to_cancel=True)), operation.status, now)
    seen = Observation(EngineState.ACCEPTED, RunningReason.ENGINE_OBJECT_MISSING, blocked=_not_served(kind))
    return report.observed(seen, operation.status, outcome=Done() if stop.left is None else RequeueAfter(stop.left))


def _missing(row: EngineRow, request: EngineRequest, operation: Operation, grace: timedelta, now: datetime) -> OpPlan:
    """Return the plan while the object is missing: for a grace time it may only be out of sight."""
    text = operation.status.engine_missing_since
    since = moment(text, now, otherwise=now)
    if since + grace <= now:
        return report.ended(row.engine.lost(request, asked_to_cancel=False), operation.status, now)
    state = EngineState.RUNNING if operation.status.phase == "Running" else EngineState.ACCEPTED
    message = "the object of the engine is missing; if it stays so, the Operation fails"
    return report.observed(
        Observation(state, RunningReason.ENGINE_OBJECT_MISSING, message),
        operation.status,
        missing_since=rfc3339(since),
        outcome=RequeueAfter(since + grace - now),
    )


async def _check_still_claimed(operation: Operation, ctx: Context[Any]) -> None:
    """Raise RetryAfter unless the stored Operation still says that its object was named and not created: a cache may lag."""
    stored = await ctx.live(Operation).find(operation.namespace, operation.name)
    same = (
        stored is not None
        and stored.metadata.uid == operation.metadata.uid
        and stored.status.started_at == operation.status.started_at
        and stored.status.engine_ref == operation.status.engine_ref
        and not stored.finished
    )
    if not same:
        raise RetryAfter(1, "the Operation changed since it was read; reading it again")
