"""TLS contexts from PEM bytes, and hints for handshakes that fail for a known reason.

Guarantees: a context is built from bytes only; a key is on disk only while OpenSSL reads it, in a private directory that is removed
afterwards.

Python 3.13 began to refuse certificates that break RFC 5280 in ways that many cluster authorities do (no authority key identifier,
basic constraints that are not marked critical). `TlsOptions.strict_x509` is the switch, and the error names it.

Source: https://docs.python.org/3/whatsnew/3.13.html#ssl
"""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path

import msgspec

from konverge.client.credentials import TlsMaterial
from konverge.errors import ConfigError

__all__ = ["TlsOptions", "handshake_hint", "make_context"]

_STRICT_COMPLAINTS = (
    "authority key identifier",
    "subject key identifier",
    "basic constraints of ca cert not marked critical",
    "ca cert does not include key usage",
    "key usage",
    "path length given without key usage",
    "empty subject",
)


class TlsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options for the verification of the server's certificate.

    `server_name` is checked and sent instead of the host of the URL. `strict_x509` None leaves it to Python (strict from 3.13 on),
    False accepts authorities that strict checking refuses, True insists.
    """

    verify: bool = True
    server_name: str = ""
    strict_x509: bool | None = None


def make_context(material: TlsMaterial, options: TlsOptions) -> ssl.SSLContext:
    """Build a client context; takes some 20 ms if the system's authorities are loaded, so call it off the loop.

    Raises ConfigError if the bytes are not PEM certificates and a key.
    """
    try:
        context = ssl.create_default_context(cadata=material.ca.decode("ascii") or None)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"the certificate authority is no PEM certificate: {error}") from error
    context.set_alpn_protocols(["http/1.1"])
    if not options.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if options.strict_x509 is True:
        context.verify_flags |= ssl.VERIFY_X509_STRICT
    elif options.strict_x509 is False:
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if material.certificate:
        _load_chain(context, material)
    return context


def _load_chain(context: ssl.SSLContext, material: TlsMaterial) -> None:
    try:
        with tempfile.TemporaryDirectory(prefix="konverge-") as directory:
            chain = Path(directory, "chain.pem")
            chain.touch(mode=0o600)
            chain.write_bytes(material.certificate.rstrip() + b"\n" + material.key)
            context.load_cert_chain(chain)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"the client certificate and its key do not work: {error}") from error
    except OSError as error:
        raise ConfigError(
            f"the client certificate cannot be loaded, since OpenSSL reads files alone and none can be written: {error}; "
            "mount a writable /tmp (memory is enough), or set TMPDIR"
        ) from error


def handshake_hint(error: BaseException, options: TlsOptions) -> str:
    """Return advice for a failed handshake, "" if the error is not a known one."""
    words = str(error).lower()
    if "certificate verify failed" not in words:
        return ""
    if options.strict_x509 is not False and any(complaint in words for complaint in _STRICT_COMPLAINTS):
        return (
            "; Python checks certificates strictly since 3.13 and this authority does not comply: "
            "renew it, or load the configuration with strict_x509=False"
        )
    if "hostname mismatch" in words or "ip address mismatch" in words:
        return "; the certificate is for another name: set tls-server-name in the kubeconfig, or use the right address"
    if "unable to get local issuer" in words or "self-signed" in words or "self signed" in words:
        return "; the certificate authority of the configuration did not sign the server's certificate"
    return ""
