"""The reconcile of a started Operation: observe, create the object if it was not, stop it if requested, and report its state."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from konverge.crds.ops_v1alpha1 import Operation
from konverge.objects import Object
from konverge.reconcilers.apps.operations import report
from konverge.reconcilers.apps.operations.child import find_child, stop_child
from konverge.reconcilers.apps.operations.engine_request import Engines
from konverge.reconcilers.apps.operations.engines.engine import EngineRequest, Observation, WaitForEnd
from konverge.reconcilers.apps.operations.moments import Memory
from konverge.reconcilers.apps.operations.pods import LOOK_AGAIN_AT_PODS, cause_without_pods, time_to_start
from konverge.reconcilers.apps.operations.report import OpPlan
from konverge.reconcilers.apps.operations.running.act import ensure_object
from konverge.reconcilers.apps.operations.running.decide import (
    correction,
    plan_end,
    plan_missing,
    plan_not_served,
    plan_running,
    stopping,
)
from konverge.reconcilers.apps.operations.running.give_up import unknown_engine
from konverge.reconcilers.apps.operations.running.observe import RunningOperation, observe, observe_last_write
from konverge.reconcilers.apps.operations.words import OpEvent, RunningReason
from konverge.runtime import Plan

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["reconcile_running"]


async def reconcile_running(operation: Operation, engines: Engines, memory: Memory, ctx: Context[Operation]) -> OpPlan:
    """Return the next state of an Operation that has started, after bringing its object one step further."""
    row = engines.row(operation)
    if row is None:
        return report.ended(unknown_engine(), operation.status, ctx.now())
    running = await observe(operation, row, engines, memory, ctx)
    message = correction(running)
    if message:
        ctx.event(OpEvent.ENGINE_REF_CORRECTED, message, type_="Warning")
    if not running.served:
        return plan_not_served(running, ctx.now())
    if running.ref.uid is not None:
        child = await find_child(running.kind, running.ref, operation, ctx, live=running.blind is not None)
    else:
        created = await ensure_object(running, engines, memory, ctx)
        if isinstance(created, Plan):
            return created
        child, running = created, running.begun_with(created)
    if child is None:
        return plan_missing(running, engines.settings.missing_grace, ctx.now())
    if child.metadata.uid != running.ref.uid:
        running = replace(running, ref=running.ref.model_copy(update={"uid": child.metadata.uid}))
    return await _report(running, child, engines, memory, ctx)


async def _report(
    running: RunningOperation, child: Object, engines: Engines, memory: Memory, ctx: Context[Operation]
) -> OpPlan:
    """Stop the object if requested, and return the plan of its state."""
    now, stop, patience = ctx.now(), running.stop, engines.settings.engine_silence
    request, blind = await observe_last_write(running, child, memory, patience, ctx)
    seen = _state(running, request, child, now)
    if stop.due and not seen.state.final:
        action = running.row.engine.cancel(request, child.to_dict())
        after = await stop_child(action, child, ctx)
        if after is None:
            return plan_missing(running, engines.settings.missing_grace, ctx.now())
        request, blind = await observe_last_write(running, after, memory, patience, ctx)
        seen = _state(running, request, after, now)
        if isinstance(action, WaitForEnd):
            seen = stopping(seen, action.message)
    if seen.state.final:
        if seen.stop is not None:
            await stop_child(seen.stop, child, ctx)
        return plan_end(running, seen, ctx.now())
    if seen.awaits_pods and not stop.due:
        seen = await _with_cause(running, seen, child, ctx)
    return plan_running(running, seen, blind)


def _state(running: RunningOperation, request: EngineRequest, child: Object, now: datetime) -> Observation:
    stop = running.stop
    return running.row.engine.observe(request, child.to_dict(), asked_to_cancel=stop.due, started=stop.started, now=now)


async def _with_cause(
    running: RunningOperation, seen: Observation, job: Object, ctx: Context[Operation]
) -> Observation:
    """Return the observation of a Job with the reason why no pod runs, once a pod has had the time to start."""
    left = time_to_start(running.stop.started, ctx.now())
    if left > timedelta(0):
        return replace(seen, recheck_after=left)
    cause = await cause_without_pods(job, ctx)
    seen = replace(seen, recheck_after=LOOK_AGAIN_AT_PODS)
    if not cause:
        return seen
    message = f"no pod of Job {job.name} runs: {cause}"
    return replace(seen, reason=RunningReason.PODS_NOT_RUNNING, message=message)
