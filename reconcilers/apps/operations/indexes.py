"""Indexes of Operations, and which of them a change of another object concerns.

An idle daemon holds thousands of Operations that have ended: no event but their own enqueues them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from konverge.crds.ops_v1alpha1 import Operation
from konverge.informers import Cached, Change
from konverge.keys import Key
from konverge.kinds import Kind, kind_of
from konverge.objects import Object
from konverge.reconcilers.apps.operations.conflicts import TERMINAL, contestant_of
from konverge.reconcilers.apps.operations.engines.registry import EngineRow
from konverge.reconcilers.apps.operations.kinds import VIEW
from konverge.reconcilers.apps.operations.words import BlockedReason, OpAnnotation, OpCondition

if TYPE_CHECKING:
    from konverge.runtime import Caches

__all__ = [
    "ACTIVE",
    "BLOCKED_BY_ENGINE",
    "ENDED",
    "active_by_target",
    "affects_others",
    "blocked_by_engine",
    "ended_by_target",
    "operations_on",
    "others_of",
    "target_key",
    "wakes_for",
]

ACTIVE: Final = "active-by-target"
"""The index of Operations that have not ended, by their target."""
ENDED: Final = "ended-by-target"
"""The index of Operations that have ended, by their target."""
BLOCKED_BY_ENGINE: Final = "blocked-by-engine"
"""The index of Operations that wait for something other than a turn, by their engine."""


def target_key(namespace: str, name: str) -> str:
    """Return the value of the indexes by target."""
    return f"{namespace}/{name}"


def _key(namespace: str, name: str) -> Key:
    return Key("", kind_of(Operation), namespace, name)


def _target(operation: Object) -> tuple[str, ...]:
    name = operation.get("spec", "targetRef", "name")
    return (target_key(operation.namespace, name),) if isinstance(name, str) else ()


def _ended(operation: Object) -> bool:
    return operation.get("status", "phase") in TERMINAL


def active_by_target(operation: Object) -> tuple[str, ...]:
    """Return the values of the index ACTIVE."""
    return () if _ended(operation) else _target(operation)


def ended_by_target(operation: Object) -> tuple[str, ...]:
    """Return the values of the index ENDED."""
    return _target(operation) if _ended(operation) else ()


def blocked_by_engine(operation: Object) -> tuple[str, ...]:
    """Return the values of the index BLOCKED_BY_ENGINE."""
    blocked = operation.find_condition(OpCondition.BLOCKED)
    if _ended(operation) or blocked is None or not blocked.is_true:
        return ()
    if blocked.reason == BlockedReason.CONFLICTING_OPERATION:
        return ()
    return (str(operation.get("spec", "engine", default="")),)


def affects_others(change: Change) -> bool:
    """Select changes of an Operation after which another one of its target may start, or has to go."""
    if change.old is None or change.new is None:
        return change.new is None
    return _standing(change.old) != _standing(change.new)


def _standing(cached: Cached) -> tuple[bool, bool, bool]:
    found = contestant_of(cached.decode(VIEW))
    return found.started, found.finished is None, found.waits_for_turn


def others_of(*, ended: bool) -> Callable[[Object, Caches], Iterable[Key]]:
    """Return the map function from an Operation to the others of its target; with `ended` also to those that have ended."""
    indexes = (ACTIVE, ENDED) if ended else (ACTIVE,)

    def others(operation: Object, caches: Caches) -> Iterable[Key]:
        return [
            _key(other.namespace, other.name)
            for target in _target(operation)
            for index in indexes
            for other in caches(VIEW).metadata_by_index(index, target)
            if other.uid != operation.metadata.uid
        ]

    return others


def operations_on(instance: Object, caches: Caches) -> Iterable[Key]:
    """Map an ApplicationInstance to the Operations on it that have not ended."""
    found = caches(VIEW).metadata_by_index(ACTIVE, target_key(instance.namespace, instance.name))
    return [_key(one.namespace, one.name) for one in found]


def wakes_for(
    kind: Kind[Any], rows: Iterable[EngineRow], shared: str = ""
) -> Callable[[Object, Caches], Iterable[Key]]:
    """Return the map function from an object of an engine to its Operation, and to those that may wait for it.

    An object of a namespace wakes Operations of that namespace only, whatever its annotation names; objects of the cluster, and of `shared`
    (the namespace of Velero), wake all.
    """
    readers = sorted({row.engine.name for row in rows if kind in row.engine.reads})

    def operations(found: Object, caches: Caches) -> Iterable[Key]:
        everywhere = found.namespace in ("", shared)
        namespace, _, name = found.metadata.annotation(OpAnnotation.OPERATION_NAME).partition("/")
        keys = [_key(namespace, name)] if name and (everywhere or namespace == found.namespace) else []
        for engine in readers:
            waiting = caches(VIEW).metadata_by_index(BLOCKED_BY_ENGINE, engine)
            keys += [_key(one.namespace, one.name) for one in waiting if everywhere or one.namespace == found.namespace]
        return keys

    return operations
