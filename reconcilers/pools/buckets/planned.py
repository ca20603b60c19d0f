"""S3 servers in a plan (`konverge plan`): reads are the servers' own, effects are only remembered.

Guarantees: no bucket, tag, version or upload of a server changes. Later reads of the same plan show the effects.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from konverge.reconcilers.pools.buckets.api import ObjectVersion, S3Access, S3Api, S3Connections, Upload, VersionPage

__all__ = ["PlannedS3"]


@dataclass(slots=True)
class _Effects:
    """The planned effects on one server, by bucket."""

    exists: dict[str, bool] = field(default_factory=dict)
    tags: dict[str, Mapping[str, str]] = field(default_factory=dict)
    emptied: set[str] = field(default_factory=set)
    aborted: set[tuple[str, Upload]] = field(default_factory=set)


class _PlannedApi:
    """An `S3Api` over an account of a server."""

    def __init__(self, inner: S3Api, effects: _Effects) -> None:
        self._inner = inner
        self._effects = effects

    async def head(self, bucket: str) -> bool:
        known = self._effects.exists.get(bucket)
        return await self._inner.head(bucket) if known is None else known

    async def create(self, bucket: str) -> None:
        if not await self.head(bucket):
            self._effects.exists[bucket] = True
            self._effects.emptied.add(bucket)
            self._effects.tags.setdefault(bucket, {})

    async def tags(self, bucket: str) -> Mapping[str, str] | None:
        return self._effects.tags[bucket] if bucket in self._effects.tags else await self._inner.tags(bucket)

    async def tag(self, bucket: str, tags: Mapping[str, str]) -> None:
        self._effects.tags[bucket] = dict(tags)

    async def first_versions(self, bucket: str, prefix: str = "") -> VersionPage:
        if bucket in self._effects.emptied:
            return VersionPage((), False)
        return await self._inner.first_versions(bucket, prefix)

    async def delete_versions(self, bucket: str, versions: Sequence[ObjectVersion]) -> Mapping[str, int]:  # noqa: ARG002  # the signature is the protocol's
        self._effects.emptied.add(bucket)
        return {}

    async def uploads(self, bucket: str) -> Sequence[Upload]:
        if self._effects.exists.get(bucket):
            return ()
        return [upload for upload in await self._inner.uploads(bucket) if (bucket, upload) not in self._effects.aborted]

    async def abort(self, bucket: str, upload: Upload) -> None:
        self._effects.aborted.add((bucket, upload))

    async def delete(self, bucket: str) -> bool:
        self._effects.exists[bucket] = False
        self._effects.tags.pop(bucket, None)
        return True


class PlannedS3:
    """`S3Connections` without effects, over the connections of the operator, which the operator closes."""

    def __init__(self, inner: S3Connections) -> None:
        self._inner = inner
        self._servers: dict[str, _Effects] = {}

    @asynccontextmanager
    async def of(self, access: S3Access) -> AsyncIterator[S3Api]:
        """Return the operations of an account."""
        async with self._inner.of(access) as api:
            yield _PlannedApi(api, self._servers.setdefault(access.endpoint, _Effects()))

    async def close(self) -> None:
        """Close nothing: the connections are the operator's."""
