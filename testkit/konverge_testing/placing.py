"""Puts a program into the cache whole or not at all.

Guarantees: a program appears under its name only when it is complete, on disk and executable. An interruption at any moment
leaves the old state, and perhaps a hidden file that the next attempt overwrites.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["placed"]


@contextmanager
def placed(path: Path) -> Iterator[Path]:
    """Yield a temporary path to fill; if the block succeeds, the file is renamed to `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.part")
    partial.unlink(missing_ok=True)
    try:
        yield partial
        partial.chmod(0o755)
        with partial.open("rb") as done:
            os.fsync(done.fileno())
        partial.rename(path)
    finally:
        partial.unlink(missing_ok=True)
