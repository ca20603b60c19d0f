"""Indexes of Operations, and which Operations a change of another object concerns.

An idle daemon holds thousands of Operations that have ended: no event but their own enqueues them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from konverge.crds.ops_v1alpha1 import Operation
from konverge.errors import InvalidObject
from konverge.informers import Cached, Change
from konverge.keys import Key
from konverge.kinds import Kind, kind_of
from konverge.objects import Object
from konverge.reconcilers.apps.operations.engine_request import request_for
from konverge.reconcilers.apps.operations.engines.engine import Target
from konverge.reconcilers.apps.operations.engines.registry import EngineRow, row_of
from konverge.reconcilers.apps.operations.kinds import VIEW
from konverge.reconcilers.apps.operations.settings import OperationSettings
from konverge.reconcilers.apps.operations.waiting.conflicts import TERMINAL, contestant_of
from konverge.reconcilers.apps.operations.words import BlockedReason, OpAnnotation, OpCondition

if TYPE_CHECKING:
    from konverge.runtime import Caches

__all__ = [
    "ACTIVE",
    "ENDED",
    "WAITS_FOR",
    "active_by_target",
    "affects_others",
    "ended_by_target",
    "operations_on",
    "others_of",
    "target_key",
    "waits_for",
    "wakes_for",
]

ACTIVE: Final = "active-by-target"
"""The index of Operations that have not ended, by their target."""
ENDED: Final = "ended-by-target"
"""The index of Operations that have ended, by their target."""
WAITS_FOR: Final = "waits-for"
"""The index of Operations that their engine keeps waiting, by the objects that the engine needs."""

_NOT_BY_ENGINE: Final = frozenset(
    {
        *(BlockedReason.CONFLICTING_OPERATION, BlockedReason.AWAITING_APPROVAL, BlockedReason.TARGET_NOT_READY),
        *(BlockedReason.OUTSIDE_MAINTENANCE_WINDOW, BlockedReason.TYPE_NOT_ALLOWED),
        *(BlockedReason.RBAC_PROFILE_MISSING, BlockedReason.AWAITING_RESUME, BlockedReason.VALIDATION_FAILED),
    }
)
"""Reasons of Blocked that a change of the engine's related objects cannot end."""
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


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


def _object_key(kind: Kind[Any], namespace: str, name: str) -> str:
    return f"{kind.group_kind}/{namespace}/{name}"


def waits_for(rows: Iterable[EngineRow], settings: OperationSettings) -> Callable[[Object], tuple[str, ...]]:
    """Return the function with the values of the index WAITS_FOR: the cached objects that the engine of a blocked Operation names first.

    An object that the engine names later, because an earlier object refers to it, is read again after a delay.
    """
    known = tuple(rows)

    def objects(operation: Object) -> tuple[str, ...]:
        blocked = operation.find_condition(OpCondition.BLOCKED)
        if _ended(operation) or blocked is None or not blocked.is_true or blocked.reason in _NOT_BY_ENGINE:
            return ()
        try:
            decoded = Operation.decode(operation.to_dict())
        except InvalidObject:
            return ()
        row = row_of(decoded.spec.type, decoded.spec.engine, known)
        if row is None:
            return ()
        target = Target(decoded.namespace, decoded.spec.target_ref.name, "")
        refs = row.engine.needs(request_for(decoded, target, settings, _LONG_AGO))
        return tuple(_object_key(ref.kind, ref.namespace, ref.name) for ref in refs if not ref.live)

    return objects


def affects_others(change: Change) -> bool:
    """Select changes of an Operation that may let another Operation of its target start, or require its deletion."""
    if change.old is None or change.new is None:
        return change.new is None
    return _standing(change.old) != _standing(change.new)


def _standing(cached: Cached) -> tuple[bool, bool, bool]:
    contestant = contestant_of(cached.decode(VIEW))
    return contestant.started, contestant.finished is None, contestant.waits_for_turn


def others_of(*, ended: bool) -> Callable[[Object, Caches], Iterable[Key]]:
    """Return the map function from an Operation to the other Operations of its target; with `ended` also to the ended Operations."""
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
    waiting = caches(VIEW).metadata_by_index(ACTIVE, target_key(instance.namespace, instance.name))
    return [_key(operation.namespace, operation.name) for operation in waiting]


def wakes_for(
    kind: Kind[Any], rows: Iterable[EngineRow], shared: str = ""
) -> Callable[[Object, Caches], Iterable[Key]]:
    """Return the map function from an object of an engine to its Operation, and to the Operations that wait for this very object.

    The annotation of an object of a namespace names Operations of that namespace only; objects of the cluster, and of `shared` (the
    namespace of Velero), name any.
    """
    is_read = any(kind in row.engine.reads for row in rows)

    def operations(changed: Object, caches: Caches) -> Iterable[Key]:
        everywhere = changed.namespace in ("", shared)
        namespace, _, name = changed.metadata.annotation(OpAnnotation.OPERATION_NAME).partition("/")
        keys = [_key(namespace, name)] if name and (everywhere or namespace == changed.namespace) else []
        if is_read:
            awaited = _object_key(kind, changed.namespace, changed.name)
            keys += [
                _key(operation.namespace, operation.name)
                for operation in caches(VIEW).metadata_by_index(WAITS_FOR, awaited)
            ]
        return keys

    return operations
