"""The release of an instance by its Nextcloud, and by the sweeper of orphans: one step at a time.

Guarantees: an instance is deleted only by its UID, and only after it was marked as released; with Retain it is only marked. The mark names
the claim, so an instance cannot be released by another Nextcloud than its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from konverge.errors import Conflict, NotFound, RetryAfter
from konverge.objects import Object
from konverge.reconcilers.pools.kinds import INSTANCE
from konverge.reconcilers.pools.words import PoolsAnnotation

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["is_retained", "release_step"]


def is_retained(instance: Object) -> bool:
    """Whether the instance stays when its Nextcloud goes."""
    return bool(instance.get("spec", "reclaimPolicy", default="Delete") == "Retain")


async def release_step(instance: Object, uid: str, ctx: Context[Any]) -> bool:
    """Release an instance that was read live; returns whether its end is still to be waited for. Raises RetryAfter if it changed."""
    metadata = instance.metadata
    try:
        if metadata.annotation(PoolsAnnotation.RELEASED) != uid:
            guard = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
            patch = {"metadata": {**guard, "annotations": {PoolsAnnotation.RELEASED: uid}}}
            instance = await ctx.patch(INSTANCE, metadata.name, metadata.namespace, patch=patch)
            metadata = instance.metadata
        if is_retained(instance):
            return metadata.deleting
        if not metadata.deleting:
            # The version too: an administrator may set Retain at this very moment.
            await ctx.delete(
                INSTANCE,
                metadata.name,
                metadata.namespace,
                uid=metadata.uid,
                resource_version=metadata.resource_version,
            )
    except NotFound:
        return False
    except Conflict as error:
        raise RetryAfter(1, f"NextcloudInstance {metadata.path} changed; reading it again") from error
    return True
