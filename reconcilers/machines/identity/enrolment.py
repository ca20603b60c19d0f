"""A nonce becomes a certificate, and a certificate is renewed.

Guarantees: each step is stored before the next step begins (`decide.py` has the order), so a crash or a lost response anywhere leads to the
same certificate by the same key. The shards are called until one responds: only the server that leads the cluster issues certificates.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from cryptography import x509

from konverge.client.credentials import TlsMaterial
from konverge.clock import wall_clock
from konverge.errors import KonvergeError
from konverge.reconcilers.machines.identity.certificates import (
    CertificateRefused,
    OperatorCertificate,
    OperatorName,
    private_key_pem,
    public_key_pem,
    read_certificate,
)
from konverge.reconcilers.machines.identity.decide import MakeKey, NeedsAdministrator, UseCertificate, next_step
from konverge.reconcilers.machines.identity.store import IdentityStore
from konverge.reconcilers.machines.shards.client import ShardClient, register_operator
from konverge.reconcilers.machines.shards.dialing import Dial
from konverge.reconcilers.machines.shards.document import ShardMap
from konverge.reconcilers.machines.shards.failures import ShardFailure

__all__ = ["Enrolled", "EnrolmentBlocked", "EnrolmentFailed", "Enrolment"]


class EnrolmentBlocked(KonvergeError):
    """An administrator has to act before a certificate can be used; the message has the remedy."""


class EnrolmentFailed(KonvergeError):
    """No shard issued a certificate; trying again can help. The message has the failure of each."""


@dataclass(frozen=True, slots=True)
class Enrolled:
    """The certificate in use."""

    certificate: OperatorCertificate
    tls: TlsMaterial = field(repr=False)


class Enrolment:
    """Gets and renews the certificate of one operator. `dial` creates channels, `entropy` returns random bytes."""

    def __init__(
        self,
        store: IdentityStore,
        *,
        owner: OperatorName,
        dial: Callable[[TlsMaterial], Awaitable[Dial]],
        entropy: Callable[[int], bytes],
        seconds: float,
    ) -> None:
        self._store = store
        self._owner = owner
        self._dial = dial
        self._entropy = entropy
        self._seconds = seconds

    async def enrol(self, shards: ShardMap) -> Enrolled:
        """Return the stored certificate, after getting one if there is none; raises EnrolmentBlocked, EnrolmentFailed."""
        registered = False
        while True:
            stored = await self._store.read()
            step = next_step(stored, names=self._store.names, owner=self._owner, now=wall_clock())
            if isinstance(step, NeedsAdministrator):
                raise EnrolmentBlocked(step.message)
            if isinstance(step, UseCertificate):
                if step.drops_nonce:
                    await self._store.drop_nonce()
                return Enrolled(
                    step.certificate,
                    TlsMaterial(ca=stored.ca, certificate=stored.certificate, key=stored.certificate_key),
                )
            if isinstance(step, MakeKey):
                await self._store.save_key(private_key_pem(self._entropy(32)))
                continue
            if registered:
                raise EnrolmentBlocked(
                    "the certificate that was issued is not accepted: check the authority and the names in the settings"
                )
            registered = True
            issued = await self._register(shards, stored.ca, stored.nonce, public_key_pem(stored.key))
            await self._store.save_certificate(issued, stored.key)

    async def follow_authority(
        self, enrolled: Enrolled, shards: ShardMap, clients: Iterable[Callable[[], ShardClient]]
    ) -> Enrolled:
        """Return the certificate to use with the authority that is stored now; raises EnrolmentBlocked, EnrolmentFailed.

        Use the current certificate if that authority signed it too; else enrol with the nonce, if any; else renew.
        """
        stored = await self._store.read()
        if stored.ca == enrolled.tls.ca:
            return enrolled
        try:
            return await self.enrol(shards)
        except EnrolmentBlocked as blocked:
            if not stored.ca:
                raise
            try:
                x509.load_pem_x509_certificates(stored.ca)
            except ValueError:
                raise EnrolmentBlocked("it is not PEM") from blocked
            try:
                return await self.renew(enrolled, clients)
            except EnrolmentFailed as failed:
                raise EnrolmentBlocked(f"{blocked}; {failed}") from failed

    async def renew(self, enrolled: Enrolled, clients: Iterable[Callable[[], ShardClient]]) -> Enrolled:
        """Return the next certificate of the same key, stored; raises EnrolmentFailed."""
        stored = await self._store.read()
        failures: list[str] = []
        for client in clients:
            try:
                issued = await client().renew_certificate(public_key_pem(enrolled.tls.key))
                certificate = read_certificate(
                    ca=stored.ca, certificate=issued, key=enrolled.tls.key, owner=self._owner, now=wall_clock()
                )
            except (ShardFailure, CertificateRefused) as failure:
                failures.append(str(failure))
                continue
            await self._store.save_certificate(issued, enrolled.tls.key)
            return Enrolled(certificate, TlsMaterial(ca=stored.ca, certificate=issued, key=enrolled.tls.key))
        raise EnrolmentFailed(f"no shard renewed the certificate: {'; '.join(failures) or 'there are none'}")

    async def _register(self, shards: ShardMap, ca: bytes, nonce: str, public: bytes) -> bytes:
        dial = await self._dial(TlsMaterial(ca=ca))
        failures: list[str] = []
        for name, addresses in sorted(shards.shards.items()):
            channel = dial(addresses.registration)
            try:
                return await register_operator(name, channel, nonce=nonce, public_key=public, seconds=self._seconds)
            except ShardFailure as failure:
                failures.append(str(failure))
            finally:
                channel.close()
        raise EnrolmentFailed(f"no shard registered the operator: {'; '.join(failures)}")


async def sleep_until(moment: datetime) -> None:
    """Return when the wall clock shows this time."""
    while (left := (moment - wall_clock()).total_seconds()) > 0:
        await asyncio.sleep(min(left, 3600.0))  # the wall clock may be set while this waits
