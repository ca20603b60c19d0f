"""The reconciler of ApplicationInstances: reads, asks the pure parts, carries out what they say.

One pass of `reconcile`: observe; `begin` (Blocked ends it); apply the source and the release; ask Flux where values changed; `judge` by
the release as it is stored now; note what was rolled out; write the status. One pass of `finalize`: read what is left, take the
next step of the uninstall.

Promises: safe to repeat and to kill anywhere: each pass is decided by what is, the writes are idempotent, and at rest there are none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.errors import BadRequest, Conflict, Invalid, NotFound, NotOurs, NotServed
from konverge.kinds import Kind, kind_of
from konverge.objects import Object
from konverge.outcome import Done, Outcome, RequeueAfter
from konverge.reconcilers.apps.contention import keeper_other_than
from konverge.reconcilers.apps.decide import Go, Landed, begin, facts, judge, refused, requests, yielding
from konverge.reconcilers.apps.kinds import HELM_RELEASE, HELM_REPOSITORY, OCI_REPOSITORY
from konverge.reconcilers.apps.observe import Seen, look_for_key, observe, ours
from konverge.reconcilers.apps.plans import plan_for
from konverge.reconcilers.apps.settings import Settings
from konverge.reconcilers.apps.uninstall import Left, next_step

if TYPE_CHECKING:
    from konverge.runtime import Applied, Context

__all__ = ["ApplicationInstanceReconciler"]

_TRIES = 3
_SOON = timedelta(seconds=1)


class ApplicationInstanceReconciler:
    """Makes a Flux HelmRelease of an ApplicationInstance, and says how it fares.

    >>> ApplicationInstanceReconciler(Settings()).settings.drift_detection
    'enabled'
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    async def reconcile(self, instance: ApplicationInstance, ctx: Context[Any]) -> Outcome:
        """Bring release and source to what the instance asks for, and report."""
        seen = observe(instance, ctx, self.settings)
        start = begin(seen, self.settings, ctx.now())
        if not isinstance(start, Go):
            return await ctx.execute(start)
        keeper = await self.keeper(instance, start.release, ctx)
        if keeper:
            return await self._yield_to(keeper, seen, start.release, ctx)
        seen = await self._with_key(seen, start, ctx)
        try:
            applied = await ctx.apply_children(start.children)
        except (NotOurs, Invalid, BadRequest) as error:
            return await ctx.execute(refused(seen, error, ctx.now(), self.settings.refused_retry))
        landed = _landed(seen, start, applied)
        known = facts(seen, start.wanted, landed, self.settings, ctx.now())
        asked = requests(known, landed)
        if asked:
            landed = replace(landed, release=await _annotate(landed.release, asked, ctx))
            known = facts(seen, start.wanted, landed, self.settings, ctx.now())
        judgement = judge(seen, known, landed)
        if judgement.note:
            await _annotate(landed.release, judgement.note, ctx)
        return await ctx.execute(judgement.plan)

    async def keeper(self, instance: ApplicationInstance, release: str, ctx: Context[Any]) -> str:
        """Return the name of another instance that keeps this Helm release; "" if there is none."""
        return await keeper_other_than(instance.metadata, release, self.settings, ctx)

    async def _yield_to(self, keeper: str, seen: Seen, release: str, ctx: Context[Any]) -> Outcome:
        """Apply nothing, and give up the HelmRelease if there is one: the other instance has the workload."""
        mine = seen.own_release
        if mine is not None and not mine.metadata.deleting:
            try:
                await _let_go(mine, ctx)
            except (Conflict, NotFound):
                return RequeueAfter(_SOON)  # the release changed meanwhile: look again
        return await ctx.execute(yielding(seen, release, keeper, ctx.now(), self.settings.refused_retry))

    async def _with_key(self, seen: Seen, start: Go, ctx: Context[Any]) -> Seen:
        """Look for the key of the values, unless this very state of them was rolled out before."""
        if seen.values is None or not seen.values.exists:
            return seen
        if seen.own_release is not None and start.wanted.is_noted_on(seen.own_release):
            return seen
        return replace(seen, values=await look_for_key(seen.values, ctx))

    async def finalize(self, instance: ApplicationInstance, ctx: Context[Any]) -> Outcome:
        """Uninstall: the release first, then its sources. Done when nothing of ours is left."""
        for _ in range(_TRIES - 1):
            try:
                return await self._uninstall(instance, ctx)
            except (Conflict, NotFound):
                # Somebody was quicker between the read and the write: look again, the release may be suspended by now, or gone.
                ctx.log.debug("the release changed during the uninstall; looking again")
        return await self._uninstall(instance, ctx)

    async def _uninstall(self, instance: ApplicationInstance, ctx: Context[Any]) -> Outcome:
        step = next_step(await _left(instance, self.settings, ctx), ctx.now(), self.settings.uninstall_patience)
        if step.let_go is not None:
            await _let_go(step.let_go, ctx)
        resumed = None if step.resume is None else await _suspend(step.resume, ctx, suspend=False)
        for child in step.delete:
            expected = child if resumed is None or child.kind_name != HELM_RELEASE.kind else resumed
            guard = expected.metadata.resource_version if child.kind_name == HELM_RELEASE.kind else ""
            await ctx.delete(
                kind_of(child), child.name, child.namespace, uid=child.metadata.uid, resource_version=guard
            )
        if step.says is None:
            return Done()
        return await ctx.execute(plan_for(instance, step.says, ctx.now(), outcome=RequeueAfter(step.wait)))


