"""The reconciler of Operations: selects the phase of an Operation, and executes the plan of its phase.

`reconcile` of an Operation that has ended only deletes it when it is due. Before the start (`waiting`): preconditions, then the hold on
the target (a compare-and-swap), then the name of the engine's object in the status. After the start (`running`): the object is created if
it was not, and its state is reported until it ends. `finalize`: an Operation that runs is cancelled; its end releases the finalizer.

Guarantees
- Level-triggered: a reconcile can be killed at any point and repeated, and no engine works twice for one Operation (`running`).
- A terminal phase is final; neither its target nor other Operations are read again.
- Nothing is written at rest.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from msgspec.structs import replace

from konverge.crds.ops_v1alpha1 import Operation
from konverge.errors import Forbidden, RetryAfter
from konverge.metrics import Metrics
from konverge.outcome import Done, Outcome, RequeueAfter
from konverge.reconcilers.apps.operations import report
from konverge.reconcilers.apps.operations.delays import LOOK_AGAIN
from konverge.reconcilers.apps.operations.engine_request import Engines
from konverge.reconcilers.apps.operations.engines.registry import ROWS, EngineRow
from konverge.reconcilers.apps.operations.history import beyond_limit, expiry
from konverge.reconcilers.apps.operations.indexes import ENDED, target_key
from konverge.reconcilers.apps.operations.kinds import VIEW
from konverge.reconcilers.apps.operations.metrics import OperationMetrics
from konverge.reconcilers.apps.operations.moments import Memory
from konverge.reconcilers.apps.operations.report import OpPlan
from konverge.reconcilers.apps.operations.running.give_up import cancelled
from konverge.reconcilers.apps.operations.running.reconciler import reconcile_running
from konverge.reconcilers.apps.operations.settings import OperationSettings
from konverge.reconcilers.apps.operations.waiting.conflicts import contestant_of
from konverge.reconcilers.apps.operations.waiting.lease import give_turn_back
from konverge.reconcilers.apps.operations.waiting.reconciler import reconcile_waiting
from konverge.reconcilers.apps.settings import Settings
from konverge.reconcilers.shared.delays import READ_AGAIN, SHORTEST_WAIT

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["OperationReconciler"]


class OperationReconciler:
    """Performs Operations by their engines.

    >>> OperationReconciler(OperationSettings()).engines.settings.velero_namespace
    'velero'
    """

    def __init__(
        self,
        settings: OperationSettings,
        *,
        cluster_id: str = "",
        namespace: str = "",
        rows: tuple[EngineRow, ...] = ROWS,
        metrics: OperationMetrics | None = None,
        instances: Settings | None = None,
    ) -> None:
        self.engines = Engines(settings, rows, cluster_id, namespace, instances or Settings())
        self._metrics = OperationMetrics(Metrics()) if metrics is None else metrics
        self._memory = Memory()

    async def reconcile(self, operation: Operation, ctx: Context[Operation]) -> Outcome:
        """Bring the Operation one step further, and report its state."""
        if operation.finished:
            return await self._keep(operation, ctx)
        try:
            plan = await self._step(operation, ctx)
        except Forbidden as error:
            await self._report_missing_right(operation, error, ctx)
            raise
        if _ends(plan) and isinstance(plan.outcome, Done):  # the own status write enqueues nothing
            ttl = operation.spec.ttl_seconds_after_finished
            if ttl is not None or self.engines.settings.history_limit is not None:
                plan = replace(plan, outcome=RequeueAfter(max(timedelta(seconds=ttl or 0), SHORTEST_WAIT)))
        return await self._carry_out(plan, operation, ctx)

    async def finalize(self, operation: Operation, ctx: Context[Operation]) -> Outcome:
        """Cancel an Operation that runs; Done when its engine has stopped, or was never started."""
        if not operation.finished and operation.status.started_at is None:
            stored = await ctx.live(Operation).find(operation.namespace, operation.name)
            if stored is not None and stored.status.started_at is not None:
                return RequeueAfter(READ_AGAIN)  # the cache lags behind an earlier process
        if operation.finished or operation.status.started_at is None:
            self._memory.forget(operation.metadata.uid)
            return Done()
        try:
            plan = await reconcile_running(operation, self.engines, self._memory, ctx)
        except Forbidden as error:
            await self._report_missing_right(operation, error, ctx)
            raise
        if not _ends(plan) and isinstance(plan.outcome, Done):
            plan = replace(plan, outcome=RequeueAfter(LOOK_AGAIN))
        return await self._carry_out(plan, operation, ctx)

    async def _report_missing_right(self, operation: Operation, error: Forbidden, ctx: Context[Operation]) -> None:
        """Report a missing right, and try again soon: a granted right sends no event. Readiness names the right as well."""
        plan = report.without_right(operation, error)
        if plan is not None:
            await self._carry_out(plan, operation, ctx)
            raise RetryAfter(LOOK_AGAIN, str(error)) from error

    async def _carry_out(self, plan: OpPlan, operation: Operation, ctx: Context[Operation]) -> Outcome:
        outcome = await ctx.execute(plan)
        if _ends(plan):
            self._memory.forget(operation.metadata.uid)
        if report.gives_back(plan):
            await give_turn_back(operation.metadata, self.engines.home(ctx), ctx)
        self._metrics.record(operation, plan.draft, ctx.now())
        return outcome

    async def _step(self, operation: Operation, ctx: Context[Operation]) -> OpPlan:
        if operation.status.started_at is not None:
            return await reconcile_running(operation, self.engines, self._memory, ctx)
        if operation.asked_to_cancel:
            return report.ended(cancelled("cancelled before it started"), operation.status, ctx.now())
        return await reconcile_waiting(operation, self.engines, self._memory, ctx)

    async def _keep(self, operation: Operation, ctx: Context[Operation]) -> Outcome:
        """Delete the Operation when its ttl ends, or when enough younger Operations of its target have ended."""
        now, limit = ctx.now(), self.engines.settings.history_limit
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


def _ends(plan: OpPlan) -> bool:
    return plan.draft is not None and plan.draft.finished_at is not None
