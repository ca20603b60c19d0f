"""The operations of S3 that the logic of buckets needs, and the account that they use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

__all__ = ["PAGE", "ObjectVersion", "S3Access", "S3Api", "S3Connections", "Upload", "VersionPage"]

PAGE = 1000
"""How many versions one DeleteObjects may name: a limit of S3."""


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Access:
    """An account of an S3 server.

    `path_style` puts the bucket into the path instead of the host name: self-hosted servers rarely have a certificate for each bucket.
    `ca_bundle` (PEM) replaces the system's authorities. The keys are not part of the repr. `public_only` is for a server that a tenant
    named: its name must resolve to public addresses, and no proxy is used, since a proxy would resolve the name itself.
    """

    endpoint: str
    region: str = "us-east-1"
    access_key: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)
    path_style: bool = True
    ca_bundle: str = field(default="", repr=False)
    public_only: bool = False


@dataclass(frozen=True, slots=True)
class ObjectVersion:
    """One version of an object, or a delete marker. Its key is data of a user, so it is not part of the repr."""

    key: str = field(repr=False)
    version: str = ""


@dataclass(frozen=True, slots=True)
class Upload:
    """A multipart upload that was not completed."""

    key: str = field(repr=False)
    upload: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class VersionPage:
    """One page of the versions and delete markers of a bucket."""

    versions: Sequence[ObjectVersion]
    truncated: bool


class S3Api(Protocol):
    """Single operations on one account; each raises BucketFailure."""

    async def head(self, bucket: str) -> bool:
        """Tell whether the bucket exists. A bucket of another account and refused keys are the same failure here: CREDENTIALS."""
        ...

    async def create(self, bucket: str) -> None:
        """Create the bucket; succeeds if this account already has the bucket."""
        ...

    async def tags(self, bucket: str) -> Mapping[str, str] | None:
        """Return the tags of the bucket; None if the server has no tags of buckets."""
        ...

    async def tag(self, bucket: str, tags: Mapping[str, str]) -> None:
        """Replace the tags of the bucket; a server without tags ignores it."""
        ...

    async def first_versions(self, bucket: str, prefix: str = "") -> VersionPage:
        """Return the first page of versions and delete markers below a prefix."""
        ...

    async def delete_versions(self, bucket: str, versions: Sequence[ObjectVersion]) -> Mapping[str, int]:
        """Delete at most PAGE versions; return the error codes of the versions that stay, with their numbers."""
        ...

    async def uploads(self, bucket: str) -> Sequence[Upload]:
        """Return some uploads that were not completed; none if the server cannot list them."""
        ...

    async def abort(self, bucket: str, upload: Upload) -> None:
        """Abort an upload; succeeds if it does not exist any more."""
        ...

    async def delete(self, bucket: str) -> bool:
        """Delete the bucket; False if it is not empty, True if it does not exist any more."""
        ...


class S3Connections(Protocol):
    """Accounts of S3 servers, as operations; keeps connections between calls, until `close`."""

    def of(self, access: S3Access) -> AbstractAsyncContextManager[S3Api]:
        """Return the operations of an account; entering raises BucketFailure if the S3 client is not installed."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...
