"""The claim of a target, the last step before the start. A plan does not hold it: the response decides whether the Operation may start.

No object is created here. The plan of the claim names the engine's object in the status; `running` creates it.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from konverge.crds.ops_v1alpha1 import Operation
from konverge.errors import AlreadyExists, BadRequest, Conflict, Invalid, NotFound
from konverge.kinds import kind_of
from konverge.objects import Object
from konverge.outcome import RequeueAfter
from konverge.reconcilers.apps.operations import report
from konverge.reconcilers.apps.operations.child import ref_to, to_create
from konverge.reconcilers.apps.operations.engine_request import Engines, target_of
from konverge.reconcilers.apps.operations.engines.engine import Edit, Rendered
from konverge.reconcilers.apps.operations.moments import Memory
from konverge.reconcilers.apps.operations.report import OpPlan
from konverge.reconcilers.apps.operations.waiting.conflicts import Contestant
from konverge.reconcilers.apps.operations.waiting.lease import TargetKey, take_turn
from konverge.reconcilers.apps.operations.words import BlockedReason, OpCondition
from konverge.reconcilers.shared.delays import NEXT_STEP

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["claim_target"]


async def claim_target(
    operation: Operation,
    rendered: Rendered | Edit,
    instance: Object,
    mine: Contestant,
    engines: Engines,
    memory: Memory,
    now: datetime,
    ctx: Context[Operation],
) -> OpPlan:
    """Add the Operation to the holders of its target; returns the plan of its start at `now`, or of its wait for another Operation.

    Raises Forbidden if a right was missing before and still is.
    """
    uid = operation.metadata.uid
    if memory.refusals.knows(uid) or _lacked_a_right(operation):
        await _try_out(operation, rendered, instance, engines.cluster_id, ctx)
        memory.refusals.forget(uid)
    target = TargetKey(operation.namespace, operation.spec.target_ref.name)
    plan = await take_turn(mine, target, engines.home(ctx), ctx)
    if plan is not None:
        return plan
    return report.claimed(now, ref_to(rendered), rendered.outputs, RequeueAfter(NEXT_STEP))


def _lacked_a_right(operation: Operation) -> bool:
    blocked = operation.find_condition(OpCondition.BLOCKED)
    return blocked is not None and blocked.is_true and blocked.reason == BlockedReason.RBAC_PROFILE_MISSING


async def _try_out(
    operation: Operation, rendered: Rendered | Edit, instance: Object, cluster_id: str, ctx: Context[Operation]
) -> None:
    """Read the object, and create it in a dry run, which raises Forbidden if a right is missing: no target is held in vain.

    The real attempt reports any other refusal.
    """
    ref = ref_to(rendered)
    kind = rendered.kind if isinstance(rendered, Edit) else kind_of(rendered.object)
    await ctx.live(Operation).find(operation.namespace, operation.name)
    await ctx.live(kind).find(ref.namespace or "", ref.name)
    try:
        if isinstance(rendered, Edit):
            await ctx.patch(rendered.kind, rendered.name, rendered.namespace, patch=rendered.patch, dry_run=True)
        else:
            await ctx.client.create(to_create(operation, rendered, target_of(instance), cluster_id), dry_run=True)
    except (AlreadyExists, BadRequest, Conflict, Invalid, NotFound):
        return
