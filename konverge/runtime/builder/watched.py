"""The kinds that a controller reads beside its primary kind, and the indexes over their caches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec.structs import replace

from konverge.dropped import DroppedFields
from konverge.errors import UsageError
from konverge.informers import Selection, Transform
from konverge.keys import Key
from konverge.kinds import Kind
from konverge.objects import Metadata
from konverge.runtime.builder.predicates import Predicate

if TYPE_CHECKING:
    from konverge.informers import Cached
    from konverge.runtime.cache.readers import Caches

__all__ = ["Indexed", "Mapper", "Watched", "check_beside_others", "check_one_selection", "dropped_fields"]

Mapper: TypeAlias = "Callable[[Any, Caches], Iterable[Key]]"


class Watched(msgspec.Struct, frozen=True):
    """One more kind that a controller reads: owned (`mapper` None) or mapped."""

    kind: Kind[Any]
    mapper: Mapper | None = None
    metadata_only: bool = False
    optional: bool = False
    predicate: Predicate | None = None
    labels: str = ""
    fields: str = ""
    namespaces: tuple[str, ...] = ()
    """The namespaces of the watch, for an owned kind the namespaces of the children; empty: every namespace that the manager watches."""
    own_writes: bool = True
    """For owned kinds: whether an event that shows only our own apply enqueues the owner."""
    unlisted: bool = False
    """Whether the controller also runs without the right to list an optional kind."""
    known_by: Callable[[Metadata], str] | None = None
    """For owned kinds: returns the name of an object's owner whatever its controller reference, "" without an owner of ours."""
    dropped: DroppedFields | None = None
    """The fields that the cache leaves out."""
    transform: Transform | None = None
    """Changes each object before it is cached."""

    @property
    def partial(self) -> bool:
        """Whether a cached object is not the stored object."""
        return self.metadata_only or self.dropped is not None or self.transform is not None

    def selection(self, namespace: str | None) -> Selection:
        """Return the objects of a namespace, None for all, and the part of each that is cached."""
        return Selection(
            self.kind,
            namespace,
            labels=self.labels,
            fields=self.fields,
            metadata_only=self.metadata_only,
            transform=self.transform,
            dropped=self.dropped,
        )


def dropped_fields(
    controller: str, verb: str, kind: Kind[Any], drop: Iterable[str], *, metadata_only: bool = False
) -> DroppedFields | None:
    """Return the fields of `drop`; raises UsageError for a path that cannot be dropped, or that the kind's model has."""
    what = f"controller {controller!r}: {verb}({kind.group_kind})"
    dropped = DroppedFields.of(drop, what)
    if dropped is not None and metadata_only:
        raise UsageError(f"{what}: metadata_only=True caches no field of the body; leave out drop")
    if dropped is not None:
        dropped.check_model(kind)
    return dropped


class Indexed(msgspec.Struct, frozen=True):
    """One index over the cache of a declared kind; as an index function it equals every other index of the same declaration."""

    kind: Kind[Any]
    name: str
    values: Callable[[Any], Iterable[str]]
    dropped: DroppedFields | None = None

    def __call__(self, cached: Cached) -> Iterable[str]:
        """Return the values of a cached object."""
        return self.values(cached.metadata if cached.metadata_only else cached.decode(self.kind, self.dropped))


def check_one_selection(controller: str, owned: Iterable[Watched], watched: Iterable[Watched]) -> None:
    """Raise UsageError for a kind that is owned and watched if one of the two has a selection that the other cache cannot serve."""
    kinds = {watch.kind: watch for watch in owned}
    for watch in watched:
        owner = kinds.get(watch.kind)
        if owner is not None and (owner.labels or owner.fields or watch.fields):
            raise UsageError(
                f"controller {controller!r} owns and watches {watch.kind.group_kind}, and both read one cache: leave out the "
                "selectors of .owns and the fields of .watches, and filter by when=, or watch the kind in another controller"
            )
        if owner is not None and (watch.transform is not None or not _holds(owner, watch)):
            raise UsageError(
                f"controller {controller!r} owns and watches {watch.kind.group_kind}, and both read one cache: declare metadata_only and "
                "drop alike in .owns and .watches, without transform, or watch the kind in another controller"
            )


def _holds(owned: Watched, watched: Watched) -> bool:
    """Return whether the cache of the children holds what the map function of a watch reads."""
    return watched.metadata_only or (not owned.metadata_only and owned.dropped == watched.dropped)


def check_beside_others(controller: str, watch: Watched, others: Iterable[Watched]) -> None:
    """Raise UsageError for a watch that repeats a watch of the same kind, or differs from it in the cached part of the objects."""
    what = f"controller {controller!r}: .watches({watch.kind.group_kind})"
    for other in (other for other in others if other.kind == watch.kind):
        if replace(other, optional=watch.optional, unlisted=watch.unlisted) == watch:
            raise UsageError(f"{what} is declared twice alike; one .watches is enough")
        if other.metadata_only != watch.metadata_only:
            raise UsageError(
                f"{what} is declared with and without metadata_only=True, and ctx.cache reads one cache: declare both alike"
            )
        if (other.dropped, other.transform) != (watch.dropped, watch.transform):
            raise UsageError(
                f"{what} is declared twice with other drop or transform, and ctx.cache reads one cache: declare both alike"
            )
