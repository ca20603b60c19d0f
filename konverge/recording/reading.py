"""A recording, read from its files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from konverge.errors import UsageError
from konverge.recording.entries import (
    VERSION,
    CacheRead,
    Document,
    EventLine,
    Header,
    Line,
    RecordedReconcile,
    Served,
)
from konverge.recording.files import older

__all__ = ["Recording", "read_lines", "read_recording"]

_DECODE: Final = msgspec.json.Decoder(Header | Served | Document | RecordedReconcile | EventLine).decode


class _Version(msgspec.Struct):
    version: int = 0


@dataclass(slots=True)
class Recording:
    """The reconciles of a process in order, and the documents that they name."""

    header: Header
    served: dict[str, bytes] = field(default_factory=dict)
    documents: dict[str, Document] = field(default_factory=dict)
    reconciles: list[RecordedReconcile] = field(default_factory=list)
    events: list[EventLine] = field(default_factory=list)

    def objects(self, read: CacheRead) -> tuple[str, ...]:
        """Return the documents of the objects that a cache read returned."""
        return tuple(self.data(read.many)) if read.many else read.documents

    def data(self, document: str) -> Any:
        """Return the content of a document as new data, None for an empty body."""
        return self.documents[document].data() if document else None


def read_lines(lines: Iterable[bytes], name: str) -> Recording:
    """Return the recording in these lines; a torn last line is left out. Raises UsageError for anything else."""
    recording: Recording | None = None
    torn = False
    for line in lines:
        if torn:
            raise UsageError(f"{name} is no recording: a line in its middle is malformed")
        try:
            entry: Line = _DECODE(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            torn = True
            continue
        if recording is None:
            if not isinstance(entry, Header):
                break
            recording = Recording(entry)
        match entry:
            case Header() if entry.version > VERSION:
                raise UsageError(f"{name} is of a later konverge ({entry.konverge}): replay it with that version")
            case Served():
                recording.served[entry.path] = bytes(entry.body)
            case Document():
                recording.documents[entry.id] = entry
            case RecordedReconcile():
                recording.reconciles.append(entry)
            case EventLine():
                recording.events.append(entry)
    if recording is None:
        raise UsageError(
            f"{name} is no recording: its first line is no header; KONVERGE_RECORD=FILE writes a recording"
        )
    return recording


def read_recording(path: Path) -> Recording:
    """Return the recording of a file and of its older file, if both are of one process. Raises UsageError."""
    try:
        present = read_lines(path.read_bytes().splitlines(), str(path))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
    before = older(path)
    if not before.is_file():
        return present
    past = read_lines(before.read_bytes().splitlines(), str(before))
    if (past.header.host, past.header.pid) != (present.header.host, present.header.pid):
        return present
    return Recording(
        present.header,
        {**past.served, **present.served},
        {**past.documents, **present.documents},
        [*past.reconciles, *present.reconciles],
        [*past.events, *present.events],
    )
