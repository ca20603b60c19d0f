"""The reads of reconcilers: caches of the kinds that their controller declared, and live reads.

Guarantees: everything read from a cache is a private copy, decoded for the caller; changing it corrupts nothing. A cache that the
controller did not declare is an error that names the missing verb, not a silent new informer.

A read that starts an informer for all Secrets of a cluster: https://github.com/k8ssandra/k8ssandra-operator/issues/1752
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeAlias, TypeVar, cast

from konverge.client import Client
from konverge.errors import CacheNotWatched, NotFound, UsageError
from konverge.informers import Cached, Informer, Problem
from konverge.keys import Key
from konverge.kinds import Kind, Resource, kind_of
from konverge.objects import Metadata, MetadataObject
from konverge.runtime.cache.narrowed import Narrowed
from konverge.selectors import LabelSelector

__all__ = ["Caches", "Live", "Reader", "Reorder", "not_watched"]

T = TypeVar("T")
R = TypeVar("R", bound=Resource)
R_co = TypeVar("R_co", bound=Resource, covariant=True)

Reorder: TypeAlias = Callable[[builtins.list[Any]], None]
"""Reorders a list in place: from a test kit, for reads without a promised order."""


def not_watched(controller: str, kind: Kind[Any], word: str) -> CacheNotWatched:
    """Return the error of a controller that reads a cache which it did not declare; `word` is how its code names the kind."""
    return CacheNotWatched(
        f"controller {controller!r} reads the cache of {kind.group_kind}, which it does not watch: "
        f"add .watches({word}, to=...) or .owns({word}) to it, or read live with ctx.live({word})"
    )


class Reader(Generic[R_co]):
    """The cache of one kind, for reading. Reads never leave the process; they may lag behind the API server.

    The objects of a metadata-only cache have only metadata, and reading their body raises MetadataOnly. Reading a field that the cache
    drops raises FieldDropped. Errors: UsageError for a kind whose model has a field that the cache drops.

    >>> def is_there(jobs: Reader[Any], name: str) -> bool:
    ...     return jobs.find("web", name) is not None
    """

    __slots__ = ("_cluster", "_informer", "_kind", "_reorder")

    def __init__(
        self, kind: Kind[R_co], informer: Informer | Narrowed, cluster: str = "", *, reorder: Reorder | None = None
    ) -> None:
        self._kind = kind
        self._informer = informer
        self._cluster = cluster
        self._reorder = reorder
        if informer.selection.dropped is not None:
            informer.selection.dropped.check_model(kind)

    def _ordered(self, items: builtins.list[T]) -> builtins.list[T]:
        if self._reorder is not None:
            self._reorder(items)
        return items

    def _decoded(self, cached: Cached) -> R_co:
        selection = self._informer.selection
        if not selection.metadata_only:
            return cached.decode(self._kind, selection.dropped)
        return cast(R_co, MetadataObject.of(self._kind.api_version, self._kind.kind, cached.metadata))

    @property
    def synced(self) -> bool:
        """Whether the first list is complete; until then absence means nothing."""
        return self._informer.synced

    @property
    def problem(self) -> Problem | None:
        """Why the cache is not up to date (a right that was withdrawn, for instance), None without a known problem."""
        return self._informer.problem

    def find(self, namespace: str, name: str) -> R_co | None:
        """Return a copy of the object, None if the cache has none. Raises InvalidObject if it does not fit the model."""
        cached = self._informer.store.get(namespace, name)
        return None if cached is None else self._decoded(cached)

    def get(self, namespace: str, name: str) -> R_co:
        """Return a copy of the object; raises NotFound if the cache has none."""
        object_ = self.find(namespace, name)
        if object_ is None:
            raise NotFound(f"no {self._kind.kind} {namespace}/{name} in the cache", status=404, reason="NotFound")
        return object_

    def metadata(self, namespace: str, name: str) -> Metadata | None:
        """Return the object's metadata without decoding the rest."""
        cached = self._informer.store.get(namespace, name)
        return None if cached is None else cached.metadata

    def list(self, namespace: str | None = None, *, labels: str = "") -> list[R_co]:
        """Return copies of the objects of a namespace (None: of all namespaces) that match a label selector, in no promised order.

        Raises UsageError for a malformed selector.
        """
        selector = LabelSelector.given(labels, f"the cache of {self._kind.kind}") if labels else None
        return [self._decoded(cached) for cached in self._ordered(self._informer.store.list(namespace, selector))]

    def keys(self, namespace: str | None = None) -> builtins.list[Key]:
        """Return the keys of the objects of a namespace, or of all, in no promised order."""
        keys = self._ordered(self._informer.store.keys(namespace))
        return [Key(self._cluster, self._kind, place, name) for place, name in keys]

    def by_index(self, index: str, value: str) -> builtins.list[R_co]:
        """Return copies of the objects that an index files under a value, in no promised order.

        `owner` (uid of the controlling owner) always exists.
        """
        return [self._decoded(cached) for cached in self._ordered(self._informer.store.by_index(index, value))]

    def all_metadata(self, namespace: str | None = None) -> builtins.list[Metadata]:
        """Return the metadata of the objects of a namespace, or of all, without decoding the rest."""
        return [cached.metadata for cached in self._ordered(self._informer.store.list(namespace))]

    def metadata_by_index(self, index: str, value: str) -> builtins.list[Metadata]:
        """Return the metadata of the objects that an index files under a value, without decoding the rest."""
        return [cached.metadata for cached in self._ordered(self._informer.store.by_index(index, value))]

    def __len__(self) -> int:
        return len(self._informer.store)


