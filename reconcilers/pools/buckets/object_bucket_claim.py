"""Buckets by ObjectBucketClaims (`objectbucket.io/v1alpha1`): Rook and NooBaa create them and their keys.

A claim that is Bound has a Secret and a ConfigMap of its own name; the provisioner writes them before the phase, but a restored or edited
claim can be Bound without them, so both are read. The reclaim policy of the storage class decides whether the data is deleted with the
claim.

Source: https://github.com/kube-object-storage/lib-bucket-provisioner/blob/master/pkg/provisioner/resourcehandlers.go
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from konverge.errors import NotServed
from konverge.kinds import Kind, kind
from konverge.objects import Object
from konverge.reconcilers.pools.buckets.failures import BucketFailure
from konverge.reconcilers.pools.buckets.provider import BucketInProgress, BucketReady, BucketRequest
from konverge.reconcilers.pools.buckets.words import BucketReason
from konverge.runtime import back_reference
from konverge.words import Label

if TYPE_CHECKING:
    from konverge.kinds import Resource
    from konverge.runtime import Context

__all__ = ["OBJECT_BUCKET_CLAIM", "ClaimedBuckets"]

OBJECT_BUCKET_CLAIM: Final[Kind[Object]] = kind(
    "objectbucket.io/v1alpha1", "ObjectBucketClaim", namespaced=True, plural="objectbucketclaims"
)
SECRET: Final[Kind[Object]] = kind("v1", "Secret", namespaced=True, plural="secrets")
CONFIG_MAP: Final[Kind[Object]] = kind("v1", "ConfigMap", namespaced=True, plural="configmaps")


class ClaimedBuckets:
    """The BucketProvider over ObjectBucketClaims of one storage class.

    The claim has the name of its owner and no owner reference: the garbage collector must never delete data.
    """

    def __init__(self, storage_class: str) -> None:
        self._storage_class = storage_class

    async def ensure(self, wanted: BucketRequest, ctx: Context[Resource], /) -> BucketReady | BucketInProgress:
        """Apply the claim if it is missing; its bucket is ready once Secret and ConfigMap exist."""
        claim = await _find(wanted, ctx) or await ctx.apply(self._rendered(wanted, ctx))
        _check_owner(claim, wanted)
        if claim.metadata.deleting:
            return BucketInProgress(message=f"ObjectBucketClaim {claim.name} is being deleted")
        phase = str(claim.get("status", "phase") or "Pending")
        if phase == "Failed":
            raise BucketFailure(BucketReason.REFUSED, f"ObjectBucketClaim {wanted.object_name} failed: see its events")
        if phase != "Bound":
            return BucketInProgress(message=f"ObjectBucketClaim {wanted.object_name} is {phase}")
        secret = await ctx.live(SECRET).find(wanted.namespace, wanted.object_name)
        config = await ctx.live(CONFIG_MAP).find(wanted.namespace, wanted.object_name)
        if secret is None or config is None:
            missing = "Secret" if secret is None else "ConfigMap"
            return BucketInProgress(
                message=f"ObjectBucketClaim {wanted.object_name} is Bound, and its {missing} does not exist yet"
            )
        return _ready(wanted, config.get("data", default={}) or {})

    async def remove(self, wanted: BucketRequest, ctx: Context[Resource], /) -> BucketInProgress | None:
        """Delete the claim, and wait until its provisioner has deleted the bucket."""
        claim = await _find(wanted, ctx)
        if claim is None:
            return None
        _check_owner(claim, wanted)
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


def _check_owner(claim: Object, wanted: BucketRequest) -> None:
    if claim.metadata.label(Label.OWNER_UID) != wanted.owner:
        raise BucketFailure(
            BucketReason.TAKEN,
            f"ObjectBucketClaim {wanted.namespace}/{wanted.object_name} was not made for this instance: it is neither used nor deleted",
        )


def _ready(wanted: BucketRequest, data: Mapping[str, str]) -> BucketReady:
    host, port = data.get("BUCKET_HOST", ""), data.get("BUCKET_PORT", "")
    scheme = "https" if port in {"", "443"} else "http"
    shown = "" if port in {"", "80", "443"} else f":{port}"
    return BucketReady(
        bucket=data.get("BUCKET_NAME", wanted.name),
        endpoint=f"{scheme}://{host}{shown}" if host else "",
        region=data.get("BUCKET_REGION", ""),
        credentials_secret=wanted.object_name,
    )
