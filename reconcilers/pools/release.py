"""The release of an instance by its Nextcloud, and by the sweeper of orphans: one step at a time.

Guarantees: an instance is deleted only by its UID, and only after it was marked as released; with Retain it is only marked. The mark names
the claim, so an instance cannot be released by another Nextcloud than its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from konverge.errors import ObjectChanged, RetryAfter
from konverge.objects import Object
from konverge.reconcilers.pools.kinds import INSTANCE
from konverge.reconcilers.pools.words import PoolsAnnotation
from konverge.reconcilers.shared.delays import READ_AGAIN

if TYPE_CHECKING:
    from konverge.kinds import Resource
    from konverge.runtime import Context

__all__ = ["is_retained", "release_step"]


def is_retained(instance: Object) -> bool:
    """Whether the instance stays after the deletion of its Nextcloud."""
    return bool(instance.get("spec", "reclaimPolicy", default="Delete") == "Retain")


async def release_step(instance: Object, uid: str, ctx: Context[Resource]) -> bool:
    """Take the next step of an instance's release; returns whether to wait for its deletion. Raises RetryAfter if it changed.

    The instance has to be read live.
    """
    metadata = instance.metadata
    try:
        if metadata.annotation(PoolsAnnotation.RELEASED) != uid:
            patch = {"metadata": {"annotations": {PoolsAnnotation.RELEASED: uid}}}
            instance = await ctx.patch(INSTANCE, expect=instance, patch=patch)
            metadata = instance.metadata
        if is_retained(instance):
            return metadata.deleting
        if not metadata.deleting:
            # The version too: an administrator may set Retain at this very time.
            await ctx.delete(INSTANCE, expect=instance)
    except ObjectChanged as race:
        if race.deleted:
            return False
        raise RetryAfter(READ_AGAIN, f"NextcloudInstance {metadata.path} changed; reading it again") from race
    return True
