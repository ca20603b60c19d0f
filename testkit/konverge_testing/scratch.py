"""Directories of running control planes, and the removal of dead planes' directories.

Guarantees: every plane gets a fresh directory, mode 0700, below one root per user. A directory is alive exactly as long as
the lock in it is held; the kernel frees the lock when its last holder ends, however it ends. `claim` sweeps what dead
planes left behind (a machine that lost power, a keeper killed with SIGKILL), and never touches a living plane: creating,
locking and sweeping happen under the root's own lock.

Caveats: no sweeping across users or hosts; a root on a network file system needs working locks.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from konverge_testing.failures import ControlPlaneError

__all__ = ["Claim", "claim", "default_root"]

_LOCK = "lock"
_PREFIX = "plane-"


@dataclass(frozen=True, slots=True)
class Claim:
    """A fresh directory and the descriptor whose lock keeps it alive; the caller closes the descriptor."""

    directory: Path
    lock: int


def default_root() -> Path:
    """Return the root of this user's planes in the system's temporary folder."""
    return Path(tempfile.gettempdir()) / f"konverge-control-plane-{os.getuid()}"


def claim(root: Path) -> Claim:
    """Sweep the root, then create and lock a directory in it.

    Raises ControlPlaneError if the root belongs to another user or is open to others.
    """
    _ensure_private(root)
    with _locked(root / _LOCK):
        for directory in sorted(root.glob(f"{_PREFIX}*")):
            if not _alive(directory):
                shutil.rmtree(directory, ignore_errors=True)
        directory = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=root))
        lock = _open_lock(directory / _LOCK)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return Claim(directory, lock)


def _alive(directory: Path) -> bool:
    lock = _open_lock(directory / _LOCK)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    lock = _open_lock(path)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _open_lock(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _ensure_private(root: Path) -> None:
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    seen = root.lstat()
    if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.getuid() or stat.S_IMODE(seen.st_mode) & 0o077:
        raise ControlPlaneError(
            f"{root} must be a folder of mode 0700 that belongs to this user, because keys of control planes lie below it: "
            "remove it, or set TMPDIR"
        )
