"""The reconciler of ApplicationInstances: observes, decides, applies, and reports.

`reconcile`: observe; `plan_apply` (a Blocked instance ends here); apply the source and the release; request a reconcile from Flux if the
values changed; `plan_status` from the release as stored by that apply; record a finished rollout on the release; write the status. The
children are applied outside a plan, because the status depends on the release that the apply returns.
`finalize`: read the remaining children, take the next step of the uninstall.

Guarantees: level-triggered and idempotent: a reconcile decides by the present state, can be killed at any point and repeated, and writes
nothing at rest.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.errors import BadRequest, Conflict, Invalid, NotOurs, ObjectChanged
from konverge.outcome import Done, Outcome, RequeueAfter
from konverge.reconcilers.apps.act import annotate, delete_without_uninstall, take_step
from konverge.reconcilers.apps.contention import keeper_other_than
from konverge.reconcilers.apps.decide import (
    Proceed,
    facts_of,
    plan_apply,
    plan_refused,
    plan_status,
    plan_yielding,
    request_annotations,
)
from konverge.reconcilers.apps.observe import ObservedInstance, applied_children, check_key, observe, observe_remaining
from konverge.reconcilers.apps.plans import plan_for
from konverge.reconcilers.apps.settings import Settings
from konverge.reconcilers.apps.uninstall import next_step
from konverge.reconcilers.shared.delays import READ_AGAIN

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["ApplicationInstanceReconciler"]

_TRIES = 3


class ApplicationInstanceReconciler:
    """Reconciles an ApplicationInstance into a Flux HelmRelease and its source.

    >>> ApplicationInstanceReconciler(Settings()).settings.drift_detection
    'enabled'
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    async def reconcile(self, instance: ApplicationInstance, ctx: Context[ApplicationInstance]) -> Outcome:
        """Apply the source and the HelmRelease of the instance, and set its conditions from their status."""
        observed = observe(instance, ctx, self.settings)
        start = plan_apply(observed, self.settings, ctx.now())
        if not isinstance(start, Proceed):
            return await ctx.execute(start)
        keeper = await self.keeper(instance, start.release, ctx)
        if keeper:
            return await self._yield_to(keeper, observed, start.release, ctx)
        observed = await self._with_key(observed, start, ctx)
        try:
            result = await ctx.apply_children(start.children)
        except (NotOurs, Invalid, BadRequest) as error:
            return await ctx.execute(plan_refused(observed, error, ctx.now(), self.settings.refused_retry))
        applied = applied_children(observed, result, oci=start.desired.oci)
        facts = facts_of(observed, start.desired, applied, self.settings, ctx.now())
        requested = request_annotations(facts, applied)
        if requested:
            applied = replace(applied, release=await annotate(applied.release, requested, ctx))
            facts = facts_of(observed, start.desired, applied, self.settings, ctx.now())
        status = plan_status(observed, facts, applied)
        if status.annotations:
            await annotate(applied.release, status.annotations, ctx)
        return await ctx.execute(status.plan)

    async def keeper(self, instance: ApplicationInstance, release: str, ctx: Context[ApplicationInstance]) -> str:
        """Return the name of another instance that keeps this Helm release, "" without one."""
        return await keeper_other_than(instance.metadata, release, self.settings, ctx)

    async def _yield_to(
        self, keeper: str, observed: ObservedInstance, release: str, ctx: Context[ApplicationInstance]
    ) -> Outcome:
        """Apply nothing, and delete an own HelmRelease without an uninstall: the workload belongs to the other instance."""
        mine = observed.own_release
        if mine is not None and not mine.metadata.deleting:
            try:
                await delete_without_uninstall(mine, ctx)
            except ObjectChanged:
                return RequeueAfter(READ_AGAIN)
        return await ctx.execute(plan_yielding(observed, release, keeper, ctx.now(), self.settings.refused_retry))

    async def _with_key(
        self, observed: ObservedInstance, start: Proceed, ctx: Context[ApplicationInstance]
    ) -> ObservedInstance:
        """Check that the key of the values exists, unless this state of them was rolled out before."""
        if observed.values is None or not observed.values.exists:
            return observed
        if observed.own_release is not None and start.desired.is_rolled_out_on(observed.own_release):
            return observed
        return replace(observed, values=await check_key(observed.values, ctx))

    async def finalize(self, instance: ApplicationInstance, ctx: Context[ApplicationInstance]) -> Outcome:
        """Uninstall the release first, then delete its sources; Done when no child of the instance remains."""
        for _ in range(_TRIES - 1):
            try:
                return await self._uninstall(instance, ctx)
            except Conflict:
                # Another writer changed the release between the read and the write: read it again, it may be suspended or deleted.
                ctx.log.debug("the release changed during the uninstall; reading it again")
        return await self._uninstall(instance, ctx)

    async def _uninstall(self, instance: ApplicationInstance, ctx: Context[ApplicationInstance]) -> Outcome:
        left = await observe_remaining(instance, self.settings, ctx)
        step = next_step(left, ctx.now(), self.settings.uninstall_patience)
        await take_step(step, ctx)
        if step.report is None:
            return Done()
        return await ctx.execute(plan_for(instance, step.report, ctx.now(), outcome=RequeueAfter(step.wait)))
