"""Predicates: which changes enqueue a key.

Guarantees: pure functions of a `Change` (the cached states before and after). They filter events, not memory: to keep objects out of
the cache use a selector. For the primary kind creation, the request for deletion, deletion and the initial list are never filtered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from konverge.informers import Cached, Change
from konverge.runtime.consistency.own_writes import meaning

__all__ = [
    "Predicate",
    "all_of",
    "annotations_changed",
    "any_of",
    "generation_changed",
    "labels_changed",
    "life_changed",
    "metadata_changed",
]

Predicate: TypeAlias = Callable[[Change], bool]


def _both(change: Change) -> tuple[Cached, Cached] | None:
    return (change.old, change.new) if change.old is not None and change.new is not None else None


def generation_changed(change: Change) -> bool:
    """Pass changes of the generation: of the spec, for a kind with a status subresource.

    >>> from konverge.kinds import kind
    >>> from konverge.runtime.builder.builder import Controller
    >>> jobs = Controller.of(kind("example.com/v1", "Backup")).owns(kind("batch/v1", "Job"), when=generation_changed)
    """
    both = _both(change)
    return both is None or both[0].metadata.generation != both[1].metadata.generation


def labels_changed(change: Change) -> bool:
    """Pass changes of labels.

    >>> from konverge.kinds import kind
    >>> from konverge.runtime.builder.builder import Controller
    >>> backups = Controller.of(kind("example.com/v1", "Backup")).when(any_of(generation_changed, labels_changed))
    """
    both = _both(change)
    return both is None or (both[0].metadata.labels or {}) != (both[1].metadata.labels or {})


def annotations_changed(change: Change) -> bool:
    """Pass changes of annotations.

    >>> from konverge.kinds import kind
    >>> from konverge.runtime.builder.builder import Controller
    >>> backups = Controller.of(kind("example.com/v1", "Backup")).when(any_of(generation_changed, annotations_changed))
    """
    both = _both(change)
    return both is None or (both[0].metadata.annotations or {}) != (both[1].metadata.annotations or {})


def metadata_changed(change: Change) -> bool:
    """Pass changes of anything in metadata that is more than bookkeeping: labels, annotations, finalizers, owners, deletion.

    >>> from konverge.kinds import kind
    >>> from konverge.runtime.builder.builder import Controller
    >>> backups = Controller.of(kind("example.com/v1", "Backup")).when(metadata_changed)
    """
    both = _both(change)
    return both is None or meaning(both[0].metadata) != meaning(both[1].metadata)


def life_changed(change: Change, finalizer: str) -> bool:
    """Pass steps in the life of an object: the request for deletion, and the addition or removal of the finalizer."""
    both = _both(change)
    if both is None:
        return True
    old, new = both[0].metadata, both[1].metadata
    return old.deleting != new.deleting or (finalizer in old.finalizers) != (finalizer in new.finalizers)


def any_of(*predicates: Predicate) -> Predicate:
    """Pass a change if one of these predicates passes it.

    >>> spec_or_labels = any_of(generation_changed, labels_changed)
    """
    return lambda change: any(predicate(change) for predicate in predicates)


def all_of(*predicates: Predicate) -> Predicate:
    """Pass a change if all of these predicates pass it.

    >>> both = all_of(generation_changed, labels_changed)
    """
    return lambda change: all(predicate(change) for predicate in predicates)
