"""Credentials (authorization and TLS material) and the sources that renew them.

Guarantees: a repr shows nothing secret. A source returns its current credentials at once unless it knows that they expired. After a 401
the client calls `distrust`, and the source reads them again. A file is read again if its stat changed, and at least once a minute.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from konverge.errors import ConfigError

__all__ = ["CredentialSource", "Credentials", "FixedCredentials", "FollowedFile", "TlsMaterial"]

LOOK_SECONDS = 1.0
"""The shortest time between two stats of a followed file, in seconds."""
REREAD_SECONDS = 60.0
"""The longest time between two reads of a followed file, in seconds: some network file systems report changes late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsMaterial:
    """PEM bytes: the authorities to trust (empty: the system's), the client's certificate and key (empty: none)."""

    ca: bytes = field(default=b"", repr=False)
    certificate: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """The Authorization header ("" for none), further headers (impersonation), and the TLS material."""

    authorization: str = field(default="", repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    tls: TlsMaterial = field(default_factory=TlsMaterial, repr=False)


class CredentialSource(Protocol):
    """Provides credentials and renews them."""

    async def current(self) -> Credentials:
        """Return the credentials to use now; renews them if they are due."""

    def distrust(self) -> None:
        """Record that the server refused them: the next `current` reads them again."""


class FixedCredentials:
    """Credentials that never change."""

    def __init__(self, credentials: Credentials) -> None:
        self.credentials = credentials

    async def current(self) -> Credentials:
        """Return them."""
        return self.credentials

    def distrust(self) -> None:
        """Do nothing: fixed credentials cannot be renewed."""


class FollowedFile:
    """A small file that another program replaces from time to time, such as a mounted token.

    While the file is missing or unreadable its last content stays in use: rotation by rename has such moments on some file systems,
    and the server refuses a token that was really revoked.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp: tuple[int, int, int] | None = None
        self._content = b""
        self.look_at = float("-inf")
        """The loop time from which `read` checks the file again."""
        self._read_at = float("-inf")

    def read(self, now: float) -> bytes:
        """Return the content as it was at most a second ago; raises ConfigError if it was never readable."""
        if now >= self.look_at:
            self._look(now)
            self.look_at = now + LOOK_SECONDS
        return self._content

    def distrust(self) -> None:
        """Read the file again at the next `read`."""
        self.look_at = self._read_at = float("-inf")

    def _look(self, now: float) -> None:
        try:
            status = os.stat(self.path)  # noqa: PTH116 - half the cost of Path.stat, and this is on the way of every request
            stamp = (status.st_mtime_ns, status.st_ino, status.st_size)
            if stamp == self._stamp and now < self._read_at + REREAD_SECONDS:
                return
            content = self.path.read_bytes()
        except OSError as error:
            if not self._content:
                raise ConfigError(f"{self.path} cannot be read: {error.strerror}") from error
            return
        if not content.strip():
            if not self._content:
                raise ConfigError(f"{self.path} is empty")
            return
        self._stamp, self._read_at, self._content = stamp, now, content


def loop_time() -> float:
    """Return the running loop's time."""
    return asyncio.get_running_loop().time()
