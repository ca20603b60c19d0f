"""Self-made certificates: an authority, and the serving certificates that it signs. Pure except for the generation of keys.

Guarantees: `renewed` compares the material with the time, and returns the same value if nothing is due, so that it is stored only if it
changed. A serving certificate is replaced when a third of its life is left, or when it lacks a needed name. An authority gets a
successor when a third of its life is left; from then on both are trusted, and the successor signs only once it has been trusted for a
while, so that no API server meets a certificate of an unknown authority. Material that cannot be read, or has expired, is generated
again.

Elliptic curve P-256. Nothing here shows a key in its repr. Imported only if certificates are self-made.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = ["Lives", "Material", "authority_name", "expiry_of", "is_of_authority", "renewed"]

_SKEW: Final = timedelta(hours=1)
"""A certificate is valid from this long before now: clocks of API servers differ."""
_SETTLING: Final = timedelta(hours=1)
_LONGEST_NAME: Final = 64


@dataclass(frozen=True, slots=True, repr=False)
class Material:
    """The content of one Secret, all PEM: the trusted authorities (the signing one first), its key, and the serving pair."""

    trusted: bytes
    authority_key: bytes
    certificate: bytes
    key: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Lives:
    """How long things are valid."""

    certificate: timedelta = timedelta(days=90)
    authority: timedelta = timedelta(days=1825)

    @property
    def settling(self) -> timedelta:
        """How long a new authority is trusted before it signs."""
        return min(_SETTLING, self.certificate / 10)


@dataclass(frozen=True, slots=True, repr=False)
class _Held:
    """Material, read."""

    authorities: tuple[x509.Certificate, ...]
    authority_key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate


def authority_name(secret: tuple[str, str]) -> str:
    """Return the common name of the authority whose key a Secret holds: it distinguishes our CA bundles from foreign bundles.

    >>> len(authority_name(("konverge", "konverge-webhooks"))) <= 64
    True
    """
    return f"konverge webhooks {hashlib.sha256('/'.join(secret).encode()).hexdigest()[:16]}"


def renewed(
    held: Material | None, *, authority: str, hosts: Sequence[str], now: datetime, lives: Lives | None = None
) -> Material:
    """Return the material to use from now on: the same value if nothing is due."""
    lives = lives or Lives()
    read = None if held is None else _read(held)
    if held is None or read is None or not _usable(read, now):
        return _issue(authority, hosts, now, lives)
    if _due(read.authorities[0], now):
        held = _followed(held, read, authority, now, lives)
        read = _read(held)
        assert read is not None
    late = not _is_for(read.certificate, hosts) or read.certificate.not_valid_after_utc <= now + lives.settling
    settled = now - _begun(read.authorities[0]) >= lives.settling
    if late or (_due(read.certificate, now) and settled):
        certificate, key = _signed(read.authorities[0], read.authority_key, hosts, now, lives)
        held = replace(held, certificate=certificate, key=key)
    return held


def expiry_of(certificate: bytes) -> datetime:
    """Return until when a certificate is valid; raises ValueError if the text is not a certificate."""
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc


def is_of_authority(bundle: bytes, authority: str) -> bool:
    """Return whether a CA bundle holds certificates of this authority and no others."""
    try:
        certificates = x509.load_pem_x509_certificates(bundle)
    except ValueError:
        return False
    return bool(certificates) and all(_common_name(certificate) == authority for certificate in certificates)


def _common_name(certificate: x509.Certificate) -> str:
    attributes = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(attributes[0].value) if attributes else ""


def _read(held: Material) -> _Held | None:
    """Return material as objects; None if it cannot be read, or if its parts do not belong together."""
    try:
        authorities = tuple(x509.load_pem_x509_certificates(held.trusted))
        authority_key = serialization.load_pem_private_key(held.authority_key, None)
        certificate = x509.load_pem_x509_certificate(held.certificate)
        key = serialization.load_pem_private_key(held.key, None)
    except (ValueError, TypeError):
        return None
    if not isinstance(authority_key, ec.EllipticCurvePrivateKey) or not authorities:
        return None
    if authority_key.public_key() != authorities[0].public_key() or key.public_key() != certificate.public_key():
        return None
    for authority in authorities:
        try:
            certificate.verify_directly_issued_by(authority)
        except (InvalidSignature, ValueError, TypeError):
            continue
        return _Held(authorities, authority_key, certificate)
    return None


def _usable(held: _Held, now: datetime) -> bool:
    return held.authorities[0].not_valid_after_utc > now and held.certificate.not_valid_after_utc > now


def _begun(certificate: x509.Certificate) -> datetime:
    return certificate.not_valid_before_utc + _SKEW


def _due(certificate: x509.Certificate, now: datetime) -> bool:
    end = certificate.not_valid_after_utc
    return now >= end - (end - _begun(certificate)) / 3


def _is_for(certificate: x509.Certificate, hosts: Sequence[str]) -> bool:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    return all(_general_name(host) in names for host in hosts)


def _issue(authority: str, hosts: Sequence[str], now: datetime, lives: Lives) -> Material:
    signer, key = _authority(authority, now, lives)
    certificate, serving = _signed(signer, key, hosts, now, lives)
    return Material(_pem(signer), _private_pem(key), certificate, serving)


def _followed(held: Material, read: _Held, authority: str, now: datetime, lives: Lives) -> Material:
    """Return the material with a new authority in front; older authorities stay trusted while they are valid."""
    signer, key = _authority(authority, now, lives)
    former = [authority for authority in read.authorities if authority.not_valid_after_utc > now]
    return replace(held, trusted=b"".join(map(_pem, (signer, *former))), authority_key=_private_pem(key))


def _authority(name: str, now: datetime, lives: Lives) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    builder = (
        _builder(subject, subject, key.public_key(), now, now + lives.authority)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(identifier, critical=False)
    )
    return builder.sign(key, hashes.SHA256()), key


def _signed(
    signer: x509.Certificate, signer_key: ec.EllipticCurvePrivateKey, hosts: Sequence[str], now: datetime, lives: Lives
) -> tuple[bytes, bytes]:
    """Return a serving certificate for these hosts, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    end = min(now + lives.certificate, signer.not_valid_after_utc)
    builder = (
        _builder(_name(hosts[0][:_LONGEST_NAME]), signer.subject, key.public_key(), now, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer_key.public_key()), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return _pem(builder.sign(signer_key, hashes.SHA256())), _private_pem(key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(end)
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    unused: dict[str, Any] = dict.fromkeys(
        (
            "content_commitment",
            "key_encipherment",
            "data_encipherment",
            "key_agreement",
            "encipher_only",
            "decipher_only",
        ),
        False,
    )
    return x509.KeyUsage(
        digital_signature=True, key_cert_sign=signs_certificates, crl_sign=signs_certificates, **unused
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
