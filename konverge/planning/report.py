"""The result of a plan as data: the changes of objects with their reasons, the Events, the failures, and the objects that were not tried.

Guarantees: the values of a Secret, and of annotations that hold a copy of it, are blanked. The uid of a planned object, which each dry run
chooses, is replaced by a text. Changes that the server makes in each write (versions, field managers) are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from konverge.planning.documents import Difference, Document, differences
from konverge.planning.overlay import Cause, Overlay, PlannedObject
from konverge.planning.transport import RecordedEvent

__all__ = ["BLANKED", "PlanFailure", "NotTried", "ObjectChange", "PlanReport", "changes_of", "decided_part"]

BLANKED: Final = "(blanked)"
_CHANGED: Final = "(blanked, another value)"
_UNKNOWN: Final = "(known after the write)"
_SERVERS: Final = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid")
_COPY: Final = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectChange:
    """The change of one object: `create`, `update`, `replace`, `delete`, or `write` if its stored state may not be read."""

    action: str
    api_version: str
    kind: str
    namespace: str
    name: str
    fields: tuple[Difference, ...] = ()
    causes: tuple[Cause, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the change as plain data."""
        return {
            "action": self.action,
            "apiVersion": self.api_version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "fields": [_difference(change) for change in self.fields],
            "causes": [
                {"controller": cause.controller, "key": cause.key, "reasons": list(cause.reasons)}
                for cause in self.causes
            ],
        }


def _difference(change: Difference) -> dict[str, Any]:
    sides = {} if change.added else {"before": change.before}
    return {"path": change.path, **sides, **({} if change.removed else {"after": change.after})}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFailure:
    """A reconcile that raised, a controller that is not ready, or a key that never settles."""

    controller: str
    key: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotTried:
    """The objects of a controller that were not reconciled, since it acts outside Kubernetes."""

    controller: str
    calls: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanReport:
    """The changes that this version of an operator would make on a cluster. True if it would change an object.

    `reconciled` counts the objects that were reconciled. Events do not count as changes.
    """

    changes: tuple[ObjectChange, ...] = ()
    events: tuple[RecordedEvent, ...] = ()
    not_tried: tuple[NotTried, ...] = ()
    failed: tuple[PlanFailure, ...] = ()
    reconciled: int = 0

    def __bool__(self) -> bool:
        return bool(self.changes)

    @property
    def exit_code(self) -> int:
        """1 if anything failed, 2 if an object would change, else 0."""
        return 1 if self.failed else 2 if self.changes else 0

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {
            "changes": [change.to_dict() for change in self.changes],
            "events": [
                {"about": event.about, "type": event.type, "reason": event.reason, "note": event.note}
                for event in self.events
            ],
            "notTried": [
                {"controller": entry.controller, "calls": entry.calls, "objects": list(entry.keys)}
                for entry in self.not_tried
            ],
            "failed": [
                {"controller": entry.controller, "key": entry.key, "error": entry.error} for entry in self.failed
            ],
            "reconciled": self.reconciled,
        }


@dataclass(slots=True)
class _Names:
    """The uids of planned objects, each with the text that replaces it: every dry run of a create returns another uid."""

    by_uid: dict[str, str] = field(default_factory=dict)

    def within(self, value: Any) -> Any:
        """Return a value with the uids replaced."""
        if isinstance(value, str):
            return self.by_uid.get(value, value)
        if isinstance(value, Mapping):
            return {name: self.within(member) for name, member in value.items()}
        return [self.within(member) for member in value] if isinstance(value, list) else value


def changes_of(overlay: Overlay) -> tuple[ObjectChange, ...]:
    """Return the changes of all objects, in the order of their kinds, namespaces and names."""
    names = _Names({entry.identity["uid"]: _UNKNOWN for entry in overlay.objects.values() if entry.identity})
    changes = [change for entry in overlay.objects.values() if (change := _change_of(entry, names)) is not None]
    return tuple(sorted(changes, key=lambda change: (change.api_version, change.kind, change.namespace, change.name)))


def _change_of(entry: PlannedObject, names: _Names) -> ObjectChange | None:
    stored, current = entry.stored, entry.current
    shown = current or stored
    if shown is None:
        return None
    before, after = (decided_part(side) for side in (stored, current))
    fields = tuple(differences(before, names.within(after))) if current is not None else ()
    if current is not None and not fields and not entry.replaced:
        return None
    return ObjectChange(
        action=_action(entry),
        api_version=str(shown.get("apiVersion", "")),
        kind=str(shown.get("kind", "") or entry.object_id.plural),
        namespace=entry.object_id.namespace,
        name=entry.object_id.name,
        fields=_blanked(fields) if shown.get("kind") == "Secret" else fields,
        causes=tuple(entry.causes.values()),
    )


def _action(entry: PlannedObject) -> str:
    if entry.current is None:
        return "delete"
    if not entry.readable:
        return "write"
    return "create" if entry.stored is None else "replace" if entry.replaced else "update"


def decided_part(document: Document | None) -> Document:
    """Return the part of an object that a person or a controller decides."""
    if document is None:
        return {}
    metadata = {name: value for name, value in document["metadata"].items() if name not in _SERVERS}
    rest = {name: value for name, value in document.items() if name not in {"apiVersion", "kind"}}
    hidden = {name: value for name, value in metadata.items() if name not in {"name", "namespace"}}
    return (
        {**rest, "metadata": hidden} if hidden else {name: value for name, value in rest.items() if name != "metadata"}
    )


def _blanked(fields: Iterable[Difference]) -> tuple[Difference, ...]:
    """Return the differences of a Secret without its values."""
    return tuple(
        change._replace(
            before=None if change.added else BLANKED,
            after=None if change.removed else BLANKED if change.added else _CHANGED,
        )
        if change.path.startswith((".data", ".stringData")) or _COPY in change.path
        else change
        for change in fields
    )
