"""Before the start of an Operation: its target, the order on the target, the policy, and the claim; nothing is created here.

The last write names the engine's object in the status; `follow.py` creates it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from konverge.crds.ops_v1alpha1 import Operation
from konverge.errors import AlreadyExists, BadRequest, Conflict, Invalid, NotFound
from konverge.kinds import kind_of
from konverge.objects import Object
from konverge.outcome import RequeueAfter
from konverge.reconcilers.apps.kinds import NAMESPACE
from konverge.reconcilers.apps.operations import report
from konverge.reconcilers.apps.operations.child import ref_to, to_create
from konverge.reconcilers.apps.operations.conflicts import contestant_of
from konverge.reconcilers.apps.operations.decide import check_target, check_turn, conflict, target_of
from konverge.reconcilers.apps.operations.engine_request import Engines
from konverge.reconcilers.apps.operations.engines.engine import (
    Edit,
    EngineBlocked,
    EngineState,
    Observation,
    Refused,
    Rendered,
    Target,
)
from konverge.reconcilers.apps.operations.indexes import ACTIVE, ENDED, target_key
from konverge.reconcilers.apps.operations.kinds import INSTANCE, VIEW
from konverge.reconcilers.apps.operations.lease import TargetKey, take_turn
from konverge.reconcilers.apps.operations.moments import Memory
from konverge.reconcilers.apps.operations.policy import check_policy, first_at_opening
from konverge.reconcilers.apps.operations.report import OpPlan
from konverge.reconcilers.apps.operations.validate import refusal
from konverge.reconcilers.apps.operations.words import AcceptedReason, BlockedReason, FailedReason, OpCondition
from konverge.reconcilers.shared.delays import NEXT_STEP

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["start"]

_LOOK_AGAIN: Final = timedelta(seconds=30)
"""After this time an Operation reads unwatched objects again."""


async def start(operation: Operation, engines: Engines, memory: Memory, ctx: Context[Operation]) -> OpPlan:
    """Return the next step of an Operation that has not started; it becomes the holder of its target after all other checks."""
    now, namespace, spec = ctx.now(), operation.namespace, operation.spec
    wrong = refusal(operation, engines.settings, engines.rows, now)
    row = engines.row(operation)
    if wrong is not None or row is None:
        assert wrong is not None
        return report.refused(wrong.reason, wrong.message, now)
    instance = ctx.cache(INSTANCE).find(namespace, spec.target_ref.name)
    plan = check_target(operation, instance, engines.settings, engines.cluster_id, now)
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
    made = await engines.render(operation, row, target_of(instance), ctx)
    if isinstance(made, Refused):
        return _refused(made, operation, now)
    if isinstance(made, EngineBlocked):
        return report.waiting(made, outcome=RequeueAfter(_LOOK_AGAIN))
    refused = engines.check_edit(made, instance)
    if refused is not None:
        return _refused(refused, operation, now)
    annotations = await _namespace_annotations(namespace, engines, ctx)
    permission = check_policy(operation, dict(instance.metadata.annotations or {}), annotations, engines.settings, now)
    if permission.plan is not None:
        return permission.plan
    older = first_at_opening(mine, map(contestant_of, views.by_index(ACTIVE, target)), permission.opened, now)
    if older is not None:
        return conflict(older[0].name, older[1])
    if memory.refusals.knows(operation.metadata.uid) or _lacked_a_right(operation):
        await _try_out(operation, made, target_of(instance), engines.cluster_id, ctx)
        memory.refusals.forget(operation.metadata.uid)
    plan = await take_turn(mine, TargetKey(namespace, spec.target_ref.name), engines.home(ctx), ctx)
    if plan is not None:
        return plan
    return report.claimed(now, ref_to(made), made.outputs, RequeueAfter(NEXT_STEP))


def _lacked_a_right(operation: Operation) -> bool:
    blocked = operation.find_condition(OpCondition.BLOCKED)
    return blocked is not None and blocked.is_true and blocked.reason == BlockedReason.RBAC_PROFILE_MISSING


async def _try_out(
    operation: Operation, made: Rendered | Edit, target: Target, cluster_id: str, ctx: Context[Operation]
) -> None:
    """Read the object, and create it in a dry run, which raises Forbidden if a right is missing: no target is held in vain.

    The real attempt reports any other refusal.
    """
    ref = ref_to(made)
    kind = made.kind if isinstance(made, Edit) else kind_of(made.object)
    await ctx.live(Operation).find(operation.namespace, operation.name)
    await ctx.live(kind).find(ref.namespace or "", ref.name)
    try:
        if isinstance(made, Edit):
            await ctx.patch(made.kind, made.name, made.namespace, patch=made.patch, dry_run=True)
        else:
            await ctx.client.create(to_create(operation, made, target, cluster_id), dry_run=True)
    except (AlreadyExists, BadRequest, Conflict, Invalid, NotFound):
        return


async def _namespace_annotations(namespace: str, engines: Engines, ctx: Context[Operation]) -> Mapping[str, str]:
    """Read the annotations of a namespace live: a watch would need rights on the namespaces of the whole cluster."""
    found = await ctx.live(NAMESPACE).find("", namespace) if engines.settings.namespace_policy else None
    return {} if found is None else dict(found.metadata.annotations or {})


def _refused(made: Refused, operation: Operation, now: datetime) -> OpPlan:
    if made.reason == FailedReason.VALIDATION_FAILED:
        return report.refused(AcceptedReason.VALIDATION_FAILED, made.message, now)
    return report.ended(Observation(EngineState.FAILED, made.reason, made.message), operation.status, now)
