"""The services that the reconciles of one controller share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from konverge.client import Client
from konverge.keys import Key
from konverge.kinds import Kind
from konverge.objects import Metadata
from konverge.runtime.apply.applier import Applier
from konverge.runtime.apply.owners import Claims
from konverge.runtime.cache.readers import Caches

__all__ = ["Announce", "ReconcileServices"]


class Announce(Protocol):
    """Writes Kubernetes Events about the object in hand."""

    def __call__(self, reason: str, message: str, *, type_: str, action: str) -> None:
        """Record one event; never raises, never waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileServices:
    """What a context works with; the controller makes one for itself and one context for each pass."""

    controller: str
    kind: Kind[Any]
    client: Client
    caches: Caches
    applier: Applier
    manager: str
    owned: frozenset[Kind[Any]]
    claims: Claims
    wall_clock: Callable[[], datetime]
    serves: Callable[[Kind[Any]], bool]
    may_read_live: Callable[[Kind[Any]], bool] = lambda _: True
    statuses: Mapping[Kind[Any], str] = field(default_factory=dict)
    """Field managers of kinds of others whose status this controller writes too."""
    announce: Callable[[Kind[Any], Key, Metadata], Announce] | None = None
