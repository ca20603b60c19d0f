"""BucketProvider: how the reconciler of instances gets a bucket, and has it deleted.

Both steps are level-triggered: each call continues where the last call ended, in whichever process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from konverge.reconcilers.pools.buckets.api import S3Access
from konverge.reconcilers.pools.buckets.words import BucketReason

if TYPE_CHECKING:
    from konverge.kinds import Resource
    from konverge.runtime import Context

__all__ = ["BucketInProgress", "BucketProvider", "BucketReady", "BucketRequest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketRequest:
    """A bucket that belongs to one object.

    `name` contains a part of the owner's UID; `namespace` and `object_name` are the owner's. `access` is for a provider that talks
    to a server.
    """

    name: str
    owner: str
    namespace: str
    object_name: str
    access: S3Access | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketReady:
    """The bucket exists and belongs to the owner; `credentials_secret` holds its keys if the provider created keys."""

    bucket: str
    endpoint: str
    region: str = ""
    credentials_secret: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketInProgress:
    """The step needs more time; call again."""

    message: str
    reason: str = BucketReason.PROVISIONING


class BucketProvider(Protocol):
    """Creates and deletes buckets.

    Guarantees: `ensure` and `remove` are idempotent. `remove` returns None if the bucket does not exist any more, and touches no bucket
    of another owner.

    Errors: BucketFailure.
    """

    async def ensure(self, wanted: BucketRequest, ctx: Context[Resource], /) -> BucketReady | BucketInProgress:
        """Create the bucket if it is missing."""
        ...

    async def remove(self, wanted: BucketRequest, ctx: Context[Resource], /) -> BucketInProgress | None:
        """Delete the bucket and everything in it."""
        ...