class Caches:
    """The caches of one controller: `caches(Backup)` is the `Reader` of that kind.

    >>> from konverge.kinds import kind
    >>> def backups_using(secret: Metadata, caches: Caches) -> list[Key]:
    ...     return caches(kind("example.com/v1", "Backup")).keys(namespace=secret.namespace)
    """

    __slots__ = ("_controller", "_reorder", "informers")

    def __init__(
        self, controller: str, informers: Mapping[Kind[Any], Informer | Narrowed], *, reorder: Reorder | None = None
    ) -> None:
        self._controller = controller
        self.informers = informers
        """The informers by kind, for the runtime."""
        self._reorder = reorder

    def __call__(self, what: Kind[R] | type[R]) -> Reader[R]:
        """Return the reader of a kind; raises CacheNotWatched for a kind that the controller did not declare."""
        kind = kind_of(what)
        informer = self.informers.get(kind)
        if informer is None:
            raise not_watched(self._controller, kind, getattr(what, "__name__", None) or kind.kind.upper())
        return Reader(kind, informer, reorder=self._reorder)

    def informer(self, kind: Kind[Any]) -> Informer | None:
        """Return the informer of a kind, for the runtime; None also for a kind that is watched only in some namespaces."""
        informer = self.informers.get(kind)
        return None if isinstance(informer, Narrowed) else informer

    def cached(self, key: Key, *, partial: bool = False) -> Cached | None:
        """Return an object that the runtime compares with a write; None if it is absent.

        Of an object cached in part, `partial` returns the part.
        """
        informer = self.informer(key.kind)
        if informer is None:
            return None
        if not partial and (informer.selection.metadata_only or informer.selection.transform is not None):
            return None
        return informer.store.get(key.namespace, key.name)


class Live(Generic[R]):
    """Reads of one kind that go to the API server each time: for data that must not be cached (the content of a Secret) or must not lag."""

    __slots__ = ("_client", "_kind", "_no_get", "_no_list")

    def __init__(self, kind: Kind[R], client: Client, no_get: str = "", no_list: str = "") -> None:
        """`no_get` and `no_list` are the reasons why the controller must not get or list the kind, "" if it may."""
        self._kind = kind
        self._client = client
        self._no_get = no_get
        self._no_list = no_list

    async def get(self, namespace: str, name: str) -> R:
        """Return the object as it is stored now; raises NotFound, and UsageError without the right to get it."""
        if self._no_get:
            raise UsageError(self._no_get)
        return await self._client.get(self._kind, name, namespace)

    async def find(self, namespace: str, name: str) -> R | None:
        """Return the object as it is stored now, None if there is none."""
        try:
            return await self.get(namespace, name)
        except NotFound:
            return None

    async def list(self, namespace: str | None = None, *, labels: str = "") -> list[R]:
        """Return the objects as they are stored now, of a namespace or of all; raises UsageError without the right to list them."""
        if self._no_list:
            raise UsageError(self._no_list)
        return list((await self._client.list(self._kind, namespace, labels=labels)).items)
