"""The reconciler of ApplicationInstances: the async shell around the pure decisions of this folder.

`reconcile`: observe; `plan_apply` (a Blocked instance ends here); apply the source and the release; request a reconcile from Flux if the
values changed; `plan_status` from the release as stored by that apply; record a finished rollout on the release; write the status.
`finalize`: read the remaining children, take the next step of the uninstall.

Guarantees: level-triggered and idempotent: a reconcile decides by the present state, can be killed at any point and repeated, and writes
nothing at rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.errors import BadRequest, Conflict, Invalid, NotFound, NotOurs, NotServed, ObjectChanged
from konverge.kinds import Kind, kind_of
from konverge.objects import Object
from konverge.outcome import Done, Outcome, RequeueAfter
from konverge.reconcilers.apps.contention import keeper_other_than
from konverge.reconcilers.apps.decide import (
    AppliedChildren,
    Proceed,
    facts_of,
    plan_apply,
    plan_refused,
    plan_status,
    plan_yielding,
    request_annotations,
)
from konverge.reconcilers.apps.kinds import HELM_RELEASE, HELM_REPOSITORY, OCI_REPOSITORY
from konverge.reconcilers.apps.observe import ObservedInstance, check_key, controls, observe
from konverge.reconcilers.apps.plans import plan_for
from konverge.reconcilers.apps.settings import Settings
from konverge.reconcilers.apps.uninstall import RemainingChildren, next_step
from konverge.reconcilers.shared.delays import READ_AGAIN

if TYPE_CHECKING:
    from konverge.runtime import Applied, Context

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
        applied = _applied_children(observed, start, result)
        facts = facts_of(observed, start.desired, applied, self.settings, ctx.now())
        requested = request_annotations(facts, applied)
        if requested:
            applied = replace(applied, release=await _annotate(applied.release, requested, ctx))
            facts = facts_of(observed, start.desired, applied, self.settings, ctx.now())
        status = plan_status(observed, facts, applied)
        if status.annotations:
            await _annotate(applied.release, status.annotations, ctx)
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
                await _delete_without_uninstall(mine, ctx)
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
        step = next_step(
            await _remaining_children(instance, self.settings, ctx), ctx.now(), self.settings.uninstall_patience
        )
        if step.orphan is not None:
            await _delete_without_uninstall(step.orphan, ctx)
        resumed = None if step.resume is None else await _suspend(step.resume, ctx, suspend=False)
        for child in step.delete:
            if child.kind_name == HELM_RELEASE.kind:
                await ctx.delete(HELM_RELEASE, expect=resumed or child)
            else:
                await ctx.delete(kind_of(child), child.name, child.namespace, uid=child.metadata.uid)
        if step.report is None:
            return Done()
        return await ctx.execute(plan_for(instance, step.report, ctx.now(), outcome=RequeueAfter(step.wait)))


def _applied_children(observed: ObservedInstance, start: Proceed, applied: Applied) -> AppliedChildren:
    """Return the children as stored after the apply; a child whose apply was held, as the cache has it."""
    source = OCI_REPOSITORY if start.desired.oci else HELM_REPOSITORY
    return AppliedChildren(
        release=applied.find(HELM_RELEASE) or observed.release,
        source=applied.find(source) or observed.source,
        chart=observed.chart,
        held=applied.held,
        created=observed.release is None,
    )


async def _annotate(
    release: Object | None, annotations: Mapping[str, str], ctx: Context[ApplicationInstance]
) -> Object | None:
    """Patch annotations that the applied intent does not contain; if the release was deleted, the next reconcile handles it.

    Raises Conflict, so that the reconcile is repeated: a server may refuse a patch although the release did not change, and then no event
    follows.
    """
    if release is None:
        return None
    patch = {"metadata": {"uid": release.metadata.uid, "annotations": dict(annotations)}}
    try:
        return await ctx.patch(HELM_RELEASE, release.name, release.namespace, patch=patch)
    except NotFound:
        return release


async def _suspend(release: Object, ctx: Context[ApplicationInstance], *, suspend: bool) -> Object:
    """Suspend or resume exactly this version of the release; the delete that follows names the returned version."""
    return await ctx.patch(HELM_RELEASE, expect=release, patch={"spec": {"suspend": suspend}})


async def _delete_without_uninstall(release: Object, ctx: Context[ApplicationInstance]) -> None:
    """Delete exactly this release without an uninstall: helm-controller only drops the finalizer of a suspended release."""
    stored = await _suspend(release, ctx, suspend=True)
    await ctx.delete(HELM_RELEASE, expect=stored)


async def _remaining_children(
    instance: ApplicationInstance, settings: Settings, ctx: Context[ApplicationInstance]
) -> RemainingChildren:
    """Read the remaining children live: a stale cache must not decide a delete."""

    async def find(kind: Kind[Object]) -> Object | None:
        try:
            return await ctx.live(kind).find(instance.namespace, instance.name)
        except NotServed:
            return None  # no CRD, so no object

    release = await find(HELM_RELEASE)
    sources = [await find(kind) for kind in (HELM_REPOSITORY, OCI_REPOSITORY)]
    keeper = ""
    if release is not None and controls(instance.metadata, release):
        name = release.get("spec", "releaseName", default="")
        keeper = await keeper_other_than(instance.metadata, name, settings, ctx)
    return RemainingChildren(
        owner=instance.metadata,
        release=release,
        sources=tuple(source for source in sources if source is not None),
        keeper=keeper,
    )
