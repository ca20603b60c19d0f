"""The objects of an identity in the API server, read live: no cache has them.

Guarantees: keys are written to their own Secrets and nowhere else. A Secret that changed since it was read is not overwritten, and a nonce
that was replaced since then is not deleted: both raise Conflict, and everything is read again.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from konverge.client import Client
from konverge.objects import Object
from konverge.reconcilers.machines.identity.certificates import public_key_pem
from konverge.reconcilers.machines.identity.decide import StoredIdentity
from konverge.reconcilers.machines.identity.names import IdentityNames
from konverge.reconcilers.machines.kinds import CONFIG_MAP, SECRET

__all__ = ["IdentityStore"]


class IdentityStore:
    """The identity of one operator in a namespace."""

    def __init__(self, client: Client, namespace: str, names: IdentityNames) -> None:
        self.names = names
        self._client = client
        self._namespace = namespace
        self._seen: dict[str, Object] = {}

    async def read(self) -> StoredIdentity:
        """Return the stored objects as they are now."""
        self._seen.clear()
        authority = await self._client.find(CONFIG_MAP, self.names.ca_configmap, self._namespace)
        certificate = await self._data(self.names.certificate_secret)
        key = await self._data(self.names.key_secret)
        nonce = await self._data(self.names.nonce_secret)
        ca = "" if authority is None else str(authority.get("data", "ca.crt", default="") or "")
        return StoredIdentity(
            ca=ca.encode(),
            certificate=certificate.get("tls.crt", b""),
            certificate_key=certificate.get("tls.key", b""),
            key=key.get("private.key", b""),
            nonce=nonce.get("nonce.jwt", b"").decode("ascii", "replace").strip(),
        )

    async def save_key(self, private: bytes) -> None:
        """Store a new key; raises AlreadyExists or Conflict if a key exists now."""
        await self._write(self.names.key_secret, {"private.key": private, "public.key": public_key_pem(private)})

    async def save_certificate(self, certificate: bytes, key: bytes) -> None:
        """Store a certificate in place of the certificate that was read."""
        await self._write(self.names.certificate_secret, {"tls.crt": certificate, "tls.key": key})

    async def drop_nonce(self) -> None:
        """Delete the nonce that was read."""
        await self._client.delete(SECRET, expect=self._seen[self.names.nonce_secret])

    async def _data(self, name: str) -> dict[str, bytes]:
        secret = await self._client.find(SECRET, name, self._namespace)
        if secret is None:
            return {}
        self._seen[name] = secret
        try:
            return {
                str(key): base64.b64decode(value, validate=True)
                for key, value in (secret.get("data", default={}) or {}).items()
            }
        except (binascii.Error, ValueError, TypeError):
            return {}

    async def _write(self, name: str, data: Mapping[str, bytes]) -> None:
        encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
        seen = self._seen.get(name)
        if seen is None:
            body: dict[str, Any] = {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": name, "namespace": self._namespace},
                "type": "Opaque",
                "data": encoded,
            }
            await self._client.create(Object(body))
        else:
            await self._client.replace(Object({**seen.to_dict(), "data": encoded}))
