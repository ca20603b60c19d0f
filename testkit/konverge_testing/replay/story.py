"""The story of a recorded reconcile: the objects before it, and what other writers changed until it ran. Pure.

It begins with the last reconcile of the object that succeeded before, or else with the reconcile itself. Each later reconcile shows changes
of other writers: objects in a state that neither an earlier reconcile read nor the operator wrote.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from konverge.client.targets import ObjectId, target_of
from konverge.planning.documents import Document
from konverge.recording import RecordedReconcile, Recording
from konverge_testing.replay.cluster import objects_of
from konverge_testing.replay.restored import SERVERS

__all__ = ["Change", "Story", "story_of"]

_SILENT: Final = SERVERS | {"namespace", "name"}


@dataclass(frozen=True, slots=True)
class Change:
    """One change of another writer: `create`, `patch` (with a merge patch, maybe of a subresource) or `delete`."""

    verb: str
    document: Document
    patch: dict[str, Any] | None = None
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Story:
    """The objects at the beginning, and the changes in order. `first` is the reconcile that it begins with."""

    first: RecordedReconcile
    before: tuple[Document, ...]
    changes: tuple[Change, ...]


def story_of(recording: Recording, reconcile: RecordedReconcile) -> Story:
    """Return the story of a reconcile."""
    chain = _chain(recording, reconcile)
    known = dict(objects_of(recording, chain[0]))
    # A child that the first reconcile creates is the operator's to create.
    before, changes = tuple(known.values()), list[Change]()
    for earlier, later in pairwise(chain):
        for object_id, written in _written(recording, earlier):
            if written is None:
                known.pop(object_id, None)
            else:
                known[object_id] = written
        seen = objects_of(recording, later)
        for object_id, document in seen.items():
            changes += _changes(known.get(object_id), document)
        changes += [Change("delete", known.pop(each)) for each in _absent(later, known) if each not in seen]
        known.update(seen)
    return Story(chain[0], before, tuple(changes))


def _chain(recording: Recording, reconcile: RecordedReconcile) -> list[RecordedReconcile]:
    """Return the reconciles of the object from the last success before this reconcile on."""
    chain = [
        each
        for each in recording.reconciles
        if (each.controller, each.key) == (reconcile.controller, reconcile.key)
        and each.number <= reconcile.number
        and not each.dropped
    ]
    successes = [
        position for position, each in enumerate(chain[:-1]) if not each.failed and each.outcome != "Cancelled"
    ]
    return chain[successes[-1] if successes else -1 :] if reconcile.failed else chain[-2:]


def _written(recording: Recording, reconcile: RecordedReconcile) -> Iterator[tuple[ObjectId, Document | None]]:
    """Yield each object that the operator wrote, as the server returned it, None for a deleted object."""
    for exchange in reconcile.exchanges:
        target = target_of(exchange.path)
        data = recording.data(exchange.response)
        wrote = exchange.writes and 200 <= exchange.status < 300 and target is not None and bool(target.name)
        if wrote and target is not None and isinstance(data, dict):
            yield target.object_id, data if "name" in data.get("metadata", {}) else None


def _absent(reconcile: RecordedReconcile, known: dict[ObjectId, Document]) -> list[ObjectId]:
    """Return the known objects that a reconcile looked for by name and did not find."""
    missing = {
        (read.kind, read.argument)
        for read in reconcile.reads
        if read.operation in {"get", "write"} and not read.documents
    }
    gone = {target_of(each.path) for each in reconcile.exchanges if each.method == "GET" and each.status == 404}
    return [
        object_id
        for object_id, document in known.items()
        if (document["kind"], f"{object_id.namespace}/{object_id.name}".lstrip("/")) in missing
        or any(target is not None and target.object_id == object_id for target in gone)
    ]


def _changes(before: Document | None, after: Document) -> Iterator[Change]:
    if before is None:
        yield Change("create", after)
        return
    if before["metadata"].get("resourceVersion") == after["metadata"].get("resourceVersion"):
        return
    main, status = _merge(_plain(before), _plain(after)), _merge(before.get("status") or {}, after.get("status") or {})
    if main:
        yield Change("patch", after, main)
    if status:
        yield Change("patch", after, {"status": status}, "status")
    if after["metadata"].get("deletionTimestamp") and not before["metadata"].get("deletionTimestamp"):
        yield Change("delete", after)


def _plain(document: Document) -> Document:
    metadata = {name: part for name, part in document["metadata"].items() if name not in _SILENT}
    rest = {name: part for name, part in document.items() if name not in {"apiVersion", "kind", "metadata", "status"}}
    return {**rest, "metadata": metadata}


def _merge(before: Document, after: Document) -> dict[str, Any]:
    """Return the JSON merge patch between two states."""
    patch: dict[str, Any] = {name: None for name in before if name not in after}
    for name, value in after.items():
        old = before.get(name)
        if isinstance(old, dict) and isinstance(value, dict):
            if inner := _merge(old, value):
                patch[name] = inner
        elif value != old:
            patch[name] = value
    return patch
