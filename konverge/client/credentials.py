"""What a request is signed with and a connection secured with, and where that comes from while it changes.

Promises: nothing secret shows in a repr. A source hands out what it has at once unless it knows it to be expired; it is told when
the server refused it (`distrust`) and then looks again. Files are followed by their stamp and, whatever the stamp says, each minute.
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
"""How often a followed file's stamp is looked at, at most."""
REREAD_SECONDS = 60.0
"""How often a followed file is read though its stamp did not change; some network file systems lie."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsMaterial:
    """PEM bytes: the authorities to trust (empty: the system's), the client's certificate and key (empty: none)."""

    ca: bytes = field(default=b"", repr=False)
    certificate: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Who asks: the Authorization header ("" for none), further headers (impersonation), and the TLS material."""

    authorization: str = field(default="", repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    tls: TlsMaterial = field(default_factory=TlsMaterial, repr=False)


class CredentialSource(Protocol):
    """Where credentials come from."""

    async def current(self) -> Credentials:
        """Return the credentials to use now; renews them where they are due."""

    def distrust(self) -> None:
        """Take note that the server refused them: the next `current` looks afresh."""


class FixedCredentials:
    """Credentials that never change."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    async def current(self) -> Credentials:
        """Return them."""
        return self._credentials

    def distrust(self) -> None:
        """Do nothing: there are no others."""


class FollowedFile:
    """A small file that somebody else replaces from time to time.

    A file that is missing or unreadable for a moment keeps its last content: rotation by rename has such moments on some
    file systems, and a token that is really gone is refused by the server anyway.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp: tuple[int, int, int] | None = None
        self._content = b""
        self._look_at = float("-inf")
        self._read_at = float("-inf")

    def read(self, now: float) -> bytes:
        """Return the content as it was at most a second ago; raises ConfigError where it could never be read."""
        if now >= self._look_at:
            self._look(now)
            self._look_at = now + LOOK_SECONDS
        return self._content

    def distrust(self) -> None:
        """Look at the next read, whatever the time."""
        self._look_at = self._read_at = float("-inf")

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
