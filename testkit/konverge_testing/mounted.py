"""A ServiceAccount's files, laid out as the kubelet mounts them.

Guarantees: `token`, `ca.crt` and `namespace` are links through `..data` to a directory of their own, and a second call
replaces all three at once by renaming that link, as a rotation does. A reader sees the old set or the new one, never a
mixture.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

__all__ = ["write_mounted"]


def write_mounted(directory: Path, files: Mapping[str, bytes]) -> None:
    """Write or rotate a mounted volume of small files; `directory` is created if it does not exist."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    current = directory / "..data"
    before = current.resolve() if current.is_symlink() else None
    fresh = Path(tempfile.mkdtemp(prefix="..", dir=directory))
    for name, content in files.items():
        path = fresh / name
        path.touch(mode=0o600)
        path.write_bytes(content)
    staged = directory / "..data_tmp"
    staged.unlink(missing_ok=True)
    staged.symlink_to(fresh.name)
    staged.rename(current)
    for name in files:
        link = directory / name
        if not link.is_symlink():
            link.symlink_to(Path("..data") / name)
    if before is not None:
        shutil.rmtree(before, ignore_errors=True)
