"""The vocabulary of buckets."""

from __future__ import annotations

from typing import Final

__all__ = ["BucketReason"]

OWNER_TAG: Final = "konverge-owner"
"""The tag of a bucket that this program created: the UID of the instance that it belongs to."""


class BucketReason:
    """Reasons of a bucket that is not ready, or cannot be deleted."""

    TAKEN: Final = "BucketTaken"
    """The bucket belongs to another owner."""
    CREDENTIALS: Final = "BucketCredentialsRefused"
    ENDPOINT: Final = "BucketEndpointRefused"
    """Credentials are not sent to this server: the tenant may not name it, or the credentials belong to the other side."""
    BUSY: Final = "BucketServerBusy"
    """The server refused a call for its load, until the retries were used up."""
    UNREACHABLE: Final = "BucketServerUnreachable"
    REFUSED: Final = "BucketRefused"
    """The server refused a call for another reason."""
    KEPT: Final = "BucketObjectsKept"
    """Objects cannot be deleted: a retention lock or a policy holds them."""
    CLIENT_MISSING: Final = "BucketClientMissing"
    """The S3 client is not installed."""
    PROVISIONING: Final = "BucketProvisioning"
    EMPTYING: Final = "BucketEmptying"
    NOT_SERVED: Final = "ObjectBucketClaimNotServed"
