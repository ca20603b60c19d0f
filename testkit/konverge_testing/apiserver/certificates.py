"""Keys and certificates of one throw-away control plane.

Guarantees: every authority signs with a key that lives in memory only; leaf keys are returned as PEM for the caller to write
with mode 0600. Elliptic curve P-256 throughout: a plane must start in seconds, and RSA keys take longer to generate. Validity is
ten days from the creation of the authority, for everything that it signs: the certificates are for short tests only.

Caveats: not for production (no revocation, rotation or constraints on names).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from konverge import clock

__all__ = ["Authority", "KeyPair", "general_name", "signing_key"]

_VALIDITY = timedelta(days=10)
_CLOCK_SKEW = timedelta(hours=1)


@dataclass(frozen=True, slots=True, repr=False)
class KeyPair:
    """A certificate and its private key, both PEM. The repr shows neither."""

    certificate: bytes
    key: bytes


class Authority:
    """A certificate authority; `Authority.create` generates its key.

    >>> authority = Authority.create("konverge-test")
    >>> authority.client("jane", groups=("dev",)).certificate.startswith(b"-----BEGIN CERTIFICATE-----")
    True
    """

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self._certificate = certificate
        self._key = key

    @classmethod
    def create(cls, name: str) -> Authority:
        """Create a new authority; `name` is the issuer in its certificates."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        certificate = (
            _builder(subject, subject, key.public_key(), clock.wall_clock() - _CLOCK_SKEW)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(certificate, key)

    @property
    def certificate(self) -> bytes:
        """The authority's own certificate, PEM; the peer must trust it."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def server(self, name: str, hosts: Sequence[str]) -> KeyPair:
        """Issue a serving certificate for host names and addresses; usable for the client side too, as etcd's peers need."""
        names = x509.SubjectAlternativeName([general_name(host) for host in hosts])
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        return self._issue(subject, (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH), names)

    def client(self, user: str, *, groups: Sequence[str] = ()) -> KeyPair:
        """Issue a client certificate: the common name is the Kubernetes user, the organisations are the groups."""
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, user)])
        return self._issue(subject, (ExtendedKeyUsageOID.CLIENT_AUTH,), None)

    def _issue(
        self,
        subject: x509.Name,
        purposes: Sequence[x509.ObjectIdentifier],
        names: x509.SubjectAlternativeName | None,
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            _builder(subject, self._certificate.subject, key.public_key(), self._certificate.not_valid_before_utc)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), _private_pem(key))


def signing_key() -> bytes:
    """Generate the private key that signs ServiceAccount tokens, PEM; it contains the public key too."""
    return _private_pem(ec.generate_private_key(ec.SECP256R1()))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, valid_from: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(valid_from)
        .not_valid_after(valid_from + _VALIDITY)
    )


def general_name(host: str) -> x509.GeneralName:
    """Return a host as a name of a certificate: an IP address or a DNS name."""
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
