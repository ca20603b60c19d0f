"""S3 in memory: buckets of several accounts with versions, and failures on request. Time is not needed."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from konverge.reconcilers.pools.buckets.api import PAGE, ObjectVersion, S3Access, S3Api, Upload, VersionPage
from konverge.reconcilers.pools.buckets.failures import BucketFailure, failure_of


@dataclass
class MemoryBucket:
    """A bucket: the access key of its account, and its content."""

    account: str
    tags: dict[str, str] = field(default_factory=dict)
    versions: deque[ObjectVersion] = field(default_factory=deque)
    uploads: list[Upload] = field(default_factory=list)
    locked: set[str] = field(default_factory=set)


class MemoryS3:
    """A server: `S3Connections` to each of its accounts.

    `fail` queues failures of one operation, "" of any; `down` is the failure of every operation while it is set. `log` has the executed
    operations, `versions_deleted` the number of deleted versions.
    """

    def __init__(self) -> None:
        self.buckets: dict[str, MemoryBucket] = {}
        self.revoked: set[str] = set()
        self.down: BucketFailure | None = None
        self.has_tags = True
        self.log: Counter[str] = Counter()
        self.deleted_buckets: list[str] = []
        self.closed = False
        self.path_styles: set[bool] = set()
        """How the accounts put the bucket into URLs."""
        self.accounts: set[tuple[str, str]] = set()
        """Endpoint and access key of each account that was used."""
        self._failures: list[tuple[str, BucketFailure]] = []

    @property
    def made(self) -> list[str]:
        """The buckets except users' buckets, whose names begin with `theirs`."""
        return [name for name in self.buckets if not name.startswith("theirs")]

    def fail(self, failure: BucketFailure, operation: str = "", *, times: int = 1) -> None:
        """Queue failures."""
        self._failures += [(operation, failure)] * times

    def fill(self, bucket: str, versions: int, *, account: str = "ours") -> MemoryBucket:
        """Create a bucket with this many versions."""
        made = self.buckets.setdefault(bucket, MemoryBucket(account))
        made.versions.extend(ObjectVersion(f"file-{number % 100}", str(number)) for number in range(versions))
        return made

    @asynccontextmanager
    async def of(self, access: S3Access) -> AsyncIterator[S3Api]:
        """Return the operations of an account: its name is the access key."""
        self.path_styles.add(access.path_style)
        self.accounts.add((access.endpoint, access.access_key))
        yield _Account(self, access.access_key)

    async def close(self) -> None:
        """End the connections."""
        self.closed = True

    def check(self, operation: str, account: str) -> None:
        """Raise the failure that is due."""
        self.log[operation] += 1
        if self.down is not None:
            raise self.down
        for index, (name, failure) in enumerate(self._failures):
            if name in {"", operation}:
                del self._failures[index]
                raise failure
        if account in self.revoked:
            raise failure_of(operation, "InvalidAccessKeyId", 403)


class _Account:
    def __init__(self, server: MemoryS3, account: str) -> None:
        self._server = server
        self._account = account

    def _bucket(self, operation: str, name: str) -> MemoryBucket:
        self._server.check(operation, self._account)
        found = self._server.buckets.get(name)
        if found is None:
            raise failure_of(operation, "NoSuchBucket", 404)
        if found.account != self._account:
            raise failure_of(operation, "AccessDenied", 403)
        return found

    async def head(self, bucket: str) -> bool:
        try:
            self._bucket("HeadBucket", bucket)
        except BucketFailure as failure:
            if failure.absent:
                return False
            raise
        return True

    async def create(self, bucket: str) -> None:
        self._server.check("CreateBucket", self._account)
        found = self._server.buckets.setdefault(bucket, MemoryBucket(self._account))
        if found.account != self._account:
            raise failure_of("CreateBucket", "BucketAlreadyExists", 409)

    async def tags(self, bucket: str) -> Mapping[str, str] | None:
        return self._bucket("GetBucketTagging", bucket).tags if self._server.has_tags else None

    async def tag(self, bucket: str, tags: Mapping[str, str]) -> None:
        self._bucket("PutBucketTagging", bucket).tags = dict(tags)

    async def first_versions(self, bucket: str, prefix: str = "") -> VersionPage:
        found = [one for one in self._bucket("ListObjectVersions", bucket).versions if one.key.startswith(prefix)]
        return VersionPage(found[:PAGE], len(found) > PAGE)

    async def delete_versions(self, bucket: str, versions: Sequence[ObjectVersion]) -> Mapping[str, int]:
        found = self._bucket("DeleteObjects", bucket)
        assert len(versions) <= PAGE
        named = {(one.key, one.version) for one in versions if one.key not in found.locked}
        found.versions = deque(one for one in found.versions if (one.key, one.version) not in named)
        return {"AccessDenied": len(versions) - len(named)} if len(named) < len(versions) else {}

    async def uploads(self, bucket: str) -> Sequence[Upload]:
        return list(self._bucket("ListMultipartUploads", bucket).uploads)

    async def abort(self, bucket: str, upload: Upload) -> None:
        self._bucket("AbortMultipartUpload", bucket).uploads.remove(upload)

    async def delete(self, bucket: str) -> bool:
        try:
            found = self._bucket("DeleteBucket", bucket)
        except BucketFailure as failure:
            if failure.absent:
                return True
            raise
        if found.versions or found.uploads:
            return False
        del self._server.buckets[bucket]
        self._server.deleted_buckets.append(bucket)
        return True
