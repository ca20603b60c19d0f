"""The stored form of a cached object: decoded metadata, and the bytes of the rest.

Promises: `Cached` is immutable and invisible to the cyclic garbage collector. `data` and `decode` give a private copy each time,
decoded from the bytes, so nobody can corrupt the cache. managedFields are not in the bytes; the field sets that this process's own
managers applied were taken out of them first (`owned`), because they decide whether an apply would change anything.

Does not promise: that `metadata.labels` and `metadata.annotations` are copies; they are shared by all who read this object and are
read only.

Memory of caches that keep every Secret and its managedFields: https://github.com/k8ssandra/k8ssandra-operator/issues/1752
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import msgspec

from konverge.errors import MetadataOnly
from konverge.fields import Owner
from konverge.kinds import Kind, Resource
from konverge.objects import Metadata

__all__ = ["Cached", "Delta"]

R = TypeVar("R", bound=Resource)


class _WithStatus(msgspec.Struct, gc=False):
    status: Any = None


_STATUS = msgspec.json.Decoder(_WithStatus)


class Cached(msgspec.Struct, frozen=True, gc=False):
    """One cached object.

    `body` is its JSON without managedFields, b"" where only metadata is cached. `owned` holds FieldsV1 bytes by owner, None where
    none of our managers applied anything.

    >>> Cached(Metadata(name="target", namespace="web"), b'{"spec":{"replicas":2}}').data()["spec"]
    {'replicas': 2}
    """

    metadata: Metadata
    body: bytes
    owned: dict[Owner, bytes] | None = None

    @property
    def uid(self) -> str:
        """`metadata.uid`."""
        return self.metadata.uid

    @property
    def version(self) -> str:
        """`metadata.resourceVersion`."""
        return self.metadata.resource_version

    @property
    def metadata_only(self) -> bool:
        """Whether nothing but the metadata is cached."""
        return not self.body

    def __repr__(self) -> str:
        """Name the object and nothing of its content, which may be a Secret's."""
        return (
            f"<cached {self.metadata.path} at {self.metadata.resource_version or 'no version'}, {len(self.body)} bytes>"
        )

    def same(self, other: Cached) -> bool:
        """Tell whether this is the same object at the same version."""
        mine, theirs = self.metadata, other.metadata
        return mine.resource_version == theirs.resource_version and mine.uid == theirs.uid

    def data(self) -> dict[str, Any]:
        """Return the object as a fresh dict; only its metadata where nothing else is cached."""
        decoded: dict[str, Any] = (
            msgspec.json.decode(self.body) if self.body else {"metadata": msgspec.to_builtins(self.metadata)}
        )
        return decoded

    def status(self) -> dict[str, Any]:
        """Return the status alone as a fresh dict, {} where there is none, or where only metadata is cached."""
        found = _STATUS.decode(self.body).status if self.body else None
        return found if isinstance(found, dict) else {}

    def decode(self, kind: Kind[R]) -> R:
        """Return the object as one of this kind, a fresh copy.

        Raises InvalidObject where it does not fit the kind's model, MetadataOnly where its body is not cached.
        """
        if not self.body:
            raise MetadataOnly(
                f"{kind.kind} {self.metadata.path} was read, but only its metadata is cached; "
                f"read it live: await ctx.live(...).get({self.metadata.namespace!r}, {self.metadata.name!r})"
            )
        return kind.decode(self.data())


class Delta(NamedTuple):
    """What one event or list item says about one key: the object, or None where it is gone."""

    namespace: str
    name: str
    cached: Cached | None
