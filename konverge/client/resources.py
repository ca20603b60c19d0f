"""Arguments and results of the client as frozen data: resources, queries, pages, listings.

`ResourceInfo` is the discovery entry of a kind; `ListQuery` and `WatchQuery` carry everything that selects objects. No I/O.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Final, Generic, TypeVar

import msgspec

__all__ = ["PODS", "ListQuery", "Listing", "Page", "ResourceInfo", "WatchQuery"]

R = TypeVar("R")


class ResourceInfo(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """How the API server serves a kind.

    `verbs` and `subresources` are empty if the kind declares its plural and scope, because discovery is then not needed.

    >>> ResourceInfo(api_version="apps/v1", kind="Deployment", plural="deployments", namespaced=True).group_resource
    'deployments.apps'
    """

    api_version: str
    kind: str
    plural: str
    namespaced: bool
    verbs: frozenset[str] = frozenset()
    subresources: frozenset[str] = frozenset()
    short_names: tuple[str, ...] = ()
    singular: str = ""
    categories: tuple[str, ...] = ()

    @cached_property
    def group(self) -> str:
        """The API group, "" for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def version(self) -> str:
        """The version without the group."""
        return self.api_version.rpartition("/")[2]

    @cached_property
    def group_resource(self) -> str:
        """`deployments.apps`, or `secrets` for the core group: how messages and audit logs write it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def has_status(self) -> bool:
        """Whether the status is a subresource."""
        return "status" in self.subresources


PODS: Final = ResourceInfo(api_version="v1", kind="Pod", plural="pods", namespaced=True)


class ListQuery(msgspec.Struct, frozen=True, kw_only=True):
    """One page of a list: the selected objects, their version, the limit and the continue token.

    `namespace` None lists all namespaces. `resource_version` and `match` ("Exact", "NotOlderThan", "") are sent as they are;
    `limit` 0 requests everything at once.

    >>> ListQuery(namespace="web", labels="app=shop", limit=500).limit
    500
    """

    namespace: str | None = None
    labels: str = ""
    fields: str = ""
    resource_version: str = ""
    match: str = ""
    limit: int = 0
    continue_: str = ""
    metadata_only: bool = False


class WatchQuery(msgspec.Struct, frozen=True, kw_only=True):
    """One watch. Bookmarks are always requested.

    `timeout_seconds` is how long the server keeps the watch open; `idle_seconds` how long the client waits for a byte before it
    gives the connection up (choose it above the bookmark interval, about 60 s). `send_initial_events` requests a streaming list.

    >>> WatchQuery(resource_version="42", timeout_seconds=300, idle_seconds=75).send_initial_events
    False
    """

    namespace: str | None = None
    labels: str = ""
    fields: str = ""
    resource_version: str = ""
    match: str = ""
    send_initial_events: bool = False
    timeout_seconds: int
    idle_seconds: float
    metadata_only: bool = False


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """One page of a list: the items as slices of the response body (which lives as long as any slice does)."""

    items: list[msgspec.Raw]
    resource_version: str
    continue_: str = ""
    remaining: int | None = None


class Listing(msgspec.Struct, Generic[R], frozen=True, kw_only=True):
    """All objects of a list, and the list's version.

    >>> list(Listing(items=["a", "b"], resource_version="7"))
    ['a', 'b']
    """

    items: list[R] = msgspec.field(default_factory=list)
    resource_version: str = ""

    def __iter__(self) -> Iterator[R]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)
