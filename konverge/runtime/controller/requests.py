"""From events to requests: which keys an event of a cache enqueues, and why. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NamedTuple

from konverge.errors import InvalidObject
from konverge.informers import Cached, Change
from konverge.keys import Key
from konverge.kinds import Kind
from konverge.objects import Metadata
from konverge.runtime.builder.builder import Controller, Watched
from konverge.runtime.builder.predicates import life_changed
from konverge.runtime.cache.readers import Caches
from konverge.selectors import LabelSelector
from konverge.words import Why

__all__ = [
    "INITIAL_PRIORITY",
    "ReconcileRequest",
    "requests_for_object",
    "requests_for_owner",
    "requests_mapped",
    "selected",
]

INITIAL_PRIORITY = -100
"""The priority of requests from the first list and from a resync: changes go first (controller-runtime's number)."""


class ReconcileRequest(NamedTuple):
    """One request to reconcile a key."""

    key: Key
    reason: str
    priority: int = 0


def _verb(change: Change) -> str:
    if change.initial:
        return Why.INITIAL
    if change.old is None:
        return Why.CREATED
    return Why.DELETED if change.new is None else Why.CHANGED


def _priority(change: Change) -> int:
    return INITIAL_PRIORITY if change.initial else 0


def requests_for_object(
    spec: Controller[Any], change: Change, own_versions: Collection[str]
) -> Iterator[ReconcileRequest]:
    """Return the request for the object, unless the event is our own status update.

    `own_versions` are the versions that such writes made, if nothing but the status differed from the object reconciled. The predicate
    compares whole objects: it is not asked about one of which the metadata alone is cached, before or after the change.
    """
    if change.old is not None and change.new is not None:
        if change.new.metadata.resource_version in own_versions:
            return
        whole = not (change.old.metadata_only or change.new.metadata_only)
        if whole and (
            spec.predicate is not None and not life_changed(change, spec.finalizer_name) and not spec.predicate(change)
        ):
            return
    yield ReconcileRequest(Key("", spec.kind, change.namespace, change.name), _verb(change), _priority(change))


def requests_for_owner(
    spec: Controller[Any],
    watch: Watched,
    change: Change,
    own_versions: Collection[str] = (),
    *,
    namespaced: bool | None = None,
) -> Iterator[ReconcileRequest]:
    """Return the requests for the controlling owners of a child, before and after the change, and for the owner that `known_by` names.

    `known_by` is called for a child of any controller: a foreign one may have taken the child, and its end is news for the owner.
    `namespaced` is the scope of the owners as the API server serves it; None leaves it to what their kind declares.
    """
    if change.new is not None and change.new.metadata.resource_version in own_versions:
        return
    if watch.predicate is not None and not watch.predicate(change):
        return
    scoped = spec.kind.namespaced if namespaced is None else namespaced
    namespace = "" if scoped is False else change.namespace
    reason = f"{Why.OWNED} {watch.kind.kind} {_path(change)} {_verb(change)}"
    asked: set[str] = set()
    for cached in _sides(change):
        for name in _owners_of(cached.metadata, spec.kind, watch.known_by):
            if name and name not in asked:
                asked.add(name)
                yield ReconcileRequest(Key("", spec.kind, namespace, name), reason, _priority(change))


def _owners_of(child: Metadata, kind: Kind[Any], known_by: Callable[[Metadata], str] | None) -> Iterator[str]:
    owner = child.controller
    if owner is not None and owner.kind == kind.kind and owner.group == kind.group:
        yield owner.name
    if known_by is not None:
        yield known_by(child)


def requests_mapped(
    watch: Watched, change: Change, caches: Caches, *, undecodable: Callable[[InvalidObject], None] | None = None
) -> Iterator[ReconcileRequest]:
    """Return the requests for the keys to which the controller maps an object, before and after the change.

    A side that does not decode is passed to `undecodable` and left out: it must not hide the other.
    """
    if watch.predicate is not None and not watch.predicate(change):
        return
    assert watch.mapper is not None
    reason = f"{Why.WATCHED} {watch.kind.kind} {_path(change)} {_verb(change)}"
    asked: set[Key] = set()
    for cached in _sides(change):
        try:
            view = _view(watch, cached)
        except InvalidObject as error:
            if undecodable is not None:
                undecodable(error)
            continue
        keys: Iterable[Key] = watch.mapper(view, caches)
        for key in keys:
            if key not in asked:
                asked.add(key)
                yield ReconcileRequest(key, reason, _priority(change))


def selected(watch: Watched, change: Change) -> Change | None:
    """Return the change as a cache of the declaration's own labels and namespaces would show it, None if it would show nothing."""
    if watch.namespaces and change.namespace not in watch.namespaces:
        return None
    if not watch.labels:
        return change
    selector = LabelSelector.given(watch.labels, f".watches({watch.kind.kind})")
    old, new = (
        side if side is not None and selector.matches(side.metadata.labels or {}) else None
        for side in (change.old, change.new)
    )
    return None if old is None and new is None else Change(change.namespace, change.name, old, new, change.initial)


def _sides(change: Change) -> tuple[Cached, ...]:
    return tuple(side for side in (change.old, change.new) if side is not None)


def _view(watch: Watched, cached: Cached) -> Any:
    return cached.metadata if watch.metadata_only else cached.decode(watch.kind)


def _path(change: Change) -> str:
    return f"{change.namespace}/{change.name}" if change.namespace else change.name
