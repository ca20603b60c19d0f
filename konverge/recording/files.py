"""The file of a recording: append-only lines, bounded in size by one rotation.

Guarantees: `path` and `path`.1 together take at most `size` bytes, and each is complete by itself. Their mode is 0600. A line is handed to
the kernel before the reconcile's requeue, so a killed process loses at most the line that it was writing. A file of an earlier process is
kept as `path`.1. An error of the disk ends the recording with one line in the log, and no reconcile fails for it.

Caveats: two processes need two names (`{pid}`, `{hostname}`). The lines are written on the event loop.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from konverge.errors import ConfigError
from konverge.logs import get_logger

__all__ = ["LEAST", "LogFiles", "older", "path_of"]

LEAST: Final = 1 << 16
"""Bytes of the smallest recording."""
_MODE: Final = 0o600


def path_of(name: str) -> Path:
    """Return the file that a name stands for: `{pid}` and `{hostname}` are this process's. Raises ConfigError for other placeholders."""
    try:
        return Path(name.format(pid=os.getpid(), hostname=socket.gethostname()))
    except (LookupError, ValueError, AttributeError) as error:
        raise ConfigError(f"the recording {name!r}: only {{pid}} and {{hostname}} may be in braces") from error


def older(path: Path) -> Path:
    """Return the file with the entries before the last rotation."""
    return path.with_name(f"{path.name}.1")


class LogFiles:
    """Writes lines. `head` returns the lines that begin each file."""

    def __init__(self, path: Path, size: int, head: Callable[[], list[bytes]]) -> None:
        if size < LEAST:
            raise ConfigError(f"the recording {path}: {size} bytes are too few, {LEAST} is the least")
        self._path = path
        self._limit = size // 2
        self._head = head
        self._file: int | None = None
        self._written = 0
        self._known: set[str] = set()

    def open(self) -> None:
        """Begin a file; a file of this name is kept as the older file. Raises ConfigError."""
        try:
            self._begin()
        except OSError as error:
            raise ConfigError(f"cannot record to {self._path}: {error.strerror or error}") from error

    def _begin(self) -> None:
        self._close()
        if self._path.exists():
            self._path.replace(older(self._path))
        self._file = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, _MODE)
        self._written = 0
        self._known.clear()
        self._put(b"".join(self._head()))

    def write(self, documents: Mapping[str, Callable[[], bytes]], line: bytes, shorter: Callable[[int], bytes]) -> None:
        """Write a line after those of its documents that the file lacks.

        Each document is a function that returns its line, which is called only then. `shorter` returns the line to write if all of these do
        not fit.
        """
        if self._file is None:
            return
        try:
            lines = self._lacking(documents, line)
            if self._written + len(lines) > self._limit:
                self._begin()
                lines = self._lacking(documents, line)
                if self._written + len(lines) > self._limit:
                    self._put(shorter(len(lines)))
                    return
            self._known.update(documents)
            self._put(lines)
        except OSError as error:
            self._close()
            get_logger("konverge.recording").error("the recording ended", file=str(self._path), error=str(error))

    def _lacking(self, documents: Mapping[str, Callable[[], bytes]], line: bytes) -> bytes:
        return b"".join([*(body() for name, body in documents.items() if name not in self._known), line])

    def _put(self, lines: bytes) -> None:
        assert self._file is not None
        left = memoryview(lines)
        while left:
            left = left[os.write(self._file, left) :]
        self._written += len(lines)

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def close(self) -> None:
        """End the recording."""
        self._close()
