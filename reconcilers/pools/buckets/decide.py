"""Whose bucket it is, and whether it is ready. Pure.

Errors: BucketFailure for a bucket that belongs to another owner, or that its provisioner could not create.
"""

from __future__ import annotations

from collections.abc import Mapping

from konverge.objects import Object
from konverge.reconcilers.pools.buckets.failures import BucketFailure
from konverge.reconcilers.pools.buckets.provider import BucketInProgress, BucketReady, BucketRequest
from konverge.reconcilers.pools.buckets.words import OWNER_TAG, BucketReason
from konverge.words import Label

__all__ = ["check_claim", "claim_in_progress", "claimed_bucket", "has_owner", "unowned_content"]


def has_owner(wanted: BucketRequest, tags: Mapping[str, str] | None) -> bool:
    """Tell whether a bucket has its owner's tag; True if the server has no tags (None). Raises BucketFailure for another owner's tag."""
    if tags is None:
        return True
    owner = tags.get(OWNER_TAG, "")
    if owner and owner != wanted.owner:
        raise BucketFailure(
            BucketReason.TAKEN,
            f"the bucket {wanted.name} is tagged with another owner ({OWNER_TAG}): it is neither used nor deleted",
        )
    return bool(owner)


def unowned_content(wanted: BucketRequest) -> BucketFailure:
    """Return the failure of a bucket with content and without an owner: a crash before the tag leaves an empty bucket."""
    return BucketFailure(
        BucketReason.TAKEN,
        f"the bucket {wanted.name} has content and no owner: it is neither used nor deleted; "
        f"if it belongs to the instance, tag it with {OWNER_TAG}={wanted.owner}",
    )


def check_claim(claim: Object, wanted: BucketRequest) -> None:
    """Raise BucketFailure if an ObjectBucketClaim was created for another owner."""
    if claim.metadata.label(Label.OWNER_UID) != wanted.owner:
        raise BucketFailure(
            BucketReason.TAKEN,
            f"ObjectBucketClaim {wanted.namespace}/{wanted.object_name} was not made for this instance: it is neither used nor deleted",
        )


def claim_in_progress(claim: Object) -> BucketInProgress | None:
    """Return what an ObjectBucketClaim waits for, None if it is Bound. Raises BucketFailure if its provisioner failed."""
    name, phase = claim.name, str(claim.get("status", "phase") or "Pending")
    if claim.metadata.deleting:
        return BucketInProgress(message=f"ObjectBucketClaim {name} is being deleted")
    if phase == "Failed":
        raise BucketFailure(BucketReason.REFUSED, f"ObjectBucketClaim {name} failed: see its events")
    return None if phase == "Bound" else BucketInProgress(message=f"ObjectBucketClaim {name} is {phase}")


def claimed_bucket(
    wanted: BucketRequest, secret: Object | None, config: Object | None
) -> BucketReady | BucketInProgress:
    """Return the bucket of a Bound ObjectBucketClaim, which its Secret and its ConfigMap describe."""
    if secret is None or config is None:
        missing = "Secret" if secret is None else "ConfigMap"
        return BucketInProgress(
            message=f"ObjectBucketClaim {wanted.object_name} is Bound, and its {missing} does not exist yet"
        )
    data: Mapping[str, str] = config.get("data", default={}) or {}
    host, port = data.get("BUCKET_HOST", ""), data.get("BUCKET_PORT", "")
    scheme = "https" if port in {"", "443"} else "http"
    shown = "" if port in {"", "80", "443"} else f":{port}"
    return BucketReady(
        bucket=data.get("BUCKET_NAME", wanted.name),
        endpoint=f"{scheme}://{host}{shown}" if host else "",
        region=data.get("BUCKET_REGION", ""),
        credentials_secret=wanted.object_name,
    )
