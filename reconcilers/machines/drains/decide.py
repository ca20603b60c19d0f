"""Which pods of a Node have to go, and until when a drain may take. Pure.

Source: https://github.com/kubernetes/kubectl/blob/master/pkg/drain/filters.go.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from konverge.objects import Object

__all__ = ["DrainTimes", "PodsLeft", "drain_times", "pods_left"]

_MIRROR: Final = "kubernetes.io/config.mirror"
_FINISHED: Final = frozenset({"Succeeded", "Failed"})


class _Fate(enum.Enum):
    STAYS = "stays"
    ENDS = "ends"
    EVICT = "evict"


@dataclass(frozen=True, slots=True)
class PodsLeft:
    """The pods that a drain waits for."""

    evict: tuple[Object, ...] = ()
    ending: tuple[Object, ...] = ()
    """The pods that are being deleted already."""

    def __len__(self) -> int:
        return len(self.evict) + len(self.ending)


@dataclass(frozen=True, slots=True)
class DrainTimes:
    """The times of a drain, in seconds from now; a negative time is past."""

    give_up: float
    """The drain waits for pods until this time."""
    delete: float
    """The server deletes the instance at this time."""


def pods_left(pods: Iterable[Object]) -> PodsLeft:
    """Return the pods that a drain waits for: all but DaemonSet pods, mirror pods and finished pods."""
    fates = [(_fate(pod), pod) for pod in pods]
    return PodsLeft(
        tuple(pod for fate, pod in fates if fate is _Fate.EVICT),
        tuple(pod for fate, pod in fates if fate is _Fate.ENDS),
    )


def _fate(pod: Object) -> _Fate:
    metadata = pod.metadata
    owner = metadata.controller
    if _MIRROR in (metadata.annotations or {}) or pod.get("status", "phase", default="") in _FINISHED:
        return _Fate.STAYS
    if owner is not None and (owner.kind, owner.group) == ("DaemonSet", "apps"):
        return _Fate.STAYS
    return _Fate.ENDS if metadata.deleting else _Fate.EVICT


def drain_times(delete_at: datetime | None, now: datetime, *, timeout: float, margin: float) -> DrainTimes:
    """Return the times of a drain. `timeout` holds if the server names no time of the deletion; `margin` is at most a quarter of the drain.

    >>> from konverge.clock import from_rfc3339
    >>> now, then = from_rfc3339("2026-01-01T00:00:00Z"), from_rfc3339("2026-01-01T00:00:20Z")
    >>> drain_times(then, now, timeout=300, margin=15), drain_times(None, now, timeout=300, margin=15)
    (DrainTimes(give_up=15.0, delete=20.0), DrainTimes(give_up=285, delete=300))
    """
    left = timeout if delete_at is None else (delete_at - now).total_seconds()
    return DrainTimes(left - min(margin, max(left, 0.0) / 4), left)
