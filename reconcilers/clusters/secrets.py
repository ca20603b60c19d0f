"""The Secrets of the agent: the credential, and the journal of jobs.

Guarantees: only `AgentCredentials` has the content of a credential, and its repr hides it. The Secret names the control plane that issued
the credential. Both Secrets belong to their Cluster by a controller reference; a Secret of another owner is refused. A journal is replaced
only at the version that was read, so of two agents one fails.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from konverge.client import Client
from konverge.clock import from_rfc3339, rfc3339
from konverge.errors import KonvergeError
from konverge.objects import Metadata, Object
from konverge.reconcilers.clusters.journal import Journal
from konverge.reconcilers.clusters.kinds import SECRET
from konverge.reconcilers.clusters.words import Annotation
from konverge.reconcilers.shared.endpoints import InvalidEndpoint, parse_endpoint
from konverge.reconcilers.shared.words import ControlPlaneLabel

__all__ = [
    "AgentCredentials",
    "ForeignSecret",
    "JournalStore",
    "SecretOwner",
    "SecretStore",
    "credentials_of",
    "issued_elsewhere",
    "server_of",
    "token_digest",
    "token_of",
]

_KEY = "credential"


class ForeignSecret(KonvergeError):
    """A Secret of the agent's name that belongs to another object."""


def token_digest(token: str) -> str:
    """Return the stored form of a registration token: the first part of its SHA-256."""
    return hashlib.sha256(token.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretOwner:
    """The Cluster that owns the Secrets."""

    api_version: str
    kind: str
    name: str
    uid: str
    cluster_id: str

    def reference(self) -> dict[str, Any]:
        """Return the controller reference."""
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCredentials:
    """A stored credential and its origin."""

    credential: str = field(repr=False)
    cluster_id: str
    token_digest: str = ""
    registered_at: str = ""
    issued_at: str = ""
    rotated_for: str = ""
    control_plane: str = ""
    """Scheme, host and port of the control plane that issued it; empty: not known, of an earlier release."""

    def belongs_to(self, control_plane: str) -> bool:
        """Tell whether the credential may be sent to a control plane."""
        return self.control_plane in ("", control_plane)

    def issued(self) -> datetime | None:
        """Return when the credential was issued."""
        try:
            return from_rfc3339(self.issued_at)
        except ValueError:
            return None


def _decoded(secret: Object) -> dict[str, bytes]:
    try:
        return {
            str(name): base64.b64decode(value, validate=True)
            for name, value in (secret.get("data", default={}) or {}).items()
        }
    except (binascii.Error, ValueError, TypeError):
        return {}


def token_of(secret: Object | None, key: str) -> str:
    """Return the registration token in a Secret, "" if it has none."""
    return "" if secret is None else _decoded(secret).get(key, b"").decode("utf-8", "replace").strip()


def credentials_of(secret: Object | None) -> AgentCredentials | None:
    """Return the credential in a Secret, None if it has none."""
    value = token_of(secret, _KEY)
    if secret is None or not value:
        return None
    metadata = secret.metadata
    return AgentCredentials(
        credential=value,
        cluster_id=metadata.label(ControlPlaneLabel.CLUSTER_ID),
        token_digest=metadata.annotation(Annotation.TOKEN_DIGEST),
        registered_at=metadata.annotation(Annotation.REGISTERED_AT),
        issued_at=metadata.annotation(Annotation.ISSUED_AT),
        rotated_for=metadata.annotation(Annotation.ROTATED_FOR),
        control_plane=metadata.annotation(Annotation.CONTROL_PLANE),
    )


def server_of(endpoint: str) -> str:
    """Return scheme, host and port of a control plane in one spelling.

    >>> server_of("https://Plane.example.com:443/east")
    'https://plane.example.com'
    """
    try:
        return str(parse_endpoint(endpoint))
    except InvalidEndpoint:  # a host with an underscore, for instance: its one spelling is the given one
        scheme, _, rest = endpoint.partition("://")
        return f"{scheme}://{rest.partition('/')[0]}"


def issued_elsewhere(credentials: AgentCredentials, endpoint: str) -> str:
    """Return the message about a credential of another control plane."""
    return (
        f"the credential was issued by {credentials.control_plane} and is not sent to {server_of(endpoint)}: give a registration token of "
        f"this control plane, or annotate the Secret with {Annotation.CONTROL_PLANE}={server_of(endpoint)} if both are the same"
    )


def owned_by(owner: SecretOwner, metadata: Metadata) -> bool:
    """Tell whether a Secret belongs to this Cluster, or to none."""
    reference = metadata.controller
    return reference is None or reference.uid == owner.uid


class SecretStore:
    """One Secret of the agent."""

    def __init__(self, client: Client, owner: SecretOwner, namespace: str, name: str) -> None:
        self._client = client
        self._owner = owner
        self.namespace = namespace
        self.name = name

    async def find(self) -> Object | None:
        """Return the Secret, None if there is none; raises ForeignSecret."""
        secret = await self._client.find(SECRET, self.name, self.namespace)
        if secret is not None and not owned_by(self._owner, secret.metadata):
            raise ForeignSecret(
                f"Secret {self.namespace}/{self.name} belongs to another object; there can be one Cluster in a cluster, "
                "so delete the other one, or this one"
            )
        return secret

    async def write(self, data: Mapping[str, bytes], annotations: Mapping[str, str], version: str = "") -> Object:
        """Create the Secret (`version` empty), or replace this version of it; raises Conflict if it changed, AlreadyExists."""
        metadata: dict[str, Any] = {
            "name": self.name,
            "namespace": self.namespace,
            "labels": {ControlPlaneLabel.CLUSTER_ID: self._owner.cluster_id},
            "annotations": dict(annotations),
            "ownerReferences": [self._owner.reference()],
        }
        if version:
            metadata["resourceVersion"] = version
        body = Object(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": metadata,
                "type": "Opaque",
                "data": {name: base64.b64encode(value).decode() for name, value in data.items()},
            }
        )
        return await (self._client.replace(body) if version else self._client.create(body))

    async def save_credentials(self, new: AgentCredentials, *, now: datetime) -> AgentCredentials:
        """Store a credential, and overwrite the Secret."""
        stored = await self.find()
        secret = await self.write(
            {_KEY: new.credential.encode()},
            {
                Annotation.TOKEN_DIGEST: new.token_digest,
                Annotation.REGISTERED_AT: new.registered_at or rfc3339(now),
                Annotation.ISSUED_AT: new.issued_at or rfc3339(now),
                Annotation.ROTATED_FOR: new.rotated_for,
                Annotation.CONTROL_PLANE: new.control_plane,
            },
            "" if stored is None else stored.metadata.resource_version,
        )
        saved = credentials_of(secret)
        assert saved is not None
        return saved


class JournalStore:
    """The stored journal, and its version at the last read or write."""

    def __init__(self, store: SecretStore) -> None:
        self._store = store
        self._version = ""

    async def load(self) -> Journal:
        """Return the stored journal, an empty one if there is none; raises Malformed, ForeignSecret."""
        secret = await self._store.find()
        self._version = "" if secret is None else secret.metadata.resource_version
        return Journal() if secret is None else Journal.decode(_decoded(secret))

    async def save(self, journal: Journal) -> None:
        """Store the journal; after an error it has to be loaded again. Raises Conflict if another agent wrote it."""
        self._version = (await self._store.write(journal.encode(), {}, self._version)).metadata.resource_version
