"""Buckets on an S3 server.

The owner of a bucket is proved twice: the caller's name for it contains the UID of the instance, and a tag holds the whole UID. The tag is
set after the create, so a bucket of that name without a tag is left from a crash between the two, and gets its tag. A bucket with another
owner's tag is neither used nor emptied. CreateBucket proves nothing: in us-east-1 it succeeds for each bucket of the same account
(https://docs.aws.amazon.com/AmazonS3/latest/API/API_CreateBucket.html#API_CreateBucket_Errors).
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING

from konverge.reconcilers.pools.buckets.api import S3Access, S3Api, S3Connections
from konverge.reconcilers.pools.buckets.decide import has_owner, unowned_content
from konverge.reconcilers.pools.buckets.emptying import PAGES, delete_pages
from konverge.reconcilers.pools.buckets.failures import BucketFailure
from konverge.reconcilers.pools.buckets.provider import BucketInProgress, BucketReady, BucketRequest
from konverge.reconcilers.pools.buckets.retries import Retries
from konverge.reconcilers.pools.buckets.words import OWNER_TAG, BucketReason

if TYPE_CHECKING:
    from konverge.kinds import Resource
    from konverge.runtime import Context

__all__ = ["S3Buckets"]


class S3Buckets:
    """The BucketProvider over S3."""

    def __init__(self, connections: S3Connections, rng: Random, *, pages: int = PAGES) -> None:
        self._connections = connections
        self._retries = Retries(rng)
        self._pages = pages

    async def ensure(self, wanted: BucketRequest, _ctx: Context[Resource], /) -> BucketReady | BucketInProgress:
        """Create the bucket if it is missing, and tag it with its owner."""
        access = _access_of(wanted)
        async with self._connections.of(access) as api:
            await self._create(api, wanted.name)
            if not await self._is_ours(api, wanted):
                await self._retries.call(lambda: api.tag(wanted.name, {OWNER_TAG: wanted.owner}))
        return BucketReady(bucket=wanted.name, endpoint=access.endpoint, region=access.region)

    async def _create(self, api: S3Api, name: str) -> None:
        try:
            if await self._retries.call(lambda: api.head(name)):
                return
        except BucketFailure as failure:
            # A HEAD has no error code: the response to the create distinguishes another account's bucket from refused keys.
            if failure.reason != BucketReason.CREDENTIALS:
                raise
        await self._retries.call(lambda: api.create(name))

    async def remove(self, wanted: BucketRequest, _ctx: Context[Resource], /) -> BucketInProgress | None:
        """Delete some pages of versions, and the bucket once it is empty."""
        async with self._connections.of(_access_of(wanted)) as api:
            if not await self._retries.call(lambda: api.head(wanted.name)):
                return None
            await self._is_ours(api, wanted)
            return await self._empty(api, wanted.name)

    async def _empty(self, api: S3Api, name: str) -> BucketInProgress | None:
        if await delete_pages(api, self._retries, name, pages=self._pages):
            return await self._delete_empty(api, name)
        return BucketInProgress(reason=BucketReason.EMPTYING, message=f"versions are deleted from the bucket {name}")

    async def _is_ours(self, api: S3Api, wanted: BucketRequest) -> bool:
        """Tell whether the bucket has its owner's tag, or could not have one; False: it is empty, as a crash before the tag leaves it.

        Raises BucketFailure if it has another owner's tag, or content without a tag.
        """
        tags = await self._retries.call(lambda: api.tags(wanted.name))
        if has_owner(wanted, tags):
            return True
        if (await self._retries.call(lambda: api.first_versions(wanted.name))).versions:
            raise unowned_content(wanted)
        return False

    async def _delete_empty(self, api: S3Api, name: str) -> BucketInProgress | None:
        call = self._retries.call
        if await call(lambda: api.delete(name)):
            return None
        for upload in await call(lambda: api.uploads(name)):
            await call(partial(api.abort, name, upload))
        if await call(lambda: api.delete(name)):
            return None
        return BucketInProgress(reason=BucketReason.EMPTYING, message=f"the bucket {name} is still written to")


def _access_of(wanted: BucketRequest) -> S3Access:
    if wanted.access is None:
        raise BucketFailure(
            BucketReason.CREDENTIALS,
            "no account of an S3 server is known: name a Secret with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in s3.credentialsSecret, "
            "and an endpoint in s3.endpoint",
        )
    return wanted.access
