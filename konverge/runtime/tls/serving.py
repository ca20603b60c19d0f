"""The serving certificate: replaced during operation, from mounted files or from the manager's self-made certificates.

Guarantees: a handshake that began before `load` ends with the old certificate; every later handshake uses the new certificate. Open
connections stay. A pair that does not belong together is refused with ConfigError and changes nothing: the kubelet swaps mounted files
as one directory, but a copy by hand is not atomic. A key touches the disk only while OpenSSL reads it.
"""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path

from konverge.errors import ConfigError

__all__ = ["MountedPair", "ServingCertificate"]


class ServingCertificate:
    """The context that a server listens with. It serves no handshake until the first `load`."""

    def __init__(self, what: str = "the webhooks") -> None:
        self._what = what
        self.context = _context()
        self._loaded: tuple[bytes, bytes] | None = None

    @property
    def certificate(self) -> bytes:
        """The certificate that is served, PEM; "" before the first."""
        return b"" if self._loaded is None else self._loaded[0]

    def load(self, certificate: bytes, key: bytes) -> bool:
        """Serve this certificate (PEM, with its chain) from now on; False if it is served already.

        Raises ConfigError if certificate and key do not belong together.
        """
        if self._loaded == (certificate, key):
            return False
        # OpenSSL replaces the certificate before it checks the key, so a scratch context checks the pair first.
        self._load(_context(), certificate, key)
        self._load(self.context, certificate, key)
        self._loaded = (certificate, key)
        return True

    def _load(self, context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
        try:
            with tempfile.TemporaryDirectory(prefix="konverge-") as folder:
                both = Path(folder, "serving.pem")
                both.touch(mode=0o600)
                both.write_bytes(certificate.rstrip() + b"\n" + key)
                context.load_cert_chain(both)
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(f"the serving certificate of {self._what} and its key do not work: {error}") from error
        except OSError as error:
            raise ConfigError(
                f"the serving certificate of {self._what} cannot be loaded, since OpenSSL reads files alone and none can be written: "
                f"{error}; mount a writable /tmp (memory is enough), or set TMPDIR"
            ) from error


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # 1.2 for the API servers of other distributions; two that both know 1.3 agree on that.
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.maximum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(["http/1.1"])
    return context


class MountedPair:
    """`tls.crt` and `tls.key` in a folder, as a Secret of cert-manager is mounted."""

    def __init__(self, folder: str, *, setting: str = "webhooks.certificates") -> None:
        self._folder = Path(folder)
        self._setting = setting

    def read(self) -> tuple[bytes, bytes]:
        """Return certificate and key as they are now; raises ConfigError that names the file that cannot be read."""
        contents = []
        for name in ("tls.crt", "tls.key"):
            path = self._folder / name
            try:
                contents.append(path.read_bytes())
            except OSError as error:
                raise ConfigError(
                    f"{path} cannot be read: {error.strerror or error}; mount the Secret of the serving certificate there, "
                    f"or leave {self._setting} empty to have certificates made"
                ) from error
        return contents[0], contents[1]
