"""Buckets of instances: created, checked for their owner, emptied in pages and deleted, by one of two providers.

    words.py                reasons of failures, the tag of the owner
    failures.py             errors of S3 -> BucketFailure
    provider.py             BucketProvider: the protocol of both
    decide.py               the owner and the state of a bucket. Pure
    api.py                  single operations of S3, as the logic needs them; retries.py repeats the operations that a busy server refused
    s3.py                   the provider over S3
    object_bucket_claim.py  the provider over ObjectBucketClaims
    emptying.py             the deletion of versions in pages, of a bucket or of a folder
    act.py                  S3 over HTTP: the only file that knows the S3 client (docs/adr/0015), so it is longer than other files

Guarantees: only a bucket that was created for the same owner is emptied or deleted. No error, event or log line contains a credential.
"""

from __future__ import annotations

from konverge.reconcilers.pools.buckets.api import S3Access, S3Api
from konverge.reconcilers.pools.buckets.emptying import S3Folders
from konverge.reconcilers.pools.buckets.failures import BucketFailure
from konverge.reconcilers.pools.buckets.object_bucket_claim import ClaimedBuckets
from konverge.reconcilers.pools.buckets.provider import BucketInProgress, BucketProvider, BucketReady, BucketRequest
from konverge.reconcilers.pools.buckets.s3 import S3Buckets
from konverge.reconcilers.pools.buckets.words import BucketReason

__all__ = [
    "BucketFailure",
    "BucketInProgress",
    "BucketProvider",
    "BucketReady",
    "BucketReason",
    "BucketRequest",
    "ClaimedBuckets",
    "S3Access",
    "S3Api",
    "S3Buckets",
    "S3Folders",
]
