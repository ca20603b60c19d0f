"""The argument of a handler: one write, before it happens.

Guarantees: `object` and `old` are the handler's own copies, in the webhook's kind. Reading them decodes at most once. Effects are
impossible if the webhook declares none, and during a dry run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

from konverge.errors import CacheNotWatched, UsageError
from konverge.kinds import Kind, Resource, kind_of

if TYPE_CHECKING:
    from konverge.client import Client
    from konverge.runtime.cache.readers import Caches, Live, Reader

__all__ = ["AdmissionRequest", "Name", "Operation", "User"]

R = TypeVar("R", bound=Resource)
R_co = TypeVar("R_co", bound=Resource, covariant=True)

Operation: TypeAlias = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


class Name(NamedTuple):
    """Group, version, and kind or resource."""

    group: str
    version: str
    name: str


class User(msgspec.Struct, frozen=True):
    """The writer."""

    name: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)


class AdmissionRequest(msgspec.Struct, Generic[R_co], kw_only=True):
    """One write that the API server reviews.

    `kind` and `resource` are the version that the webhook receives, `requested_kind` and `requested_resource` the version that the
    writer sent; they differ if the API server converted the object. `options` are the CreateOptions, UpdateOptions (also of a patch)
    or DeleteOptions. `name` is "" if the server will generate the name.

    >>> def check(request: AdmissionRequest[Any]) -> bool:
    ...     return request.operation == "UPDATE" and request.old.metadata.deleting
    """

    uid: str
    operation: Operation
    kind: Name
    resource: Name
    subresource: str
    requested_kind: Name
    requested_resource: Name
    requested_subresource: str
    name: str
    namespace: str
    user: User
    dry_run: bool
    options: Mapping[str, Any]
    webhook: str
    """The path of the webhook, for messages."""
    effects: bool = False
    """Whether the webhook declared side effects."""
    new: Any = None
    """`object`, if the operation has an object."""
    old: R_co | None = None
    """The object as it is stored: for UPDATE and DELETE, else None."""
    caches: Caches | None = None
    access: Client | None = None

    @property
    def object(self) -> R_co:
        """The object as the writer wants it. Raises UsageError for an operation without an object (DELETE): read `old` then."""
        if self.new is None:
            raise UsageError(
                f"{self.webhook}: {self.operation} has no object; read request.old, or leave it out of .on(...)"
            )
        admitted: R_co = self.new
        return admitted

    def cache(self, what: Kind[R] | type[R]) -> Reader[R]:
        """Return the cache of a kind that the webhook declared with `.reads(...)`. It may lag behind the API server."""
        if self.caches is None:
            raise UsageError(f"{self.webhook} has no caches here; give them to the call of the test")
        if self.caches.informer(kind_of(what)) is None:
            word = getattr(what, "__name__", None) or kind_of(what).kind.upper()
            raise CacheNotWatched(
                f"webhook {self.webhook} reads the cache of {kind_of(what).group_kind}, which it does not declare: "
                f"add .reads({word}) to it, or read live with request.live({word})"
            )
        return self.caches(what)

    def live(self, what: Kind[R] | type[R]) -> Live[R]:
        """Return live reads of a kind; each is a request to the API server, which waits for this webhook at the same time."""
        from konverge.runtime.cache.readers import Live

        return Live(kind_of(what), self._reached())

    @property
    def client(self) -> Client:
        """The client, for effects beyond the object. Raises UsageError if the webhook declared no effects, and in a dry run."""
        if not self.effects:
            raise UsageError(
                f"{self.webhook} declared no side effects: add .with_effects() to it, or return what is to change"
            )
        if self.dry_run:
            raise UsageError(
                f"{self.webhook}: this is a dry run, so nothing may be changed; look at request.dry_run first"
            )
        return self._reached()

    def _reached(self) -> Client:
        if self.access is None:
            raise UsageError(f"{self.webhook} has no API server here; test it in a lab")
        return self.access
