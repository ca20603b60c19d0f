"""The authority of an Nstance cluster: Ed25519 certificates of servers and clients, and the nonces of registrations.

Guarantees: certificates have the names, extensions and empty fields of the real server's (docs/reference/machines.md#registration). Keys
exist only in memory.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from konverge.clock import wall_clock
from konverge_testing.apiserver.certificates import KeyPair, general_name

__all__ = ["ROLE", "NonceRefused", "NstanceAuthority", "public_pem", "role_of"]

ROLE: Final = x509.ObjectIdentifier("1.3.6.1.4.1.999999.1")
"""The extension of a client certificate that holds the role, as a DER string."""

_SKEW = timedelta(minutes=1)
_AUTHORITY_LIFE = timedelta(days=3650)
_UTF8_STRING = 0x0C


class NonceRefused(Exception):
    """A nonce whose signature, kind or expiry is wrong."""


def public_pem(key: ed25519.Ed25519PrivateKey) -> bytes:
    """Return the public half of a key as PEM "PUBLIC KEY"."""
    return key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def role_of(certificate: x509.Certificate) -> str:
    """Return the role of a client certificate; empty if it has none."""
    try:
        result = certificate.extensions.get_extension_for_oid(ROLE).value
    except x509.ExtensionNotFound:
        return ""
    return result.value[2:].decode() if isinstance(result, x509.UnrecognizedExtension) else ""


@dataclass(frozen=True, slots=True)
class _Issuer:
    key: ed25519.Ed25519PrivateKey
    certificate: x509.Certificate


class NstanceAuthority:
    """The authority of one cluster; `random` generates its keys, so that runs repeat."""

    def __init__(self, cluster_id: str, random: Random) -> None:
        self._random = random
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{cluster_id} CA")])
        self._nonce_key = self.private_key()
        self._issuer = self._made()
        self._trusted = [self._issuer.certificate]

    @property
    def certificate(self) -> bytes:
        """The certificate of the authority that signs now, PEM."""
        return _pem(self._issuer.certificate)

    @property
    def trusted(self) -> bytes:
        """The certificates of all authorities whose clients are accepted, PEM."""
        return b"".join(_pem(item) for item in self._trusted)

    def rotate(self) -> None:
        """Sign with a new key from now on; clients of the former key are accepted until `forget_older`."""
        self._issuer = self._made()
        self._trusted.append(self._issuer.certificate)

    def forget_older(self) -> None:
        """Accept only clients of the key that signs now."""
        self._trusted = [self._issuer.certificate]

    def signs_for(self, trusted: bytes) -> bool:
        """Return whether a client that trusts these certificates, PEM, accepts the servers."""
        try:
            return self._issuer.certificate in x509.load_pem_x509_certificates(trusted)
        except ValueError:
            return False

    def private_key(self) -> ed25519.Ed25519PrivateKey:
        """Return a new key."""
        return ed25519.Ed25519PrivateKey.from_private_bytes(self._random.randbytes(32))

    def signed(self, certificate: x509.Certificate) -> bool:
        """Return whether a certificate is of an authority whose clients are accepted, and valid now."""
        if not any(_issued(certificate, item) for item in self._trusted):
            return False
        return certificate.not_valid_before_utc <= wall_clock() < certificate.not_valid_after_utc

    def server(self, hosts: Sequence[str]) -> KeyPair:
        """Return a server's certificate for hosts, and its key."""
        key = self.private_key()
        every = dict.fromkeys(["nstance-server", "localhost", "127.0.0.1", "::1", *hosts])
        empty = (NameOID.LOCALITY_NAME, NameOID.STATE_OR_PROVINCE_NAME, NameOID.STREET_ADDRESS, NameOID.POSTAL_CODE)
        subject = x509.Name(
            [
                x509.NameAttribute(NameOID.COMMON_NAME, "nstance-server"),
                *(x509.NameAttribute(field, "", _validate=False) for field in empty),
            ]
        )
        manifest = self._leaf(subject, key.public_key(), timedelta(days=365), ExtendedKeyUsageOID.SERVER_AUTH)
        manifest = manifest.add_extension(
            x509.SubjectAlternativeName([general_name(host) for host in every]), critical=False
        )
        return KeyPair(
            _pem(manifest.sign(self._issuer.key, None)),
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            ),
        )

    def client(
        self, public_key: ed25519.Ed25519PublicKey, *, cluster_id: str, tenant: str, role: str, life: timedelta
    ) -> tuple[bytes, datetime]:
        """Return a client certificate, PEM, and its end."""
        subject = x509.Name(
            [
                x509.NameAttribute(NameOID.COMMON_NAME, cluster_id),
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, tenant),
            ]
        )
        words = role.encode()
        value = x509.UnrecognizedExtension(ROLE, bytes([_UTF8_STRING, len(words)]) + words)
        manifest = self._leaf(subject, public_key, life, ExtendedKeyUsageOID.CLIENT_AUTH)
        signed = manifest.add_extension(value, critical=False).sign(self._issuer.key, None)
        return _pem(signed), signed.not_valid_after_utc

    def nonce(self, claims: Mapping[str, object], life: timedelta = timedelta(hours=3)) -> str:
        """Return the nonce of a registration with these claims; the claims of its kind, id and times are added."""
        now = int(wall_clock().timestamp())
        message = {
            "kind": "operator",
            "iat": now,
            "exp": now + int(life.total_seconds()),
            "jti": f"{self._random.getrandbits(64):016x}",
            **claims,
        }
        signed = f"{_encode({'alg': 'EdDSA', 'typ': 'JWT'})}.{_encode(message)}"
        return f"{signed}.{_base64(self._nonce_key.sign(signed.encode()))}"

    def read_nonce(self, nonce: str) -> Mapping[str, Any]:
        """Return the claims of a valid nonce, or raise NonceRefused."""
        head, _, signature = nonce.rpartition(".")
        header, _, claims = head.partition(".")
        try:
            message, read = json.loads(_decode(header)), json.loads(_decode(claims))
            if message["alg"] != "EdDSA":
                raise NonceRefused("unexpected signing method")
            self._nonce_key.public_key().verify(_decode(signature), head.encode())
        except InvalidSignature as error:
            raise NonceRefused("signature is invalid") from error
        except (ValueError, KeyError, TypeError, binascii.Error) as error:
            raise NonceRefused("token is malformed") from error
        if read.get("kind") != "operator":
            raise NonceRefused("nonce is of another kind")
        if read.get("exp", 0) <= wall_clock().timestamp():
            raise NonceRefused("token is expired")
        result: Mapping[str, Any] = read
        return result

    def _made(self) -> _Issuer:
        key = self.private_key()
        manifest = (
            self._builder(self._name, key.public_key(), _AUTHORITY_LIFE)
            .issuer_name(self._name)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, None)
        )
        return _Issuer(key, manifest)

    def _builder(self, subject: x509.Name, key: ed25519.Ed25519PublicKey, life: timedelta) -> x509.CertificateBuilder:
        now = wall_clock()
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .public_key(key)
            .serial_number(self._random.getrandbits(120) + 1)
            .not_valid_before(now - _SKEW)
            .not_valid_after(now + life)
        )

    def _leaf(
        self, subject: x509.Name, key: ed25519.Ed25519PublicKey, life: timedelta, usage: x509.ObjectIdentifier
    ) -> x509.CertificateBuilder:
        issuer = self._issuer
        return (
            self._builder(subject, key, life)
            .issuer_name(issuer.certificate.subject)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.key.public_key()), critical=False)
        )


def _issued(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _encode(value: object) -> str:
    return _base64(json.dumps(value, separators=(",", ":")).encode())


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
