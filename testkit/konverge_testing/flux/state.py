"""The types of the Flux stand-in: the world below Flux, a controller's view of the cluster, and the effects of one reconcile.

A reconcile of the stand-in is a generator of effects: each is one write to the API server, in the order of the recorded controllers
(tests/recordings/flux). So the same code runs against a dict in a unit test and against a real API server.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol, TypeAlias

from konverge.clock import rfc3339

__all__ = [
    "FINALIZER",
    "Conditions",
    "Delete",
    "Effect",
    "Effects",
    "Finalizer",
    "Object_",
    "Put",
    "Retry",
    "Status",
    "ClusterView",
    "World",
    "digest",
]

Object_: TypeAlias = dict[str, Any]
"""An object as plain JSON data."""

FINALIZER: Final = "finalizers.fluxcd.io"
"""Keeps HelmReleases and sources until Flux removes it."""

_FIRST = ("Reconciling", "Stalled", "Ready", "FetchFailed", "ArtifactOutdated")


@dataclass(slots=True)
class World:
    """The world below Flux: repositories, charts, and the outcomes of Helm's actions. Change it while Flux runs.

    >>> World(refused={"1.2.0": "Service is invalid"}).trouble("1.2.0")
    'Service is invalid'
    """

    versions: set[str] | None = None
    """Chart versions that exist; None: every version."""
    unreachable: set[str] = field(default_factory=set)
    """URLs that do not respond, with everything below them."""
    mirrors: dict[str, str] = field(default_factory=dict)
    """URLs with the same content as another URL, bit by bit: mirror to original."""
    refused: dict[str, str] = field(default_factory=dict)
    """Chart versions that the API server refuses, with its text."""
    slow: set[str] = field(default_factory=set)
    """Chart versions whose workloads never become ready."""
    failing_tests: set[str] = field(default_factory=set)
    """Chart versions whose `helm test` fails."""
    stuck: dict[str, str] = field(default_factory=dict)
    """Releases (`namespace/name`) that cannot be uninstalled, with Helm's text."""
    drifted: set[str] = field(default_factory=set)
    """Releases (`namespace/name`) whose objects were changed by hand."""
    installed: dict[str, str] = field(default_factory=dict)
    """The installed chart version of each release (`namespace/name`). Written by Flux."""

    def trouble(self, version: str) -> str:
        """Return how an install or upgrade to this version fails, or "" if it does not."""
        if version in self.refused:
            return self.refused[version]
        if version in self.slow:
            return "context deadline exceeded: timeout waiting for: [Deployment status: 'InProgress']"
        return ""

    def exists(self, version: str) -> bool:
        """Return whether a chart of this version exists."""
        return self.versions is None or version in self.versions

    def content(self, url: str) -> str:
        """Return the URL that identifies this URL's content: a mirror has the content of its original."""
        return self.mirrors.get(url, url)

    def answers(self, url: str) -> bool:
        """Return whether this URL responds."""
        return not any(url == dead or url.startswith(f"{dead.rstrip('/')}/") for dead in self.unreachable)


class ClusterView(Protocol):
    """A controller's view of the cluster: the newest stored objects."""

    def find(self, kind: str, namespace: str, name: str) -> Object_ | None:
        """Return an object, or None if there is none."""

    def now(self) -> datetime:
        """Return the present moment."""


@dataclass(frozen=True, slots=True)
class Status:
    """Write the status of the reconciled object."""

    status: Object_


@dataclass(frozen=True, slots=True)
class Finalizer:
    """Add (or remove) Flux's finalizer on the reconciled object."""

    present: bool


@dataclass(frozen=True, slots=True)
class Put:
    """Create another object, or give it this spec."""

    object: Object_


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete another object."""

    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Retry:
    """End the reconcile; repeat it after so many seconds, or (None) after the backoff of failures."""

    seconds: float | None


Effect: TypeAlias = Status | Finalizer | Put | Delete | Retry
Effects: TypeAlias = Iterator[Effect]


class Conditions:
    """The conditions of a status that a reconcile edits, as fluxcd/pkg sets them.

    lastTransitionTime changes with status, reason or message; abnormal conditions are stored first. Reconciling
    and Stalled exclude each other.
    """

    def __init__(self, status: Object_, generation: int, now: datetime) -> None:
        self._status = status
        self._generation = generation
        self._now = now
        self._entries = {entry["type"]: entry for entry in status.get("conditions", ())}

    def set(self, type_: str, status: str, reason: str, message: str = "") -> None:
        """Set one condition."""
        before = self._entries.get(type_, {})
        same = (before.get("status"), before.get("reason"), before.get("message")) == (status, reason, message)
        self._entries[type_] = {
            "type": type_,
            "status": status,
            "reason": reason,
            "message": message,
            "observedGeneration": self._generation,
            "lastTransitionTime": before["lastTransitionTime"] if same else rfc3339(self._now),
        }
        if status == "True" and type_ in ("Reconciling", "Stalled"):
            self._entries.pop("Stalled" if type_ == "Reconciling" else "Reconciling", None)
        self._store()

    def stamp(self, type_: str) -> None:
        """Set the observedGeneration of a condition to the present generation."""
        if type_ in self._entries:
            self._entries[type_] = {**self._entries[type_], "observedGeneration": self._generation}
            self._store()

    def drop(self, *types: str) -> None:
        """Remove conditions."""
        for type_ in types:
            self._entries.pop(type_, None)
        self._store()

    def find(self, type_: str) -> Object_ | None:
        """Return a condition."""
        return self._entries.get(type_)

    def is_(self, type_: str, status: str) -> bool:
        """Return whether a condition has this status."""
        return bool(self._entries.get(type_, {}).get("status") == status)

    def _store(self) -> None:
        def place(entry: Mapping[str, Any]) -> tuple[int, str]:
            return (_FIRST.index(entry["type"]) if entry["type"] in _FIRST else len(_FIRST), entry["type"])

        self._status["conditions"] = sorted(self._entries.values(), key=place)


def digest(value: Any) -> str:
    """Return `sha256:<hex>` of plain data or of a text."""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
