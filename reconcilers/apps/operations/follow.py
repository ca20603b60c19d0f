"""After the start of an Operation: its object is created if it was not, observed until it ends, and stopped if requested.

Guarantees
- The object is read only at the place that is derived from the Operation's UID; `status.engineRef` reports it, and is never followed.
- An object is created only while the stored status, read live, has its name and no record of its creation, while the Lease records the
  Operation as a holder, and only for as long as a created object still exists (`Rendered.kept`). So no engine works twice for one
  Operation.
- If the operator lacks the right to create the object, the Operation releases its target once the object has been absent for a minute.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from konverge.clock import rfc3339
from konverge.crds.ops_v1alpha1 import EngineRef, Operation
from konverge.errors import AlreadyExists, BadRequest, Conflict, Forbidden, Invalid, NotServed, RetryAfter
from konverge.kinds import Kind, kind_of
from konverge.objects import Object
from konverge.outcome import Done, RequeueAfter
from konverge.reconcilers.apps.operations import report
from konverge.reconcilers.apps.operations.child import (
    edited_by,
    find_child,
    find_in_list,
    is_of,
    own_ref,
    send_edit,
    stop_child,
    to_create,
)
from konverge.reconcilers.apps.operations.decide import request_for, target_of
from konverge.reconcilers.apps.operations.engine_request import Engines, absent, denied, not_served
from konverge.reconcilers.apps.operations.engines.engine import (
    EngineBlocked,
    EngineRequest,
    EngineState,
    Observation,
    Refused,
    Rendered,
    Target,
    WaitForEnd,
)
from konverge.reconcilers.apps.operations.engines.registry import EngineRow
from konverge.reconcilers.apps.operations.engines.silence import last_write
from konverge.reconcilers.apps.operations.kinds import INSTANCE
from konverge.reconcilers.apps.operations.lease import turn_since
from konverge.reconcilers.apps.operations.moments import Memory, moment
from konverge.reconcilers.apps.operations.pods import LOOK_AGAIN_AT_PODS, cause_without_pods, time_to_start
from konverge.reconcilers.apps.operations.report import OpPlan
from konverge.reconcilers.apps.operations.stop import Stop, cancelled
from konverge.reconcilers.apps.operations.words import (
    FailedReason,
    OpEvent,
    RunningReason,
)
from konverge.reconcilers.shared.delays import NEXT_STEP, READ_AGAIN, SHORTEST_WAIT
from konverge.reconcilers.shared.helm_release.redaction import without_values
from konverge.runtime import Plan

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["LOOK_AGAIN", "follow"]

LOOK_AGAIN: Final = timedelta(seconds=30)
"""The delay until an Operation reads unwatched objects again, and a finalizer a silent engine."""
_IN_FLIGHT: Final = timedelta(seconds=60)
"""How long a request may be under way: a `create` of an earlier process, from before the right was taken away, is over after this time."""


async def follow(operation: Operation, engines: Engines, memory: Memory, ctx: Context[Operation]) -> OpPlan:
    """Return the next state of an Operation that has started, after bringing its object one step further."""
    row, reported = engines.row(operation), operation.status.engine_ref
    if row is None:
        message = "another operator started it with an engine that this one lacks; look for its effects before you repeat the Operation"
        lost = Observation(EngineState.FAILED, FailedReason.ENGINE_OBJECT_LOST, message)
        return report.ended(lost, operation.status, ctx.now())
    name = operation.spec.target_ref.name
    instance = ctx.cache(INSTANCE).find(operation.namespace, name)
    target = Target(operation.namespace, name, "") if instance is None else target_of(instance)
    request = await engines.request(operation, row, target, ctx, live=False)
    if isinstance(request, EngineBlocked):
        request = request_for(operation, target, engines.settings, ctx.now())
    kind = row.engine.kind(request)
    ref = own_ref(kind, row.engine.place(request), reported)
    if reported is not None and ref != reported:
        message = (
            "status.engineRef did not name the object of this Operation; the object that it named is not touched, and the Operation "
            f"goes on with {kind.kind} {ref.namespace}/{ref.name}"
        )
        ctx.event(OpEvent.ENGINE_REF_CORRECTED, message, type_="Warning")
    request = replace(request, generation=ref.generation, outputs=operation.status.outputs)
    metadata, now = operation.metadata, ctx.now()
    stop = Stop(operation, memory.starts.of(metadata.uid, operation.status.started_at, metadata.created, now), now)
    blind = denied(kind, ctx)
    if blind is None and absent(kind, ctx) is not None:
        return _engine_gone(row, request, operation, kind, stop, ctx.now())
    running = _Running(operation, engines, row, target, request, ref, stop, memory, blind, ctx)
    if ref.uid is None:
        return await running.make(kind)
    return await running.observe(await find_child(kind, ref, operation, ctx, live=blind is not None))


@dataclass(frozen=True, slots=True)
class _Running:
    """One reconcile of a started Operation and its object."""

    operation: Operation
    engines: Engines
    row: EngineRow
    target: Target
    request: EngineRequest
    ref: EngineRef
    stop: Stop
    memory: Memory
    blind: EngineBlocked | None
    """Why the cache of the object is out of date, so that it is read live: the right to watch it is missing."""
    ctx: Context[Operation]

    async def make(self, kind: Kind[Object]) -> OpPlan:
        """Create the object, unless it was created already or must not be any more."""
        operation, engine, ref, stop = self.operation, self.row.engine, self.ref, self.stop
        found, unread = await self._stored(kind)
        edits = kind == INSTANCE
        if found is not None and not edits and not is_of(found, operation):
            message = f"{kind.kind} {found.metadata.path} exists and is not of this Operation; delete it and try again"
            return self._failed(FailedReason.PRECONDITION_FAILED, message)
        if found is None or (edits and not edited_by(found, operation)):
            if stop.asked or stop.late:
                return self._ended(stop.end(cancelled("stopped before its engine began")))
            if edits and found is None:
                return self._ended(engine.lost(self.request, asked_to_cancel=False))
            if unread is not None:
                return await self._without_sight(unread)
            try:
                made = await self._create(found)
            except (Invalid, BadRequest) as error:
                message = f"the API server refuses the {kind.kind}: {without_values(str(error))}"
                return self._failed(FailedReason.VALIDATION_FAILED, message)
            except NotServed:
                made = not_served(kind)
            except Forbidden as error:
                return self._without_right(error)
            except (AlreadyExists, Conflict) as error:
                raise RetryAfter(
                    READ_AGAIN, f"{kind.kind} {ref.name} changed while it was made; reading it again"
                ) from error
            if isinstance(made, Plan):
                return made
            if isinstance(made, EngineBlocked):
                waits = Observation(EngineState.ACCEPTED, RunningReason.ENGINE_NOT_STARTED, blocked=made)
                return report.observed(waits, operation.status, outcome=RequeueAfter(LOOK_AGAIN))
            found = made
        self.memory.refusals.forget(operation.metadata.uid)
        metadata = found.metadata
        known = ref.model_copy(update={"uid": metadata.uid, **({"generation": metadata.generation} if edits else {})})
        now_known = replace(self, request=replace(self.request, generation=known.generation), ref=known)
        return await now_known.observe(found)

    async def _create(self, found: Object | None) -> Object | EngineBlocked | OpPlan:
        """Create or edit the object, or return why not.

        The target is held only if the Lease in the operator's namespace records it: a forged status must not bypass the preconditions.
        """
        operation, ctx = self.operation, self.ctx
        made = await self.engines.render(operation, self.row, self.target, ctx)
        if isinstance(made, Refused):
            return self._failed(made.reason, made.message)
        if isinstance(made, EngineBlocked):
            return made
        since = await turn_since(operation, self.engines.home(ctx), ctx)
        if isinstance(made, Rendered) and self._may_be_gone(made, since):
            message = (
                f"{kind_of(made.object).kind} {self.ref.name} is not there long after its Operation began: it was never made, or it was "
                "made and removed since; look for its effects before you repeat the Operation"
            )
            return self._failed(FailedReason.ENGINE_OBJECT_LOST, message)
        if since is None:
            return report.turn_missing(RequeueAfter(NEXT_STEP))
        if isinstance(made, Rendered):
            return await ctx.client.create(to_create(operation, made, self.target, self.engines.cluster_id))
        assert found is not None
        refused = self.engines.check_edit(made, found)
        if refused is not None:
            return self._failed(refused.reason, refused.message)
        return await send_edit(operation, made, found, ctx)

    def _may_be_gone(self, made: Rendered, since: datetime | None = None) -> bool:
        """Whether a created object may have been removed since, so that its absence proves nothing.

        `since` is the time in the Lease: a status that claims a later start gets no second object.
        """
        started = self.stop.started if since is None else min(since, self.stop.started)
        return self.ctx.now() - started > made.kept

    async def _stored(self, kind: Kind[Object]) -> tuple[Object | None, Forbidden | None]:
        """Return the stored object; without the right to get it, return it from a list, together with the error.

        The Operation still claims it. Raises Forbidden if it may not be listed either: its existence is unknown then.
        """
        operation, ref, ctx = self.operation, self.ref, self.ctx
        place = ref.namespace or ""
        try:
            self._check_still_claimed(await ctx.live(Operation).find(operation.namespace, operation.name))
            return await ctx.live(kind).find(place, ref.name), None
        except Forbidden as error:
            try:
                self._check_still_claimed(await find_in_list(Operation, operation.namespace, operation.name, ctx))
                return await find_in_list(kind, place, ref.name, ctx), error
            except Forbidden:
                raise error from None

    async def _without_sight(self, error: Forbidden) -> OpPlan:
        """Release the target if the object can be neither read nor listed, unless it may have existed."""
        made = await self.engines.render(self.operation, self.row, self.target, self.ctx)
        if isinstance(made, Rendered) and self._may_be_gone(made):
            raise error
        return self._without_right(error)

    def _without_right(self, error: Forbidden) -> OpPlan:
        """Release the target once the right has been missing for so long that no object can have been created; until then raise the error.

        `_create` sends nothing once a created object might have been removed again. So a missing object was never created here, and after
        the next start of this Operation `_create` creates its first object.
        """
        now, uid = self.ctx.now(), self.operation.metadata.uid
        plan = report.turn_given_back(error, RequeueAfter(LOOK_AGAIN))
        if plan is None or now - self.memory.refusals.since(uid, now) < _IN_FLIGHT:
            raise error
        return plan

    async def observe(self, child: Object | None) -> OpPlan:
        """Report the state of the object, and stop it if requested."""
        if child is not None and child.metadata.uid != self.ref.uid:
            return await replace(self, ref=self.ref.model_copy(update={"uid": child.metadata.uid})).observe(child)
        now, engine, stop, request = self.ctx.now(), self.row.engine, self.stop, self.request
        stopping, status = stop.asked or stop.late, self.operation.status
        if child is None and not stopping:
            return _missing(
                self.row, request, self.operation, self._corrected, self.engines.settings.missing_grace, now
            )
        if child is None:
            return self._ended(stop.end(engine.lost(request, asked_to_cancel=True)))
        request, blind = await self._seen(request, child)
        seen = engine.observe(request, child.to_dict(), asked_to_cancel=stopping, started=stop.started, now=now)
        if stopping and not seen.state.final:
            action = engine.cancel(request, child.to_dict())
            after = await stop_child(action, child, self.ctx)
            if after is None:
                return self._ended(stop.end(engine.lost(request, asked_to_cancel=True)))
            request, blind = await self._seen(request, after)
            seen = engine.observe(request, after.to_dict(), asked_to_cancel=True, started=stop.started, now=now)
            if isinstance(action, WaitForEnd) and not seen.state.final:
                seen = replace(seen, reason=RunningReason.STOPPING, message=action.message or seen.message)
        if seen.state.final:
            if seen.stop is not None:
                await stop_child(seen.stop, child, self.ctx)
            return self._ended(stop.end(seen))
        if seen.awaits_pods and not stopping:
            seen = await self._with_cause(seen, child)
        look_again = None if blind is None else LOOK_AGAIN
        waits = [wait for wait in (seen.recheck_after, stop.left, look_again) if wait is not None]
        outcome = RequeueAfter(max(min(waits), SHORTEST_WAIT)) if waits else Done()
        blocked = seen.blocked or blind
        return report.observed(replace(seen, blocked=blocked), status, ref=self._corrected, outcome=outcome)

    async def _with_cause(self, seen: Observation, job: Object) -> Observation:
        """Return the observation of a Job with the reason why no pod runs, once a pod has had the time to start."""
        left = time_to_start(self.stop.started, self.ctx.now())
        if left > timedelta(0):
            return replace(seen, recheck_after=left)
        cause = await cause_without_pods(job, self.ctx)
        if not cause:
            return replace(seen, recheck_after=LOOK_AGAIN_AT_PODS)
        return replace(
            seen,
            reason=RunningReason.PODS_NOT_RUNNING,
            message=f"no pod of Job {job.name} runs: {cause}",
            recheck_after=LOOK_AGAIN_AT_PODS,
        )

    @property
    def _corrected(self) -> EngineRef | None:
        """The reference to report, None if the status has it."""
        return None if self.ref == self.operation.status.engine_ref else self.ref

    async def _seen(self, request: EngineRequest, child: Object) -> tuple[EngineRequest, EngineBlocked | None]:
        """Return the request with the last change of the object: as this process saw it, or, once that is long ago, by its managedFields.

        Also returns the missing right for that, if any: the request has no last change then, so no engine is reported as silent.
        """
        kind, metadata, now = kind_of(child), child.metadata, self.ctx.now()
        if kind == INSTANCE:  # edited, not created: its controller is this operator
            return request, self.blind
        lacking = (denied(ref.kind, self.ctx) for ref in request.related.objects if not ref.live)
        blind = self.blind or next((one for one in lacking if one is not None), None)
        if blind is not None:
            return request, blind
        related = (Object(dict(found)).metadata.resource_version for found in request.related.objects.values() if found)
        version, patience = " ".join((metadata.resource_version, *related)), self.engines.settings.engine_silence
        seen = self.memory.writes.of(self.operation.metadata.uid, version, now)
        if seen.stored is None and now - self.stop.started < patience:
            seen.stored = now
        if seen.stored is None or now - seen.at >= patience:
            try:
                stored = await self.ctx.live(kind).find(metadata.namespace, metadata.name)
            except Forbidden as error:
                blind = report.missing_right(error)
                if blind is None:
                    raise
                return request, blind
            gone = stored is None or stored.metadata.uid != metadata.uid
            seen.stored = now if stored is None or gone else last_write(stored.to_dict(), now)
            if stored is None or stored.metadata.resource_version != metadata.resource_version:
                seen.at = now  # the cache lags
        return replace(request, written=seen.stored, watched=seen.at), None

    def _check_still_claimed(self, stored: Operation | None) -> None:
        """Raise RetryAfter unless the stored Operation has the name of its object and no record of its creation: a cache may lag."""
        operation = self.operation
        same = (
            stored is not None
            and stored.metadata.uid == operation.metadata.uid
            and stored.status.started_at == operation.status.started_at
            and stored.status.engine_ref == operation.status.engine_ref
            and not stored.finished
        )
        if not same:
            raise RetryAfter(READ_AGAIN, "the Operation changed since it was read; reading it again")

    def _failed(self, reason: str, message: str) -> OpPlan:
        return self._ended(Observation(EngineState.FAILED, reason, message))

    def _ended(self, seen: Observation) -> OpPlan:
        return report.ended(seen, self.operation.status, self.ctx.now(), ref=self._corrected)


def _engine_gone(
    row: EngineRow, request: EngineRequest, operation: Operation, kind: Kind[Object], stop: Stop, now: datetime
) -> OpPlan:
    """Return the plan while the cluster does not serve the kind: then its objects do not exist either."""
    if stop.asked or stop.late:
        return report.ended(stop.end(row.engine.lost(request, asked_to_cancel=True)), operation.status, now)
    seen = Observation(EngineState.ACCEPTED, RunningReason.ENGINE_OBJECT_MISSING, blocked=not_served(kind))
    return report.observed(seen, operation.status, outcome=Done() if stop.left is None else RequeueAfter(stop.left))


def _missing(
    row: EngineRow,
    request: EngineRequest,
    operation: Operation,
    corrected: EngineRef | None,
    grace: timedelta,
    now: datetime,
) -> OpPlan:
    """Return the plan while the object is missing: for a grace time only a lagging cache may lack it."""
    text = operation.status.engine_missing_since
    since = moment(text, now, otherwise=now)
    if since + grace <= now:
        lost = row.engine.lost(request, asked_to_cancel=False)
        return report.ended(lost, operation.status, now, ref=corrected)
    state = EngineState.RUNNING if operation.status.phase == "Running" else EngineState.ACCEPTED
    message = "the object of the engine is missing; if it stays so, the Operation fails"
    return report.observed(
        Observation(state, RunningReason.ENGINE_OBJECT_MISSING, message),
        operation.status,
        ref=corrected,
        missing_since=rfc3339(since),
        outcome=RequeueAfter(since + grace - now),
    )
