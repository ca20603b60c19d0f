"""Buckets by ObjectBucketClaims (`objectbucket.io/v1alpha1`): Rook and NooBaa create them and their keys.

A claim that is Bound has a Secret and a ConfigMap of its own name; the provisioner writes them before the phase, but a restored or edited
claim can be Bound without them, so both are read. The reclaim policy of the storage class decides whether the data is deleted with the
claim.

Source: https://github.com/kube-object-storage/lib-bucket-provisioner/blob/master/pkg/provisioner/resourcehandlers.go
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from konverge.errors import NotServed
from konverge.kinds import Kind, kind
from konverge.objects import Object
from konverge.reconcilers.pools.buckets.decide import check_claim, claim_in_progress, claimed_bucket
from konverge.reconcilers.pools.buckets.failures import BucketFailure
from konverge.reconcilers.pools.buckets.provider import BucketInProgress, BucketReady, BucketRequest
from konverge.reconcilers.pools.buckets.words import BucketReason
from konverge.reconcilers.pools.kinds import CONFIG_MAP, SECRET
from konverge.runtime import back_reference

if TYPE_CHECKING:
    from konverge.kinds import Resource
    from konverge.runtime import Context

__all__ = ["OBJECT_BUCKET_CLAIM", "ClaimedBuckets"]

OBJECT_BUCKET_CLAIM: Final[Kind[Object]] = kind(
    "objectbucket.io/v1alpha1", "ObjectBucketClaim", namespaced=True, plural="objectbucketclaims"
)


class ClaimedBuckets:
    """The BucketProvider over ObjectBucketClaims of one storage class.

    The claim has the name of its owner and no owner reference: the garbage collector must never delete data.
    """

    def __init__(self, storage_class: str) -> None:
        self._storage_class = storage_class

    async def ensure(self, wanted: BucketRequest, ctx: Context[Resource], /) -> BucketReady | BucketInProgress:
        """Apply the claim if it is missing; its bucket is ready once Secret and ConfigMap exist."""
        claim = await _find(wanted, ctx) or await ctx.apply(self._rendered(wanted, ctx))
        check_claim(claim, wanted)
        progress = claim_in_progress(claim)
        if progress is not None:
            return progress
        secret = await ctx.live(SECRET).find(wanted.namespace, wanted.object_name)
        config = await ctx.live(CONFIG_MAP).find(wanted.namespace, wanted.object_name)
        return claimed_bucket(wanted, secret, config)

    async def remove(self, wanted: BucketRequest, ctx: Context[Resource], /) -> BucketInProgress | None:
        """Delete the claim, and wait until its provisioner has deleted the bucket."""
        claim = await _find(wanted, ctx)
        if claim is None:
            return None
        check_claim(claim, wanted)
        if not claim.metadata.deleting:
            await ctx.delete(OBJECT_BUCKET_CLAIM, expect=claim)
        return BucketInProgress(
            reason=BucketReason.EMPTYING, message=f"ObjectBucketClaim {claim.name} is being deleted by its provisioner"
        )

    def _rendered(self, wanted: BucketRequest, ctx: Context[Resource]) -> Object:
        labels, annotations = back_reference(ctx.object)
        return OBJECT_BUCKET_CLAIM.new(
            wanted.object_name,
            wanted.namespace,
            labels=labels,
            annotations=annotations,
            spec={"bucketName": wanted.name, "storageClassName": self._storage_class},
        )


async def _find(wanted: BucketRequest, ctx: Context[Resource]) -> Object | None:
    try:
        return await ctx.live(OBJECT_BUCKET_CLAIM).find(wanted.namespace, wanted.object_name)
    except NotServed:
        raise BucketFailure(
            BucketReason.NOT_SERVED,
            "the cluster has no ObjectBucketClaim (objectbucket.io): install a provisioner, as Rook is one",
        ) from None
