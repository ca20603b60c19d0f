"""The certificates that a cluster's servers issue: by a nonce the first time, by the old certificate after that."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from grpclib.const import Status
from grpclib.exceptions import GRPCError

from konverge_testing.nstance.pki import NonceRefused, NstanceAuthority

__all__ = ["Registrar"]


@dataclass
class Registrar:
    """Registers and renews clients of one cluster; only its leader may."""

    authority: NstanceAuthority
    cluster_id: str
    leader: str = ""
    """The shard that leads the cluster."""
    first_life: timedelta = timedelta(hours=24)
    renewed_life: timedelta = timedelta(days=365)
    single_use: bool = False
    """Refuse every second use of a nonce, as older servers do."""
    issued: int = 0
    _keys: dict[str, bytes] = field(default_factory=dict)

    def register(self, shard: str, nonce: str, public_key: bytes, role: str) -> tuple[bytes, datetime]:
        """Return the first certificate of a client and its end."""
        self._check_leader(shard)
        try:
            claims = self.authority.read_nonce(nonce)
        except NonceRefused as refused:
            raise GRPCError(Status.UNAUTHENTICATED, f"invalid nonce: {refused}") from refused
        if {claims.get("cluster_id"), claims.get("sub")} != {self.cluster_id}:
            raise GRPCError(Status.INVALID_ARGUMENT, "nonce is of another cluster")
        key = _public_key(public_key)
        digest = hashlib.sha256(nonce.encode()).hexdigest()
        used = self._keys.get(digest)
        if used is not None and (self.single_use or used != public_key):
            raise GRPCError(Status.UNAUTHENTICATED, "nonce was already used")
        self._keys[digest] = public_key
        return self._issue(key, str(claims["tenant"]), role, self.first_life)

    def renew(self, shard: str, tenant: str, public_key: bytes, role: str) -> tuple[bytes, datetime]:
        """Return the next certificate of a client and its end."""
        self._check_leader(shard)
        return self._issue(_public_key(public_key), tenant, role, self.renewed_life)

    def _issue(self, key: ed25519.Ed25519PublicKey, tenant: str, role: str, life: timedelta) -> tuple[bytes, datetime]:
        self.issued += 1
        return self.authority.client(key, cluster_id=self.cluster_id, tenant=tenant, role=role, life=life)

    def _check_leader(self, shard: str) -> None:
        if shard != self.leader:
            raise GRPCError(Status.FAILED_PRECONDITION, "this server is not the leader of the cluster")


def _public_key(pem: bytes) -> ed25519.Ed25519PublicKey:
    try:
        pem_public_key = load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise GRPCError(Status.INVALID_ARGUMENT, "public key is not PEM") from error
    if not isinstance(pem_public_key, ed25519.Ed25519PublicKey):
        raise GRPCError(Status.INVALID_ARGUMENT, "public key is not Ed25519")
    return pem_public_key
