"""A cached object, decoded metadata and the bytes of the rest, and its changes.

Guarantees: `Cached` is immutable and invisible to the cyclic garbage collector. `data` and `decode` return a private copy, decoded from the
bytes, so a reader cannot corrupt the cache. The bytes hold no managedFields; the field sets that this process's own managers applied
are kept in `owned`, because they decide whether an apply would change anything.

Caveats: `metadata.labels` and `metadata.annotations` are shared between readers and read-only.

Memory of caches that keep every Secret and its managedFields: https://github.com/k8ssandra/k8ssandra-operator/issues/1752
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from konverge.errors import MetadataOnly
from konverge.fields import Owner
from konverge.kinds import Kind, Resource
from konverge.objects import Metadata

__all__ = ["Cached", "Change"]

R = TypeVar("R", bound=Resource)


class _WithStatus(msgspec.Struct, gc=False):
    status: Any = None


_STATUS = msgspec.json.Decoder(_WithStatus)


class Cached(msgspec.Struct, frozen=True, gc=False):
    """One cached object.

    `body` is its JSON without managedFields, b"" if only metadata is cached. `owned` holds FieldsV1 bytes by owner, None if no
    manager of this process applied the object.

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
        """Whether only the metadata is cached."""
        return not self.body

    def __repr__(self) -> str:
        """Return name, version and size without content, which may be a Secret's."""
        return (
            f"<cached {self.metadata.path} at {self.metadata.resource_version or 'no version'}, {len(self.body)} bytes>"
        )

    def same(self, other: Cached) -> bool:
        """Report whether this is the same object at the same version."""
        mine, theirs = self.metadata, other.metadata
        return mine.resource_version == theirs.resource_version and mine.uid == theirs.uid

    def data(self) -> dict[str, Any]:
        """Return the object as a new dict, only its metadata if the body is not cached."""
        decoded: dict[str, Any] = (
            msgspec.json.decode(self.body) if self.body else {"metadata": msgspec.to_builtins(self.metadata)}
        )
        return decoded

    def status(self) -> dict[str, Any]:
        """Return the status as a new dict, {} if the object has none or only metadata is cached."""
        status = _STATUS.decode(self.body).status if self.body else None
        return status if isinstance(status, dict) else {}

    def decode(self, kind: Kind[R]) -> R:
        """Return a new copy of the object as an instance of this kind.

        Raises InvalidObject if the object does not fit the kind's model, MetadataOnly if its body is not cached.
        """
        if not self.body:
            raise MetadataOnly(
                f"{kind.kind} {self.metadata.path} was read, but only its metadata is cached; "
                f"read it live: await ctx.live(...).get({self.metadata.namespace!r}, {self.metadata.name!r})"
            )
        return kind.decode(self.data())


class Change(msgspec.Struct, frozen=True, gc=False):
    """A change of one key, from the watch event to the handler: added (`old` None), updated, or deleted (`new` None).

    The decoder leaves `old` empty, and the store sets it to the object that it held. For a handler `old` is the object that it received
    last, and `initial` marks objects that existed when the handler was added.
    """

    namespace: str
    name: str
    old: Cached | None
    new: Cached | None
    initial: bool = False
