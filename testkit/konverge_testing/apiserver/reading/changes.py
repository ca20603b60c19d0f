"""The decisions of WATCH: the change that a watcher sees for an event, the lines on the wire, and the first lines of a watch. Pure.

A watch begins as on a server of 1.36:
- without a version or with "0": the existing objects as ADDED, then, if bookmarks are requested, a bookmark;
- with a version within history: the events since that version;
- with a version before history: status 200 and one ERROR line;
- with a future version: silent until that version is reached; with sendInitialEvents, an ERROR line instead.

An object that a change moves out of the selection is DELETED in its last selected state, under the version of the change. Source:
k8s.io/apiserver `pkg/storage/cacher` (`cache_watcher.go`), KEP-3157.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec

from konverge.words import Annotation
from konverge_testing.apiserver.reading.options import ReadOptions, parse_version
from konverge_testing.apiserver.reading.selection import Selection
from konverge_testing.apiserver.statuses import StatusError, expired, too_large
from konverge_testing.apiserver.storage import Compacted, Encode, Entry, Event, EventType, Store

__all__ = [
    "Beginning",
    "Bookmark",
    "begin",
    "bookmark_of",
    "change",
    "error_line",
    "event_line",
    "line",
]

Bookmark: TypeAlias = Callable[[int, bool], bytes]
"""Returns the object of a bookmark, from its version and whether it ends the initial events."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """The beginning of a watch, in this order."""

    entries: Sequence[Entry] = ()
    """The existing objects; each becomes ADDED."""
    marked: bool = False
    """Whether a bookmark ends the initial objects."""
    events: Sequence[Event] = ()
    """The events since the requested version."""
    version: int = 0
    """Events up to this version are not sent."""
    ahead: int = 0
    """The version to wait for before the first line; 0: none."""
    error: StatusError | None = None
    """The content of an ERROR line, which ends the watch."""


def begin(store: Store, options: ReadOptions) -> Beginning:
    """Decide the beginning of a watch. Raises StatusError (500) for an invalid resourceVersion."""
    try:
        version = parse_version(options.version)
    except ValueError as error:
        raise StatusError(500, "", str(error)) from None
    if options.timeout is not None and options.timeout < 0:
        return Beginning(error=StatusError(500, "InternalError", "context deadline exceeded"))
    resource = options.selection.resource.id
    if options.initial:
        if version > store.version:
            return Beginning(ahead=version)
        entries = store.list(resource, options.selection.namespace or None)
        return Beginning(entries, options.bookmarks, version=store.version)
    if not version:
        return Beginning(version=store.version)
    try:
        return Beginning(events=store.since(resource, version), version=max(version, store.version))
    except Compacted as gone:
        return Beginning(error=expired(f"too old resource version: {gone.asked} ({gone.floor})"))


def never(version: int, store: Store) -> Beginning:
    """Decide the beginning of a watch whose version was not reached in time."""
    return Beginning(error=too_large(version, store.version))


def change(event: Event, selection: Selection) -> tuple[EventType, Entry] | None:
    """Return the change that watchers of a selection see for an event, or None."""
    entry, previous = event.entry, event.previous
    if selection.all:
        return event.type, entry
    before = previous is not None and selection.matches(previous)
    if entry.deleted:
        return ("DELETED", entry) if before else None
    if selection.matches(entry):
        return ("MODIFIED" if before else "ADDED"), entry
    if previous is not None and before:
        return "DELETED", previous.moved(entry.version, deleted=True)
    return None


def line(kind: str, body: bytes) -> bytes:
    """Return a line of a watch."""
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), body)


def event_line(event: Event, kind: EventType, entry: Entry, encode: Encode) -> bytes:
    """Return the line of a change; watchers with the same `encode` share it while the event is handed out."""
    if entry is not event.entry:
        return line(kind, encode(entry))
    lines = event.lines
    if lines is None:
        lines = event.lines = {}
    key = kind, encode
    found = lines.get(key)
    if found is None:
        found = lines[key] = line(kind, encode(entry))
    return found


def error_line(error: StatusError) -> bytes:
    """Return the line that ends a watch."""
    return line("ERROR", msgspec.json.encode(error.body()))


def bookmark_of(api_version: str, kind: str, *, zero: Mapping[str, Any] = MappingProxyType({})) -> Bookmark:
    """Return the function that builds bookmarks of a kind; `zero` is Go's JSON of an empty object of the kind."""
    rest = {name: value for name, value in zero.items() if name not in ("apiVersion", "kind", "metadata")}

    def make(version: int, initial: bool) -> bytes:
        metadata: dict[str, Any] = {"resourceVersion": str(version)}
        if initial:
            metadata["annotations"] = {Annotation.INITIAL_EVENTS_END: "true"}
        return msgspec.json.encode({"kind": kind, "apiVersion": api_version, "metadata": metadata, **rest})

    return make
