"""The verbs that declare what enqueues the keys of a controller, and what its caches hold."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, overload

from msgspec.structs import replace

from konverge.errors import UsageError
from konverge.informers import Transform
from konverge.keys import Key
from konverge.kinds import Kind, Resource, kind_of
from konverge.objects import Metadata
from konverge.runtime.builder.predicates import Predicate
from konverge.runtime.builder.sources import Source
from konverge.runtime.builder.spec import ControllerSpec
from konverge.runtime.builder.watched import (
    Indexed,
    Mapper,
    Watched,
    check_beside_others,
    check_one_selection,
    dropped_fields,
)
from konverge.selectors import LabelSelector

if TYPE_CHECKING:
    from konverge.runtime.cache.readers import Caches

__all__ = ["WatchVerbs"]

R = TypeVar("R", bound=Resource)
W = TypeVar("W", bound=Resource)


class WatchVerbs(ControllerSpec[R], frozen=True):
    """The verbs of a controller's watches, indexes and sources."""

    def owns(
        self,
        what: Kind[Any] | type[Any],
        *,
        optional: bool = False,
        when: Predicate | None = None,
        known_by: Callable[[Metadata], str] | None = None,
        own_writes: bool = True,
        written_in: Iterable[str] = (),
        labels: str = "",
        fields: str = "",
        metadata_only: bool = False,
        drop: Iterable[str] = (),
    ) -> Self:
        """Watch children of this kind: a change of a child enqueues its controlling owner (`Owns`).

        Only declared kinds can be created with `ctx.own`. With `optional` the controller also runs while the cluster does not serve
        the kind (see `ctx.serves(kind)`). With `when` a change enqueues keys only if `when` returns True. `known_by` returns the name
        of an object's owner whatever its controller reference ("" for none): a child may have lost the reference, or have another
        owner's reference. With `own_writes=False` an event that shows only an apply of this controller's own `ctx.own` enqueues
        nothing. Any other change in the same event still enqueues the owner. With `written_in` the rights to get and write children
        are given in these namespaces only; the API server refuses children elsewhere. The same kind may be watched too, for objects
        that are not children: `.owns(SECRET).watches(SECRET, to=users_of)`. The two share one cache.

        With `labels` or `fields`, selectors that the API server evaluates, only the selected children are cached, and a kind is not
        watched as well. A child whose labels do not match is refused. A field selector belongs to a field that no write of the
        controller changes.

        With `metadata_only` the API server sends only the metadata of the children (`OnlyMetadata`): no body is cached, and `ctx.own`
        returns a view of the metadata. An apply is sent unless this process sent the same intent before and still owns the same fields:
        another manager that changes a field takes it over, so drift is repaired as with whole objects. Each child gets one apply after a
        restart. `drop` names fields that the cache leaves out (see `watches`); a child that sets a dropped field is refused.

        Caveat of `metadata_only`: a change under this manager's own field manager, by another process, is not seen.
        """
        LabelSelector.given(labels, f"controller {self.name!r}: .owns")
        kind = kind_of(what)
        if any(other.kind == kind for other in self.owned):
            raise UsageError(f"controller {self.name!r} declares .owns({kind.group_kind}) twice; one .owns is enough")
        watch = Watched(
            kind,
            optional=optional,
            predicate=when,
            namespaces=tuple(sorted(set(written_in))),
            known_by=known_by,
            own_writes=own_writes,
            labels=labels,
            fields=fields,
            metadata_only=metadata_only,
            dropped=dropped_fields(self.name, ".owns", kind, drop, metadata_only=metadata_only),
        )
        if metadata_only and not own_writes:
            raise UsageError(
                f"controller {self.name!r}: .owns({kind.group_kind}, metadata_only=True, own_writes=False): whether an event shows only "
                "an own apply depends on the body; leave out one of the two"
            )
        check_one_selection(self.name, (*self.owned, watch), self.watched)
        return replace(self, owned=(*self.owned, watch))

    @overload
    def watches(
        self,
        what: Kind[W] | type[W],
        *,
        to: Callable[[Metadata, Caches], Iterable[Key]],
        metadata_only: Literal[True],
        optional: bool = False,
        when: Predicate | None = None,
        labels: str = "",
        fields: str = "",
        namespaces: Iterable[str] = (),
        unlisted: bool = False,
    ) -> Self: ...

    @overload
    def watches(
        self,
        what: Kind[W] | type[W],
        *,
        to: Callable[[W, Caches], Iterable[Key]],
        metadata_only: Literal[False] = False,
        optional: bool = False,
        when: Predicate | None = None,
        labels: str = "",
        fields: str = "",
        namespaces: Iterable[str] = (),
        unlisted: bool = False,
        drop: Iterable[str] = (),
        transform: Transform | None = None,
    ) -> Self: ...

    def watches(
        self,
        what: Kind[Any] | type[Any],
        *,
        to: Mapper,
        metadata_only: bool = False,
        optional: bool = False,
        when: Predicate | None = None,
        labels: str = "",
        fields: str = "",
        namespaces: Iterable[str] = (),
        unlisted: bool = False,
        drop: Iterable[str] = (),
        transform: Transform | None = None,
    ) -> Self:
        """Watch another kind: `to` returns the keys that a change of such an object concerns (`Watches` with a map function).

        `to` is called with the object before and after a change, so that it sees both the old and the new reference. With
        `metadata_only` only metadata is cached and `to` gets a `Metadata`; use it for Secrets and ConfigMaps. With `namespaces` the
        kind is watched only in these, and the rights on it are limited to them. With `unlisted` the controller of an optional kind
        also runs while it has no right to list it: `ctx.serves(kind)` is False then, and `ctx.cache(kind).problem` is the reason.

        `labels` and `fields` are selectors that the API server evaluates: other objects are neither sent nor cached. A custom resource has
        the field selectors `metadata.name`, `metadata.namespace`, and its `selectableFields`.

        A kind may be watched several times, with other selectors, namespaces or map functions: `ctx.cache(kind)` then reads the objects of
        all of them. If the kind is owned too, `ctx.cache(kind)` reads the cache of the children, which has every object.

        `drop` names fields that are left out of each object before it is cached: `drop=["status.images", "spec.containers[*].env",
        "metadata.annotations['example.com/notes']"]`. A thin view of such an object raises FieldDropped if a dropped field is read with
        `get`, and if the view is to be written. `transform` is a function in place of paths: it gets each object as a dict and returns
        the dict to cache. It must be idempotent and keep name, namespace, uid and resourceVersion. If it raises, the object is cached
        untransformed, and a warning names kind and object; the other objects are not affected. Controllers with other paths or functions
        have caches of their own; equal selections share a cache.

        Raises UsageError for `unlisted` without `optional`, for `namespaces` with an invalid name, for a repeated declaration, for two
        declarations of a kind that differ in `metadata_only`, `drop` or `transform`, for a path that cannot be dropped, and for a path that
        the kind's model has.
        """
        LabelSelector.given(labels, f"controller {self.name!r}: .watches")
        kind = kind_of(what)
        where = () if isinstance(namespaces, str) else tuple(sorted(set(namespaces)))
        if namespaces and (not all(where) or not where or kind.namespaced is False):
            raise UsageError(
                f"controller {self.name!r}: .watches({kind.kind}, namespaces={namespaces!r}): give names of namespaces"
            )
        if unlisted and not optional:
            raise UsageError(
                f"controller {self.name!r}: .watches({kind.kind}, unlisted=True): add optional=True, since a controller that needs "
                "the kind waits until it may list it"
            )
        if metadata_only and transform is not None:
            raise UsageError(
                f"controller {self.name!r}: .watches({kind.group_kind}, metadata_only=True, transform=...): no body is sent that the "
                "function could change; leave out one of the two"
            )
        watch = Watched(
            kind,
            to,
            metadata_only,
            optional,
            when,
            labels,
            fields,
            where,
            unlisted=unlisted,
            dropped=dropped_fields(self.name, ".watches", kind, drop, metadata_only=metadata_only),
            transform=transform,
        )
        check_beside_others(self.name, watch, self.watched)
        check_one_selection(self.name, self.owned, (watch,))
        return replace(self, watched=(*self.watched, watch))

    def indexes(self, what: Kind[Any] | type[Any], name: str, *, by: Callable[[Any], Iterable[str]]) -> Self:
        """File the cached objects of a declared kind under the values that `by` returns for each (`IndexField`).

        `ctx.cache(what).by_index(name, value)` returns them without a scan. `by` is called once per event, with an object of `what`,
        or with a `Metadata` if only metadata is cached. A thin view (`kind(...)`) also serves objects that do not fit the model; an
        index by the model leaves them out. Controllers share caches, so the name is unique among the indexes of that kind in a
        manager.
        """
        indexed = kind_of(what)
        watches = [other for other in (*self.owned, *self.watched) if other.kind == indexed]
        if indexed != self.kind and not watches:
            raise UsageError(
                f"controller {self.name!r} indexes {indexed.group_kind}, which it does not watch: declare it with .owns or .watches first"
            )
        owned = watches and watches[0].mapper is None
        dropped = self.dropped if indexed == self.kind and not owned else watches[0].dropped
        if dropped is not None:
            dropped.check_model(indexed)
        return replace(self, indexed=(*self.indexed, Indexed(indexed, name, by, dropped)))

    def when(self, predicate: Predicate) -> Self:
        """Let only these changes of the primary kind enqueue the object. Creation, deletion and resync always do."""
        return replace(self, predicate=predicate)

    def selecting(self, labels: str = "", *, fields: str = "") -> Self:
        """Watch only primary objects that match this label selector and this field selector; others do not exist for this controller.

        The API server evaluates both. An object that stops to match is a deleted object for this controller: its finalizer stays.
        """
        LabelSelector.given(labels, f"controller {self.name!r}: .selecting")
        return replace(self, labels=labels, fields=fields)

    def listens_to(self, source: Source, *, name: str = "") -> Self:
        """Reconcile the keys that a source yields: a message bus, a clock (`every`, `daily`), other code of the program (`Channel`).

        `source` is an async generator that receives a `Listening`; `konverge.runtime.builder.sources` has guarantees and caveats. `name`
        appears in the reasons of reconciles and in the report, by default the name of the function. Raises UsageError for a repeated name.
        """
        given: object = source
        if not callable(given) or inspect.iscoroutinefunction(given):
            raise UsageError(
                f"controller {self.name!r}: .listens_to({source!r}): give an async generator function, `async def` with a `yield`"
            )
        chosen = name or getattr(source, "__name__", "") or type(source).__name__.strip("_").lower()
        if any(other == chosen for other, _ in self.sources):
            raise UsageError(
                f"controller {self.name!r} has a source {chosen!r} already: give each a name, .listens_to(source, name=...)"
            )
        return replace(self, sources=(*self.sources, (chosen, source)))
