"""The writes to a HelmRelease whose response the next step needs: annotations before the status, and a delete of a suspended release.

Guarantees: each write but an annotation changes exactly the version that was read. helm-controller drops the finalizer of a suspended
HelmRelease without an uninstall, so a release is suspended or resumed first, and deleted with the version and uid of that response.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from konverge.crds.apps_v1alpha1 import ApplicationInstance
from konverge.errors import NotFound
from konverge.kinds import kind_of
from konverge.objects import Object
from konverge.reconcilers.apps.kinds import HELM_RELEASE
from konverge.reconcilers.apps.uninstall import UninstallStep

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["annotate", "delete_without_uninstall", "take_step"]


async def annotate(
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


async def delete_without_uninstall(release: Object, ctx: Context[ApplicationInstance]) -> None:
    """Delete exactly this release without an uninstall."""
    stored = await _suspend(release, ctx, suspend=True)
    await ctx.delete(HELM_RELEASE, expect=stored)


async def take_step(step: UninstallStep, ctx: Context[ApplicationInstance]) -> None:
    """Take a step of the uninstall; raises Conflict if the release changed since it was read."""
    if step.orphan is not None:
        await delete_without_uninstall(step.orphan, ctx)
    resumed = None if step.resume is None else await _suspend(step.resume, ctx, suspend=False)
    for child in step.delete:
        if child.kind_name == HELM_RELEASE.kind:
            await ctx.delete(HELM_RELEASE, expect=resumed or child)
        else:
            await ctx.delete(kind_of(child), child.name, child.namespace, uid=child.metadata.uid)


async def _suspend(release: Object, ctx: Context[ApplicationInstance], *, suspend: bool) -> Object:
    return await ctx.patch(HELM_RELEASE, expect=release, patch={"spec": {"suspend": suspend}})