def _landed(seen: Seen, start: Go, applied: Applied) -> Landed:
    """What lies under the names of the children now: as applied, or as the cache has it where that is held."""
    source = OCI_REPOSITORY if start.wanted.oci else HELM_REPOSITORY
    return Landed(
        release=applied.find(HELM_RELEASE) or seen.release,
        source=applied.find(source) or seen.source,
        chart=seen.chart,
        held=applied.held,
        made=seen.release is None,
    )


async def _annotate(release: Object | None, annotations: Mapping[str, str], ctx: Context[Any]) -> Object | None:
    """Write annotations that are no part of the intent; a release that went away meanwhile is left to the next pass."""
    if release is None:
        return None
    patch = {"metadata": {"uid": release.metadata.uid, "annotations": dict(annotations)}}
    try:
        return await ctx.patch(HELM_RELEASE, release.name, release.namespace, patch=patch)
    except (NotFound, Conflict):
        return release


async def _suspend(release: Object, ctx: Context[Any], *, suspend: bool) -> Object:
    """Suspend or resume exactly this version of the release; what comes back is what the delete refers to."""
    seen = release.metadata
    patch = {"metadata": {"uid": seen.uid, "resourceVersion": seen.resource_version}, "spec": {"suspend": suspend}}
    return await ctx.patch(HELM_RELEASE, release.name, release.namespace, patch=patch)


async def _let_go(release: Object, ctx: Context[Any]) -> None:
    """Delete exactly this release without an uninstall: helm-controller only drops its finalizer from one that is suspended."""
    stored = await _suspend(release, ctx, suspend=True)
    await ctx.delete(
        HELM_RELEASE,
        release.name,
        release.namespace,
        uid=stored.metadata.uid,
        resource_version=stored.metadata.resource_version,
    )


async def _left(instance: ApplicationInstance, settings: Settings, ctx: Context[Any]) -> Left:
    """Read what is left live: a delete is not decided by what a cache remembers."""

    async def find(kind: Kind[Object]) -> Object | None:
        try:
            return await ctx.live(kind).find(instance.namespace, instance.name)
        except NotServed:
            return None  # without the CRD there is no such object

    release = await find(HELM_RELEASE)
    sources = [await find(kind) for kind in (HELM_REPOSITORY, OCI_REPOSITORY)]
    keeper = ""
    if release is not None and ours(instance.metadata, release):
        name = release.get("spec", "releaseName", default="")
        keeper = await keeper_other_than(instance.metadata, name, settings, ctx)
    return Left(
        owner=instance.metadata,
        release=release,
        sources=tuple(source for source in sources if source is not None),
        keeper=keeper,
    )
