"""The writes to the object of a started Operation: it is created or edited once, and stopped if requested.

A plan does not hold them, because the response decides what the Operation reports. `give_up` has the time after which nothing is created.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from konverge.errors import AlreadyExists, BadRequest, Conflict, Forbidden, Invalid, NotServed, RetryAfter
from konverge.kinds import kind_of
from konverge.objects import Object
from konverge.outcome import RequeueAfter
from konverge.reconcilers.apps.operations import report
from konverge.reconcilers.apps.operations.child import send_edit, to_create
from konverge.reconcilers.apps.operations.delays import LOOK_AGAIN
from konverge.reconcilers.apps.operations.engine_request import Engines, not_served
from konverge.reconcilers.apps.operations.engines.engine import EngineBlocked, Refused, Rendered
from konverge.reconcilers.apps.operations.moments import Memory
from konverge.reconcilers.apps.operations.report import OpPlan
from konverge.reconcilers.apps.operations.running.decide import (
    plan_before_object,
    plan_end,
    plan_not_created,
    plan_refused,
)
from konverge.reconcilers.apps.operations.running.give_up import (
    may_be_removed,
    object_removed,
    right_is_missing_for_long,
)
from konverge.reconcilers.apps.operations.running.observe import RunningOperation, observe_stored
from konverge.reconcilers.apps.operations.waiting.lease import turn_since
from konverge.reconcilers.shared.delays import NEXT_STEP, READ_AGAIN
from konverge.runtime import Plan

if TYPE_CHECKING:
    from konverge.crds.ops_v1alpha1 import Operation
    from konverge.runtime import Context

__all__ = ["ensure_object"]


async def ensure_object(
    running: RunningOperation, engines: Engines, memory: Memory, ctx: Context[Operation]
) -> Object | OpPlan:
    """Create or edit the object, unless that happened already; returns the plan of an Operation whose object must not exist."""
    stored, unread = await observe_stored(running, ctx)
    plan = plan_before_object(running, stored, ctx.now())
    if plan is not None:
        return plan
    if stored is None or not running.has_begun(stored):
        if unread is not None:
            return await _without_sight(running, unread, engines, memory, ctx)
        try:
            sent = await _send(running, stored, engines, ctx)
        except (Invalid, BadRequest) as error:
            return plan_refused(running, error, ctx.now())
        except NotServed:
            sent = not_served(running.kind)
        except Forbidden as error:
            return _without_right(running, error, memory, ctx)
        except (AlreadyExists, Conflict) as error:
            text = f"{running.kind.kind} {running.ref.name} changed while it was made; reading it again"
            raise RetryAfter(READ_AGAIN, text) from error
        if isinstance(sent, Plan):
            return sent
        if isinstance(sent, EngineBlocked):
            return plan_not_created(running, sent)
        stored = sent
    memory.refusals.forget(running.operation.metadata.uid)
    return stored


async def _send(
    running: RunningOperation, stored: Object | None, engines: Engines, ctx: Context[Operation]
) -> Object | EngineBlocked | OpPlan:
    """Create or edit the object, or return why not.

    The target is held only if the Lease in the operator's namespace records it: a forged status must not bypass the preconditions.
    """
    operation = running.operation
    rendered = await engines.render(operation, running.row, running.target, ctx)
    if isinstance(rendered, Refused):
        return plan_refused(running, rendered, ctx.now())
    if isinstance(rendered, EngineBlocked):
        return rendered
    since = await turn_since(operation, engines.home(ctx), ctx)
    if isinstance(rendered, Rendered) and may_be_removed(rendered, running.stop.started, since, ctx.now()):
        return plan_end(running, object_removed(kind_of(rendered.object).kind, running.ref.name), ctx.now())
    if since is None:
        return report.turn_missing(RequeueAfter(NEXT_STEP))
    if isinstance(rendered, Rendered):
        return await ctx.client.create(to_create(operation, rendered, running.target, engines.cluster_id))
    assert stored is not None, "without a target the edit was given up"
    refused = engines.check_edit(rendered, stored)
    if refused is not None:
        return plan_refused(running, refused, ctx.now())
    return await send_edit(operation, rendered, stored, ctx)


async def _without_sight(
    running: RunningOperation, error: Forbidden, engines: Engines, memory: Memory, ctx: Context[Operation]
) -> OpPlan:
    """Release the target if the object can be neither read nor listed, unless it may have existed."""
    rendered = await engines.render(running.operation, running.row, running.target, ctx)
    if isinstance(rendered, Rendered) and may_be_removed(rendered, running.stop.started, None, ctx.now()):
        raise error
    return _without_right(running, error, memory, ctx)


def _without_right(running: RunningOperation, error: Forbidden, memory: Memory, ctx: Context[Operation]) -> OpPlan:
    """Release the target once the right has been missing for long; until then raise the error."""
    now, uid = ctx.now(), running.operation.metadata.uid
    plan = report.turn_given_back(error, RequeueAfter(LOOK_AGAIN))
    if plan is None or not right_is_missing_for_long(memory.refusals.since(uid, now), now):
        raise error
    return plan
