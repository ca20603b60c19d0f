"""The reconcile of an Operation that has not started: observe and decide by caches, then by live reads, then claim the target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from konverge.crds.ops_v1alpha1 import Operation
from konverge.reconcilers.apps.operations import report
from konverge.reconcilers.apps.operations.engine_request import Engines
from konverge.reconcilers.apps.operations.engines.engine import EngineBlocked, Refused
from konverge.reconcilers.apps.operations.moments import Memory
from konverge.reconcilers.apps.operations.report import OpPlan
from konverge.reconcilers.apps.operations.validate import refusal
from konverge.reconcilers.apps.operations.waiting.act import claim_target
from konverge.reconcilers.apps.operations.waiting.decide import check_needs, check_target, check_turn
from konverge.reconcilers.apps.operations.waiting.observe import observe_needs, observe_target

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["reconcile_waiting"]


async def reconcile_waiting(operation: Operation, engines: Engines, memory: Memory, ctx: Context[Operation]) -> OpPlan:
    """Return the next step of an Operation that has not started; it becomes the holder of its target after all other checks."""
    now, settings = ctx.now(), engines.settings
    wrong, row = refusal(operation, settings, engines.rows, now), engines.row(operation)
    if wrong is not None or row is None:
        assert wrong is not None, "an Operation without an engine is refused"
        return report.refused(wrong.reason, wrong.message, now)
    observed = observe_target(operation, ctx)
    plan = check_target(operation, observed.instance, settings, engines.cluster_id, now)
    plan = plan or check_turn(observed.mine, observed.active(), now, ended=observed.ended)
    if plan is not None:
        return plan
    assert observed.instance is not None, "check_target requires a target"
    needs = await observe_needs(operation, row, observed.instance, engines, ctx)
    plan = check_needs(operation, observed, needs, settings, now)
    if plan is not None:
        return plan
    assert not isinstance(needs.rendered, (Refused, EngineBlocked)), "check_needs requires an object or an edit"
    return await claim_target(operation, needs.rendered, observed.instance, observed.mine, engines, memory, now, ctx)
