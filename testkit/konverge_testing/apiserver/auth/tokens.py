"""ServiceAccount tokens: JWTs that this server signs (HS256, a key of its own); tokens of other servers are refused.

Guarantees: pure; no function reads a clock or an object. The claims are a real server's (issuer, subject, audience, times, jti,
`kubernetes.io`), the signature is not: a real server signs with RSA or an elliptic curve, which would slow the start and which no
component here verifies. `read` returns the claims of a token that this key signed, None for anything else; the authenticator decides
whether they are still valid. The claims follow Kubernetes' `pkg/serviceaccount/claims.go`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeAlias

__all__ = ["ISSUER", "Bound", "Signer", "claims_for"]

ISSUER: Final = "https://kubernetes.default.svc.cluster.local"

Data: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Bound:
    """The object that a token is bound to besides the ServiceAccount: a Pod, Node or Secret; and the pod's node."""

    kind: str
    name: str
    uid: str
    node: tuple[str, str] = ("", "")
    """Name and uid of the node that a bound pod runs on."""


def claims_for(
    account: Data, audiences: Sequence[str], now: datetime, seconds: int, uid: str, bound: Bound | None = None
) -> Data:
    """Return the claims of a new token for a ServiceAccount."""
    metadata = account["metadata"]
    own: Data = {"namespace": metadata["namespace"]}
    if bound is not None:
        if bound.kind == "Pod" and bound.node[0]:
            own["node"] = _reference(*bound.node)
        own[bound.kind.lower()] = _reference(bound.name, bound.uid)
    own["serviceaccount"] = _reference(metadata["name"], metadata.get("uid", ""))
    moment = int(now.timestamp())
    return {
        "aud": list(audiences),
        "exp": moment + seconds,
        "iat": moment,
        "iss": ISSUER,
        "jti": uid,
        "kubernetes.io": own,
        "nbf": moment,
        "sub": f"system:serviceaccount:{metadata['namespace']}:{metadata['name']}",
    }


def _reference(name: str, uid: str) -> dict[str, str]:
    return {"name": name, "uid": uid} if uid else {"name": name}


class Signer:
    """One signing key."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        identity = hashlib.sha256(b"key id:" + key).digest()
        self._head = _encode({"alg": "HS256", "kid": _base64(identity)})

    def sign(self, claims: Data) -> str:
        """Return the token."""
        text = f"{self._head}.{_encode(claims)}"
        return f"{text}.{self._signature(text)}"

    def read(self, token: str) -> Data | None:
        """Return the claims of a token that this key has signed."""
        text, _, signature = token.rpartition(".")
        if text.count(".") != 1 or not hmac.compare_digest(self._signature(text).encode(), signature.encode()):
            return None
        return _decode(text.partition(".")[2])

    def resembles(self, token: str) -> bool:
        """Tell whether a token names this issuer; its signature is not checked."""
        parts = token.split(".")
        return len(parts) == 3 and (_decode(parts[1]) or {}).get("iss") == ISSUER

    def _signature(self, text: str) -> str:
        return _base64(hmac.new(self._key, text.encode(), hashlib.sha256).digest())


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def _encode(document: Data) -> str:
    return _base64(json.dumps(document, separators=(",", ":")).encode())


def _decode(part: str) -> Data | None:
    try:
        found = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (binascii.Error, ValueError):
        return None
    return found if isinstance(found, dict) else None
