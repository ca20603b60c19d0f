"""TLS of the HTTP shell: one throw-away authority, a serving certificate, and the user of a client certificate.

Guarantees: keys are on disk only while the context is created, in a folder of mode 0700 that is removed afterwards. A certificate of
another authority ends the handshake (the real server responds with 401 instead).
"""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from konverge_testing.apiserver.certificates import Authority, KeyPair
from konverge_testing.apiserver.requests import User

__all__ = ["SERVING_NAMES", "context_of", "server_context", "user_of"]

SERVING_NAMES = ("127.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


def server_context(authority: Authority, hosts: Sequence[str] = SERVING_NAMES) -> ssl.SSLContext:
    """Create the context of a server with a serving certificate of the authority, which signs client certificates too."""
    return context_of(authority.server("kube-apiserver", hosts), authority.certificate)


def context_of(pair: KeyPair, clients: bytes) -> ssl.SSLContext:
    """Create the context of a server that requests client certificates and serves clients without one; `clients` signs them, PEM."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(cadata=clients.decode("ascii"))
    context.set_alpn_protocols(["http/1.1"])
    with tempfile.TemporaryDirectory(prefix="konverge-") as folder:
        both = Path(folder, "serving.pem")
        both.touch(mode=0o600)
        both.write_bytes(pair.certificate + pair.key)
        context.load_cert_chain(both)
    return context


def user_of(certificate: Mapping[str, Any] | None) -> User | None:
    """Return the user of a parsed client certificate (`ssl`): the common name, and the organisations as groups.

    >>> user_of({"subject": ((("organizationName", "dev"),), (("commonName", "jane"),))})
    User(name='jane', groups=('dev', 'system:authenticated'), uid='', extra={})
    """
    if not certificate:
        return None
    parts = [pair for names in certificate.get("subject", ()) for pair in names]
    names = [value for key, value in parts if key == "commonName"]
    groups = [value for key, value in parts if key == "organizationName"]
    return User(names[0], (*groups, "system:authenticated")) if names else None
