"""`KONVERGE_RECORD`: what each reconcile read and wrote, in a file; `konverge replay`, of the test kit, runs a reconcile of it again.

    recorder.py     the tap of a manager: collects each reconcile
    caches.py       records the reads of caches; transport.py: the requests
    blanks.py       replaces secret values
    entries.py      the lines of the file; files.py: the file; reading.py: reads it

Guarantees: a recording fails no reconcile. Values of Secrets are blanked, and equal values are equal in the file. A manager without a
recording runs no code of this package.

Caveats: a reconcile that a killed process was running is not recorded. See docs/guide/replay.md for what is not blanked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from konverge.errors import UsageError
from konverge.recording.entries import (
    CacheRead,
    Document,
    EventLine,
    Exchange,
    Header,
    KeyName,
    RecordedReconcile,
)
from konverge.recording.files import path_of
from konverge.recording.reading import Recording, read_lines, read_recording
from konverge.recording.recorder import Recorder

if TYPE_CHECKING:
    from konverge.runtime import Manager

__all__ = [
    "CacheRead",
    "Document",
    "Exchange",
    "Header",
    "KeyName",
    "EventLine",
    "RecordedReconcile",
    "Recorder",
    "Recording",
    "SIZE",
    "read_lines",
    "read_recording",
    "record",
]

SIZE: Final = 64 << 20
"""Bytes of a recording, unless another size is given."""


def record(manager: Manager, file: str, *, size: int = SIZE) -> None:
    """Record the reconciles of a manager that was not started.

    `file` may have `{pid}` and `{hostname}` in it. It and the older file `file`.1 take `size` bytes at most. Errors: ConfigError here or at
    the start if nothing can be written to the file, UsageError for a manager that is recorded already.
    """
    if manager.tap is not None:
        raise UsageError(f"manager {manager.name!r} is recorded already")
    manager.tap = Recorder(path_of(file), size, operator=manager.name, namespace=manager.settings.namespace)
