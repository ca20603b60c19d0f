"""Keys and certificates of an operator: generated, read and checked.

Guarantees: no error contains a key. A certificate is accepted only if it belongs to the key, both are Ed25519, the authority signed it, it
names the cluster, the tenant and the role, and it has not expired.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.x509.oid import NameOID

from konverge.clock import rfc3339
from konverge.errors import KonvergeError

__all__ = [
    "CertificateRefused",
    "OperatorCertificate",
    "OperatorName",
    "private_key_pem",
    "public_key_pem",
    "read_certificate",
]

_ROLE: Final = x509.ObjectIdentifier("1.3.6.1.4.1.999999.1")
_OPERATOR: Final = b"operator"


class CertificateRefused(KonvergeError):
    """A key or certificate that cannot be used; the message gives the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class OperatorName:
    """The cluster and the tenant that an operator serves."""

    cluster_id: str
    tenant: str


@dataclass(frozen=True, slots=True)
class OperatorCertificate:
    """The life of a certificate that was accepted."""

    not_before: datetime
    not_after: datetime

    def renew_at(self, now: datetime, *, fresh: bool) -> datetime:
        """Return half of its life. If the certificate seems to begin later than now, the clock is slow. Unless the certificate was just
        issued (`fresh`), its age is then unknown, and it is renewed at once.
        """
        half = (self.not_after - self.not_before) / 2
        if now < self.not_before:
            return now + half if fresh else now
        return self.not_before + half

    def retry(self, failures: int, now: datetime) -> timedelta:
        """Return the delay after a failed renewal: one minute, doubled up to 30, and never over half of the time that is left."""
        waited = timedelta(minutes=min(2 ** min(failures, 5), 30))
        return max(min(waited, (self.not_after - now) / 2), timedelta(seconds=1))


def private_key_pem(seed: bytes) -> bytes:
    """Return a new private key, PKCS#8, from 32 random bytes."""
    return ed25519.Ed25519PrivateKey.from_private_bytes(seed).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def public_key_pem(private: bytes) -> bytes:
    """Return the public half of a private key; raises CertificateRefused."""
    return (
        _read_key(private)
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )


def read_certificate(
    *, ca: bytes, certificate: bytes, key: bytes, owner: OperatorName, now: datetime
) -> OperatorCertificate:
    """Check a certificate with its key; raises CertificateRefused."""
    private = _read_key(key)
    try:
        issued = x509.load_pem_x509_certificate(certificate)
        authorities = x509.load_pem_x509_certificates(ca)
        public = issued.public_key()
    except (ValueError, UnsupportedAlgorithm) as error:
        raise CertificateRefused("the certificate or its authority is not PEM") from error
    if not isinstance(public, ed25519.Ed25519PublicKey):
        raise CertificateRefused(
            f"the certificate's key is {type(public).__name__.removesuffix('PublicKey')}, not Ed25519"
        )
    if public != private.public_key():
        raise CertificateRefused("the certificate belongs to another key")
    if not any(_issued(issued, authority) for authority in authorities):
        raise CertificateRefused("the authority in the ConfigMap did not sign the certificate")
    _check_owner(issued, owner)
    if issued.not_valid_after_utc <= now:
        raise CertificateRefused(f"the certificate expired at {rfc3339(issued.not_valid_after_utc)}")
    return OperatorCertificate(issued.not_valid_before_utc, issued.not_valid_after_utc)


def _read_key(private: bytes) -> ed25519.Ed25519PrivateKey:
    try:
        key = serialization.load_pem_private_key(private, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise CertificateRefused("the private key is not PEM") from None  # the cause could quote it
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise CertificateRefused(f"the private key is {type(key).__name__.removesuffix('PrivateKey')}, not Ed25519")
    return key


def _issued(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def _check_owner(certificate: x509.Certificate, owner: OperatorName) -> None:
    for what, oid, expected in (
        ("cluster", NameOID.COMMON_NAME, owner.cluster_id),
        ("tenant", NameOID.ORGANIZATION_NAME, owner.tenant),
    ):
        names = [str(attribute.value) for attribute in certificate.subject.get_attributes_for_oid(oid)]
        if names != [expected]:
            raise CertificateRefused(
                f"the certificate is of {what} {', '.join(names) or 'none'}, the settings say {expected}"
            )
    try:
        role = certificate.extensions.get_extension_for_oid(_ROLE).value
    except (x509.ExtensionNotFound, ValueError):
        raise CertificateRefused("the certificate has no role") from None
    if not isinstance(role, x509.UnrecognizedExtension) or role.value[2:] != _OPERATOR:
        raise CertificateRefused("the certificate is not an operator's")
