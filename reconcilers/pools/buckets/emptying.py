"""The deletion of all versions below a prefix, in pages.

Emptying always begins at the first page: deleted versions are not listed any more, so it can be interrupted anywhere.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Final

from konverge.reconcilers.pools.buckets.api import S3Access, S3Api, S3Connections
from konverge.reconcilers.pools.buckets.failures import BucketFailure
from konverge.reconcilers.pools.buckets.provider import BucketInProgress
from konverge.reconcilers.pools.buckets.retries import Retries
from konverge.reconcilers.pools.buckets.words import BucketReason

__all__ = ["PAGES", "S3Folders", "delete_pages"]

PAGES: Final = 20
"""How many pages of versions one call deletes: 20,000 versions, so that a large bucket does not hold a worker for hours."""


async def delete_pages(api: S3Api, retries: Retries, bucket: str, *, prefix: str = "", pages: int = PAGES) -> bool:
    """Delete at most `pages` pages of versions; True if none is left. Raises BucketFailure if some cannot be deleted."""
    for _ in range(pages):
        page = await retries.call(lambda: api.first_versions(bucket, prefix))
        if page.versions:
            stay = await retries.call(partial(api.delete_versions, bucket, page.versions))
            if stay:
                codes = ", ".join(f"{count} x {code}" for code, count in sorted(stay.items()))
                raise BucketFailure(
                    BucketReason.KEPT,
                    f"versions in the bucket {bucket} cannot be deleted ({codes}): remove retention locks and policies that keep them",
                )
        if not page.truncated:
            return True
    return False


class S3Folders:
    """Deletes a folder of a bucket that is not ours: only the objects below the prefix, and never the bucket."""

    def __init__(self, connections: S3Connections, rng: Random, *, pages: int = PAGES) -> None:
        self._connections = connections
        self._retries = Retries(rng)
        self._pages = pages

    async def remove(self, access: S3Access, bucket: str, folder: str) -> BucketInProgress | None:
        """Delete some pages; None if nothing is left below the folder, or the bucket does not exist. Raises BucketFailure."""
        if not folder:
            raise ValueError("an empty folder would be the whole bucket")
        async with self._connections.of(access) as api:
            if not await self._retries.call(lambda: api.head(bucket)):
                return None
            if await delete_pages(api, self._retries, bucket, prefix=f"{folder}/", pages=self._pages):
                return None
        return BucketInProgress(
            reason=BucketReason.EMPTYING,
            message=f"versions are deleted from the folder {folder} of the bucket {bucket}",
        )
