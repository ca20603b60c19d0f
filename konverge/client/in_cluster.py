"""The ServiceAccount that Kubernetes mounts into a pod, read directly.

Guarantees: no import beyond the standard library. Token and CA are read again after rotation: the kubelet swaps a symlink long before
the token expires. The environment variables that the kubelet sets for every container give the address.

Source: https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from konverge.client.credentials import Credentials, FollowedFile, TlsMaterial, loop_time
from konverge.errors import ConfigError

__all__ = ["MOUNT", "Mounted", "MountedCredentials", "is_mounted", "mounted"]

MOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_HOST, _PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"


class MountedCredentials:
    """Token and CA of the mount, read again after rotation."""

    def __init__(self, mount: Path) -> None:
        self._token = FollowedFile(mount / "token")
        self._ca = FollowedFile(mount / "ca.crt")
        self._made: tuple[bytes, bytes] = (b"", b"")
        # The loop time of the next check of the files.
        self._look_at = float("-inf")
        self._credentials = Credentials()

    def read(self, now: float) -> Credentials:
        """Return the credentials as they were at most a second before this loop time."""
        if now < self._look_at:
            return self._credentials
        files = (self._token.read(now), self._ca.read(now))
        self._look_at = min(self._token.look_at, self._ca.look_at)
        if files != self._made:
            try:
                token = files[0].decode("ascii").strip()
            except UnicodeDecodeError:
                if not self._made[0]:
                    raise ConfigError(f"{self._token.path} holds something else than a token") from None
                return self._credentials
            self._credentials = Credentials(authorization=f"Bearer {token}", tls=TlsMaterial(ca=files[1]))
            self._made = files
        return self._credentials

    async def current(self) -> Credentials:
        """Return the credentials as they were at most a second ago."""
        return self.read(loop_time())

    def distrust(self) -> None:
        """Read the token again at the next request."""
        self._look_at = float("-inf")
        self._token.distrust()


class Mounted(msgspec.Struct, frozen=True):
    """Address, namespace and credentials of a pod for its API server."""

    server: str
    namespace: str
    source: MountedCredentials


def is_mounted(mount: Path, environ: Mapping[str, str]) -> bool:
    """Whether this is a pod with a mounted ServiceAccount."""
    return bool(environ.get(_HOST)) and (mount / "token").is_file()


def mounted(mount: Path, environ: Mapping[str, str]) -> Mounted:
    """Read the mount; raises ConfigError that names the file or variable that is missing."""
    host, port = environ.get(_HOST, ""), environ.get(_PORT, "")
    if not host or not port:
        missing = _HOST if not host else _PORT
        raise ConfigError(f"not in a cluster: the environment variable {missing} is not set")
    source = MountedCredentials(mount)
    try:
        source.read(0.0)
    except ConfigError as error:
        raise ConfigError(f"{error}; mount a ServiceAccount (automountServiceAccountToken: true)") from error
    finally:
        source.distrust()
    try:
        namespace = (mount / "namespace").read_text("utf-8").strip()
    except OSError:
        namespace = ""
    address = f"[{host}]" if ":" in host else host
    return Mounted(f"https://{address}:{port}", namespace, source)
