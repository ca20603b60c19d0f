"""The TLS certificate of the metrics server: from files, or self-made, and kept up to date.

Guarantees: the first certificate is loaded before the server listens; if a later certificate cannot be read, that is logged and the
last stays in use.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import ssl
from typing import TYPE_CHECKING, Final

from konverge.clock import wall_clock
from konverge.errors import KonvergeError
from konverge.logs import get_logger
from konverge.runtime.tls.serving import MountedPair, ServingCertificate
from konverge.words import LogKey

if TYPE_CHECKING:
    from konverge.runtime.tls.certificates import Material

__all__ = ["ServingPair"]

_LOOK: Final = 10.0
"""Seconds between two checks of the files; controller-runtime's."""
_LOOK_AT_OWN: Final = 6 * 3600.0
"""Seconds between two checks of the age of a self-made certificate, which is valid for months."""
_NAMES: Final = ("localhost", "127.0.0.1")
_HOST: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,62})")


class ServingPair:
    """Keeps a serving certificate up to date until it is stopped. `folder` holds tls.crt and tls.key; "" is for a self-made certificate."""

    def __init__(self, folder: str) -> None:
        self._files = MountedPair(folder, setting="metrics_certificates") if folder else None
        self._served = ServingCertificate("metrics")
        self._made: Material | None = None
        self._task: asyncio.Task[None] | None = None
        self._error = ""
        self._log = get_logger("konverge.runtime")

    @property
    def context(self) -> ssl.SSLContext:
        """The context to listen with."""
        return self._served.context

    @property
    def certificate(self) -> bytes:
        """The certificate that new connections are shown, PEM."""
        return self._served.certificate

    def start(self) -> None:
        """Load the certificate; raises ConfigError if the files cannot be used."""
        self._load()
        self._task = asyncio.create_task(self._follow(), name="konverge metrics certificate")

    async def stop(self) -> None:
        """End; harmless when called twice."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_AT_OWN if self._files is None else _LOOK)
            try:
                self._load()
                self._error = ""
            except (KonvergeError, OSError) as error:
                if str(error) != self._error:
                    self._error = str(error)
                    self._log.error("the certificate of metrics cannot be replaced", **{LogKey.ERROR: self._error})

    def _load(self) -> None:
        certificate, key = self._files.read() if self._files is not None else self._own()
        if self._served.load(certificate, key):
            self._log.info("the serving certificate of metrics is new")

    def _own(self) -> tuple[bytes, bytes]:
        from konverge.runtime.tls.certificates import renewed

        host = socket.gethostname()
        hosts = (*_NAMES, host) if _HOST.fullmatch(host) else _NAMES
        self._made = renewed(self._made, authority="konverge metrics", hosts=hosts, now=wall_clock())
        return self._made.certificate, self._made.key
