"""The next step of an enrolment, from the stored objects.

The order makes every step safe to repeat after a crash: the key is stored before it is registered, the certificate before the nonce is
deleted, and the nonce is deleted only when the stored certificate was read back and accepted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from konverge.reconcilers.machines.identity.certificates import (
    CertificateRefused,
    OperatorCertificate,
    OperatorName,
    public_key_pem,
    read_certificate,
)
from konverge.reconcilers.machines.identity.names import IdentityNames

__all__ = [
    "NeedsAdministrator",
    "EnrolmentStep",
    "MakeKey",
    "RegisterKey",
    "StoredIdentity",
    "UseCertificate",
    "next_step",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredIdentity:
    """The contents of these objects; empty: missing. The repr hides keys and nonce."""

    ca: bytes = b""
    certificate: bytes = b""
    certificate_key: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)
    nonce: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class MakeKey:
    """Generate a key and store it."""


@dataclass(frozen=True, slots=True)
class RegisterKey:
    """Exchange nonce and key for a certificate, and store it."""


@dataclass(frozen=True, slots=True)
class UseCertificate:
    """The stored certificate is good; the nonce is no longer needed."""

    certificate: OperatorCertificate
    drops_nonce: bool


@dataclass(frozen=True, slots=True)
class NeedsAdministrator:
    """Nothing can be done until an administrator acts."""

    message: str


EnrolmentStep: TypeAlias = MakeKey | RegisterKey | UseCertificate | NeedsAdministrator


def next_step(stored: StoredIdentity, *, names: IdentityNames, owner: OperatorName, now: datetime) -> EnrolmentStep:
    """Return the next step."""
    if not stored.ca:
        return NeedsAdministrator(
            f"there is no authority: put the cluster's into ConfigMap {names.ca_configmap}, key ca.crt"
        )
    problem = f"there is no certificate in Secret {names.certificate_secret}"
    if stored.certificate:
        try:
            certificate = read_certificate(
                ca=stored.ca, certificate=stored.certificate, key=stored.certificate_key, owner=owner, now=now
            )
        except CertificateRefused as refused:
            problem = f"Secret {names.certificate_secret}: {refused}"
        else:
            return UseCertificate(certificate, drops_nonce=bool(stored.nonce))
    if not stored.nonce:
        return NeedsAdministrator(f"{problem}: put a new nonce into Secret {names.nonce_secret}, key nonce.jwt")
    if not stored.key:
        return MakeKey()
    try:
        public_key_pem(stored.key)
    except CertificateRefused as refused:
        return NeedsAdministrator(f"Secret {names.key_secret}: {refused}: delete it, and a new key is made")
    return RegisterKey()
